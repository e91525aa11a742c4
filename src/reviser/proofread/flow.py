"""Proofreading as a flow: make the sure edits, have a model judge the others, keep the surest.

The model is asked how likely the text is without and with each edit: first only as far as the one
token where the two part, and then, for what is plausible, all that differs and what follows it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from math import fsum
from typing import NamedTuple, TypeAlias, TypeVar

from reviser.core.codec import Codec
from reviser.engines.base import Score, StopReason
from reviser.markup.spans import Span, touched
from reviser.proofread.cache import Cache
from reviser.proofread.compare import Comparison, compare
from reviser.proofread.judge import Judge, Measured
from reviser.proofread.keep import composed, longest_apart, most_confident
from reviser.proofread.passage import Passage, passages
from reviser.proofread.pool import Candidate, hidden, pool
from reviser.proofread.suggestion import Proposer
from reviser.writing.changes import Change, Changes
from reviser.writing.driver import Cancelled, Flow, scores
from reviser.writing.flows import Progress, no_progress
from reviser.writing.prompts import check_limits
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Revise

PASSAGES = 6
"""Passages that are judged side by side. Each is asked about twice, and an engine keeps what
it has read of about so many (`engines.tree.CACHED_IDS`)."""
SURE = 0.99
"""The confidence of an edit that needs no judge."""
T = TypeVar("T")
Report: TypeAlias = Callable[[Changes, float], object]
"""A function that is called with changes of a draft, and the share of it that was judged so far."""


def no_report(_changes: Changes, _share: float) -> None:
    """Report nothing."""


@dataclass(frozen=True, kw_only=True)
class Proofreading:
    """What proofreading takes besides an engine."""

    proposers: Sequence[Proposer]
    judge: Judge | None = None
    """None without a language model: then only what is sure is changed."""
    codec: Codec | None = None
    begin: int = 0
    """The id that begins a text for the language model."""
    context: int = 0
    """Number of ids that it can read."""
    cache: Cache[Gain] | None = None
    """What the language model said lately, for a text that is proofread after each edit."""


def sure_edits(draft: str, locked: Sequence[Span], proposers: Sequence[Proposer]) -> Changes:
    """Return the changes of a draft that need no judge, in milliseconds."""
    proposers = [each for each in proposers if getattr(each, "may_be_sure", True)]
    found = pool(draft, proposers, _unlocked(locked), shown=hidden(draft, locked))
    sure = [each.change(confidence=SURE) for each in found if each.is_sure]
    return Changes(draft=draft, changes=tuple(longest_apart(sure)))


def open_edits(
    sure: Changes, locked: Sequence[Span], proposers: Sequence[Proposer]
) -> list[Candidate]:
    """Return what else may be wrong in the text after the sure edits; positions are its own."""
    text, spans = sure.text, moved_spans(locked, sure.changes)
    return pool(text, proposers, _unlocked(spans), shown=hidden(text, spans))


def replacements(
    draft: str, locked: Sequence[Span], proposers: Sequence[Proposer], change: Change
) -> list[str]:
    """Return what proposers suggest in place of the text that a change replaces, its own first."""
    found = pool(draft, proposers, _unlocked(locked), shown=hidden(draft, locked))
    span = change.start, change.end
    others = [each.after for each in found if (each.start, each.end) == span]
    return list(dict.fromkeys([change.after, *others]))


def proofread(
    task: Revise,
    tools: Proofreading,
    progress: Progress = no_progress,
    *,
    max_prompts: int | None = None,
    max_tokens: int | None = None,
    report: Report = no_report,
) -> Flow[Revision]:
    """Return the changes that a draft needs, with the reason for each.

    `report` is called after each group of passages, with what is sure and what was found in them.
    """
    sure = sure_edits(task.draft, task.locked_spans, tools.proposers)
    if tools.judge is None or tools.codec is None:
        return Revision(changes=sure)
    least = tools.judge.least(task.min_confidence, task.precision)
    text = sure.text  # what the judge reads
    found = open_edits(sure, task.locked_spans, tools.proposers)
    parts, tokens = [], 0
    for part in passages(tools.codec, text, tools.begin):
        parts.append(part)
        tokens += len(part.tokens)
        check_limits(tokens, len(parts), max_prompts=max_prompts, max_tokens=max_tokens)
    places = positions_after(sure.changes)
    suggestions: list[Change] = []
    stop_reason: StopReason = "stop"
    done = 0
    try:
        for group in groups(list(zip(parts, by_passage(parts, found), strict=True))):
            new = yield from judged(group, tools.judge, tools.context, places, tools.cache)
            suggestions += new
            done += len(group)
            progress(done, len(parts))
            read = group[-1][0].window.end / max(1, len(text))
            report(composed(sure, most_confident(new, least)), read)
    except Cancelled as end:
        stop_reason = end.reason
    return Revision(
        changes=composed(sure, most_confident(suggestions, least)),
        suggestions=tuple(suggestions),
        stop_reason=stop_reason,
    )


def groups(parts: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield passages in groups that are judged side by side, the first ones small.

    So the first changes are there soon, and the other passages share the engine's steps.
    """
    start, size = 0, 1
    while start < len(parts):
        yield parts[start : start + size]
        start, size = start + size, min(2 * size, PASSAGES)


def judged(
    group: Sequence[tuple[Passage, Sequence[Candidate]]],
    judge: Judge,
    context: int,
    sure: Sequence[int] = (),
    cache: Cache[Gain] | None = None,
) -> Flow[list[Change]]:
    """Return the plausible edits of some passages, as changes of the whole text.

    `sure` are the positions in it where sure changes were made.
    """
    changes = []
    measured = yield from measure(group, judge, context, cache)
    for (passage, _), some in zip(group, measured, strict=True):
        window = passage.window
        count = bisect_left(sure, window.end) - bisect_left(sure, window.start)
        found = judge.confidences(some, sure=count, words=passage.words)
        for each, confidence in zip(some, found, strict=True):
            change = each.candidate.change(gain=each.gain, confidence=confidence)
            changes.append(change.moved(window.context_start))
    return changes


