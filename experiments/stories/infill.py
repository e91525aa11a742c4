"""Fill a gap in held-out stories: remove one to three sentences and let a model write them.

A Reviser sees both sides and ends by itself. The left-to-right baseline continues the left side
and is cut after the right number of sentences, which favours it. stories15M judges the fills: it
gives the bits of the fill, given the left side, and of the text after the gap, which is the same
for all systems. The true sentences and an empty fill are two more systems. Without a judge, the
script also measures the bits that the true sentences cost each model, given that it inserts.

    python -m experiments.stories.infill WORLD MODEL BASELINE --judge STORIES15M
"""

from __future__ import annotations

import argparse
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import reviser
from experiments.stories.world import RESULTS, held_out_texts, recipe_of
from reviser import Codec, Continue, DecodeConfig, Infill
from reviser.engines.hf import HFEngine
from reviser.files import write_json
from reviser.lab.evals import intervals, perplexity
from reviser.lab.evals.texts import Sample
from reviser.model import Reviser
from reviser.models import trunks
from reviser.writing.driver import Flow, run_many
from reviser.writing.flows import act
from reviser.writing.prompts import prompts_of
from reviser.writing.rollout import Rollout
from reviser.writing.text import Writing

SENTENCE = re.compile(r"""[^.!?]*[.!?]+["']*""")
"""A sentence of a simple story, including the space before it."""
MAX_TOKENS = 224
STORIES = 500
SETTINGS = {"max_actions": 128}
"""Decoding settings; all others are the defaults."""


class Gap(NamedTuple):
    """A story in three parts: before the gap, in it and after it."""

    left: str
    gap: str
    right: str
    sentences: int


def choose(world: Path, stories: int, seed: int = 7) -> list[Gap]:
    """Return held-out stories, each with a gap of one to three sentences that is at neither end."""
    rng, gaps = random.Random(seed), []
    for codec, tokens in held_out_texts(recipe_of(world)):
        if len(tokens) > MAX_TOKENS:
            continue
        text = codec.decode(tokens)
        parts = SENTENCE.findall(text)
        size = rng.randint(1, 3)
        if "".join(parts) != text or len(parts) < size + 4 or "{" in text or "}" in text:
            continue
        first = rng.randint(2, len(parts) - size - 1)
        left, gap, right = parts[:first], parts[first : first + size], parts[first + size :]
        gaps.append(Gap("".join(left), "".join(gap), "".join(right), size))
        if len(gaps) == stories:
            break
    return gaps


def filled(model: Path, gaps: list[Gap]) -> tuple[list[str], list[int]]:
    """Return the text that a model puts into each gap, and its number of actions."""
    with reviser.load(model) as writer:
        tasks = [Infill(f"{gap.left}{{}}{gap.right}") for gap in gaps]
        rollouts = list(writer.run_many(tasks, **SETTINGS))
    fills = []
    for gap, rollout in zip(gaps, rollouts, strict=True):
        assert rollout.text.startswith(gap.left)
        assert rollout.text.endswith(gap.right)
        fills.append(rollout.text[len(gap.left) : len(rollout.text) - len(gap.right)])
    return fills, [rollout.statistics.actions for rollout in rollouts]


def continued(model: Path, gaps: list[Gap]) -> tuple[list[str], list[int]]:
    """Return how a model continues each left side, cut after the missing number of sentences.

    The left side is given as if the model had written it, as the Reviser sees it too, because a
    prefix would be longer than any in training.
    """
    with reviser.load(model) as writer:
        flows = (_continue(writer, gap.left, seed) for seed, gap in enumerate(gaps))
        rollouts = [run.wait() for run in run_many(flows, writer.driver)]
    fills = []
    for gap, rollout in zip(gaps, rollouts, strict=True):
        parts = SENTENCE.findall(rollout.text[len(gap.left) :])
        fills.append("".join(parts[: gap.sentences]))
    return fills, [rollout.statistics.actions for rollout in rollouts]


def _continue(writer: Reviser, left: str, seed: int) -> Flow[Rollout]:
    model = writer.model(revises=False)
    (prompt,) = prompts_of(Continue(left), model, DecodeConfig.of(SETTINGS | {"seed": seed}))
    history = (*model.vocab.prefix_actions([]), *prompt.prefix)
    request = replace(prompt.request, history=history)
    writing = Writing(replace(prompt, prefix=(), preamble=prompt.prefix, request=request), model)
    yield from act([writing])
    return writing.rollout()


