"""Prompts that rollouts start from: drafts to revise, or beginnings of texts to continue.

A prompt is a pure function of the seed and its number, like a training example, so every process
and every restart sees the same ones. This module knows the data, but not models or rewards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reviser.core.actions import ActionVocab, Kind
from reviser.data.dataset import WindowStream
from reviser.data.order import permute
from reviser.data.pair_dataset import PairStream
from reviser.engines.base import DecodeConfig, Request, measure
from reviser.lab.recipe import LabRecipe
from reviser.train.inputs import Inputs, example_stream

TRAINING, HELD_OUT = "training", "held_out"
"""The splits of the prompts."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A history to continue, and what rewards need to know about it."""

    key: str
    """Split and number; the rollouts of a group share it."""
    request: Request
    text: str
    """The draft; or the beginning, which is locked."""
    target: str
    """The corrected draft; or how the text continues in the data."""
    is_draft: bool
    script: tuple[int, ...] = ()
    """The oracle's ids, for a draft: they end with STOP."""

    @property
    def locked(self) -> int:
        """Number of tokens before the text that the model may change."""
        return self.request.editable[0][0]

    def oracle(self, vocab: ActionVocab, share: float, context: int) -> tuple[int, ...]:
        """Return the ids of a share of the oracle's actions, from the first on and without STOP.

        There are fewer where the context has no room for them and for an id of the model.
        """
        actions = [a for a in vocab.read(self.script) if a.kind is not Kind.STOP]
        room = context - len(self.request.history) - 1
        ids: list[int] = []
        for action in actions[: int(share * len(actions))]:
            spelled = vocab.spell(action)
            if len(ids) + len(spelled) > room:
                break
            ids += spelled
        return tuple(ids)


class Prompts:
    """The prompts of one split, by number; each epoch has an order of its own."""

    def __init__(self, recipe: LabRecipe, inputs: Inputs, split: str) -> None:
        assert recipe.reinforce is not None
        self.split = split
        is_held_out = split == HELD_OUT
        self.stream = example_stream(recipe, inputs, recipe.policy, held_out=is_held_out)
        self._inputs = inputs
        # No other setting changes the distribution, so what is learned is what was sampled.
        self._config = DecodeConfig(
            temperature=recipe.reinforce.temperature,
            top_k=0,
            max_actions=recipe.reinforce.max_actions,
        )

    def __len__(self) -> int:
        return len(self.stream.split)

    def __getitem__(self, number: int) -> Prompt:
        epoch, offset = divmod(number, len(self))
        index = permute(np.array([offset]), len(self), seed=self.stream.seed, epoch=epoch)
        if isinstance(self.stream, PairStream):
            return self._draft(self.stream, number, int(index[0]))
        assert isinstance(self.stream, WindowStream)  # the recipe was checked
        return self._beginning(self.stream, number, index, epoch)

    def _draft(self, stream: PairStream, number: int, index: int) -> Prompt:
        pair = stream.split.read(index)
        trajectory, vocab = stream.trajectory(pair), self._inputs.vocab
        shown = trajectory.restoration[: len(trajectory.no_loss)]
        history = (*vocab.prefix_actions(trajectory.prefix), *shown)
        length, cursor = measure(vocab, history)
        editable = ((len(pair.instruction), length),)
        decode = self._inputs.codec.decode
        return Prompt(
            key=f"{self.split} {number}",
            request=Request(
                history=history,
                length=length,
                cursor=cursor,
                editable=editable,
                config=self._config,
            ),
            text=decode(pair.before.tolist()),
            target=decode(pair.after.tolist()),
            is_draft=True,
            script=trajectory.restoration[len(shown) :],
        )

    def _beginning(
        self, stream: WindowStream, number: int, index: np.ndarray, epoch: int
    ) -> Prompt:
        (tokens,), (cut,) = stream.cut(index, epoch)
        decode, ids = self._inputs.codec.decode, tokens.tolist()
        return Prompt(
            key=f"{self.split} {number}",
            request=Request.continuation(self._inputs.vocab, ids[:cut], self._config),
            text=decode(ids[:cut]),
            target=decode(ids[cut:]),
            is_draft=False,
        )
