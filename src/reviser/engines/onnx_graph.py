"""Llama as ONNX graphs: a body that reads nodes of a tree, and a head that scores what follows.

Weights stay outside of the graphs, in a safetensors file beside them. The graphs are made of
operators of ONNX and of ONNX Runtime; no torch is needed to write them.

Shapes: N nodes to read, P ids read before, D width, H heads of queries, K heads of keys and values,
W width of a head, M states, Q questions about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto, helper

from reviser.models.llama_files import EMBEDDING

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
TYPES = {"F32": FLOAT, "I8": TensorProto.INT8}
ZERO = 128.0
"""The byte that stands for zero: bytes without a sign are multiplied faster."""
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Sizes:
    """The sizes of a Llama."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    epsilon: float
    is_tied: bool
    """Whether the head shares its table with the embedding."""

    @classmethod
    def of(cls, config: Mapping[str, Any], *, is_tied: bool) -> Sizes:
        """Return the sizes that a config says."""
        heads, width = config["num_attention_heads"], config["hidden_size"]
        return cls(
            layers=config["num_hidden_layers"],
            width=width,
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_width=config.get("head_dim") or width // heads,
            epsilon=config["rms_norm_eps"],
            is_tied=is_tied,
        )


class Graph:
    """A graph that is being written."""

    def __init__(self, weights: Mapping[str, Any], file: str, start: int) -> None:
        self._weights, self._file, self._start = weights, file, start
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: dict[str, onnx.TensorProto] = {}
        self._quantized: dict[str, tuple[str, str]] = {}  # by the name of what was quantized

    def op(self, kind: str, *inputs: str, count: int = 0, name: str = "", **options: Any) -> Any:
        """Add an operator; return the name of its result, or of its `count` results."""
        base = name or f"{kind}_{len(self._nodes)}"
        names = [f"{base}.{n}" for n in range(count)] or [base]
        self._nodes.append(helper.make_node(kind, inputs, names, **options))
        return names if count else base

    def number(self, *values: float, kind: int = 0, scalar: bool = False) -> str:
        """Return the name of a small constant, of whole numbers if its values are."""
        kind = kind or (INT if all(isinstance(value, int) for value in values) else FLOAT)
        name = f"constant.{kind}.{scalar}.{values}"
        shape = () if scalar else (len(values),)
        self._tensors[name] = helper.make_tensor(
            name, kind, shape, [*map(int, values)] if kind != FLOAT else values
        )
        return name

    def weight(self, name: str) -> str:
        """Return the name of a tensor in the file of weights."""
        if name not in self._tensors:
            about = self._weights[name]
            tensor = onnx.TensorProto(name=name, data_type=TYPES[about["dtype"]])
            tensor.dims.extend(about["shape"])
            tensor.data_location = TensorProto.EXTERNAL
            first, last = about["data_offsets"]
            place = {"location": self._file, "offset": self._start + first, "length": last - first}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            self._tensors[name] = tensor
        return name

    def linear(self, x: str, name: str) -> str:
        """Multiply rows with the transpose of a weight, in the form that it is stored in."""
        name = f"{name}.weight"
        if f"{name}.int8" in self._weights:
            return self._linear_int8(x, name)
        return str(self.op("Gemm", x, self.weight(name), transB=1))

    def _linear_int8(self, x: str, name: str) -> str:
        """Multiply in whole numbers: each row of x, and of the weight, has a scale of its own."""
        if x not in self._quantized:
            top = self.op("ReduceMax", self.op("Abs", x), self.number(-1), keepdims=1)
            scale = self.op("Div", self.op("Max", top, self.number(1e-9)), self.number(127.0))
            shifted = self.op("Add", self.op("Div", x, scale), self.number(ZERO))
            bytes_ = self.op("Cast", self.op("Round", shifted), to=TensorProto.UINT8)
            self._quantized[x] = bytes_, scale
        bytes_, scale = self._quantized[x]
        scales, one = self.weight(f"{name}.scales"), self.number(1.0, scalar=True)
        zero = self.number(ZERO, kind=TensorProto.UINT8, scalar=True)
        product = self.op(
            "MatMulIntegerToFloat", bytes_, self.weight(f"{name}.int8"), one, scales, zero,
            domain=MICROSOFT,
        )  # fmt: skip
        return str(self.op("Mul", product, scale))

    def norm(self, x: str, name: str, epsilon: float) -> str:
        """Divide rows by their root mean square."""
        weight = self.weight(f"{name}.weight")
        return str(
            self.op(
                "SimplifiedLayerNormalization", x, weight, epsilon=epsilon, axis=-1, stash_type=1
            )
        )

    def model(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> onnx.ModelProto:
        """Return the whole graph; inputs and outputs are named with their types and shapes."""

        def declared(values: Mapping[str, Any]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(name, *about) for name, about in values.items()]

        graph = helper.make_graph(
            self._nodes, "llama", declared(inputs), declared(outputs), [*self._tensors.values()]
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def body(graph: Graph, sizes: Sizes) -> onnx.ModelProto:
    """Return the graph that reads nodes after a cache.

    It gets rows of the embedding, not ids: the table would take memory a second time.
    """
    x = "embedded"
    keys, values = [], []
    past_k = graph.op("Split", "past_keys", count=sizes.layers, axis=0, num_outputs=sizes.layers)
    past_v = graph.op("Split", "past_values", count=sizes.layers, axis=0, num_outputs=sizes.layers)
    for n in range(sizes.layers):
        name = f"model.layers.{n}"
        y = graph.norm(x, f"{name}.input_layernorm", sizes.epsilon)
        y, key, value = _attention(graph, y, f"{name}.self_attn", sizes, past_k[n], past_v[n])
        keys.append(key)
        values.append(value)
        x = graph.op("Add", x, y)
        y = graph.norm(x, f"{name}.post_attention_layernorm", sizes.epsilon)
        gate = graph.linear(y, f"{name}.mlp.gate_proj")
        gate = graph.op("Mul", gate, graph.op("Sigmoid", gate))
        y = graph.op("Mul", gate, graph.linear(y, f"{name}.mlp.up_proj"))
        x = graph.op("Add", x, graph.linear(y, f"{name}.mlp.down_proj"))
    graph.op("Identity", graph.norm(x, "model.norm", sizes.epsilon), name="states")
    graph.op("Concat", *keys, axis=0, name="keys")
    graph.op("Concat", *values, axis=0, name="values")
    K, W, layers = sizes.kv_heads, sizes.head_width, sizes.layers
    return graph.model(
        {
            "embedded": (FLOAT, ["N", sizes.width]),
            "cos": (FLOAT, ["N", 1, W // 2]),
            "sin": (FLOAT, ["N", 1, W // 2]),
            "mask": (FLOAT, ["N", "P+N"]),
            "past_keys": (FLOAT, [layers, K, "P", W]),
            "past_values": (FLOAT, [layers, K, "P", W]),
        },
        {
            "states": (FLOAT, ["N", sizes.width]),
            "keys": (FLOAT, [layers, K, "N", W]),
            "values": (FLOAT, [layers, K, "N", W]),
        },
    )


def _attention(
    graph: Graph, x: str, name: str, sizes: Sizes, past_key: str, past_value: str
) -> tuple[str, str, str]:
    """Return the result of an attention, and the keys and values of the nodes.

    Heads of queries that share keys are rows of one product.
    """
    op, K, W = graph.op, sizes.kv_heads, sizes.head_width

    def heads(part: str, count: int) -> str:
        return str(op("Reshape", graph.linear(x, f"{name}.{part}"), graph.number(-1, count, W)))

    def turned(x: str) -> str:  # rotary positions
        one, other = op("Split", x, count=2, axis=-1, num_outputs=2)
        left = op("Sub", op("Mul", one, "cos"), op("Mul", other, "sin"))
        right = op("Add", op("Mul", other, "cos"), op("Mul", one, "sin"))
        return str(op("Concat", left, right, axis=-1))

    scaled = op("Mul", turned(heads("q_proj", sizes.heads)), graph.number(W**-0.5, scalar=True))
    q = op("Transpose", scaled, perm=[1, 0, 2])  # [H, N, W]
    key = op("Transpose", turned(heads("k_proj", K)), perm=[1, 0, 2])  # [K, N, W]
    value = op("Transpose", heads("v_proj", K), perm=[1, 0, 2])
    key = op("Unsqueeze", key, graph.number(0))
    value = op("Unsqueeze", value, graph.number(0))
    all_k = op("Squeeze", op("Concat", past_key, key, axis=2), graph.number(0))  # [K, P+N, W]
    all_v = op("Squeeze", op("Concat", past_value, value, axis=2), graph.number(0))
    q = op("Reshape", q, graph.number(K, -1, W))  # [K, group * N, W]
    seen = op("MatMul", q, op("Transpose", all_k, perm=[0, 2, 1]))  # [K, group * N, P+N]
    # To [H, N, P+N] for the mask, and back.
    shape = op("Concat", graph.number(sizes.heads), op("Shape", "mask"), axis=0)
    weights = op("Softmax", op("Add", op("Reshape", seen, shape), "mask"), axis=-1)
    weights = op("Reshape", weights, op("Shape", seen))
    mixed = op("Reshape", op("MatMul", weights, all_v), graph.number(sizes.heads, -1, W))
    mixed = op("Transpose", mixed, perm=[1, 0, 2])
    mixed = op("Reshape", mixed, graph.number(-1, sizes.heads * W))
    return graph.linear(mixed, f"{name}.o_proj"), key, value


def head(graph: Graph, sizes: Sizes) -> onnx.ModelProto:
    """Return the graph that gives log-probabilities of ids after some states."""
    name = EMBEDDING.removesuffix(".weight") if sizes.is_tied else "lm_head"
    table = graph.op("LogSoftmax", graph.linear("states", name), axis=-1)
    graph.op("GatherND", table, "pairs", name="logprobs")
    return graph.model(
        {"states": (FLOAT, ["M", sizes.width]), "pairs": (INT, ["Q", 2])},
        {"logprobs": (FLOAT, ["Q"])},
    )
