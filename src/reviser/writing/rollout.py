"""Results: what a model wrote or changed, with every action, and how to save it as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_args

from reviser.core.trajectory import Trajectory
from reviser.engines.base import DecodeConfig, StopReason
from reviser.errors import DataError, TrajectoryError
from reviser.writing.changes import Change, Changes

__all__ = ["Locked", "Revision", "Rollout", "Statistics"]


@dataclass(frozen=True, kw_only=True)
class Locked:
    """A stretch of locked text, and proof that it was not changed."""

    text: str
    before: str
    """SHA-256 of its bytes as they were given."""
    after: str
    """SHA-256 of the bytes at its position in the result."""


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Counts of what a rollout did."""

    actions: int
    """Ids that the model chose, STOP and arguments included."""
    edits: int
    """Actions that changed the text."""
    moves: int
    """Actions that moved the cursor."""
    tokens_before: int
    """Length of the text at the start; for a window of a draft without its context."""
    tokens_after: int


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A text that a model wrote, and every action that led to it."""

    prompt: str
    """The text as it was given, gaps included."""
    text: str
    trajectory: Trajectory
    """All actions. The `no_loss` ones were not chosen by the model: they write the text after a
    gap and take the cursor back."""
    logprobs: tuple[float, ...]
    """The model's log-probability of each chosen action, before mask, bias and temperature."""
    stop_reason: StopReason
    statistics: Statistics
    locked: tuple[Locked, ...]
    config: DecodeConfig
    suggested: tuple[Change, ...] = ()
    """What the word lists suggested for a draft where an edit is likely, each with its gain: how
    much more likely the model finds the text with it. Positions count characters of `prompt`."""
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {
            "trajectory": self.trajectory.to_dict(),
            "statistics": asdict(self.statistics),
            "locked": [asdict(part) for part in self.locked],
            "config": asdict(self.config),
            "suggested": [asdict(each) for each in self.suggested],
        }

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Rollout:
        """Read what `to_json` returned."""
        try:
            saved = json.loads(text)
            if saved["stop_reason"] not in get_args(StopReason):
                raise ValueError(f"stop_reason {saved['stop_reason']!r}")
            return cls(
                prompt=str(saved["prompt"]),
                text=str(saved["text"]),
                trajectory=Trajectory.from_json(json.dumps(saved["trajectory"])),
                logprobs=tuple(map(float, saved["logprobs"])),
                stop_reason=saved["stop_reason"],
                statistics=Statistics(**saved["statistics"]),
                locked=tuple(Locked(**part) for part in saved["locked"]),
                config=DecodeConfig(**saved["config"]),
                suggested=tuple(Change(**each) for each in saved.get("suggested", ())),
                provenance=dict(saved["provenance"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TrajectoryError(
                f"This is not a rollout ({error!r}): {str(text)[:80]!r}."
            ) from error


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A revised draft: the changes, and the rollouts that they came from."""

    changes: Changes
    rollouts: tuple[Rollout, ...]
    """One for each window of the draft, from the left. Suggestions with too little confidence are
    not among `changes`."""

    @property
    def text(self) -> str:
        """The draft with all changes made."""
        return self.changes.text

    @property
    def actions(self) -> int:
        """Number of ids that the model chose."""
        return sum(rollout.statistics.actions for rollout in self.rollouts)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        rollouts = [rollout.to_dict() for rollout in self.rollouts]
        return {"text": self.text, **self.changes.to_dict(), "rollouts": rollouts}

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Revision:
        """Read what `to_json` returned."""
        changes = Changes.from_json(text)
        try:
            parts = json.loads(text)["rollouts"]
            rollouts = [Rollout.from_json(json.dumps(part)) for part in parts]
        except (KeyError, TypeError) as error:
            raise DataError(f"This is not a revision ({error!r}): {str(text)[:80]!r}.") from error
        return cls(changes=changes, rollouts=tuple(rollouts))
