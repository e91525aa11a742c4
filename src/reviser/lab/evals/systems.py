"""One system: what it wrote, and everything that can be measured without another model.

Diversity needs only the texts. If the texts are rollouts, the folder of the model that wrote them
gives the trajectory statistics and the cost of writing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reviser.core.actions import FILE_NAME, ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.errors import CheckpointError, DataError, ReviserError
from reviser.lab.evals import flops, trajectories
from reviser.lab.evals.diversity import diversity
from reviser.lab.evals.flops import Sizes
from reviser.lab.evals.texts import Sample
from reviser.lab.evals.trajectories import Walk
from reviser.models import hub, info
from reviser.provenance import digest
from reviser.writing.rollout import Rollout

EXAMPLES = 3
"""Number of texts of each system that a record shows."""


@dataclass(frozen=True, kw_only=True)
class System:
    """The samples of one system."""

    name: str
    samples: tuple[Sample, ...]
    folder: Path | None = None
    """Folder of the model that wrote the rollouts; by default, the one that they name."""

    def __post_init__(self) -> None:
        if not self.samples:
            raise DataError(f"System {self.name!r} has no samples.")

    @property
    def clusters(self) -> list[str]:
        """The prompt id of each sample."""
        return [sample.id for sample in self.samples]

    @property
    def digest(self) -> str:
        """A hash of the texts."""
        rows = [[s.id, s.prompt, s.continuation, s.reference] for s in self.samples]
        return digest(rows)


def describe(system: System) -> dict[str, Any]:
    """Return the record of a system, with empty lists for what other models measure."""
    rollouts = [sample.rollout for sample in system.samples if sample.rollout is not None]
    if rollouts and len(rollouts) < len(system.samples):
        raise DataError(f"Only some samples of {system.name!r} are rollouts: give all, or none.")
    record: dict[str, Any] = {
        "name": system.name,
        "samples": len(system.samples),
        "prompts": len({*system.clusters}),
        "empty": sum(not sample.continuation for sample in system.samples),
        "texts": system.digest,
        "model": None,
        "engine": None,
        "decoding": None,
        "stopped": None,
        "perplexity": [],
        "mauve": [],
        "diversity": {k: v.to_dict() for k, v in diversity(system.samples).items()},
        "trajectories": None,
        "cost": None,
        "examples": [
            {"prompt": sample.prompt, "continuation": sample.continuation}
            for sample in system.samples[:EXAMPLES]
        ],
    }
    if rollouts:
        record |= _describe_rollouts(system, rollouts)
    elif system.folder is not None:
        raise DataError(f"{system.name!r} has a model, but its samples are not rollouts.")
    return record


def _describe_rollouts(system: System, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return which model wrote the texts, with which settings, in which order and at what cost."""
    writers = sorted({str(r.provenance.get("model")) for r in rollouts})
    if len(writers) > 1 and system.folder is None:
        raise DataError(
            f"The rollouts of {system.name!r} are from several models, {writers[0]!r} and"
            f" {writers[1]!r} among them: give each model its own name."
        )
    folder = _model_folder(system, writers[0])
    vocab, codec = ActionVocab.load(folder), Codec.load(folder)
    for n, rollout in enumerate(rollouts, start=1):
        # The counts below mean nothing if the ids are read with another vocabulary.
        if _replayed_text(rollout, vocab, codec) != rollout.text:
            raise DataError(
                f"Rollout {n} of {system.name!r} does not replay to its text with the vocabulary"
                f" of {str(folder)!r}: name the folder of the model that wrote it."
            )
    walks = [Walk.of(rollout.trajectory, vocab) for rollout in rollouts]
    settings = [_settings(rollout) for rollout in rollouts]
    facts = {k: v for k, v in info.describe(folder).items() if k != "folder"}
    return {
        "model": facts | {"weights": hub.fingerprint(folder)},
        "engine": rollouts[0].provenance.get("engine"),
        "decoding": settings[0] if settings.count(settings[0]) == len(settings) else None,
        "stopped": dict(Counter(r.stop_reason for r in rollouts).most_common()),
        "trajectories": trajectories.statistics(walks, system.clusters).to_dict(),
        "cost": _cost(Sizes.of(folder), walks, system.clusters),
    }


def _cost(sizes: Sizes | None, walks: Sequence[Walk], clusters: list[str]) -> dict[str, Any] | None:
    """Return the cost relative to writing left to right, if it is defined for this trunk."""
    tokens = [walk.tokens for walk in walks]
    if sizes is None or min(tokens) < 0 or sum(tokens) == 0:
        return None
    cost = flops.multiplier(sizes, walks, clusters)
    return {
        "sizes": asdict(sizes),
        "measured": cost.measured.to_dict(),
        "without_given": cost.without_preamble.to_dict(),
        "analytic": cost.analytic,
    }


def _settings(rollout: Rollout) -> dict[str, Any]:
    return {name: value for name, value in asdict(rollout.config).items() if name != "seed"}


def _replayed_text(rollout: Rollout, vocab: ActionVocab, codec: Codec) -> str | None:
    """Return the text that a rollout's actions write, or None if they are invalid."""
    try:
        return codec.decode(Canvas.replay(vocab, rollout.trajectory.history(vocab)).tokens())
    except ReviserError:
        return None


def _model_folder(system: System, writer: str) -> Path:
    """Return the folder of the model that wrote the rollouts."""
    folder = system.folder or Path(writer)
    try:
        found = folder if folder.is_dir() else hub.find(writer)
    except CheckpointError as error:
        raise DataError(
            f"The rollouts of {system.name!r} were written by {writer!r}, which is not here. Name"
            f" the folder of that model: --model {system.name}=FOLDER."
        ) from error
    if not (found / FILE_NAME).is_file():
        raise DataError(
            f"{str(found)!r} is not a model that writes by editing: it has no {FILE_NAME}."
        )
    return found
