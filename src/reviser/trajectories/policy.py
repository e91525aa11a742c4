"""Trajectory policies: the order in which a target is taken apart, and so written again.

A policy is any object with a method `compile`, which `sampler.Sampler` calls. Those here compile to
rows of integers that the kernels read. `PairPolicy` is for pairs of texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import UNITS, Codec
from reviser.core.trajectory import Trajectory
from reviser.errors import ConfigError, TrajectoryError, VocabError
from reviser.trajectories._kernels import layout
from reviser.trajectories.compiled import Compiled, Restorations, Targets
from reviser.trajectories.edit_script import Address
from reviser.trajectories.refresh import Refresh, parts

MIN_DELETE = 0.001
"""The smallest probability of a delete; with less, a walk would hardly ever end."""
MAX_SPAN = 1 << 20
"""The largest mean length of spans, and the largest number of late ones."""


Histories: TypeAlias = list[Trajectory]
"""What one recording is learned as."""


class Policy(Protocol):
    """The order in which a target is written. Any object with this method is one."""

    def compile(self, vocab: ActionVocab, /) -> Compiled:
        """Return what restores targets with the actions of a vocabulary.

        Raise VocabError if it lacks one. `compiled.one_by_one` makes the result of a function that
        writes one target.
        """
        ...


class _KernelPolicy:
    """A policy whose restorations the kernels write."""

    def compile(self, vocab: ActionVocab, /) -> Compiled:
        """Return what restores targets with the actions of a vocabulary."""
        assert isinstance(self, TextPolicy)
        ids = compile_ids(vocab)
        parts = self.policies if isinstance(self, Mixture) else (self,)
        units = sorted({part.unit for part in parts if isinstance(part, Spans)} - {"token"})

        return partial(_restore, self, ids, units)  # other processes get it: no closure


def _restore(
    policy: TextPolicy, ids: npt.NDArray[np.int64], units: Sequence[str], targets: Targets
) -> Restorations:
    return _run_kernels(targets, compile_rows(policy, targets.progress), ids, units)


class ByKind:
    """Mark of a union of policies that pydantic reads: a preset's name, or a mapping with `kind`.

    Only pydantic calls its method, so this module can be imported without it.
    """

    def __get_pydantic_core_schema__(self, union: Any, handler: Any) -> Any:
        """Return the schema that takes the class that `kind` names."""
        from pydantic_core import core_schema

        kinds = policies_by_kind(union)
        preset = core_schema.literal_schema([*PRESETS])
        choices: dict[Any, Any] = {
            _PRESET: core_schema.no_info_after_validator_function(PRESETS.__getitem__, preset)
        }
        for kind, cls in kinds.items():
            schema = handler.generate_schema(cls)
            choices[kind] = core_schema.no_info_before_validator_function(_settings, schema)
        return core_schema.tagged_union_schema(
            choices,
            _choose,
            custom_error_type="policy",
            custom_error_message=f"a name ({', '.join(PRESETS)}) or a mapping with kind:"
            f" {', '.join(kinds)}",
        )


_PRESET = "preset"
"""What stands for a name where pydantic expects a kind."""


def _choose(value: Any) -> str | None:
    """Return the kind that a policy of a recipe asks for, which may not exist."""
    if isinstance(value, dict):
        return str(value.get("kind"))
    return _PRESET if str(value) in PRESETS else None


def _settings(policy: dict[str, Any]) -> dict[str, Any]:
    """Return a policy's settings without its kind; its lists as tuples, for a strict reader."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in policy.items()
        if name != "kind"
    }


def kind_of(policy: Any) -> str:
    """Return the name of a class of policies in recipes."""
    name: str = policy.__name__
    return name.lower()


def policies_by_kind(union: Any) -> dict[str, Any]:
    """Return the dataclasses of a union, by their kinds."""
    return {kind_of(cls): cls for cls in get_args(union) if is_dataclass(cls)}


@dataclass(frozen=True, kw_only=True)
class Append(_KernelPolicy):
    """Left to right: the autoregressive baseline, with the same trunk, data and code."""


