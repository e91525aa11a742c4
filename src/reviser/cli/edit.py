"""The edit command: a chat model edits files by an instruction, and leaves the rest alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reviser.cli.options import parse_options
from reviser.cli.output import exit_interrupted, progress_bars
from reviser.cli.sheets import Sheet, SheetChoice, sheet_options
from reviser.writing.positions import Positions

if TYPE_CHECKING:
    from reviser.chat.flow import Edited
    from reviser.editor import Editor
    from reviser.markup import Choice
    from reviser.writing.driver import Flow


@click.command()
@sheet_options
@click.option("--instruction", required=True, metavar="TEXT", help="What to change, in words.")
@click.option("--url", default="http://localhost:8000/v1", show_default=True, metavar="URL",
              help="Address of a server that speaks OpenAI's protocol, up to and including"
                   " /v1.")  # fmt: skip
@click.option("-m", "--model", required=True, metavar="NAME", help="Name of the chat model there.")
@click.option("--parallel", default=8, show_default=True, type=click.IntRange(1),
              help="Maximum number of requests at a time.")  # fmt: skip
@click.option("--setting", "settings", multiple=True, metavar="NAME=JSON",
              help="Another field of the requests, such as seed=1; null leaves a field out. May be"
                   " repeated.")  # fmt: skip
def edit(
    files: tuple[Path, ...], sheets: SheetChoice, instruction: str, url: str, model: str,
    parallel: int, settings: tuple[str, ...],
) -> None:  # fmt: skip
    """Have a chat model edit files, and leave the rest of them alone.

    For example: reviser edit a.md --instruction "Use British spelling." -m NAME --format diff

    Without FILE, the text is read from standard input. Any model on vLLM, llama.cpp, Ollama or a
    hosted server can edit: it is shown the text in sentences, or lines of code, and writes only
    those that change. Locked text, markup and code never change: see --lock and --markup. A key of
    the server is read from REVISER_API_KEY, or else OPENAI_API_KEY. What the model asked for and
    was not done is reported on standard error; the exit status is 2 if a part of a FILE got no
    answer.
    """
    sheets.refuse(files)
    drafts = [
        sheets.read(path, "reviser edit", is_only=len(files) < 2, instruction=instruction)
        for path in files or (None,)
    ]
    from reviser.editor import Editor

    lost: list[Edited] = []
    with Editor(url, model, parallel=parallel, **parse_options(settings)) as editor:
        status = sheets.deliver(_revisions(drafts, editor, sheets.markup, lost))
    raise SystemExit(2 if lost else status)


def _revisions(
    drafts: Sequence[Sheet], editor: Editor, markup: Choice, lost: list[Edited]
) -> Iterator[tuple[Sheet, Edited]]:
    """Edit drafts side by side; yield them in order, and report what was not done."""
    from reviser.editor import unit_kind
    from reviser.writing.driver import run_many

    total, done = sum(sheet.words for sheet in drafts), dict[int, int]()

    def flow_of(n: int, sheet: Sheet) -> Flow[Edited]:
        def report(windows: int, of: int) -> None:
            done[n] = sheet.words * windows // of
            progress("editing", sum(done.values()), total)

        draft = sheet.draft
        is_word = draft.document is not None  # a line end in a run of Word's is a space
        kind = unit_kind(markup, draft.file)
        return editor.edits(sheet.task, kind=kind, one_line=is_word, progress=report)

    count = 0
    try:
        with progress_bars(lines=False, unit="words") as (log, progress):
            progress("editing", 0, total)
            flows = (flow_of(n, sheet) for n, sheet in enumerate(drafts))
            for sheet, run in zip(drafts, run_many(flows, editor.driver), strict=True):
                if run.error is not None:
                    raise run.error
                for line in _not_done(sheet, run.result):
                    log(line)
                lost += [run.result] if run.result.lost else []
                yield sheet, run.result
                count += 1
    except KeyboardInterrupt as error:
        exit_interrupted(
            error, "The files before it are done." if count else "Nothing was written."
        )


def _not_done(sheet: Sheet, result: Edited) -> Iterator[str]:
    """Yield a line for everything that was not done, with the line of the draft."""
    from reviser.player.terminal import printable

    positions = Positions(sheet.draft.text, "utf-32")
    for what, some in (("edit not made", result.dropped), ("no answer", result.lost)):
        for each in some:
            line = positions.position(each.start).line + 1
            yield printable(f"{sheet.draft.name}:{line}: {what}: {each.reason}")
