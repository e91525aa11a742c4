"""Plans: the requests that a task asks of an engine, and the result made from what it wrote.

Knows tokens, histories and which of them are locked; no engine. A continuation and an infill have
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
from reviser.core.canvas import Canvas, Edit
from reviser.core.codec import UNITS, Codec
from reviser.engines.base import DecodeConfig, Gaps, Request
from reviser.engines.settings import LARGEST
from reviser.errors import ConfigError
from reviser.models.editing import Editing
from reviser.trajectories.alignment import present
from reviser.writing.changes import Change, Changes, changes_of
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Continue, Infill, Revise, Span, Task

__all__ = ["Part", "Plan", "plan_task"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One request of a plan, with what is needed to show its edits and to check its locks."""

    prompt: str
    """The text of this part as it was given, gaps included."""
    prefix: tuple[int, ...]
    preamble: tuple[int, ...] = ()
    """Actions of the history after the prefix that the model did not choose: they write the text
    after a gap, or the draft, and take the cursor back."""
    locked: tuple[str, ...]
    """The texts around the gaps, one more than there are gaps."""
    request: Request
    instruction_length: int = 0
    """Tokens of the instruction, with which the canvas begins; they are not part of the text."""
    context_length: int = 0
    """Tokens shown before and after a window of a draft."""
    offset: int = 0
    """Position of this part in its draft, in characters."""

    @property
    def length(self) -> int:
        """Tokens of the text, without instruction and context."""
        return self.request.length - self.instruction_length - self.context_length

    @property
    def config(self) -> DecodeConfig:
        """The config as it was asked for.

        The `max_length` of the request also counts instruction and context, because engines do.
        """
        config = self.request.config
        if config.max_length is None:
            return config
        hidden = self.instruction_length + self.context_length
        return replace(config, max_length=config.max_length - hidden)

    def edit_of_text(self, edit: Edit) -> Edit:
        """Return an edit of the canvas as one of the text, which begins after the instruction."""
        if not self.instruction_length:
            return edit
        at, before, after = (
            position - self.instruction_length
            for position in (edit.position, edit.cursor_before, edit.cursor)
        )
        return Edit(at, edit.removed, edit.inserted, before, after)

    def locked_around(self, gaps: Gaps, tokens: Sequence[int], codec: Codec) -> tuple[str, ...]:
        """Return the texts around the gaps that were left after reading; tokens spell the draft."""
        if not gaps:
            return (self.prompt,)
        bounds = [bound - self.instruction_length for gap in gaps for bound in gap]
        at = codec.char_offsets(tokens)
        edges = [0, *bounds, len(tokens)]
        spans = zip(edges[::2], edges[1::2], strict=True)
        locked = [self.prompt[at[start] : at[end]] for start, end in spans]
        # A first space that the tokenizer hides is shown once something is inserted before it.
        if codec.hides_first_space and bounds[1] == 0:
            locked[1] = " " * codec.token_bytes[tokens[0]].startswith(b" ") + locked[1]
        return tuple(locked)


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
            made = self._changes(part, rollout)
            stop_logprob += made.stop_logprob
            for each in made.changes:
                start, end = each.start + part.offset, each.end + part.offset
                change = replace(each, start=start, end=end)
                if changes and changes[-1].end == start:  # two that meet where windows do
                    change = changes.pop() + change
                changes.append(change)
        merged = Changes(draft=self.task.draft, changes=tuple(changes), stop_logprob=stop_logprob)
        return Revision(changes=merged, rollouts=tuple(rollouts))

    def _changes(self, part: Part, rollout: Rollout) -> Changes:
        canvas = Canvas.replay(self.vocab, [*part.prefix, *part.preamble])
        tokens = canvas.tokens()[part.instruction_length :]
        chosen = rollout.trajectory.restoration[len(part.preamble) :]
        edits = (part.edit_of_text(canvas.apply(action)) for action in chosen)
        steps = zip(edits, rollout.logprobs, strict=True)
        return changes_of(self.codec, tokens, steps, draft=part.prompt)


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
    parts: list[Part] = []
    tokens = 0
    for part in _parts(task, config, vocab, codec, editing or Editing()):
        parts.append(part)
        tokens += len(part.request.history)
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
        if part.config.max_length is not None and part.length > part.config.max_length:
            raise ConfigError(
                f"max_length is {part.config.max_length}, but the text is already {part.length}"
                " tokens long."
            )
    return Plan(task=task, config=config, parts=tuple(parts), vocab=vocab, codec=codec)


def _parts(
    task: Task, config: DecodeConfig, vocab: ActionVocab, codec: Codec, editing: Editing
) -> Iterator[Part]:
    if isinstance(task, Continue):
        prefix = codec.encode(task.prompt)
        request = Request.continuation(vocab, prefix, config)
        yield Part(
            prompt=task.prompt, prefix=tuple(prefix), locked=(task.prompt, ""), request=request
        )
    elif isinstance(task, Infill):
        yield _infill_part(task, config, vocab, codec)
    else:
        yield from _revise_parts(task, config, vocab, codec, editing)


