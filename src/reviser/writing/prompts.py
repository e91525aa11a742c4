"""What a model is shown of a text: a task becomes prompts, each with the request that it asks.

This module knows tokens, histories and locks, but not engines. A continuation and an infill have
one prompt; a long draft has one for each of its windows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import Codec
from reviser.engines.base import DecodeConfig, Request, check_room
from reviser.engines.settings import MAX_VALUE
from reviser.errors import ConfigError
from reviser.models.editing import Editing
from reviser.trajectories.alignment import present
from reviser.trajectories.refresh import Refresh
from reviser.writing._spaces import lends_space
from reviser.writing.tasks import Continue, Infill, Revise, Task
from reviser.writing.windows import Window, windows

__all__ = ["Model", "Prompt", "prompts_of"]


@dataclass(frozen=True, kw_only=True)
class Model:
    """What flows know of a model; it runs elsewhere."""

    vocab: ActionVocab = field(repr=False)
    codec: Codec = field(repr=False)
    context: int
    """Ids that a history may have at most."""
    editing: Editing = field(default_factory=Editing)
    provenance: dict[str, Any] = field(default_factory=dict)
    refresh: Refresh | None = None
    """When it is shown the text again; None: never."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A text as the model is shown it, with what maps its edits back to edits of the text."""

    text: str
    """The text as it was given, gaps included."""
    prefix: tuple[int, ...]
    preamble: tuple[int, ...] = ()
    """Actions of the history after the prefix that the model did not choose: they write the text
    after a gap, or the draft, and take the cursor back."""
    request: Request
    instruction_length: int = 0
    """Tokens of the instruction, with which the canvas begins; they are not part of the text."""
    context_length: int = 0
    """Tokens shown before and after a window of a draft."""
    window: Window | None = None
    """The window of a draft that this is."""
    spaces: tuple[bool, ...] = ()
    """For each gap of an infill: True if the space before it is left for the model to write."""

    @property
    def length(self) -> int:
        """Tokens of the text, without instruction and context."""
        own = self.request.length - self.instruction_length - self.context_length
        return own + sum(self.spaces)

    @property
    def offset(self) -> int:
        """Position of the text in its draft, in characters."""
        return self.window.context_start if self.window else 0

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

    def check(self, model: Model) -> None:
        """Refuse a text that is longer than the model's context, or than was asked for."""
        if self.request.config.max_length is not None:
            most = self.config.max_length
            if most is not None and self.length > most:
                raise ConfigError(
                    f"max_length is {most}, but the text is already {self.length} tokens long."
                )
        check_room(self.request.history, model.context)


def prompts_of(
    task: Task,
    model: Model,
    config: DecodeConfig | None = None,
    *,
    max_prompts: int | None = None,
    max_tokens: int | None = None,
) -> list[Prompt]:
    """Return the prompts of a task; one that the model cannot run is refused.

    The two limits are for servers: this ends as soon as one of them is passed.
    """
    config = config or task.default_config
    shown: Iterator[Prompt]
    if isinstance(task, Revise):
        shown = _window_prompts(task, config, model)
    elif isinstance(task, Infill):
        shown = iter([_infill_prompt(task, config, model)])
    else:
        shown = iter([_continue_prompt(task, config, model)])
    prompts: list[Prompt] = []
    tokens = 0
    for prompt in shown:
        prompt.check(model)
        tokens += len(prompt.request.history)
        prompts.append(prompt)
        check_limits(tokens, len(prompts), max_prompts=max_prompts, max_tokens=max_tokens)
    return prompts


def check_limits(
    tokens: int, prompts: int, *, max_prompts: int | None = None, max_tokens: int | None = None
) -> None:
    """Refuse a text that is longer than a server allows."""
    if max_tokens is not None and tokens > max_tokens:
        raise ConfigError(
            f"Your text is {tokens:,} tokens long or longer, context included; the limit is"
            f" {max_tokens:,}. Shorten it."
        )
    if max_prompts is not None and prompts > max_prompts:
        raise ConfigError(
            f"Your draft has more than {max_prompts:,} windows, which is the limit."
            " Use a larger `window`, or shorten the draft."
        )


def _continue_prompt(task: Continue, config: DecodeConfig, model: Model) -> Prompt:
    # Byte for byte: a tokenizer that normalizes text would change a prompt that is locked.
    prefix = model.codec.encode_parts([task.prompt])[0] if task.prompt else []
    request = Request.continuation(model.vocab, prefix, config)
    return Prompt(text=task.prompt, prefix=tuple(prefix), request=request)


def _infill_prompt(task: Infill, config: DecodeConfig, model: Model) -> Prompt:
    """Return the prompt of an infill: the text after the first gap is shown as written first.

    Training shows it in the same way; then the cursor goes back to the gap.
    """
    vocab, codec = model.vocab, model.codec
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
        editable=tuple((gap, gap) for gap in gaps),
        config=config,
    )
    return Prompt(
        text=task.text,
        prefix=tuple(prefix),
        preamble=preamble,
        request=request,
        spaces=spaces,
    )


def _window_prompts(task: Revise, config: DecodeConfig, model: Model) -> Iterator[Prompt]:
    """Yield the prompts of a draft, one for each window."""
    if task.instruction and model.vocab.delimiter is None:
        raise ConfigError(
            "This model was not trained with instructions: it has no delimiter to end one with."
            " Leave `instruction` out."
        )
    instruction = model.codec.encode(task.instruction) if task.instruction else []
    for n, window in enumerate(windows(model.codec, task.draft, task.window, task.context)):
        yield _window_prompt(task, window, instruction, config.with_seed_offset(n), model)


def _window_prompt(
    task: Revise, window: Window, instruction: list[int], config: DecodeConfig, model: Model
) -> Prompt:
    """Return the prompt of one window of a draft, whose locked spans and context may not change."""
    vocab, codec = model.vocab, model.codec
    low, start, end, high = window
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
    # Context is shown like locked text and not left out, because the model needs it to judge the
    # window's ends. A history shows the draft up to the first place that may change, then the rest
    # and the way back to that place; so its cursor starts where the first edit can be.
    bounds = list(accumulate(map(len, encoded), initial=len(instruction)))[1:]
    unlocked = [n for n in range(0, len(pieces), 2) if pieces[n] or not text]
    editable = [(bounds[n], bounds[n + 1]) for n in unlocked]
    cursor = editable[0][0] if editable else len(instruction)
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
        config = replace(config, max_length=min(MAX_VALUE, config.max_length + hidden))
    return Prompt(
        text=text,
        prefix=tuple(prefix),
        preamble=tuple(preamble),
        request=Request(
            history=(*vocab.prefix_actions(prefix), *preamble),
            length=bounds[-1],
            cursor=cursor,
            editable=tuple(editable),
            config=config,
        ),
        instruction_length=len(instruction),
        context_length=context_length,
        window=window,
    )
