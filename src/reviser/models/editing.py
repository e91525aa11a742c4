"""A model's ability to revise drafts: saved next to the weights, read when the model is opened.

This module does not import torch, so a client of a vLLM server can read it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import exp
from pathlib import Path
from typing import Any, get_args

from reviser.core.actions import ActionVocab
from reviser.errors import CheckpointError, ConfigError, reason_of
from reviser.files import read_object, write_json
from reviser.models.wordlists import Source, WordLists

FILE_NAME = "editing.json"
MAX_COUNT = 64
"""Limit of the counts in a model folder, so that a damaged one cannot ask for too much."""
MAX_WEIGHT = 1000
"""Largest weight of a confidence; those of real models are below 10."""


@dataclass(frozen=True)
class Editing:
    """The abilities of a model that was trained on edits; other models have none."""

    edit_probabilities: bool = False
    """True if it was trained to give the probability that a word of a draft needs an edit."""
    calibration: tuple[tuple[float, float], ...] = ()
    """Pairs of an edit probability, or of a confidence if the model weighs suggestions, and the
    precision of the changes that were made with it as the minimum, as measured on held-out text."""
    threshold: float = 0.5
    """The minimum edit probability of `revise` unless a caller asks for another."""
    label_delay: int = 0
    """Number of further tokens that the model reads before it judges a position in the draft."""
    delimiters: int = 0
    """Delimiters after the draft, at which the last positions are judged."""
    among_controls: bool = False
    """True if edit probabilities are shares among the control ids, not among all ids."""
    min_confidence: float = 0.5
    """The least confidence of a change that is kept."""
    most_gain: float = 12.0
    """The largest gain that counts for a change's confidence, in nats."""
    writes_edits: bool = True
    """False if the model writes no changes of its own, and only weighs what the word lists
    suggest."""
    suggestions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Weights of the confidence in what the word lists suggest, by their source: a constant, one
    for the log-probability that the position needs an edit and one for the change's gain. Their sum
    is the log-odds that the change is right. Empty if there are no lists."""
    lists: WordLists | None = field(default=None, compare=False, repr=False)
    """The word lists of the folder, for a model that has `suggestions`."""

    def __post_init__(self) -> None:
        for name in ("label_delay", "delimiters"):
            if not 0 <= getattr(self, name) <= MAX_COUNT:
                raise ConfigError(f"{name} must be a number from 0 to {MAX_COUNT}")
        for name in ("threshold", "min_confidence"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be a number from 0 to 1")
        if not 0 < self.most_gain < 1000:
            raise ConfigError("most_gain must be above 0 and below 1000")
        if not {*self.suggestions} <= {*get_args(Source)} - {"model"} or not all(
            len(weights) == 3 and _are_weights(weights) for weights in self.suggestions.values()
        ):
            raise ConfigError(
                f"suggestions must be three numbers up to {MAX_WEIGHT:,} for each source of"
                " suggestions"
            )
        if not all(0 <= each <= 1 for pair in self.calibration for each in pair):
            raise ConfigError("calibration must be pairs of numbers from 0 to 1")
        if self.delimiters > self.label_delay + 1:
            raise ConfigError("delimiters must be at most label_delay + 1")
        if self.writes_edits and self.suggestions:
            raise ConfigError("a model that weighs suggestions has writes_edits: false")

    @property
    def compares(self) -> bool:
        """True if the model compares the text with and without each suggestion, to choose by."""
        return bool(self.suggestions)

    @property
    def runs_on_vllm(self) -> bool:
        """True unless it needs what vLLM does not report: how likely any control id is."""
        return not (self.edit_probabilities and self.among_controls)

    def minimum(self, asked: float | None = None, precision: float | None = None) -> float:
        """Return the lowest probability at which a word may be edited; 0 if all words may be.

        A precision chooses the lowest one whose measured precision reaches it; for a model that
        weighs suggestions, it chooses among confidences instead, see `least_confidence`.

        >>> editor = Editing(True, calibration=((0.3, 0.6), (0.5, 0.7), (0.8, 0.9)))
        >>> editor.minimum(), editor.minimum(precision=0.65), editor.minimum(0.7, precision=0.65)
        (0.5, 0.5, 0.7)
        """
        if not self.edit_probabilities:
            if asked or precision is not None:
                raise ConfigError(
                    "This model was not trained to give edit probabilities: leave out"
                    " min_edit_probability and precision, or train an editor that gives them with"
                    " recipes/revise.yaml."
                )
            return 0.0
        if precision is None or self.compares:
            return self.threshold if asked is None else asked
        return max(self._calibrated(precision), asked or 0.0)

    def least_confidence(self, precision: float | None = None) -> float:
        """Return the lowest confidence of changes that are kept; 0 if the model gives none.

        >>> weights, measured = {"list": (0.0, 1.0, 1.0)}, ((0.3, 0.6), (0.7, 0.9))
        >>> editor = Editing(True, measured, writes_edits=False, suggestions=weights)
        >>> editor.least_confidence(), editor.least_confidence(precision=0.8)
        (0.5, 0.7)
        """
        if not self.compares:
            return 0.0
        return self.min_confidence if precision is None else self._calibrated(precision)

    def confidence_of(self, logprob: float, gain: float, source: Source) -> float | None:
        """Return the probability that a suggestion is right; None if the model gives none."""
        weights = self.suggestions.get(source)
        if not weights:
            return None
        # Logistic regression on suggestions of which it was known whether they are right
        # (experiments/proofreader/calibrate.py), with gains up to `most_gain`.
        constant, by_logprob, by_gain = weights
        odds = constant + by_logprob * logprob + by_gain * self.limited(gain)
        return 1 / (1 + exp(-max(-50.0, min(odds, 50.0))))

    def limited(self, gain: float) -> float:
        """Return a gain, as far as it counts for a change's confidence."""
        return max(-self.most_gain, min(gain, self.most_gain))

    def _calibrated(self, precision: float) -> float:
        """Return the lowest minimum whose measured precision reaches the one asked for."""
        if not self.calibration:
            raise ConfigError(
                "This model has no calibration, so it is not known which edit probability reaches"
                " a precision. Pass min_edit_probability instead: 0.5 is a good start, and a higher"
                " value makes fewer changes that are more often right."
            )
        enough = [least for least, reached in self.calibration if reached >= precision]
        if not enough:
            best = max(reached for _, reached in self.calibration)
            raise ConfigError(
                f"precision is {precision}; the highest that was measured for this model is {best}."
            )
        return min(enough)

    def save(self, folder: str | Path) -> None:
        """Write `editing.json` into a model folder."""
        saved = {each.name: getattr(self, each.name) for each in fields(self)}
        del saved["lists"]
        write_json(Path(folder) / FILE_NAME, saved)

    @classmethod
    def load(cls, folder: str | Path) -> Editing | None:
        """Read what a folder says about editing; None if the model was not trained on edits."""
        folder = Path(folder)
        vocab = ActionVocab.load(folder)
        can_delete = vocab.delete is not None or vocab.span_delete is not None
        if not can_delete or not (folder / FILE_NAME).is_file():
            return None
        try:
            editing = _from_dict(read_object(folder / FILE_NAME, CheckpointError))
            _check_actions(editing, vocab)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"Cannot read how {str(folder)!r} was trained to edit: {reason_of(error)}. Delete"
                f" its {FILE_NAME} if it is damaged."
            ) from error
        return replace(editing, lists=WordLists.load(folder)) if editing.suggestions else editing


