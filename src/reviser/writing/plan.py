"""Plans: the requests that a task asks of an engine, and the result made from what it wrote.

This module knows tokens, histories and locks, but not engines. A continuation and an infill have
one part; a long draft has one part for each of its windows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from operator import itemgetter

import numpy as np

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import UNITS, Codec
from reviser.core.searches import shortest_search
from reviser.engines.base import DecodeConfig, Reading, Request, replay
from reviser.engines.settings import LARGEST
from reviser.errors import ConfigError
from reviser.models.editing import Editing
from reviser.trajectories.alignment import present
from reviser.writing._spaces import lends_space
from reviser.writing.changes import Change, Changes, changes_of
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Continue, Infill, Revise, Task

__all__ = ["Part", "Plan", "plan_task"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One request of a plan, with what is needed to show its edits as edits of the text."""

    prompt: str
    """The text of this part as it was given, gaps included."""
    prefix: tuple[int, ...]
    preamble: tuple[int, ...] = ()
    """Actions of the history after the prefix that the model did not choose: they write the text
    after a gap, or the draft, and take the cursor back."""
    request: Request
    instruction_length: int = 0
    """Tokens of the instruction, with which the canvas begins; they are not part of the text."""
    context_length: int = 0
    """Tokens shown before and after a window of a draft."""
    offset: int = 0
    """Position of this part in its draft, in characters."""
    spaces: tuple[bool, ...] = ()
    """For each gap of an infill: True if the space before it is left for the model to write."""

    @property
    def length(self) -> int:
        """Tokens of the text, without instruction and context."""
        own = self.request.length - self.instruction_length - self.context_length
        return own + sum(self.spaces)

    @property
    def config(self) -> DecodeConfig:
        """The config as it was asked for.

        The `max_length` of the request also counts instruction and context, because engines do. It
        leaves room for spaces before gaps, should the model not write them.
        """
        config = self.request.config
        if config.max_length is None:
            return config
        hidden = self.instruction_length + self.context_length - sum(self.spaces)
        return replace(config, max_length=config.max_length - hidden)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parts of a task, which run side by side, and how their rollouts become its result."""

    task: Task
    config: DecodeConfig
    parts: tuple[Part, ...]
    vocab: ActionVocab = field(repr=False, compare=False)
    codec: Codec = field(repr=False, compare=False)

    def result(self, rollouts: Sequence[Rollout]) -> Rollout | Revision:
        """Return the result of the task: the rollout, or for a draft the changes of all parts."""
        if not isinstance(self.task, Revise):
            (rollout,) = rollouts
            return rollout
        changes: list[Change] = []
        stop_logprob = 0.0
        for part, rollout in zip(self.parts, rollouts, strict=True):
            canvas = replay(self.vocab, part.request.history)
            tokens = canvas.tokens()[part.instruction_length :]
            chosen = rollout.trajectory.restoration[len(part.preamble) :]
            edits = [canvas.apply(action).shifted(-part.instruction_length) for action in chosen]
            steps = zip(edits, rollout.logprobs, strict=True)
            made = changes_of(self.codec, tokens, steps, draft=part.prompt)
            stop_logprob += made.stop_logprob
            for each in made.changes:
                start, end = each.start + part.offset, each.end + part.offset
                change = replace(each, start=start, end=end)
                if changes and changes[-1].end == start:  # two that meet where windows do
                    change = changes.pop() + change
                changes.append(change)
        merged = Changes(draft=self.task.draft, changes=tuple(changes), stop_logprob=stop_logprob)
        return Revision(changes=merged, rollouts=tuple(rollouts))


def plan_task(
    task: Task,
    config: DecodeConfig | None = None,
    *,
    vocab: ActionVocab,
    codec: Codec,
    editing: Editing | None = None,
    max_parts: int | None = None,
    max_tokens: int | None = None,
) -> Plan:
    """Return the plan of a task; with more parts or tokens than allowed it is refused.

    The two limits are for servers: planning ends as soon as one of them is passed.
    """
    config = config or task.default_config
    threshold = 0.0
    made: Iterator[Part]
    if isinstance(task, Revise):
        editing = editing or Editing()
        threshold = editing.minimum(task.min_edit_probability, task.precision)
        if task.instruction and vocab.delimiter is None:
            raise ConfigError(
                "This model was not trained with instructions: it has no delimiter to end one with."
                " Leave `instruction` out."
            )
        instruction = codec.encode(task.instruction) if task.instruction else []
        then = partial(
            narrow,
            vocab=vocab,
            codec=codec,
            instruction_length=len(instruction),
            threshold=threshold,
            editing=editing,
        )
        bounds = enumerate(windows(codec, task.draft, task.window, task.context))
        made = (
            _window_part(task, at, instruction, config.with_seed_offset(n), vocab, codec, editing)
            for n, at in bounds
        )
    elif isinstance(task, Infill):
        made = iter([_infill_part(task, config, vocab, codec)])
    else:
        made = iter([_continue_part(task, config, vocab, codec)])
    parts: list[Part] = []
    tokens = 0
    for part in made:
        request = part.request
        if threshold and request.gaps:
            request = replace(request, then=partial(then, request))
        parts.append(replace(part, request=request))
        tokens += len(request.history)
        if max_tokens is not None and tokens > max_tokens:
            raise ConfigError(
                f"Your text is {tokens:,} tokens long or longer, context included; the limit is"
                f" {max_tokens:,}. Shorten it."
            )
        if max_parts is not None and len(parts) > max_parts:
            raise ConfigError(
                f"Your draft has more than {max_parts:,} windows, which is the limit. Use a larger"
                " `window`, or shorten the draft."
            )
    return Plan(task=task, config=config, parts=tuple(parts), vocab=vocab, codec=codec)


def _continue_part(task: Continue, config: DecodeConfig, vocab: ActionVocab, codec: Codec) -> Part:
    # Byte for byte: a tokenizer that normalizes text would change a prompt that is locked.
    prefix = codec.encode_parts([task.prompt])[0] if task.prompt else []
    request = Request.continuation(vocab, prefix, config)
    return Part(prompt=task.prompt, prefix=tuple(prefix), request=request)


def _infill_part(task: Infill, config: DecodeConfig, vocab: ActionVocab, codec: Codec) -> Part:
    """Return the part of an infill: the text after the first gap is shown as written first.

    Training shows it in the same way; then the cursor goes back to the gap.
    """
    *before, last = task.locked
    can_add = codec.space is not None and vocab.kinds[codec.space] == Kind.INSERT
    spaces = tuple(can_add and lends_space(text) for text in before)
    shown = [text[:-1] if lends else text for text, lends in zip(before, spaces, strict=True)]
    first, *rest = codec.encode_parts([*shown, last])
    if config.max_length is not None:
        config = replace(config, max_length=max(0, config.max_length - sum(spaces)))
    gaps = list(accumulate((len(part) for part in rest[:-1]), initial=len(first)))
    later = [token for part in rest for token in part]
    length = len(first) + len(later)
    if vocab.mark is not None and vocab.back is not None:  # a mark stands for each gap
        marked = [i for part in rest for i in (vocab.mark, *part)]
        prefix = first if vocab.needs_prefix else []
        preamble = (*first[len(prefix) :], *marked, vocab.back)
    else:
        back = vocab.split_move(-len(later), cursor=length, length=length) if later else ()
        prefix, preamble = first, (*later, *(vocab.move_id(delta) for delta in back))
    request = Request(
        history=(*vocab.prefix_actions(prefix), *preamble),
        length=length,
        cursor=len(first),
        gaps=tuple((gap, gap) for gap in gaps),
        config=config,
    )
    return Part(
        prompt=task.text,
        prefix=tuple(prefix),
        preamble=preamble,
        request=request,
        spaces=spaces,
    )


def _window_part(
    task: Revise,
    at: tuple[int, int, int, int],
    instruction: list[int],
    config: DecodeConfig,
    vocab: ActionVocab,
    codec: Codec,
    editing: Editing,
) -> Part:
    """Return the part of one window of a draft, whose locked spans and context may not change."""
    low, start, end, high = at
    text, locks = task.draft[low:high], task.locked_spans
    # Locks are in order and apart from each other, so those of this window are neighbours.
    first = bisect_right(locks, start, key=itemgetter(1))
    last = bisect_left(locks, end, key=itemgetter(0))
    locked = [(max(a, start) - low, min(b, end) - low) for a, b in locks[first:last]]
    context = [(a - low, b - low) for a, b in ((low, start), (end, high)) if a < b]
    edges = [0, *(bound for span in sorted([*locked, *context]) for bound in span), len(text)]
    pieces = [text[a:b] for a, b in pairwise(edges)]  # editable, locked, editable ...
    if len(pieces) > 1 and codec.hides_first_space:
        # The empty first piece takes the space that the tokenizer hides; else a locked piece might
        # come first and lose it.
        encoded = codec.encode_parts(["", *pieces])
    else:
        encoded = [[], *codec.encode_parts(pieces)]
    bounds = list(accumulate(map(len, encoded), initial=len(instruction)))[1:]
    editable = [n for n in range(0, len(pieces), 2) if pieces[n] or not text]
    gaps = [(bounds[n], bounds[n + 1]) for n in editable]
    cursor = gaps[0][0] if gaps else len(instruction)
    tokens = [token for piece in encoded for token in piece]
    head, rest = tokens[: cursor - len(instruction)], tokens[cursor - len(instruction) :]
    shown = present(vocab, rest, prefix=[*instruction, *head])
    if editing.delimiters and shown and vocab.delimiter is not None:
        shown = (*shown[:-1], *[vocab.delimiter] * editing.delimiters, shown[-1])
    if vocab.needs_prefix:  # without an instruction the draft itself is the prefix
        prefix, preamble = (head, shown) if head else (rest, shown)
    else:
        prefix, preamble = instruction, (*head, *shown)
    in_context = zip(encoded[1:], pairwise(edges), strict=True)
    context_length = sum(len(piece) for piece, span in in_context if span in context)
    if config.max_length is not None:
        hidden = len(instruction) + context_length
        config = replace(config, max_length=min(LARGEST, config.max_length + hidden))
    return Part(
        prompt=text,
        prefix=tuple(prefix),
        preamble=tuple(preamble),
        request=Request(
            history=(*vocab.prefix_actions(prefix), *preamble),
            length=bounds[-1],
            cursor=cursor,
            gaps=tuple(gaps),
            config=config,
        ),
        instruction_length=len(instruction),
        context_length=context_length,
        offset=low,
    )


def narrow(
    request: Request,
    reading: Reading,
    *,
    vocab: ActionVocab,
    codec: Codec,
    instruction_length: int,
    threshold: float,
    editing: Editing,
) -> Request | None:
    """Return a request that may edit only where an edit is likely; None if it is nowhere.

    Where the probability reaches the threshold, the word that ends there may be changed, and text
    may be inserted there. The cursor's own position stays a gap, because it has to start in one.
    """
    is_token = np.isin(vocab.kinds[list(request.history)], [Kind.INSERT, Kind.PREFIX_ONLY])
    shown = np.flatnonzero(is_token)[instruction_length:]  # ids of the history that show the draft
    tokens = [request.history[n] for n in shown.tolist()]
    judged = np.append(shown, shown[-1:] + 1 + np.arange(editing.delimiters))
    probabilities = np.array(reading.edit_probabilities(among_controls=editing.among_controls))
    likely = dict(enumerate(probabilities[judged].tolist(), start=-editing.label_delay))
    characters = codec.char_offsets(tokens)  # -1 within a character
    is_word = (codec.unit_starts(tokens) & UNITS["word"]) > 0
    words: dict[
        int, tuple[float, int]
    ] = {}  # probability and end of the most likely edit, by start
    found = []
    for end, probability in likely.items():
        if end < 0 or probability < threshold:
            continue
        start = max(0, end - 1)
        while start and not (is_word[start] and characters[start] >= 0):
            start -= 1
        while characters[end] < 0:
            end += 1
        for low, high in request.gaps:
            first = max(start + instruction_length, low)
            last = min(end + instruction_length, high)
            if first <= last:
                found.append((first, last))
                words[first] = max(words.get(first, (0.0, 0)), (probability, last))
    if not found:
        return None
    gaps = [(request.cursor, request.cursor)]
    for first, last in sorted(found):  # those in two gaps of the request never meet
        if first <= gaps[-1][1]:
            gaps[-1] = gaps[-1][0], max(last, gaps[-1][1])
        else:
            gaps.append((first, last))
    route = None
    if editing.has_route:
        canvas = replay(vocab, request.history).tokens()
        goals = sorted({end for _, end in words.values()})
        route = _route(vocab, canvas, request.cursor, goals)
        if not route:
            return None
    return replace(request, gaps=tuple(gaps), route=route, then=None)


def _route(
    vocab: ActionVocab, tokens: Sequence[int], cursor: int, goals: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Return the searches that lead the cursor to each goal in turn."""
    searches: list[tuple[int, ...]] = []
    for goal in goals:
        if goal < cursor:
            continue
        size = shortest_search(tokens, cursor, goal) if goal > cursor else 0
        found = tuple(tokens[goal - size : goal])
        if all(vocab.kinds[token] == Kind.INSERT for token in found) and (found or not searches):
            searches.append(found)
            cursor = goal
    return tuple(searches)


def windows(
    codec: Codec, text: str, window: int, context: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the windows of a text as character positions: context start, start, end, context end.

    A window ends before a sentence, or else before a word, where it can.
    """
    (tokens,) = codec.encode_parts([text])
    if len(tokens) <= window:
        yield 0, 0, len(text), len(text)
        return
    units, characters = codec.unit_starts(tokens), codec.char_offsets(tokens)
    whole = np.flatnonzero(characters >= 0)  # boundaries that are not within a character
    start = 0
    while start < len(tokens):
        end = len(tokens)
        if len(tokens) - start > window:
            reach = [start + 1, start + (window + 1) // 2, start + window + 1]
            following, first, last = np.searchsorted(whole, reach)
            late = whole[first:last]
            if not late.size:  # a character of many tokens
                late = whole[following : following + 1]
            if late[0] < len(tokens):
                rank = units[late]  # sentences before words before tokens
                end = int(late[np.flatnonzero(rank == rank.max())[-1]])
        low = whole[np.searchsorted(whole, max(0, start - context), side="right") - 1]
        high = whole[np.searchsorted(whole, min(len(tokens), end + context))]
        at = characters[[low, start, end, high]].tolist()
        yield at[0], at[1], at[2], at[3]
        start = end
