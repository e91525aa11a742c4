"""Conversion of the paper's released `.pt` files to ordinary model folders.

This module knows the tensor names and shapes in those files and the corresponding names in
GPT-NeoX. The files do not store sizes, so sizes are taken from the tensors. The number of heads and
the context length cannot be found that way and are options.
"""

from __future__ import annotations

import pickle
import re
import struct
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from reviser.core.actions import ActionVocab
from reviser.core.codec import read_tokenizer
from reviser.errors import CheckpointError
from reviser.models import trunks
from reviser.models.trunks import TrunkConfig

HEAD_SIZE = 64
"""Width of one attention head in both released models: 512 / 8 and 896 / 14."""
CONTEXTS = {512: 256, 896: 512}
"""Context of the 100M and the 300M by width: begin token, prefix and actions together, as in the
paper's trainer and sampler. The paper's T_max, 255 and 511, leaves out the begin token."""

Tensors = dict[str, torch.Tensor]

_EMBEDDING = "token_embedding.embedding.weight"
_LAYER = re.compile(r"layers\.layers\.(\d+)\.")
_CANVAS_QUERY = "canvas_embedding.query"
_IGNORED = re.compile(  # RoPE tables, which are recomputed, and what only reading the canvas needs
    rf"(.*\.)?rope\..*|canvas_pool_position_embedding\.weight|{re.escape(_CANVAS_QUERY)}"
)
# Released name -> (name in GPT-NeoX, shape in the paper's letters: d = width, f = MLP width).
_FINAL = {
    "final_ln.weight": ("gpt_neox.final_layer_norm.weight", "d"),
    "final_ln.bias": ("gpt_neox.final_layer_norm.bias", "d"),
}
_IN_LAYER = {
    "ln_self_attn.weight": ("input_layernorm.weight", "d"),
    "ln_self_attn.bias": ("input_layernorm.bias", "d"),
    "self_attn.o_proj.weight": ("attention.dense.weight", "dd"),
    "ln_mlp.weight": ("post_attention_layernorm.weight", "d"),
    "ln_mlp.bias": ("post_attention_layernorm.bias", "d"),
    "mlp.fc1.weight": ("mlp.dense_h_to_4h.weight", "fd"),
    "mlp.fc1.bias": ("mlp.dense_h_to_4h.bias", "f"),
    "mlp.fc2.weight": ("mlp.dense_4h_to_h.weight", "df"),
    "mlp.fc2.bias": ("mlp.dense_4h_to_h.bias", "d"),
}
_FUSED = [f"self_attn.{part}_proj.weight" for part in "qkv"]
_UNREADABLE = (  # `torch.load` raised each of these for a truncated file or one with a bad byte
    pickle.UnpicklingError,
    struct.error,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_GREETING = ("Hello world", [15496, 995])
"""A text and its GPT-2 ids, to distinguish GPT-2's tokenizer from others of the same size."""


def convert(
    path: str | Path,
    folder: str | Path,
    *,
    tokenizer: str | Path,
    heads: int | None = None,
    context: int | None = None,
    without_canvas: bool = False,
) -> TrunkConfig:
    """Write a released checkpoint as a model folder and return the sizes found in it.

    `tokenizer` is a folder with GPT-2's `tokenizer.json`. `heads` defaults to width / 64, `context`
    to that of the released model of this width (`CONTEXTS`), or 512. `without_canvas` says that the
    weights were trained on the history of actions alone; a file with weights that read the canvas
    is refused otherwise. Nothing is written unless everything can be read.
    """
    vocab = ActionVocab.paper()
    tensors = _read(Path(path), without_canvas)
    config = _sizes(tensors, vocab, heads, context)
    extended = _extended_tokenizer(tokenizer, vocab)
    model = trunks.build(config, vocab)
    _fill(model, tensors, config)
    trunks.save(model, extended, vocab, folder)
    return config


def _read(path: Path, without_canvas: bool) -> Tensors:
    """Return the tensors that belong to the trunk, by their released names."""
    if not path.is_file():
        raise CheckpointError(f"There is no file {str(path)!r}.")
    try:
        # Tensors and plain containers only: code inside the file is refused, never run.
        content = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise CheckpointError(
            f"{str(path)!r} cannot be opened safely: it is truncated, has another format, or holds"
            " more than tensors. Download it again from its source."
        ) from error
    if isinstance(content, dict):
        content = content.get("model", content)
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{str(path)!r} holds a {type(content).__name__}; a released checkpoint is a dict of"
            " tensors, or has one under the key 'model'."
        )
    named = {str(name): value for name, value in content.items()}
    # The paper's code puts random values there in every file, so the file cannot say if it was
    # trained with the canvas. Only the person who has it can.
    if _CANVAS_QUERY in named and not without_canvas:
        raise CheckpointError(
            f"{str(path)!r} has weights that read the canvas ({_CANVAS_QUERY}), and the converted"
            " model ignores them: if they were trained without the canvas, pass --without-canvas"
            " (without_canvas=True); if with it, they cannot be converted."
        )
    kept = {name: value for name, value in named.items() if not _IGNORED.fullmatch(name)}
    for name, value in kept.items():
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            raise CheckpointError(
                f"{name!r} in {str(path)!r} is not a tensor of floating-point numbers, so this"
                " is not a released checkpoint."
            )
    return kept


