"""A model's ability to revise drafts: saved next to the weights, read when the model is opened.

This module does not import torch, so a client of a vLLM server can read it too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reviser.core.actions import ActionVocab
from reviser.errors import CheckpointError, ConfigError, reason_of
from reviser.files import read_object, write_json

FILE_NAME = "editing.json"
CALIBRATION = "calibration.json"
"""Measured precision by edit probability, as folders held it before there was `editing.json`."""


@dataclass(frozen=True)
class Editing:
    """The abilities of a model that was trained on edits; other models have none."""

    edit_probabilities: bool = False
    """True if it was trained to give the probability that a word of a draft needs an edit."""
    calibration: tuple[tuple[float, float], ...] = ()
    """Pairs of an edit probability and the precision of the changes that were made with it as the
    minimum, as measured on held-out text."""
    threshold: float = 0.5
    """The minimum edit probability of `revise` unless a caller asks for another."""
    label_delay: int = 0
    """Number of further tokens that the model reads before it judges a position in the draft."""
    delimiters: int = 0
    """Delimiters after the draft, at which the last positions are judged."""
    among_controls: bool = False
    """True if edit probabilities are shares among the control ids, not among all ids."""
    has_route: bool = False
    """True if the searches are made for the model: it is taken to each position that may need an
    edit, and writes the edit there."""

    def minimum(self, asked: float | None = None, precision: float | None = None) -> float:
        """Return the lowest probability at which a word may be edited; 0 if all words may be.

        A precision chooses the lowest one whose measured precision reaches it.

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
        if precision is None:
            return self.threshold if asked is None else asked
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
        return max(min(enough), asked or 0.0)

    def save(self, folder: str | Path) -> None:
        """Write `editing.json` into a model folder."""
        write_json(Path(folder) / FILE_NAME, asdict(self))

    @classmethod
    def load(cls, folder: str | Path) -> Editing | None:
        """Read what a model folder says about editing; None if the model was not trained on edits.

        Folders that were saved before there was `editing.json` have the recipe in `run.json`, and
        maybe a `calibration.json`.
        """
        folder = Path(folder)
        vocab = ActionVocab.load(folder)
        if vocab.delete is None and vocab.span_delete is None:
            return None
        try:
            saved = _read(folder / FILE_NAME)
            return _from_dict(saved) if saved else _from_training(folder)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"Cannot read how {str(folder)!r} was trained to edit: {reason_of(error)}. Delete"
                f" its {FILE_NAME} or {CALIBRATION} if it is damaged."
            ) from error


def not_an_editor(name: str) -> ConfigError:
    """Return the error for a model that was asked to revise and was not trained to."""
    return ConfigError(
        f"{name} was not trained to edit, so it cannot revise a draft. Use generate or infill with"
        " it, or train an editor with recipes/revise.yaml."
    )


def _read(path: Path) -> dict[str, Any]:
    return read_object(path, CheckpointError) if path.is_file() else {}


def _from_dict(saved: dict[str, Any]) -> Editing:
    return Editing(
        edit_probabilities=bool(saved["edit_probabilities"]),
        calibration=tuple((float(a), float(b)) for a, b in saved.get("calibration", ())),
        threshold=float(saved.get("threshold", Editing.threshold)),
        label_delay=int(saved.get("label_delay", 0)),
        delimiters=int(saved.get("delimiters", 0)),
        among_controls=bool(saved.get("among_controls", False)),
        has_route=bool(saved.get("has_route", False)),
    )


def _from_training(folder: Path) -> Editing | None:
    """Return what the recipe and the calibration of an older folder say."""
    calibration = _read(folder / CALIBRATION)
    policy = _read(folder / "run.json").get("recipe", {}).get("policy", {})
    if policy.get("kind") != "edits" and not calibration:
        return None
    # A calibration by move_bias, as some folders have, says nothing about edit probabilities.
    is_usable = calibration.get("by") == "notes"
    points = calibration["precision"] if is_usable else ()
    return Editing(
        edit_probabilities=bool(policy.get("edit_probabilities", policy.get("noted", is_usable))),
        calibration=tuple((float(least), float(reached)) for least, reached in points),
        threshold=_best(calibration.get("curve", ())) if is_usable else Editing.threshold,
    )


def _best(curve: Any) -> float:
    """Return the edit probability with the highest F0.5 of a curve, the fourth number of a row."""
    rows = [(float(row[3]), float(row[0])) for row in curve]
    return max(rows)[1] if rows else Editing.threshold