@dataclass(frozen=True, kw_only=True)
class Obfuscation(_KernelPolicy):
    """Algorithm 2: delete left of the cursor or move, at random, until nothing is left.

    The defaults are the paper's.
    """

    delete: float = 0.8
    """Probability of a delete; the rest are moves, uniform over the valid ones."""
    start: Literal["uniform", "left"] = "uniform"
    """Start of the cursor. The paper's text says uniform; its printed samples look like left."""
    merge_moves: bool = False
    """Write each chain of moves as the fewest with the same goal; drop moves before STOP."""
    max_obfuscation_steps: int | None = None
    """K_max: a walk that takes longer is discarded and sampled again."""

    def __post_init__(self) -> None:
        if not MIN_DELETE <= self.delete < 1:
            raise ConfigError(
                f"delete is {self.delete}; use {MIN_DELETE} or more and less than 1, since the rest"
                " are moves."
            )
        if self.start not in ("uniform", "left"):
            raise ConfigError(f"start is {self.start!r}; use 'uniform' or 'left'.")
        if self.max_obfuscation_steps is not None and self.max_obfuscation_steps < 1:
            raise ConfigError(
                f"max_obfuscation_steps is {self.max_obfuscation_steps}; use 1 or more, or None."
            )


@dataclass(frozen=True, kw_only=True)
class Spans(_KernelPolicy):
    """Spans of text in random order, each written left to right, with the fewest moves between.

    The text is cut at random among the starts of its units, to a mean length in tokens.
    """

    mean: float = 8.0
    unit: Literal["token", "word", "sentence"] = "word"
    late: int | None = None
    """Number of inner spans to write late, after the rest; everything is written left to right.

    If the vocabulary has marks, the restoration marks where a late span is missing and goes back
    to it. None (the default) makes every order of the spans equally likely.
    """

    def __post_init__(self) -> None:
        if not 1 <= self.mean <= MAX_SPAN or self.unit not in UNITS:
            raise ConfigError(
                f"Spans of mean {self.mean} aligned to {self.unit!r}: the mean must be 1 or more"
                f" tokens, the unit one of {', '.join(UNITS)}."
            )
        if self.late is not None and not 0 <= self.late <= MAX_SPAN:
            raise ConfigError(f"late is {self.late}; use 0 to {MAX_SPAN}, or None.")


@dataclass(frozen=True, kw_only=True)
class Mixture(_KernelPolicy):
    """Several policies, of which each example takes one at random by weight.

    With `final_weights` the weights change linearly as training progresses, from `change_from` to
    `change_until`.
    """

    policies: tuple[Annotated[Append | Obfuscation | Spans, ByKind()], ...]
    weights: tuple[float, ...]
    final_weights: tuple[float, ...] | None = None
    change_from: float = 0.0
    """The share of training at which the weights begin to change."""
    change_until: float = 1.0
    """The share of training at which they are the final ones."""

    def __post_init__(self) -> None:
        allowed = Append | Obfuscation | Spans
        if not self.policies or not all(isinstance(part, allowed) for part in self.policies):
            raise ConfigError(
                "A mixture needs at least one policy, and none that is itself a mixture."
            )
        if not 0 <= self.change_from < self.change_until <= 1:
            raise ConfigError(
                f"Weights that change from {self.change_from} to {self.change_until} of training:"
                " the first must be 0 or more and below the second, which is at most 1."
            )
        if self.final_weights is None and (self.change_from, self.change_until) != (0, 1):
            raise ConfigError("The weights do not change: give final_weights too.")
        for weights in (self.weights, self.last_weights):
            if len(weights) != len(self.policies) or min(weights) < 0 or sum(weights) <= 0:
                raise ConfigError(
                    f"Weights {weights} do not fit {len(self.policies)} policies: one each, none"
                    " negative, not all zero."
                )

    @property
    def last_weights(self) -> tuple[float, ...]:
        """The weights at the end of training."""
        return self.weights if self.final_weights is None else self.final_weights

    def weights_at(self, progress: float) -> list[float]:
        """Return the weights, adding up to 1, after a share `progress` of training."""
        if not 0 <= progress <= 1:
            raise ConfigError(f"progress is {progress}; it goes from 0 to 1.")
        first, last = (np.array(w) / sum(w) for w in (self.weights, self.last_weights))
        changed = (progress - self.change_from) / (self.change_until - self.change_from)
        share = min(max(changed, 0.0), 1.0)
        mixed = (1 - share) * first + share * last
        return [float(weight) for weight in mixed]


TextPolicy: TypeAlias = Append | Obfuscation | Spans | Mixture
"""The policies for text that the library has."""


