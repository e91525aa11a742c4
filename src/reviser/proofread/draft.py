"""One window of a draft, as it is proofread."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from reviser.writing.prompts import Model, Prompt
from reviser.writing.revise import draft_positions
from reviser.writing.tasks import Revise
from reviser.writing.windows import Window


@dataclass(frozen=True)
class Draft:
    """A window as the model is shown it; positions count characters of its text."""

    task: Revise
    prompt: Prompt
    window: Window
    tokens: tuple[int, ...]
    positions: tuple[int, ...]
    """Of the tokens, in the history that shows them."""
    boundaries: npt.NDArray[np.int64]
    """Positions in the text of the boundaries of tokens; -1 within a character."""

    @classmethod
    def of(cls, prompt: Prompt, task: Revise, model: Model) -> Draft:
        """Return the window that a prompt shows."""
        assert prompt.window is not None
        positions = draft_positions(prompt, model.vocab).tolist()
        tokens = tuple(prompt.request.history[n] for n in positions)
        boundaries = model.codec.char_offsets(tokens)
        return cls(task, prompt, prompt.window, tokens, tuple(positions), boundaries)

    @cached_property
    def token_at(self) -> dict[int, int]:
        """Numbers of tokens, by the positions in the text where they begin."""
        starts = self.boundaries[: len(self.tokens)].tolist()
        return {start: n for n, start in enumerate(starts) if start >= 0}

    def may_change(self, start: int, end: int) -> bool:
        """Return whether a stretch belongs to this window and is not locked."""
        low, high = start + self.window.context_start, end + self.window.context_start
        locks = self.task.locked_spans
        lock = bisect_right(locks, low, key=itemgetter(1))
        is_locked = lock < len(locks) and locks[lock][0] < high
        # What is inserted at the end of a window is the next one's.
        is_inside = self.window.start <= low and high <= self.window.end
        is_last = self.window.end == len(self.task.draft)
        return is_inside and not is_locked and (low < self.window.end or is_last)
