"""Scores of a text and of its branches by a Transformers model, as one tree over one cache.

`tree` has the tree and the table of answers; here is what torch computes for it.

Shapes: N nodes that are read at a time, A ids of the vocabulary, T ids of a text, D its width.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from reviser.engines.base import PlainVocab, Score, Scores, Vocab
from reviser.engines.tree import Table, Texts, Tree
from reviser.errors import ConfigError

NODES = 512
"""Nodes that are read at a time, or more where their branches leave the text at one position."""


def checked_cache(model: Any, cache: Any) -> DynamicCache:
    """Return a cache; refuse a model that keeps more than keys and values of each id."""
    if not isinstance(cache, DynamicCache) or any(
        type(layer) is not DynamicLayer for layer in cache.layers
    ):
        raise ConfigError(
            f"{type(model).__name__} has no cache of plain keys and values, the only kind that this"
            " engine can take rows from: use engine 'vllm'."
        )
    return cache


def _sliding_window(config: Any) -> int | None:
    """Return the number of ids that some layer sees at a time, if that is not all of them."""
    window: int | None = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    is_used = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
    return window if is_used else None


class _Text(NamedTuple):
    """A text that was read: what branches of it see, and what its own states are."""

    cache: DynamicCache
    states: torch.Tensor | None
    """The trunk's output, from which the head gives what follows each id; None if it does not."""


class Scorer:
    """Answers `Score` questions with a Transformers model, one text at a time."""

    def __init__(self, model: Any, vocab: Vocab) -> None:
        self._model, self._vocab = model, vocab
        self._device = next(model.parameters()).device
        self._selects = "logits_to_keep" in signature(model.forward).parameters
        self._base: Any = getattr(model, "base_model", None)
        self._head: Any = getattr(model, "get_output_embeddings", lambda: None)()
        # Without a separate trunk and head, the model gives logits only, and no hidden states.
        if self._base is model or self._head is None:
            self._base = None
        self._window = _sliding_window(model.config)
        self._texts = Texts[_Text]()

    def has_read(self, history: tuple[int, ...]) -> bool:
        """Return whether a text was read lately, so that its branches cost little."""
        return history in self._texts

    def clear(self) -> None:
        """Forget all texts."""
        self._texts.clear()

    def score(self, question: Score) -> Scores:
        """Return the log-probabilities that are asked for."""
        tree = Tree(question)
        table = Table(tree, stops=not isinstance(self._vocab, PlainVocab))
        own = table.text_nodes
        text = self._texts.pop(question.history)
        if text is None:
            text = self._read_text(tree, own, table)
            own = []
        elif text.states is not None:
            self._add(table, own, self._head(text.states[own]))
            own = []
        others = range(tree.length, len(tree.actions))
        for part in tree.parts([*own, *others], NODES):
            self._read_nodes(tree, text.cache, part, table)
        self._texts.keep(question.history, text)
        return table.scores()

    def _read_text(self, tree: Tree, wanted: list[int], table: Table) -> _Text:
        """Read a text; add what is wanted of it to the table."""
        select = {"logits_to_keep": self._tensor(wanted)} if self._selects else {}
        cache, seen = DynamicCache(), []
        watch = self._base and self._base.register_forward_hook(
            lambda _, __, output: seen.append(output[0])
        )
        try:
            output = self._model(
                input_ids=self._tensor([tree.actions[: tree.length]]),
                position_ids=self._tensor([tree.positions[: tree.length]]),
                past_key_values=cache,
                use_cache=True,
                **select,
            )
        finally:
            if watch:
                watch.remove()
        checked_cache(self._model, output.past_key_values)
        logits_NA = output.logits[0] if self._selects else output.logits[0, wanted]
        self._add(table, wanted, logits_NA)
        if not seen or seen[0].shape[-1] != self._head.weight.shape[-1]:
            return _Text(cache, None)
        states_TD = seen[0][0]
        # Some models scale what their head gives; then states have to be read again.
        last = self._head(states_TD[wanted[-1:]]).to(logits_NA.device)
        tolerance = 1e-4 if last.dtype == torch.float32 else 2e-2
        is_plain = torch.allclose(last, logits_NA[-1:], rtol=tolerance, atol=tolerance)
        return _Text(cache, states_TD if is_plain else None)

    def _read_nodes(self, tree: Tree, cache: Any, part: list[int], table: Table) -> None:
        """Read nodes after a text; one of the text itself is read again, and sees what it saw."""
        longest = 1 + max(tree.positions[node] for node in part)
        if self._window is not None and longest > self._window:
            raise ConfigError(
                f"{type(self._model).__name__} sees {self._window:,} tokens at a time, and this"
                f" text has {longest:,}. Use a smaller `window` and `context`."
            )
        sees = torch.from_numpy(tree.sees(part))
        dtype = self._model.dtype
        # To be put back: what a layer is given it keeps in larger tables.
        tables = [(layer.keys, layer.values) for layer in cache.layers]
        mask = torch.zeros(sees.shape, dtype=dtype).masked_fill(~sees, torch.finfo(dtype).min)
        try:
            output = self._model(
                input_ids=self._tensor([[tree.actions[node] for node in part]]),
                position_ids=self._tensor([[tree.positions[node] for node in part]]),
                attention_mask=mask[None, None].to(self._device),
                past_key_values=cache,
                use_cache=True,
            )
        finally:
            for layer, (keys, values) in zip(cache.layers, tables, strict=True):
                layer.keys, layer.values = keys, values
        self._add(table, part, output.logits[0])

    def _add(self, table: Table, nodes: Sequence[int], logits_NA: torch.Tensor) -> None:
        """Take what the model says about the ids after some nodes."""
        logits_NA = logits_NA.float()
        whole_N = logits_NA.logsumexp(-1)
        if not isinstance(vocab := self._vocab, PlainVocab):
            stop_N = logits_NA[:, vocab.stop] - whole_N
            table.stop |= zip(nodes, stop_N.tolist(), strict=True)
        pairs = torch.tensor(table.pairs(nodes), dtype=torch.long, device=whole_N.device)
        rows, actions = pairs.reshape(-1, 2).unbind(1)
        table.add(nodes, (logits_NA[rows, actions] - whole_N[rows]).tolist())

    def _tensor(self, values: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(values, device=self._device)
