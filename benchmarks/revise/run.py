"""An editor against its rewriting twin: how good, how local, how many steps, how long.

Both come from the same base, pairs and budget (recipes/revise.yaml); texts longer than what they
learned on go in the same windows. Leaving the text alone is the third. Words are compared as
`sets.tokenize` parts them.

    python benchmarks/revise/run.py quality PAIRS EDITOR REWRITER -o results/revise/stories.json
    python benchmarks/revise/run.py cost DRAFTS EDITOR REWRITER -o results/revise/cost.json
    python benchmarks/revise/run.py precision PAIRS EDITOR   # writes EDITOR/calibration.json
    python benchmarks/revise/run.py watch PAIRS EDITOR -o results/revise/edits.jsonl

`docs/revise_results.py` makes the page of what these leave.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sets

import reviser
from reviser.data.files import write_json, write_whole
from reviser.data.pairs import Pair, read_pairs
from reviser.evals import intervals, revision
from reviser.generate import CALIBRATION, Reviser
from reviser.plans import windows

WINDOW, CONTEXT = 62, 12
"""Tokens: the longest texts that the models learned on."""
ENOUGH = 30
"""Fewest changes that say how many are right."""
SEED, WATCHED = 7, 10
BIASES = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What became of a draft."""

    text: str
    steps: int
    """Ids that the model chose, one after another in each window."""
    is_whole: bool
    """Whether the model ended by itself, everywhere."""


def leave(drafts: Sequence[str]) -> Iterator[Attempt]:
    """As it was."""
    for draft in drafts:
        yield Attempt(text=draft, steps=0, is_whole=True)


def edit(model: Reviser, **settings: Any) -> Callable[[Sequence[str]], Iterator[Attempt]]:
    """By an editor."""

    def attempts(drafts: Sequence[str]) -> Iterator[Attempt]:
        options = {"window": WINDOW, "context": CONTEXT} | settings
        for made in model.revise_many(drafts, **options):
            ends = {rollout.stop_reason for rollout in made.rollouts}
            yield Attempt(text=made.text, steps=made.actions, is_whole=ends == {"stop"})

    return attempts


def rewrite(model: Reviser) -> Callable[[Sequence[str]], Iterator[Attempt]]:
    """By a twin that writes each window anew behind it."""

    def plans(draft: str) -> Iterator[Any]:
        for _, start, end, _ in windows(model.codec, draft, WINDOW, 0):
            part = draft[start:end]
            most = 2 * len(model.codec.encode(part)) + 16
            yield model.plan(part, temperature=0.0, max_actions=most)

    def attempts(drafts: Sequence[str]) -> Iterator[Attempt]:
        asked = [list(plans(draft)) for draft in drafts]
        written = iter(model.write_many(plan for some in asked for plan in some))
        for some in asked:
            rollouts = list(islice(written, len(some)))
            texts = [each.text[len(each.prompt) :] for each in rollouts]
            steps = sum(each.statistics.actions for each in rollouts)
            ends = {each.stop_reason for each in rollouts}
            yield Attempt(text="".join(texts), steps=steps, is_whole=ends == {"stop"})

    return attempts


def quality(pairs: list[Pair], systems: dict[str, Any]) -> dict[str, Any]:
    """Every measure of every system, and the editor's to the twin's, with intervals."""
    drafts, sources = [pair.before for pair in pairs], [sets.tokenize(p.before) for p in pairs]
    references = [[sets.tokenize(pair.after)] for pair in pairs]
    told: dict[str, Any] = {"pairs": len(pairs), "systems": {}, "first": []}
    rows: dict[str, Any] = {}
    for name, system in systems.items():
        made = list(system(drafts))
        texts = [sets.tokenize(attempt.text) for attempt in made]
        measures = revision.revision(sources, texts, references)
        kept = [
            revision.locality(p.before, a.text, [p.after]) for p, a in zip(pairs, made, strict=True)
        ]
        measures["locality"] = intervals.ratio_of_means(
            [each.bytes for each in kept], [each.of for each in kept]
        )
        measures["steps"] = intervals.mean([attempt.steps for attempt in made])
        measures["whole"] = intervals.share([attempt.is_whole for attempt in made])
        rows[name] = revision.gleu_rows(sources, texts, references)
        told["systems"][name] = {
            **{key: asdict(value) for key, value in measures.items()},
            "median_steps": float(np.median([attempt.steps for attempt in made])),
            "parts": parts_of_the_loss(sources, texts, [r[0] for r in references]),
        }
        told["first"].append([name, *(attempt.text for attempt in made[:10])])
    if {"editor", "rewriter"} <= rows.keys():
        difference = intervals.bootstrap(
            lambda a, b: revision.gleu_score(a) - revision.gleu_score(b),
            rows["editor"],
            rows["rewriter"],
        )
        told["gleu_difference"] = asdict(difference)
    return told


