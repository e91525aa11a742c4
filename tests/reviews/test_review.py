"""Suggestions on a pull request: lines, groups and fences, and the command with a recording gh."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import reviser.writing.model
from reviser.cli import main
from reviser.errors import DataError
from reviser.reviews.comments import MOST_COMMENTS, Comment, comments_of, review_of
from reviser.reviews.patches import Patch
from reviser.writing.changes import Change, Changes
from support import correcting

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join(filter(None, sys.path))


def command_of(folder: Path) -> None:
    """Put a `reviser` with a small model into a folder of the path."""
    command = folder / "reviser"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m support.correcting_command "$@"\n')
    command.chmod(0o755)


def change(
    start: int, end: int, before: str, after: str, confidence: float | None = None
) -> Change:
    return Change(start=start, end=end, before=before, after=after, logprob=0.0, actions=1,
                  confidence=confidence)  # fmt: skip


def changed(draft: str, *edits: tuple[str, str]) -> Changes:
    """Return changes of the first occurrence of each text after the one before."""
    found, at = [], 0
    for before, after in edits:
        start = draft.index(before, at)
        at = start + len(before)
        found.append(change(start, at, before, after))
    return Changes(draft=draft, changes=tuple(found))


def suggested(comment: Comment) -> str:
    """Return the text of a suggestion."""
    fence, text = comment.body.split("suggestion\n", 1)
    fence = fence.rpartition("\n")[2]
    assert text.endswith(f"\n{fence}")
    return text.removesuffix(f"\n{fence}")


def test_added_lines_are_numbered_by_the_new_file() -> None:
    patch = Patch.from_github({
        "filename": "a.md",
        "patch": "@@ -1,3 +1,4 @@ head\n one\n-two\n+Two\n+more\n three\n@@ -9 +10,2 @@\n ten\n+11"
                 "\n\\ No newline at end of file",
    })  # fmt: skip
    assert patch.added == {2: "Two", 3: "more", 11: "11"}
    for values in ({"patch": None}, {}, {"patch": "@@ -1 +0,0 @@\n-gone"}):
        assert Patch.from_github({"filename": "a.png", **values}).added == {}


def test_text_that_is_not_added_is_locked_and_another_file_is_refused() -> None:
    patch = Patch(path="a.md", added={2: "two", 4: "four"})
    text = "one\ntwo\r\nthree\nfour"
    spans = patch.unchanged_spans(text)
    assert [text[a:b] for a, b in spans] == ["one\n", "three\n"]
    for other in ("one\n2\n", "one"):
        with pytest.raises(DataError, match=r"Line 2 of 'a.md' differs from the pull request"):
            patch.unchanged_spans(other)


def test_one_comment_per_group_of_lines_and_only_on_added_ones() -> None:
    draft = "a teh b teh\nfine\nteh c\nlast teh\n"
    changes = changed(draft, ("teh", "the"), ("teh", "the"), ("teh", "the"), ("teh", "the"))
    found = comments_of("a.md", changes, {1, 2, 3})
    assert [(each.line, each.start_line, suggested(each)) for each in found] == [
        (1, None, "a the b the"),
        (3, None, "the c"),
    ]
    assert found[0].to_dict() == {
        "path": "a.md", "line": 1, "side": "RIGHT", "body": "```suggestion\na the b the\n```",
    }  # fmt: skip


def test_a_change_over_lines_is_one_suggestion_for_all_of_them() -> None:
    draft = "one\ntwo teh\nthree teh\nfour\n"
    changes = changed(draft, ("one\ntwo", "1 2"), ("teh\nthree teh", "x\ny\nz"))
    [comment] = comments_of("a.md", changes, {1, 2, 3})
    assert (comment.start_line, comment.line, suggested(comment)) == (1, 3, "1 2 x\ny\nz")
    assert comment.to_dict()["start_side"] == "RIGHT"
    assert comments_of("a.md", changes, {1, 3}) == []  # one of its lines is not in the diff
    [removed] = comments_of("a.md", changed(draft, ("one\n", "")), {1, 2})
    assert (removed.start_line, removed.line, suggested(removed)) == (1, 2, "two teh")


def test_fences_are_longer_than_those_in_the_text_and_confidence_is_the_lowest() -> None:
    draft = "````` teh and teh\r\n"
    changes = Changes(draft=draft, changes=(
        change(6, 9, "teh", "the", 0.9), change(14, 17, "teh", "the", 0.625),
    ))  # fmt: skip
    [comment] = comments_of("a.md", changes, {1})
    assert comment.body == ("Confidence: 62%\n\n``````suggestion\n````` the and the\n``````")


@given(st.text("ab\n", max_size=20), st.data())
def test_applying_all_suggestions_gives_the_revised_text(draft: str, data: st.DataObject) -> None:
    edges = data.draw(st.sets(st.integers(0, len(draft)), max_size=8).map(sorted))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    made = [change(a, b, draft[a:b], data.draw(st.text("xy\n", max_size=3))) for a, b in pairs]
    changes = Changes(draft=draft, changes=tuple(made))
    lines = draft.split("\n")
    comments = comments_of("a", changes, range(1, len(lines) + 1))
    for comment in reversed(comments):
        first = comment.start_line or comment.line
        lines[first - 1 : comment.line] = suggested(comment).split("\n")
    assert "\n".join(lines) == changes.text


def test_a_review_has_a_limit() -> None:
    comments = [Comment(path="a", body="b", line=n) for n in range(MOST_COMMENTS + 2)]
    review = review_of(comments, "abc")
    assert len(review["comments"]) == MOST_COMMENTS
    assert review["body"] == "Reviser has 52 suggestions. The first 50 are shown."
    assert (review["commit_id"], review["event"]) == ("abc", "COMMENT")


# -- the command ----------------------------------------------------------------------------------

GH = """#!{python}
import json, sys
from pathlib import Path
folder = Path({folder!r})
path, *options = sys.argv[2:]
data = sys.stdin.read() if "--input" in options else ""
with (folder / "calls").open("a") as file:
    file.write(json.dumps([path, options, data]) + "\\n")
