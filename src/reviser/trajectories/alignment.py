"""Alignment: from a text before and after to the actions that turn one into the other.

It knows tokens only, and nothing is drawn at random. `diff` finds what changes and `edit_script`
spells it. `revision` gives a `Trajectory` to train on, and `edit_labels` what a model learns while
it reads a draft.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import UNITS, Codec
from reviser.core.trajectory import Trajectory
from reviser.trajectories.diff import REACH, Hunk, Starts, Tokens, as_tokens, diff
from reviser.trajectories.edit_script import Address, cheapest_edit, possible_hunks, script

__all__ = [
    "REACH",
    "Address",
    "Hunk",
    "Starts",
    "diff",
    "edit_labels",
    "present",
    "present_canvas",
    "revision",
    "script",
    "word_starts",
]


def present(
    vocab: ActionVocab, draft: Sequence[int], *, prefix: Sequence[int] = ()
) -> tuple[int, ...]:
    """Return the ids that show a draft after a prefix and move the cursor to its beginning.

    If a history without a prefix would have no first id, the draft itself serves as the prefix,
    and these are only the moves back.

    >>> vocab = ActionVocab.build(100)
    >>> [vocab.describe(i) for i in present(vocab, [7, 8, 9])]
    ['insert 7', 'insert 8', 'insert 9', 'move -2', 'move -1']
    """
    # An empty draft needs no ids: the cursor is where it would begin.
    size = len(draft)
    if not size:
        return ()
    is_prefix = vocab.needs_prefix and not len(prefix)
    # A mark and TO_MARK are two ids, however long the draft is; moves would depend on its length.
    if vocab.mark is not None and vocab.back is not None and not is_prefix:
        return (vocab.mark, *map(int, draft), vocab.back)
    back = vocab.split_move(-size, cursor=size, length=size)
    shown = () if is_prefix else map(int, draft)
    return (*shown, *(vocab.move_id(delta) for delta in back))


def present_canvas(canvas: Canvas, size: int) -> tuple[int, ...]:
    """Return the ids that show a canvas as it is now, after its first `size` tokens.

    They write the text from left to right with its marks, and take the cursor to its position. The
    model is shown what is there, and not how it came about.

    >>> vocab = ActionVocab.build(100, marks=True)
    >>> canvas = Canvas(vocab, [5, 7, 8], cursor=2, marks=[2])
    >>> [vocab.describe(i) for i in present_canvas(canvas, 1)]
    ['insert 7', 'mark', 'insert 8', 'move -1']
    """
    vocab, tokens, ids = canvas.vocab, canvas.tokens(), list[int]()
    # A mark stays before what is inserted at it, so it comes right before the token that follows.
    for position in range(size, len(tokens) + 1):
        if position in canvas.marks:
            assert vocab.mark is not None
            ids.append(vocab.mark)
        ids += tokens[position : position + 1]
    end = len(tokens)
    # Moves stay after the first `size` tokens, which may be locked.
    moves = vocab.split_move(canvas.cursor - end, cursor=end - size, length=end - size)
    return (*ids, *map(vocab.move_id, moves))


def revision(
    vocab: ActionVocab,
    before: Sequence[int],
    after: Sequence[int],
    *,
    instruction: Sequence[int] = (),
    starts: Starts | None = None,
    address: Address = "moves",
) -> Trajectory:
    """Return the trajectory that shows a draft, revises it and stops; the draft has no loss.

    >>> vocab = ActionVocab.build(100, operators=["delete"], marks=True)
    >>> trajectory = revision(vocab, [7, 8], [7, 9, 8], instruction=[5])
    >>> [vocab.describe(i) for i in trajectory.restoration]
    ['mark', 'insert 7', 'insert 8', 'back', 'move +1', 'insert 9', 'stop']
    >>> trajectory.no_loss
    (0, 1, 2, 3)
    """
    shown = present(vocab, before, prefix=instruction)
    prefix = before if vocab.needs_prefix and not len(instruction) else instruction
    vocab.prefix_actions(prefix)  # to refuse here what cannot be a prefix
    # The draft comes right after the instruction, and that is where `present` left the cursor.
    offset = len(instruction)
    hunks = diff(before, after, starts=starts)
    ids = script(vocab, before, hunks, cursor=offset, offset=offset, address=address)
    return Trajectory(
        prefix=tuple(map(int, prefix)),
        restoration=(*shown, *ids, vocab.stop),
        no_loss=tuple(range(len(shown))),
    )


def edit_labels(
    vocab: ActionVocab, before: Sequence[int], hunks: Sequence[Hunk]
) -> npt.NDArray[np.int32]:
    """Return what is to be done right before each token of a draft, as an id: STOP if nothing.

    Otherwise it is the first token to insert there, or the operator that removes the tokens
    before it. So the edit probability of a position is 1 - P(STOP).

    >>> vocab = ActionVocab.build(100, operators=["delete"])
    >>> labels = edit_labels(vocab, [1, 2, 3, 4], [Hunk(1, 2, (7,)), Hunk(2, 3, ())])
    >>> [vocab.describe(i) for i in labels]
    ['stop', 'stop', 'insert 7', 'delete']
    """
    # One label more than tokens: a hunk at the very end has no token after it.
    labels = np.full(len(before) + 1, vocab.stop, np.int32)
    for hunk in possible_hunks(vocab, as_tokens(before), hunks):
        # A label is where the hunk ends: only then has a model read what is wrong. Where
        # tokens are inserted, the first of them says more than an operator would.
        edit = cheapest_edit(vocab, hunk.removed, hunk.tokens) or []
        labels[hunk.end] = hunk.tokens[0] if hunk.tokens else vocab.spell(edit[0])[0]
    return labels[:-1]


def word_starts(codec: Codec, tokens: Sequence[int] | Tokens) -> npt.NDArray[np.bool_]:
    """Return which tokens begin a word."""
    # A token has a bit for each unit that it begins, and may begin a sentence as well.
    starts: npt.NDArray[np.bool_] = (codec.unit_starts(tokens) & UNITS["word"]) > 0
    return starts