def _sizes(
    tensors: Tensors, vocab: ActionVocab, heads: int | None, context: int | None
) -> TrunkConfig:
    """Return the trunk's sizes, after checking that all tensors exist and fit each other."""
    found = {match[1] for name in tensors if (match := _LAYER.match(name))}
    layers = max(1, len(found))
    hidden = "layers.layers.0.mlp.fc1.bias"
    names = _shapes(layers=layers, width=0, mlp_width=0, rows=0).keys()
    unknown, missing = sorted(tensors.keys() - names), sorted(names - tensors.keys())
    if unknown or missing:
        raise CheckpointError(
            f"Not a released checkpoint: unknown names {_some(unknown)}, missing names"
            f" {_some(missing)}."
        )
    width, mlp_width = tensors["final_ln.weight"].numel(), tensors[hidden].numel()
    shapes = _shapes(layers=layers, width=width, mlp_width=mlp_width, rows=vocab.size)
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise CheckpointError(
                f"{name!r} has the shape {tuple(tensors[name].shape)}; with the paper's"
                f" {vocab.size} ids, width {width} and MLP width {mlp_width} it must be {shape}."
            )
    if heads is None and width % HEAD_SIZE:
        raise CheckpointError(
            f"The width is {width}, which is not a multiple of {HEAD_SIZE}, the released head size."
            " Give the number of heads."
        )
    heads = width // HEAD_SIZE if heads is None else heads
    context = CONTEXTS.get(width, 512) if context is None else context
    return TrunkConfig(
        layers=layers, width=width, heads=heads, mlp_width=mlp_width, context=context
    )


def _shapes(*, layers: int, width: int, mlp_width: int, rows: int) -> dict[str, tuple[int, ...]]:
    """Return every name in a released file with its shape."""
    letters = {name: shape for name, (_, shape) in _FINAL.items()}
    for layer in range(layers):
        inside = {name: shape for name, (_, shape) in _IN_LAYER.items()} | dict.fromkeys(
            _FUSED, "dd"
        )
        letters |= {f"layers.layers.{layer}.{name}": shape for name, shape in inside.items()}
    sizes = {"d": width, "f": mlp_width}
    shapes = {name: tuple(sizes[letter] for letter in shape) for name, shape in letters.items()}
    return {_EMBEDDING: (rows, width), **shapes}


@torch.no_grad()
def _fill(model: PreTrainedModel, tensors: Tensors, config: TrunkConfig) -> None:
    """Copy every tensor into the GPT-NeoX model; rows beyond the vocabulary become 0."""
    targets = dict(model.named_parameters())
    rows = targets.pop("gpt_neox.embed_in.weight")
    rows.zero_()[: len(tensors[_EMBEDDING])] = tensors[_EMBEDDING]
    for old, (new, _) in _FINAL.items():
        targets.pop(new).copy_(tensors[old])
    for layer in range(config.layers):
        before, after = f"layers.layers.{layer}.", f"gpt_neox.layers.{layer}."
        for old, (new, _) in _IN_LAYER.items():
            targets.pop(after + new).copy_(tensors[before + old])
        # GPT-NeoX keeps q, k and v in one matrix, head by head: q1 k1 v1 q2 k2 v2 ...
        parts = [tensors[before + name].unflatten(0, (config.heads, -1)) for name in _FUSED]
        fused = torch.stack(parts, dim=1).flatten(0, 2)
        targets.pop(f"{after}attention.query_key_value.weight").copy_(fused)
    assert not targets, f"not filled: {[*targets]}"


def _extended_tokenizer(folder: str | Path, vocab: ActionVocab) -> Tokenizer:
    """Return GPT-2's tokenizer with the control tokens added under their released ids."""
    tokenizer = read_tokenizer(folder)
    text, ids = _GREETING
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if size != vocab.tokens or tokenizer.encode(text, add_special_tokens=False).ids != ids:
        raise CheckpointError(
            f"The tokenizer in {str(folder)!r} has {size} tokens and is not GPT-2's, which has"
            f" {vocab.tokens} and reads {text!r} as {ids}. The released checkpoints need GPT-2's."
        )
    vocab.extend(tokenizer)
    return tokenizer


def _some(names: list[str]) -> str:
    """Return the first few of many names as text."""
    return ", ".join(names[:4]) + f" and {len(names) - 4} more" * (len(names) > 4) or "none"
