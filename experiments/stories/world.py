"""The story world: arms of one trunk and one budget, trained, rolled out and measured.

The text is sampled from a model that is then the judge, so a text's perplexity under it is exact
with respect to the distribution that the arms learn. Every arm gets the same training FLOPs, which
decide its steps; arms differ in the policy alone. Each step leaves a file and is not done again.

    python benchmarks/world.py prepare WORLD                  # stories-*.jsonl there -> shards
    python benchmarks/world.py run late-1 append --world WORLD --judge STORIES15M
    python docs/results.py                                    # the page of what was committed

WORLD is a folder with the output of sample_corpus.py; runs go to WORLD/runs, and what is worth
keeping of each to results/world.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import diffusion
import grounding
import numpy as np
import numpy.typing as npt
import torch
from sample_corpus import divergence

import reviser
from reviser import batch, models
from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import UNITS, Codec, read_tokenizer
from reviser.core.order_tax import policy_cost
from reviser.data.dataset import NO_LABEL, Stream, held_out_documents
from reviser.data.files import write_json, write_whole
from reviser.data.shards import tokenize
from reviser.data.tokenizer import train_bpe
from reviser.evals import evaluation, flops, intervals, texts
from reviser.evals.evaluation import Measures, System
from reviser.evals.texts import Protocol
from reviser.generate import Rollout
from reviser.train import parts
from reviser.train.recipe import Recipe, load_recipe
from reviser.train.run import train

HERE = Path(__file__).resolve().parent.parent
RECIPE = HERE / "recipes" / "world.yaml"
RESULTS = HERE / "results" / "world"
NOWHERE = Path()
"""For the output of what makes nothing, since the recipe names shards and tokenizer."""

BUDGETS = {"screen": 1, "full": 5}
"""Multiples of the least budget."""
PROMPTS = {"screen": 300, "full": 1000}
"""How many beginnings are continued."""
LEAST = 8e13
"""Training FLOPs of a screening run."""
BPE = 4096
TWIN = "append"
PROTOCOL = Protocol(
    prefix_tokens=32, total_tokens=256, min_tokens=96, max_tokens=400, prompts=1000, seeds=(123,)
)
POLICY_LENGTH, POLICY_TARGETS = 145, 1000
"""What the cost of a policy is measured on: stretches of held-out text of the paper's length."""


def mixed(
    share: float,
    other: str = "spans-16",
    final: float | None = None,
    start: float = 0.0,
    end: float = 1.0,
) -> str:
    """A mixture with so much appending at the start, and at the end."""
    last = "" if final is None else f", final_weights: [{final}, {round(1 - final, 6)}]"
    last += f", change_from: {start}" if start else ""
    last += f", change_until: {end}" if end < 1 else ""
    weights = f"[{share}, {round(1 - share, 6)}]"
    return f"policy={{kind: mixture, policies: [append, {other}], weights: {weights}{last}}}"


