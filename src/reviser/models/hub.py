"""Models by name: a local folder, or a download from the Hugging Face hub.

Every folder that `find` returns was checked: opening it reads no pickle, runs no code and fetches
nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from reviser.errors import CheckpointError, MissingExtra, nearest_path, reason_of
from reviser.files import read_object

MODEL_FILES = ("*.json", "*.safetensors", "tokenizer.model")
"""The files of a model: no pickles, no code."""
CONFIG_FILES = ("*.json",)
"""The files without the weights, which are enough where another process runs the model."""
FOLDER_FILES = (*MODEL_FILES, "*.jinja", "README.md")
"""Every file of a model folder that is ever read, copied or uploaded: these are checked."""

_NETWORK = threading.RLock()
"""Held while a model is downloaded, and while another is opened without the network."""
_PROVENANCE_FILES = ("run.json", "recipe.json", "data.json", "trainer_state.json", "page.json")
"""Files in a model folder that describe it (how it was made, what a page says about it) and do not
change its outputs."""
_MAX_HEADERS = 1 << 25
"""Bytes in the headers of all weight files of a folder, about 100 for each tensor. The largest
models have about 140,000 tensors."""


def cache() -> Path:
    """Return the folder in which the hub's library keeps models, without importing it."""
    get = os.environ.get
    home = get("HF_HOME") or Path(get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    folder = get("HF_HUB_CACHE") or get("HUGGINGFACE_HUB_CACHE") or Path(home, "hub")
    return Path(os.path.expandvars(folder)).expanduser()


def weights_in(folder: Path) -> list[Path]:
    """Return the weight files of a model folder; refuse a folder that is not one."""
    weights = sorted(folder.glob("*.safetensors"))
    if not (folder / "config.json").is_file() or not weights:
        raise CheckpointError(
            f"{str(folder)!r} is not a model folder: it needs a config.json and safetensors."
        )
    return weights


def tensors_in(folder: Path) -> Iterator[tuple[str, list[int], str]]:
    """Yield name, shape and dtype of every tensor, from the headers of the weight files."""
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Reading weights needs the hf extra. Install it with: pip install 'reviser-lm[hf]'."
        ) from error
    left = _MAX_HEADERS
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as raw:
                left -= min(int.from_bytes(raw.read(8), "little"), path.stat().st_size)
            if left < 0:
                raise CheckpointError(
                    f"The headers of the weights in {str(folder)!r} are larger than"
                    f" {_MAX_HEADERS >> 20} MiB: they name too many tensors."
                )
            with safe_open(path, "numpy") as file:
                for name in file.keys():  # noqa: SIM118
                    part = file.get_slice(name)
                    yield name, part.get_shape(), part.get_dtype()
        except (OSError, SafetensorError) as error:
            reason = reason_of(error)
            raise CheckpointError(f"{str(path)!r} is not a safetensors file: {reason}.") from error


def fingerprint(folder: Path, files: tuple[str, ...] = MODEL_FILES) -> str:
    """Compute a SHA-256 of what a model's outputs depend on: config, tokenizer, weights.

    With `CONFIG_FILES`, leave the weights out.
    """
    weights = [] if files == CONFIG_FILES else weights_in(folder)
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
    try:
        mode = Path(name).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    except (OSError, ValueError) as error:  # too long for a name, or not one at all
        raise CheckpointError(
            f"{shortened(str(name))} is not the name of a folder or model: {reason_of(error, 50)}."
        ) from error
    if stat.S_ISDIR(mode):
        return
    if mode:
        raise CheckpointError(f"{str(name)!r} is a file. Give the model folder that contains it.")
    if str(name).startswith(("/", ".", "~")):
        raise CheckpointError(f"There is no folder {str(name)!r}.{nearest_path(name)}")
    if "@" not in str(name) and len(Path(name).parts) > 1 and Path(name).parent.is_dir():
        raise CheckpointError(
            f"There is no folder {str(name)!r}.{nearest_path(name)} To download a model of this"
            f" name from the Hugging Face hub, write {name}@main."
        )


def fingerprint_of(name: str | Path, *, is_remote: bool) -> str:
    """Return the fingerprint of a model by its name.

    If a server has the weights (`is_remote`), only the small files can be compared.
    """
    files = CONFIG_FILES if is_remote else MODEL_FILES
    return fingerprint(find(name, files), files)


def find(
    name: str | Path,
    files: tuple[str, ...] = MODEL_FILES,
    *,
    revision: str | None = None,
) -> Path:
    """Return the folder of a model: a local one, or a download from the hub.

    A hub name may end in a revision, as in gpt2@607a30d.
    """
    refuse_missing_folder(name)
    if Path(name).is_dir():
        return _checked(Path(name))
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"There is no folder {str(name)!r}.{nearest_path(name)} Models from the hub need the hf"
            " extra. Install it with: pip install 'reviser-lm[hf]'."
        ) from error
    hub_name, _, named = str(name).partition("@")
    try:
        with _NETWORK:
            folder = huggingface_hub.snapshot_download(
                hub_name, revision=revision or named or None, allow_patterns=list(files)
            )
    except (OSError, ValueError) as error:  # the hub's own errors are subclasses of these
        raise CheckpointError(
            f"There is no folder {str(name)!r}, and no model of that name could be downloaded from"
            f" the Hugging Face hub ({reason_of(error).rstrip('.')}).{nearest_path(name)}"
        ) from error
    return _checked(Path(folder))


