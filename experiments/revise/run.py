"""An editor against its twins: how good, how local, how many steps, how long.

One twin writes every text anew, another search-and-replace blocks, if it is given. All come from
the same base, pairs and budget (recipes/revise.yaml); texts longer than what they learned on go in
the same windows. Leaving the text alone is one more. Words are compared as `sets.tokenize` parts
them.

    cd benchmarks/revise
    python run.py quality PAIRS EDITOR REWRITER BLOCKS -o ../../results/revise/stories.json
    python run.py arms PAIRS EDITOR EDITOR ... -o ../../results/revise/arms.json
    python run.py cost DRAFTS EDITOR REWRITER BLOCKS -o ../../results/revise/cost.json
    python run.py speculation DRAFTS EDITOR REWRITER -o ../../results/revise/speculation.json
    python run.py ideal DRAFTS EDITOR -o ../../results/revise/ideal.json
    python run.py router DRAFTS EDITOR REWRITER -o ../../results/revise/router.json
    python run.py precision PAIRS EDITOR   # writes EDITOR/calibration.json
    python run.py watch PAIRS EDITOR -o ../../results/revise/edits.jsonl

An editor that learned to note (`policy: {noted: true}`) reads a draft first and edits where it
noted something; `arms` measures it without that, too. `speculation` needs vLLM.
`docs/revise_results.py` makes the page of what these leave.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import router
import sets

import reviser
from reviser import ActionVocab, Codec
from reviser.data import blocks
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
NOTES = 0.5
"""How likely a change must be for an editor that notes to try it."""
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What became of a draft."""

    text: str
    steps: int
    """Ids that the model chose, one after another in each window, and one more for each that was
    read first and then gone on with."""
    is_whole: bool
    """Whether the model ended by itself, everywhere."""
    faults: tuple[str, ...] = ()
    """Of edits that could not be made, why."""


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
            read = 0
            if options.get("notes") is not None:  # where all was locked, nothing was noted
                locked = ([part.text for part in rollout.locked] for rollout in made.rollouts)
                read = sum(a != [b.prompt] for a, b in zip(locked, made.rollouts, strict=True))
            yield Attempt(text=made.text, steps=made.actions + read, is_whole=ends == {"stop"})

    return attempts


def rewrite(
    model: Reviser, read: Callable[[str, str], blocks.Applied] = lambda _, text: (text, ())
) -> Callable[[Sequence[str]], Iterator[Attempt]]:
    """By a twin that writes behind each window; `read` makes its revision of the two."""

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
            made = [read(each.prompt, each.text[len(each.prompt) :]) for each in rollouts]
            ends = {each.stop_reason for each in rollouts}
            yield Attempt(
                text="".join(text for text, _ in made),
                steps=sum(each.statistics.actions for each in rollouts),
                is_whole=ends == {"stop"},
                faults=tuple(fault for _, faults in made for fault in faults),
            )

    return attempts


def replace_blocks(model: Reviser) -> Callable[[Sequence[str]], Iterator[Attempt]]:
    """By a twin that writes search-and-replace blocks; those that can be done are done."""
    return rewrite(model, blocks.apply)


def speculate(model: Reviser) -> Callable[[Sequence[str]], Iterator[Attempt]]:
    """By a twin whose engine counts its forwards, one draft after another."""
    engine: Any = model.engine

    def attempts(drafts: Sequence[str]) -> Iterator[Attempt]:
        for draft in drafts:
            before = engine.forwards
            (attempt,) = rewrite(model)([draft])
            yield replace(attempt, steps=engine.forwards - before)

    return attempts


