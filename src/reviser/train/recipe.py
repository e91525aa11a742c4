"""Recipes: everything a training run depends on, as values read from YAML.

Knows no torch. A default lives beside its field and nowhere else; a key that no field has is an
error that suggests the nearest one.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from reviser.core import policy as policies
from reviser.core.policy import PRESETS, Policy
from reviser.data.dataset import WindowConfig
from reviser.errors import ConfigError
from reviser.models import TrunkConfig


@dataclass(frozen=True, kw_only=True)
class VocabConfig:
    """Which actions the model has; see `ActionVocab.build`."""

    preset: Literal["paper"] | None = None
    """The released checkpoints' id layout; the other fields are then not used."""
    operators: tuple[str, ...] = ()
    max_move: int = 512
    begin: str | None = None
    """The token that texts begin with. A base's own, if its tokenizer adds one, when left out."""
    delimiter: bool = True

    @property
    def options(self) -> dict[str, Any]:
        """What `ActionVocab.from_tokenizer` and `models.adapt` take."""
        names = ("operators", "max_move", "begin", "delimiter")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the text is. Paths are relative to the recipe's folder."""

    shards: Path | None = None
    """A folder that `reviser tokenize` wrote. Give this, or `text`."""
    text: tuple[str, ...] = ()
    """Sources as `reviser tokenize` takes them, tokenized on first use into the output."""
    split: Literal["blank", "line", "file"] = "blank"
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
    """The optimisation. Sizes are of the whole run, whatever number of processes shares it."""

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
    workers: int = 0
    """Processes that prepare batches ahead; with 0 the training process does it itself."""
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
    policies: Mapping[str, Policy] = field(default_factory=dict)
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
    policy: Policy = PRESETS["paper"]
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
        _exactly_one("data.shards", data.shards, "data.text", data.text or None)
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
    import yaml

    path = Path(path)
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        for change in changes:
            _change(fields, change)
    except OSError as error:
        raise ConfigError(f"Cannot read the recipe {str(path)!r}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"The recipe {str(path)!r} is not YAML: {_one_line(error)}") from error
    recipe: Recipe = _read(Recipe, fields, "")
    folder = path.absolute().parent  # so that a run can be taken up from anywhere
    data = recipe.data
    return dataclasses.replace(
        recipe,
        base=_beside(folder, recipe.base),
        data=dataclasses.replace(
            data,
            shards=data.shards and folder / data.shards,
            tokenizer=data.tokenizer and folder / data.tokenizer,
            text=tuple(s if s.startswith("hf:") else str(folder / s) for s in data.text),
        ),
    )


def to_plain(value: Any) -> Any:
    """A recipe as what JSON and YAML can write; policies with their `kind`."""
    if dataclasses.is_dataclass(value):
        kind = next((k for k, cls in _POLICIES.items() if type(value) is cls), None)
        plain = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return ({"kind": kind} if kind else {}) | plain
    if isinstance(value, Mapping):
        return {name: to_plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


_POLICIES: dict[str, type] = {
    "append": policies.Append,
    "obfuscation": policies.Obfuscation,
    "spans": policies.Spans,
    "mixture": policies.Mixture,
}


def _read(cls: Any, value: Any, where: str) -> Any:
    """Turn plain YAML into a value of some type; `where` is its path, for messages."""
    if cls == Policy or cls == policies.Append | policies.Obfuscation | policies.Spans:
        return _read_policy(value, where)
    if dataclasses.is_dataclass(cls):
        return _read_dataclass(cls, value, where)
    origin, parts = get_origin(cls), get_args(cls)
    if origin in (Union, types.UnionType):
        rest = [part for part in parts if part is not types.NoneType]
        if value is None or len(rest) > 1:
            return value
        return _read(rest[0], value, where)
    if origin is tuple and value is None and parts[-1] is ...:
        return ()
    if origin is tuple and isinstance(value, list):
        kinds = [parts[0]] * len(value) if parts[-1] is ... else parts
        if len(kinds) != len(value):
            raise ConfigError(f"{where} takes {len(kinds)} values; got {value!r}.")
        pairs = enumerate(zip(kinds, value, strict=True))
        return tuple(_read(kind, part, f"{where}[{n}]") for n, (kind, part) in pairs)
    if origin is Mapping and isinstance(value, dict):
        return {str(key): _read(parts[1], part, f"{where}.{key}") for key, part in value.items()}
    return _read_leaf(cls, value, where)


def _read_leaf(cls: Any, value: Any, where: str) -> Any:
    if cls is float and type(value) in (int, str):  # YAML takes 1e-4, without a dot, for text
        with suppress(ValueError):
            value = float(value)
    if cls is Path and isinstance(value, str):
        return Path(value)
    choices = get_args(cls) if get_origin(cls) is Literal else ()
    if value in choices or (type(value) is cls and not (cls is float and not math.isfinite(value))):
        return value
    allowed = " or ".join(map(repr, choices)) or _WORDS[get_origin(cls) or cls]
    raise ConfigError(f"{where} is {_brief(value)}; it should be {allowed}.")


_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
    Path: "a path",
    tuple: "a list",
    Mapping: "a mapping of names",
}


def _read_dataclass(cls: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ConfigError(f"{where or 'A recipe'} must be a mapping of names; got {_brief(value)}.")
    hints = get_type_hints(cls)
    known = [f.name for f in dataclasses.fields(cls)]
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
            raise ConfigError(f"{_path(where, key)} is no setting. {advice}")
    fields = {key: _read(hints[key], part, _path(where, key)) for key, part in value.items()}
    missing = [
        f.name
        for f in dataclasses.fields(cls)
        if f.name not in fields
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{_path(where, missing[0])} is missing.")
    try:
        return cls(**fields)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from error


def _read_policy(value: Any, where: str) -> Policy:
    if isinstance(value, str):
        if value not in PRESETS:
            raise ConfigError(f"{where} is {value!r}; known names: {', '.join(PRESETS)}.")
        return PRESETS[value]
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _POLICIES:
        raise ConfigError(
            f"{where} is {value!r}; give a name ({', '.join(PRESETS)}) or a mapping with kind:"
            f" {', '.join(_POLICIES)}."
        )
    fields = {key: part for key, part in value.items() if key != "kind"}
    policy: Policy = _read_dataclass(_POLICIES[kind], fields, where)
    return policy


def _change(fields: Any, change: str) -> None:
    import yaml

    name, equals, value = change.partition("=")
    if not equals:
        raise ConfigError(f"A change is written name=value, as training.steps=100; got {change!r}.")
    *parents, last = name.split(".")
    for parent in parents:
        if not isinstance(fields, dict):
            break
        fields = fields.setdefault(parent, {})
    if not isinstance(fields, dict):
        raise ConfigError(f"{name} cannot be changed: {change!r} goes into a value, not a mapping.")
    try:
        fields[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"The value of {change!r} is not YAML: {_one_line(error)}") from error


def _beside(folder: Path, base: str | None) -> str | None:
    """A base that is a folder, beside the recipe or from here, or else a hub name as it is."""
    places = [] if base is None else [folder / base, Path(base)]
    return next((str(place.absolute()) for place in places if place.is_dir()), base)


def _brief(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _path(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _at_least(least: int, config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < least:
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be {least} or more.")


def _exactly_one(first: str, a: Any, second: str, b: Any) -> None:
    if (a is None) == (b is None):
        raise ConfigError(f"Give {first} or {second}, one of the two.")
