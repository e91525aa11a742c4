"""Proofreading as a flow: read a draft, find suggestions, judge them, keep the surest.

What the model says while it reads tells where an edit is likely. For the suggestions there it is
asked how likely the text is without and with them: first the one token where the two part, and
then, for what is plausible, all that differs and what follows it.
"""

from __future__ import annotations

from math import fsum
from typing import Any

from reviser.engines.base import Score, StopReason
from reviser.proofread.compare import Comparison, compare
from reviser.proofread.draft import Draft
from reviser.proofread.keep import judged, may_be_kept, most_confident
from reviser.proofread.suggest import suggest
from reviser.writing.changes import Change, Changes
from reviser.writing.driver import Cancelled, Flow, scores
from reviser.writing.flows import Progress, batches, no_progress
from reviser.writing.prompts import Model, prompts_of
from reviser.writing.revise import edit_probabilities, merged
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Revise

WINDOWS = 12
"""Windows that are judged side by side. Each is asked about three times, and an engine keeps what
it has read of about so many (`engines.tree.CACHED_IDS`)."""


def proofread(
    task: Revise, model: Model, progress: Progress = no_progress, **limits: Any
) -> Flow[Revision]:
    """Return what the model finds right of what the word lists suggest for a draft."""
    least = model.editing.least_confidence(task.precision)
    threshold = model.editing.minimum(task.min_edit_probability, task.precision)
    prompts = prompts_of(task, model, **limits)
    suggestions: list[Change] = []
    kept: list[tuple[int, Changes]] = []
    stop_reason: StopReason = "stop"
    try:
        for group in batches(prompts, WINDOWS):
            drafts = [Draft.of(prompt, task, model) for prompt in group]
            found = yield from judge(drafts, threshold, least, model)
            for draft, some in zip(drafts, found, strict=True):
                surest = tuple(most_confident(some, least))
                kept.append(
                    (draft.window.context_start, Changes(draft=draft.prompt.text, changes=surest))
                )
                suggestions += (change.moved(draft.window.context_start) for change in some)
            progress(len(kept), len(prompts))
    except Cancelled as end:
        stop_reason = end.reason
    return Revision(
        changes=merged(task.draft, kept),
        suggestions=tuple(suggestions),
        stop_reason=stop_reason,
    )


def judge(
    drafts: list[Draft], threshold: float, least: float, model: Model
) -> Flow[list[list[Change]]]:
    """Return the suggestions for some windows, each with its gain and confidence.

    `threshold` is the least probability that a position needs an edit. Suggestions that cannot
    reach the `least` confidence are left out before anything is asked about them.
    """
    readings = yield from scores(Score(draft.prompt.request.history) for draft in drafts)
    pools = []
    for draft, reading in zip(drafts, readings, strict=True):
        likely = edit_probabilities(draft.prompt, reading, model)
        suggestions = suggest(draft, likely, threshold, model.editing.lists)
        comparisons = (
            compare(draft, suggestion, model)
            for suggestion in suggestions
            if may_be_kept(suggestion, least, model.editing)
        )
        pools.append([comparison for comparison in comparisons if comparison is not None])
    plausible = [
        [comparison for comparison, margin in pool if comparison.is_plausible(margin)]
        for pool in (yield from gains(drafts, pools, is_first=True))
    ]
    return [
        [judged(comparison.suggestion, gain, model.editing) for comparison, gain in pool]
        for pool in (yield from gains(drafts, plausible, is_first=False))
    ]


def gains(
    drafts: list[Draft], pools: list[list[Comparison]], *, is_first: bool
) -> Flow[list[list[tuple[Comparison, float]]]]:
    """Return how much more likely each window is with each suggestion, in nats.

    With `is_first`, only as far as the first token of a suggestion tells.
    """
    questions = []
    for draft, pool in zip(drafts, pools, strict=True):
        if pool:
            history = draft.prompt.request.history
            branches = [branch for each in pool for branch in each.branches(is_first=is_first)]
            questions.append(Score(history, start=len(history), branches=tuple(branches)))
    answers = iter((yield from scores(questions)))
    found = []
    for pool in pools:
        scored = next(answers).branches if pool else ()
        sums = [fsum(branch.text_logprobs()) for branch in scored]
        both = zip(sums[::2], sums[1::2], strict=True)
        found.append([(each, b - a) for each, (a, b) in zip(pool, both, strict=True)])
    return found
