"""The review command: suggestions on the lines that a pull request adds."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import click

from reviser.cli.drafts import Draft
from reviser.cli.options import ModelChoice, model_options
from reviser.cli.output import print_text
from reviser.errors import plural
from reviser.writing.tasks import Revise

_FILES = ("*.md", "*.rst", "*.tex", "*.txt")


@click.command()
@click.argument("number", type=int)
@click.option("--files", multiple=True, default=_FILES, show_default=True, metavar="PATTERN",
              help="Pattern of files to revise; may be repeated.")  # fmt: skip
@click.option("--min-edit-probability", type=float, metavar="SHARE",
              help="Only change words with at least this predicted edit probability.")  # fmt: skip
@click.option("--precision", type=float, metavar="SHARE",
              help="Share of changes that should be correct, from 0 to 1, for a model that was"
                   " calibrated.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the review as JSON instead of posting it.")
@model_options
def review(
    number: int, files: tuple[str, ...], min_edit_probability: float | None,
    precision: float | None, dry_run: bool, choice: ModelChoice,
) -> None:  # fmt: skip
    """Suggest corrections on a GitHub pull request.

    For example: reviser review 12 -m MODEL

    NUMBER is the number of the pull request. Run the command in the root of a checkout of its head
    commit, and log in to the GitHub CLI first (gh auth login). Only lines that the pull request
    adds can change; markup never does. A suggestion that was posted before is not posted again.
    """
    from reviser.reviews.comments import comments_of, review_of
    from reviser.reviews.github import PullRequest

    request = PullRequest(number)
    patches = [
        each for each in request.patches()
        if each.added and any(fnmatch(each.path, pattern) for pattern in files)
        and not Path(each.path).is_symlink()  # it may lead out of the repository
    ]  # fmt: skip
    tasks = []
    for patch in patches:
        draft = Draft.read(Path(patch.path), "auto", choice.model)
        locked = [
            (draft.offset(start), draft.offset(end))
            for start, end in patch.unchanged_spans(draft.whole)
        ]
        task = Revise(
            draft.text,
            locked=[*draft.markup, *locked],
            min_edit_probability=min_edit_probability,
            precision=precision,
        )
        tasks.append((patch, draft, task))
    found = []
    if tasks:
        with choice.load() as model:
            for patch, draft, task in tasks:
                changes = model.run(task).changes.within(draft.whole, draft.start)
                found += comments_of(patch.path, changes, patch.added)
    known = request.comments() if found else set()
    new = [each for each in found if each not in known]
    click.echo(
        f"{plural(len(found), 'suggestion')} in {plural(len(patches), 'file')}, {len(new)} new",
        err=True,
    )
    if new:
        posted = review_of(new, request.head())
        if dry_run:
            print_text(json.dumps(posted, ensure_ascii=False, indent=2) + "\n")
        else:
            request.post(posted)
