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
    ids_read: int = 0
    """Ids that the model read: what it was shown, as often as it was, and all that it chose."""


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
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {
            "trajectory": self.trajectory.to_dict(),
            "statistics": asdict(self.statistics),
            "locked": [asdict(part) for part in self.locked],
            "config": asdict(self.config),
        }

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Rollout:
        """Read what `to_json` returned."""
        try:
            saved = json.loads(text)
            return cls(
                prompt=str(saved["prompt"]),
                text=str(saved["text"]),
                trajectory=Trajectory.from_json(json.dumps(saved["trajectory"])),
                logprobs=tuple(map(float, saved["logprobs"])),
                stop_reason=_checked_reason(saved["stop_reason"]),
                statistics=Statistics(**saved["statistics"]),
                locked=tuple(Locked(**part) for part in saved["locked"]),
                config=DecodeConfig(**saved["config"]),
                provenance=dict(saved["provenance"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TrajectoryError(
                f"This is not a rollout ({error!r}): {str(text)[:80]!r}."
            ) from error


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A revised draft: the changes, and what they were made from."""

    changes: Changes
    suggestions: tuple[Change, ...] = ()
    """What was suggested and judged, kept or not, with gain and confidence; for a model that judges
    suggestions and writes no edits of its own."""
    rollouts: tuple[Rollout, ...] = ()
    """What a model that edits did, one for each window of the draft, from the left."""
    stop_reason: StopReason = "stop"
    """The reason of the first window that did not end by itself."""

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
        return {
            "text": self.text,
            **self.changes.to_dict(),
            "suggestions": [asdict(change) for change in self.suggestions],
            "rollouts": [rollout.to_dict() for rollout in self.rollouts],
            "stop_reason": self.stop_reason,
        }

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Revision:
        """Read what `to_json` returned."""
        changes = Changes.from_json(text)
        try:
            saved = json.loads(text)
            return cls(
                changes=changes,
                suggestions=tuple(Change(**each) for each in saved["suggestions"]),
                rollouts=tuple(Rollout.from_json(json.dumps(each)) for each in saved["rollouts"]),
                stop_reason=_checked_reason(saved["stop_reason"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"This is not a revision ({error!r}): {str(text)[:80]!r}.") from error


def _checked_reason(reason: Any) -> StopReason:
    if reason not in get_args(StopReason):
        raise ValueError(f"stop_reason {reason!r}")
    found: StopReason = reason
    return found
