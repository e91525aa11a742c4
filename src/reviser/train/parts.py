"""What a recipe stands for: tokenizer, shards and model opened, or made; and the sets of examples.

Knows recipes and how the rooms below read them; nothing of the Trainer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from reviser import models
from reviser.core.actions import FILE_NAME, ActionVocab
from reviser.core.codec import Codec, read_tokenizer
from reviser.core.policy import Policy
from reviser.core.trajectory import Sampler
from reviser.data.dataset import MicroBatches, Stream, Windows
from reviser.data.shards import TokenShards, tokenize
from reviser.data.tokenizer import train_bpe
from reviser.errors import ConfigError
from reviser.train.recipe import Recipe, VocabConfig


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run is made of, once the recipe's paths are opened."""

    model: Any
    tokenizer: Tokenizer
    vocab: ActionVocab
    codec: Codec
    shards: TokenShards

    @property
    def context(self) -> int:
        """Most ids in a history."""
        return int(self.model.config.max_position_embeddings)


def open_parts(recipe: Recipe, output: Path) -> Parts:
    """Tokenizer, shards and model; what is missing of the first two is made in the output."""
    data = recipe.data
    base = None if recipe.base is None else models.find(recipe.base)
    if base is not None and (base / FILE_NAME).is_file():
        if recipe.vocab != VocabConfig():
            raise ConfigError(f"{recipe.base!r} brings its action vocabulary: leave out vocab.")
        model, vocab = models.load(base, dtype=torch.float32)
        tokenizer, folder = read_tokenizer(base), base
    elif base is not None:
        model, tokenizer = models.load_base(base)
        folder = _keep(tokenizer, output / "tokenizer")
        vocab = models.adapt(model, tokenizer, **recipe.vocab.options)
    else:
        assert recipe.trunk is not None
        folder = data.tokenizer or _trained_tokenizer(recipe, output / "tokenizer")
        tokenizer = read_tokenizer(folder)
        vocab = _vocab(recipe.vocab, tokenizer)
        model = models.build(recipe.trunk, vocab, seed=recipe.seed)
    shards = data.shards
    if shards is None:
        shards = output / "shards"
        tokenize(data.text, shards, folder, split=data.split, progress=True)
    codec = Codec(tokenizer)
    return Parts(
        model=model,
        tokenizer=tokenizer,
        vocab=vocab,
        codec=codec,
        shards=TokenShards.open(shards, codec.fingerprint),
    )


def training_set(recipe: Recipe, parts: Parts) -> MicroBatches:
    """Every micro-batch of the run, in order."""
    training = recipe.training
    stream = _stream(recipe, parts, recipe.policy, held_out=False)
    count = training.steps * training.batch // training.micro_batch
    return MicroBatches(stream, size=training.micro_batch, count=count)


def held_out_set(recipe: Recipe, parts: Parts, policy: Policy) -> MicroBatches:
    """Held-out windows, none twice, under some policy; one that changes, as it ends up."""
    stream = _stream(recipe, parts, policy, held_out=True)
    examples = min(recipe.evaluation.examples, len(stream.windows))
    size = min(recipe.training.micro_batch, examples)
    return MicroBatches(stream, size=size, count=examples // size, progress=1.0)


def _stream(recipe: Recipe, parts: Parts, policy: Policy, *, held_out: bool) -> Stream:
    windows = Windows(parts.shards, recipe.data.windows, held_out=held_out, seed=recipe.seed)
    return Stream(
        windows,
        Sampler(parts.vocab, policy),
        context=parts.context,
        unit_starts=parts.codec.unit_starts,
        seed=recipe.seed,
    )


def _vocab(config: VocabConfig, tokenizer: Tokenizer) -> ActionVocab:
    if config.preset == "paper":
        vocab = ActionVocab.paper()
        vocab.extend(tokenizer)
        return vocab
    return ActionVocab.from_tokenizer(tokenizer, **config.options)


def _trained_tokenizer(recipe: Recipe, folder: Path) -> Path:
    data = recipe.data
    assert data.bpe is not None
    if not (folder / "tokenizer.json").is_file():
        _keep(train_bpe(data.text, data.bpe, split=data.split), folder)
    return folder


def _keep(tokenizer: Tokenizer, folder: Path) -> Path:
    """Write a tokenizer as it is now, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "tokenizer.json.draft"
    tokenizer.save(str(draft))
    draft.replace(folder / "tokenizer.json")
    return folder
