"""Inputs of a training run: tokenizer, data and model opened or made, and the sets of examples.

This module knows recipes and how the packages below read them, but not the Trainer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from reviser.core.actions import FILE_NAME, ActionVocab
from reviser.core.codec import Codec, read_tokenizer
from reviser.data.dataset import ExampleStream, MicroBatches, WindowStream
from reviser.data.pair_dataset import PairSplit, PairStream, TokenPairs
from reviser.data.recorded_dataset import Generator, RecordedSplit, RecordedStream
from reviser.data.shards import TokenShards, tokenize
from reviser.data.tokenizer import read_words, train_bpe
from reviser.data.trajectory_files import TrajectoryFiles, make_indexes
from reviser.data.windows import Windows
from reviser.errors import ConfigError
from reviser.files import write_whole
from reviser.models import adaptation, hub, trunks
from reviser.train.recipe import Recipe, VocabConfig, check_model
from reviser.trajectories.policy import AnyPolicy, Edits, PairPolicy, Recorded
from reviser.trajectories.sampler import Sampler


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The opened inputs of a run."""

    model: Any
    tokenizer: Tokenizer
    vocab: ActionVocab
    codec: Codec
    data: TokenShards | TokenPairs | TrajectoryFiles | Generator
    context: int
    """Maximum number of ids in a history."""
    note: str = ""
    """A sentence for the user about how the model was opened, if there is one."""


def make_missing(recipe: Recipe, output: Path) -> None:
    """Train the tokenizer and tokenize the text, unless that was done before.

    Only one process may call this.
    """
    data, folder = recipe.data, _tokenizer_folder(recipe, output)
    if data.bpe is not None and not (folder / "tokenizer.json").is_file():
        tokenizer = train_bpe(data.text, data.bpe, split=data.split, text_key=data.text_key)
        write_whole(folder / "tokenizer.json", tokenizer.to_str(pretty=True))
    if data.words is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "tokenizer.json", read_words(data.words).to_str(pretty=True))
    if data.trajectories:
        make_indexes(data.trajectories)
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
    """Open tokenizer and shards without a model, making them first if they are missing.

    Only one process may call this.
    """
    make_missing(recipe, output)
    codec = Codec(read_tokenizer(_tokenizer_folder(recipe, output)))
    return codec, TokenShards.open(recipe.data.shards or output / "shards", codec.fingerprint)


def open_inputs(recipe: Recipe, output: Path) -> Inputs:
    """Open tokenizer, data and model after `make_missing`; write nothing."""
    model, tokenizer, vocab, note = _open_model(recipe, _tokenizer_folder(recipe, output))
    codec = Codec(tokenizer)
    return Inputs(
        model=model,
        tokenizer=tokenizer,
        vocab=vocab,
        codec=codec,
        data=(data := _data(recipe, output, codec, vocab)),
        context=(context := _context(recipe, model)),
        note=note or _too_long(recipe, data, context),
    )


def _too_long(recipe: Recipe, data: Any, context: int) -> str:
    """Return a warning about recorded edits that are longer than the context."""
    if not isinstance(data, TrajectoryFiles):
        return ""
    split = RecordedSplit(data, recipe.data.windows.held_out, context)
    lost, longer = split.left_out, split.longer
    if recipe.policy != Recorded() or not lost + longer:
        return ""
    share = (lost + longer) / (len(split) + lost)
    return (
        f"WARNING: {lost + longer:,} of {len(split) + lost:,} recorded histories ({share:.1%}) are"
        f" longer than the context of {context} ids: {longer:,} are cut there and {lost:,} left"
        " out. The long ones are the hard ones: raise the context."
    )


def _open_model(
    recipe: Recipe, folder: Path
) -> tuple[PreTrainedModel, Tokenizer, ActionVocab, str]:
    """Build a trunk, or open the base and give it the actions that the recipe asks for."""
    if recipe.trunk is not None:
        tokenizer = read_tokenizer(folder)
        vocab = _vocab(recipe.vocab, tokenizer)
        return recipe.trunk.build(vocab, seed=recipe.seed), tokenizer, vocab, ""
    if not (folder / FILE_NAME).is_file():
        model, tokenizer = trunks.load_base(folder)
        vocab = adaptation.adapt(model, tokenizer, **_options(recipe.vocab, tokenizer))
        return model, tokenizer, vocab, ""
    model, vocab = trunks.load_folder(folder, dtype=torch.float32)
    tokenizer = read_tokenizer(folder)
    if recipe.vocab == VocabConfig():
        return model, tokenizer, vocab, ""
    # A Reviser model as the base of another action set. An equal set is kept with what was learned.
    options = _options(recipe.vocab, plain := adaptation.plain_tokenizer(tokenizer, vocab), vocab)
    if ActionVocab.from_tokenizer(plain, **options) == vocab:
        return model, tokenizer, vocab, ""
    tokenizer = adaptation.remove_actions(model, tokenizer, vocab)
    vocab = adaptation.adapt(model, tokenizer, **options)
    note = f"The actions of {recipe.base} were removed, because the recipe asks for other actions."
    return model, tokenizer, vocab, note


