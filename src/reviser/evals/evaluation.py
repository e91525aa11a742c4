"""Systems in, one record out: every measure that applies, and each system against the first.

Knows which measures there are, not how they work. What was measured is kept in a folder at once,
under a hash of all that it depends on, so a restart measures only what is missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reviser.core.actions import FILE_NAME, ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.errors import CheckpointError, ConfigError, DataError, ReviserError
from reviser.evals import arena, flops, intervals, mauve, perplexity, trajectories
from reviser.evals.diversity import diversity
from reviser.evals.flops import Sizes
from reviser.evals.intervals import Estimate
from reviser.evals.texts import FORMAT, REFERENCE, Sample
from reviser.evals.trajectories import Walk
from reviser.files import write_json
from reviser.models import hub, info, trunks
from reviser.provenance import digest, made_with
from reviser.writing.model import Rollout

EXAMPLES = 3
"""Texts of each system that a record shows."""

Tell = Callable[[str, int, int], None]
"""Told what is being measured, how much of it is done, and of how much."""


@dataclass(frozen=True, kw_only=True)
class System:
    """What one system wrote."""

    name: str
    samples: tuple[Sample, ...]
    folder: Path | None = None
    """Of its model, if it writes by editing; otherwise the one that its rollouts name."""

    def __post_init__(self) -> None:
        if not self.samples:
            raise DataError(f"System {self.name!r} has no samples.")

    @property
    def clusters(self) -> list[str]:
        """The prompt of each sample."""
        return [sample.id for sample in self.samples]

    @property
    def digest(self) -> str:
        """Tells these texts from others."""
        rows = [[s.id, s.prompt, s.continuation, s.reference] for s in self.samples]
        return digest(rows)


@dataclass(frozen=True, kw_only=True)
class Measures:
    """What is measured with the help of models; the rest always is."""

    scorers: tuple[str, ...] = ()
    """Causal LMs, by folder or hub name, that evalPPL is taken under."""
    mauve: tuple[str, ...] = ()
    """Features, as `pll:NAME` for a masked LM, `last:NAME` or `mean:NAME` for hidden states."""
    judge: arena.Judge | None = None
    order: arena.Order = "both"
    device: str = "auto"
    """Where models run; an accelerator, if there is one, when it is left to us."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What a model is called in the record, if not by the name it is opened with."""

    def check(self) -> None:
        """Refuse what cannot be measured, before anything is."""
        device_of(self.device)
        for name in self.scorers:
            folder = trunks.find(name)
            hub.weights_in(folder)
            perplexity.check_scorer(folder)
        if self.mauve:
            mauve.check_installed()
        for features in self.mauve:
            hub.weights_in(trunks.find(features_of(features)[1]))


def evaluate(
    systems: Sequence[System],
    measures: Measures | None = None,
    *,
    kept: Path | None = None,
    tell: Tell = lambda *_: None,
) -> dict[str, Any]:
    """Measure everything; the first system is compared with each of the others.

    `kept` is a folder for what is measured so far.
    """
    measures = measures or Measures()
    names = [system.name for system in systems]
    if not systems or len({*names, REFERENCE}) <= len(names):
        raise ConfigError(f"Systems need names of their own, and not {REFERENCE!r}; got {names}.")
    measures.check()
    measures = replace(measures, device=device_of(measures.device))
    pairs = [(systems[0], other, _pairs(systems[0], other)) for other in systems[1:]]
    if measures.judge is not None and not pairs:
        raise DataError("An arena needs two systems or more.")
    given = [*systems, *_reference(systems)]
    records = [_without_models(system) for system in given]
    store = _Store(kept)
    scores: dict[tuple[str, str], dict[str, Any]] = {}
    for scorer in measures.scorers:
        for system, found in _perplexities(scorer, given, measures, store, tell):
            scores[scorer, system.name] = found
            shown = {k: v for k, v in found.items() if k not in ("nll", "tokens")}
            records[given.index(system)]["perplexity"].append(shown)
    for features in measures.mauve:
        for system, found in _mauves(features, systems, measures, store, tell):
            records[given.index(system)]["mauve"].append(found)
    comparisons = []
    for ours, theirs, matched in pairs:
        ratios = [
            {
                "scorer": measures.names.get(scorer, scorer),
                "ratio": _ratio(ours, theirs, scores, scorer).to_dict(),
            }
            for scorer in measures.scorers
        ]
        match = _arena(matched, measures, kept, tell) if measures.judge else None
        comparisons.append(
            {"systems": [ours.name, theirs.name], "perplexity_ratio": ratios, "arena": match}
        )
    return {
        "format": FORMAT,
        "systems": records,
        "comparisons": comparisons,
        "made_with": made_with("torch", "transformers", "scikit-learn", "numpy"),
    }


