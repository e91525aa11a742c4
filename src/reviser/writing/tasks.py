"""A text to what an engine is asked: to write on behind it, to fill its gaps, or to revise it.

Knows tokens, histories and what is locked in them; no engine, and nothing of what becomes of a
plan. A long draft is revised in windows, each a plan of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from operator import index
from typing import TypeGuard

import numpy as np

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import UNITS, Codec
from reviser.engines.base import MOST, DecodeConfig, Reading, Request
from reviser.errors import ConfigError
from reviser.trajectories.alignment import present

__all__ = ["Plan"]

_LOCKED = "locked must be texts, or pairs of places in the draft."
GAP = "{}"
"""What marks a gap in a text to fill in."""
WINDOW, CONTEXT = 192, 48
"""Tokens of a draft that are revised at a time, and those shown on either side of them."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A request, with what it was made from."""

    prompt: str
    prefix: tuple[int, ...]
    given: tuple[int, ...]
    """Actions that stand in the history behind the prefix: text after a gap, and the way back."""
    locked: tuple[str, ...]
    """The texts around the gaps, one more than these."""
    request: Request
    unseen: int = 0
    """Tokens at the beginning of the canvas that are no part of the text, as an instruction."""
    beside: int = 0
    """Tokens of the canvas that do not count: those unseen, and what is shown around a part. The
    request's `max_length` counts them, since an engine does."""
    place: int = 0
    """Where in a draft its text begins, if it is a part of one."""
    narrow: Callable[[Sequence[float]], Plan] | None = field(
        default=None, compare=False, repr=False
    )
    """What is left of it by the notes on its draft, if these are to be made first."""

    @property
    def length(self) -> int:
        """Tokens of the text."""
        return self.request.length - self.beside

    @property
    def config(self) -> DecodeConfig:
        """As it was asked for: `max_length` is that of the text."""
        config = self.request.config
        if config.max_length is None:
            return config
        return replace(config, max_length=config.max_length - self.beside)


def continuation(vocab: ActionVocab, codec: Codec, prompt: str, config: DecodeConfig) -> Plan:
    """To write on behind a prompt."""
    _check_text(prompt)
    prefix = codec.encode(prompt)
    return Plan(
        prompt=prompt,
        prefix=tuple(prefix),
        given=(),
        locked=(prompt, ""),
        request=Request.continuation(vocab, prefix, config),
    )


def infilling(
    vocab: ActionVocab,
    codec: Codec,
    text: str,
    spans: Sequence[tuple[int, int]] | None,
    config: DecodeConfig,
) -> Plan:
    """To fill gaps: what stands behind the first is shown as written first.

    So it is in training; then the cursor goes back to the gap.
    """
    parts = _parts(text, spans)
    first, *rest = codec.encode_parts(parts)
    places = [len(first)]
    for part in rest[:-1]:
        places.append(places[-1] + len(part))
    later = [token for part in rest for token in part]
    length = len(first) + len(later)
    if vocab.mark is not None and vocab.back is not None:  # a mark stands for each gap
        marked = [i for part in rest for i in (vocab.mark, *part)]
        prefix = first if vocab.needs_prefix else []
        given = (*first[len(prefix) :], *marked, vocab.back)
    else:
        back = vocab.split_move(-len(later), cursor=length, length=length) if later else ()
        prefix, given = first, (*later, *(vocab.move_id(delta) for delta in back))
    request = Request(
        history=(*vocab.prefix_actions(prefix), *given),
        length=length,
        cursor=len(first),
        gaps=tuple((place, place) for place in places),
        config=config,
    )
    return Plan(
        prompt=text, prefix=tuple(prefix), given=given, locked=tuple(parts), request=request
    )


