"""The judge: how sure we are of an edit, from what a language model and the lists say about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from typing import Any

from reviser.errors import CheckpointError, ConfigError, reason_of
from reviser.files import read_object
from reviser.proofread.pool import Candidate

FILE = Path(__file__).parent / "data" / "judge.json"
LARGEST_ODDS = 30.0
"""Log-odds up to which a probability is not rounded to 1."""
LARGEST_GAIN = 30.0
"""Nats up to which gains and margins count; beyond, all are equally good or bad."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the language model says about a candidate."""

    candidate: Candidate
    margin: float
    """How much more likely its first token is than the one in the text, in nats."""
    first: float
    """The log-probability of its first token."""
    gain: float = 0.0
    """How much more likely the text is with it, in nats, as far as it was compared."""
    tokens: int = 1
    """Number of tokens that were compared with it."""
    without: float = 0.0
    """The log-probability of what was compared with that, per token."""


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """A logistic regression: a constant, and a weight for each feature."""

    constant: float
    weights: Mapping[str, float]

    def probability(self, features: Mapping[str, float]) -> float:
        """Return the probability that an edit is right."""
        odds = self.constant + sum(
            weight * features.get(name, 0.0) for name, weight in self.weights.items()
        )
        return 1 / (1 + exp(-max(-LARGEST_ODDS, min(odds, LARGEST_ODDS))))


@dataclass(frozen=True, kw_only=True)
class Judge:
    """What was learned about right and wrong edits, for one language model and these proposers."""

    verdict: Logistic
    """How sure we are of an edit, with all its features."""
    together: Logistic = Logistic(constant=0.0, weights={"alone": 1.0})
    """The same, with how many other mistakes are likely in its passage."""
    gate: Logistic = Logistic(constant=0.0, weights={})
    """The same, with what is known before the text is compared with and without it."""
    min_gate: float = 0.0
    """The least probability at the gate with which an edit is compared."""
    min_confidence: float
    """The least confidence of a change that is kept."""
    calibration: tuple[tuple[float, float], ...] = ()
    """Pairs of a confidence and the share of right changes among those that reach it."""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path = FILE) -> Judge:
        """Read a judge's numbers; by default those for SmolLM2-135M."""
        try:
            saved = read_object(path, CheckpointError)
            return cls(
                verdict=_logistic(saved["verdict"]),
                together=_logistic(saved["together"]),
                gate=_logistic(saved["gate"]),
                min_gate=float(saved["min_gate"]),
                min_confidence=float(saved["min_confidence"]),
                calibration=tuple((float(a), float(b)) for a, b in saved["calibration"]),
                provenance=saved.get("provenance", {}),
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"{str(path)!r} is damaged: {reason_of(error)}.") from error

    def passes(self, pool: Sequence[Measured]) -> list[bool]:
        """Return which edits are worth comparing the whole text with and without them."""
        return [
            self.gate.probability(features) >= self.min_gate for features in early_features(pool)
        ]

    def confidences(self, pool: Sequence[Measured], *, sure: int, words: int) -> list[float]:
        """Return how sure we are of each edit among those of one passage.

        `sure` is the number of its mistakes that needed no judge. Where other mistakes are likely,
        this one is, too: the same edit counts for more in a hasty note than in a printed page.
        """
        alone = [self.verdict.probability(features) for features in features_of(pool)]
        return [
            self.together.probability({"alone": log_odds(each), "rate": rate(others + sure, words)})
            for each, others in zip(alone, other_mistakes(pool, alone), strict=True)
        ]

    def least(self, asked: float | None = None, precision: float | None = None) -> float:
        """Return the least confidence of changes: as asked, or as a precision was measured with."""
        if asked is not None:
            return asked
        if precision is None:
            return self.min_confidence
        enough = [least for least, reached in self.calibration if reached >= precision]
        if not enough:
            best = max((reached for _, reached in self.calibration), default=0.0)
            raise ConfigError(
                f"precision is {precision}; the highest that was measured for this judge is {best}."
            )
        return min(enough)


