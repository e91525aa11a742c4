"""Files of a Llama for ONNX Runtime: built once from a model folder or a GGUF file, then kept.

A folder of the cache holds two graphs, the weights, `config.json` and `tokenizer.json`. With
float32 weights, it is also a model folder for Transformers and vLLM.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from reviser.errors import ConfigError, MissingExtra, did_you_mean
from reviser.files import lock, write_json
from reviser.models.llama_files import LlamaFiles, read, safetensors_header

Weights: TypeAlias = Literal["float32", "int8"]
Progress: TypeAlias = Callable[[int, int], object]
"""Called with the number of tensors that are done, and of all."""
BODY, HEAD, WEIGHTS = "body.onnx", "head.onnx", "model.safetensors"
_FORMAT = 2
"""A part of the key: change it when other files are built from the same source."""


def cache() -> Path:
    """Return the folder in which what is built is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reviser" / "onnx"


def built(
    source: Path, *, weights: Weights = "float32", progress: Progress = lambda *_: None
) -> Path:
    """Return the folder with the files of a model; build it the first time."""
    if weights not in get_args(Weights):
        raise ConfigError(f"weights is {weights!r}. {did_you_mean(weights, get_args(Weights))}")
    folder = cache() / f"{_key(source)}-{weights}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                whole = Path(temporary) / "model"
                whole.mkdir()
                _build(read(source), whole, weights, progress)
                whole.rename(folder)
    return folder


def _key(source: Path) -> str:
    """Return a checksum of where the source is, and of the sizes and times of its files.

    A checksum of all weights would take longer at each start than the rest.
    """
    total = hashlib.sha256(f"{_FORMAT} {source.resolve()}".encode())
    inside = [] if source.is_file() else [*source.glob("*.json"), *source.glob("*.safetensors")]
    for path in sorted(inside) or [source]:
        facts = path.stat()
        total.update(f"{path.name} {facts.st_size} {facts.st_mtime_ns}".encode())
    return total.hexdigest()[:32]


def _build(files: LlamaFiles, folder: Path, weights: Weights, progress: Progress) -> None:
    try:
        import onnx
        from safetensors.numpy import save_file

        from reviser.engines.onnx_graph import Graph, Sizes, body, head
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Building files for ONNX Runtime needs the judge extra: {error.name} is not installed."
            " Install it with: pip install 'reviser-lm[judge]'."
        ) from error
    tensors: dict[str, Any] = {}
    for n, (name, values) in enumerate(files.tensors.items()):
        progress(n, len(files.tensors))
        is_packed = weights == "int8" and name.endswith("_proj.weight")
        tensors |= _packed(name, values()) if is_packed else {name: values()}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    write_json(folder / "config.json", files.config | {"dtype": "float32"})
    (folder / "tokenizer.json").write_text(files.tokenizer, "utf-8")
    about, start = safetensors_header(folder / WEIGHTS)
    sizes = Sizes.of(files.config, is_tied="lm_head.weight" not in about)
    for path, make in ((BODY, body), (HEAD, head)):
        onnx.save(make(Graph(about, WEIGHTS, start), sizes), str(folder / path))
    progress(len(files.tensors), len(files.tensors))


def _packed(name: str, values: Any) -> dict[str, Any]:
    """Return a weight as bytes, transposed, with a scale for each of its rows."""
    scales = np.maximum(np.abs(values).max(axis=1), 1e-9) / 127
    rounded = np.round(values / scales[:, None]).astype(np.int8)
    return {f"{name}.int8": np.ascontiguousarray(rounded.T), f"{name}.scales": scales}