@dataclass(frozen=True, kw_only=True)
class Revising:
    """How drafts are revised; `Reviser.revising` says what is what."""

    vocab: ActionVocab
    codec: Codec
    config: DecodeConfig
    instruction: str = ""
    locked: Sequence[str | tuple[int, int]] = ()
    notes: float | None = None
    window: int = WINDOW
    context: int = CONTEXT

    def __post_init__(self) -> None:
        _check_text(self.instruction)
        if self.instruction and self.vocab.delimiter is None:
            raise ConfigError("This model has no delimiter to end an instruction with.")
        sizes = ((self.window, 1), (self.context, 0))
        if not all(isinstance(size, int) and size >= least for size, least in sizes):
            raise ConfigError(
                f"window is {self.window!r}, context {self.context!r}; use 1 or more, 0 or more."
            )
        if not isinstance(self.locked, Sequence):
            raise ConfigError(_LOCKED)
        if self.notes is not None and not is_share(self.notes):
            raise ConfigError(f"notes is {self.notes!r}; it must be a number from 0 to 1.")

    @cached_property
    def _begin(self) -> list[int]:
        return self.codec.encode(self.instruction) if self.instruction else []

    def plans(self, draft: str) -> Iterator[Plan]:
        """One for each window of a draft, from the left."""
        _check_text(draft)
        spans = _locked_spans(draft, self.locked)
        parts = windows(self.codec, draft, self.window, self.context)
        for n, (low, start, end, high) in enumerate(parts):
            inner = [(max(a, start) - low, min(b, end) - low) for a, b in spans]
            inner = [(a, b) for a, b in inner if a < b]
            around = [(a - low, b - low) for a, b in ((low, start), (end, high)) if a < b]
            seed = (self.config.seed + n) % (1 << 64)
            plan = self._plan(draft[low:high], inner, around, replace(self.config, seed=seed))
            plan = replace(plan, place=low)
            is_read = self.notes is not None and plan.request.gaps
            yield self._reading(plan) if is_read else plan

    def _plan(
        self,
        text: str,
        inner: list[tuple[int, int]],
        around: list[tuple[int, int]],
        config: DecodeConfig,
    ) -> Plan:
        """For one window: what is locked inside it stays, and so does what is shown around it."""
        vocab, begin = self.vocab, self._begin
        locked = sorted([*inner, *around])
        edges = [0, *(bound for span in locked for bound in span), len(text)]
        parts = [text[a:b] for a, b in pairwise(edges)]  # free, locked, free ...
        if locked and self.codec.hides_first_space:
            # or what is locked might come first, and lose one
            pieces = self.codec.encode_parts(["", *parts])
        else:
            pieces = [[], *self.codec.encode_parts(parts)]
        bounds = list(accumulate(map(len, pieces), initial=len(begin)))[1:]
        free = [n for n in range(0, len(parts), 2) if parts[n] or not text]
        gaps = [(bounds[n], bounds[n + 1]) for n in free]
        cursor = gaps[0][0] if gaps else len(begin)
        tokens = [token for piece in pieces for token in piece]
        head, rest = tokens[: cursor - len(begin)], tokens[cursor - len(begin) :]
        way = present(vocab, rest, prefix=[*begin, *head])
        if vocab.needs_prefix:
            prefix, given = (head, way) if head else (rest, way)
        else:
            prefix, given = begin, (*head, *way)
        shown = zip(pieces[1:], pairwise(edges), strict=True)
        beside = len(begin) + sum(len(piece) for piece, span in shown if span in around)
        if config.max_length is not None:
            config = replace(config, max_length=min(MOST, config.max_length + beside))
        between = zip([-1, *free], [*free, len(parts)], strict=True)
        return Plan(
            prompt=text,
            prefix=tuple(prefix),
            given=tuple(given),
            locked=tuple("".join(parts[a + 1 : b]) for a, b in between),
            request=Request(
                history=(*vocab.prefix_actions(prefix), *given),
                length=bounds[-1],
                cursor=cursor,
                gaps=tuple(gaps),
                config=config,
            ),
            unseen=len(begin),
            beside=beside,
        )

    def _reading(self, plan: Plan) -> Plan:
        """The same, but the engine reads the draft first, and its notes decide what is left."""
        narrow = partial(self.narrowed, plan)
        reading = Reading(**vars(plan.request), narrow=lambda stays: narrow(stays).request.gaps)
        return replace(plan, request=reading, narrow=narrow)

    def narrowed(self, plan: Plan, stays: Sequence[float]) -> Plan:
        """A plan that is free only where the likelihood of a change reaches `notes`.

        `stays` says of each id of the history how likely nothing is to change right before it.
        Where something is, the word that ends there is free, and the place itself; so is the place
        of the cursor, since it begins in a gap. Where nothing is noted, all is locked.
        """
        request, unseen = plan.request, plan.unseen
        is_token = np.isin(self.vocab.kinds[list(request.history)], [Kind.INSERT, Kind.BARRED])
        shown = np.flatnonzero(is_token)[unseen:]  # where the history shows the text
        tokens = [request.history[n] for n in shown.tolist()]
        places = self.codec.places(tokens)
        is_word = (self.codec.unit_starts(tokens) & UNITS["word"]) > 0
        free = []
        for end in np.flatnonzero(1 - np.array(stays)[shown] >= self.notes).tolist():
            start = max(0, end - 1)
            while start and not (is_word[start] and places[start] >= 0):
                start -= 1
            while places[end] < 0:
                end += 1
            for low, high in request.gaps:
                first, last = max(start + unseen, low), min(end + unseen, high)
                free += [(first, last)] if first <= last else []
        if not free:
            return replace(plan, locked=(plan.prompt,), request=replace(request, gaps=()))
        gaps = [(request.cursor, request.cursor)]
        for first, last in sorted(free):  # those in two gaps of the plan never meet
            if first <= gaps[-1][1]:
                gaps[-1] = gaps[-1][0], max(last, gaps[-1][1])
            else:
                gaps.append((first, last))
        edges = [0, *(bound - unseen for gap in gaps for bound in gap), len(tokens)]
        spans = list(zip(edges[::2], edges[1::2], strict=True))
        locked = [plan.prompt[places[start] : places[end]] for start, end in spans]
        if self.codec.hides_first_space and gaps[0][1] == unseen:  # no longer the first, it shows
            locked[1] = " " * self.codec.token_bytes[tokens[0]].startswith(b" ") + locked[1]
        return replace(plan, locked=tuple(locked), request=replace(request, gaps=tuple(gaps)))