class TokenPair(NamedTuple):
    """A pair of texts as tokens."""

    instruction: npt.NDArray[np.int32]
    before: npt.NDArray[np.int32]
    after: npt.NDArray[np.int32]


class PairPolicy(ABC):
    """A policy for pairs of texts: what is written to turn one into the other. Nothing is drawn."""

    @abstractmethod
    def compile(self, vocab: ActionVocab, codec: Codec, /) -> Callable[[TokenPair], Trajectory]:
        """Return what makes a trajectory of a pair; raise VocabError if an action is missing."""


@dataclass(frozen=True, kw_only=True)
class Edits(PairPolicy):
    """A policy for pairs: the draft is shown, and the fewest actions turn it into the result."""

    address: Address = "both"
    """The way to a position. Searches need a vocabulary that has them (`vocab.search`)."""
    edit_probabilities: bool = False
    """True if the model also learns edit probabilities: as it reads a draft, it predicts at every
    token whether an edit is needed there (`alignment.edit_labels`). So one pass over a draft
    tells where to edit it."""

    def compile(self, vocab: ActionVocab, codec: Codec, /) -> Callable[[TokenPair], Trajectory]:
        """Return what makes a trajectory of the fewest edits."""
        from reviser.trajectories.alignment import revision, word_starts

        if vocab.delete is None and vocab.span_delete is None:
            raise VocabError(
                "An editor needs the operator delete or span_delete: add one to"
                " vocab.operators, for example vocab={operators: [delete, replace]}."
            )
        if self.address != "moves" and vocab.find is None:
            raise VocabError("This policy searches: set vocab.search, or address: moves.")

        def revise(pair: TokenPair) -> Trajectory:
            return revision(
                vocab,
                pair.before.tolist(),
                pair.after.tolist(),
                instruction=pair.instruction.tolist(),
                starts=(word_starts(codec, pair.before), word_starts(codec, pair.after)),
                address=self.address,
            )

        return revise


@dataclass(frozen=True, kw_only=True)
class Rewrite(PairPolicy):
    """A policy for pairs: the draft is the prefix, and the whole new text is written after it."""

    def compile(self, vocab: ActionVocab, _: Codec, /) -> Callable[[TokenPair], Trajectory]:
        """Return what makes a trajectory that writes the new text."""
        if vocab.delimiter is None:
            raise VocabError(
                "A policy that rewrites needs a delimiter after the draft: set vocab.delimiter."
            )

        def rewrite(pair: TokenPair) -> Trajectory:
            prefix = (*pair.instruction.tolist(), *pair.before.tolist())
            return Trajectory(prefix=prefix, restoration=(*pair.after.tolist(), vocab.stop))

        return rewrite


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A policy for recorded edits: the actions are those that were recorded."""

    versions: Literal["all", "final"] = "all"
    """`final` writes only the last version, left to right after the prompt and the draft: the
    baseline from the same file."""
    refresh: Refresh | None = None
    """When the model is shown the text again, in place of its past actions. Each time an example is
    read, training takes one of the parts of its history, at random."""

    def __post_init__(self) -> None:
        if self.refresh is not None and self.versions == "final":
            raise ConfigError("refresh is for all versions: the final one is written at once.")

    def compile(self, vocab: ActionVocab, context: int, /) -> Callable[[Trajectory], Histories]:
        """Return what makes the histories to learn from a recorded one, with a context of ids."""
        if self.versions == "final":
            return partial(_final_version, vocab)
        if self.refresh is None:
            return _as_recorded
        return partial(parts, vocab, self.refresh, context)


def _as_recorded(recorded: Trajectory) -> Histories:
    return [recorded]


def _final_version(vocab: ActionVocab, recorded: Trajectory) -> Histories:
    """Return a trajectory that writes the result after the prompt and the draft."""
    draft = [i for i in recorded.shown if vocab.kind(i) is Kind.INSERT]
    written = recorded.target(vocab)
    prefix = (*recorded.prefix, *draft)
    return [Trajectory(prefix=prefix, restoration=(*written, vocab.stop))]


AnyPolicy: TypeAlias = (
    Append | Obfuscation | Spans | Mixture | Edits | Rewrite | Recorded | Policy | PairPolicy
)
"""A policy of a recipe. In YAML, a dataclass among these is named by `kind`, in lower case; a
recipe's own class may allow more: `Annotated[AnyPolicy | Mine, ByKind()]`."""

