"""A static page that runs a model in the browser: HTML, modules, the runtime and the model.

No server is needed, and no file comes from another host. The modules mirror the Python code (mask,
canvas, text stream, codec), for the kinds of actions and tokenizers that `check` accepts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.engines.settings import SETTINGS, DecodeConfig
from reviser.errors import CheckpointError, ConfigError
from reviser.export.onnx import Weights, export_onnx
from reviser.files import read_object, write_whole
from reviser.model import load
from reviser.models import hub
from reviser.player import page, playground
from reviser.writing.tasks import GAP, Continue, Infill

__all__ = ["export_site"]

RUNTIME_VERSION = "1.30.0"
"""The version of the npm package onnxruntime-web that the tests run."""
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
MODULES = ("backend.js", "worker.js", "engine.js", "plan.js", "sampling.js", "spaces.js",
           "text_stream.js", "codec.js", "mask.js", "canvas.js", "vocab.js")  # fmt: skip
POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'"
)
"""Content-Security-Policy: own files only, no inline scripts; WebAssembly may be compiled."""


def export_site(
    model: str | Path, output: Path, *, runtime: Path, weights: Weights = "bfloat16"
) -> None:
    """Write a folder that any static host can serve."""
    folder = hub.find(model)
    check(folder)
    sources = [_runtime_file(runtime, name) for name in RUNTIME_FILES]
    text = playground.read_page_text(folder)
    export_onnx(folder, output / "model", weights=weights)
    (output / "ort").mkdir(exist_ok=True)
    for source in sources:
        shutil.copyfile(source, output / "ort" / source.name)
    for name in MODULES:
        write_whole(output / name, _asset(name))
    for name, content in playground.files().items():
        write_whole(output / name, content)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    model_facts = {
        "id": folder.name,
        "about": text.about,
        "examples": text.examples,
        "settings": _settings(),
        "megabytes": round(size / 1e6),
        "sample": _sample(folder, text),
    }
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        f'<script type="application/json" id="content">{page.embedded(model_facts)}</script>'
    )
    write_whole(output / "index.html", playground.html(head=head))


def check(folder: Path) -> None:
    """Refuse a model with actions or a tokenizer that the page's modules do not have."""
    vocab = ActionVocab.load(folder)
    found = [name for name in (*OPERATORS, "find") if getattr(vocab, name) is not None]
    if found:
        raise ConfigError(
            f"This model has the actions {', '.join(found)}, which the browser engine does not"
            " support. It runs models that insert, move, mark and stop, such as"
            " models/stories-revise. Use `reviser serve` for this one."
        )
    tokenizer = read_object(folder / "tokenizer.json", CheckpointError, limit=1 << 28)
    unknown = sorted(set(_unsupported(tokenizer)))
    if unknown:
        raise ConfigError(
            f"The browser engine cannot encode text as this model's tokenizer does:"
            f" {', '.join(unknown)}. It supports byte-level BPE as GPT-2 has it, with or without"
            " single digits. Use `reviser serve` for this model."
        )


def _unsupported(tokenizer: dict[str, Any]) -> Iterator[str]:
    model = tokenizer["model"]
    if model["type"] != "BPE":
        yield f"a {model['type']} model"
    for option in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(option):
            yield option
    for option in ("byte_fallback", "ignore_merges"):
        if model.get(option):
            yield option
    if tokenizer.get("normalizer"):
        yield "a normalizer"
    if any(not token["special"] for token in tokenizer["added_tokens"]):
        yield "added tokens that are not special"
    split = tokenizer.get("pre_tokenizer") or {"type": "no pre-tokenizer"}
    steps = split.get("pretokenizers", [split])
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    if not steps or byte_level.items() - steps[-1].items():
        yield "its pre-tokenizer"
    for step in steps[:-1]:
        if digits.items() - step.items():
            yield f"a pre-tokenizer {step['type']}"


def _runtime_file(runtime: Path, name: str) -> Path:
    for path in (runtime / "dist" / name, runtime / name):
        if path.is_file():
            return path
    raise ConfigError(
        f"There is no {name} in {str(runtime)!r}. Get the runtime with `npm install"
        f" onnxruntime-web@{RUNTIME_VERSION}` and pass its folder:"
        " --ort node_modules/onnxruntime-web"
    )


def _settings() -> dict[str, Any]:
    """Return the settings that the browser engine has, as the server's schema describes them."""
    return {
        name: {
            "type": "integer" if SETTINGS[name].type is int else "number",
            "description": SETTINGS[name].help,
            "default": SETTINGS[name].default,
            "exclusiveMinimum" if SETTINGS[name].excludes_low else "minimum": SETTINGS[name].low,
            "maximum": SETTINGS[name].high,
        }
        for name in ("temperature", "top_k", "top_p", "seed", "max_actions")
    }


def _sample(folder: Path, text: playground.PageText) -> dict[str, Any]:
    """Return a text that the model wrote, edit by edit, to show before the model is loaded."""
    source = text.examples[0] if text.examples else ""
    task = Infill(source) if GAP in source else Continue(source)
    with load(folder, dtype="float32") as model:  # as the page computes
        writing = model.stream(task, DecodeConfig(seed=text.seed), unit="utf16")
        start = {"text": writing.text, "cursor": writing.cursor}
        edits = [asdict(edit) for edit in writing]
    for edit in edits:
        del edit["unit"]
    return {"source": source, "seed": text.seed, "start": start, "edits": edits}


def _asset(name: str) -> str:
    return files("reviser.export").joinpath("assets", name).read_text("utf-8")
