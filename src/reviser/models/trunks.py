"""Trunks: ordinary causal LMs sized for an action vocabulary; built, adapted, saved and loaded.

Knows Transformers and torch; nothing of masks, canvases or training. A model folder is a plain
Hugging Face folder plus `action_vocab.json`, so every engine opens it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import (
    AutoModelForCausalLM,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from reviser.core.actions import ActionVocab
from reviser.core.codec import read_tokenizer
from reviser.errors import CheckpointError, ConfigError, MissingExtra
from reviser.models.hub import find

__all__ = ["TrunkConfig", "adapt", "build", "load", "load_base", "save", "with_lora"]

ROWS_MULTIPLE = 64
"""Embeddings get a multiple of this many rows, which matrix units like. The rows beyond the
vocabulary are never a label and never allowed by the mask."""


@dataclass(frozen=True, kw_only=True)
class TrunkConfig:
    """The shape of a trunk; the defaults are the paper's 100M."""

    architecture: Literal["gpt_neox", "llama"] = "gpt_neox"
    layers: int = 24
    width: int = 512
    heads: int = 8
    mlp_width: int = 2048
    context: int = 256
    """Most ids in a history."""
    dropout: float = 0.1
    """Of hidden states and of attention; Llama has dropout in attention only."""

    def __post_init__(self) -> None:
        if self.architecture not in _CONFIGS:
            raise ConfigError(
                f"architecture is {self.architecture!r}; use one of {', '.join(_CONFIGS)}."
            )
        if min(self.layers, self.width, self.heads, self.mlp_width, self.context) < 1:
            raise ConfigError(f"Every size of a trunk must be 1 or more: {self}.")
        if self.width % (2 * self.heads):
            raise ConfigError(
                f"width {self.width} over {self.heads} heads: each needs the same, even share."
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it goes from 0 to below 1.")


def build(config: TrunkConfig, vocab: ActionVocab, *, seed: int = 0) -> PreTrainedModel:
    """A trunk with fresh weights, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hf_config = _CONFIGS[config.architecture](config, rows_for(vocab.size))
        model: PreTrainedModel = AutoModelForCausalLM.from_config(hf_config, dtype=torch.float32)
    _name_special_ids(model, vocab)
    return model


def adapt(
    model: PreTrainedModel,
    tokenizer: Tokenizer | Any,
    *,
    operators: Iterable[str] = (),
    max_move: int = 512,
    begin: str | None = None,
    delimiter: bool = True,
    marks: bool = False,
    search: bool = False,
) -> ActionVocab:
    """Turn a causal LM into one that can learn to revise; model and tokenizer are changed.

    The control tokens join the tokenizer. Their rows, input and output, start as the mean of the
    tokens' rows, so what the model says about ordinary tokens stays exactly as it was and no
    action is likely yet or strange. `begin` names the token that the model's texts begin with,
    if it was trained with one.
    """
    vocab = ActionVocab.from_tokenizer(
        tokenizer,
        operators=operators,
        max_move=max_move,
        begin=begin,
        delimiter=delimiter,
        marks=marks,
        search=search,
    )
    rows = len(_tables(model)[0])
    if rows < vocab.size:
        # Its own way to initialise draws noise; the mean below replaces it.
        model.resize_token_embeddings(rows_for(vocab.size), mean_resizing=False)
    first_new = min(rows, vocab.tokens)
    with torch.no_grad():
        for table in _tables(model):
            table[first_new:] = table[:first_new].mean(dim=0)
    _name_special_ids(model, vocab)
    return vocab


def with_lora(
    model: PreTrainedModel, vocab: ActionVocab, *, rank: int, alpha: float, dropout: float
) -> Any:
    """Low-rank adapters on every linear layer; of the embeddings, the control rows are trained.

    With rank 0 those rows alone, so that what the model knew cannot change.
    """
    try:
        import peft
    except ImportError as error:
        raise MissingExtra("LoRA needs peft. Install it with: pip install peft.") from error
    names = {module: name for name, module in model.named_modules()}
    output = model.get_output_embeddings()
    tied = output.weight is model.get_input_embeddings().weight
    tables = [model.get_input_embeddings()] + [output] * (not tied)
    rows = [names[table].rpartition(".")[2] for table in tables]
    controls = sorted(vocab.control_tokens.values())
    config: peft.PeftConfig
    if rank == 0:
        config = peft.TrainableTokensConfig(target_modules=rows, token_indices=controls)
    else:
        config = peft.LoraConfig(
            r=rank,
            lora_alpha=alpha,  # type: ignore[arg-type]  # annotated int; any number works
            lora_dropout=dropout,
            target_modules="all-linear",
            trainable_token_indices=dict.fromkeys(rows, controls),
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Model has `tie_word_embeddings=True`")  # we merge
        adapted = peft.get_peft_model(model, config)
    # By the base's name PEFT would ask the hub at every checkpoint, and then save the embeddings,
    # since they were resized; the rows that are trained it saves anyway.
    config.base_model_name_or_path = ""
    return adapted


def rows_for(size: int) -> int:
    """How many embedding rows a vocabulary of this size gets."""
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
    """Write config and safetensors, readable by whom the folder's other files are."""
    model.save_pretrained(folder, **options)
    mode = (Path(folder) / "config.json").stat().st_mode
    for path in Path(folder).glob("*.safetensors"):
        path.chmod(mode)  # safetensors writes for the owner alone


def save_tokenizer(tokenizer: Tokenizer | Any, vocab: ActionVocab, folder: str | Path) -> None:
    """Write what a model folder holds beside the weights: tokenizer and `action_vocab.json`."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    named = {"bos_token": vocab.begin, "eos_token": vocab.stop}
    special = {role: backend.id_to_token(i) for role, i in named.items() if i is not None}
    PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
    vocab.save(folder)


def load(folder: str | Path, **options: Any) -> tuple[PreTrainedModel, ActionVocab]:
    """Open a model folder, or one of that name from the hub; options go to `from_pretrained`."""
    folder = find(folder)
    vocab = ActionVocab.load(folder)
    model = _open(folder, **options)
    rows = len(_tables(model)[0])
    if rows < vocab.size:
        raise CheckpointError(
            f"The model in {str(folder)!r} has {rows} embedding rows, its action vocabulary"
            f" {vocab.size} ids: the two do not belong together."
        )
    return model, vocab


def load_base(folder: str | Path, **options: Any) -> tuple[PreTrainedModel, Tokenizer]:
    """Open a causal LM to adapt or to score with, and its tokenizer.

    In float32, so that it can be trained; options go to `from_pretrained`.
    """
    folder = find(folder)
    model = _open(folder, **{"dtype": torch.float32} | options)
    if not (folder / "tokenizer.json").is_file() and (folder / "tokenizer.model").is_file():
        # What Transformers guesses from the latter alone may read text in another way.
        raise CheckpointError(
            f"There is a tokenizer.model in {str(folder)!r} but no tokenizer.json. Open it with its"
            " own class in Transformers, and save it there with save_pretrained."
        )
    return model, read_tokenizer(folder)


def _open(folder: Path, **options: Any) -> PreTrainedModel:
    try:
        opened: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            **options,
        )
    except (ImportError, OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(
            f"Cannot open a model in {str(folder)!r}: {_first_line(error)}"
        ) from error
    model: PreTrainedModel
    model, report = opened
    wrong = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    if wrong:  # Transformers would leave them random
        raise CheckpointError(
            f"The weights in {str(folder)!r} lack {len(wrong)} of the model's tensors, or hold them"
            f" in another shape, first {min(wrong)}."
        )
    return model


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _tables(model: PreTrainedModel) -> list[torch.Tensor]:
    """Embedding, output rows and output bias, whichever there are; tied ones once."""
    output = model.get_output_embeddings()
    tables = [model.get_input_embeddings().weight, output.weight, getattr(output, "bias", None)]
    return list({id(table): table for table in tables if table is not None}.values())


def _name_special_ids(model: PreTrainedModel, vocab: ActionVocab) -> None:
    """So that any engine begins and ends a history where we do."""
    for config in (model.config, model.generation_config):
        if config is not None:
            config.bos_token_id = vocab.begin
            config.eos_token_id = vocab.stop
            config.pad_token_id = vocab.stop


def _shape(config: TrunkConfig, rows: int) -> dict[str, Any]:
    """What every architecture calls the same."""
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
    """The paper's trunk: pre-norm, sequential residuals, RoPE over whole heads, tied output."""
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
    return GPTNeoXConfig(
        **_shape(config, rows),
        hidden_dropout=config.dropout,
        hidden_act="gelu",  # by erf
        rope_parameters=rope,
        use_parallel_residual=False,
        attention_bias=False,
    )


def _llama(config: TrunkConfig, rows: int) -> PreTrainedConfig:
    return LlamaConfig(**_shape(config, rows))


_CONFIGS = {"gpt_neox": _gpt_neox, "llama": _llama}
