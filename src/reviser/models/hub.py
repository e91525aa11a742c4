"""Models by name: a local folder, or a download from the Hugging Face hub.

Every folder that `find` returns was checked: opening it reads no pickle and runs no code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reviser.errors import CheckpointError, MissingExtra, nearest_path

MODEL_FILES = ("*.json", "*.safetensors", "tokenizer.model")
"""The files of a model: no pickles, no code."""
CONFIG_FILES = ("*.json",)
"""The files without the weights, which are enough where another process runs the model."""
WHOLE, SMALL = MODEL_FILES, CONFIG_FILES


_PROVENANCE_FILES = ("run.json", "recipe.json", "data.json", "trainer_state.json")
"""Files in a model folder that say how it was made and do not change its outputs."""


def weights_in(folder: Path) -> list[Path]:
    """Return the weight files of a model folder; refuse a folder that is not one."""
    weights = sorted(folder.glob("*.safetensors"))
    if not (folder / "config.json").is_file() or not weights:
        raise CheckpointError(
            f"{str(folder)!r} is not a model folder: it needs a config.json and safetensors."
        )
    return weights


def fingerprint(folder: Path) -> str:
    """Compute a SHA-256 of everything a model's outputs depend on: config, tokenizer, weights."""
    weights = weights_in(folder)
    small = sorted(path for kind in ("*.json", "*.jinja") for path in folder.glob(kind))
    total = hashlib.sha256()
    for path in [*(path for path in small if path.name not in _PROVENANCE_FILES), *weights]:
        with path.open("rb") as file:
            total.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def identity(folder: Path) -> dict[str, str]:
    """Return a model's hash and, if it was downloaded, its revision."""
    revision = {"revision": folder.name} if folder.parent.name == "snapshots" else {}
    return revision | {"weights": fingerprint(folder)}


def refuse_missing_folder(name: str | Path) -> None:
    """Raise an error for a name that is meant as a folder, if there is no such folder.

    A name such as models/tiny is meant so if there is a folder `models`; with a revision, as in
    models/tiny@main, it is a name on the hub.
    """
    if not isinstance(name, str | Path) or not str(name):
        raise CheckpointError(f"A model is named by its folder or its hub name; got {name!r}.")
    if Path(name).is_dir():
        return
    if Path(name).is_file():
        raise CheckpointError(f"{str(name)!r} is a file. Give the model folder that contains it.")
    if str(name).startswith(("/", ".", "~")):
        raise CheckpointError(f"There is no folder {str(name)!r}.{nearest_path(name)}")
    if "@" not in str(name) and len(Path(name).parts) > 1 and Path(name).parent.is_dir():
        raise CheckpointError(
            f"There is no folder {str(name)!r}.{nearest_path(name)} To download a model of this"
            f" name from the Hugging Face hub, write {name}@main."
        )


def find(
    name: str | Path, files: tuple[str, ...] = MODEL_FILES, *, revision: str | None = None
) -> Path:
    """Return the folder of a model: a local one, or a download from the hub.

    A hub name may end in a revision, as in gpt2@607a30d.
    """
    refuse_missing_folder(name)
    if Path(name).is_dir():
        return _without_code(Path(name))
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"There is no folder {str(name)!r}.{nearest_path(name)} Models from the hub need the hf"
            " extra. Install it with: pip install 'reviser-lm[hf]'."
        ) from error
    hub_name, _, named = str(name).partition("@")
    try:
        folder = huggingface_hub.snapshot_download(
            hub_name, revision=revision or named or None, allow_patterns=list(files)
        )
    except (OSError, ValueError) as error:  # the hub's own errors are subclasses of these
        reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        raise CheckpointError(
            f"There is no folder {str(name)!r}, and no model of that name could be downloaded from"
            f" the Hugging Face hub ({reason}).{nearest_path(name)}"
        ) from error
    return _without_code(Path(folder))


def _without_code(folder: Path) -> Path:
    """Return the folder, or refuse one whose files lead to a pickle or to compiled code.

    Transformers and vLLM are asked to run no code and to read safetensors only. An index or a
    config can point them elsewhere.
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
                f"The config of {str(folder)!r} asks for {name!r} as {keys}. Code from a model is"
                " never run, and its weights must be in its folder. Remove that line to use the"
                " model without it."
            )
    return folder


def _read(path: Path) -> dict[str, Any]:
    """Return a file's JSON object; an empty one if the file is missing or wrong.

    The library that opens the model reports what is wrong.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _strings(value: Any) -> Iterator[tuple[str, str]]:
    """Yield every string at any depth, each after the keys that lead to it."""
    pending = [("", value)]
    while pending:
        keys, value = pending.pop()
        if isinstance(value, str):
            yield keys, value
        elif isinstance(value, dict):
            pending += [(f"{keys}/{key}", inside) for key, inside in value.items()]
        elif isinstance(value, list):
            pending += [(keys, inside) for inside in value]
