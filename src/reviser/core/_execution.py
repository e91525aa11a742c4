"""The executor for the texts of many rows: what an id does to them, and what it refuses.

`canvas.Canvas` is the same for one row. Nothing here knows of locked text or budgets.

Shapes: B rows, M marks.
"""

from __future__ import annotations

import numpy as np

from reviser.core import _marks as m
from reviser.core import _rows as r
from reviser.core import _spelling as spelling
from reviser.core._rows import BoolArray, Indices, Rows
from reviser.core._texts import Texts
from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas

# Tables by kind.
_KINDS = np.arange(len(Kind))
_IS_TOKEN = np.isin(_KINDS, [Kind.INSERT, Kind.PREFIX_ONLY])
_IS_PLAIN = _IS_TOKEN | np.isin(_KINDS, [Kind.SEPARATOR, Kind.STOP])  # never refused
_NEVER_FIRST = np.isin(_KINDS, [Kind.HERE, Kind.END, Kind.RESERVED])
_NEEDS_LEFT = np.isin(_KINDS, [Kind.DELETE, Kind.SWAP, Kind.REPLACE, *spelling.HAS_DIGITS])
_LEFT_NEEDED = np.where(_KINDS == Kind.SWAP, 2, _NEEDS_LEFT)


def edit_texts(
    vocab: ActionVocab, texts: Texts, rows: Indices, ids: Rows, state: Rows, marks_BM: Rows
) -> Rows:
    """Apply one id to the text of each row, or change nothing and raise InvalidAction.

    `state` and `marks_BM` are those of the rows before the id. Returns the steps to where each
    row's search leads so far; 0 if it has none.
    """
    kind, pending = vocab.kinds[ids], state[:, r.PENDING]
    # An id takes at most this much space: a copied span, or the tokens of a search.
    space = np.maximum(state[:, r.SPAN], state[:, r.AMOUNT])
    texts.widen(int((state[:, r.LENGTH] + space + 1).max(initial=0)))
    found = np.zeros(len(rows), np.int64)
    # Nearly all ids are inserts, which are always possible and need nothing but a write.
    is_plain = (pending == r.NONE) & _IS_PLAIN[kind]
    rest = np.flatnonzero(~is_plain & (pending != Kind.STOP))
    if rest.size:
        part = rows[rest], ids[rest], state[rest], marks_BM[rest]
        found[rest] = _edit_some(vocab, texts, *part)
    at = np.flatnonzero(is_plain & _IS_TOKEN[kind])
    texts.write(rows[at], state[at, r.CURSOR], ids[at])
    return found


def _edit_some(
    vocab: ActionVocab, texts: Texts, rows: Indices, ids: Rows, state: Rows, marks_BM: Rows
) -> Rows:
    """Apply ids as `edit_texts` does, to rows that have not stopped."""
    kind, pending = vocab.kinds[ids], state[:, r.PENDING]
    cursor, amount, span = state[:, r.CURSOR], state[:, r.AMOUNT], state[:, r.SPAN]
    right, is_free = state[:, r.LENGTH] - cursor, pending == r.NONE
    searches = pending == Kind.FIND
    found = np.zeros(len(rows), np.int64)
    types, lands = searches & (kind == Kind.INSERT), searches & (kind == Kind.HERE)
    seeks = np.flatnonzero(types | (lands & (amount > 0)))
    if seeks.size:
        # Typing writes into the gap, so it changes nothing if the id is refused.
        texts.write(rows[types], (cursor + amount)[types], ids[types])
        typed = (amount + types)[seeks]
        match = texts.first_match(rows[seeks], cursor[seeks], right[seeks], typed)
        found[seeks] = np.where(match == r.NONE, 0, match + typed)
    refused = np.flatnonzero(_is_refused(vocab, texts, rows, ids, state, marks_BM, found))
    if refused.size:
        n = refused[0]
        _refuse(vocab, texts, int(rows[n]), int(ids[n]), state[n], marks_BM[n])

    at = np.flatnonzero(pending == Kind.REPLACE)
    if at.size:
        texts.write(rows[at], cursor[at] - 1, ids[at])
    swaps = np.flatnonzero(is_free & (kind == Kind.SWAP))
    if swaps.size:
        texts.swap(rows[swaps], cursor[swaps])
    goes = np.where(is_free & (kind == Kind.MOVE), vocab.cursor_deltas[ids], 0)
    goes += np.where(lands, found, 0)
    goes += m.steps_back(marks_BM, np.where(is_free, kind, Kind.END), cursor)
    at = np.flatnonzero(goes)
    if at.size:
        texts.move(rows[at], cursor[at], right[at], goes[at])
    # Deletions need no change: what is left of the cursor ends earlier. Spans that move or are
    # copied are rare and come one by one.
    for n in np.flatnonzero((span > 0) & (kind == Kind.END)).tolist():
        change = texts.copy_span if pending[n] == Kind.SPAN_COPY else texts.move_span
        change(int(rows[n]), int(cursor[n]), int(right[n]), int(span[n]), int(amount[n]))
    return found


def _is_refused(
    vocab: ActionVocab,
    texts: Texts,
    rows: Indices,
    ids: Rows,
    state: Rows,
    marks_BM: Rows,
    found: Rows,
) -> BoolArray:
    """Return which ids the executor refuses; `found` is where the searches lead."""
    kind, pending = vocab.kinds[ids], state[:, r.PENDING]
    cursor, length, is_free = state[:, r.CURSOR], state[:, r.LENGTH], pending == r.NONE
    goal = cursor + vocab.cursor_deltas[ids]
    refused: BoolArray = _NEVER_FIRST[kind] | (cursor < _LEFT_NEEDED[kind])
    refused |= (kind == Kind.MOVE) & ((goal < 0) | (goal > length))
    refused |= (kind == Kind.BACK) & (m.first_mark(marks_BM) == r.UNLIMITED)
    refused |= (kind == Kind.MARK) & m.is_marked(marks_BM, cursor)
    refused &= is_free
    finds = np.flatnonzero(is_free & (kind == Kind.FIND))
    if finds.size:
        right = (length - cursor)[finds]
        refused[finds] = ~texts.can_find(rows[finds], right, right, vocab.kinds == Kind.INSERT)
    searches = pending == Kind.FIND
    # What is typed must occur, and HERE needs a token; then the search leads somewhere.
    refused |= searches & ~(((kind == Kind.INSERT) | (kind == Kind.HERE)) & (found > 0))
    inside = np.flatnonzero(~is_free & ~searches)
    if inside.size:
        part = state[inside], ids[inside], kind[inside]
        refused[inside] = spelling.is_misspelled(vocab, *part)
    return refused


def _refuse(
    vocab: ActionVocab, texts: Texts, row: int, action_id: int, state: Rows, marks: Rows
) -> None:
    """Let a canvas in the state of one row say why it refuses an id."""
    length, cursor, pending, span, amount, digit = state[: r.MOVES].tolist()
    canvas = Canvas(vocab, texts.tokens(row, cursor, length), cursor)
    canvas.resume(
        marks=marks[marks != r.UNLIMITED].tolist(),
        searched=texts.typed(row, cursor, amount) if pending == Kind.FIND else None,
        unfinished=None if pending == r.NONE else (Kind(pending), span, amount, digit),
    )
    canvas.apply(action_id)
    raise AssertionError(f"The executor accepts {vocab.describe(action_id)}.")
