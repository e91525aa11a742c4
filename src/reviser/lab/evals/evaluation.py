"""The record of an evaluation: every measure that applies, and each system against the first.

This module knows which measures exist, but not how they work. Each result is saved immediately,
under a hash of everything it depends on, so a restart measures only what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reviser.errors import ConfigError, DataError
from reviser.files import write_json
from reviser.lab.evals import arena, intervals, mauve, perplexity
from reviser.lab.evals.intervals import Estimate
from reviser.lab.evals.systems import System, describe
from reviser.lab.evals.texts import FORMAT, REFERENCE, Sample
from reviser.models import hub, trunks
from reviser.provenance import digest, made_with

__all__ = ["Measures", "Progress", "System", "device_of", "evaluate", "features_of"]

Progress = Callable[[str, int, int], None]
"""Called with the name of a measure, how much of it is done, and its total."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The measures that need models; everything else is always measured."""

    scorers: tuple[str, ...] = ()
    """Causal LMs for evalPPL, by folder or hub name."""
    mauve: tuple[str, ...] = ()
    """Features for MAUVE: `pll:NAME` of a masked LM, or `last:NAME`, a hidden state."""
    judge: arena.Judge | None = None
    order: arena.Order = "both"
    device: str = "auto"
    """Device for the models; `auto` takes an accelerator if there is one."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names for models in the record, where they differ from folder or hub name."""

    def check(self) -> None:
        """Raise an error for everything that cannot be measured, before any work is done."""
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
    cache: Path | None = None,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Measure all systems, and compare the first with each of the others.

    `cache` is a folder for finished results; a restart reads them from there.
    """
    measures = measures or Measures()
    names = [system.name for system in systems]
    if not systems or len({*names, REFERENCE}) <= len(names):
        raise ConfigError(f"Each system needs its own name, other than {REFERENCE!r}; got {names}.")
    measures.check()
    measures = replace(measures, device=device_of(measures.device))
    pairs = [(systems[0], other, _pairs(systems[0], other)) for other in systems[1:]]
    if measures.judge is not None and not pairs:
        raise DataError("An arena needs two systems or more.")
    measured = [*systems, *_reference(systems)]
    records = [describe(system) for system in measured]
    store = _Cache(cache)
    scores: dict[tuple[str, str], dict[str, Any]] = {}
    for scorer in measures.scorers:
        for system, found in _perplexities(scorer, measured, measures, store, progress):
            scores[scorer, system.name] = found
            summary = {k: v for k, v in found.items() if k not in ("nll", "tokens")}
            records[measured.index(system)]["perplexity"].append(summary)
    for features in measures.mauve:
        for system, found in _mauves(features, systems, measures, store, progress):
            records[measured.index(system)]["mauve"].append(found)
    comparisons = []
    for ours, theirs, matched in pairs:
        ratios = [
            {
                "scorer": measures.names.get(scorer, scorer),
                "ratio": _ratio(ours, theirs, scores, scorer).to_dict(),
            }
            for scorer in measures.scorers
        ]
        match = _arena(matched, measures, cache, progress) if measures.judge else None
        comparisons.append(
            {"systems": [ours.name, theirs.name], "perplexity_ratio": ratios, "arena": match}
        )
    return {
        "format": FORMAT,
        "systems": records,
        "comparisons": comparisons,
        "made_with": made_with("torch", "transformers", "scikit-learn", "numpy"),
    }


def _pairs(ours: System, theirs: System) -> list[arena.SamplePair]:
    """Pair the samples of two systems, which must have continued the same prompts."""
    try:
        return arena.pair_up(ours.samples, theirs.samples)
    except DataError as error:
        raise DataError(f"{ours.name!r} and {theirs.name!r} cannot be compared: {error}") from error


def _reference(systems: Sequence[System]) -> Iterator[System]:
    """Yield the documents as a system, each once, if every prompt has a reference."""
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


# -- measures that need a model -------------------------------------------------------------------


def _perplexities(
    name: str, systems: Sequence[System], measures: Measures, store: _Cache, progress: Progress
) -> Iterator[tuple[System, dict[str, Any]]]:
    """Yield the evalPPL of each system under one scorer, which is opened only if it is needed."""
    weights, device = hub.fingerprint(trunks.find(name)), measures.device
    called = measures.names.get(name, name)
    opened: list[perplexity.Scorer] = []
    for system in systems:

        def measure(system: System = system) -> dict[str, Any]:
            if not opened:
                opened.append(perplexity.Scorer.load(name, device=device))
            stage = f"evalPPL of {system.name} under {called}"
            found = perplexity.evaluate(
                opened[0], system.samples, progress=partial(progress, stage)
            )
            return {
                "scorer": found.scorer | {"model": called},
                "perplexity": found.perplexity.to_dict(),
                "bits_per_character": found.bits_per_character.to_dict(),
                "empty": found.empty,
                "longer": found.longer,
                "nll": [score.nll for score in found.scores],
                "tokens": [score.tokens for score in found.scores],
            }

        depends = [FORMAT, "perplexity", called, weights, device, system.digest]
        yield system, store.get(depends, measure)


def _mauves(
    features: str, systems: Sequence[System], measures: Measures, store: _Cache, progress: Progress
) -> Iterator[tuple[System, dict[str, Any]]]:
    """Yield the MAUVE of each system against the documents, with one kind of features."""
    kind, name = features_of(features)
    for system in systems:
        mauve.references_of(system.samples)  # raises before a model is opened
    weights, device = hub.fingerprint(trunks.find(name)), measures.device
    called = measures.names.get(name, name)
    extract = mauve.pseudo_log_likelihoods if kind == "pll" else mauve.hidden_states
    extract_once = mauve.remembered(partial(extract, name, device=device))

    def depends(system: System) -> list[Any]:
        return [FORMAT, "mauve", kind, called, weights, device, system.digest]

    pending = [system for system in systems if depends(system) not in store]
    if pending:  # in one call, so that the model is opened once
        samples = [sample for system in pending for sample in system.samples]
        progress(f"features by {kind}:{called}", 0, len(samples))
        extract_once([*mauve.references_of(samples), *(sample.continuation for sample in samples)])
    for n, system in enumerate(systems):

        def measure(system: System = system) -> dict[str, Any]:
            found = mauve.evaluate(system.samples, extract_once)
            return {
                "features": found.features | {"model": called},
                "clusters": found.clusters,
                "mauve": found.mauve.to_dict(),
            }

        progress(f"MAUVE by {kind}:{called}", n, len(systems))
        yield system, store.get(depends(system), measure)
    progress(f"MAUVE by {kind}:{called}", len(systems), len(systems))


def features_of(features: str) -> tuple[str, str]:
    """Split the features of MAUVE into their kind and the name of their model."""
    kind, _, name = features.partition(":")
    if kind not in ("pll", "last") or not name:
        raise ConfigError(
            f"{features!r} does not name features for MAUVE. Give pll:NAME of a masked LM or"
            " last:NAME."
        )
    return kind, name


def device_of(name: str) -> str:
    """Return the name of a usable device; `auto` is an accelerator if there is one."""
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
    """Return the ratio of two perplexities; all texts of a prompt are resampled together."""
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
    pairs: list[arena.SamplePair], measures: Measures, cache: Path | None, progress: Progress
) -> dict[str, Any]:
    assert measures.judge is not None
    names = [sample.system for sample in pairs[0]]
    match = arena.play(
        pairs,
        measures.judge,
        order=measures.order,
        journal=None if cache is None else cache / "verdicts.jsonl",
        progress=partial(progress, f"arena: {names[0]} against {names[1]}"),
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


class _Cache:
    """Results on disk, each in a file named by a hash of what it depends on."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def __contains__(self, depends: list[Any]) -> bool:
        return self._folder is not None and self._path(depends).is_file()

    def _path(self, depends: list[Any]) -> Path:
        assert self._folder is not None
        return self._folder / f"{digest(depends)[:32]}.json"

    def get(self, depends: list[Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the saved result, or measure and save it."""
        if self._folder is None:
            return measure()
        path = self._path(depends)
        if depends not in self:
            write_json(path, {"depends": depends, "result": measure()})
        result: dict[str, Any] = json.loads(path.read_text("utf-8"))["result"]
        return result