MARKS = "vocab.marks=true"
ARMS: dict[str, tuple[str, ...]] = {
    "append": ("policy=append",),
    "paper": ("policy=paper",),
    "paper-merged": ("policy=paper-merged",),
    "delete-0.9": ("policy=delete-0.9",),
    "delete-0.95": ("policy=delete-0.95",),
    "spans-8": ("policy=spans-8",),
    "spans-16": ("policy=spans-16",),
    "spans-32": ("policy=spans-32",),
    "sentences-32": ("policy={kind: spans, mean: 32, unit: sentence}",),
    "late-1": ("policy=late-1",),
    "late-2": ("policy=late-2",),
    "late-1-marks": ("policy=late-1", MARKS),
    "late-2-marks": ("policy=late-2", MARKS),
    "late-4-marks": ("policy={kind: spans, mean: 16, unit: sentence, late: 4}", MARKS),
    "short-1-marks": ("policy={kind: spans, mean: 4, unit: word, late: 1}", MARKS),
    "short-3-marks": ("policy={kind: spans, mean: 4, unit: word, late: 3}", MARKS),
    "late-4": ("policy={kind: spans, mean: 16, unit: sentence, late: 4}",),
    "late-1-words": ("policy={kind: spans, mean: 16, unit: word, late: 1}",),
    "mixed-10": (mixed(0.1),),
    "mixed-50": (mixed(0.5),),
    "mixed-90": (mixed(0.9),),
    "annealed": (mixed(1.0, final=0.0),),
    "annealed-late": (mixed(1.0, other="late-1", final=0.0),),
    "annealed-late-marks": (mixed(1.0, other="late-1", final=0.0), MARKS),
    "then-late-marks": (mixed(1.0, other="late-1", final=0.0, start=0.6), MARKS),
    "half-late-marks": (mixed(1.0, other="late-1", final=0.0, start=0.4, end=0.6), MARKS),
    "then-late-2-marks": (mixed(1.0, other="late-2", final=0.0, start=0.6), MARKS),
}
"""What each arm changes in the recipe, as `--set` takes it."""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def prepare(world: Path, source: str | None = None) -> None:
    """A tokenizer and shards of the sampled stories, and a note of what they are."""
    files = sorted(world.glob("stories-*.jsonl"))
    note = world / "world.json"
    if not note.is_file():
        stories = [story for file in files for story in read_lines(file)]
        hashes = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        write_json(
            note,
            {
                "files": hashes,
                "stories": len(stories),
                "tokens": sum(story["tokens"] for story in stories),
                "ended": sum(story["ended"] for story in stories) / len(stories),
                "seeds": [min(s["seed"] for s in stories), max(s["seed"] for s in stories)],
                "source": source and divergence(source, [s["text"] for s in stories[:200]]),
            },
        )
    tokenizer = world / "tokenizer" / "tokenizer.json"
    if not tokenizer.is_file():
        write_whole(tokenizer, train_bpe(files, BPE).to_str(pretty=True))
    manifest = tokenize(files, world / "shards", tokenizer.parent)
    found = json.loads(note.read_text("utf-8")) | {"own_tokens": manifest.tokens}
    found["training_flops"] = {name: LEAST * times for name, times in BUDGETS.items()}
    write_json(note, found)
    write_json(RESULTS / "world.json", found)


def recipe_of(world: Path, *changes: str) -> Recipe:
    """The recipe on this world's text."""
    places = (f"data.shards={world / 'shards'}", f"data.tokenizer={world / 'tokenizer'}")
    return load_recipe(RECIPE, [*places, *changes])


