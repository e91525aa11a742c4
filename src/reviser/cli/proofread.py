"""The proofread command: corrections of files, sure ones at once and judged ones as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from reviser.cli.options import JudgeChoice, judge_options
from reviser.cli.output import exit_interrupted, progress_bars
from reviser.cli.sheets import Sheet, SheetChoice, sheet_options
from reviser.proofread.flow import proofread as flow_of
from reviser.proofread.flow import sure_edits
from reviser.proofread.settings import settings_for
from reviser.proofread.suggestion import Dialect
from reviser.writing.changes import Changes
from reviser.writing.driver import Run
from reviser.writing.rollout import Revision

if TYPE_CHECKING:
    from reviser.cli.output import Progress
    from reviser.model import Reviser


@click.command()
@sheet_options
@click.option("--min-confidence", type=click.FloatRange(0, 1), metavar="SHARE",
              help="Only make changes with this confidence, or a higher one. By default, the"
                   " judge's own.")  # fmt: skip
@click.option("--dialect", type=click.Choice(get_args(Dialect)),
              help="Which spelling is right. By default, the one that the text uses.")  # fmt: skip
@judge_options
def proofread(
    files: tuple[Path, ...], sheets: SheetChoice, min_confidence: float | None,
    dialect: Dialect | None, choice: JudgeChoice,
) -> None:  # fmt: skip
    """Find mistakes in English text, and correct them.

    For example: reviser proofread letter.txt

    Without FILE, the text is read from standard input. Rules and word lists suggest corrections.
    Some are sure; a small language model judges the others. Markup and code never change: see
    --markup. A Word document (.docx) is saved with tracked changes. Settings are in [tool.reviser]
    of pyproject.toml, or in .reviser.toml.
    """
    sheets.refuse(files)
    drafts = []
    for path in files or (None,):
        sheet = sheets.read(path, "reviser proofread", is_only=len(files) < 2)
        settings = settings_for(path or Path("draft"))
        if min_confidence is not None:
            settings = replace(settings, min_confidence=min_confidence)
        sheet.settings = replace(settings, dialect=dialect or settings.dialect)
        drafts.append(sheet)
    raise SystemExit(sheets.deliver(_revisions(drafts, choice, is_live=sheets.is_live)))


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
                    project = next(
                        (s.settings.judge for s in sheets if s.settings and s.settings.judge), None
                    )
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

    assert sheet.settings is not None
    tools = with_settings(model, sheet.settings).proofreading
    assert tools is not None
    return Run(flow_of(sheet.task, tools, report=report), model.driver).wait()
