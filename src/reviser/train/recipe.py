"""Recipes: everything a training run depends on, as values read from YAML.

A default lives beside its field and nowhere else. Nothing is opened here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reviser.data.dataset import WindowConfig
from reviser.data.readers import Split
from reviser.errors import ConfigError
from reviser.models.trunks import TrunkConfig
from reviser.train.yaml_reader import change, one_line, read
from reviser.trajectories.policy import PRESETS, PairPolicy, Policy

COMPARISON = "comparison"
"""The part of a recipe that is not about one training run; see `reviser.reproduce`."""


@dataclass(frozen=True, kw_only=True)
class VocabConfig:
    """Which actions the model has; see `ActionVocab.build`."""

    preset: Literal["paper"] | None = None
    """The released checkpoints' id layout; the other fields are then not used."""
    operators: tuple[str, ...] = ()
    """Any of delete, replace, swap, span_delete, span_move, span_copy."""
    max_move: int = 512
    begin: str | None = None
    """The token that texts begin with. A base's own, if its tokenizer adds one, when left out."""
    delimiter: bool = True
    marks: bool = False
    """Whether the model can leave a mark where it leaves something out, and go back to it. Policies
    with late spans are then written so."""
    search: bool = False
    """Whether the cursor can go to where given tokens are next."""

    @property
    def options(self) -> dict[str, Any]:
        """What `ActionVocab.from_tokenizer` and `models.adapt` take."""
        names = ("operators", "max_move", "begin", "delimiter", "marks", "search")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the text is. Paths are relative to the recipe's folder."""

    shards: Path | None = None
    """A folder that `reviser tokenize` wrote. Give this, or `text`, or `pairs`."""
    text: tuple[str, ...] = ()
    """Sources as `reviser tokenize` takes them, tokenized on first use into the output."""
    pairs: tuple[str, ...] = ()
    """Files of texts before and after an edit, for a policy of kind `edits`, `rewrite` or
    `blocks`. Of `windows` only `held_out` is then used."""
    split: Split = "blank"
    """What parts the documents of a text file: blank lines, every line end, or nothing."""
    text_key: str = "text"
    """The field of JSON lines, or the column of parquet, that holds the text."""
    tokenizer: Path | None = None
    """A folder with tokenizer.json; not for a base model, which brings its own."""
    bpe: int | None = None
    """In place of `tokenizer`: train a byte-level BPE of this size on `text`."""
    windows: WindowConfig = field(default_factory=WindowConfig)


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Low-rank adapters on every linear layer; the new rows are trained in full."""

    rank: int = 16
    """0 trains the new rows alone: a gentle start, after which the model knows all it knew."""
    alpha: float = 32.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _at_least(0, self, "rank")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it goes from 0 to below 1.")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The optimisation. Sizes are of the whole run, whatever number of processes shares it.

    But for `micro_batch` and `workers`, which are of one process.
    """

    steps: int
    batch: int = 64
    """Examples per step."""
    micro_batch: int = 16
    """Examples that one process takes at a time; the rest is accumulated."""
    learning_rate: float = 1e-3
    min_learning_rate: float = 0.0
    """Where the cosine ends."""
    warmup: int = 100
    """Steps of linear warm-up."""
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    epsilon: float = 1e-8
    clip: float = 1.0
    """Largest norm of the gradient; with 0 it is not clipped."""
    precision: Literal["bf16", "fp32"] = "bf16"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How several processes share the work: copies, or FSDP2's shards."""
    lora: LoraConfig | None = None
    compile: bool = False
    """Compile the trunk: a minute or more at the start, then faster steps."""
    workers: int = 0
    """Processes, for each that trains, that prepare batches ahead; with 0 it does so itself."""
    log_every: int = 10
    evaluate_every: int = 500
    save_every: int = 500
    reporters: tuple[str, ...] = ("tensorboard",)
    """Beside log.jsonl: any that Transformers knows by name."""

    def __post_init__(self) -> None:
        _at_least(1, self, "steps", "batch", "micro_batch")
        _at_least(1, self, "log_every", "evaluate_every", "save_every")
        _at_least(0, self, "min_learning_rate", "warmup", "weight_decay", "epsilon", "clip")
        _at_least(0, self, "workers")
        if not (self.learning_rate > 0 and self.min_learning_rate <= self.learning_rate):
            raise ConfigError(
                f"learning_rate is {self.learning_rate}, min_learning_rate"
                f" {self.min_learning_rate}: the first must be above 0, the other not above it."
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas are {self.betas}; each goes from 0 to below 1.")
        if self.batch % self.micro_batch:
            raise ConfigError(
                f"batch {self.batch} is no multiple of micro_batch {self.micro_batch}."
            )
        if self.lora and self.parallel == "fsdp":
            raise ConfigError("LoRA and FSDP do not go together here; use parallel: ddp.")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """The held-out evaluation, and texts written on the way."""

    examples: int = 512
    """How many held-out windows are scored, if there are so many; whole micro-batches of them."""
    policies: Mapping[str, Policy | PairPolicy] = field(default_factory=dict)
    """Policies whose trajectories are scored, by name; the recipe's own if none is given."""
    prompts: tuple[str, ...] = ("",)
    """Texts that the model continues at each evaluation."""
    max_actions: int = 128
    """Of each such text; it also ends where the context does."""

    def __post_init__(self) -> None:
        _at_least(1, self, "examples", "max_actions")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training run."""

    data: DataConfig
    training: TrainingConfig
    policy: Policy | PairPolicy = PRESETS["paper"]
    """A name that `reviser policies` prints, or a mapping with `kind` and that policy's fields."""
    trunk: TrunkConfig | None = None
    """A trunk with fresh weights. Give this, or `base`."""
    base: str | None = None
    """A causal LM to adapt, or a Reviser model to go on with: folder or hub name."""
    context: int | None = None
    """Most ids in a history, of a base that has no limit or a larger one."""
    vocab: VocabConfig = VocabConfig()
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        _exactly_one("trunk", self.trunk, "base", self.base)
        data = self.data
        if data.pairs:
            if data.shards or data.text or data.bpe:
                raise ConfigError("data.pairs stand alone: leave out data.shards, text and bpe.")
        else:
            _exactly_one("data.shards", data.shards, "data.text", data.text or None)
        for policy in (self.policy, *self.evaluation.policies.values()):
            if isinstance(policy, PairPolicy) != bool(data.pairs):
                raise ConfigError(
                    "Policies of kind edits and rewrite are for data.pairs, and no others are."
                )
        if self.base is None:
            _exactly_one("data.tokenizer", data.tokenizer, "data.bpe", data.bpe)
        elif data.tokenizer or data.bpe:
            raise ConfigError("A base model brings its tokenizer: leave out data.tokenizer, bpe.")
        if data.bpe and data.shards:
            raise ConfigError("data.bpe is trained on data.text; for shards give data.tokenizer.")
        if self.trunk is not None and self.context is not None:
            raise ConfigError("context is for a base; a trunk has its own: set trunk.context.")
        if self.context is not None:
            _at_least(1, self, "context")
        if data.windows.held_out == 0:
            raise ConfigError("data.windows.held_out is 0; something must be left to score.")
        if not 0 <= self.seed < 1 << 32:
            raise ConfigError(f"seed is {self.seed}; it goes from 0 to {(1 << 32) - 1}.")


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe; `changes` such as "training.steps=100" replace single values."""
    fields = read_yaml(path, changes)
    if isinstance(fields, dict):
        fields.pop(COMPARISON, None)
    recipe: Recipe = read(Recipe, fields, "")
    folder = Path(path).absolute().parent  # so that a run can be taken up from anywhere
    data = recipe.data
    return dataclasses.replace(
        recipe,
        base=beside(folder, recipe.base),
        data=dataclasses.replace(
            data,
            shards=data.shards and folder / data.shards,
            tokenizer=data.tokenizer and folder / data.tokenizer,
            text=tuple(s if s.startswith("hf:") else str(folder / s) for s in data.text),
            pairs=tuple(str(folder / s) for s in data.pairs),
        ),
    )


def read_yaml(path: str | Path, changes: Sequence[str] = ()) -> Any:
    """A recipe's file as it is, with the changes."""
    import yaml

    try:
        fields = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        for words in changes:
            change(fields, words)
    except OSError as error:
        raise ConfigError(f"Cannot read the recipe {str(path)!r}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"The recipe {str(path)!r} is not YAML: {one_line(error)}") from error
    return fields


def beside(folder: Path, base: str | None) -> str | None:
    """A model that is a folder, beside the recipe or from here, or else a hub name as it is."""
    places = [] if base is None else [folder / base, Path(base)]
    return next((str(place.absolute()) for place in places if place.is_dir()), base)


def _at_least(least: int, config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < least:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be {least} or more.")


def _exactly_one(first: str, a: Any, second: str, b: Any) -> None:
    if (a is None) == (b is None):
        raise ConfigError(f"Give {first} or {second}, one of the two.")
