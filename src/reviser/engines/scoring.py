"""Scores of a text and of its branches, by one tree over one cache.

The text is read once, and its keys and values are kept. A branch then costs its own ids only: each
stands at the position it would have, and sees the text up to the cut and the ids before it on its
branch. Branches share what they have in common, with each other and with the text:

    position     0    1    2    3    4    5
    text        The  cat  sat  on   a   mat
    branches              ran  on               cut 2: one node, "ran"; a last id is never read
                          ran  to                      shares it
                          sat  by                      "sat" is the text's own

Shapes: N nodes that are read at a time, A ids of the vocabulary, T ids of a text, D its width.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from inspect import signature
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from reviser.core.actions import ActionVocab
from reviser.engines.base import Score, Scores
from reviser.errors import ConfigError

CACHED_IDS = 4096
"""Ids of texts whose keys and values are kept, because branches of them may be asked for next."""
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


class _Tree:
    """What a question is about: nodes, the text's own first, and what may follow them."""

    def __init__(self, question: Score) -> None:
        history, count = question.history, len(question.history)
        self.length = count
        self.actions = list(history)
        self.parents = list(range(-1, count - 1))
        self.roots = list(range(count))
        """The last node of the text on the way to each node."""
        self.positions = list(range(count))
        self._children = {(n - 1, action): n for n, action in enumerate(history)}
        self.text = [(n - 1, history[n]) for n in range(question.start, count)]
        """Nodes, and the ids after them whose log-probabilities are asked for."""
        self.branches = [self._add(*branch) for branch in question.branches]

    def _add(self, cut: int, ids: Sequence[int]) -> list[tuple[int, int]]:
        node, asked = cut - 1, []
        for n, action in enumerate(ids):
            asked.append((node, action))
            if n == len(ids) - 1:
                break
            following = self._children.setdefault((node, action), len(self.actions))
            if following == len(self.actions):
                self.actions.append(action)
                self.parents.append(node)
                self.roots.append(self.roots[node])
                self.positions.append(self.positions[node] + 1)
            node = following
        return asked

    def asked(self) -> dict[int, set[int]]:
        """Return the ids that are asked for, by the node that they follow."""
        found: dict[int, set[int]] = {self.length - 1: set()}  # for STOP after the text
        for pairs in (self.text, *self.branches):
            for node, action in pairs:
                found.setdefault(node, set()).add(action)
        return found

    def parts(self, nodes: Sequence[int]) -> Iterator[list[int]]:
        """Yield nodes in parts that can be read one after the other, about equally large.

        No branch is cut in two. A small part costs nearly as much as a large one, because each
        reads all weights.
        """
        size = ceil(len(nodes) / ceil(len(nodes) / NODES)) if nodes else 0
        part: list[int] = []
        for _, group in groupby(sorted(nodes, key=self.roots.__getitem__), self.roots.__getitem__):
            part += group
            if len(part) >= size:
                yield part
                part = []
        if part:
            yield part


class _Text(NamedTuple):
    """A text that was read: what branches of it see, and what its own states are."""

    cache: DynamicCache
    states: torch.Tensor | None
    """The trunk's output, from which the head gives what follows each id; None if it does not."""


