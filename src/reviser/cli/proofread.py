"""The proofread command: corrections of files, sure ones at once and judged ones as they come."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from reviser.cli.drafts import Draft
from reviser.cli.formats import REPORTS, print_report, print_revision
from reviser.cli.options import JudgeChoice, judge_options
from reviser.cli.output import exit_interrupted, print_styled, progress_bars
from reviser.errors import plural
from reviser.files import refuse_special, write_whole
from reviser.markup import Choice
from reviser.proofread.flow import proofread as flow_of
from reviser.proofread.flow import sure_edits
from reviser.proofread.settings import Settings, add_word, ignore_rule, settings_for
from reviser.proofread.shown import reason_of, whole_words, word_of
from reviser.proofread.suggestion import Dialect, Proposer
from reviser.writing.changes import Change, Changes
from reviser.writing.driver import Run
from reviser.writing.positions import Positions
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Revise

if TYPE_CHECKING:
    from reviser.cli.output import Progress
    from reviser.model import Reviser

FORMATS = ("list", "text", "diff", "criticmarkup", "json", *REPORTS)
AROUND = 32
"""Characters that are shown on either side of a change, at most."""
LEAST = 12
"""The same in a narrow terminal, at least."""


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...",
                type=click.Path(dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--format", "form", default="list", show_default=True, type=click.Choice(FORMATS),
              help="Print a list of changes with their reasons, the corrected text, a unified diff"
                   " for patch -p0, CriticMarkup, everything as JSON lines, suggestions for"
                   " reviewdog -f=rdjson, or SARIF.")  # fmt: skip
@click.option("--in-place", is_flag=True, help="Save the corrected text to each FILE.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Save the corrected text to another file.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Write nothing; exit with status 1 if a FILE needs changes, and 2 if there is an"
                   " error.")  # fmt: skip
@click.option("--interactive", is_flag=True,
              help="Ask about each change, and save the accepted ones to each FILE.")  # fmt: skip
@click.option("--min-confidence", type=click.FloatRange(0, 1), metavar="SHARE",
              help="Only make changes with this confidence, or a higher one. By default, the"
                   " judge's own.")  # fmt: skip
@click.option("--dialect", type=click.Choice(get_args(Dialect)),
              help="Which spelling is right. By default, the one that the text uses.")  # fmt: skip
@click.option("--lock", "locked", multiple=True, metavar="TEXT",
              help="Never change this text, wherever it occurs; may be repeated.")  # fmt: skip
@click.option("--markup", default="auto", show_default=True,
              type=click.Choice(get_args(Choice)),
              help="Never change markup of this format: auto chooses by the file's suffix, text"
                   " locks only links, and code locks all but comments and docstrings. Standard"
                   " input has no suffix, so auto locks nothing there.")  # fmt: skip
@judge_options
def proofread(
    files: tuple[Path, ...], form: str, in_place: bool, output: Path | None, check: bool,
    interactive: bool, min_confidence: float | None, dialect: Dialect | None,
    locked: tuple[str, ...], markup: Choice, choice: JudgeChoice,
) -> None:  # fmt: skip
    """Find mistakes in English text, and correct them.

    For example: reviser proofread letter.txt

    Without FILE, the text is read from standard input. Rules and word lists suggest corrections.
    Some are sure; a small language model judges the others. Markup and code never change: see
    --markup. A Word document (.docx) is saved with tracked changes. Settings are in [tool.reviser]
    of pyproject.toml, or in .reviser.toml.
    """
    if sum((in_place, check, interactive, output is not None)) > 1:
        raise click.UsageError("Give one of --in-place, --output, --check and --interactive.")
    if not files and (in_place or interactive or sys.stdin.isatty()):
        raise click.UsageError("Give a FILE.")
    if len(files) > 1 and (output is not None or form in ("text", "criticmarkup")):
        raise click.UsageError("Give one FILE, or another --format, or --in-place alone.")
    if form == "diff" and any(file.suffix.lower() == ".docx" for file in files):
        raise click.UsageError("A Word document has no lines to compare. Give another --format.")
    for file in files if in_place or interactive else ():
        refuse_special(file)  # before it is read: a device may have no end
    sheets = []
    for path in files or (None,):
        draft = Draft.read(path, markup, "reviser proofread")
        settings = settings_for(path or Path("draft"))
        if min_confidence is not None:
            settings = replace(settings, min_confidence=min_confidence)
        settings = replace(settings, dialect=dialect or settings.dialect)
        locks = draft.locks(locked, is_only=len(files) < 2)
        task = Revise(draft.text, locked=locks)
        sheets.append(Sheet(draft, task, settings))
    is_live = form == "list" and not interactive and _is_terminal()
    done: list[tuple[Sheet, Changes]] = []
    found = _revisions(sheets, choice, is_live=is_live)
    for sheet, revision in list(found) if interactive else found:
        if interactive:
            revision = replace(revision, changes=_reviewed(sheet, revision.changes))
        changes = revision.changes.within(sheet.draft.whole, sheet.draft.start)
        done.append((sheet, changes))
        if form == "list" and not interactive:
            sheet.show(revision.changes)
        elif form not in REPORTS and not interactive:
            print_revision(form, revision, changes, sheet.draft.name)
        if (in_place or interactive) and changes:
            sheet.draft.write(changes)
        if output is not None:
            write_whole(output, sheet.draft.changed(changes))
    if form in REPORTS:
        print_report(form, [(sheet.draft.name, changes) for sheet, changes in done])
    count = sum(len(changes) for _, changes in done)
    if form == "list":
        is_unsaved = count and not (in_place or check or interactive or output is not None)
        hint = ". Save them with --in-place or -o FILE." if is_unsaved and _is_terminal() else ""
        click.echo(f"{plural(count, 'change')} in {plural(len(done), 'file')}{hint}")
    if check and count:
        raise SystemExit(1)


@dataclass
class Sheet:
    """A draft with its settings, and the changes of it that were shown."""

    draft: Draft
    task: Revise
    settings: Settings
    shown: set[Change] = field(default_factory=set)

    @cached_property
    def words(self) -> int:
        """Number of words of the draft."""
        return len(self.draft.text.split())

    @property
    def proposers(self) -> list[Proposer]:
        """What suggests changes, by the settings."""
        from reviser.proofreading import chosen

        return chosen(self.settings.words, self.settings.dialect, self.settings.ignore)

    @cached_property
    def positions(self) -> Positions:
        """The lines of the draft."""
        return Positions(self.draft.text, "utf-32")

    def show(self, changes: Changes) -> None:
        """Print the changes that were not printed before."""
        for change in changes:
            if change not in self.shown:
                # The judge may prefer a longer change to a sure one that was printed before.
                replaced = [
                    old for old in self.shown if old.start < change.end and change.start < old.end
                ]
                self.shown.add(change)
                self.print(change, replaced)

    def print(self, change: Change, replaced: Sequence[Change] = ()) -> None:
        """Print a change with its position, the words around it and its reason.

        `replaced` are changes that were printed before, and that it replaces.
        """
        from rich.text import Text

        from reviser.player.terminal import printable

        text = self.draft.text
        whole = whole_words(text, change)
        line, column = self.positions.position(whole.start)
        position = f"{self.draft.name}:{line + 1}:{column + 1}: "
        before, after = _around(text, whole, len(position))
        print_styled(
            Text.assemble(
                (position, "dim"),
                printable(before),
                " " * (whole.before[:1].isspace() and before[-1:] not in ("", " ")),
                "[",
                (printable(_one_line(whole.before)), "red strike"),
                " -> ",
                (printable(_one_line(whole.after)) or "(delete)", "bold green"),
                "]",
                printable(after),
            )
        )
        if reason := reason_of(change):
            print_styled(Text(f"    {printable(reason)}", "dim"))
        for old in replaced:
            before, after = (_one_line(part) for part in (old.before, old.after))
            print_styled(
                Text(f"    It replaces [{printable(before)} -> {printable(after)}].", "dim")
            )


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _around(text: str, change: Change, used: int) -> tuple[str, str]:
    """Return the words of the same line before and after a change.

    In a terminal, they are as many as its width has room for, `used` columns of it being taken.
    """
    around = AROUND
    if _is_terminal():
        used += (
            len(change.before) + len(change.after or "(delete)") + len("[ -> ]") + 6
        )  # 2 x "..."
        around = min(AROUND, max(LEAST, (shutil.get_terminal_size().columns - used) // 2))
    before = text[max(0, change.start - around) : change.start]
    after = text[change.end : change.end + around]
    if len(before) == around and "\n" not in before:
        before = "..." + before[before.find(" ") + 1 :]
    if len(after) == around and "\n" not in after:
        after = after[: after.rfind(" ") + 1] + "..."
    space = " " * change.before[-1:].isspace()
    return before.rpartition("\n")[2], space + after.partition("\n")[0].rstrip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _revisions(
    sheets: Sequence[Sheet], choice: JudgeChoice, *, is_live: bool
) -> Iterator[tuple[Sheet, Revision]]:
    """Proofread drafts one after the other; if `is_live`, print changes as soon as they are known.

    The judge is opened once, after the sure changes of the first draft are printed.
    """
    model: Reviser | None = None
    done, total = 0, sum(sheet.words for sheet in sheets)
    try:
        with ExitStack() as stack:
            log, progress = stack.enter_context(progress_bars(lines=False, unit="words"))
            for sheet in sheets:
                if is_live:
                    sheet.show(
                        sure_edits(sheet.draft.text, sheet.task.locked_spans, sheet.proposers)
                    )
                if model is None:
                    progress("proofreading", 0, total)
                    project = next((s.settings.judge for s in sheets if s.settings.judge), None)
                    model = stack.enter_context(choice.open(project, log))
                revision = _judged(sheet, model, progress, (done, total), is_live=is_live)
                done += sheet.words
                yield sheet, revision
    except KeyboardInterrupt as error:
        exit_interrupted(error, "The files before it are done." if done else "Nothing was written.")


def _judged(
    sheet: Sheet, model: Reviser, progress: Progress, words: tuple[int, int], *, is_live: bool
) -> Revision:
    """Proofread a draft with a judge, and report the words that are done."""
    from reviser.proofreading import with_settings

    def report(changes: Changes, share: float) -> None:
        progress("proofreading", words[0] + round(share * sheet.words), words[1])
        if is_live:
            sheet.show(changes)

    tools = with_settings(model, sheet.settings).proofreading
    assert tools is not None
    return Run(flow_of(sheet.task, tools, report=report), model.driver).wait()


def _key() -> str:
    """Return the key that the user presses; "q" at the end of the input."""
    try:
        return click.getchar().lower() or "q"
    except OSError as error:  # without a terminal
        raise click.UsageError("--interactive needs a terminal. Use --in-place.") from error


def _reviewed(sheet: Sheet, changes: Changes) -> Changes:
    """Ask about the changes of a draft one by one, and return the accepted ones."""
    accepted: list[int] = []
    words, rules = set[str](), set[str]()
    for number, change in enumerate(changes):
        word = word_of(changes.draft, change)
        if change.rule in rules or word.lower() in words:
            continue
        sheet.print(change)
        keys = {"a": "accept", "r": "reject"}
        keys |= {"d": f'add "{word}" to the dictionary'} if word else {}
        keys |= {"i": f"ignore the rule {change.rule}"} if change.rule else {}
        keys["q"] = "stop"
        question = ", ".join(f"{key}: {what}" for key, what in keys.items())
        lines = textwrap.wrap(
            f"{number + 1} of {len(changes)}. {question}?", shutil.get_terminal_size().columns - 6
        )
        click.echo(textwrap.indent("\n".join(lines), "    ") + " ", nl=False)
        while (key := _key()) not in keys:
            pass
        click.echo(key)
        if key == "a":
            accepted.append(number)
        elif key == "d":
            add_word(word)
            words.add(word.lower())
        elif key == "i":
            ignore_rule(sheet.draft.file or Path("draft"), change.rule)
            rules.add(change.rule)
        elif key == "q":
            break
    return changes.accept(*accepted)