def plan(world: Path, arm: str, seed: int, budget: str, own: tuple[str, ...]) -> list[str]:
    """What is set in the recipe for one run: so many steps that the FLOPs are those allowed."""
    changes = [*ARMS[arm], f"seed={seed}", *own]
    recipe = recipe_of(world, *changes)
    steps = round(LEAST * BUDGETS[budget] / (_example_cost(recipe) * recipe.training.batch))
    every = max(1, steps // 5)
    return [
        *changes,
        f"training.steps={steps}",
        f"training.warmup={max(1, steps // 20)}",
        f"training.evaluate_every={every}",
        f"training.save_every={every}",
    ]


def _example_cost(recipe: Recipe) -> float:
    """Mean training FLOPs of an example: forward and twice that back, two per product."""
    assert recipe.trunk is not None
    trunk, stream = recipe.trunk, stream_of(recipe)
    rows = stream.sampler.vocab.size
    sizes = flops.Sizes(L=trunk.layers, d=trunk.width, d_ff=trunk.mlp_width, V=rows)
    lengths = [
        len(example.ids)
        for progress in (0.0, 0.25, 0.5, 0.75, 1.0)
        for example in stream.examples(np.arange(1024), progress=progress)
    ]
    return 6 * float(np.mean([flops.autoregressive(sizes, n) for n in lengths]))


def stream_of(recipe: Recipe) -> Stream:
    """The examples that a run is trained on."""
    return parts.training_set(recipe, parts.open_parts(recipe, NOWHERE)).stream


def held_out_texts(recipe: Recipe) -> Iterator[tuple[Codec, npt.NDArray[np.int32]]]:
    """The documents that no arm is trained on, as tokens, each with what reads them."""
    codec, shards = parts.open_text(recipe, NOWHERE)
    for document in np.flatnonzero(held_out_documents(shards, recipe.data.windows)):
        yield codec, shards.read(int(document))


def run(
    world: Path,
    judge: Path,
    arm: str,
    seed: int,
    budget: str,
    own: tuple[str, ...],
    looks: str,
    slips: float = 0.0,
) -> None:
    """Train one arm if need be, roll it out, measure it, and keep what is worth keeping."""
    arm_name = arm + (f"+look-{looks}" if looks else "") + (f"-slip-{slips:g}" if slips else "")
    name = f"{arm_name}-{seed}"
    own = (*own, grounding.OPERATORS) if looks else own
    stream = grounding.looking(grounding.Look.parse(looks), slips) if looks else Stream
    parts.Stream = stream  # type: ignore[misc]
    folder = world / "runs" / budget / name
    changes = plan(world, arm, seed, budget, own)
    recipe = recipe_of(world, *changes)
    train(recipe, folder)
    found = _trained(folder) | {"policy": _policy(recipe), "parts": _score_in_parts(recipe, folder)}
    found |= {"arm": arm_name, "seed": seed, "budget": budget, "changes": changes}
    found["written"] = measure(world, judge, folder, looks, slips > 0)
    write_json(RESULTS / budget / f"{name}.json", found)


def _trained(folder: Path) -> dict[str, Any]:
    """What a run was, and how its held-out score came down."""
    record = json.loads((folder / "run.json").read_text("utf-8"))
    log = read_lines(folder / "log.jsonl")
    steps = [line for line in log if "ids_seen" in line]
    ids = {line["step"]: line["ids_seen"] for line in steps}
    seconds = sum(
        (ids_seen - before) / line["ids_per_second"]
        for before, ids_seen, line in zip([0, *ids.values()], ids.values(), steps, strict=False)
    )
    key = "eval_held_out_"

    def scores(line: dict[str, Any]) -> dict[str, Any]:
        return {k.removeprefix(key): v for k, v in line.items() if k.startswith(key)}

    curve = [
        {"step": line["step"], "ids": ids.get(line["step"]), **scores(line)}
        for line in log
        if f"{key}nll" in line
    ]
    return {
        "parameters": record["parameters"],
        "seen": record["seen"],
        "ids_per_second": float(np.median([line["ids_per_second"] for line in steps])),
        "seconds": seconds,
        "held_out": scores(record["metrics"]),
        "curve": curve,
        "versions": record["versions"],
        "commit": record["commit"],
        "machine": record["machine"],
    }


@torch.no_grad()
def _score_in_parts(recipe: Recipe, folder: Path) -> dict[str, float]:
    """The held-out score in nats per text token, by what is decided.

    `kind` is whether to insert, move, stop or look; `text` is which token, given an insert;
    `move` which move, given a move. The order tax of a policy is part of the first and the last.
    """
    opened = parts.open_parts(recipe, folder)
    model, vocab = models.load(folder, dtype=torch.float32)
    kinds = torch.from_numpy(vocab.kinds.astype(np.int64))
    sums, tokens = {"kind": 0.0, "text": 0.0, "move": 0.0}, 0
    for batch_ in parts.held_out_set(recipe, opened, recipe.policy):
        ids, labels = batch_["input_ids"], batch_["labels"][:, 1:]
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids).logits[:, :-1, : vocab.size].float()
        chosen = labels != NO_LABEL
        logits, goals = logits[chosen], labels[chosen]
        whole = logits.logsumexp(-1)
        for kind in goals.new_tensor(np.unique(vocab.kinds[goals.numpy()]).astype(np.int64)):
            rows = kinds[goals] == kind
            group = logits[rows][:, kinds == kind].logsumexp(-1)
            sums["kind"] += float((whole[rows] - group).sum())
            inside = group - logits[rows].gather(1, goals[rows][:, None])[:, 0]
            names = {Kind.INSERT: "text", Kind.MOVE: "move"}
            name = names.get(Kind(int(kind)), "kind")
            sums[name] += float(inside.sum())
        tokens += int(batch_["text_tokens"].sum())
    return {name: total / tokens for name, total in sums.items()}


def _policy(recipe: Recipe) -> dict[str, Any]:
    """What the policy costs on held-out text, whatever model learns it."""
    long = (pair for pair in held_out_texts(recipe) if len(pair[1]) >= POLICY_LENGTH)
    targets, units = [], []
    for codec, tokens in islice(long, POLICY_TARGETS):
        targets.append(tokens[:POLICY_LENGTH])
        units.append(codec.unit_starts(targets[-1]))
    vocab = stream_of(recipe).sampler.vocab
    cost = policy_cost(recipe.policy, targets, vocab=vocab, units=units, progress=1.0)
    return {
        name: {"value": part.value, "low": part.low, "high": part.high, "kind": part.kind}
        for name, part in vars(cost).items()
    }


