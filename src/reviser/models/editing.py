"""A model's ability to revise drafts: saved next to the weights, read when the model is opened.

This module does not import torch, so a client of a vLLM server can read it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reviser.core.actions import ActionVocab
from reviser.errors import CheckpointError, ConfigError, reason_of
from reviser.files import read_object, write_json
from reviser.trajectories.refresh import Refresh

FILE_NAME = "editing.json"


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
    refresh: Refresh | None = None
    """When it is shown the text again, in place of its past actions: as it was trained."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError("threshold must be a number from 0 to 1")
        if not all(0 <= each <= 1 for pair in self.calibration for each in pair):
            raise ConfigError("calibration must be pairs of numbers from 0 to 1")

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
        return max(self._calibrated(precision), asked or 0.0)

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
        write_json(Path(folder) / FILE_NAME, asdict(self))

    @classmethod
    def load(cls, folder: str | Path) -> Editing | None:
        """Read what a folder says about editing; None if the model was not trained on edits."""
        folder = Path(folder)
        vocab = ActionVocab.load(folder)
        can_delete = vocab.delete is not None or vocab.span_delete is not None
        if not can_delete or not (folder / FILE_NAME).is_file():
            return None
        try:
            return _from_dict(read_object(folder / FILE_NAME, CheckpointError))
        except (LookupError, TypeError, ValueError, ConfigError) as error:
            raise CheckpointError(
                f"Cannot read how {str(folder)!r} was trained to edit: {reason_of(error)}. Delete"
                f" its {FILE_NAME} if it is damaged."
            ) from error


def check_can_revise(editing: Editing | None, name: str) -> None:
    """Refuse to revise with a model that was not trained to."""
    if editing is None:
        raise ConfigError(
            f"{name} was not trained to edit, so it cannot revise a draft. Use generate or infill"
            " with it, or train an editor with recipes/revise.yaml."
        )


def _from_dict(saved: Mapping[str, Any]) -> Editing:
    return Editing(
        edit_probabilities=bool(saved["edit_probabilities"]),
        calibration=tuple((float(a), float(b)) for a, b in saved.get("calibration", ())),
        threshold=float(saved.get("threshold", Editing.threshold)),
        refresh=Refresh(**saved["refresh"]) if saved.get("refresh") else None,
    )
