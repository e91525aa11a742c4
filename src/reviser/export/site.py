"""A static page that runs a model in the browser: HTML, modules, the runtime and the model.

No server is needed, and no file comes from another host. The modules mirror the Python code (mask,
canvas, text stream, codec), for the kinds of actions and tokenizers that `check` accepts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from reviser.core.actions import OPERATORS, ActionVocab
from reviser.engines.base import DecodeConfig
from reviser.errors import CheckpointError, ConfigError
from reviser.export.onnx import Weights, export_onnx
from reviser.files import read_object, write_whole
from reviser.models import hub
from reviser.models.info import context_of
from reviser.player import page
from reviser.writing.model import load
from reviser.writing.tasks import GAP, Continue, Infill

__all__ = ["export_site"]

RUNTIME_VERSION = "1.30.0"
"""The version of the npm package onnxruntime-web that the tests run."""
RUNTIME_FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
MODULES = ("try.js", "surface.js", "worker.js", "engine.js", "plan.js", "sampling.js", "spaces.js",
           "text_stream.js", "codec.js", "mask.js", "canvas.js", "vocab.js")  # fmt: skip
SHARED = {"player": ("edits.js", "player.css"), "serve": ("icon.svg",)}
"""Assets of other packages that the page uses, by package."""
PAGE_FILE = "page.json"
"""An optional file of a model folder: what the page says about the model, and its examples."""
POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'"
)
"""Content-Security-Policy: own files only, no inline scripts; WebAssembly may be compiled."""


@dataclass(frozen=True, kw_only=True)
class PageText:
    """What the page says about a model."""

    about: str
    """What the model writes and what its limits are, in a few sentences."""
    examples: tuple[str, ...] = ()
    """Texts to start from; a text with {} has gaps to fill."""
    seed: int = 0
    """Seed of the text that the page shows first, written from the first example."""


def export_site(
    model: str | Path, output: Path, *, runtime: Path, weights: Weights = "bfloat16"
) -> None:
    """Write a folder that any static host can serve."""
    folder = hub.find(model)
    check(folder)
    sources = [_runtime_file(runtime, name) for name in RUNTIME_FILES]
    text = _page_text(folder)
    export_onnx(folder, output / "model", weights=weights)
    (output / "ort").mkdir(exist_ok=True)
    for source in sources:
        shutil.copyfile(source, output / "ort" / source.name)
    for name in (*MODULES, "try.css"):
        write_whole(output / name, _asset("export", name))
    for package, names in SHARED.items():
        for name in names:
            write_whole(output / name, _asset(package, name))
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    content = {
        "examples": text.examples,
        "settings": _settings(),
        "megabytes": round(size / 1e6),
        "sample": _sample(folder, text),
    }
    parts = {
        "policy": escape(POLICY),
        "name": escape(folder.name),
        "about": escape(text.about),
        "content": page.embedded(content),
    }
    write_whole(output / "index.html", page.filled(_asset("export", "index.html"), parts))


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


def _page_text(folder: Path) -> PageText:
    path = folder / PAGE_FILE
    if path.is_file():
        fields = read_object(path, CheckpointError)
        about, examples = fields.pop("about", None), fields.pop("examples", [])
        seed = fields.pop("seed", 0)
        is_list = isinstance(examples, list)
        texts = [about, *(examples if is_list else ())]
        is_text = all(isinstance(each, str) for each in texts)
        if fields or not is_list or not is_text or type(seed) is not int:
            raise CheckpointError(
                f"{str(path)!r} must have a text `about`. It may have a list of texts `examples`"
                " and a number `seed`, and nothing else."
            )
        return PageText(about=str(about), examples=tuple(texts[1:]), seed=seed)
    limit = (context_of(folder) or 0) - 1
    return PageText(about=f"This model reads and writes up to {limit:,} tokens at a time.")


def _settings() -> dict[str, Any]:
    values = asdict(DecodeConfig())
    return {
        "temperature": values["temperature"],
        "topK": values["top_k"],
        "topP": values["top_p"],
        "maxActions": values["max_actions"],
    }


def _sample(folder: Path, text: PageText) -> dict[str, Any]:
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


def _asset(package: str, name: str) -> str:
    return files(f"reviser.{package}").joinpath("assets", name).read_text("utf-8")