class Scorer:
    """Answers `Score` questions with a Transformers model, one text at a time."""

    def __init__(self, model: Any, vocab: ActionVocab) -> None:
        self._model, self._vocab = model, vocab
        self._device = next(model.parameters()).device
        self._selects = "logits_to_keep" in signature(model.forward).parameters
        self._base: Any = getattr(model, "base_model", None)
        self._head: Any = getattr(model, "get_output_embeddings", lambda: None)()
        if self._base is model or self._head is None:  # then states cannot be told from logits
            self._base = None
        self._window = _sliding_window(model.config)
        self._texts: OrderedDict[tuple[int, ...], _Text] = OrderedDict()

    def has_read(self, history: tuple[int, ...]) -> bool:
        """Return whether a text was read lately, so that its branches cost little."""
        return history in self._texts

    def clear(self) -> None:
        """Forget all texts."""
        self._texts.clear()

    def score(self, question: Score) -> Scores:
        """Return the log-probabilities that are asked for."""
        tree = _Tree(question)
        asked = tree.asked()
        table = _Table(self._vocab, asked)
        own = sorted(node for node in asked if node < tree.length)
        text = self._texts.pop(question.history, None)
        if text is None:
            text = self._read_text(tree, own, table)
            own = []
        elif text.states is not None:
            table.add(own, self._head(text.states[own]))
            own = []
        others = range(tree.length, len(tree.actions))
        for part in tree.parts([*own, *others]):
            self._read_nodes(tree, text.cache, part, table)
        self._keep(question.history, text)
        return table.scores(tree)

    def _read_text(self, tree: _Tree, wanted: list[int], table: _Table) -> _Text:
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
        table.add(wanted, logits_NA)
        if not seen or seen[0].shape[-1] != self._head.weight.shape[-1]:
            return _Text(cache, None)
        states_TD = seen[0][0]
        # Some models scale what their head gives; then states have to be read again.
        last = self._head(states_TD[wanted[-1:]]).to(logits_NA.device)
        tolerance = 1e-4 if last.dtype == torch.float32 else 2e-2
        is_plain = torch.allclose(last, logits_NA[-1:], rtol=tolerance, atol=tolerance)
        return _Text(cache, states_TD if is_plain else None)

    def _read_nodes(self, tree: _Tree, cache: Any, part: list[int], table: _Table) -> None:
        """Read nodes after a text; one of the text itself is read again, and sees what it saw."""
        count, length = len(part), tree.length
        longest = 1 + max(tree.positions[node] for node in part)
        if self._window is not None and longest > self._window:
            raise ConfigError(
                f"{type(self._model).__name__} sees {self._window:,} tokens at a time, and this"
                f" text has {longest:,}. Use a smaller `window` and `context`."
            )
        place = {node: n for n, node in enumerate(part) if node >= length}
        sees = torch.zeros((count, length + count), dtype=torch.bool)
        for n, node in enumerate(part):
            parent = tree.parents[node]
            if parent in place:
                sees[n] = sees[place[parent]]
            else:
                sees[n, : tree.roots[node] + 1] = True
            if node >= length:
                sees[n, length + n] = True
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
        table.add(part, output.logits[0])

    def _keep(self, history: tuple[int, ...], text: _Text) -> None:
        """Keep the newest texts, up to a number of ids."""
        self._texts[history] = text
        while len(self._texts) > 1 and sum(map(len, self._texts)) > CACHED_IDS:
            self._texts.popitem(last=False)

    def _tensor(self, values: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(values, device=self._device)


class _Table:
    """Log-probabilities of what is asked for, as they come."""

    def __init__(self, vocab: ActionVocab, asked: dict[int, set[int]]) -> None:
        self._vocab, self._asked = vocab, asked
        self._logprobs: dict[tuple[int, int], float] = {}
        self._stop: dict[int, float] = {}
        self._controls: dict[int, float] = {}

    def add(self, nodes: Sequence[int], logits_NA: torch.Tensor) -> None:
        """Take what the model says about the ids after some nodes."""
        logits_NA = logits_NA.float()
        whole_N = logits_NA.logsumexp(-1)
        controls_N = logits_NA[:, self._vocab.tokens : self._vocab.size].logsumexp(-1) - whole_N
        self._controls |= zip(nodes, controls_N.tolist(), strict=True)
        stop_N = logits_NA[:, self._vocab.stop] - whole_N
        self._stop |= zip(nodes, stop_N.tolist(), strict=True)
        pairs = [(n, action) for n, node in enumerate(nodes) for action in self._asked[node]]
        if pairs:
            rows, actions = (
                torch.tensor(each, device=whole_N.device) for each in zip(*pairs, strict=True)
            )
            logprobs = (logits_NA[rows, actions] - whole_N[rows]).tolist()
            keys = ((nodes[n], action) for n, action in pairs)
            self._logprobs |= zip(keys, logprobs, strict=True)

    def scores(self, tree: _Tree) -> Scores:
        """Return the answer, once everything has come."""
        nodes = [*(node for node, _ in tree.text), tree.length - 1]
        text = self._part(tree.text, tuple(self._stop[node] for node in nodes))
        branches = tuple(self._part(pairs) for pairs in tree.branches)
        return Scores(text.logprobs, text.stop, text.controls, branches)

    def _part(self, pairs: Sequence[tuple[int, int]], stop: tuple[float, ...] = ()) -> Scores:
        logprobs = tuple(self._logprobs[pair] for pair in pairs)
        return Scores(logprobs, stop, tuple(self._controls[node] for node, _ in pairs))
