"""The arguments of unfinished actions, for many rows at once: what may follow, and what it does.

Shapes: B rows, G gaps, D deltas.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reviser.core import _rows as r
from reviser.core._rows import BoolArray, Rows
from reviser.core.actions import ActionVocab, Kind

HAS_DIGITS = [Kind.SPAN_DELETE, Kind.SPAN_MOVE, Kind.SPAN_COPY]


def digits_mask(
    vocab: ActionVocab, state: Rows, left: Rows, right: Rows
) -> tuple[BoolArray, BoolArray]:
    """Return which digits may follow in numbers, and whether END may.

    `left` and `right` are the editable tokens around each cursor.
    """
    kind, cursor, span = state[:, r.PENDING], state[:, r.CURSOR], state[:, r.SPAN]
    # The first number is the size of a span, from 1 to what lies to the left: of a copy any
    # text that leaves the canvas short enough, else editable text. The second is a jump
    # within the same gap: over what is left of the span, or over what is right of the cursor.
    growth_left = state[:, r.MAX_LENGTH] - state[:, r.LENGTH]
    copies, is_first = kind == Kind.SPAN_COPY, span == 0
    largest_span = np.where(copies, np.minimum(cursor, growth_left), left)
    low = np.where(is_first, 1, span - left)
    high = np.where(is_first, largest_span, right)
    amount_BD = state[:, r.AMOUNT, None] + np.array(vocab.deltas, np.int64)
    fits_BD = (amount_BD >= low[:, None]) & (amount_BD <= high[:, None])
    # A jump may be 0, which has no digits; a span may not be empty.
    may_end = np.where(is_first, state[:, r.AMOUNT] > 0, True)
    aims = copies & ~is_first
    if aims.any():
        fits_BD[aims], may_end[aims] = _copy_goals(vocab, state[aims], amount_BD[aims])
    has_digits = np.isin(kind, HAS_DIGITS)
    digits_BD = fits_BD & vocab.digit_follows[state[:, r.DIGIT]] & has_digits[:, None]
    return digits_BD, may_end & has_digits


def _copy_goals(vocab: ActionVocab, state: Rows, amount_BD: Rows) -> tuple[BoolArray, BoolArray]:
    """Return which digits still lead to a gap, and whether the number so far does."""
    # Digits decrease, so those that follow a digit 2**k add up to at most 2**k - 1; only the
    # largest repeats, without limit. Each digit thus leaves an interval of reachable goals,
    # and it is allowed if that interval meets some gap.
    deltas = np.array(vocab.deltas, np.int64)
    low_B1G, high_B1G = r.lows(state)[:, None], r.highs(state)[:, None]
    near_BD = state[:, r.CURSOR, None] + amount_BD
    reach_D = np.abs(deltas) - 1
    reach_D[reach_D == vocab.max_move - 1] = r.UNLIMITED
    far_BD = near_BD + np.sign(deltas) * reach_D
    first_BD1 = np.minimum(near_BD, far_BD)[..., None]
    last_BD1 = np.maximum(near_BD, far_BD)[..., None]
    fits_BD = np.any((low_B1G <= last_BD1) & (first_BD1 <= high_B1G), axis=2)
    goal = (state[:, r.CURSOR] + state[:, r.AMOUNT])[:, None]
    return fits_BD, np.any((low_B1G[:, 0] <= goal) & (goal <= high_B1G[:, 0]), axis=1)


def is_misspelled(
    vocab: ActionVocab, state: Rows, ids: Rows, kind: npt.NDArray[np.uint8]
) -> BoolArray:
    """Return which rows the executor would refuse: a wrong token of REPLACE, or a wrong number."""
    pending, span, cursor = state[:, r.PENDING], state[:, r.SPAN], state[:, r.CURSOR]
    is_first, is_digit = span == 0, kind == Kind.MOVE
    amount = state[:, r.AMOUNT] + vocab.cursor_deltas[ids]
    kept_left = cursor - np.where(pending == Kind.SPAN_MOVE, span, 0)
    low = np.where(is_first, 1, -kept_left)
    high = np.where(is_first, cursor, state[:, r.LENGTH] - cursor)
    digit = np.where(is_digit, ids - vocab.first_move, 0)
    fits = vocab.digit_follows[state[:, r.DIGIT], digit] & (low <= amount) & (amount <= high)
    ends = (kind == Kind.END) & ((span > 0) | (state[:, r.AMOUNT] > 0))
    is_number = np.where(is_digit, fits, ends)
    is_wrong: BoolArray = ~np.where(pending == Kind.REPLACE, kind == Kind.INSERT, is_number)
    return is_wrong


def read_argument(
    vocab: ActionVocab, state: Rows, ids: Rows, kind: npt.NDArray[np.uint8]
) -> tuple[Rows, Rows, Rows, BoolArray]:
    """Feed one id to unfinished actions and return their effects, zero if not complete."""
    pending, span, cursor = state[:, r.PENDING], state[:, r.SPAN], state[:, r.CURSOR]
    is_digit, is_end = kind == Kind.MOVE, kind == Kind.END
    searches = pending == Kind.FIND
    state[:, r.DIGIT] = np.where(is_digit, ids - vocab.first_move + 1, 0)
    state[:, r.AMOUNT] += np.where(is_digit, vocab.cursor_deltas[ids], 0)
    amount = state[:, r.AMOUNT].copy()
    state[:, r.AMOUNT] += searches  # of a search, how many tokens were typed
    is_last = (span > 0) | (pending == Kind.SPAN_DELETE) | (pending == Kind.REPLACE)
    done = (is_last & ~is_digit) | (kind == Kind.HERE)
    deletes, copies, moves = (
        done & (pending == k) for k in (Kind.SPAN_DELETE, Kind.SPAN_COPY, Kind.SPAN_MOVE)
    )
    # These are the effects that `canvas` executes, such as: a span that moves left leaves the
    # cursor where it is, and a copy takes it to the copy's end.
    growth = np.where(copies, span, 0) - np.where(deletes, amount, 0)
    steps = np.where(moves, np.maximum(amount, 0), 0) - np.where(deletes, amount, 0)
    steps += np.where(copies, amount + span, 0)
    position = cursor + np.where(copies, amount, 0)
    state[:, r.SPAN] = np.where(done, 0, np.where(is_end, amount, span))
    state[is_end | done, r.AMOUNT] = 0
    state[done, r.PENDING] = r.NONE
    return growth, steps, position, done & ~searches
