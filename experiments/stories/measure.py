"""Measurements of a trained arm: its held-out score in parts, and the texts that it writes.

Every step keeps its output (rollouts in the model folder, scores in the world's `measured/`), so a
second call repeats nothing. This module trains no model and writes no result files.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.stories.arms import BASELINE, stream_of
from experiments.stories.world import PROMPTS, PROTOCOL, held_out_texts, prompts_of, read_lines
from reviser.batch.job import begin
from reviser.batch.run import run
from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import UNITS, Codec
from reviser.data.dataset import NO_LABEL
from reviser.lab.evals import evaluation, intervals, texts
from reviser.lab.evals.evaluation import Measures, System
from reviser.lab.order_tax import policy_cost
from reviser.models import trunks
from reviser.train import inputs
from reviser.train.recipe import Recipe
from reviser.writing.rollout import Rollout

POLICY_LENGTH, POLICY_TARGETS = 145, 1000
"""Length and number of the held-out texts that a policy's cost is measured on."""
KEPT = ("samples", "empty", "decoding", "stopped", "perplexity", "mauve", "diversity")
KEPT += ("trajectories", "cost")
"""The parts of an evaluation record that a result file keeps."""


def baseline_of(folder: Path) -> Path:
    """Return the folder of the left-to-right run with the same budget and seed."""
    return folder.with_name(f"{BASELINE}-{folder.name.rpartition('-')[2]}")


# -- training and held-out score ------------------------------------------------------------------


def trained(folder: Path) -> dict[str, Any]:
    """Return the facts of a training run and its held-out scores over time."""
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
def score_in_parts(recipe: Recipe, folder: Path) -> dict[str, float]:
    """Return the held-out score in nats per text token, split by what is decided.

    `kind` is the choice to insert, move or stop; `text` is which token, given an insert; `move` is
    which move, given a move. The order tax of a policy is part of `kind` and `move`.
    """
    opened = inputs.open_inputs(recipe, folder)
    model, vocab = trunks.load(folder, dtype=torch.float32)
    kinds = torch.from_numpy(vocab.kinds.astype(np.int64))
    sums, tokens = {"kind": 0.0, "text": 0.0, "move": 0.0}, 0
    for batch_ in inputs.held_out_set(recipe, opened, recipe.policy):
        ids, labels = batch_["input_ids"], batch_["labels"][:, 1:]
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids).logits[:, :-1, : vocab.size].float()
        chosen = labels != NO_LABEL
        logits, goals = logits[chosen], labels[chosen]
        whole = logits.logsumexp(-1)
        # By the chain rule, P(action) = P(kind) * P(action | kind).
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


def policy_figures(recipe: Recipe) -> dict[str, Any]:
    """Return what a recipe's policy costs on held-out text, independent of any model."""
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


# -- written texts --------------------------------------------------------------------------------


def judged_by(judge: Path) -> Measures:
    """Return the measures of written texts, with stories15M as the judge."""
    return Measures(
        scorers=(str(judge),), mauve=(f"last:{judge}",), names={str(judge): "stories15M"}
    )


def system(model: Path, prompts: Path, settings: dict[str, Any]) -> System:
    """Return a model with its continuations of the prompts, written now if there are none yet."""
    name = "-".join(f"{k}={v}" for k, v in settings.items()) or "usual"
    path = model / "rollouts" / prompts.stem / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True, parents=True)
    limits = {"max_actions": 352, "max_length": PROTOCOL.total_tokens, "seed": 123 << 20}
    if not path.is_file():
        options = {"rows": 64, "dtype": "float32"}
        run(begin(str(prompts), str(path), str(model), options=options, settings=limits | settings))
    samples = texts.read_samples(path, system=model.name, prompts=texts.read_prompts(prompts))
    return System(name=model.name, samples=tuple(samples), folder=model)


def measure(world: Path, judge: Path, folder: Path) -> dict[str, Any]:
    """Return every measure of a model's texts, and their perplexity relative to the baseline's."""
    prompts = prompts_of(world, PROMPTS[folder.parent.name])
    systems = [system(folder, prompts, {})]
    baseline = baseline_of(folder)
    # A baseline that is still in training is left out; run the command again later.
    if baseline != folder and (baseline / "run.json").is_file():
        systems.append(system(baseline, prompts, {}))
    record = evaluation.evaluate(systems, judged_by(judge), cache=world / "measured")
    found = {name: record["systems"][0][name] for name in KEPT}
    ratios = [r["ratio"] for c in record["comparisons"] for r in c["perplexity_ratio"]]
    found["ratio_to_baseline"] = ratios[0] if ratios else None
    rollouts = [sample.rollout for sample in systems[0].samples if sample.rollout]
    found["landings"] = _landings(rollouts, folder)
    return found


def _landings(rollouts: list[Rollout], folder: Path) -> dict[str, Any] | None:
    """Return the share of moves that lead to where a word, and where a sentence, starts.

    Under a policy that aligns to these units every move does, so the rest are miscounted moves.
    """
    vocab, codec = ActionVocab.load(folder), Codec.load(folder)
    right: dict[str, list[bool]] = {"word": [], "sentence": []}
    for rollout in rollouts:
        canvas, has_moved = Canvas(vocab), False
        for action in rollout.trajectory.history(vocab):
            kind = vocab.kinds[action]
            if kind == Kind.INSERT and has_moved:
                starts = codec.unit_starts(np.array(canvas.tokens(), np.int32))
                start = (
                    starts[canvas.cursor]
                    if canvas.cursor < len(starts)
                    else UNITS["word"] | UNITS["sentence"]
                )
                for unit, found in right.items():
                    found.append(bool(start & UNITS[unit]))
            has_moved = bool(vocab.is_move[action])
            canvas.apply(action)
    if not right["word"]:
        return None
    return {unit: intervals.share(found).to_dict() for unit, found in right.items()}
