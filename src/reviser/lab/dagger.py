"""DAgger's rollouts: a model revises drafts of its training pairs, and an oracle labels its states.

The rollouts of a round are files of `CHUNK` drafts each, written whole. What a file holds depends
on the seed, the round, its number and the weights. So any process may write any of them, and a
restart writes only those that are missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_model

from reviser.core.canvas import Canvas
from reviser.data.dataset import NO_LABEL, Example, ExampleStream, IntArray
from reviser.data.order import DRAFT, TURN, VISITED, hashed, permute
from reviser.data.pair_dataset import PairStream
from reviser.engines.base import Act, DecodeConfig, Engine, Request, Step
from reviser.engines.hf import HFEngine
from reviser.files import write_whole
from reviser.lab.oracle import Visit
from reviser.lab.recipe import Dagger
from reviser.train.inputs import Inputs, pair_stream
from reviser.train.recipe import Recipe
from reviser.train.resume import step_of
from reviser.train.run import train_until
from reviser.train.session import Session
from reviser.train.trainer import ReviserTrainer
from reviser.trajectories.alignment import word_starts

CHUNK = 64
"""Drafts that are revised side by side, and written to one file."""
SLACK = 16
"""Ids that a model may use for a draft, in addition to twice the number that the oracle needs."""


class Visited(NamedTuple):
    """What a model did with the draft of a pair, and an oracle's labels for it."""

    pair: int
    """Index of the pair in its split."""
    ids: list[int]
    """The ids after the draft was shown."""
    labels: list[int | None]
    """The oracle's label for each of them; None where it has none."""


class Aggregated(ExampleStream):
    """Pairs of texts, of which a share is replaced by rollouts of a model."""

    def __init__(self, pairs: PairStream, visited: Sequence[Visited], share: float) -> None:
        super().__init__(pairs.split, pairs.vocab, context=pairs.context, seed=pairs.seed)
        self._pairs, self._visited, self._share = pairs, visited, share

    def _sample(self, indices: IntArray, epoch: int, progress: float) -> list[Example]:
        own = self._pairs._sample(indices, epoch, progress)
        draws = hashed(self.seed, VISITED, indices.astype(np.uint64), epoch).tolist()
        chosen = [self.choose(draw) for draw in draws]
        return [
            example if visited is None else self.example(visited, example.digest)
            for example, visited in zip(own, chosen, strict=True)
        ]

    def choose(self, draw: int) -> Visited | None:
        """Return the rollout that takes the place of a pair's own edits, if one does."""
        if not self._visited or (draw >> 32) >= self._share * (1 << 32):
            return None
        return self._visited[draw % (1 << 32) % len(self._visited)]

    def example(self, visited: Visited, digest: int) -> Example:
        """Return what is learned from a rollout: its ids, with the oracle's labels."""
        pair = self._pairs.split.read(visited.pair)
        trajectory = self._pairs.trajectory(pair)
        shown = trajectory.restoration[: len(trajectory.no_loss)]
        trajectory = replace(trajectory, restoration=(*shown, *visited.ids))
        ids, labels = self._pairs.learned(pair, trajectory)
        if visited.ids:
            given = [NO_LABEL if label is None else label for label in visited.labels]
            labels[-len(given) :] = given
        ids, labels = ids[: self.context], labels[: self.context]
        return Example(ids, labels, len(pair.after), False, digest)


def train_rounds(run: Session, policy: Dagger) -> ReviserTrainer:
    """Train a recipe part by part, each after the rollouts of its round; return the last Trainer.

    The first part has no rollouts yet.
    """
    recipe, steps = run.recipe, run.recipe.training.steps
    part = steps // (policy.rounds + 1)
    for stop in range(part, steps + 1, part):
        if stop > run.step or stop == steps:
            checkpoint = run.checkpoint()
            visited = rollouts(recipe, policy, run, checkpoint)
            pairs = pair_stream(recipe, run.inputs, policy)
            trainer = train_until(stop, run, Aggregated(pairs, visited, policy.share))
            run.arguments.eval_on_start = False
    return trainer