answer = json.loads((folder / "answers.json").read_text()).get(path)
if answer is None:
    sys.exit("gh: Resource not accessible by integration (HTTP 403)\\nmore")
print(answer)
"""
PULL = "repos/{owner}/{repo}/pulls/12"


class GitHub:
    """A `gh` on the path that records its calls and gives the answers of a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        script = folder / "gh"
        script.write_text(GH.format(python=sys.executable, folder=str(folder)))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def answer(self, files: dict[str, str], comments: list[dict[str, Any]]) -> None:
        lines = [
            json.dumps({"filename": name, "patch": patch}, ensure_ascii=False)
            for name, patch in files.items()
        ]
        answers = {
            PULL: "c0ffee", f"{PULL}/files": "\n".join(lines), f"{PULL}/reviews": "{}",
            f"{PULL}/comments": "\n".join(map(json.dumps, comments)),
        }  # fmt: skip
        (self.folder / "answers.json").write_text(json.dumps(answers))

    def posted(self) -> list[dict[str, Any]]:
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [json.loads(data) for path, _, data in calls if path.endswith("/reviews")]


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitHub:
    github = GitHub(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{github.folder}{os.pathsep}{os.environ['PATH']}")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(reviser.writing.model, "load", correcting.load)
    Path("page.md").write_text(
        "\ufeffOld teh text.\n\nNew teh text, `teh` code.\u2028\nAnd teh end.\n\n"
    )
    Path("main.py").write_text("# teh\n")
    Path("linked.md").symlink_to("page.md")
    github.answer(
        {
            "page.md": "@@ -1,2 +1,4 @@\n \ufeffOld teh text.\n \n"
            "+New teh text, `teh` code.\u2028\n+And teh end.\n ",
            "main.py": "@@ -0,0 +1 @@\n+# teh",
            "linked.md": "@@ -0,0 +1 @@\n+page.md",
            "picture.md": None,  # type: ignore[dict-item]  # too large for a patch
        },
        [],
    )
    return github


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["review", "12", "-m", "any", *words], catch_exceptions=False)


def test_the_command_posts_suggestions_for_added_lines_once(github: GitHub) -> None:
    result = run()
    assert (result.exit_code, result.stderr) == (0, "2 suggestions in 1 file, 2 new\n")
    [review] = github.posted()
    assert review["commit_id"] == "c0ffee"
    assert [(each["path"], each["line"], each["body"]) for each in review["comments"]] == [
        ("page.md", 3, "```suggestion\nNew the text, `teh` code.\u2028\n```"),
        ("page.md", 4, "```suggestion\nAnd the end.\n```"),
    ]
    # The next run finds the first one there.
    first = {
        "path": "page.md",
        "line": 3,
        "start_line": None,
        "body": review["comments"][0]["body"],
    }
    answers = json.loads((github.folder / "answers.json").read_text())
    answers[f"{PULL}/comments"] = json.dumps(first)
    (github.folder / "answers.json").write_text(json.dumps(answers))
    result = run("--dry-run")
    assert result.stderr == "2 suggestions in 1 file, 1 new\n"
    assert [each["line"] for each in json.loads(result.stdout)["comments"]] == [4]
    assert len(github.posted()) == 1
    result = run("--files", "*.py")
    assert "1 suggestion in 1 file, 1 new" in result.stderr
    assert github.posted()[1]["comments"][0]["path"] == "main.py"


