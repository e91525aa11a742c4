"""What may follow inside a search or the numbers of a span, for one row at a time.

Few rows are inside such an action at once. The row's canvas knows what was read so far; locked text
and the length limit are the mask's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from reviser.core._rows import UNLIMITED
from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas, Pending, Search

Controls: TypeAlias = "Sequence[tuple[int, Kind, int]]"
"""Id, kind and cursor delta of each of `vocab.controls`."""
Ranges: TypeAlias = "Sequence[tuple[int, int]]"


def controls_of(vocab: ActionVocab) -> Controls:
    """Return what a row asks about controls, as a list that Python reads fast."""
    return [(i, vocab.kind(i), int(vocab.cursor_deltas[i])) for i in vocab.controls.tolist()]


def allowed_arguments(
    canvas: Canvas, controls: Controls, editable: Ranges, max_length: int
) -> list[bool]:
    """Return which controls may follow in an unfinished search or number."""
    pending = canvas.pending
    if isinstance(pending, Search):
        return [kind is Kind.FIND_END and pending.typed > 0 for _, kind, _ in controls]
    assert pending is not None
    return [
        _may_add(canvas, pending, editable, max_length, i, delta)
        if kind is Kind.MOVE
        else kind is Kind.NUMBER_END and _may_end(canvas, pending, editable)
        for i, kind, delta in controls
    ]


def _may_add(
    canvas: Canvas, pending: Pending, editable: Ranges, max_length: int, digit_id: int, delta: int
) -> bool:
    """Return whether a digit may follow in a number."""
    vocab, cursor, amount = canvas.vocab, canvas.cursor, pending.amount + delta
    if not vocab.digit_follows[pending.digit, digit_id - vocab.first_move]:
        return False
    around = ((cursor - low, high - cursor) for low, high in editable if low <= cursor <= high)
    left, right = next(around, (0, 0))
    copies = pending.kind is Kind.SPAN_COPY
    if not pending.span:
        # The size of a span: of a copy any text that leaves the canvas short enough.
        longest = min(cursor, max_length - len(canvas)) if copies else left
        return 1 <= amount <= longest
    if not copies:
        # A jump within the editable range: over what is left of the span, or right of the cursor.
        return pending.span - left <= amount <= right
    # Digits decrease, so those that follow a digit 2**k add up to at most 2**k - 1; only the
    # largest repeats, without limit. Some range must be within what can still be reached.
    reach = UNLIMITED if abs(delta) == vocab.max_move else abs(delta) - 1
    near = cursor + amount
    far = near + (reach if delta > 0 else -reach)
    first, last = min(near, far), max(near, far)
    return any(low <= last and first <= high for low, high in editable)


def _may_end(canvas: Canvas, pending: Pending, editable: Ranges) -> bool:
    """Return whether a number is complete: a jump may be 0, a span may not be empty."""
    if not pending.span:
        return pending.amount > 0
    goes = canvas.cursor + pending.amount
    return pending.kind is Kind.SPAN_MOVE or any(low <= goes <= high for low, high in editable)
