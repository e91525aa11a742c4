"""Descriptions of model folders, read from their files without torch and without the weights."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.core.codec import Codec
from reviser.errors import CheckpointError, ReviserError, reason_of
from reviser.files import read_object
from reviser.models.hub import tensors_in


def describe(folder: Path) -> dict[str, Any]:
    """Return a description of a model folder; `training` is None if it was not trained here."""
    try:
        description = _describe(folder)
        summary(description)  # which fails if an entry has the wrong type
        return description
    except ReviserError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"A file in {str(folder)!r} does not have the content its name promises:"
            f" {reason_of(error)}."
        ) from error


def _describe(folder: Path) -> dict[str, Any]:
    vocab = ActionVocab.load(folder)
    config = read_object(folder / "config.json", CheckpointError)
    tensors = list(tensors_in(folder))
    if not tensors:
        raise CheckpointError(f"There are no safetensors weights in {str(folder)!r}.")
    training = folder / "run.json"
    return {
        "folder": str(folder),
        "architecture": next(iter(config.get("architectures") or ["unknown"])),
        "parameters": sum(prod(shape) for _, shape, _ in tensors),
        "dtypes": sorted({dtype for *_, dtype in tensors}),
        "context": config.get("max_position_embeddings"),
        "tokens": vocab.tokens,
        "max_move": vocab.max_move,
        "marks": vocab.mark is not None,
        "search": vocab.find is not None,
        "operators": [name for name in OPERATORS if getattr(vocab, name) is not None],
        "begin": vocab.begin,
        "delimiter": vocab.delimiter,
        "stop": vocab.stop,
        "tokenizer": Codec.load(folder).fingerprint,
        "training": _training(training) if training.is_file() else None,
    }


def context_of(folder: Path) -> int | None:
    """Return how many ids the model of a folder can read, if its config says so."""
    config = read_object(folder / "config.json", CheckpointError)
    found = config.get("max_position_embeddings")
    return found if isinstance(found, int) else None


def _training(path: Path) -> dict[str, Any]:
    record = read_object(path, CheckpointError)
    names = ("recipe", "seen", "metrics", "commit")
    return {name: record[name] for name in names}


def summary(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the description as a few lines, each with its label."""
    size, tokens = description["parameters"], description["tokens"]
    dtypes = ", ".join(description["dtypes"])
    rounded = f"{size / 1e6:,.1f}M" if size < 1e9 else f"{size / 1e9:,.2f}B"
    context = f"context {description['context']:,} ids" if description["context"] else "any length"
    special = [name for name in ("begin", "delimiter") if description[name] is not None]
    ways = " marks to go back to," * description["marks"] + " searches," * description["search"]
    lines = [
        ("trunk", f"{description['architecture']}, {rounded} parameters in {dtypes}"),
        ("reads", f"histories with {' and '.join(special) or 'no begin token'}, {context}"),
        ("writes", f"{tokens:,} tokens, moves to {description['max_move']},{ways} stop"),
        ("operators", ", ".join(description["operators"]) or "none beyond these"),
        ("tokenizer", description["tokenizer"][:16]),
    ]
    if training := description["training"]:
        recipe = training["recipe"]
        seen = training["seen"]["text_tokens"]
        lines.append(("trained", f"{recipe['training']['steps']:,} steps, {seen:,} text tokens"))
        lines.append(("policy", json.dumps(recipe["policy"])))
        for name, value in training["metrics"].items():
            if name.endswith("_nll_95"):
                kind = name.removeprefix("eval_").removesuffix("_nll_95")
                nll = training["metrics"][name.removesuffix("_95")]
                lines.append(
                    (kind.replace("_", " "), f"{nll:.3f} +- {value:.3f} nats per text token")
                )
        lines.append(("commit", training["commit"] or "unknown"))
    return lines
