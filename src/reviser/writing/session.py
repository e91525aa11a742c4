"""One text while it is being written: engine steps in, text edits out."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any
from weakref import finalize

import numpy as np

from reviser.core.actions import Kind
from reviser.core.canvas import Edit
from reviser.core.codec import Codec, OffsetUnit, TextEdit, TextStream
from reviser.core.mask import shift_gaps
from reviser.core.trajectory import Trajectory
from reviser.engines.base import Reading, Step, StopReason, replay
from reviser.errors import EngineError
from reviser.writing._spaces import SpacedStream
from reviser.writing.changes import Change
from reviser.writing.driver import Driver
from reviser.writing.plan import Part
from reviser.writing.rollout import Locked, Rollout, Statistics

__all__ = ["Writing"]


class Writing:
    """A text being written: iterate with `for` or `async for` to get its edits as they happen.

    Call `cancel` at any time to stop early; the text is valid after every edit.
    """

    def __init__(
        self,
        part: Part,
        codec: Codec,
        driver: Driver,
        provenance: dict[str, Any],
        unit: OffsetUnit = "char",
    ) -> None:
        self.part = part
        self._codec = codec
        self._vocab = vocab = driver.engine.vocab
        self._provenance = provenance
        self._canvas = replay(vocab, part.request.history)
        self._given = self._canvas.tokens()
        self._stream = self._text_stream(unit)
        here = self._canvas.cursor - part.instruction_length
        self.cursor = self._stream.feed(Edit(here, (), (), here, here)).cursor
        """Position of the cursor in the text."""
        self.kind = ""
        """The kind of the last id: the name of a `Kind` in lower case, or "argument"."""
        self._logprobs: list[float] = []
        self._actions: list[int] = []
        self._whole = 0  # actions before STOP, or before one that is half spelled
        self._edits = 0
        self._moves = 0
        self._gaps = part.request.gaps
        self._bounds = np.array(self._gaps, np.int64).reshape(-1, 2).T  # they follow the edits
        self._stop_reason: StopReason | None = None
        self._reading: Reading | None = None
        self._readings: tuple[Reading, ...] = ()
        self._driver = driver
        self._steps: deque[Step] = deque()
        self._number: int | None = None
        self._leave: Callable[[], object] = lambda: None

    def _text_stream(self, unit: OffsetUnit) -> TextStream | SpacedStream:
        part, shown = self.part, self._given[self.part.instruction_length :]
        if not any(part.spaces):
            return self._codec.stream(shown, unit=unit)
        gaps = zip(part.request.gaps, part.spaces, strict=True)
        starts = [start for (start, _), lends in gaps if lends]
        return SpacedStream(self._codec, shown, starts, unit)

    @property
    def text(self) -> str:
        """The text after the last edit."""
        return self._stream.text

    @property
    def marks(self) -> tuple[int, ...]:
        """Positions in the text of the marks that the model has not gone back to yet."""
        own = (mark - self.part.instruction_length for mark in self._canvas.marks)
        return tuple(map(self._stream.offset_of, own))

    def take(self, step: Step) -> TextEdit:
        """Apply one step and return the edit of the text."""
        if step.error is not None:
            raise step.error
        if not isfinite(step.logprob):
            raise EngineError(f"The engine chose an action of log-probability {step.logprob}.")
        if step.reading is not None and self.part.request.then is not None:
            self._gaps = step.narrowed.gaps if step.narrowed else ()
            self._bounds = np.array(self._gaps, np.int64).reshape(-1, 2).T
        is_argument = self._canvas.is_spelling
        edit = self._canvas.apply(step.action)
        kind = self._vocab.kind(step.action)
        self.kind = "argument" if is_argument else kind.name.lower()
        self._moves += bool(self._vocab.is_move[step.action]) and not is_argument
        if edit.changes_text:
            (lows, highs), end = self._bounds, edit.position + len(edit.removed)
            if not ((lows <= edit.position) & (end <= highs)).any():
                self._canvas.rollback()
                self.cancel()
                raise EngineError("The engine changed locked text: does it run the mask?")
            shift_gaps(lows, highs, end, len(edit.inserted) - len(edit.removed))
            self._edits += 1
        self._actions.append(step.action)
        if not self._canvas.is_spelling and kind is not Kind.STOP:
            self._whole = len(self._actions)
        self._logprobs.append(step.logprob)
        self._stop_reason = self._stop_reason or step.ended
        self._readings = step.readings
        self._reading = self._reading or step.reading
        text_edit = self._stream.feed(edit.shifted(-self.part.instruction_length))
        self.cursor = text_edit.cursor
        return text_edit

    def __iter__(self) -> Iterator[TextEdit]:
        while self._stop_reason is None:
            if self._steps:
                yield self._next()
            else:
                self._steps.extend(self._driver.take([self._enter()]))

    async def __aiter__(self) -> AsyncIterator[TextEdit]:
        while self._stop_reason is None:
            if self._steps:
                yield self._next()
            elif self._number is None:
                await asyncio.to_thread(self._enter)  # it may wait for a step to end
            else:
                self._steps.extend(await self._driver.atake([self._number]))

    def _enter(self) -> int:
        """Add the request to the engine, once; it is dropped when this object is collected."""
        if self._number is None:
            self._number = self._driver.add(self.part.request)
            self._leave = finalize(self, self._driver.drop, self._number)
        return self._number

    def _next(self) -> TextEdit:
        try:
            return self.take(self._steps.popleft())
        finally:
            if self._stop_reason is not None:
                self._leave()

    def cancel(self, reason: StopReason = "cancelled") -> None:
        """Stop here; the engine drops the request."""
        if self._stop_reason is None:
            self._stop_reason = reason
            self._leave()

    def rollout(self) -> Rollout:
        """Write to the end, unless it was cancelled, and return the rollout."""
        for _ in self:
            pass
        assert self._stop_reason is not None
        part, codec, tokens = self.part, self._codec, self._canvas.tokens()
        bounds = self._bounds.T.ravel().tolist()
        missing = self._stream.missing if isinstance(self._stream, SpacedStream) else []
        for start in reversed(missing):  # the user's spaces, where no fill begins with one
            assert codec.space is not None
            tokens.insert(start, codec.space)
            bounds = [bound + (bound >= start) for bound in bounds]
        added = self._insert_spaces(missing)
        at = len(part.preamble) + self._whole
        # An action that was cut off may be invalid after the spaces, so it is left out there.
        kept = self._whole if added and self._canvas.is_spelling else len(self._actions)
        actions = (*part.preamble, *self._actions[:kept])

        def around(tokens: list[int], bounds: list[int]) -> list[bytes]:
            """Return the bytes around gaps, without the instruction and a hidden first space."""
            edges = [part.instruction_length, *bounds, len(tokens)]
            spans = zip(edges[::2], edges[1::2], strict=True)
            pieces = [b"".join([codec.token_bytes[i] for i in tokens[a:b]]) for a, b in spans]
            if codec.hides_first_space:
                pieces[0] = pieces[0].removeprefix(b" ")
            return pieces

        before = around(self._given, [bound for gap in self._gaps for bound in gap])
        after = around(tokens, bounds)
        for n, lends in enumerate(part.spaces):
            if lends:
                before[n] += b" "
                if after[n] != before[n]:  # the fill begins with it
                    after[n] += codec.token_bytes[tokens[bounds[2 * n]]][:1]
        proofs = (
            Locked(text=old.decode("utf-8", "replace"), before=_sha256(old), after=_sha256(new))
            for old, new in zip(before, after, strict=True)
            if old
        )
        return Rollout(
            prompt=part.prompt,
            text=self.text,
            trajectory=Trajectory(
                prefix=part.prefix,
                restoration=(*actions[:at], *added, *actions[at:]),
                no_loss=(*range(len(part.preamble)), *range(at, at + len(added))),
            ),
            logprobs=tuple(self._logprobs[:kept]),
            stop_reason=self._stop_reason,
            statistics=Statistics(
                actions=kept,
                edits=self._edits,
                moves=self._moves,
                tokens_before=part.length,
                tokens_after=len(tokens) - part.instruction_length - part.context_length,
            ),
            locked=tuple(proofs),
            config=part.config,
            suggested=self._suggested(),
            provenance=self._provenance,
        )

    def _suggested(self) -> tuple[Change, ...]:
        """Return what the word lists suggested, each with its gain; nothing if it was cancelled."""
        part, readings = self.part, iter(self._readings)
        is_cut = self._stop_reason in ("cancelled", "time")
        if part.comparisons is None or self._reading is None or is_cut:
            return ()
        return tuple(
            replace(change, gain=each.gain([next(readings) for _ in each.requests]))
            for change, each in part.comparisons(self._reading)
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

    async def arollout(self) -> Rollout:
        """Do what `rollout` does without blocking the event loop."""
        async for _ in self:
            pass
        return self.rollout()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