def rollouts(recipe: Recipe, policy: Dagger, run: Session, checkpoint: str | None) -> list[Visited]:
    """Return the rollouts of all rounds up to a step, making those of the last with its weights.

    Every process must call this. `checkpoint` is the one that the next part of training starts at.
    """
    inputs, arguments = run.inputs, run.arguments
    step = 0 if checkpoint is None else step_of(checkpoint)
    ended = min(step * (policy.rounds + 1) // recipe.training.steps, policy.rounds)
    if checkpoint is None or not ended:
        return []
    folders = [run.output / "rollouts" / f"round-{n}" for n in range(1, ended + 1)]
    chunks = range(-(-policy.drafts // CHUNK))
    # Each process has its own chunks, whatever the others have written meanwhile.
    mine = chunks[arguments.process_index :: arguments.world_size]
    missing = [n for n in mine if not _path(folders[-1], n).is_file()]
    if missing:
        # A checkpoint after the start of this round would have other weights; but then the files
        # are there, because a round starts once all of them are.
        load_model(inputs.model, Path(checkpoint) / "model.safetensors")
        stream = pair_stream(recipe, inputs, policy)
        inputs.model.to(arguments.device)  # after a restart, no Trainer has moved it there yet
        engine = HFEngine(inputs.model, inputs.vocab, rows=CHUNK)
        for chunk in missing:
            found = roll_out(engine, policy, stream, inputs, round_=ended, chunk=chunk)
            lines = [json.dumps(visited._asdict()) + "\n" for visited in found]
            write_whole(_path(folders[-1], chunk), "".join(lines))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    return [visited for folder in folders for n in chunks for visited in _read(_path(folder, n))]


def roll_out(
    engine: Engine, policy: Dagger, stream: PairStream, inputs: Inputs, *, round_: int, chunk: int
) -> list[Visited]:
    """Have a model revise the drafts of one chunk; the oracle acts in its place now and then."""
    first, seed = chunk * CHUNK, stream.seed
    numbers = np.arange(first, min(first + CHUNK, policy.drafts))
    # Rounds take their drafts in orders of their own, which are not those of the epochs.
    indices = permute(numbers % len(stream.split), len(stream.split), seed=seed, epoch=-round_)
    drafts = [
        _Draft(stream, inputs, policy, index, number, round_=round_)
        for index, number in zip(indices.tolist(), numbers.tolist(), strict=True)
    ]
    running: dict[int, _Draft] = {}

    def resume(draft: _Draft) -> None:
        if draft.follow_oracle():
            running[engine.add(Act(draft.request()))] = draft

    for draft in drafts:
        resume(draft)
    while running:
        for answer in engine.step(0.0):
            if answer.number not in running:  # it was cancelled a moment ago
                continue
            draft = running[answer.number]
            if isinstance(answer.value, Exception):
                raise answer.value
            assert isinstance(answer.value, Step)
            draft.visit.take(answer.value.action)
            if answer.is_last:
                del running[answer.number]
            elif draft.is_oracles_turn:
                engine.cancel(answer.number)
                del running[answer.number]
                resume(draft)
    return [draft.visited() for draft in drafts]


class _Draft:
    """One draft of a round: its history so far, and whose turn it is."""

    def __init__(
        self,
        stream: PairStream,
        inputs: Inputs,
        policy: Dagger,
        index: int,
        number: int,
        *,
        round_: int,
    ) -> None:
        pair = stream.split.read(index)
        trajectory = stream.trajectory(pair)
        vocab, self._offset = inputs.vocab, len(pair.instruction)
        shown = trajectory.restoration[: len(trajectory.no_loss)]
        self._shown = [*vocab.prefix_actions(trajectory.prefix), *shown]
        after = word_starts(inputs.codec, pair.after)
        self.visit = Visit(
            vocab,
            Canvas.replay(vocab, [*trajectory.prefix, *shown]),
            pair.after.tolist(),
            offset=self._offset,
            address=policy.address,
            starts=lambda before: (word_starts(inputs.codec, before), after),
            is_new=not len(pair.before),
        )
        limit = len(self._shown) + 2 * self.visit.distance + SLACK
        self._limit = min(limit, inputs.context)
        self._index, self._temperature = index, policy.temperature
        self._key = stream.seed, DRAFT, np.array([number]), round_
        self._oracle, self._turn = policy.oracle_in(round_), policy.turn

    @property
    def is_oracles_turn(self) -> bool:
        """True if the oracle is to act now; drawn once for each turn."""
        seed, _, number, round_ = self._key
        draw = int(hashed(seed, TURN, number, round_, len(self.visit.ids) // self._turn)[0])
        return not self.visit.is_spelling and draw < self._oracle * (1 << 64)

    def follow_oracle(self) -> bool:
        """Take the oracle's actions while it is its turn; return whether the model can continue."""
        while self.is_oracles_turn and not self.visit.is_over:
            for action_id in self.visit.advice:
                self.visit.take(action_id)
        return not self.visit.is_over and self._left > 0

    @property
    def _left(self) -> int:
        return self._limit - len(self._shown) - len(self.visit.ids)

    def request(self) -> Request:
        """Return the request that lets the model continue."""
        canvas = self.visit.canvas
        seed = int(hashed(*self._key, len(self.visit.ids))[0]) >> 32
        return Request(
            history=(*self._shown, *self.visit.ids),
            length=len(canvas),
            cursor=canvas.cursor,
            editable=((self._offset, len(canvas)),),
            config=DecodeConfig(
                temperature=self._temperature, top_k=0, max_actions=self._left, seed=seed
            ),
        )

    def visited(self) -> Visited:
        """Return what was visited."""
        return Visited(self._index, *self.visit.cut())


def _path(folder: Path, chunk: int) -> Path:
    return folder / f"{chunk:05}.jsonl"


def _read(path: Path) -> Iterator[Visited]:
    for line in path.read_text("utf-8").splitlines():
        yield Visited(**json.loads(line))