def _pairs(ours: System, theirs: System) -> list[arena.Pair]:
    """Refuses systems that did not continue the same prompts."""
    try:
        return arena.pair_up(ours.samples, theirs.samples)
    except DataError as error:
        raise DataError(f"{ours.name!r} and {theirs.name!r} do not compare: {error}") from error


def _reference(systems: Sequence[System]) -> Iterator[System]:
    """The documents as a system, each once, if every prompt has its own."""
    unique = {sample.id: sample for sample in systems[0].samples}
    if all(sample.reference is not None for sample in unique.values()):
        yield System(
            name=REFERENCE,
            samples=tuple(
                Sample(
                    system=REFERENCE,
                    id=sample.id,
                    prompt=sample.prompt,
                    continuation=sample.reference or "",
                )
                for sample in unique.values()
            ),
        )


# -- what needs no model but the system's own folder ----------------------------------------------


def _without_models(system: System) -> dict[str, Any]:
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
        "order_map": None,
        "cost": None,
        "examples": [
            {"prompt": sample.prompt, "continuation": sample.continuation}
            for sample in system.samples[:EXAMPLES]
        ],
    }
    if rollouts:
        record |= _of_rollouts(system, rollouts)
    elif system.folder is not None:
        raise DataError(f"{system.name!r} has a model, but its samples are no rollouts.")
    return record


def _of_rollouts(system: System, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """How the texts were written, by what, and what that cost."""
    writers = sorted({str(r.provenance.get("model")) for r in rollouts})
    if len(writers) > 1 and system.folder is None:
        raise DataError(
            f"The rollouts of {system.name!r} are of several models, {writers[0]!r} and"
            f" {writers[1]!r} among them: give each a name of its own."
        )
    folder = _folder(system, writers[0])
    vocab, codec = ActionVocab.load(folder), Codec.load(folder)
    for n, rollout in enumerate(rollouts, start=1):
        if _replayed(rollout, vocab, codec) != rollout.text:
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
        "order_map": trajectories.order_map(walks).round(6).tolist(),
        "cost": _cost(Sizes.of(folder), walks, system.clusters),
    }


def _cost(sizes: Sizes | None, walks: Sequence[Walk], clusters: list[str]) -> dict[str, Any] | None:
    """Against writing left to right, if that can be said of such texts and such a trunk."""
    tokens = [walk.tokens for walk in walks]
    if sizes is None or min(tokens) < 0 or sum(tokens) == 0:
        return None
    cost = flops.multiplier(sizes, walks, clusters)
    return {
        "sizes": asdict(sizes),
        "measured": cost.measured.to_dict(),
        "without_given": cost.without_given.to_dict(),
        "analytic": cost.analytic,
    }


def _settings(rollout: Rollout) -> dict[str, Any]:
    return {name: value for name, value in asdict(rollout.config).items() if name != "seed"}


def _replayed(rollout: Rollout, vocab: ActionVocab, codec: Codec) -> str | None:
    """The text that a rollout's actions give, if they can be replayed."""
    try:
        return codec.decode(Canvas.replay(vocab, rollout.trajectory.history(vocab)).tokens())
    except ReviserError:
        return None


def _folder(system: System, named: str) -> Path:
    """The folder of the model that wrote the rollouts."""
    folder = system.folder or Path(named)
    try:
        found = folder if folder.is_dir() else hub.find(named)
    except CheckpointError as error:
        raise DataError(
            f"The rollouts of {system.name!r} were written by {named!r}, which is not here. Name"
            f" the folder of that model: --model {system.name}=FOLDER."
        ) from error
    if not (found / FILE_NAME).is_file():
        raise DataError(f"{str(found)!r} is no model that writes by editing: no {FILE_NAME}.")
    return found


# -- what needs a model ---------------------------------------------------------------------------


def _perplexities(
    name: str, systems: Sequence[System], measures: Measures, store: _Store, tell: Tell
) -> Iterator[tuple[System, dict[str, Any]]]:
    """Of each system, under one scorer, which is opened only if something is to be measured."""
    weights, device = hub.fingerprint(trunks.find(name)), measures.device
    called = measures.names.get(name, name)
    opened: list[perplexity.Scorer] = []
    for system in systems:

        def measure(system: System = system) -> dict[str, Any]:
            if not opened:
                opened.append(perplexity.Scorer.load(name, device=device))
            what = f"evalPPL of {system.name} under {called}"
            found = perplexity.evaluate(opened[0], system.samples, progress=partial(tell, what))
            return {
                "scorer": found.scorer | {"model": called},
                "perplexity": found.perplexity.to_dict(),
                "bits_per_character": found.bits_per_character.to_dict(),
                "empty": found.empty,
                "joined": found.joined,
                "longer": found.longer,
                "nll": [score.nll for score in found.scores],
                "tokens": [score.tokens for score in found.scores],
            }

        depends = [FORMAT, "perplexity", called, weights, device, system.digest]
        yield system, store.get(depends, measure)


