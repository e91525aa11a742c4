"""Trunks: ordinary causal LMs sized for an action vocabulary; built, saved and loaded.

This module knows Transformers and torch, but not masks, canvases or training. A model folder is a
plain Hugging Face folder plus `action_vocab.json`, so every engine can open it. `adaptation.py`
turns a causal LM into one that edits.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

# Transformers reads it when it is imported. Compiled code from the hub is then used if you set it.
os.environ.setdefault("USE_HUB_KERNELS", "NO")

import torch
from tokenizers import Tokenizer
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from reviser.core.actions import ActionVocab
from reviser.core.codec import read_tokenizer
from reviser.errors import CheckpointError, ConfigError, ReviserError, reason_of
from reviser.models.hub import find, offline, tensors_in
from reviser.models.trunk_config import TrunkConfig

__all__ = ["TrunkConfig", "build", "load", "load_base", "load_folder", "save"]

ROWS_MULTIPLE = 64
"""Embeddings have a multiple of this many rows, which matrix units need to be fast. The rows beyond
the vocabulary are never a label and never allowed by the mask."""
MAX_VALUES_PER_WEIGHT, MAX_OTHER_VALUES = 32, 1 << 24
"""A model may have this many values for each that its weights hold (packed: 16 at most), and
this many more, such as attention masks."""
MAX_WEIGHTS_PER_VALUE, MAX_PARTS_PER_TENSOR = 4, 1024
"""Weights may hold this many values for each that the model has, such as those of a part that reads
images, and this many tensors for each of its tensors, such as those of its experts."""


def build(config: TrunkConfig, vocab: ActionVocab, *, seed: int = 0) -> PreTrainedModel:
    """Build a trunk with random weights, which are the same for the same seed."""
    return from_config(_CONFIGS[config.architecture](config, rows_for(vocab.size)), vocab, seed)


def from_config(hf_config: PreTrainedConfig, vocab: ActionVocab, seed: int) -> PreTrainedModel:
    """Build a model of Transformers with random weights for some actions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(hf_config, dtype=torch.float32)
    set_special_ids(model, vocab)
    return model


