"""The story world: a corpus sampled from a known model, its held-out part and the prompts.

The stories are sampled from stories15M, which later judges the texts that models write. A text's
perplexity under it is therefore exact with respect to the distribution that the models learn.
This module knows no arms and trains nothing.

A world is a folder with the output of `sample_corpus.py` (`stories-*.jsonl`). `prepare` adds a
tokenizer and token shards; runs go to `runs/` inside it.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.stories.sample_corpus import divergence
from reviser.core.codec import Codec
from reviser.data.shards import tokenize
from reviser.data.tokenizer import train_bpe
from reviser.data.windows import held_out_documents
from reviser.files import write_json, write_whole
from reviser.lab.evals import texts
from reviser.lab.evals.texts import Protocol
from reviser.train import inputs
from reviser.train.recipe import Recipe, load_recipe

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "recipes" / "world.yaml"
RESULTS = Path(__file__).resolve().parent / "results"
NO_OUTPUT = Path()
"""The output folder for functions that need one and write nothing: the recipe names all inputs."""

BUDGETS = {"screen": 1, "full": 5}
"""Training budgets as multiples of SCREEN_FLOPS."""
SCREEN_FLOPS = 8e13
PROMPTS = {"screen": 300, "full": 1000}
"""Number of prompts that the models of a budget continue."""
BPE_SIZE = 4096
PROTOCOL = Protocol(
    prefix_tokens=32, total_tokens=256, min_tokens=96, max_tokens=400, prompts=1000, seeds=(123,)
)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def prepare(world: Path, source: str | None = None) -> None:
    """Train a tokenizer on the sampled stories, tokenize them and record what they are."""
    files = sorted(world.glob("stories-*.jsonl"))
    record = world / "world.json"
    if not record.is_file():
        stories = [story for file in files for story in read_lines(file)]
        hashes = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        write_json(
            record,
            {
                "files": hashes,
                "stories": len(stories),
                "tokens": sum(story["tokens"] for story in stories),
                "ended": sum(story["ended"] for story in stories) / len(stories),
                "seeds": [min(s["seed"] for s in stories), max(s["seed"] for s in stories)],
                "source": source and divergence(source, [s["text"] for s in stories[:200]]),
            },
        )
    tokenizer = world / "tokenizer" / "tokenizer.json"
    if not tokenizer.is_file():
        write_whole(tokenizer, train_bpe(files, BPE_SIZE).to_str(pretty=True))
    manifest = tokenize(files, world / "shards", tokenizer.parent)
    found = json.loads(record.read_text("utf-8")) | {"own_tokens": manifest.tokens}
    found["training_flops"] = {name: SCREEN_FLOPS * times for name, times in BUDGETS.items()}
    write_json(record, found)
    write_json(RESULTS / "world.json", found)


def recipe_of(world: Path, *changes: str) -> Recipe:
    """Return the recipe on this world's text, with changes as `reviser train --set` takes them."""
    data = (f"data.shards={world / 'shards'}", f"data.tokenizer={world / 'tokenizer'}")
    return load_recipe(RECIPE, [*data, *changes])


def held_out_texts(recipe: Recipe) -> Iterator[tuple[Codec, npt.NDArray[np.int32]]]:
    """Yield the tokens of the documents that no arm is trained on, each with its codec."""
    codec, shards = inputs.open_text(recipe, NO_OUTPUT)
    for document in np.flatnonzero(held_out_documents(shards, recipe.data.windows)):
        yield codec, shards.read(int(document))


def prompts_of(world: Path, count: int = PROTOCOL.prompts) -> Path:
    """Return a file with the first prompts of held-out stories and how those stories continue."""
    path = world / f"prompts-{count}.jsonl"
    if not path.is_file():
        recipe = recipe_of(world)
        codec, _ = inputs.open_text(recipe, NO_OUTPUT)
        documents = (codec.decode(tokens) for _, tokens in held_out_texts(recipe))
        _write_prompts(path, documents, codec, PROTOCOL, count)
    return path


def real_prompts(world: Path, stories: Path, count: int) -> Path:
    """Return a file with prompts from real TinyStories, whose stories single newlines separate."""
    path = world / f"prompts-real-{count}.jsonl"
    if not path.is_file():
        codec, _ = inputs.open_text(recipe_of(world), NO_OUTPUT)
        text = lzma.decompress(stories.read_bytes()).decode("utf-8")
        documents = re.split(r"(?<!\n)\n(?!\n)", text)
        _write_prompts(path, documents, codec, replace(PROTOCOL, prompts=count), count)
    return path


def _write_prompts(
    path: Path, documents: Iterable[str], codec: Codec, protocol: Protocol, count: int
) -> None:
    ((_, chosen),) = texts.choose_prompts(documents, codec, protocol)[0].items()
    texts.write_prompts(path, chosen[:count])
