"""Pull requests on GitHub, by the command `gh`, which brings the address and the token."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from reviser.errors import ReviserError, reason_of
from reviser.reviews.comments import Comment
from reviser.reviews.patches import Patch


class PullRequest:
    """A pull request of the repository in the working folder, or of the one in GH_REPO."""

    def __init__(self, number: int) -> None:
        self._path = f"repos/{{owner}}/{{repo}}/pulls/{number}"  # gh fills in the names

    def head(self) -> str:
        """Return the newest commit."""
        return _gh(self._path, "--jq", ".head.sha").strip()

    def patches(self) -> list[Patch]:
        """Return the changed files."""
        shown = _gh(f"{self._path}/files", "--paginate", "--jq", ".[] | {filename, patch}")
        return [Patch.from_github(each) for each in _records(shown)]

    def comments(self) -> set[Comment]:
        """Return the comments that are there, so that none is posted twice."""
        wanted = ".[] | {path, body, line, start_line} | select(.line)"
        shown = _gh(f"{self._path}/comments", "--paginate", "--jq", wanted)
        return {Comment(**each) for each in _records(shown)}

    def post(self, review: dict[str, Any]) -> None:
        """Post a review."""
        _gh(f"{self._path}/reviews", "--method", "POST", "--input", "-", data=json.dumps(review))


def _records(lines: str) -> list[dict[str, Any]]:
    """Read JSON lines; characters such as U+2028 inside a line do not end it."""
    return [json.loads(line) for line in lines.split("\n") if line]


def _gh(*words: str, data: str | None = None) -> str:
    """Return what a call of GitHub's API prints."""
    try:
        done = subprocess.run(
            ["gh", "api", *words], input=data, capture_output=True, text=True, check=True
        )
    except FileNotFoundError as error:
        raise ReviserError(
            "This command needs the GitHub CLI (gh), which is not installed: see"
            " https://cli.github.com."
        ) from error
    except subprocess.CalledProcessError as error:
        reason = reason_of(RuntimeError(error.stderr.strip()))
        raise ReviserError(f"GitHub refused {words[0]!r}: {reason}") from error
    return done.stdout