def check_ability(editing: Editing | None, name: str, *, revises: bool) -> None:
    """Refuse to revise with a model that was not trained to, or to write with one that cannot."""
    if revises and editing is None:
        raise ConfigError(
            f"{name} was not trained to edit, so it cannot revise a draft. Use generate or infill"
            " with it, or train an editor with recipes/revise.yaml."
        )
    if not revises and editing is not None and not editing.writes_edits:
        raise ConfigError(
            f"{name} only revises drafts and does not write. Use `reviser revise` with it, or"
            " generate and infill with another model."
        )


def check_vllm(editing: Editing | None, name: str) -> None:
    """Refuse a model whose edit probabilities vLLM cannot give."""
    if editing is not None and not editing.runs_on_vllm:
        raise ConfigError(
            f"{name} gives edit probabilities as shares among the control ids, which vLLM does not"
            " report. Use engine 'hf'."
        )


def _are_weights(numbers: Iterable[float]) -> bool:
    return all(abs(each) <= MAX_WEIGHT for each in numbers)


def _check_actions(editing: Editing, vocab: ActionVocab) -> None:
    """Refuse what a vocabulary has no actions for."""
    if editing.delimiters and vocab.delimiter is None:
        raise ConfigError("delimiters needs a vocabulary with `delimiter`, which this one lacks")
    if editing.suggestions and not editing.edit_probabilities:
        raise ConfigError("suggestions need edit_probabilities")


def _from_dict(saved: dict[str, Any]) -> Editing:
    return Editing(
        edit_probabilities=bool(saved["edit_probabilities"]),
        calibration=tuple((float(a), float(b)) for a, b in saved.get("calibration", ())),
        threshold=float(saved.get("threshold", Editing.threshold)),
        label_delay=int(saved.get("label_delay", 0)),
        delimiters=int(saved.get("delimiters", 0)),
        among_controls=bool(saved.get("among_controls", False)),
        min_confidence=float(saved.get("min_confidence", Editing.min_confidence)),
        most_gain=float(saved.get("most_gain", Editing.most_gain)),
        writes_edits=bool(saved.get("writes_edits", Editing.writes_edits)),
        suggestions={
            str(name): tuple(map(float, weights))
            for name, weights in saved.get("suggestions", {}).items()
        },
    )
