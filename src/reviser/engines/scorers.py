"""Language models opened to score text with, on whichever engine is at hand.

Any causal LM can do this; it needs no actions. This module imports an engine, and with it torch,
only when that engine is asked for.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from reviser.core.codec import Codec
from reviser.engines.base import Engine
from reviser.engines.process import ProcessEngine
from reviser.errors import CheckpointError, ConfigError, MissingExtra, did_you_mean
from reviser.files import read_object
from reviser.models import hub

Backend: TypeAlias = Literal["auto", "hf", "vllm"]
END_OF_TEXT = "<|endoftext|>"
"""Begins and ends documents where a tokenizer has it, also in models that name a chat's begin."""


class LanguageModel(NamedTuple):
    """A model that scores text: ask about the history `(begin, *codec.encode(text))`."""

    engine: Engine
    codec: Codec
    begin: int
    """The id before every text."""


def open_scorer(
    name: str | Path, *, backend: Backend = "auto", own_process: bool = False, **options: Any
) -> LanguageModel:
    """Open a causal LM by its folder, or by its name on the hub, to score text with.

    Options go to the engine, as those of `reviser.load` do. With `own_process`, backend "hf" runs
    in a process of its own.
    """
    if backend not in get_args(Backend):
        raise ConfigError(
            f"{backend!r} is not a backend. {did_you_mean(backend, get_args(Backend))}"
        )
    if own_process and backend == "vllm":
        raise ConfigError("own_process is not for vLLM, which has processes of its own.")
    folder = hub.find(name, hub.CONFIG_FILES if "url" in options else hub.MODEL_FILES)
    codec = Codec.load(folder)
    begin = begin_of(folder, codec)
    opened: Any
    if backend == "vllm":
        from reviser.engines.vllm_server import VLLMServer

        opened = VLLMServer.load(folder, plain=True, **options)[0]
    elif own_process:
        opened = ProcessEngine(partial(_open_hf, **options), folder)
    else:
        opened = _open_hf(folder, **options)
    return LanguageModel(opened, codec, begin)


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