@contextmanager
def offline() -> Iterator[None]:
    """Keep the hub's library from the network while a folder is opened.

    Everything that is opened was found or downloaded before. Transformers fetches compiled code for
    some architectures by itself.
    """
    from huggingface_hub import constants

    with _NETWORK:
        before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


_BUILT_IN = re.compile(r"(paged\|)?(eager|sdpa|flex_attention|batched_mm|grouped_mm)")
"""Implementations that come with torch or Transformers. All others may be fetched from the hub."""
_LIMITS = (
    (re.compile("layer|depth|stage"), 1000),
    (re.compile("label"), 10_000),
    (re.compile("hidden|head|expert|group|embd|inner|kernel|vocab|_(size|dim)$|^d_"), 1 << 24),
)
"""Largest numbers in a config by their key: counts that a library makes as many objects of, and
sizes of tensors. Real models are far below; `trunks` compares sizes with the weights."""


def _checked(folder: Path) -> Path:
    """Return the folder, or refuse one whose files lead to a pickle, to code or out of the folder.

    Transformers and vLLM are asked to run no code and to read safetensors only. An adapter, an
    index, a config or a link can point them elsewhere.
    """
    _check_files(folder)
    if (folder / "adapter_config.json").exists():
        # With peft, Transformers would open the base and import the modules that it names.
        raise CheckpointError(
            f"{str(folder)!r} holds an adapter, and only whole models are opened. Merge it into its"
            " base with peft's merge_and_unload."
        )
    for path in sorted(folder.glob("*.safetensors.index.json")):
        names = read_object(path, CheckpointError).get("weight_map")
        if not isinstance(names, dict):
            raise CheckpointError(f"{str(path)!r} must have a weight_map from tensors to files.")
        for name in names.values():
            _check_weights_name(path, name)
    if (path := folder / "config.json").is_file():
        _check_config(folder, read_object(path, CheckpointError, limit=1 << 22))
    return folder


def _check_files(folder: Path) -> None:
    """Refuse links to somewhere else, and what is not a file, such as a pipe without an end.

    The hub's cache links to its own blobs.
    """
    whole = folder.resolve()
    root = whole.parent.parent if whole.parent.name == "snapshots" else whole
    for path in sorted(folder.iterdir()):  # `glob` passes over some links that lead nowhere
        if not any(path.match(kind) for kind in FOLDER_FILES):
            continue
        # Not `resolve`, which raises if links go round in a circle.
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
            raise CheckpointError(
                f"{str(path)!r} is a link to a file outside of the model folder. Copy that file"
                " into the folder if you trust it."
            )
        if not path.is_file():
            raise CheckpointError(
                f"{str(path)!r} must be a file, and is a folder, a pipe, a device or a link that"
                " leads nowhere. Remove it."
            )


def _check_weights_name(index: Path, name: Any) -> None:
    if not isinstance(name, str) or not name.endswith(".safetensors"):
        raise CheckpointError(
            f"{str(index)!r} names {shortened(name)} as weights: only safetensors are read."
        )
    if PurePosixPath(name).name != name or PureWindowsPath(name).name != name:
        raise CheckpointError(
            f"{str(index)!r} names {shortened(name)} as weights: they must be in the folder itself."
        )


def _check_config(folder: Path, config: dict[str, Any]) -> None:
    for keys, value in _leaves(config):
        if isinstance(value, str):
            is_code = "_implementation" in keys and not _BUILT_IN.fullmatch(value)
            if is_code or ("transformers_weights" in keys and "/" in value):
                raise CheckpointError(
                    f"The config of {str(folder)!r} asks for {shortened(value)} as {keys[-100:]}."
                    " Code from a model is never run or fetched, and its weights must be in its"
                    " folder. Remove that line to use the model without it."
                )
            continue
        name = keys.rpartition("/")[2]
        for pattern, most in _LIMITS:
            if pattern.search(name) and not -most <= value <= most:
                raise CheckpointError(
                    f"The config of {str(folder)!r} has {shortened(value)} as {keys[-100:]}; the"
                    f" limit is {most:,}."
                )


def _leaves(value: Any) -> Iterator[tuple[str, str | float]]:
    """Yield every string and number at any depth, each after the keys that lead to it."""
    pending = [("", value)]
    while pending:
        keys, value = pending.pop()
        if isinstance(value, str | int | float):
            yield keys, value
        elif isinstance(value, dict):
            pending += [(f"{keys}/{key}", inside) for key, inside in value.items()]
        elif isinstance(value, list):
            pending += [(keys, inside) for inside in value]


def shortened(value: Any) -> str:
    """Return what a folder says, for an error, cut off if it is long."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]} ..."
