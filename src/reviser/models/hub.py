"""Models by name: a folder that is there, or a download from the hub."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reviser.errors import CheckpointError, MissingExtra

WHOLE = ("*.json", "*.safetensors", "tokenizer.model")
"""The files of a model: no pickles, no code."""
SMALL = ("*.json",)
"""Those without the weights: all that is needed where another process runs the model."""


_NOT_OF_THE_MODEL = ("run.json", "recipe.json", "data.json", "trainer_state.json")
"""Files beside a model that tell how it came about."""


def weights_in(folder: Path) -> list[Path]:
    """The files with the weights of a model folder; refuses what is none."""
    weights = sorted(folder.glob("*.safetensors"))
    if not (folder / "config.json").is_file() or not weights:
        raise CheckpointError(
            f"{str(folder)!r} is no model folder: it needs a config.json and safetensors."
        )
    return weights


def fingerprint(folder: Path) -> str:
    """SHA-256 of all that a model folder's outputs depend on: config, tokenizer, weights."""
    weights = weights_in(folder)
    small = sorted(path for kind in ("*.json", "*.jinja") for path in folder.glob(kind))
    total = hashlib.sha256()
    for path in [*(path for path in small if path.name not in _NOT_OF_THE_MODEL), *weights]:
        with path.open("rb") as file:
            total.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def identity(folder: Path) -> dict[str, str]:
    """What tells a model from others of its name: the hash, and of a download the revision."""
    revision = {"revision": folder.name} if folder.parent.name == "snapshots" else {}
    return revision | {"weights": fingerprint(folder)}


def find(name: str | Path, files: tuple[str, ...] = WHOLE, *, revision: str | None = None) -> Path:
    """The folder of a model: the one named, or else a download of that name from the hub.

    A name may end in the revision that is meant, as gpt2@607a30d.
    """
    if not isinstance(name, str | Path) or not str(name):
        raise CheckpointError(f"A model is named by its folder or its hub name; got {name!r}.")
    if Path(name).is_dir():
        return _without_code(Path(name))
    if str(name).startswith(("/", ".", "~")):
        raise CheckpointError(f"There is no folder {str(name)!r}.")
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"There is no folder {str(name)!r}, and models from the hub need the hf extra. Install"
            " it with: pip install 'reviser-lm[hf]'."
        ) from error
    wanted, _, named = str(name).partition("@")
    try:
        folder = huggingface_hub.snapshot_download(
            wanted, revision=revision or named or None, allow_patterns=list(files)
        )
    except (OSError, ValueError) as error:  # the hub's own errors are among these
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CheckpointError(
            f"There is no folder {str(name)!r}, and the hub gave no model of that name: {reason}"
        ) from error
    return _without_code(Path(folder))


def _without_code(folder: Path) -> Path:
    """A model's folder, unless it leads whoever opens it to a pickle or to compiled code.

    Transformers and vLLM are told to run no code and to read safetensors; these are ways around.
    """
    for path in sorted(folder.glob("*.safetensors.index.json")):
        for _, name in _strings(_read(path).get("weight_map")):
            if not name.endswith(".safetensors"):
                raise CheckpointError(
                    f"{str(path)!r} names {name!r} as weights: only safetensors are read."
                )
    for keys, name in _strings(_read(folder / "config.json")):
        if "/" in name and re.search("_implementation|transformers_weights", keys):
            raise CheckpointError(
                f"The config of {str(folder)!r} asks for {name!r} as {keys}: code of a model is not"
                " run, and its weights are in its folder. Take the line out if you want the model"
                " without it."
            )
    return folder


def _read(path: Path) -> dict[str, Any]:
    """What a file holds as JSON; nothing, if whoever opens it will say what is wrong."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _strings(value: Any) -> Iterator[tuple[str, str]]:
    """Each text at any depth, behind the keys that lead to it."""
    ahead = [("", value)]
    while ahead:
        keys, value = ahead.pop()
        if isinstance(value, str):
            yield keys, value
        elif isinstance(value, dict):
            ahead += [(f"{keys}/{key}", inside) for key, inside in value.items()]
        elif isinstance(value, list):
            ahead += [(keys, inside) for inside in value]