def parts_of_the_loss(
    sources: list[str], texts: list[str], references: list[str]
) -> dict[str, Any]:
    """Of the changes wanted, those in the right place and those right; and those made in vain."""
    wanted = found = right = made = needless = 0
    untouched, quiet = 0, 0
    for source, text, reference in zip(sources, texts, references, strict=True):
        asked, done = (revision.edits_between(source, t) for t in (reference, text))
        places = {(each.start, each.end) for each in done}
        wanted, made = wanted + len(asked), made + len(done)
        found += sum((each.start, each.end) in places for each in asked)
        right += len({*asked} & {*done})
        if not asked:
            quiet, untouched = quiet + 1, untouched + (not done)
        spans = {(each.start, each.end) for each in asked}
        needless += sum((each.start, each.end) not in spans for each in done)
    return {
        "wanted": wanted,
        "made": made,
        "place_found": found / max(1, wanted),
        "content_right_there": right / max(1, found),
        "made_elsewhere": needless / max(1, made),
        "left_alone_if_right": untouched / max(1, quiet),
    }


def cost(drafts: list[dict[str, Any]], systems: dict[str, Any]) -> dict[str, Any]:
    """Steps and seconds by size of draft and number of mistakes, one draft at a time.

    Systems take turns draft by draft, so that a machine that gets slower is so for all.
    """
    names = [name for name in systems if name != "left alone"]
    for name in names:
        list(systems[name]([drafts[0]["draft"]]))  # what is compiled at the first call
    rows = []
    for draft in drafts:
        row = {key: draft[key] for key in ("size", "mistakes", "tokens")}
        for name in names:
            start = time.perf_counter()
            (attempt,) = systems[name]([draft["draft"]])
            seconds = time.perf_counter() - start
            row[name] = {"steps": attempt.steps, "seconds": seconds}
            row[name]["exact"] = attempt.text == draft["clean"]
        rows.append(row)
    return {"rows": rows, "window": WINDOW, "context": CONTEXT}


def precision(pairs: list[Pair], model: Reviser) -> list[tuple[float, ...]]:
    """Bias against going on; precision, recall, F0.5 and number of the changes that it gives."""
    sources = [sets.tokenize(pair.before) for pair in pairs]
    references = [[sets.tokenize(pair.after)] for pair in pairs]
    curve = []
    for bias in BIASES:
        made = edit(model, move_bias=-bias)([pair.before for pair in pairs])
        texts = [sets.tokenize(attempt.text) for attempt in made]
        counts = revision.edit_rows(sources, texts, references)
        scores = [f(counts) for f in (revision.edit_precision, revision.edit_recall)]
        curve.append((bias, *scores, revision.edit_f(counts), float(counts[:, 1].sum())))
        print(*(f"{value:.3f}" for value in curve[-1]), flush=True)
    return curve


def watch(pairs: list[Pair], model: Reviser) -> list[str]:
    """Ten revisions to look at, drawn by a seed from the pairs that need one."""
    wanted = [pair.before for pair in pairs if not pair.is_unchanged]
    drawn = np.random.default_rng(SEED).choice(len(wanted), WATCHED, replace=False)
    drafts = [wanted[n] for n in sorted(drawn.tolist())]
    made = model.revise_many(drafts, window=WINDOW, context=CONTEXT)
    return [rollout.to_json() for each in made for rollout in each.rollouts]


def facts(folder: Path) -> dict[str, Any]:
    """How a model was made."""
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    names = ("parameters", "seen", "flops", "metrics", "windows", "commit", "machine", "versions")
    kept = {name: record[name] for name in names if name in record}
    return kept | {"policy": record["recipe"]["policy"], "training": record["recipe"]["training"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["quality", "cost", "precision", "watch"])
    parser.add_argument("data", type=Path)
    parser.add_argument("models", nargs="+", type=Path, help="the editor, then the rewriter")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--first", type=int, default=600)
    given = parser.parse_args()
    opened = [reviser.load(folder) for folder in given.models]
    makers = [("editor", edit), ("rewriter", rewrite)]
    systems: dict[str, Any] = {"left alone": leave}
    systems |= {name: make(m) for (name, make), m in zip(makers, opened, strict=False)}
    if given.what == "cost":
        lines = given.data.read_text(encoding="utf-8").splitlines()
        told = cost([json.loads(line) for line in lines[: given.first]], systems)
    elif given.what == "watch":
        lines = watch(list(read_pairs(given.data)), opened[0])
        write_whole(given.output, "".join(f"{line}\n" for line in lines))
        opened[0].engine.vocab.save(given.output.parent)
        return
    else:
        pairs = list(islice(read_pairs(given.data), given.first))
        if given.what == "precision":
            curve = precision(pairs, opened[0])
            enough = [(bias, reached) for bias, reached, *_, made in curve if made >= ENOUGH]
            told = {"precision": enough, "curve": curve, "pairs": len(pairs)}
            told |= {"window": WINDOW, "context": CONTEXT}
            write_json(given.models[0] / CALIBRATION, told)
        else:
            told = quality(pairs, systems)
            told["models"] = {
                name: facts(folder) for (name, _), folder in zip(makers, given.models, strict=False)
            }
            for name, scores in told["systems"].items():
                told_here = {
                    k: v for k, v in scores.items() if isinstance(v, dict) and "value" in v
                }
                print(name, {key: round(each["value"], 3) for key, each in told_here.items()})
                print("  ", scores["parts"])
    if given.output is not None:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(given.output, told)


if __name__ == "__main__":
    main()
