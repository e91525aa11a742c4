"""Spaces before gaps: typed by the user, but written by the model with the word that follows.

In "Tom went {} home" the user has typed a space on both sides of the gap. The token of a word
begins with its own space, so a model that is shown the first one would write a second. It is shown
"Tom went" and " home" instead. The text still has the user's space, as one that stands before the
gap while what is written there does not begin with a space, and as the fill's own otherwise. Either
way it is the same byte at the same position, so locked text never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reviser.core.canvas import Edit
from reviser.core.codec import Codec, OffsetUnit, TextEdit


def lends_space(text: str) -> bool:
    """Return whether a text before a gap ends with one space, after something else.

    >>> [lends_space(text) for text in ("Tom went ", "Tom went", "Tom went  ", " ")]
    [True, False, False, False]
    """
    return len(text) > 1 and text[-1] == " " and not text[-2].isspace()


class SpacedStream:
    """The visible text of a canvas that lacks the spaces before its gaps; see `TextStream`.

    `starts` are the boundaries on the canvas where a space is missing, in order.
    """

    def __init__(
        self, codec: Codec, tokens: Sequence[int], starts: Sequence[int], unit: OffsetUnit
    ) -> None:
        assert codec.space is not None  # else no space was left out
        self._space = codec.space
        self._token_bytes = codec.token_bytes
        self._starts = list(starts)
        self._fills: list[list[int]] = [[] for _ in starts]
        shown = list(tokens)
        for start in reversed(starts):
            shown.insert(start, self._space)
        self._stream = codec.stream(shown, unit=unit)

    @property
    def text(self) -> str:
        """The visible text now."""
        return self._stream.text

    @property
    def missing(self) -> list[int]:
        """The boundaries on the canvas where a space is visible that no token holds."""
        return [start for n, start in enumerate(self._starts) if self._is_missing(n)]

    def offset_of(self, position: int) -> int:
        """Return the offset in the text of a boundary on the canvas, after a gap's space."""
        return self._stream.offset_of(self._shown(position)) + self._is_before_own_space(position)

    def feed(self, edit: Edit) -> TextEdit:
        """Take an edit of the canvas and return the edit of the text."""
        gap = self._gap_at(edit.position) if edit.changes_text else None
        start, was_missing = self._shown(edit.position, but=gap), self._is_missing(gap)
        self._apply(edit, gap)
        is_missing = self._is_missing(gap)
        # The user's space goes when the fill brings its own, and comes back when that is gone.
        comes, goes = is_missing and not was_missing, was_missing and not is_missing
        changed = Edit(
            position=start + (was_missing and is_missing),
            removed=(self._space,) * goes + edit.removed,
            inserted=(self._space,) * comes + edit.inserted,
            cursor_before=start,
            cursor=self._shown(edit.cursor),
        )
        made = self._stream.feed(changed)
        if comes or goes:
            # For a reader it is the same space, so the edit begins after it. Where one side of the
            # edit is empty, the other ends with a space: that of the word which follows.
            removed = made.removed[1:] + ("" if made.inserted else " ")
            inserted = made.inserted[1:] + ("" if made.removed else " ")
            made = replace(made, offset=made.offset + 1, removed=removed, inserted=inserted)
        return replace(made, cursor=made.cursor + self._is_before_own_space(edit.cursor))

    def _apply(self, edit: Edit, gap: int | None) -> None:
        growth = len(edit.inserted) - len(edit.removed)
        if gap is not None:
            first = edit.position - self._starts[gap]
            self._fills[gap][first : first + len(edit.removed)] = edit.inserted
        self._starts = [start + growth * (start > edit.position) for start in self._starts]

    def _gap_at(self, position: int) -> int | None:
        """Return the number of the gap at a boundary; None for a gap without a space before it."""
        ends = (start + len(fill) for start, fill in zip(self._starts, self._fills, strict=True))
        bounds = enumerate(zip(self._starts, ends, strict=True))
        return next((n for n, (start, end) in bounds if start <= position <= end), None)

    def _is_missing(self, gap: int | None) -> bool:
        return gap is not None and not self._begins_with_space(self._fills[gap])

    def _begins_with_space(self, fill: list[int]) -> bool:
        return bool(fill) and self._token_bytes[fill[0]].startswith(b" ")

    def _is_before_own_space(self, position: int) -> bool:
        """Return whether a boundary is where a fill begins that has brought its own space."""
        pairs = zip(self._starts, self._fills, strict=True)
        return any(start == position and self._begins_with_space(fill) for start, fill in pairs)

    def _shown(self, position: int, but: int | None = None) -> int:
        """Return a boundary of the canvas as one of the visible tokens, after a gap's space."""
        missing = (n for n, start in enumerate(self._starts) if start <= position and n != but)
        return position + sum(map(self._is_missing, missing))
