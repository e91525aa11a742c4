"""Trajectory policies: in which order a target is taken apart, and so written again.

A policy is a value; `trajectory.Sampler` runs it. Each compiles to rows of integers that the
kernels read. What a policy costs is measured in `order_tax.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab
from reviser.core.codec import UNITS
from reviser.errors import ConfigError, VocabError

WHOLE = 1 << 32
"""A probability of one, as the kernels count it."""
MEAN_SCALE = 1 << 16
"""A mean length of one token, as the kernels count it."""
LEAST_DELETE = 0.001
"""With fewer deletes a walk would hardly end."""
NOISE_SPAN = (2, 8)
"""Fewest and most tokens that a span of noise holds."""
MOST_SPAN = 1 << 20
"""The longest mean of spans, and the most of them that are late."""


@dataclass(frozen=True, kw_only=True)
class Append:
    """Left to right: the autoregressive baseline, with the same trunk, data and code."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Operations of the richer set, each with its probability per obfuscation step.

    Each leaves something wrong that the restoration then repairs with the operator named. The
    tokens it puts in are drawn from the target; bringing one back bears no loss.
    """

    insert: float = 0.0
    """Insert a token; repaired by `delete`."""
    replace: float = 0.0
    """Replace a token; repaired by `replace`."""
    swap: float = 0.0
    """Swap two tokens; repaired by `swap`."""
    span_insert: float = 0.0
    """Insert a span of tokens (`NOISE_SPAN`); repaired by `span_delete`."""
    span_move: float = 0.0
    """Move a span by a power of two; repaired by `span_move`."""


@dataclass(frozen=True, kw_only=True)
class Obfuscation:
    """Algorithm 2: delete left of the cursor or move, at random, until nothing is left.

    The defaults are the paper's.
    """

    delete: float = 0.8
    """Probability of a delete; the rest are moves, uniform over the valid ones."""
    start: Literal["uniform", "left"] = "uniform"
    """Where the cursor starts. The text says uniform; the printed samples look like left."""
    merge_moves: bool = False
    """Write each chain of moves as the fewest that get there, and drop those before STOP."""
    max_obfuscation_steps: int | None = None
    """K_max: a walk that takes longer is discarded and sampled again."""
    noise: Noise = Noise()
    """The richer action set; none by default."""

    def __post_init__(self) -> None:
        noise = self.noise
        shares = [noise.insert, noise.replace, noise.swap, noise.span_insert, noise.span_move]
        total = self.delete + sum(shares)
        if not (self.delete >= LEAST_DELETE and total < 1 and all(s >= 0 for s in shares)):
            raise ConfigError(
                f"delete={self.delete} and {noise} must be probabilities that leave some for"
                f" moves: delete {LEAST_DELETE} or more, together below 1."
            )
        if noise.insert + noise.span_insert * sum(NOISE_SPAN) / 2 >= self.delete:
            raise ConfigError(f"{noise} puts in as many tokens as delete={self.delete} takes out.")
        if self.start not in ("uniform", "left"):
            raise ConfigError(f"start is {self.start!r}; use 'uniform' or 'left'.")
        if self.max_obfuscation_steps is not None and self.max_obfuscation_steps < 1:
            raise ConfigError(
                f"max_obfuscation_steps is {self.max_obfuscation_steps}; use 1 or more, or None."
            )


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Spans of text in random order, each written left to right, with the fewest moves between.

    The text is cut at random among the starts of its units, to a mean length in tokens.
    """

    mean: float = 8.0
    unit: Literal["token", "word", "sentence"] = "word"
    late: int | None = None
    """Write left to right but for so many inner spans, which come after the rest, left to right
    too. A vocabulary with marks has one set where a span is left out, and goes back to it. If
    left out, every order of the spans is as likely."""

    def __post_init__(self) -> None:
        if not 1 <= self.mean <= MOST_SPAN or self.unit not in UNITS:
            raise ConfigError(
                f"Spans of mean {self.mean} aligned to {self.unit!r}: the mean must be 1 or more"
                f" tokens, the unit one of {', '.join(UNITS)}."
            )
        if self.late is not None and not 0 <= self.late <= MOST_SPAN:
            raise ConfigError(f"late is {self.late}; use 0 to {MOST_SPAN}, or None.")


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Each example takes one of several policies, at random by weight.

    With `final_weights` the weights go there in a straight line as training progresses, from one
    share of it to another.
    """

    policies: tuple[Append | Obfuscation | Spans, ...]
    weights: tuple[float, ...]
    final_weights: tuple[float, ...] | None = None
    change_from: float = 0.0
    """The share of training after which the weights begin to change."""
    change_until: float = 1.0
    """The share of training after which they are the final ones."""

    def __post_init__(self) -> None:
        allowed = Append | Obfuscation | Spans
        if not self.policies or not all(isinstance(part, allowed) for part in self.policies):
            raise ConfigError("A mixture holds policies that are not mixtures themselves.")
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
        """Where the weights end up."""
        return self.weights if self.final_weights is None else self.final_weights

    def weights_at(self, progress: float) -> list[float]:
        """The weights, adding up to 1, when a share `progress` of training is done."""
        if not 0 <= progress <= 1:
            raise ConfigError(f"progress is {progress}; it goes from 0 to 1.")
        first, last = (np.array(w) / sum(w) for w in (self.weights, self.last_weights))
        changed = (progress - self.change_from) / (self.change_until - self.change_from)
        share = min(max(changed, 0.0), 1.0)
        mixed = (1 - share) * first + share * last
        return [float(weight) for weight in mixed]


Policy: TypeAlias = Append | Obfuscation | Spans | Mixture
Address: TypeAlias = Literal["moves", "search", "both"]
"""How a place is reached: by moves, by searching for the tokens before it, by what is shorter."""


@dataclass(frozen=True, kw_only=True)
class Edits:
    """For pairs: the draft is shown, and the fewest actions make of it what it became."""

    address: Address = "both"
    """A search needs `vocab.search`."""
    rewritten: float = 0.0
    """Share of the pairs that are written anew instead, in which every token is a lesson and not
    only those that change. It needs a delimiter, as `rewrite` does."""
    noted: bool = False
    """Whether the model also learns to note, as it reads a draft, what is to change: behind each
    token, what the text before it needs. Nothing is written there; it is a lesson for every token,
    and tells where to edit before anything is written."""

    def __post_init__(self) -> None:
        if not 0 <= self.rewritten <= 1:
            raise ConfigError(f"rewritten is {self.rewritten}; it is a share, from 0 to 1.")


@dataclass(frozen=True, kw_only=True)
class Rewrite:
    """For pairs: the draft is shown as a prefix, and the whole text is written anew behind it."""


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """For pairs: the draft is shown as a prefix, and behind it search-and-replace blocks."""


PairPolicy: TypeAlias = Edits | Rewrite | Blocks
"""How a pair of texts becomes a trajectory; there is no order to draw, so no order tax."""

PRESETS: dict[str, Policy] = {
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
    "repair": Obfuscation(
        delete=0.75,
        merge_moves=True,
        noise=Noise(insert=0.03, replace=0.03, swap=0.02, span_insert=0.01, span_move=0.01),
    ),
}
"""Policies worth comparing, by the name `reviser policies` prints."""


def compile_rows(policy: Policy, progress: float = 0.0) -> npt.NDArray[np.int64]:
    """The rows that the kernels read: one per component of a mixture, weights summed up."""
    from reviser.trajectories import _kernels as k

    if not isinstance(policy, Append | Obfuscation | Spans | Mixture):
        raise ConfigError(
            f"The policy is {policy!r}; give a value such as Obfuscation() or PRESETS['paper']."
        )
    parts = policy.policies if isinstance(policy, Mixture) else (policy,)
    weights = policy.weights_at(progress) if isinstance(policy, Mixture) else [1.0]
    rows = np.stack([_row(part) for part in parts])
    rows[:, k.WEIGHT] = _thresholds(weights)
    rows[-1, k.WEIGHT] = WHOLE  # whatever rounding left
    return rows


def operators_needed(policy: Policy) -> list[str]:
    """The operators that restorations under this policy use."""
    if isinstance(policy, Mixture):
        return sorted({name for part in policy.policies for name in operators_needed(part)})
    if not isinstance(policy, Obfuscation):
        return []
    noise = policy.noise
    repairs = {
        "delete": noise.insert,
        "replace": noise.replace,
        "swap": noise.swap,
        "span_delete": noise.span_insert,
        "span_move": noise.span_move,
    }
    return sorted(name for name, share in repairs.items() if share > 0)


def compile_ids(policy: Policy, vocab: ActionVocab) -> npt.NDArray[np.int64]:
    """The ids that the kernels write; an operator the policy needs must be there."""
    from reviser.trajectories import _kernels as k

    missing = [name for name in operators_needed(policy) if getattr(vocab, name) is None]
    if missing:
        raise VocabError(
            f"This policy's restorations need {', '.join(missing)}, which the vocabulary lacks."
            " Build it with those operators, or take the noise out of the policy."
        )
    entries = {
        k.ID_STOP: vocab.stop,
        k.ID_FIRST_MOVE: vocab.first_move,
        k.ID_DELETE: vocab.delete,
        k.ID_REPLACE: vocab.replace,
        k.ID_SWAP: vocab.swap,
        k.ID_SPAN_DELETE: vocab.span_delete,
        k.ID_SPAN_MOVE: vocab.span_move,
        k.ID_END: vocab.end,
        k.MAX_MOVE: vocab.max_move,
        k.ID_BACK: vocab.back,
        k.ID_MARK: vocab.mark,
    }
    return np.array([-1 if entries[n] is None else entries[n] for n in range(k.IDS)], np.int64)


def _row(policy: Append | Obfuscation | Spans) -> npt.NDArray[np.int64]:
    from reviser.trajectories import _kernels as k

    row = np.zeros(k.COLUMNS, np.int64)
    if isinstance(policy, Obfuscation):
        noise = policy.noise
        row[k.KIND] = k.OBFUSCATE
        shares = [policy.delete, noise.insert, noise.replace, noise.swap]
        shares += [noise.span_insert, noise.span_move]
        row[k.DELETE : k.SPAN_MOVE + 1] = _thresholds(shares)
        row[k.START_LEFT] = policy.start == "left"
        row[k.MERGE] = policy.merge_moves
        budget = policy.max_obfuscation_steps
        row[k.MAX_STEPS] = -1 if budget is None else budget
    else:  # appending is a single span
        row[k.KIND] = k.SPANS
        if isinstance(policy, Spans):
            row[k.MEAN_SPAN] = round(policy.mean * MEAN_SCALE)
            row[k.UNIT] = UNITS[policy.unit]
            row[k.LATE] = -1 if policy.late is None else policy.late
    return row


def _thresholds(shares: list[float]) -> npt.NDArray[np.int64]:
    """Running sums, each share rounded on its own so that none becomes another's."""
    return np.cumsum([round(share * WHOLE) for share in shares])