MAKERS = {"editor": edit, "rewriter": rewrite, "blocks": replace_blocks}


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
        measures["malformed"] = intervals.share([bool(attempt.faults) for attempt in made])
        rows[name] = revision.gleu_rows(sources, texts, references)
        told["systems"][name] = {
            **{key: asdict(value) for key, value in measures.items()},
            "median_steps": float(np.median([attempt.steps for attempt in made])),
            "parts": parts_of_the_loss(sources, texts, [r[0] for r in references]),
            "faults": Counter(fault for attempt in made for fault in attempt.faults),
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


def cost(
    drafts: list[dict[str, Any]],
    systems: dict[str, Any],
    repeats: int = 1,
    busy: Callable[[], float] = time.process_time,
) -> dict[str, Any]:
    """Steps and seconds by size of draft and number of mistakes, one draft at a time.

    Systems take turns draft by draft, so that a machine that gets slower is so for all.
    """
    names = [name for name in systems if name != "left alone"]
    for name in names:
        list(systems[name]([drafts[0]["draft"]]))  # what is compiled at the first call
    rows = []
    for draft in drafts * repeats:
        row = {key: draft[key] for key in ("id", "size", "mistakes", "tokens")}
        for name in names:
            start, used = time.perf_counter(), busy()
            (attempt,) = systems[name]([draft["draft"]])
            seconds, used = time.perf_counter() - start, busy() - used
            row[name] = {"steps": attempt.steps, "seconds": seconds, "processor": used}
            row[name]["exact"] = attempt.text == draft["clean"]
        rows.append(row)
        print(json.dumps(row), flush=True)
    return {"rows": rows, "window": WINDOW, "context": CONTEXT, "repeats": repeats}


def speculation(
    drafts: list[dict[str, Any]], folders: Sequence[Path], repeats: int
) -> dict[str, Any]:
    """What a rewriter costs on vLLM with n-gram speculation and without, and what an editor does.

    The editor has the mask; the rewriter, which only writes, has none.
    """
    from speculation import LOOKUP, SMALL, Bare, busy

    notes = notes_of(folders[0])
    with ThreadPoolExecutor() as pool:  # each opens in a process of its own
        editor = pool.submit(reviser.load, folders[0], engine="vllm", **SMALL)
        plain, ahead = (pool.submit(Bare.open, folders[1], each) for each in (None, LOOKUP))
    models = {"editor": editor.result(), "rewriter": plain.result(), "n-gram": ahead.result()}
    systems = {n: speculate(m) for n, m in models.items() if n != "editor"}
    systems = {"editor": edit(models["editor"], notes=notes), **systems}
    told = cost(drafts, systems, repeats, busy)
    told |= {"versions": models["editor"].engine.versions, "lookup": LOOKUP}
    for model in models.values():
        model.engine.close()
    return told


def route(
    drafts: list[dict[str, Any]], editor: Reviser, rewriter: Reviser, notes: float | None
) -> dict[str, Any]:
    """How well it can be told which of the two takes fewer steps, and what telling it saves."""
    texts = [draft["draft"] for draft in drafts]
    asked = {"window": WINDOW, "context": CONTEXT, "max_edits": 0, "max_moves": 0}
    known = [
        router.Known(
            windows=len(first.rollouts),
            tokens=draft["tokens"],
            going=sum(1 - np.exp(rollout.logprobs[0]) for rollout in first.rollouts),
        )
        for draft, first in zip(drafts, editor.revise_many(texts, **asked), strict=True)
    ]
    systems = edit(editor, notes=notes), rewrite(rewriter)
    steps = [[a.steps for a in system(texts)] for system in systems]
    return router.judged(known, *steps, [draft["clean"] for draft in drafts])


def precision(pairs: list[Pair], model: Reviser, notes: float | None) -> list[tuple[float, ...]]:
    """A value; precision, recall, F0.5 and number of the changes that it gives.

    It is how likely a change must be, or a bias against going on where nothing is noted.
    """
    sources = [sets.tokenize(pair.before) for pair in pairs]
    references = [[sets.tokenize(pair.after)] for pair in pairs]
    curve = []
    for value in BIASES if notes is None else SHARES:
        setting = {"move_bias": -value} if notes is None else {"notes": value}
        made = edit(model, **setting)([pair.before for pair in pairs])
        texts = [sets.tokenize(attempt.text) for attempt in made]
        counts = revision.edit_rows(sources, texts, references)
        scores = [f(counts) for f in (revision.edit_precision, revision.edit_recall)]
        curve.append((value, *scores, revision.edit_f(counts), float(counts[:, 1].sum())))
        print(*(f"{each:.3f}" for each in curve[-1]), flush=True)
    return curve


def watch(pairs: list[Pair], model: Reviser, notes: float | None) -> list[str]:
    """Ten revisions to look at, drawn by a seed from the pairs that need one."""
    wanted = [pair.before for pair in pairs if not pair.is_unchanged]
    drawn = np.random.default_rng(SEED).choice(len(wanted), WATCHED, replace=False)
    drafts = [wanted[n] for n in sorted(drawn.tolist())]
    made = model.revise_many(drafts, window=WINDOW, context=CONTEXT, notes=notes)
    return [
        replace(each, provenance=each.provenance | {"model": "the editor"}).to_json()
        for revised in made
        for each in revised.rollouts
    ]


def notes_of(folder: Path) -> float | None:
    """NOTES for a model that learned to note."""
    return NOTES if policy_of(folder).get("noted") else None


def policy_of(folder: Path) -> dict[str, Any]:
    """How a model was taught."""
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    policy: dict[str, Any] = record["recipe"]["policy"]
    return policy


def arms(pairs: list[Pair], folders: list[Path]) -> dict[str, Any]:
    """Editors that were taught in several ways."""
    systems: dict[str, Any] = {"left alone": leave}
    models: dict[str, Any] = {}
    for folder in folders:
        model, made, policy = reviser.load(folder), facts(folder), policy_of(folder)
        name = f"{policy['address']}, {made['seen']['ids'] / 1e6:.1f} million ids"
        if policy.get("rewritten"):
            name += f", {policy['rewritten']:.0%} rewritten"
        if policy.get("noted"):
            name += ", noted"
            systems[f"{name}, read first"] = edit(model, notes=NOTES)
        systems[name] = edit(model)
        models[name] = made
    return quality(pairs, systems) | {"models": models}


def facts(folder: Path) -> dict[str, Any]:
    """How a model was made."""
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    names = ("parameters", "seen", "flops", "metrics", "windows", "commit", "machine", "versions")
    kept = {name: record[name] for name in names if name in record}
    return kept | {"policy": record["recipe"]["policy"], "training": record["recipe"]["training"]}


def show(told: dict[str, Any]) -> None:
    """Print the measures without their intervals."""
    for name, scores in told["systems"].items():
        values = {k: v["value"] for k, v in scores.items() if isinstance(v, dict) and "value" in v}
        print(name, {key: round(value, 3) for key, value in values.items()})
        print("  ", scores["parts"], dict(scores["faults"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "what",
        choices=[
            *("quality", "arms", "cost", "speculation", "ideal", "router", "precision", "watch")
        ],
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("models", nargs="+", type=Path, help=", then ".join(MAKERS))
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--first", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=1, help="of cost and speculation")
    given = parser.parse_args()
    drafts = []
    if given.what in ("cost", "speculation", "ideal", "router"):
        lines = given.data.read_text(encoding="utf-8").splitlines()
        drafts = [json.loads(line) for line in lines[: given.first]]
    if given.what in ("speculation", "ideal"):
        if given.what == "speculation":
            told = speculation(drafts, given.models, given.repeats)
        else:
            folder = given.models[0]
            told = router.ideal(ActionVocab.load(folder), Codec.load(folder), drafts)
        write_json(given.output, told)
        return
    if given.what == "arms":
        told = arms(list(islice(read_pairs(given.data), given.first)), given.models)
        show(told)
        write_json(given.output, told)
        return
    opened = [reviser.load(folder) for folder in given.models]
    named, notes = dict(zip(MAKERS, opened, strict=False)), notes_of(given.models[0])
    systems: dict[str, Any] = {"left alone": leave, "editor": edit(opened[0], notes=notes)}
    systems |= {name: MAKERS[name](model) for name, model in named.items() if name != "editor"}
    if given.what == "cost":
        told = cost(drafts, systems, given.repeats)
    elif given.what == "router":
        told = route(drafts, *opened[:2], notes)
        print(json.dumps(told, indent=1))
    elif given.what == "watch":
        lines = watch(list(read_pairs(given.data)), opened[0], notes)
        write_whole(given.output, "".join(f"{line}\n" for line in lines))
        opened[0].engine.vocab.save(given.output.parent)
        return
    else:
        pairs = list(islice(read_pairs(given.data), given.first))
        if given.what == "precision":
            curve = precision(pairs, opened[0], notes)
            enough = [(value, reached) for value, reached, *_, made in curve if made >= ENOUGH]
            told = {"precision": enough, "curve": curve, "pairs": len(pairs)}
            told["by"] = "move_bias" if notes is None else "notes"
            told |= {"window": WINDOW, "context": CONTEXT}
            write_json(given.models[0] / CALIBRATION, told)
        else:
            told = quality(pairs, systems) | {"notes": notes}
            told["models"] = {
                name: facts(folder) for name, folder in zip(named, given.models, strict=True)
            }
            show(told)
    if given.output is not None:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(given.output, told)


if __name__ == "__main__":
    main()