def _mauves(
    given: str, systems: Sequence[System], measures: Measures, store: _Store, tell: Tell
) -> Iterator[tuple[System, dict[str, Any]]]:
    """Of each system against the documents, by one kind of features."""
    kind, name = features_of(given)
    for system in systems:
        mauve.references_of(system.samples)  # refuses before a model is opened
    weights, device = hub.fingerprint(trunks.find(name)), measures.device
    called = measures.names.get(name, name)
    extract = (
        partial(mauve.pseudo_log_likelihoods, name, device=device)
        if kind == "pll"
        else partial(mauve.hidden_states, name, pool=kind, device=device)  # type: ignore[arg-type]
    )
    remember = mauve.remembered(extract)

    def depends(system: System) -> list[Any]:
        return [FORMAT, "mauve", kind, called, weights, device, system.digest]

    pending = [system for system in systems if depends(system) not in store]
    if pending:  # all at once, so that the model is opened once
        samples = [sample for system in pending for sample in system.samples]
        tell(f"features by {kind}:{called}", 0, len(samples))
        remember([*mauve.references_of(samples), *(sample.continuation for sample in samples)])
    for n, system in enumerate(systems):

        def measure(system: System = system) -> dict[str, Any]:
            found = mauve.evaluate(system.samples, remember)
            return {
                "features": found.features | {"model": called},
                "clusters": found.clusters,
                "mauve": found.mauve.to_dict(),
            }

        tell(f"MAUVE by {kind}:{called}", n, len(systems))
        yield system, store.get(depends(system), measure)
    tell(f"MAUVE by {kind}:{called}", len(systems), len(systems))


def features_of(given: str) -> tuple[str, str]:
    """The kind of features, and the model they are of."""
    kind, _, name = given.partition(":")
    if kind not in ("pll", "last", "mean") or not name:
        raise ConfigError(
            f"MAUVE's features are {given!r}; give pll:NAME of a masked LM, last:NAME or mean:NAME."
        )
    return kind, name


def device_of(name: str) -> str:
    """The device that is meant, if it can be used."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise ConfigError(f"The device {name!r} cannot be used: {reason}") from error
    return name


def _ratio(
    ours: System, theirs: System, scores: dict[tuple[str, str], dict[str, Any]], scorer: str
) -> Estimate:
    """Perplexity over perplexity; what continues one prompt is drawn together."""
    prompts = sorted({*ours.clusters})
    sums = [
        np.bincount(np.searchsorted(prompts, system.clusters), scores[scorer, system.name][column])
        for system in (ours, theirs)
        for column in ("nll", "tokens")
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        try:
            return intervals.bootstrap(_perplexity_ratio, *sums, batched=True)
        except DataError:  # some draws have no tokens at all
            value = float(_perplexity_ratio(*sums))
            return Estimate(value=value, low=-np.inf, high=np.inf, n=len(prompts), method="none")


def _perplexity_ratio(nll: Any, tokens: Any, their_nll: Any, their_tokens: Any) -> Any:
    return np.exp(nll.sum(-1) / tokens.sum(-1) - their_nll.sum(-1) / their_tokens.sum(-1))


def _arena(
    pairs: list[arena.Pair], measures: Measures, kept: Path | None, tell: Tell
) -> dict[str, Any]:
    assert measures.judge is not None
    names = [sample.system for sample in pairs[0]]
    match = arena.play(
        pairs,
        measures.judge,
        order=measures.order,
        journal=None if kept is None else kept / "verdicts.jsonl",
        progress=partial(tell, f"arena: {names[0]} against {names[1]}"),
    )
    estimates = {
        name: found and found.to_dict()
        for name, found in (
            ("win_rate", match.win_rate),
            ("shown_first", match.shown_first),
            ("consistent", match.consistent),
        )
    }
    counts = {name: getattr(match, name) for name in ("wins", "losses", "ties", "invalid")}
    rest = {"is_biased": match.is_biased, "judge": match.judge, "order": match.order}
    return estimates | counts | rest


class _Store:
    """What was measured, each result in a file named by a hash of what it depends on."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def __contains__(self, depends: list[Any]) -> bool:
        return self._folder is not None and self._path(depends).is_file()

    def _path(self, depends: list[Any]) -> Path:
        assert self._folder is not None
        return self._folder / f"{digest(depends)[:32]}.json"

    def get(self, depends: list[Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result from the folder, or else measured now and put there."""
        if self._folder is None:
            return measure()
        path = self._path(depends)
        if depends not in self:
            write_json(path, {"depends": depends, "result": measure()})
        result: dict[str, Any] = json.loads(path.read_text("utf-8"))["result"]
        return result