def rows_for(size: int) -> int:
    """Return how many embedding rows a vocabulary of this size has."""
    return -(-size // ROWS_MULTIPLE) * ROWS_MULTIPLE


def save(
    model: PreTrainedModel, tokenizer: Tokenizer | Any, vocab: ActionVocab, folder: str | Path
) -> None:
    """Write a model folder: config, safetensors, tokenizer and `action_vocab.json`."""
    if Path(folder).is_file():
        raise CheckpointError(f"Cannot write a model folder at {str(folder)!r}: it is a file.")
    save_weights(model, folder)
    save_tokenizer(tokenizer, vocab, folder)


def save_weights(model: PreTrainedModel, folder: str | Path, **options: Any) -> None:
    """Write config and safetensors with the same file permissions."""
    with quiet():
        model.save_pretrained(folder, **options)
    mode = (Path(folder) / "config.json").stat().st_mode
    for path in Path(folder).glob("*.safetensors"):
        path.chmod(mode)  # safetensors makes its files readable for the owner only


def save_tokenizer(tokenizer: Tokenizer | Any, vocab: ActionVocab, folder: str | Path) -> None:
    """Write the files of a model folder other than the weights."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    named = {"bos_token": vocab.begin, "eos_token": vocab.stop}
    special = {role: backend.id_to_token(i) for role, i in named.items() if i is not None}
    PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
    vocab.save(folder)


def load(name: str | Path, **options: Any) -> tuple[PreTrainedModel, ActionVocab]:
    """Open a model by folder or hub name; options go to `from_pretrained`."""
    return load_folder(find(name), **options)


def load_folder(folder: Path, **options: Any) -> tuple[PreTrainedModel, ActionVocab]:
    """Open a model folder that `hub.find` returned, so that its files were checked."""
    vocab = ActionVocab.load(folder)
    model = _open(folder, **options)
    rows = len(embedding_tables(model)[0])
    if rows < vocab.size:
        raise CheckpointError(
            f"The model in {str(folder)!r} has {rows} embedding rows, but its action vocabulary has"
            f" {vocab.size} ids: the two do not belong together."
        )
    return model, vocab


def load_plain(folder: Path, **options: Any) -> PreTrainedModel:
    """Open a causal LM to score with, in float32, from a folder that `hub.find` returned."""
    return _open(folder, **{"dtype": torch.float32} | options)


def load_base(name: str | Path, **options: Any) -> tuple[PreTrainedModel, Tokenizer]:
    """Open a causal LM to adapt or to score with, and its tokenizer.

    The weights are float32, so that they can be trained. Options go to `from_pretrained`.
    """
    folder = find(name)
    model = load_plain(folder, **options)
    if not (folder / "tokenizer.json").is_file() and (folder / "tokenizer.model").is_file():
        # Transformers guesses a tokenizer from tokenizer.model, which may split text differently.
        raise CheckpointError(
            f"There is a tokenizer.model in {str(folder)!r} but no tokenizer.json. Open it with its"
            " own class in Transformers, and save it there with save_pretrained."
        )
    return model, read_tokenizer(folder)


def _open(folder: Path, **options: Any) -> PreTrainedModel:
    try:
        _check_size(folder)
        with offline(), quiet():
            opened: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, with the tensor's name
                **options,
            )
        model: PreTrainedModel
        model, report = opened
        embedding_tables(model)  # a causal LM has them
    except ReviserError:
        raise
    except Exception as error:  # a config can make Transformers raise anything
        if options and isinstance(error, AttributeError | TypeError):
            raise ConfigError(f"Transformers does not accept these options: {error}.") from error
        raise _cannot_open(folder, error) from error
    wrong = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    _refuse_tensors(folder, wrong)  # Transformers would leave these at random values
    return model


def _refuse_tensors(folder: Path, wrong: Collection[str]) -> None:
    if wrong:
        raise CheckpointError(
            f"The weights in {str(folder)!r} lack {len(wrong)} of the model's tensors, or hold them"
            f" in another shape. The first is {min(wrong)}."
        )


def _check_size(folder: Path) -> None:
    """Refuse a config and weights of different sizes, before either takes memory.

    Transformers gives every tensor that is missing the size that the config says, and may read one
    of the wrong shape before it compares the shapes. Packed weights are smaller than the model's.
    """
    sizes = {name: prod(shape) for name, shape, _ in tensors_in(folder)}
    held = sum(sizes.values())
    try:
        with offline(), quiet():
            config = AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            layers = getattr(config.get_text_config(), "num_hidden_layers", 0)
            if layers > len(sizes):  # each has tensors of its own
                raise CheckpointError(
                    f"The config in {str(folder)!r} asks for {layers:,} layers,"
                    f" but the weights have {len(sizes):,} tensors: the two do not belong together."
                )
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        tensors = [*chain(model.parameters(), model.buffers())]
        needed = sum(tensor.numel() for tensor in tensors)
    except ReviserError:
        raise
    except Exception as error:  # a config can make Transformers raise anything
        raise _cannot_open(folder, error) from error
    expected = {name: tensor.numel() for name, tensor in model.state_dict().items()}
    _refuse_tensors(folder, {name for name in expected if sizes.get(name, 0) > expected[name]})
    if len(sizes) > MAX_PARTS_PER_TENSOR * len(tensors):
        raise CheckpointError(
            f"The weights in {str(folder)!r} have {len(sizes):,} tensors, but the model of its"
            f" config has {len(tensors):,}: the two do not belong together."
        )
    if (
        needed > MAX_VALUES_PER_WEIGHT * held + MAX_OTHER_VALUES
        or held > MAX_WEIGHTS_PER_VALUE * needed + MAX_OTHER_VALUES
    ):
        raise CheckpointError(
            f"The config in {str(folder)!r} asks for {needed:,} values, but the weights have"
            f" {held:,}: the two do not belong together."
        )


def _cannot_open(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"Cannot open a model in {str(folder)!r}: {reason_of(error)}")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Transformers from drawing its bar, and from printing a folder's own tensor names."""
    verbosity, has_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bar:
            logging.enable_progress_bar()


def embedding_tables(model: PreTrainedModel) -> list[torch.Tensor]:
    """Return embedding, output rows and output bias, as far as they exist; tied tables once."""
    output = model.get_output_embeddings()
    tables = [model.get_input_embeddings().weight, output.weight, getattr(output, "bias", None)]
    return list({id(table): table for table in tables if table is not None}.values())


def set_special_ids(model: PreTrainedModel, vocab: ActionVocab) -> None:
    """Set what a config knows of the actions: the begin, end and padding ids that engines use."""
    for config in (model.config, model.generation_config):
        if config is not None:
            config.bos_token_id = vocab.begin
            config.eos_token_id = vocab.stop
            config.pad_token_id = vocab.stop


def shape(config: TrunkConfig, rows: int) -> dict[str, Any]:
    """Return the options that all architectures share."""
    return {
        "vocab_size": rows,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.mlp_width,
        "max_position_embeddings": config.context,
        "attention_dropout": config.dropout,
        "tie_word_embeddings": True,
    }


def _gpt_neox(config: TrunkConfig, rows: int) -> PreTrainedConfig:
    """Return the paper's trunk: pre-norm, sequential residuals, RoPE over whole heads."""
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
    return GPTNeoXConfig(
        **shape(config, rows),
        hidden_dropout=config.dropout,
        hidden_act="gelu",  # the exact form, by erf
        rope_parameters=rope,
        use_parallel_residual=False,
        attention_bias=False,
    )


def _llama(config: TrunkConfig, rows: int) -> PreTrainedConfig:
    return LlamaConfig(**shape(config, rows))


_CONFIGS = {"gpt_neox": _gpt_neox, "llama": _llama}