def _options(
    config: VocabConfig, tokenizer: Tokenizer, old: ActionVocab | None = None
) -> dict[str, Any]:
    """Return the options of `adapt`, with the base's own begin token unless the recipe has one."""
    ids = tokenizer.encode("", add_special_tokens=True).ids  # what precedes every text, if anything
    if not ids and old is not None and old.begin is not None and old.begin < old.tokens:
        ids = [old.begin]
    return config.options | {
        "begin": config.begin or (tokenizer.id_to_token(ids[0]) if ids else None)
    }


def _data(
    recipe: Recipe, output: Path, codec: Codec, vocab: ActionVocab
) -> TokenShards | TokenPairs | TrajectoryFiles | Generator:
    if recipe.data.trajectories:
        files = TrajectoryFiles(recipe.data.trajectories)
        files.check(codec, vocab)
        return files
    if recipe.data.generator is not None:
        return Generator(recipe.data.generator, codec, vocab)
    if recipe.data.pairs:
        return TokenPairs.open(recipe.data.pairs, codec)
    return TokenShards.open(recipe.data.shards or output / "shards", codec.fingerprint)


def training_set(
    recipe: Recipe, inputs: Inputs, stream: ExampleStream | None = None
) -> MicroBatches:
    """Return every micro-batch of the run, in order; by default, of the recipe's own policy."""
    training = recipe.training
    if stream is None:
        stream = example_stream(recipe, inputs, recipe.policy, held_out=False)
    count = training.steps * training.batch // training.micro_batch
    return MicroBatches(stream, size=training.micro_batch, count=count)


def held_out_set(recipe: Recipe, inputs: Inputs, policy: AnyPolicy) -> MicroBatches:
    """Return held-out windows or pairs under a policy, each once.

    A policy that changes during training is used as it ends. Labels for edit probabilities are not
    part of the written text and are not scored.
    """
    if isinstance(policy, Edits):
        policy = replace(policy, edit_probabilities=False)
    stream = example_stream(recipe, inputs, policy, held_out=True)
    examples = min(recipe.evaluation.examples, len(stream.split))
    size = min(recipe.training.micro_batch, examples)
    return MicroBatches(stream, size=size, count=examples // size, progress=1.0)


def example_stream(
    recipe: Recipe, inputs: Inputs, policy: AnyPolicy, *, held_out: bool
) -> WindowStream | PairStream | RecordedStream:
    """Return the examples that are trained on, or those held out, under a policy."""
    if isinstance(policy, PairPolicy):
        return pair_stream(recipe, inputs, policy, held_out=held_out)
    if isinstance(policy, Recorded):
        return recorded_stream(recipe, inputs, policy, held_out=held_out)
    assert isinstance(inputs.data, TokenShards)
    windows = Windows(inputs.data, recipe.data.windows, held_out=held_out)
    return WindowStream(
        windows,
        Sampler(inputs.vocab, policy),
        unit_starts=inputs.codec.unit_starts,
        context=inputs.context,
        seed=recipe.seed,
    )


def pair_stream(
    recipe: Recipe, inputs: Inputs, policy: PairPolicy, *, held_out: bool = False
) -> PairStream:
    """Return the pairs that are trained on, or those held out, under a policy."""
    assert isinstance(inputs.data, TokenPairs)  # the recipe was checked
    split = PairSplit(
        inputs.data,
        recipe.data.windows.held_out,
        inputs.context,
        held_out=held_out,
        rewrites=not isinstance(policy, Edits),
    )
    return PairStream(
        split,
        inputs.vocab,
        policy,
        inputs.codec,
        context=inputs.context,
        seed=recipe.seed,
    )


def recorded_stream(
    recipe: Recipe, inputs: Inputs, policy: Recorded, *, held_out: bool = False
) -> RecordedStream:
    """Return the recorded edits that are trained on, or those held out, under a policy."""
    assert isinstance(inputs.data, TrajectoryFiles | Generator)  # the recipe was checked
    evaluation = recipe.evaluation
    scored = {"examples": max(evaluation.examples, evaluation.solve)} if held_out else {}
    split = RecordedSplit(
        inputs.data,
        recipe.data.windows.held_out,
        inputs.context,
        held_out=held_out,
        seed=recipe.seed,
        **scored,
    )
    return RecordedStream(split, inputs.vocab, policy, context=inputs.context, seed=recipe.seed)


def _vocab(config: VocabConfig, tokenizer: Tokenizer) -> ActionVocab:
    if config.preset == "paper":
        vocab = ActionVocab.paper()
        vocab.extend(tokenizer)
        return vocab
    return ActionVocab.from_tokenizer(tokenizer, **config.options)


def _tokenizer_folder(recipe: Recipe, output: Path) -> Path:
    """Return the folder of the tokenizer: the base's, the recipe's, or the one trained here."""
    if recipe.base is None:
        return recipe.data.tokenizer or output / "tokenizer"
    check_model("base", recipe.base)
    return hub.find(recipe.base)


def _context(recipe: Recipe, model: Any) -> int:
    limit: int | None = getattr(model.config, "max_position_embeddings", None)
    context = recipe.context or limit
    if context is None or context > (limit or context):
        raise ConfigError(
            f"context is {recipe.context}, and the model's limit is {limit or 'unknown'}."
            " Set context to the maximum number of ids in a history, within the model's limit."
        )
    return context
