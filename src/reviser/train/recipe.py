"""Recipes: everything a training run depends on, as values read from YAML.

Every default is declared with its field. This module opens no data and no model.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from reviser.core.layout import check_max_move
from reviser.data.readers import SplitBy, find_sources
from reviser.data.window_config import WindowConfig
from reviser.errors import ConfigError, nearest_path
from reviser.models.hub import refuse_missing_folder
from reviser.models.trunk_config import TrunkConfig
from reviser.trajectories.policy import PRESETS, AnyPolicy, ByKind, PairPolicy, Recorded

PLACEHOLDER = "your-"
"""Start of the names that the shipped recipes leave for the user to set."""
_DATA_PATHS = ("shards", "tokenizer", "text", "pairs", "trajectories", "generator", "words")
"""Settings of the section data that are paths, or lists of paths."""
COMPARISON = "comparison"
"""The section of a recipe that is not about one training run; see `reviser.lab.reproduce`."""


@dataclass(frozen=True, kw_only=True)
class VocabConfig:
    """The actions of the model; see `ActionVocab.build`.

    A base that is a Reviser model keeps its own actions if this section is left out. If it asks for
    other actions, the base's own are removed and the new ones start untrained.
    """

    preset: Literal["paper"] | None = None
    """The id layout and the begin token of the released checkpoints. The other fields are then not
    used."""
    operators: tuple[str, ...] = ()
    """Any of delete, replace, swap, span_delete, span_move, span_copy."""
    max_move: int = 512
    """Longest single move of the cursor, a power of two."""
    begin: str | None = None
    """The token that texts begin with. The default is the base's own, if its tokenizer adds one."""
    delimiter: bool = True
    """True adds a token between the prompt or instruction and the text."""
    marks: bool = False
    """True lets the model leave a mark where it skips something, and go back to it later. Policies
    with late spans then use marks."""
    search: bool = False
    """True lets the cursor jump to the next occurrence of some tokens."""

    def __post_init__(self) -> None:
        check_max_move(self.max_move)  # before any text is tokenized

    @property
    def options(self) -> dict[str, Any]:
        """The options of `ActionVocab.from_tokenizer` and `adaptation.adapt`."""
        return {name: value for name, value in vars(self).items() if name != "preset"}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The text to train on. Paths are relative to the recipe's folder."""

    shards: Path | None = None
    """A folder that `reviser tokenize` wrote. Give this, or `text`, `pairs`, `trajectories` or
    `generator`."""
    text: tuple[str, ...] = ()
    """Sources as for `reviser tokenize`. They are tokenized into the output folder on first use."""
    pairs: tuple[str, ...] = ()
    """Files of texts before and after an edit, for a policy of kind `edits` or `rewrite`. Only
    `held_out` of `windows` is then used."""
    trajectories: tuple[str, ...] = ()
    """Files of recorded edits that `reviser.write_trajectories` wrote, for a policy of kind
    `recorded`. Only `held_out` of `windows` is then used."""
    generator: str | None = None
    """A Python file and a function in it, such as `mazes.py:example`, that makes recorded edits as
    a pure function of seed, epoch and index, for a policy of kind `recorded`. The file is run."""
    split: SplitBy = "blank"
    """Separator of the documents in a text file: blank lines, every line end, or nothing."""
    text_key: str = "text"
    """The field of JSON lines, or the column of parquet, that holds the text."""
    tokenizer: Path | None = None
    """A folder with tokenizer.json. A base model has its own."""
    bpe: int | None = None
    """Size of a byte-level BPE to train on `text`, instead of `tokenizer`."""
    words: Path | None = None
    """A file with a JSON list of words, each of which becomes a token, instead of `tokenizer`."""
    windows: WindowConfig = field(default_factory=WindowConfig)


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Low-rank adapters on every linear layer. The rows of new tokens are trained in full."""

    rank: int = 16
    """Rank of the adapters. 0 trains the new rows only, so the model forgets nothing."""
    alpha: float = 32.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least(0, self, "rank")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}; it must be at least 0 and below 1.")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The optimisation. Sizes are totals over all processes.

    Only `micro_batch` and `workers` are per process.
    """

    steps: int
    batch: int = 64
    """Examples per step."""
    micro_batch: int = 16
    """Examples per forward pass of one process. Gradients of several passes are accumulated."""
    learning_rate: float = 1e-3
    min_learning_rate: float = 0.0
    """Learning rate at the end of the cosine schedule."""
    warmup: int = 100
    """Number of steps of linear warm-up."""
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    epsilon: float = 1e-8
    clip: float = 1.0
    """Maximum norm of the gradient; 0 turns clipping off."""
    precision: Literal["bf16", "fp32"] = "bf16"
    parallel: Literal["ddp", "fsdp", "hybrid"] = "ddp"
    """The way several processes share the work: copies of the model (ddp), FSDP2's shards over all
    processes (fsdp), or shards within each machine and copies across machines (hybrid)."""
    recompute: bool = False
    """True computes the activations of a layer again in the backward pass instead of keeping them:
    much less memory, about a third more computation."""
    lora: LoraConfig | None = None
    compile: bool = False
    """True compiles the trunk: a minute or more at the start, then faster steps."""
    workers: int = 0
    """Processes that prepare batches ahead for each training process; 0 prepares them in it."""
    log_every: int = 10
    evaluate_every: int = 500
    save_every: int = 500
    reporters: tuple[str, ...] = ("tensorboard",)
    """Reporters in addition to log.jsonl, by the names that Transformers knows."""

    def __post_init__(self) -> None:
        at_least(1, self, "steps", "batch", "micro_batch")
        at_least(1, self, "log_every", "evaluate_every", "save_every")
        at_least(0, self, "min_learning_rate", "warmup", "weight_decay", "epsilon", "clip")
        at_least(0, self, "workers")
        if not (self.learning_rate > 0 and self.min_learning_rate <= self.learning_rate):
            raise ConfigError(
                f"learning_rate is {self.learning_rate}, min_learning_rate"
                f" {self.min_learning_rate}: the first must be above 0, the second at most the"
                " first."
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas are {self.betas}; each must be at least 0 and below 1.")
        if self.batch % self.micro_batch:
            raise ConfigError(
                f"batch {self.batch} is not a multiple of micro_batch {self.micro_batch}."
            )

    @property
    def is_sharded(self) -> bool:
        """Whether each of several processes holds only a part of the weights."""
        return self.parallel != "ddp"


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """The held-out evaluation, and the sample texts."""

    examples: int = 512
    """Maximum number of held-out windows or pairs to score, rounded down to micro-batches."""
    policies: Mapping[str, Annotated[AnyPolicy, ByKind()]] = field(default_factory=dict)
    """Policies whose trajectories are scored, by name. The default is the recipe's own policy."""
    prompts: tuple[str, ...] = ("",)
    """Prompts that the model continues (or drafts that an editor revises) at each evaluation."""
    max_actions: int = 128
    """Maximum number of actions in each sample text, and for `solve`."""
    solve: int = 0
    """For a policy of kind `recorded`: number of held-out prompts that the model continues greedily
    at each evaluation. The share whose text is exactly the recorded one is logged."""

    def __post_init__(self) -> None:
        at_least(1, self, "examples", "max_actions")
        at_least(0, self, "solve")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training run."""

    data: DataConfig
    training: TrainingConfig
    policy: Annotated[AnyPolicy, ByKind()] = PRESETS["paper"]
    """A name that `reviser lab policies` prints, or a mapping with `kind` and its fields."""
    trunk: TrunkConfig | None = None
    """A new trunk with random weights. Give this, or `base`."""
    base: str | None = None
    """Folder or hub name of a causal LM to adapt, or of a Reviser model to train further."""
    context: int | None = None
    """Maximum number of ids in a history, for a base without a limit or with a larger one."""
    vocab: VocabConfig = VocabConfig()
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        _exactly_one("trunk", self.trunk, "base", self.base)
        self._check_data()
        data = self.data
        if self.base is None:
            if data.words is None:
                _exactly_one("data.tokenizer", data.tokenizer, "data.bpe", data.bpe)
            elif data.tokenizer or data.bpe:
                raise ConfigError("With data.words, leave out data.tokenizer and bpe.")
        elif data.tokenizer or data.bpe or data.words:
            raise ConfigError(
                "A base model has its own tokenizer: leave out data.tokenizer, bpe and words."
            )
        elif self.vocab.preset:
            raise ConfigError("vocab.preset is for a new trunk: leave it out with a base.")
        if data.bpe and data.shards:
            raise ConfigError("data.bpe is trained on data.text; for shards give data.tokenizer.")
        if self.trunk is not None and self.context is not None:
            raise ConfigError("context is for a base; for a new trunk set trunk.context.")
        if self.context is not None:
            at_least(1, self, "context")
        if data.windows.held_out == 0:
            raise ConfigError("data.windows.held_out is 0, which leaves nothing to evaluate on.")
        if not 0 <= self.seed < 1 << 32:
            raise ConfigError(f"seed is {self.seed}; it must be from 0 to {(1 << 32) - 1}.")

    def _check_data(self) -> None:
        """Refuse data of several kinds, and policies that need another kind."""
        data = self.data
        given = [n for n in ("pairs", "trajectories", "generator") if getattr(data, n)]
        if given:
            others = [*given[1:], *(n for n in ("shards", "text", "bpe") if getattr(data, n))]
            if others:
                raise ConfigError(f"With data.{given[0]}, leave out data.{' and '.join(others)}.")
        else:
            _exactly_one("data.shards", data.shards, "data.text", data.text or None)
        for policy in (self.policy, *self.evaluation.policies.values()):
            if isinstance(policy, PairPolicy) != bool(data.pairs):
                raise ConfigError(
                    "data.pairs needs a policy of kind edits or rewrite, and those policies"
                    " need data.pairs."
                )
            if isinstance(policy, Recorded) != (given[:1] in (["trajectories"], ["generator"])):
                raise ConfigError(
                    "data.trajectories and data.generator need a policy of kind recorded, and that"
                    " policy needs one of them."
                )
        if self.evaluation.solve and not isinstance(self.policy, Recorded):
            raise ConfigError("evaluation.solve needs a policy of kind recorded.")


def load_recipe(
    path: str | Path, changes: Sequence[str] = (), *, cls: type[Recipe] = Recipe
) -> Recipe:
    """Read a recipe; `changes` such as "training.steps=100" replace single values."""
    from reviser.train.yaml_reader import from_plain

    fields = read_yaml(path, changes)
    if isinstance(fields, dict):
        fields.pop(COMPARISON, None)
    recipe: Recipe = from_plain(cls, fields)
    folder = Path(path).absolute().parent  # so that a run can be resumed from anywhere
    data = recipe.data
    return dataclasses.replace(
        recipe,
        base=resolve_base(folder, recipe.base),
        data=dataclasses.replace(
            data,
            shards=data.shards and folder / data.shards,
            tokenizer=data.tokenizer and folder / data.tokenizer,
            text=tuple(s if _is_remote(s) else str(folder / s) for s in data.text),
            pairs=tuple(str(folder / s) for s in data.pairs),
            trajectories=tuple(str(folder / s) for s in data.trajectories),
            generator=data.generator and str(folder / data.generator),
            words=data.words and folder / data.words,
        ),
    )


def absolute_paths(change: str) -> str:
    """Return a change from a command line, whose paths are relative to the working directory.

    `load_recipe` would resolve them relative to the recipe's folder, like the paths in a recipe.
    """
    from reviser.train.yaml_reader import parse

    name, _, text = change.partition("=")
    try:
        value = parse(text, name)
    except ConfigError:
        return change  # `load_recipe` reports it
    is_folder = name == "base" and isinstance(value, str) and Path(value).is_dir()
    if is_folder or name in [f"data.{key}" for key in _DATA_PATHS]:
        value = _absolute(value)
    elif name == "data" and isinstance(value, dict):
        value = {k: _absolute(v) if k in _DATA_PATHS else v for k, v in value.items()}
    else:
        return change
    return f"{name}={json.dumps(value, ensure_ascii=False, default=str)}"


def _absolute(value: Any) -> Any:
    if isinstance(value, list):
        return [_absolute(part) for part in value]
    is_path = isinstance(value, str) and not _is_remote(value)
    return str(Path(value).absolute()) if is_path else value


def _is_remote(source: str) -> bool:
    return source.startswith("hf:") or "://" in source


def read_yaml(path: str | Path, changes: Sequence[str] = ()) -> Any:
    """Read a recipe's file as plain values and apply the changes."""
    from reviser.train.yaml_reader import parse, set_value

    try:
        content = Path(path).read_bytes()
    except OSError as error:
        advice = nearest_path(path) if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(
            f"Cannot read the recipe {str(path)!r}: {error.strerror}.{advice}"
        ) from error
    fields = parse(content, f"The recipe {str(path)!r}")
    for change in changes:
        set_value(fields, change)
    return fields


def check_inputs(recipe: Recipe) -> None:
    """Refuse a base, a tokenizer or data that do not exist; nothing is opened or downloaded."""
    check_model("base", recipe.base)
    data = recipe.data
    for name, path in (("data.shards", data.shards), ("data.tokenizer", data.tokenizer)):
        if path is not None and not path.is_dir():
            _refuse_placeholder(name, path, "FOLDER")
            raise ConfigError(f"{name}: there is no folder {str(path)!r}.{nearest_path(path)}")
    for name, sources in (("data.text", data.text), ("data.pairs", data.pairs)):
        for source in sources:
            _refuse_placeholder(name, Path(source), "[FILE]")
            find_sources(source)
    files = [("data.trajectories", Path(source)) for source in data.trajectories]
    if data.generator:
        files.append(("data.generator", Path(data.generator.rpartition(":")[0])))
    if data.words:
        files.append(("data.words", data.words))
    for name, path in files:
        if not path.is_file():
            raise ConfigError(f"{name}: there is no file {str(path)!r}.{nearest_path(path)}")


def check_model(setting: str, name: str | None) -> None:
    """Refuse a model that is a placeholder, or a folder that does not exist."""
    if name is not None:
        _refuse_placeholder(setting, Path(name), "MODEL")
        refuse_missing_folder(name)


def _refuse_placeholder(name: str, path: Path, kind: str) -> None:
    found = next((n for n, part in enumerate(path.parts) if part.startswith(PLACEHOLDER)), None)
    if found is not None and not path.exists():
        placeholder = str(Path(*path.parts[found:]))
        raise ConfigError(
            f"{name} is {placeholder!r}, a placeholder. Set it in the recipe, or with: --set"
            f" {name}={kind}"
        )


def resolve_base(folder: Path, base: str | None) -> str | None:
    """Return the absolute path of a model folder, or the name unchanged if there is none.

    The folder is looked up relative to the recipe's folder, then to the working directory.
    """
    candidates = [] if base is None else [folder / base, Path(base)]
    return next((str(path.absolute()) for path in candidates if path.is_dir()), base)


def at_least(least: int, config: Any, *names: str) -> None:
    """Refuse a dataclass of which one of some fields is below a limit."""
    for name in names:
        if getattr(config, name) < least:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be {least} or more.")


def _exactly_one(first: str, a: Any, second: str, b: Any) -> None:
    if (a is None) == (b is None):
        raise ConfigError(f"Give {first} or {second}, one of the two.")