def features_of(pool: Sequence[Measured]) -> list[dict[str, float]]:
    """Return the features of each edit among those of one passage."""
    found = early_features(pool)
    for each, features in zip(pool, found, strict=True):
        rival = max((x.gain for x in pool if x is not each and _meet(x, each)), default=0.0)
        features |= {
            "gain": _limited(each.gain),
            "gain up to 6": max(-6.0, min(each.gain, 6.0)),
            "gain per token": _limited(each.gain) / each.tokens,
            "without": each.without,
            "over rival": _limited(each.gain - max(0.0, rival)),
            "is best": float(each.gain > max(0.0, rival)),
        }
    return found


LIKELY = 0.1
"""The least confidence of an edit that counts as a likely mistake."""


def other_mistakes(pool: Sequence[Measured], alone: Sequence[float]) -> list[float]:
    """Return how many mistakes of a passage are likely besides each edit and what it meets."""
    found: list[tuple[Measured, float]] = []
    for confidence, n in sorted(((p, n) for n, p in enumerate(alone) if p >= LIKELY), reverse=True):
        if not any(_meet(pool[n], other) for other, _ in found):
            found.append((pool[n], confidence))
    return [sum(p for other, p in found if not _meet(each, other)) for each in pool]


def rate(mistakes: float, words: int) -> float:
    """Return the logarithm of the mistakes per 100 words; short passages say little."""
    return log((mistakes + 0.3) / (words / 100 + 0.3))


def log_odds(probability: float) -> float:
    """Return the logarithm of the odds of a probability."""
    return log(probability / (1 - probability))


def early_features(pool: Sequence[Measured]) -> list[dict[str, float]]:
    """Return what is known of each edit before the text is compared with and without it."""
    from rapidfuzz.distance import OSA  # here, because every command imports this module

    wrong = [OSA.distance(each.candidate.before, each.candidate.after) for each in pool]
    nearest: dict[tuple[int, int], int] = {}
    for each, letters in zip(pool, wrong, strict=True):
        span = each.candidate.start, each.candidate.end
        nearest[span] = min(nearest.get(span, letters), letters)
    return [
        _early(each, letters, letters - nearest[each.candidate.start, each.candidate.end])
        for each, letters in zip(pool, wrong, strict=True)
    ]


def _early(each: Measured, letters: int, extra_letters: int) -> dict[str, float]:
    candidate = each.candidate
    before, after = candidate.before.strip(), candidate.after.strip()
    found = {
        "margin": _limited(each.margin),
        "margin up to 6": max(-6.0, min(each.margin, 6.0)),
        "first": max(-LARGEST_GAIN, each.first),
        "inserts": float(not before),
        "deletes": float(not after),
        "sources": float(len({each.source for each in candidate.suggestions}) - 1),
        "comma": float("," in (before, after) or before + "," == after or after + "," == before),
        "letters": float(letters),
        "letters share": letters / max(1, len(before), len(after)),
        "extra letters": float(extra_letters),
        "capital": float(before[:1].isupper()),
        "no change of words": float(before.lower() == after.lower()),
    }
    for one in candidate.suggestions:
        names = f"category {one.category}", f"rule {one.rule}", f"source {one.source}"
        found |= dict.fromkeys(names, 1.0)
    return found


def _logistic(saved: Mapping[str, Any]) -> Logistic:
    weights = {str(name): float(weight) for name, weight in saved["weights"].items()}
    return Logistic(constant=float(saved["constant"]), weights=weights)


def _limited(gain: float) -> float:
    return max(-LARGEST_GAIN, min(gain, LARGEST_GAIN))


def _meet(one: Measured, other: Measured) -> bool:
    a, b = one.candidate, other.candidate
    return a.start <= b.end and b.start <= a.end
