"""Compare an editor with its baselines: quality, locality, steps and time.

All models come from the same base, pairs and budget (`recipes/revise.yaml`); see `systems.py`.
Words are compared as `gec_sets.tokenize` splits them.

    python -m experiments.revise.run quality PAIRS EDITOR REWRITER BLOCKS
    python -m experiments.revise.run arms PAIRS EDITOR EDITOR ...
    python -m experiments.revise.run cost DRAFTS EDITOR REWRITER BLOCKS
    python -m experiments.revise.run ideal DRAFTS EDITOR
    python -m experiments.revise.run precision PAIRS EDITOR   # also writes EDITOR/editing.json
    python -m experiments.revise.run watch PAIRS EDITOR

Results go to `experiments/revise/results`, from which `experiments.revise.report` makes the page.
An editor that predicts edit probabilities reads each draft first and edits only where a change is
likely enough; `arms` also measures it without reading first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import reviser
from experiments.revise.fewest_steps import fewest_steps
from experiments.revise.gec_sets import tokenize
from experiments.revise.systems import CONTEXT, MAKERS, WINDOW, edit, leave
from reviser import ActionVocab, Codec
from reviser.data.pairs import Pair, read_pairs
from reviser.files import write_json, write_whole
from reviser.lab.evals import intervals, revision
from reviser.model import Reviser
from reviser.models.editing import Editing
from reviser.writing.tasks import Revise

RESULTS = Path(__file__).parent / "results"
FEWEST_CHANGES = 30
"""The fewest changes from which a precision is estimated."""
SEED, WATCHED = 7, 10
MIN_PROBABILITY = 0.5
"""The edit probability from which an editor that predicts one edits a word."""
PROBABILITIES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DEFAULT_FILES = {"quality": "stories.json", "watch": "edits.jsonl"}
"""Result files that are not named after their command."""


def quality(pairs: list[Pair], systems: dict[str, Any]) -> dict[str, Any]:
    """Return every measure of every system, and the editor's GLEU minus the rewriter's."""
    drafts, sources = [pair.before for pair in pairs], [tokenize(p.before) for p in pairs]
    references = [[tokenize(pair.after)] for pair in pairs]
    found: dict[str, Any] = {"pairs": len(pairs), "systems": {}, "first": []}
    rows: dict[str, Any] = {}
    for name, system in systems.items():
        made = list(system(drafts))
        texts = [tokenize(attempt.text) for attempt in made]
        measures = revision.revision(sources, texts, references)
        kept = [
            revision.locality(p.before, a.text, [p.after]) for p, a in zip(pairs, made, strict=True)
        ]
        measures["locality"] = intervals.ratio_of_means(
            [each.bytes for each in kept], [each.of for each in kept]
        )
        measures["steps"] = intervals.mean([attempt.steps for attempt in made])
        measures["whole"] = intervals.share([attempt.is_whole for attempt in made])
        measures["malformed"] = intervals.share([bool(attempt.faults) for attempt in made])
        rows[name] = revision.gleu_rows(sources, texts, references)
        found["systems"][name] = {
            **{key: asdict(value) for key, value in measures.items()},
            "median_steps": float(np.median([attempt.steps for attempt in made])),
            "parts": parts_of_the_loss(sources, texts, [r[0] for r in references]),
            "faults": Counter(fault for attempt in made for fault in attempt.faults),
        }
        found["first"].append([name, *(attempt.text for attempt in made[:10])])
    if {"editor", "rewriter"} <= rows.keys():
        difference = intervals.bootstrap(
            lambda a, b: revision.gleu_score(a) - revision.gleu_score(b),
            rows["editor"],
            rows["rewriter"],
        )
        found["gleu_difference"] = asdict(difference)
    return found


def parts_of_the_loss(
    sources: list[str], texts: list[str], references: list[str]
) -> dict[str, Any]:
    """Return how many wanted changes are at the right position, how many are right, and the rest.

    The rest are changes at positions where none was wanted.
    """
    wanted = located = right = made = needless = 0
    untouched, quiet = 0, 0
    for source, text, reference in zip(sources, texts, references, strict=True):
        asked, done = (revision.edits_between(source, t) for t in (reference, text))
        changed = {(each.start, each.end) for each in done}
        wanted, made = wanted + len(asked), made + len(done)
        located += sum((each.start, each.end) in changed for each in asked)
        right += len({*asked} & {*done})
        if not asked:
            quiet, untouched = quiet + 1, untouched + (not done)
        spans = {(each.start, each.end) for each in asked}
        needless += sum((each.start, each.end) not in spans for each in done)
    return {
        "wanted": wanted,
        "made": made,
        "place_found": located / max(1, wanted),
        "content_right_there": right / max(1, located),
        "made_elsewhere": needless / max(1, made),
        "left_alone_if_right": untouched / max(1, quiet),
    }


def cost(drafts: list[dict[str, Any]], systems: dict[str, Any], repeats: int = 1) -> dict[str, Any]:
    """Return steps and seconds by draft size and number of mistakes, one draft at a time.

    Systems take turns on each draft, so that a machine that slows down slows all of them.
    """
    names = [name for name in systems if name != "left alone"]
    for name in names:
        list(systems[name]([drafts[0]["draft"]]))  # compiles what the first call compiles
    rows = []
    for draft in drafts * repeats:
        row = {key: draft[key] for key in ("id", "size", "mistakes", "tokens")}
        for name in names:
            start, used = time.perf_counter(), time.process_time()
            (attempt,) = systems[name]([draft["draft"]])
            seconds, used = time.perf_counter() - start, time.process_time() - used
            row[name] = {"steps": attempt.steps, "seconds": seconds, "processor": used}
            row[name]["exact"] = attempt.text == draft["clean"]
        rows.append(row)
        print(json.dumps(row), flush=True)
    return {"rows": rows, "window": WINDOW, "context": CONTEXT, "repeats": repeats}


def precision(pairs: list[Pair], model: Reviser) -> list[tuple[float, ...]]:
    """Return rows of edit probability, precision, recall, F0.5 and number of changes."""
    sources = [tokenize(pair.before) for pair in pairs]
    references = [[tokenize(pair.after)] for pair in pairs]
    curve = []
    for value in PROBABILITIES:
        made = edit(model, min_edit_probability=value)([pair.before for pair in pairs])
        texts = [tokenize(attempt.text) for attempt in made]
        counts = revision.edit_rows(sources, texts, references)
        scores = [f(counts) for f in (revision.edit_precision, revision.edit_recall)]
        curve.append((value, *scores, revision.edit_f(counts), float(counts[:, 1].sum())))
        print(*(f"{each:.3f}" for each in curve[-1]), flush=True)
    return curve


def watch(pairs: list[Pair], model: Reviser, probability: float) -> list[str]:
    """Return ten revisions for the player, drawn by a seed from the pairs that need a change."""
    wanted = [pair.before for pair in pairs if not pair.is_unchanged]
    drawn = np.random.default_rng(SEED).choice(len(wanted), WATCHED, replace=False)
    drafts = [wanted[n] for n in sorted(drawn.tolist())]
    options: dict[str, Any] = {"window": WINDOW, "context": CONTEXT}
    options["min_edit_probability"] = probability
    made = model.run_many(Revise(draft, **options) for draft in drafts)
    return [
        replace(each, provenance=each.provenance | {"model": "the editor"}).to_json()
        for revised in made
        for each in revised.rollouts
    ]


def arms(pairs: list[Pair], folders: list[Path]) -> dict[str, Any]:
    """Return the measures of editors that were trained in different ways."""
    systems: dict[str, Any] = {"left alone": leave}
    models: dict[str, Any] = {}
    for folder in folders:
        model, made, policy = reviser.load(folder), facts(folder), policy_of(folder)
        name = f"{policy['address']}, {made['seen']['ids'] / 1e6:.1f} million ids"
        if gives_probabilities(policy):
            name += ", edit probabilities"
            systems[f"{name}, read first"] = edit(model, min_edit_probability=MIN_PROBABILITY)
        systems[name] = edit(model)
        models[name] = made
    return quality(pairs, systems) | {"models": models}


def policy_of(folder: Path) -> dict[str, Any]:
    """Return the policy that a model was trained with."""
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    policy: dict[str, Any] = record["recipe"]["policy"]
    return policy


def gives_probabilities(policy: dict[str, Any]) -> bool:
    """Return whether a policy trains edit probabilities."""
    return bool(policy.get("edit_probabilities", False))


def min_probability(folder: Path) -> float:
    """Return MIN_PROBABILITY for a model that predicts edit probabilities, 0 for others."""
    return MIN_PROBABILITY if gives_probabilities(policy_of(folder)) else 0.0


def facts(folder: Path) -> dict[str, Any]:
    """Return how a model was made."""
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    names = ("parameters", "seen", "flops", "metrics", "windows", "commit", "machine", "versions")
    kept = {name: record[name] for name in names if name in record}
    return kept | {"policy": record["recipe"]["policy"], "training": record["recipe"]["training"]}


def show(found: dict[str, Any]) -> None:
    """Print the measures without their intervals."""
    for name, scores in found["systems"].items():
        values = {k: v["value"] for k, v in scores.items() if isinstance(v, dict) and "value" in v}
        print(name, {key: round(value, 3) for key, value in values.items()})
        print("  ", scores["parts"], dict(scores["faults"]))


# -- commands -------------------------------------------------------------------------------------


def on_drafts(given: argparse.Namespace) -> dict[str, Any]:
    """Run a command that reads drafts: cost or ideal."""
    lines = given.data.read_text(encoding="utf-8").splitlines()
    drafts = [json.loads(line) for line in lines[: given.first]]
    folder = given.models[0]
    if given.command == "ideal":
        return fewest_steps(ActionVocab.load(folder), Codec.load(folder), drafts)
    return cost(drafts, systems_of(given.models), given.repeats)


def on_pairs(given: argparse.Namespace) -> dict[str, Any]:
    """Run a command that reads pairs: quality, arms or precision."""
    pairs = list(islice(read_pairs(given.data), given.first))
    if given.command == "precision":
        curve = precision(pairs, reviser.load(given.models[0]))
        enough = [(value, right) for value, right, *_, made in curve if made >= FEWEST_CHANGES]
        best = max(curve, key=lambda row: row[3])[0]
        editing = Editing(edit_probabilities=True, calibration=tuple(enough), threshold=best)
        editing.save(given.models[0])
        found = {"precision": enough, "curve": curve, "pairs": len(pairs)}
        return found | {"window": WINDOW, "context": CONTEXT}
    if given.command == "arms":
        found = arms(pairs, given.models)
    else:
        found = quality(pairs, systems_of(given.models))
        found |= {"min_edit_probability": min_probability(given.models[0])}
        found["models"] = {n: facts(f) for n, f in zip(MAKERS, given.models, strict=False)}
    show(found)
    return found


def systems_of(folders: Sequence[Path]) -> dict[str, Any]:
    """Return "left alone" and the systems of the model folders, in the order of MAKERS."""
    systems: dict[str, Any] = {"left alone": leave}
    for (name, make), folder in zip(MAKERS.items(), folders, strict=False):
        options = {"min_edit_probability": min_probability(folder)} if name == "editor" else {}
        systems[name] = make(reviser.load(folder), **options)
    return systems


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = ("quality", "arms", "cost", "ideal", "precision", "watch")
    parser.add_argument("command", choices=commands)
    parser.add_argument("data", type=Path, help="A file of pairs or drafts.")
    parser.add_argument("models", nargs="+", type=Path, help=f"Folders: {', then '.join(MAKERS)}.")
    parser.add_argument("-o", "--output", type=Path, help="Default: a file in results/.")
    parser.add_argument("--first", type=int, default=600, help="Number of pairs or drafts to use.")
    parser.add_argument("--repeats", type=int, default=1, help="Times that `cost` runs each draft.")
    given = parser.parse_args(words)
    file = DEFAULT_FILES.get(given.command, f"{given.command}.json")
    output = given.output or RESULTS / file
    output.parent.mkdir(parents=True, exist_ok=True)
    if given.command == "watch":
        folder = given.models[0]
        model = reviser.load(folder)
        lines = watch(list(read_pairs(given.data)), model, min_probability(folder))
        write_whole(output, "".join(f"{line}\n" for line in lines))
        model.engine.vocab.save(output.parent)
        return
    found = (on_drafts if given.command in ("cost", "ideal") else on_pairs)(given)
    write_json(output, found)


if __name__ == "__main__":
    main()
