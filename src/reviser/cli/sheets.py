"""Drafts and their changes, as every command that changes files shows and saves them."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import click

from reviser.cli.drafts import Draft
from reviser.cli.formats import REPORTS, print_report, print_revision
from reviser.cli.options import collected, with_options
from reviser.cli.output import print_styled
from reviser.errors import plural
from reviser.files import refuse_special, write_whole
from reviser.markup import Choice
from reviser.proofread.settings import Settings, add_word, ignore_rule
from reviser.proofread.shown import reason_of, whole_words, word_of
from reviser.proofread.suggestion import Proposer
from reviser.writing.changes import Change, Changes
from reviser.writing.positions import Positions
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Revise

FORMATS = ("list", "text", "diff", "criticmarkup", "json", *REPORTS)
AROUND = 32
"""Characters that are shown on either side of a change, at most."""
LEAST = 12
"""The same in a narrow terminal, at least."""


@dataclass(frozen=True, kw_only=True)
class SheetChoice:
    """What becomes of changes, and what is never changed, as chosen on the command line."""

    form: str
    in_place: bool
    output: Path | None
    check: bool
    interactive: bool
    locked: tuple[str, ...]
    markup: Choice

    @property
    def is_live(self) -> bool:
        """Whether changes are printed as soon as they are known."""
        return self.form == "list" and not self.interactive and is_terminal()

    def refuse(self, files: Sequence[Path]) -> None:
        """Refuse options that do not fit each other, or the files."""
        if sum((self.in_place, self.check, self.interactive, self.output is not None)) > 1:
            raise click.UsageError("Give one of --in-place, --output, --check and --interactive.")
        if not files and (self.in_place or self.interactive or sys.stdin.isatty()):
            raise click.UsageError("Give a FILE.")
        if len(files) > 1 and (self.output is not None or self.form in ("text", "criticmarkup")):
            raise click.UsageError("Give one FILE, or another --format, or --in-place alone.")
        if self.form == "diff" and any(file.suffix.lower() == ".docx" for file in files):
            raise click.UsageError(
                "A Word document has no lines to compare. Give another --format."
            )
        for file in files if self.in_place or self.interactive else ():
            refuse_special(file)  # before it is read: a device may have no end

    def read(self, path: Path | None, command: str, *, is_only: bool, **more: Any) -> Sheet:
        """Read a file, or standard input; the other arguments are those of the task."""
        draft = Draft.read(path, self.markup, command)
        task = Revise(draft.text, locked=draft.locks(self.locked, is_only=is_only), **more)
        return Sheet(draft, task)

    def deliver(self, found: Iterable[tuple[Sheet, Revision]]) -> int:
        """Print and save the changes of drafts as they come; return the command's exit status."""
        form, done = self.form, list[tuple[Sheet, Changes]]()
        for sheet, revision in list(found) if self.interactive else found:
            if self.interactive:
                revision = replace(revision, changes=_reviewed(sheet, revision.changes))
            changes = revision.changes.within(sheet.draft.whole, sheet.draft.start)
            done.append((sheet, changes))
            if form == "list" and not self.interactive:
                sheet.show(revision.changes)
            elif form not in REPORTS and not self.interactive:
                print_revision(form, revision, changes, sheet.draft.name)
            if (self.in_place or self.interactive) and changes:
                sheet.draft.write(changes)
            if self.output is not None:
                write_whole(self.output, sheet.draft.changed(changes))
        if form in REPORTS:
            print_report(form, [(sheet.draft.name, changes) for sheet, changes in done])
        count = sum(len(changes) for _, changes in done)
        if form == "list":
            is_saved = self.in_place or self.interactive or self.output is not None
            is_unsaved = count and not (is_saved or self.check)
            hint = ". Save them with --in-place or -o FILE." if is_unsaved and is_terminal() else ""
            click.echo(f"{plural(count, 'change')} in {plural(len(done), 'file')}{hint}")
        return int(self.check and count > 0)


sheet_options = with_options(
    click.argument("files", nargs=-1, metavar="[FILE]...",
                   type=click.Path(dir_okay=False, path_type=Path)),
    click.option("--format", "form", default="list", show_default=True, type=click.Choice(FORMATS),
                  help="Print a list of changes with their reasons, the changed text, a unified"
                       " diff for patch -p0, CriticMarkup, everything as JSON lines, suggestions"
                       " for reviewdog -f=rdjson, or SARIF."),
    click.option("--in-place", is_flag=True, help="Save the changed text to each FILE."),
    click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
                  help="Save the changed text to another file."),
    click.option("--check", is_flag=True,
                  help="Write nothing; exit with status 1 if a FILE needs changes, and 2 if there"
                       " is an error."),
    click.option("--interactive", is_flag=True,
                  help="Ask about each change, and save the accepted ones to each FILE."),
    click.option("--lock", "locked", multiple=True, metavar="TEXT",
                  help="Never change this text, wherever it occurs; may be repeated."),
    click.option("--markup", default="auto", show_default=True,
                  type=click.Choice(get_args(Choice)),
                  help="Never change markup of this format: auto chooses by the file's suffix, text"
                       " locks only links, and code locks all but comments and docstrings. Standard"
                       " input has no suffix, so auto locks nothing there."),
    collected("sheets", ["form", "in_place", "output", "check", "interactive", "locked", "markup"],
              SheetChoice),
)  # fmt: skip
"""The options of commands that change files; they become one `SheetChoice`."""


@dataclass
class Sheet:
    """A draft with its settings, and the changes of it that were shown."""

    draft: Draft
    task: Revise
    settings: Settings | None = None
    """Those of a proofreader, for which words and rules can be ignored."""
    shown: set[Change] = field(default_factory=set)

    @cached_property
    def words(self) -> int:
        """Number of words of the draft."""
        return len(self.draft.text.split())

    @property
    def proposers(self) -> list[Proposer]:
        """What suggests changes, by the settings."""
        from reviser.proofreading import chosen

        assert self.settings is not None
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


def is_terminal() -> bool:
    """Return whether people read the output in a terminal."""
    return sys.stdout.isatty()


def _around(text: str, change: Change, used: int) -> tuple[str, str]:
    """Return the words of the same line before and after a change.

    In a terminal, they are as many as its width has room for, `used` columns of it being taken.
    """
    around = AROUND
    if is_terminal():
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
        word = word_of(changes.draft, change) if sheet.settings else ""
        if change.rule in rules or word.lower() in words:
            continue
        sheet.print(change)
        keys = {"a": "accept", "r": "reject"}
        keys |= {"d": f'add "{word}" to the dictionary'} if word else {}
        keys |= {"i": f"ignore the rule {change.rule}"} if change.rule and sheet.settings else {}
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
