"""Language models opened to score text with, on whichever engine is at hand.

Any causal LM can do this; it needs no actions. This module imports an engine, and with it torch,
only when that engine is asked for.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from reviser.core.codec import Codec
from reviser.engines import onnx_files
from reviser.engines.base import Engine
from reviser.engines.process import ProcessEngine
from reviser.errors import CheckpointError, ConfigError, MissingExtra, did_you_mean
from reviser.files import read_object
from reviser.models import hub, llama_files

Backend: TypeAlias = Literal["auto", "onnx", "hf", "vllm"]
END_OF_TEXT = "<|endoftext|>"
"""Begins and ends documents where a tokenizer has it, also in models that name a chat's begin."""


class LanguageModel(NamedTuple):
    """A model that scores text: ask about the history `(begin, *codec.encode(text))`."""

    engine: Engine
    codec: Codec
    begin: int
    """The id before every text."""


def open_scorer(
    name: str | Path | None = None,
    *,
    backend: Backend = "auto",
    own_process: bool = False,
    weights: onnx_files.Weights = "float32",
    progress: onnx_files.Progress = lambda *_: None,
    **options: Any,
) -> LanguageModel:
    """Open a causal LM to score text with, by its folder, GGUF file or name on the hub.

    Without a name, open the default judge. Backend "onnx" needs neither torch nor Transformers, but
    a Llama, such as SmolLM2; "auto" takes it where it can. It runs files that are built the first
    time, with `weights` in float32 or int8; `progress` is called with the number of tensors that
    are done, and of all.

    Options go to the engine: `threads` for "onnx", for the others those of `reviser.load`. With
    `own_process`, "onnx" and "hf" run in a process of their own.
    """
    if backend not in get_args(Backend):
        raise ConfigError(
            f"{backend!r} is not a backend. {did_you_mean(backend, get_args(Backend))}"
        )
    if own_process and backend == "vllm":
        raise ConfigError("own_process is not for vLLM, which has processes of its own.")
    source = _find(name, hub.CONFIG_FILES if "url" in options else hub.MODEL_FILES)
    if backend == "auto":
        backend = "onnx" if _is_for_onnx(source) else "hf"
    if backend == "onnx" or source.is_file():
        form = weights if backend == "onnx" else "float32"
        folder = onnx_files.built(source, weights=form, progress=progress)
    else:
        folder = source
    codec = Codec.load(folder)
    begin = begin_of(folder, codec)
    open_engine = _open_onnx if backend == "onnx" else _open_hf
    opened: Any
    if backend == "vllm":
        from reviser.engines.vllm_server import VLLMServer

        opened = VLLMServer.load(folder, plain=True, **options)[0]
    elif own_process:
        opened = ProcessEngine(partial(open_engine, **options), folder)
    else:
        opened = open_engine(folder, **options)
    return LanguageModel(opened, codec, begin)


def _find(name: str | Path | None, files: tuple[str, ...]) -> Path:
    """Return the folder or GGUF file of a model."""
    if name is None or (name == llama_files.DEFAULT_JUDGE and files == hub.MODEL_FILES):
        return llama_files.default_judge()
    if Path(name).suffix == ".gguf" and Path(name).is_file():
        return Path(name)
    return hub.find(name, files)


def _is_for_onnx(source: Path) -> bool:
    """Return whether backend "onnx" is installed, and reads this model."""
    if any(find_spec(name) is None for name in ("onnx", "onnxruntime", "safetensors")):
        return False
    if source.is_file():
        return True
    config = read_object(source / "config.json", CheckpointError, limit=1 << 22)
    try:
        llama_files.check_config(config, source)
    except ConfigError:
        return False
    return True


def begin_of(folder: Path, codec: Codec) -> int:
    """Return the id that begins a text: that of a document, if the tokenizer has one."""
    config = read_object(folder / "config.json", CheckpointError, limit=1 << 22)
    begin = codec.id_of(END_OF_TEXT)
    for name in ("bos_token_id", "eos_token_id"):
        begin = config.get(name) if begin is None else begin
    if type(begin) is not int:
        raise CheckpointError(
            f"The config in {str(folder)!r} names no bos_token_id, so no text can begin."
        )
    return begin


def _open_onnx(folder: Path, **options: Any) -> Any:
    """Return an ONNX Runtime engine; a process of its own calls this too."""
    from reviser.engines.onnx import OnnxEngine

    return OnnxEngine(folder, **options)


def _open_hf(folder: Path, **options: Any) -> Any:
    """Return a Transformers engine; a process of its own calls this too."""
    try:
        from reviser.engines.hf import HFEngine
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"Backend 'hf' needs the hf extra: {error.name} is not installed. Install it with:"
            " pip install 'reviser-lm[hf]'."
        ) from error
    return HFEngine.load(folder, plain=True, **options)[0]
