"""Grounding after a move, as an experiment: the history shows the model where it is.

After a chain of moves the model says LOOK, and the executor writes the tokens left and right of
the cursor into the history. They are observations: no edit, and no loss. LOOK is learned; that a
chain has ended is a choice the model makes anyway. What this costs in ids counts as training and
as writing.

A model that counts badly lands next to where it meant to, which never happens in training. So some
chains can slip: they lead a few tokens astray, without loss; the model looks, and learns to move
on to the right place, which is in sight, and to look again.

Two operators that take no argument and that no policy here uses lend their ids: `swap` is LOOK,
`delete` stands for what lies beyond an edge of the text.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.core.mask import BoolArray, Boundary
from reviser.core.trajectory import Trajectory
from reviser.data.dataset import Example, IntArray, Stream, labelled
from reviser.engines.base import Request
from reviser.engines.hf import HFEngine
from reviser.evals.texts import read_prompts
from reviser.models import trunks
from reviser.writing.model import Rollout, Statistics, decode_config, nth

OPERATORS = "vocab.operators=[delete, swap]"


class Look(NamedTuple):
    """How many tokens are shown, and of which side last: what is shown last is read on from."""

    left: int
    right: int
    left_is_last: bool = False

    @classmethod
    def parse(cls, words: str) -> Look:
        """`8` is eight of each side, the left ones first; `r2l8` two of the right, then eight."""
        if not words.startswith("r"):
            return cls(int(words), int(words))
        right, left = words[1:].split("l")
        return cls(int(left), int(right), left_is_last=True)

    @property
    def size(self) -> int:
        """How many are shown."""
        return self.left + self.right


class View:
    """A canvas that says what is shown after a LOOK."""

    def __init__(self, vocab: ActionVocab, tokens: Sequence[int], look: Look) -> None:
        assert vocab.swap is not None
        assert vocab.delete is not None
        self.vocab, self.look = vocab, look
        self.canvas = Canvas(vocab, tokens)
        self.has_moved = False
        """Whether a chain of moves has brought the cursor here, and nothing was shown yet."""
        self.has_looked = False
        """Whether the model looked last."""

    def apply(self, action: int) -> list[int]:
        """What is to be shown, if the action was a LOOK."""
        self.has_moved, self.has_looked = (
            bool(self.vocab.is_move[action]),
            action == self.vocab.swap,
        )
        if not self.has_looked:
            self.canvas.apply(action)
            return []
        left, right = self.canvas.window(self.look.left, self.look.right)
        edge = int(self.vocab.delete or 0)
        left = [edge] * (self.look.left - len(left)) + left
        right = right + [edge] * (self.look.right - len(right))
        return right + left if self.look.left_is_last else left + right


# -- training -------------------------------------------------------------------------------------


def looking(look: Look, slips: float = 0.0) -> type[Stream]:
    """A stream whose histories show what is around the cursor after each chain of moves."""

    class Looking(Stream):
        def examples(self, places: IntArray, *, progress: float = 0.0) -> list[Example]:
            found = super().examples(places, progress=progress)
            vocab = self.sampler.vocab
            return [ground(e, vocab, look, self.context, slips) for e in found]

    return Looking


def ground(
    example: Example, vocab: ActionVocab, look: Look, context: int, slips: float = 0.0
) -> Example:
    """The example with what the model is shown; what no longer fits the context is cut off.

    A share `slips` of the chains first leads astray, by no more than is shown on a side.
    """
    assert vocab.swap is not None
    ids: list[int] = []
    learned: list[bool] = []
    view = View(vocab, [], look)
    rng = np.random.default_rng(example.digest)
    actions, is_learned = example.ids.tolist(), example.learned.tolist()
    is_delimiter = example.ids == vocab.delimiter
    floor = int((vocab.kinds[example.ids[: is_delimiter.argmax()]] == Kind.INSERT).sum())

    def take(chosen: list[int], bears_loss: list[bool]) -> None:
        ids.extend(chosen)
        learned.extend(bears_loss)

    def move(goal: int, *, bears_loss: bool) -> None:
        cursor, length = view.canvas.cursor, len(view.canvas)
        for delta in vocab.split_move(goal - cursor, cursor=cursor, length=length):
            take([vocab.move_id(delta)], [bears_loss])
            view.apply(ids[-1])

    def show() -> None:
        shown = view.apply(int(vocab.swap or 0))
        take([int(vocab.swap or 0), *shown], [True, *[False] * len(shown)])

    place = 0
    while place < len(actions):
        end = place
        while end < len(actions) and vocab.is_move[actions[end]]:
            end += 1
        if place < end < len(actions) and vocab.kinds[actions[end]] == Kind.INSERT:
            goal = _goal(view.canvas, actions[place:end])
            slip = int(rng.integers(1, look.left + 1)) * (1 if rng.random() < 0.5 else -1)
            astray = goal + slip
            if rng.random() < slips and floor <= astray <= len(view.canvas):
                if astray != view.canvas.cursor:
                    move(astray, bears_loss=False)
                    show()
                move(goal, bears_loss=True)
            else:
                for action in actions[place:end]:
                    view.apply(action)
                take(actions[place:end], is_learned[place:end])
            show()
            place = end
        take([actions[place]], [is_learned[place]])
        view.apply(actions[place])
        place += 1
    whole: Any = np.array(ids[:context], np.int32)
    labels = labelled(whole, np.array(learned[:context], bool))
    return example._replace(ids=whole, labels=labels)


def _goal(canvas: Canvas, moves: list[int]) -> int:
    for action in moves:
        canvas.apply(action)
    goal = canvas.cursor
    canvas.rollback(len(moves))
    return goal


# -- writing --------------------------------------------------------------------------------------


class LookingRows(Boundary):
    """Rows that know their content, close inserts until the model has looked, and force ids."""

    def __init__(self, vocab: ActionVocab, rows: int, shown: Look, *, can_correct: bool) -> None:
        super().__init__(vocab, rows)
        self.can_correct = can_correct
        columns = {int(i): n for n, i in enumerate(vocab.controls, start=1)}
        self.look, self.edge = columns[int(vocab.swap or 0)], columns[int(vocab.delete or 0)]
        self.shown = shown
        self.entering: deque[tuple[int, ...]] = deque()  # prefixes of requests, as they enter
        self.views: dict[int, View] = {}
        self.forced: dict[int, deque[int]] = {}
        self._slots = list(range(rows))

    def reset(self, row: int, **options: Any) -> None:  # type: ignore[override]
        """Start a row from the next prefix."""
        super().reset(row, **options)
        self.views[row] = View(self.vocab, self.entering.popleft(), self.shown)
        self.forced[row] = deque()

    def view(self, rows: Sequence[int]) -> Boundary:
        """Some rows, to read masks of, that know which they are."""
        twin = super().view(rows)
        assert isinstance(twin, LookingRows)
        twin._slots = list(rows)
        return twin

    def fill_mask(self, out: BoolArray | None = None) -> BoolArray:
        """As in training: after a move another one, LOOK or STOP; after LOOK no move, or a few."""
        out = super().fill_mask(out)
        moved = np.array([self.views[slot].has_moved for slot in self._slots])
        looked = np.array([self.views[slot].has_looked for slot in self._slots])
        out[:, 0] &= ~moved
        if not self.can_correct:
            out[looked, self._move_columns] = False
        out[:, self.look] = moved
        out[:, self.edge] = False
        return out

    def force(self, actions: list[int], slots: Sequence[int]) -> list[int]:
        """The actions, but where something is still to be shown, that."""
        return [
            self.forced[slot][0] if self.forced[slot] else action
            for slot, action in zip(slots, actions, strict=True)
        ]

    def advance(self, action_ids: Any, rows: Sequence[int] | None = None) -> None:
        """What is shown changes nothing."""
        assert rows is not None
        plain = []
        for slot, action in zip(rows, action_ids, strict=True):
            if self.forced[slot]:
                self.forced[slot].popleft()
                continue
            self.forced[slot].extend(self.views[slot].apply(action))
            if action != self.vocab.swap:
                plain.append((action, slot))
        if plain:
            actions, slots = zip(*plain, strict=True)
            super().advance(list(actions), list(slots))


def write(
    folder: Path,
    prompts: Path,
    output: Path,
    look: Look,
    *,
    can_correct: bool = False,
    **settings: Any,
) -> None:
    """Rollouts of a model that looks, without what it was shown; the provenance counts that."""
    model, vocab = trunks.load(folder, dtype=torch.float32)
    codec = Codec.load(folder)
    engine = HFEngine(model, vocab)
    rows = LookingRows(vocab, 64, look, can_correct=can_correct)
    engine._boundary = rows
    engine._agree = lambda actions: rows.force(actions, [row.slot for row in engine._rows])
    asked, numbers = read_prompts(prompts), {}
    for n, prompt in enumerate(asked):
        prefix = tuple(codec.encode(prompt.prompt))
        rows.entering.append(prefix)
        config = decode_config(nth(settings, n))
        numbers[engine.add(Request.continuation(vocab, prefix, config))] = n, prefix, config
    chosen: dict[int, list[tuple[int, float]]] = {number: [] for number in numbers}
    written: dict[int, str] = {}
    to_show = dict.fromkeys(numbers, 0)
    while len(written) < len(numbers):
        for step in engine.step():
            n, prefix, config = numbers[step.request]
            if to_show[step.request]:
                to_show[step.request] -= 1
            elif step.action == vocab.swap:
                to_show[step.request] = look.size
                chosen[step.request].append((step.action, step.logprob))
            else:
                chosen[step.request].append((step.action, step.logprob))
            if step.ended is not None:
                ids = [pair for pair in chosen[step.request] if pair[0] != vocab.swap]
                looks = len(chosen[step.request]) - len(ids)
                trajectory = Trajectory(prefix=prefix, restoration=tuple(i for i, _ in ids))
                canvas = Canvas.replay(vocab, trajectory.history(vocab))
                kinds = vocab.kinds[list(trajectory.restoration)]
                rollout = Rollout(
                    prompt=asked[n].prompt,
                    text=codec.decode(canvas.tokens()),
                    trajectory=trajectory,
                    logprobs=tuple(logprob for _, logprob in ids),
                    stop_reason=step.ended,
                    statistics=Statistics(
                        actions=len(ids),
                        edits=int((kinds == Kind.INSERT).sum()),
                        moves=int(vocab.is_move[list(trajectory.restoration)].sum()),
                        tokens_before=len(prefix),
                        tokens_after=len(canvas),
                    ),
                    locked=(),
                    config=config,
                    provenance={
                        "model": str(folder),
                        "engine": "hf",
                        "shown": looks * (1 + look.size),
                    },
                )
                written[n] = json.dumps(rollout.to_dict() | {"id": asked[n].id})
    output.write_text("".join(written[n] + "\n" for n in range(len(asked))), "utf-8")