PRESETS: dict[str, TextPolicy] = {
    "append": Append(),
    "paper": Obfuscation(),
    "paper-left": Obfuscation(start="left"),
    "paper-merged": Obfuscation(merge_moves=True),
    "delete-0.9": Obfuscation(delete=0.9, merge_moves=True),
    "delete-0.95": Obfuscation(delete=0.95, merge_moves=True),
    "spans-8": Spans(mean=8),
    "spans-16": Spans(mean=16),
    "spans-32": Spans(mean=32),
    "late-1": Spans(mean=16, unit="sentence", late=1),
    "late-2": Spans(mean=16, unit="sentence", late=2),
    "half-append": Mixture(policies=(Append(), Spans(mean=16)), weights=(1, 1)),
}
"""Policies worth comparing, by the name `reviser lab policies` prints."""


def compile_rows(policy: TextPolicy, progress: float = 0.0) -> npt.NDArray[np.int64]:
    """Return the rows that the kernels read: one per component, with cumulative weights."""
    parts = policy.policies if isinstance(policy, Mixture) else (policy,)
    weights = policy.weights_at(progress) if isinstance(policy, Mixture) else [1.0]
    rows = np.stack([_row(part) for part in parts])
    rows[:, layout.WEIGHT] = _thresholds(weights)
    rows[-1, layout.WEIGHT] = layout.WHOLE  # rounding may have left less
    return rows


def compile_ids(vocab: ActionVocab) -> npt.NDArray[np.int64]:
    """Return the ids that the kernels write; -1 for an action that the vocabulary lacks."""
    entries = {
        layout.ID_STOP: vocab.stop,
        layout.ID_FIRST_MOVE: vocab.first_move,
        layout.MAX_MOVE: vocab.max_move,
        layout.ID_BACK: vocab.back,
        layout.ID_MARK: vocab.mark,
    }
    return np.array([-1 if entries[n] is None else entries[n] for n in range(layout.IDS)], np.int64)


def _row(policy: Append | Obfuscation | Spans) -> npt.NDArray[np.int64]:
    row = np.zeros(layout.COLUMNS, np.int64)
    if isinstance(policy, Obfuscation):
        row[layout.KIND] = layout.OBFUSCATE
        row[layout.DELETE] = round(policy.delete * layout.WHOLE)
        row[layout.START_LEFT] = policy.start == "left"
        row[layout.MERGE] = policy.merge_moves
        budget = policy.max_obfuscation_steps
        row[layout.MAX_STEPS] = -1 if budget is None else budget
    else:  # appending is a single span
        row[layout.KIND] = layout.SPANS
        if isinstance(policy, Spans):
            row[layout.MEAN_SPAN] = round(policy.mean * layout.MEAN_SCALE)
            row[layout.UNIT] = UNITS[policy.unit]
            row[layout.LATE] = -1 if policy.late is None else policy.late
    return row


def _thresholds(shares: list[float]) -> npt.NDArray[np.int64]:
    """Return running sums; each share is rounded on its own, so that 0 stays 0."""
    return np.cumsum([round(share * layout.WHOLE) for share in shares])


def _run_kernels(
    targets: Targets, rows: npt.NDArray[np.int64], ids: npt.NDArray[np.int64], units: Sequence[str]
) -> Restorations:
    from reviser.trajectories._kernels import sampling  # numba takes a second to import

    starts = targets.units
    if starts is None:
        if units:
            raise TrajectoryError(
                f"This policy aligns to units ({', '.join(units)}): pass what"
                " codec.unit_starts(target) gives as units."
            )
        starts = np.ones(len(targets.tokens), np.uint8)
    written, ends = sampling.restorations(
        targets.tokens,
        targets.offsets,
        starts,
        rows,
        ids,
        np.uint64(targets.seed),
        np.uint64(targets.epoch),
        targets.indices,
    )
    if ends.min() < 0:
        failed = int(np.argmin(ends)) - 1
        length = targets.offsets[failed + 1] - targets.offsets[failed]
        raise TrajectoryError(
            f"No obfuscation of {length} tokens within max_obfuscation_steps was found in"
            f" {layout.MAX_ATTEMPTS} tries. Raise it, or leave it out."
        )
    return Restorations(ids=written, learned=np.ones(len(written), np.bool_), offsets=ends)
