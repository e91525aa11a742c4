"""What a recipe stands for: tokenizer, shards and model opened, or made; and the sets of examples.

Knows recipes and how the rooms below read them; nothing of the Trainer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from reviser.core.actions import FILE_NAME, ActionVocab
from reviser.core.codec import Codec, read_tokenizer
from reviser.data.dataset import MicroBatches, Passes, Stream, Windows
from reviser.data.pair_dataset import PairSide, PairStream, TokenPairs
from reviser.data.shards import TokenShards, tokenize
from reviser.data.tokenizer import train_bpe
from reviser.errors import ConfigError
from reviser.files import write_whole
from reviser.models import hub, trunks
from reviser.train.recipe import Recipe, VocabConfig
from reviser.trajectories.policy import Edits, PairPolicy, Policy
from reviser.trajectories.sampler import Sampler


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run is made of, once the recipe's paths are opened."""

    model: Any
    tokenizer: Tokenizer
    vocab: ActionVocab
    codec: Codec
    data: TokenShards | TokenPairs
    context: int
    """Most ids in a history."""


def make_missing(recipe: Recipe, output: Path) -> None:
    """Train the tokenizer and tokenize the text, if that is still to be done; for one process."""
    data, folder = recipe.data, _tokenizer_folder(recipe, output)
    if data.bpe is not None and not (folder / "tokenizer.json").is_file():
        tokenizer = train_bpe(data.text, data.bpe, split=data.split, text_key=data.text_key)
        write_whole(folder / "tokenizer.json", tokenizer.to_str(pretty=True))
    if data.text:
        tokenize(
            data.text,
            output / "shards",
            folder,
            split=data.split,
            text_key=data.text_key,
            progress=True,
        )


def open_text(recipe: Recipe, output: Path) -> tuple[Codec, TokenShards]:
    """Tokenizer and shards, made if they are missing, before there is a model; for one process."""
    make_missing(recipe, output)
    codec = Codec(read_tokenizer(_tokenizer_folder(recipe, output)))
    return codec, TokenShards.open(recipe.data.shards or output / "shards", codec.fingerprint)


def open_parts(recipe: Recipe, output: Path) -> Parts:
    """Tokenizer, shards and model, once `make_missing` made what was missing; writes nothing."""
    folder = _tokenizer_folder(recipe, output)
    if recipe.base is None:
        assert recipe.trunk is not None
        tokenizer = read_tokenizer(folder)
        vocab = _vocab(recipe.vocab, tokenizer)
        model = trunks.build(recipe.trunk, vocab, seed=recipe.seed)
    elif (folder / FILE_NAME).is_file():
        if recipe.vocab != VocabConfig():
            raise ConfigError(f"{recipe.base!r} brings its action vocabulary: leave out vocab.")
        model, vocab = trunks.load(folder, dtype=torch.float32)
        tokenizer = read_tokenizer(folder)
    else:
        model, tokenizer = trunks.load_base(folder)
        options = recipe.vocab.options
        options["begin"] = options["begin"] or _first_token(tokenizer)
        vocab = trunks.adapt(model, tokenizer, **options)
    codec = Codec(tokenizer)
    return Parts(
        model=model,
        tokenizer=tokenizer,
        vocab=vocab,
        codec=codec,
        data=_data(recipe, output, codec),
        context=_context(recipe, model),
    )


def _data(recipe: Recipe, output: Path, codec: Codec) -> TokenShards | TokenPairs:
    if recipe.data.pairs:
        return TokenPairs.open(recipe.data.pairs, codec)
    return TokenShards.open(recipe.data.shards or output / "shards", codec.fingerprint)


def training_set(recipe: Recipe, parts: Parts) -> MicroBatches:
    """Every micro-batch of the run, in order."""
    training = recipe.training
    stream = _stream(recipe, parts, recipe.policy, held_out=False)
    count = training.steps * training.batch // training.micro_batch
    return MicroBatches(stream, size=training.micro_batch, count=count)


def held_out_set(recipe: Recipe, parts: Parts, policy: Policy | PairPolicy) -> MicroBatches:
    """Held-out windows or pairs, none twice, under some policy; one that changes, as it ends up.

    Notes are lessons, no part of what is written, and are not scored.
    """
    if isinstance(policy, Edits):
        policy = replace(policy, noted=False)
    stream = _stream(recipe, parts, policy, held_out=True)
    examples = min(recipe.evaluation.examples, len(stream.windows))
    size = min(recipe.training.micro_batch, examples)
    return MicroBatches(stream, size=size, count=examples // size, progress=1.0)


def _stream(recipe: Recipe, parts: Parts, policy: Policy | PairPolicy, *, held_out: bool) -> Passes:
    if isinstance(policy, PairPolicy):
        assert isinstance(parts.data, TokenPairs)  # the recipe has seen to it
        share = recipe.data.windows.held_out
        is_rewritten = not isinstance(policy, Edits) or policy.rewritten > 0
        side = PairSide(
            parts.data, share, parts.context, is_held_out=held_out, is_rewritten=is_rewritten
        )
        options: dict[str, Any] = {"context": parts.context, "seed": recipe.seed}
        return PairStream(side, parts.vocab, policy, parts.codec, **options)
    assert isinstance(parts.data, TokenShards)
    windows = Windows(parts.data, recipe.data.windows, held_out=held_out)
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


def _tokenizer_folder(recipe: Recipe, output: Path) -> Path:
    """Where the tokenizer is that the text is read with: the base's, one given, or one trained."""
    if recipe.base is not None:
        return hub.find(recipe.base)
    return recipe.data.tokenizer or output / "tokenizer"


def _first_token(tokenizer: Tokenizer) -> str | None:
    """What a base's tokenizer puts before every text, if anything."""
    ids = tokenizer.encode("", add_special_tokens=True).ids
    name: str | None = tokenizer.id_to_token(ids[0]) if ids else None
    return name


def _context(recipe: Recipe, model: Any) -> int:
    most: int | None = getattr(model.config, "max_position_embeddings", None)
    context = recipe.context or most
    if context is None or context > (most or context):
        raise ConfigError(
            f"context is {recipe.context}; the model says {most or 'nothing of its own limit'}."
            " Set context to the most ids of a history, within the model's limit."
        )
    return context
