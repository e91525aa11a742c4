"""A trunk as ONNX: one graph that reads ids after a key-value cache and returns the longer cache.

The graph has batch size 1. Its inputs are `input_ids` [1, T] and, for each layer, the keys and
values of the ids read before, `past_key_values.N.key` and `.value` [1, heads, P, width]; P may be
0. Its outputs are `logits` [1, T, vocabulary] and `present.N.key` and `.value` [1, heads, P + T,
width], which are the past of the next call.

Shapes: T ids to read, P ids read before.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from transformers import DynamicCache

from reviser.core.actions import FILE_NAME
from reviser.errors import ConfigError
from reviser.files import write_json
from reviser.models import hub, trunks

__all__ = ["Weights", "export_onnx"]

MODEL_FILE = "model.onnx"
FACTS_FILE = "model.json"
Weights = Literal["float32", "bfloat16", "int8"]
"""How weights are stored; the graph computes in float32 in each case."""
_LARGE = 1024
"""Number of elements from which on a tensor is stored in fewer bits."""


def export_onnx(model: str | Path, output: Path, *, weights: Weights = "bfloat16") -> None:
    """Write a model folder as ONNX, with the files that decoding needs."""
    folder = hub.find(model)
    trunk: Any = trunks.load_folder(folder, dtype=torch.float32)[0]
    output.mkdir(parents=True, exist_ok=True)
    graph, cache_shape = _graph_of(trunk.eval())
    _store(graph, weights)
    onnx.save(graph, str(output / MODEL_FILE))
    for name in (FILE_NAME, "tokenizer.json"):
        shutil.copyfile(folder / name, output / name)
    facts = {
        "format": 1,
        "name": folder.name,
        "context": trunk.config.max_position_embeddings,
        "precision": weights,
        "cache": cache_shape,
        **hub.identity(folder),
    }
    write_json(output / FACTS_FILE, facts)


class _Reader(torch.nn.Module):
    """A trunk as a function of tensors: ids and a cache in, logits and the longer cache out."""

    def __init__(self, trunk: Any) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, input_ids: torch.Tensor, past: list[torch.Tensor]) -> tuple[Any, ...]:
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        read, count = past[0].shape[2], input_ids.shape[1]
        position_T = torch.arange(read, read + count)
        # Given as a whole: Transformers would build the mask from shapes that are not known yet.
        mask_TP = torch.arange(read + count)[None, :] <= position_T[:, None]
        output = self.trunk(
            input_ids=input_ids,
            position_ids=position_T[None],
            attention_mask=mask_TP[None, None],
            past_key_values=cache,
            use_cache=True,
        )
        layers = output.past_key_values.layers
        return output.logits, *(part for each in layers for part in (each.keys, each.values))


@torch.no_grad()
def _graph_of(trunk: Any) -> tuple[onnx.ModelProto, list[int]]:
    """Return the graph, and its number of layers, heads and elements of a key."""
    first: Any = trunk(torch.zeros(1, 1, dtype=torch.long), use_cache=True).past_key_values
    if not isinstance(first, DynamicCache):
        raise ConfigError(
            f"{type(trunk).__name__} has no cache of plain keys and values, so it cannot be"
            " exported. Use a model such as GPT-NeoX, GPT-2 or Llama."
        )
    cached: list[Any] = first.layers
    layers, (_, heads, _, width) = len(cached), cached[0].keys.shape
    # The sizes of the sample differ from each other and from 0 and 1, which are special cases.
    past = [torch.zeros(1, heads, 5, width) for _ in range(2 * layers)]
    names = [f"{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    T, P = torch.export.Dim("ids"), torch.export.Dim("past")
    with _quiet():
        program = torch.onnx.export(
            _Reader(trunk).eval(),
            (torch.zeros(1, 3, dtype=torch.long), past),
            dynamo=True,
            verbose=False,
            input_names=["input_ids", *(f"past_key_values.{name}" for name in names)],
            output_names=["logits", *(f"present.{name}" for name in names)],
            dynamic_shapes=({1: T}, [{2: P}] * len(past)),
        )
    assert program is not None
    return program.model_proto, [layers, heads, width]


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what torch logs about its own internals and about packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _store(graph: onnx.ModelProto, weights: Weights) -> None:
    """Store large weights in fewer bits, in place; the runtime expands them once, when it loads."""
    pack = _PACKERS[weights]
    kept, expanded = [], []
    for tensor in graph.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < _LARGE:
            kept.append(tensor)
            continue
        parts, nodes = pack(tensor.name, values)
        kept += parts
        expanded += nodes
    nodes = [*expanded, *graph.graph.node]
    del graph.graph.initializer[:], graph.graph.node[:]
    graph.graph.initializer.extend(kept)
    graph.graph.node.extend(nodes)


Packed = tuple[list[onnx.TensorProto], list[onnx.NodeProto]]
"""What is stored of a tensor, and the nodes that make it from that."""


def _as_is(name: str, values: Any) -> Packed:
    return [numpy_helper.from_array(values, name)], []


def _as_bfloat16(name: str, values: Any) -> Packed:
    half = numpy_helper.from_array(values.astype(ml_dtypes.bfloat16), f"{name}.bfloat16")
    return [half], [_to_float(half.name, name)]


def _as_int8(name: str, values: Any) -> Packed:
    """Pack a tensor with one scale per column, a vector with one in all."""
    axis = -1 if values.ndim == 1 else 0
    scale = np.maximum(np.abs(values).max(axis=axis, keepdims=True), 1e-12) / 127
    rounded = numpy_helper.from_array(np.rint(values / scale).astype(np.int8), f"{name}.int8")
    factor = numpy_helper.from_array(scale.astype(np.float32), f"{name}.scale")
    nodes = [
        _to_float(rounded.name, f"{name}.whole"),
        helper.make_node("Mul", [f"{name}.whole", factor.name], [name]),
    ]
    return [rounded, factor], nodes


def _to_float(source: str, target: str) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], to=onnx.TensorProto.FLOAT)


_PACKERS: dict[Weights, Callable[[str, Any], Packed]] = {
    "float32": _as_is,
    "bfloat16": _as_bfloat16,
    "int8": _as_int8,
}