def _parts(text: str, spans: Sequence[tuple[int, int]] | None) -> list[str]:
    """The locked stretches around the gaps; of those between, none is empty."""
    _check_text(text)
    if spans is None:
        parts = text.split(GAP)
        if len(parts) == 1:
            raise ConfigError(f"The text has no gap: mark one or more with {GAP}, or give spans.")
    else:
        try:
            bounds = [index(bound) for start, end in spans for bound in (start, end)]
        except (TypeError, ValueError) as error:
            raise ConfigError("spans must be pairs of places in the text.") from error
        if not bounds or bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > len(text):
            raise ConfigError(
                f"spans {str(list(spans))[:80]} must be in order, apart, and within the text's"
                f" {len(text)} characters; give one or more."
            )
        edges = [0, *bounds, len(text)]
        parts = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    first, *between, last = parts
    return [first, *filter(None, between), last]


def _locked_spans(text: str, locked: Sequence[str | tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans of characters that are locked, in order."""
    spans = []
    for part in [locked] if isinstance(locked, str) else locked:
        if isinstance(part, str):
            found = [m.span() for m in re.finditer(re.escape(part), text)] if part else []
            if not found:
                raise ConfigError(f"The draft does not hold {part[:40]!r}, which is to be locked.")
            spans += found
            continue
        try:
            start, end = map(index, part)
        except (TypeError, ValueError) as error:
            raise ConfigError(_LOCKED) from error
        if not 0 <= start <= end <= len(text):
            raise ConfigError(
                f"The locked span {start}..{end} is not within the draft's {len(text)} characters."
            )
        spans.append((start, end))
    return _joined(spans)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that touch or overlap as one, empty ones left out."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def windows(
    codec: Codec, text: str, window: int, context: int
) -> Iterator[tuple[int, int, int, int]]:
    """Parts of a text, each with where it and what is shown around it begin and end.

    A part ends before a sentence, or else a word, where it can.
    """
    (tokens,) = codec.encode_parts([text])
    if len(tokens) <= window:
        yield 0, 0, len(text), len(text)
        return
    units, places = codec.unit_starts(tokens), codec.places(tokens)
    is_whole = places >= 0  # not within a character
    cuts = [0]
    while len(tokens) - cuts[-1] > window:
        late = np.arange(cuts[-1] + (window + 1) // 2, cuts[-1] + window + 1)
        late = late[is_whole[late]]
        if not late.size:  # a character of many tokens
            late = cuts[-1] + 1 + np.flatnonzero(is_whole[cuts[-1] + 1 :])[:1]
        if late[0] == len(tokens):
            break
        rank = units[late]  # sentences before words before tokens
        cuts.append(int(late[np.flatnonzero(rank == rank.max())[-1]]))
    cuts.append(len(tokens))
    for start, end in pairwise(cuts):
        low, high = max(0, start - context), min(len(tokens), end + context)
        while not is_whole[low]:
            low -= 1
        while not is_whole[high]:
            high += 1
        at = places[[low, start, end, high]].tolist()
        yield at[0], at[1], at[2], at[3]


def is_share(value: object) -> TypeGuard[float]:
    """Whether this is a number from 0 to 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise ConfigError(f"Give a text; got {type(text).__name__}.")