def judged(scorer: perplexity.Scorer, gaps: list[Gap], fills: list[str]) -> dict[str, Any]:
    """Return bits per character of the fill and of the text after it, with intervals."""
    pairs = list(zip(gaps, fills, strict=True))
    texts = {
        "fill": [(gap.left, fill) for gap, fill in pairs],
        "after": [(gap.left + fill, gap.right) for gap, fill in pairs],
    }
    found: dict[str, Any] = {"characters": float(np.mean([len(fill) for fill in fills]))}
    found["empty"] = sum(not fill for fill in fills)
    for name, parts in texts.items():
        samples = [
            Sample(system=name, id=str(n), prompt=prompt, continuation=text)
            for n, (prompt, text) in enumerate(parts)
        ]
        scores = scorer.score(samples)
        bits = [score.nll / np.log(2) for score in scores]
        characters = [score.characters for score in scores]
        if any(characters):
            found[name] = intervals.ratio_of_means(bits, characters).to_dict()
        found[f"{name}_bits"] = [round(value, 3) for value in bits]
    return found


@torch.no_grad()
def surprise(folder: Path, gaps: list[Gap], *, sees_right: bool) -> list[float]:
    """Return the bits that the true sentences cost a model, given that it inserts them."""
    model, vocab = trunks.load(folder, dtype=torch.float32)
    writer, found = Reviser(HFEngine(model, vocab), Codec.load(folder)), []
    for gap in gaps:
        left, middle, _ = writer.codec.encode_parts([gap.left, gap.gap, gap.right])
        history = (*vocab.prefix_actions([]), *left)
        if sees_right:
            task = Infill(f"{gap.left}{{}}{gap.right}")
            history = prompts_of(task, writer.model(revises=False))[0].request.history
        ids = torch.tensor([[*history, *middle]])
        logits = model(input_ids=ids).logits[0, :-1]
        logits[:, torch.from_numpy(vocab.controls)] = -torch.inf
        scores = torch.log_softmax(logits, -1)
        chosen = scores.gather(1, ids[0, 1:, None])[-len(middle) :]
        found.append(-float(chosen.sum()) / np.log(2))
    return found


def _less(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    return intervals.mean([a - b for a, b in zip(ours, theirs, strict=True)]).to_dict()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("world", type=Path, help="Folder of sampled stories.")
    parser.add_argument("model", type=Path)
    parser.add_argument("baseline", type=Path)
    parser.add_argument("--judge", type=Path, required=True, help="Folder of stories15M.")
    parser.add_argument("--stories", type=int, default=STORIES)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "infill.json")
    arguments = parser.parse_args()
    gaps = choose(arguments.world.absolute(), arguments.stories)
    scorer = perplexity.Scorer.load(str(arguments.judge))
    ours, actions = filled(arguments.model, gaps)
    theirs, _ = continued(arguments.baseline, gaps)
    systems = {
        "reviser": ours,
        "baseline": theirs,
        "truth": [gap.gap for gap in gaps],
        "nothing": [""] * len(gaps),
    }
    found = {name: judged(scorer, gaps, fills) for name, fills in systems.items()}
    after = {name: record["after_bits"] for name, record in found.items()}
    less = {name: _less(after["reviser"], after[name]) for name in ("baseline", "nothing")}
    surprises = {
        "reviser": surprise(arguments.model, gaps, sees_right=True),
        "baseline": surprise(arguments.baseline, gaps, sees_right=False),
    }
    characters = [len(gap.gap) for gap in gaps]
    for record in found.values():
        for name in ("fill", "after"):
            del record[f"{name}_bits"]
    examples = [
        {"left": gap.left, "truth": gap.gap, "right": gap.right, "reviser": a, "baseline": b}
        for gap, a, b in list(zip(gaps, ours, theirs, strict=True))[:10]
    ]
    write_json(
        arguments.output,
        {
            "stories": len(gaps),
            "model": arguments.model.name,
            "baseline": arguments.baseline.name,
            "systems": found,
            "settings": SETTINGS,
            "after_bits_above": less,
            "truth": {
                name: intervals.ratio_of_means(bits, characters).to_dict()
                for name, bits in surprises.items()
            }
            | {"bits_above_baseline": _less(surprises["reviser"], surprises["baseline"])},
            "actions": float(np.mean(actions)),
            "examples": examples,
        },
    )
