"""One text while it is being written: steps of an engine in, edits of the text out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from reviser.core.actions import Kind
from reviser.core.canvas import Edit
from reviser.core.codec import OffsetUnit, TextEdit, TextStream
from reviser.core.mask import shift_ranges
from reviser.core.trajectory import Trajectory
from reviser.engines.base import Ranges, Request, Step, StopReason, replay
from reviser.errors import EngineError
from reviser.trajectories.refresh import Refresh
from reviser.writing._spaces import SpacedStream
from reviser.writing.prompts import Model, Prompt
from reviser.writing.rollout import Locked, Rollout, Statistics

__all__ = ["Writing"]


class Writing:
    """A text being written; it is valid after every step."""

    def __init__(self, prompt: Prompt, model: Model, unit: OffsetUnit = "char") -> None:
        self.prompt = prompt
        self.stop_reason: StopReason | None = None
        """The reason why it ended; None while it is being written."""
        self._model, self._codec, self._vocab = model, model.codec, model.vocab
        self._canvas = replay(model.vocab, prompt.request.history)
        self._given = self._canvas.tokens()
        self._stream = self._text_stream(unit)
        here = self._canvas.cursor - prompt.instruction_length
        self.cursor = self._stream.feed(Edit(here, (), (), here, here)).cursor
        """Position of the cursor in the text."""
        self.kind = ""
        """The kind of the last id: the name of a `Kind` in lower case, or "argument"."""
        self.logprob = 0.0
        """The model's log-probability of the last id."""
        self.ids_read = 0
        """Ids of all histories that the model was shown."""
        self._logprobs: list[float] = []
        self._actions: list[int] = []
        self._whole = 0  # actions before STOP, or before one that is half spelled
        self._edits = 0
        self._moves = 0
        self._last = ""  # the name of the last action that was begun
        self.restrict(prompt.request.editable)

    def _text_stream(self, unit: OffsetUnit) -> TextStream | SpacedStream:
        prompt, shown = self.prompt, self._given[self.prompt.instruction_length :]
        if not any(prompt.spaces):
            return self._codec.stream(shown, unit=unit)
        gaps = zip(prompt.request.editable, prompt.spaces, strict=True)
        starts = [start for (start, _), lends in gaps if lends]
        return SpacedStream(self._codec, shown, starts, unit)

    @property
    def text(self) -> str:
        """The text after the last edit."""
        return self._stream.text

    @property
    def marks(self) -> tuple[int, ...]:
        """Positions in the text of the marks that the model has not gone back to yet."""
        own = (mark - self.prompt.instruction_length for mark in self._canvas.marks)
        return tuple(map(self._stream.offset_of, own))

    def restrict(self, editable: Ranges) -> None:
        """Lock everything outside of some ranges, before anything is written."""
        self.prompt = replace(self.prompt, request=replace(self.prompt.request, editable=editable))
        # Lows and highs; they follow the edits.
        self._bounds = np.array(editable, np.int64).reshape(-1, 2).T

    def take(self, step: Step) -> TextEdit:
        """Apply one step and return the edit of the text."""
        if not isfinite(step.logprob):
            raise EngineError(f"The engine chose an action of log-probability {step.logprob}.")
        is_argument = self._canvas.is_spelling
        edit = self._canvas.apply(step.action)
        kind = self._vocab.kind(step.action)
        self.kind = "argument" if is_argument else kind.word
        self._last = self._last if is_argument else kind.word
        self._moves += bool(self._vocab.is_move[step.action]) and not is_argument
        if edit.changes_text:
            (lows, highs), end = self._bounds, edit.position + len(edit.removed)
            if not ((lows <= edit.position) & (end <= highs)).any():
                self._canvas.rollback()
                raise EngineError("The engine changed locked text: does it run the mask?")
            shift_ranges(lows, highs, end, len(edit.inserted) - len(edit.removed))
            self._edits += 1
        self._actions.append(step.action)
        if not self._canvas.is_spelling and kind is not Kind.STOP:
            self._whole = len(self._actions)
        self._logprobs.append(step.logprob)
        self.logprob = step.logprob
        self.stop_reason = step.ended
        text_edit = self._stream.feed(edit.shifted(-self.prompt.instruction_length))
        self.cursor = text_edit.cursor
        return text_edit

    @property
    def actions(self) -> int:
        """Number of ids that the model has chosen so far."""
        return len(self._actions)

    @property
    def edits(self) -> int:
        """Number of actions so far that changed the text."""
        return self._edits

    def drop_unfinished(self) -> int:
        """Forget the ids of an action that is not complete, which has done nothing yet.

        Return how many ids those were.
        """
        count = len(self._actions) - self._whole
        if not self._canvas.is_spelling or not count:
            return 0
        self._canvas.rollback(count)
        first = self._actions[self._whole]
        self._moves -= bool(self._vocab.is_move[first])
        del self._actions[self._whole :], self._logprobs[self._whole :]
        return count

    @property
    def completed(self) -> str:
        """The name of the last action if it is complete, or nothing."""
        return self._last if self._whole == len(self._actions) else ""

    def shown_again(self, refresh: Refresh, room: int) -> Request | None:
        """Return a request that shows the current text, in place of the actions that led to it.

        None if the text leaves no room for an action.
        """
        prefix, canvas = self.prompt.prefix, self._canvas
        shown = refresh.shown(canvas, self._actions, prefix, room)
        if shown is None:
            return None
        return replace(
            self.prompt.request,
            history=(*self._vocab.prefix_actions(shown[0]), *shown[1]),
            length=len(canvas),
            cursor=canvas.cursor,
            editable=tuple((int(low), int(high)) for low, high in self._bounds.T),
        )

    def rollout(self) -> Rollout:
        """Return what was written, once it has ended."""
        assert self.stop_reason is not None
        prompt, codec, tokens = self.prompt, self._codec, self._canvas.tokens()
        bounds = self._bounds.T.ravel().tolist()
        # The spaces that were lent to the model and did not come back (see `_spaces`).
        missing = self._stream.missing if isinstance(self._stream, SpacedStream) else []
        for start in reversed(missing):  # the user's spaces, where no fill begins with one
            assert codec.space is not None
            tokens.insert(start, codec.space)
            bounds = [bound + (bound >= start) for bound in bounds]
        added = self._insert_spaces(missing)
        at = len(prompt.preamble) + self._whole
        # An action that was cut off may be invalid after the spaces, so it is left out there.
        kept = self._whole if added and self._canvas.is_spelling else len(self._actions)
        actions = (*prompt.preamble, *self._actions[:kept])
        return Rollout(
            prompt=prompt.text,
            text=self.text,
            trajectory=Trajectory(
                prefix=prompt.prefix,
                restoration=(*actions[:at], *added, *actions[at:]),
                no_loss=(*range(len(prompt.preamble)), *range(at, at + len(added))),
            ),
            logprobs=tuple(self._logprobs[:kept]),
            stop_reason=self.stop_reason,
            statistics=Statistics(
                actions=kept,
                edits=self._edits,
                moves=self._moves,
                tokens_before=prompt.length,
                tokens_after=len(tokens) - prompt.instruction_length - prompt.context_length,
                ids_read=self.ids_read + kept,
            ),
            locked=tuple(self._proofs(tokens, bounds)),
            config=prompt.config,
            provenance=self._model.provenance,
        )

    def _proofs(self, tokens: Sequence[int], bounds: Sequence[int]) -> Iterator[Locked]:
        """Yield proofs of the locked text: the same bytes at the same place.

        That is between two editable ranges, wherever the edits have moved them.
        """
        prompt, codec = self.prompt, self._codec

        def around(tokens: Sequence[int], bounds: Sequence[int]) -> list[bytes]:
            """Return the bytes of the locked text, without instruction and hidden first space."""
            edges = [prompt.instruction_length, *bounds, len(tokens)]
            spans = zip(edges[::2], edges[1::2], strict=True)
            pieces = [b"".join([codec.token_bytes[i] for i in tokens[a:b]]) for a, b in spans]
            if codec.hides_first_space:
                pieces[0] = pieces[0].removeprefix(b" ")
            return pieces

        before = around(self._given, [bound for pair in prompt.request.editable for bound in pair])
        after = around(tokens, bounds)
        for n, lends in enumerate(prompt.spaces):
            if lends:
                before[n] += b" "
                if after[n] != before[n]:  # the fill begins with it
                    after[n] += codec.token_bytes[tokens[bounds[2 * n]]][:1]
        for old, new in zip(before, after, strict=True):
            if old:
                yield Locked(
                    text=old.decode("utf-8", "replace"), before=_sha256(old), after=_sha256(new)
                )

    def _insert_spaces(self, starts: Sequence[int]) -> list[int]:
        """Return actions, which the model did not choose, that insert a space at each boundary."""
        vocab, actions = self._vocab, list[int]()
        cursor, length = self._canvas.cursor, len(self._canvas)
        for n, start in enumerate(starts):
            assert self._codec.space is not None
            moves = vocab.split_move(start + n - cursor, cursor=cursor, length=length + n)
            actions += [*map(vocab.move_id, moves), self._codec.space]
            cursor = start + n + 1
        return actions


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
