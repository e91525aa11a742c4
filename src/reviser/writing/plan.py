"""Plans: the requests that a task asks of an engine, and the result made from what it wrote.

This module knows tokens, histories and locks, but not engines. A continuation and an infill have
one part; a long draft has one part for each of its windows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import TypeAlias

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.engines.base import DecodeConfig, Reading, Request, replay
from reviser.engines.settings import LARGEST
from reviser.errors import ConfigError
from reviser.models.editing import Editing
from reviser.trajectories.alignment import present
from reviser.writing._spaces import lends_space
from reviser.writing.changes import Change, Changes, changes_of
from reviser.writing.narrowing import edit_probabilities, narrow, shown_at, suggest
from reviser.writing.review import TOP, Comparison, compare
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Continue, Infill, Revise, Task
from reviser.writing.windows import windows

__all__ = ["Part", "Plan", "plan_task"]

Compared: TypeAlias = "list[tuple[Change, Comparison]]"
Comparisons: TypeAlias = "Callable[[Reading], Compared]"


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
    comparisons: Comparisons | None = field(default=None, compare=False, repr=False)
    """What to compare once a draft has been read: what the word lists suggest where the reading
    says that an edit is likely."""

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
    editing: Editing = field(default_factory=Editing)
    vocab: ActionVocab = field(repr=False, compare=False)
    codec: Codec = field(repr=False, compare=False)

    def result(self, rollouts: Sequence[Rollout]) -> Rollout | Revision:
        """Return the result of the task: the rollout, or for a draft the changes of all parts."""
        if not isinstance(self.task, Revise):
            (rollout,) = rollouts
            return rollout
        changes: list[Change] = []
        stop_logprob = 0.0
        least = self.editing.least_confidence(self.task.precision)
        for found, stop in self.candidates(rollouts):
            stop_logprob += stop
            for change in most_confident(found, least) if self.editing.compares else found:
                if changes and changes[-1].end == change.start:  # two that meet where windows do
                    change = changes.pop() + change
                changes.append(change)
        merged = Changes(draft=self.task.draft, changes=tuple(changes), stop_logprob=stop_logprob)
        return Revision(changes=merged, rollouts=tuple(rollouts))

    def candidates(self, rollouts: Sequence[Rollout]) -> Iterator[tuple[list[Change], float]]:
        """Yield the changes to choose from in each window, and its first `stop_logprob`."""
        for part, rollout in zip(self.parts, rollouts, strict=True):
            yield self._changes(part, rollout)

    def _changes(self, part: Part, rollout: Rollout) -> tuple[list[Change], float]:
        """Return the changes of one part, as changes of the whole draft, and its `stop_logprob`."""
        editing = self.editing
        chosen, logprobs = rollout.trajectory.restoration[len(part.preamble) :], rollout.logprobs
        made = _part_changes(part, chosen, logprobs, self.vocab, self.codec)
        low = part.offset
        return [
            replace(
                each,
                start=each.start + low,
                end=each.end + low,
                confidence=None
                if each.gain is None
                else editing.confidence_of(each.logprob, each.gain, each.source),
            )
            for each in (*made.changes, *rollout.suggested)
        ], made.stop_logprob


def most_confident(changes: Sequence[Change], least: float) -> list[Change]:
    """Return changes that do not meet, from the left: of those that do, the most confident.

    Confidence has an upper limit; of changes that reach it, the one with the highest gain counts.
    """
    found = [(each.confidence, each) for each in changes if each.confidence is not None]
    chosen: list[Change] = []
    for confidence, change in sorted(found, key=lambda pair: (-pair[0], -(pair[1].gain or 0.0))):
        is_apart = all(change.end < each.start or each.end < change.start for each in chosen)
        if is_apart and confidence >= least:
            chosen.append(change)
    return sorted(chosen, key=lambda each: each.start)


def _part_changes(
    part: Part, actions: Sequence[int], logprobs: Sequence[float], vocab: ActionVocab, codec: Codec
) -> Changes:
    """Return the changes that actions make to the text of a part."""
    canvas = replay(vocab, part.request.history)
    tokens = canvas.tokens()[part.instruction_length :]
    edits = [canvas.apply(action).shifted(-part.instruction_length) for action in actions]
    return changes_of(codec, tokens, zip(edits, logprobs, strict=True), draft=part.prompt)


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
    config, editing = config or task.default_config, editing or Editing()
    made: Iterator[Part]
    if isinstance(task, Revise):
        made = _window_parts(task, config, vocab, codec, editing)
    elif isinstance(task, Infill):
        made = iter([_infill_part(task, config, vocab, codec)])
    else:
        made = iter([_continue_part(task, config, vocab, codec)])
    parts: list[Part] = []
    tokens = 0
    for part in made:
        tokens += len(part.request.history)
        parts.append(part)
        if max_tokens is not None and tokens > max_tokens:
            raise ConfigError(
                f"Your text is {tokens:,} tokens long or longer, context included; the limit is"
                f" {max_tokens:,}. Shorten it."
            )
        if max_parts is not None and len(parts) > max_parts:
            raise ConfigError(
                f"Your draft has more than {max_parts:,} windows, which is the limit."
                " Use a larger `window`, or shorten the draft."
            )
    return Plan(
        task=task,
        config=config,
        parts=tuple(parts),
        editing=editing,
        vocab=vocab,
        codec=codec,
    )


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


def _window_parts(
    task: Revise, config: DecodeConfig, vocab: ActionVocab, codec: Codec, editing: Editing
) -> Iterator[Part]:
    """Yield the parts of a draft, one for each window."""
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
    for n, at in enumerate(windows(codec, task.draft, task.window, task.context)):
        each = config.with_seed_offset(n)
        if not editing.writes_edits:
            each = replace(each, max_edits=0)
        part = _window_part(task, at, instruction, each, vocab, codec, editing)
        request = part.request
        if threshold and request.gaps:
            # A model that writes no edits has nothing to do once the window has been read.
            following = partial(then, request) if editing.writes_edits else lambda _: None
            request = replace(request, then=following, top=TOP if editing.lists else 0)
        if editing.compares:
            comparisons = partial(
                _comparisons, part, vocab=vocab, codec=codec, editing=editing, at=at, task=task
            )
            request = replace(request, review=partial(_review, comparisons))
            part = replace(part, comparisons=comparisons)
        yield replace(part, request=request)


def _comparisons(
    part: Part,
    reading: Reading,
    *,
    task: Revise,
    at: tuple[int, int, int, int],
    vocab: ActionVocab,
    codec: Codec,
    editing: Editing,
) -> Compared:
    """Return what the word lists suggest for a window, where it is plausible to compare."""
    if editing.lists is None:
        return []
    history, hidden = part.request.history, part.instruction_length
    tokens, likely = edit_probabilities(part.request, reading, vocab, hidden, editing)
    threshold = editing.minimum(task.min_edit_probability, task.precision)
    offsets = codec.char_offsets(tokens)
    shown = shown_at(part.request, vocab, hidden)
    positions = dict(zip(offsets.tolist(), shown.tolist(), strict=False))
    found = suggest(task, at, editing.lists, offsets, likely, threshold)
    compared = ((each, compare(part.prompt, each, vocab=vocab, codec=codec)) for each in found)
    return [
        (change, each)
        for change, each in compared
        if each.at not in positions
        or each.is_plausible(change, history, reading, positions[each.at])
    ]


def _review(comparisons: Comparisons, reading: Reading) -> list[Request]:
    return [request for _, each in comparisons(reading) for request in each.requests]


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