def _infill_part(task: Infill, config: DecodeConfig, vocab: ActionVocab, codec: Codec) -> Part:
    """Return the part of an infill: the text after the first gap is shown as written first.

    Training shows it in the same way; then the cursor goes back to the gap.
    """
    first, *rest = codec.encode_parts(task.locked)
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
        locked=task.locked,
        request=request,
    )


def _revise_parts(
    task: Revise, config: DecodeConfig, vocab: ActionVocab, codec: Codec, editing: Editing
) -> Iterator[Part]:
    """Yield a part for each window of a draft, from the left."""
    if task.instruction and vocab.delimiter is None:
        raise ConfigError(
            "This model was not trained with instructions: it has no delimiter to end one with."
            " Leave `instruction` out."
        )
    threshold = editing.minimum(task.min_edit_probability, task.precision)
    instruction = codec.encode(task.instruction) if task.instruction else []
    locks = task.locked_spans
    bounds = windows(codec, task.draft, task.window, task.context)
    for n, (low, start, end, high) in enumerate(bounds):
        # Locks are in order and apart, so those of this window are neighbours.
        first = bisect_right(locks, start, key=itemgetter(1))
        last = bisect_left(locks, end, key=itemgetter(0))
        inside = [(max(a, start) - low, min(b, end) - low) for a, b in locks[first:last]]
        part = _window_part(
            task.draft[low:high],
            inside,
            [(a - low, b - low) for a, b in ((low, start), (end, high)) if a < b],
            instruction,
            config.with_seed_offset(n),
            vocab,
            codec,
        )
        part = replace(part, offset=low)
        if threshold and part.request.gaps:
            then = partial(
                narrow,
                part.request,
                vocab=vocab,
                codec=codec,
                instruction_length=len(instruction),
                threshold=threshold,
                label_delay=editing.label_delay,
            )
            part = replace(part, request=replace(part.request, then=then))
        yield part


def _window_part(
    text: str,
    locked: list[Span],
    context: list[Span],
    instruction: list[int],
    config: DecodeConfig,
    vocab: ActionVocab,
    codec: Codec,
) -> Part:
    """Return the part of one window: the spans that are locked in it, and its context, are kept."""
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
    if vocab.needs_prefix:  # without an instruction the draft itself is the prefix
        prefix, preamble = (head, shown) if head else (rest, shown)
    else:
        prefix, preamble = instruction, (*head, *shown)
    in_context = zip(encoded[1:], pairwise(edges), strict=True)
    context_length = sum(len(piece) for piece, span in in_context if span in context)
    if config.max_length is not None:
        hidden = len(instruction) + context_length
        config = replace(config, max_length=min(LARGEST, config.max_length + hidden))
    between = zip([-1, *editable], [*editable, len(pieces)], strict=True)
    return Part(
        prompt=text,
        prefix=tuple(prefix),
        preamble=tuple(preamble),
        locked=tuple("".join(pieces[a + 1 : b]) for a, b in between),
        request=Request(
            history=(*vocab.prefix_actions(prefix), *preamble),
            length=bounds[-1],
            cursor=cursor,
            gaps=tuple(gaps),
            config=config,
        ),
        instruction_length=len(instruction),
        context_length=context_length,
    )


def narrow(
    request: Request,
    edit_probabilities: Sequence[float],
    *,
    vocab: ActionVocab,
    codec: Codec,
    instruction_length: int,
    threshold: float,
    label_delay: int = 0,
) -> Request | None:
    """Return a request that may edit only where an edit is likely; None if it is nowhere.

    Where the probability reaches the threshold, the word that ends there may be changed, and text
    may be inserted there. The cursor's own position stays a gap, because it has to start in one.
    """
    is_token = np.isin(vocab.kinds[list(request.history)], [Kind.INSERT, Kind.BARRED])
    shown = np.flatnonzero(is_token)[instruction_length:]  # ids of the history that show the draft
    tokens = [request.history[n] for n in shown.tolist()]
    characters = codec.char_offsets(tokens)  # -1 within a character
    is_word = (codec.unit_starts(tokens) & UNITS["word"]) > 0
    likely = np.flatnonzero(np.array(edit_probabilities)[shown] >= threshold) - label_delay
    found = []
    for end in likely[likely >= 0].tolist():
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
    if not found:
        return None
    gaps = [(request.cursor, request.cursor)]
    for first, last in sorted(found):  # those in two gaps of the request never meet
        if first <= gaps[-1][1]:
            gaps[-1] = gaps[-1][0], max(last, gaps[-1][1])
        else:
            gaps.append((first, last))
    return replace(request, gaps=tuple(gaps), then=None)


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
    is_whole = characters >= 0  # not within a character
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
        at = characters[[low, start, end, high]].tolist()
        yield at[0], at[1], at[2], at[3]