def test_what_github_refuses_is_one_sentence(
    github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = json.loads((github.folder / "answers.json").read_text())
    del answers[f"{PULL}/reviews"]
    (github.folder / "answers.json").write_text(json.dumps(answers))
    result = run()
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        "error: GitHub refused 'repos/{owner}/{repo}/pulls/12/reviews': gh: Resource not accessible"
        " by integration (HTTP 403)"
    )
    Path("page.md").write_text("Another branch.\n")
    assert "Check out its head commit" in run().stderr
    monkeypatch.setenv("PATH", str(Path.cwd()))
    assert "needs the GitHub CLI (gh)" in run().stderr


def test_the_action_passes_its_inputs_to_the_command(github: GitHub) -> None:
    pytest.importorskip("yaml")
    import yaml

    [*_, step] = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    given = {"MODEL": "any", "BASE": "b", "PRECISION": "", "FILES": "*.md d/*.py"}
    own = {f"REVISER_{name}": value for name, value in given.items()}
    own |= {"REVISER_PULL_REQUEST": "12"}
    assert own.keys() == {name for name in step["env"] if name.startswith("REVISER_")}
    command_of(github.folder)
    env = os.environ | own | {"GITHUB_ACTION_PATH": str(ROOT), "PYTHONPATH": PYTHONPATH}
    subprocess.run(["bash", "-c", step["run"]], env=env, check=True, capture_output=True)
    [review] = github.posted()
    assert {each["path"] for each in review["comments"]} == {"page.md"}


def test_the_action_runs_no_code_of_the_checkout(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    import yaml

    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    for name in ("pip", "reviser"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "__main__.py").write_text("open('ran', 'w')")
    # There is nothing to install at this path, so pip ends at once.
    env = os.environ | {"GITHUB_ACTION_PATH": str(tmp_path / "none"), "REVISER_PULL_REQUEST": "1"}
    commands = [step["run"] for step in steps if "python" in step.get("run", "")]
    assert len(commands) == 1
    subprocess.run(["bash", "-c", commands[0]], cwd=tmp_path, env=env, capture_output=True)
    assert not (tmp_path / "ran").exists()


# -- the hooks ------------------------------------------------------------------------------------


def test_the_hooks_check_and_fix_files_in_a_commit(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    hooks, work = tmp_path / "hooks", tmp_path / "work"
    tools = tmp_path / "bin"
    tools.mkdir()
    command_of(tools)
    env = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": PYTHONPATH,
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip

    def git(folder: Path, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True,
                              text=True)  # fmt: skip
        return done.stdout.strip()

    def hook(name: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "pre_commit", "run", name, "--all-files"]
        return subprocess.run(words, cwd=work, env=env, capture_output=True, text=True)

    for folder in (hooks, work):
        folder.mkdir()
        git(folder, "init", "-q")
    (hooks / ".pre-commit-hooks.yaml").write_bytes((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    git(hooks, "add", "-A")
    git(hooks, "commit", "-qm", "hooks")
    entries = "".join(
        f"{{id: {name}, args: [-m, test, --]}}, " for name in ("reviser", "reviser-fix")
    )
    (work / ".pre-commit-config.yaml").write_text(
        f"repos: [{{repo: {hooks}, rev: {git(hooks, 'rev-parse', 'HEAD')}, hooks: [{entries}]}}]\n"
    )
    (work / "page.md").write_text("It is teh `teh`.\n")
    (work / "fine.md").write_text("Fine.\n")
    (work / "--lock=teh.md").write_text("Teh teh.\n")  # a name, not an option
    (work / "main.py").write_text("# teh\n")
    git(work, "add", "-A")
    checked = hook("reviser")
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "+It is the `teh`." in checked.stdout
    assert "main.py" not in checked.stdout
    assert (work / "page.md").read_text() == "It is teh `teh`.\n"
    assert hook("reviser-fix").returncode == 1  # pre-commit reports changed files
    assert (work / "page.md").read_text() == "It is the `teh`.\n"
    assert (work / "--lock=teh.md").read_text() == "Teh the.\n"
    for name in ("reviser", "reviser-fix"):
        assert hook(name).returncode == 0
