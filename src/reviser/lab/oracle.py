"""DAgger's labels: what an oracle would have done in each state that a model has visited.

A `Visit` follows a model through one draft, id by id. It knows the target; the model does not.
`remaining` is the alignment oracle of the paper's appendix: what is left to do on any canvas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.errors import InvalidAction
from reviser.trajectories.alignment import Address, diff, script
from reviser.trajectories.diff import Hunk, Starts


class Visit:
    """A draft that a model revises, the ids so far, and a label for each of them.

    A label is the first id of the oracle's script from that state to the target, which has the
    fewest edits, though not always the fewest moves. Often other actions are as good, such as
    deleting one or the other of two equal tokens. So an action after which the rest of the script
    is as short as with the oracle's is its own label: the loss accepts any of the best actions that
    the model takes. Within an action that is worse, ids are labelled as far as they are those of
    the oracle's action, and at the first that differs; the rest have None.

    If the text is new, that is, written from nothing, whatever the model has written after its
    first mistake is to be removed, even where the target has such tokens further on.
    """

    def __init__(
        self,
        vocab: ActionVocab,
        canvas: Canvas,
        target: Sequence[int],
        *,
        offset: int = 0,
        address: Address = "moves",
        starts: Callable[[Sequence[int]], Starts] | None = None,
        is_new: bool = False,
    ) -> None:
        self.vocab = vocab
        self.canvas = canvas
        self.ids: list[int] = []
        self.labels: list[int | None] = []
        self._target, self._offset, self._address = target, offset, address
        self._starts = starts  # gives the starts of words before and after, for a text before
        self._is_new = is_new
        self._taken: list[int] = []  # ids of the action that is being spelled
        self._plan = self._remaining()

    @property
    def is_over(self) -> bool:
        """True if the last action was STOP."""
        return self.canvas.is_finished

    @property
    def is_spelling(self) -> bool:
        """True within an action that takes several ids; the oracle cannot act there."""
        return self.canvas.is_spelling

    @property
    def advice(self) -> tuple[int, ...]:
        """Ids of the oracle's next action."""
        return self.vocab.spell(next(self.vocab.read_each(self._plan)))

    @property
    def distance(self) -> int:
        """Number of ids of the script to the target; 1 if only STOP is left."""
        return len(self._plan)

    def take(self, action_id: int) -> None:
        """Apply an id that the model or the oracle has chosen; label its action once complete."""
        self.canvas.apply(action_id)
        self.ids.append(action_id)
        self._taken.append(action_id)
        if self.canvas.is_spelling:
            return
        taken, plan, advice = self._taken, self._plan, self.advice
        self._taken = []
        if self.is_over:
            self.labels += plan[:1]
            return
        # A new text leaves no choice: the rest of its plan need not be planned again.
        is_planned = self._is_new and tuple(taken) == advice
        self._plan = plan[len(taken) :] if is_planned else self._remaining()
        if len(taken) + len(self._plan) <= len(plan):
            self.labels += taken
            return
        same = 0
        while same < min(len(taken), len(advice)) and taken[same] == advice[same]:
            same += 1
        labels: list[int | None] = [*advice[: same + 1], *[None] * len(taken)]
        self.labels += labels[: len(taken)]

    def cut(self) -> tuple[list[int], list[int | None]]:
        """Return ids and labels without an action that was not completed."""
        return self.ids[: len(self.labels)], self.labels

    def _remaining(self) -> list[int]:
        before = self.canvas.tokens()[self._offset :]
        return remaining(
            self.vocab,
            self.canvas,
            self._target,
            offset=self._offset,
            starts=None if self._starts is None else self._starts(before),
            address=self._address,
            is_new=self._is_new,
        )


def remaining(
    vocab: ActionVocab,
    canvas: Canvas,
    target: Sequence[int],
    *,
    offset: int = 0,
    starts: Starts | None = None,
    address: Address = "moves",
    is_new: bool = False,
) -> list[int]:
    """Return the ids that turn a canvas into one that holds `target` from `offset` on, and STOP.

    Following the first action and asking again reaches the target, too: every edit lowers the cost
    of the diff, and between edits every move shortens the way to the next. If the text `is_new`, it
    is written from left to right: what follows the first difference is removed, not aligned.

    >>> vocab = ActionVocab.build(100, operators=["delete"])
    >>> ids = remaining(vocab, Canvas(vocab, [7, 8, 9]), [7, 9])
    >>> [vocab.describe(i) for i in ids]
    ['move -1', 'delete', 'stop']
    """
    if canvas.is_spelling:
        raise InvalidAction("An action is unfinished; complete it or roll it back first.")
    # Computing the whole script at every step costs more than following one, but an oracle must
    # answer on canvases that no script led to: those that the model itself has made.
    before = canvas.tokens()[offset:]
    if is_new:
        pairs = enumerate(zip(before, target, strict=False))
        same = next((n for n, (a, b) in pairs if a != b), min(len(before), len(target)))
        is_done = same == len(before) == len(target)
        hunks = [] if is_done else [Hunk(same, len(before), tuple(target[same:]))]
    else:
        hunks = diff(before, target, starts=starts)
    ids = script(vocab, before, hunks, cursor=canvas.cursor, offset=offset, address=address)
    return [*ids, vocab.stop]