def measure(
    group: Sequence[tuple[Passage, Sequence[Candidate]]],
    judge: Judge,
    context: int,
    cache: Cache[Gain] | None = None,
) -> Flow[list[list[Measured]]]:
    """Ask the model about edits of some passages; leave out those that do not pass the gate."""
    looks, ends = yield from look(group, context, cache)
    passed = [list(compress(some, judge.passes([each for _, each in some]))) for some in looks]
    return (yield from compared([passage for passage, _ in group], passed, ends, cache))


Look: TypeAlias = tuple[Comparison, Measured]
"""An edit, and what its first token tells."""


def look(
    group: Sequence[tuple[Passage, Sequence[Candidate]]],
    context: int,
    cache: Cache[Gain] | None = None,
) -> Flow[tuple[list[list[Look]], list[int]]]:
    """Read some passages, and return what the first token of each edit tells.

    The numbers that are returned with it are how many ids of each passage were read.
    """
    pools = [
        [one for each in some if (one := compare(passage, each, context)) is not None]
        for passage, some in group
    ]
    # This reads the texts; what is asked later reads only branches of them.
    parts, ends = [passage for passage, _ in group], [1] * len(group)
    found = yield from gains(parts, pools, ends, cache, is_first=True)
    looks = [
        [(one, Measured(one.candidate, first.gain, first.last)) for one, first in some]
        for some in found
    ]
    return looks, ends


def compared(
    parts: Sequence[Passage],
    looks: Sequence[Sequence[Look]],
    ends: list[int],
    cache: Cache[Gain] | None = None,
) -> Flow[list[list[Measured]]]:
    """Compare passages with and without some edits, as far as they differ."""
    pools = [[one for one, _ in some] for some in looks]
    wholes = yield from gains(parts, pools, ends, cache, is_first=False)
    return [
        [
            replace(each, gain=whole.gain, tokens=len(one.having.ids), without=whole.without)
            for (_, each), (one, whole) in zip(some, others, strict=True)
        ]
        for some, others in zip(looks, wholes, strict=True)
    ]


class Gain(NamedTuple):
    """How much more likely a text is with an edit."""

    gain: float
    last: float
    """The log-probability of the last token that was compared with the edit."""
    without: float
    """The log-probability of what was compared without it, per token."""


def gains(
    parts: Sequence[Passage],
    pools: Sequence[Sequence[Comparison]],
    ends: list[int],
    cache: Cache[Gain] | None,
    *,
    is_first: bool,
) -> Flow[list[list[tuple[Comparison, Gain]]]]:
    """Return how much more likely each passage is with each edit.

    With `is_first`, only as far as the first token of an edit tells. `ends` is how many ids of each
    passage are read: all of a new one, else as far as the last edit that the cache does not know.
    """
    questions, asked = [], []
    for n, (passage, some) in enumerate(zip(parts, pools, strict=True)):
        pairs = [each.branches(is_first=is_first) for each in some]
        known = [None if cache is None else cache.get(passage, pair) for pair in pairs]
        new = [pair for pair, gain in zip(pairs, known, strict=True) if gain is None]
        if new:
            history = passage.score.history
            is_new = is_first and len(new) == len(pairs)
            last = len(history) if is_new else max(without.cut for without, _ in new)
            ends[n] = max(ends[n], last)
            branches = tuple(chain.from_iterable(new))
            questions.append(Score(history[: ends[n]], start=ends[n], branches=branches))
        asked.append((passage, pairs, known))
    answers = iter((yield from scores(questions)))
    found: list[list[tuple[Comparison, Gain]]] = []
    for some, (passage, pairs, known) in zip(pools, asked, strict=True):
        scored = iter(next(answers).branches if None in known else ())
        found.append([])
        for one, pair, gain in zip(some, pairs, known, strict=True):
            if gain is None:
                a, b = next(scored).logprobs, next(scored).logprobs
                gain = Gain(fsum(b) - fsum(a), b[-1], fsum(a) / len(a))
                if cache is not None:
                    cache.put(passage, pair, gain)
            found[-1].append((one, gain))
    return found


def moved_spans(spans: Sequence[Span], changes: Sequence[Change]) -> list[Span]:
    """Return spans of a text as they are after some changes, none of which touches them."""
    found, moved, left = [], 0, list(reversed(changes))
    for start, end in spans:
        while left and left[-1].end <= start:
            change = left.pop()
            moved += len(change.after) - len(change.before)
        found.append((start + moved, end + moved))
    return found


def positions_after(changes: Sequence[Change]) -> list[int]:
    """Return where changes are in the text that they make."""
    found, moved = [], 0
    for change in changes:
        found.append(change.start + moved)
        moved += len(change.after) - len(change.before)
    return found


def _unlocked(locked: Sequence[Span]) -> Callable[[int, int], bool]:
    """Return whether a span touches no lock; text may be inserted at either end of one."""
    return lambda start, end: not touched(locked, start, end)


def by_passage(parts: Sequence[Passage], found: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the candidates of each passage; none is in two of them."""
    starts = [part.window.start for part in parts]
    pools: list[list[Candidate]] = [[] for _ in parts]
    for each in found:
        n = bisect_right(starts, each.start) - 1
        if each.end <= parts[n].window.end:
            by = parts[n].window.context_start
            pools[n].append(replace(each, start=each.start - by, end=each.end - by))
    return pools