def prompts_of(world: Path, count: int = PROTOCOL.prompts) -> Path:
    """A thousand beginnings of held-out stories, or the first of them, with how they go on."""
    path = world / f"prompts-{count}.jsonl"
    if not path.is_file():
        recipe = recipe_of(world)
        codec, _ = parts.open_text(recipe, NOWHERE)
        documents = (codec.decode(tokens) for _, tokens in held_out_texts(recipe))
        ((_, chosen),) = texts.choose_prompts(documents, codec, PROTOCOL)[0].items()
        texts.write_prompts(path, chosen[:count])
    return path


def measure(
    world: Path,
    judge: Path,
    folder: Path,
    looks: str = "",
    can_correct: bool = False,
    count: int | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Everything that is measured of texts, and the perplexity against the twin's."""
    prompts = prompts_of(world, count or PROMPTS[folder.parent.name])
    systems = [_system(folder, prompts, settings, looks, can_correct)]
    twin = twin_of(folder)
    if twin != folder and (twin / "run.json").is_file():  # else it is still trained: run again
        systems.append(_system(twin, prompts, settings))
    record = evaluation.evaluate(systems, _measures(judge), kept=world / "measured")
    ours = record["systems"][0]
    ratios = [r["ratio"] for c in record["comparisons"] for r in c["perplexity_ratio"]]
    kept = ("samples", "empty", "decoding", "stopped", "perplexity", "mauve", "diversity")
    kept += ("trajectories", "cost")
    found = {name: ours[name] for name in kept}
    found["ratio_to_twin"] = ratios[0] if ratios else None
    rollouts = [sample.rollout for sample in systems[0].samples if sample.rollout]
    shown = [rollout.provenance.get("shown", 0) for rollout in rollouts]
    grown = [r.statistics.tokens_after - r.statistics.tokens_before for r in rollouts]
    found["shown_per_token"] = sum(shown) / sum(grown)
    found["landings"] = _landings(rollouts, folder)
    return found


def run_diffusion(world: Path, judge: Path, seed: int, budget: str) -> None:
    """The masked-diffusion counterpart: as many places read as the twin reads ids."""
    folder = world / "runs" / budget / f"diffusion-{seed}"
    ids = json.loads((twin_of(folder) / "run.json").read_text("utf-8"))["seen"]["ids"]
    if not (folder / "run.json").is_file():
        diffusion.train(
            diffusion.within_budget(recipe_of(world, f"seed={seed}"), ids, None), folder
        )
    prompts = prompts_of(world, PROMPTS[budget])
    path = folder / f"{prompts.stem}.jsonl"
    if not path.is_file():
        diffusion.write(folder, prompts, path, batch=50, seed=123, steps=128, temperature=0.9)
    samples = texts.read_samples(path, system=folder.name, prompts=texts.read_prompts(prompts))
    systems = [System(name=folder.name, samples=tuple(samples))]
    systems.append(_system(twin_of(folder), prompts, {}))
    record = evaluation.evaluate(systems, _measures(judge), kept=world / "measured")
    made = json.loads((folder / "run.json").read_text("utf-8"))
    names = ("parameters", "ids_seen", "seconds", "metrics", "bounds", "versions", "machine")
    written = {name: record["systems"][0][name] for name in ("perplexity", "mauve", "diversity")}
    written["ratio_to_twin"] = record["comparisons"][0]["perplexity_ratio"][0]["ratio"]
    found = {name: made.get(name) for name in names}
    found |= {"arm": "diffusion", "seed": seed, "budget": budget, "written": written}
    write_json(RESULTS / "diffusion" / f"{budget}-{seed}.json", found)


def _measures(judge: Path) -> Measures:
    return Measures(
        scorers=(str(judge),), mauve=(f"last:{judge}",), names={str(judge): "stories15M"}
    )


def twin_of(folder: Path) -> Path:
    """The autoregressive run of the same budget and seed."""
    return folder.with_name(f"{TWIN}-{folder.name.rpartition('-')[2]}")


def decode(world: Path, judge: Path, folder: Path, settings: dict[str, Any]) -> None:
    """Measure what other settings of decoding write, twin included."""
    measured = measure(world, judge, folder, count=PROMPTS["screen"], **settings)
    found = {"run": f"{folder.parent.name} {folder.name}", "settings": settings, **measured}
    words = "-".join(f"{name}={value:g}" for name, value in settings.items())
    write_json(RESULTS / "decoding" / f"{folder.parent.name}-{folder.name}-{words}.json", found)


def check(world: Path, judges: dict[str, Path], real: Path, folder: Path) -> None:
    """Other judges, and beginnings of stories that the source did not write."""
    found: dict[str, Any] = {"run": folder.name}
    count = PROMPTS["screen"]
    for name, prompts in {
        "world": prompts_of(world, count),
        "TinyStories": real_prompts(world, real, count),
    }.items():
        systems = [_system(model, prompts, {}) for model in (folder, twin_of(folder))]
        measures = Measures(
            scorers=tuple(str(path) for path in judges.values()),
            names={str(path): judge for judge, path in judges.items()},
        )
        record = evaluation.evaluate(systems, measures, kept=world / "measured")
        found[name] = {
            "samples": count,
            "perplexity": {s["name"]: s["perplexity"] for s in record["systems"]},
            "ratio": record["comparisons"][0]["perplexity_ratio"],
        }
    write_json(RESULTS / "checks" / f"{folder.parent.name}-{folder.name}.json", found)


def real_prompts(world: Path, stories: Path, count: int) -> Path:
    """Beginnings of TinyStories as people have them: stories parted by one line end."""
    path = world / f"prompts-real-{count}.jsonl"
    if not path.is_file():
        codec, _ = parts.open_text(recipe_of(world), NOWHERE)
        text = lzma.decompress(stories.read_bytes()).decode("utf-8")
        documents = re.split(r"(?<!\n)\n(?!\n)", text)
        protocol = replace(PROTOCOL, prompts=count)
        ((_, chosen),) = texts.choose_prompts(documents, codec, protocol)[0].items()
        texts.write_prompts(path, chosen)
    return path


def measure_machine() -> None:
    """How fast one core multiplies matrices as large as the trunk's, in bfloat16.

    The most of many tries, since a neighbour can only slow it.
    """
    torch.set_num_threads(1)
    a, b = torch.randn(1536, 256).bfloat16(), torch.randn(256, 1024).bfloat16()
    rates = []
    for _ in range(200):
        start = time.perf_counter()
        for _ in range(20):
            a @ b
        rates.append(20 * 2 * a.numel() * b.shape[1] / (time.perf_counter() - start))
    write_json(RESULTS / "machine.json", {"flops_per_second": max(rates), "tries": len(rates)})


def ship(folder: Path, name: str) -> None:
    """Copy a model to models/ in bfloat16, without what this machine is called."""
    model, vocab = models.load(folder, dtype=torch.bfloat16)
    goal = HERE / "models" / name
    models.save(model, read_tokenizer(folder), vocab, goal)
    record = json.loads((folder / "run.json").read_text("utf-8"))
    record["recipe"]["data"] |= {"shards": "shards", "tokenizer": "tokenizer"}
    kept = ("recipe", "data", "tokenizer", "seen", "metrics", "versions", "commit")
    write_json(goal / "run.json", {key: record[key] for key in kept})


def choose_rollouts(world: Path, name: str, count: int = 10, seed: int = 7) -> None:
    """What a shipped model makes of some prompts, chosen by a seed, to be watched."""
    prompts = read_lines(prompts_of(world))
    chosen = sorted(random.Random(seed).sample(range(len(prompts)), count))
    lines = []
    with reviser.load(HERE / "models" / name) as model:
        for n in chosen:
            rollout = model.generate(prompts[n]["prompt"], seed=n)
            provenance = rollout.provenance | {"model": f"models/{name}"}
            told = replace(rollout, provenance=provenance).to_dict() | {"id": n}
            lines.append(json.dumps(told, ensure_ascii=False) + "\n")
    write_whole(RESULTS / "rollouts.jsonl", "".join(lines))


def _landings(rollouts: list[Rollout], folder: Path) -> dict[str, Any] | None:
    """Of the places that chains of moves led to, how many are where a word or sentence starts.

    Under policies that align to these, all are: what is missing is the model's counting.
    """
    vocab, codec = ActionVocab.load(folder), Codec.load(folder)
    right: dict[str, list[bool]] = {"word": [], "sentence": []}
    for rollout in rollouts:
        canvas, has_moved = Canvas(vocab), False
        for action in rollout.trajectory.history(vocab):
            kind = vocab.kinds[action]
            if kind == Kind.INSERT and has_moved:
                marks = codec.unit_starts(np.array(canvas.tokens(), np.int32))
                mark = (
                    marks[canvas.cursor]
                    if canvas.cursor < len(marks)
                    else UNITS["word"] | UNITS["sentence"]
                )
                for unit, places in right.items():
                    places.append(bool(mark & UNITS[unit]))
            has_moved = bool(vocab.is_move[action])
            canvas.apply(action)
    if not right["word"]:
        return None
    return {unit: intervals.share(places).to_dict() for unit, places in right.items()}


def _system(
    model: Path,
    prompts: Path,
    settings: dict[str, Any],
    looks: str = "",
    can_correct: bool = False,
) -> System:
    """What a model writes behind the prompts; kept beside it."""
    words = "-".join(f"{k}={v}" for k, v in settings.items()) or "usual"
    path = model / "rollouts" / prompts.stem / f"{words}.jsonl"
    path.parent.mkdir(exist_ok=True, parents=True)
    limits = {"max_actions": 352, "max_length": PROTOCOL.total_tokens, "seed": 123 << 20}
    job = batch.Job(
        input=prompts,
        output=path,
        model=str(model),
        options={"rows": 64},
        settings=limits | settings,
    )
    if not path.is_file() and looks:
        look = grounding.Look.parse(looks)
        grounding.write(model, prompts, path, look, can_correct=can_correct, **limits, **settings)
    elif not path.is_file():
        batch.run(job)
    samples = texts.read_samples(path, system=model.name, prompts=texts.read_prompts(prompts))
    return System(name=model.name, samples=tuple(samples), folder=model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare")
    first.add_argument("world", type=Path)
    commands.add_parser("machine", help="how fast one core multiplies")
    first.add_argument("--source", required=True, help="the folder of stories15M")
    runs = commands.add_parser("run")
    runs.add_argument("arms", nargs="+", choices=[*ARMS, "diffusion"])
    runs.add_argument("--world", type=Path, required=True)
    runs.add_argument("--judge", type=Path, required=True, help="the folder of stories15M")
    runs.add_argument("--budget", choices=BUDGETS, default="screen")
    runs.add_argument("--seeds", type=int, nargs="+", default=[0])
    runs.add_argument("--set", action="append", default=[], dest="own", help="as `reviser train`")
    runs.add_argument("--looks", default="", help="what is shown after moves: 8, r4l8")
    runs.add_argument("--slips", type=float, default=0.0, help="share of chains led astray")
    shipped = commands.add_parser("ship", help="a model folder to keep, and ten of its rollouts")
    shipped.add_argument("run", type=Path)
    shipped.add_argument("name")
    shipped.add_argument("--rollouts", action="store_true", help="keep ten to be watched")
    others = commands.add_parser("decode", help="what other settings of decoding write")
    checks = commands.add_parser("check", help="another judge, and real stories")
    for command in (others, checks):
        command.add_argument("runs", type=Path, nargs="+", help="folders in WORLD/runs/BUDGET")
        command.add_argument("--world", type=Path, required=True)
        command.add_argument("--judge", type=Path, required=True, help="the folder of stories15M")
    others.add_argument("--settings", type=json.loads, action="append", required=True)
    checks.add_argument("--second", type=Path, required=True, help="the folder of SmolLM2-135M")
    checks.add_argument("--real", type=Path, required=True, help="tiny_stories.txt.xz")
    arguments = parser.parse_args()
    if arguments.command == "prepare":
        prepare(arguments.world.absolute(), arguments.source)
    elif arguments.command == "machine":
        measure_machine()
    elif arguments.command == "ship":
        ship(arguments.run.absolute(), arguments.name)
        if arguments.rollouts:
            choose_rollouts(arguments.run.absolute().parents[2], arguments.name)
    elif arguments.command == "decode":
        for folder in arguments.runs:
            for settings in arguments.settings:
                decode(arguments.world.absolute(), arguments.judge, folder.absolute(), settings)
    elif arguments.command == "check":
        judges = {"stories15M": arguments.judge, "SmolLM2-135M-Instruct": arguments.second}
        for folder in arguments.runs:
            check(arguments.world.absolute(), judges, arguments.real, folder.absolute())
    else:
        for arm in arguments.arms:
            for seed in arguments.seeds:
                if arm == "diffusion":
                    run_diffusion(
                        arguments.world.absolute(), arguments.judge, seed, arguments.budget
                    )
                    continue
                run(
                    arguments.world.absolute(),
                    arguments.judge,
                    arm,
                    seed,
                    arguments.budget,
                    tuple(arguments.own),
                    arguments.looks,
                    arguments.slips,
                )
