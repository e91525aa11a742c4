"""What bad landings cost: the first insertion after a move, put at the nearest sentence start.

Rollouts of a model with one late span; their evalPPL as they are, with that insertion where the
model most likely meant it, and without it. And those of the twin as they are, and with a sentence
taken out at random, which is what a gap that stays open costs.

    python benchmarks/snapped.py MODEL ROLLOUTS --judge STORIES15M --twin ROLLOUTS -o FILE
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from infill import SENTENCE

from reviser import ActionVocab, Canvas, Codec, Kind
from reviser.core.codec import UNITS
from reviser.evals import perplexity
from reviser.evals.texts import Sample, read_samples
from reviser.files import write_json


def variants(sample: Sample, vocab: ActionVocab, codec: Codec) -> dict[str, list[int]]:
    """The tokens of a rollout in three ways; none if it never moved to insert."""
    assert sample.rollout is not None
    canvas, has_moved = Canvas(vocab), False
    before: list[int] = []
    fill: list[int] = []
    place = -1
    for action in sample.rollout.trajectory.history(vocab):
        kind = vocab.kinds[action]
        if kind == Kind.INSERT and has_moved and place < 0:
            before, place = canvas.tokens(), canvas.cursor
        elif vocab.is_move[action] and fill:
            return {}  # it has moved again: what was written last is not all there is
        if kind == Kind.INSERT and place >= 0:
            fill.append(action)
        has_moved = bool(vocab.is_move[action])
        canvas.apply(action)
    if place < 0:
        return {}
    marks = codec.unit_starts(np.array(before, np.int32)) & UNITS["sentence"]
    marks[: len(sample.rollout.trajectory.prefix)] = 0
    starts = np.append(np.flatnonzero(marks), len(before))
    near = int(starts[np.abs(starts - place).argmin()])
    snapped = [*before[:near], *fill, *before[near:]]
    return {"as it is": canvas.tokens(), "snapped": snapped, "without it": before}


def opened(sample: Sample, rng: random.Random) -> dict[str, str]:
    """A continuation as it is, and with an inner sentence taken out; none if it is too short."""
    parts = SENTENCE.findall(sample.continuation)
    if len(parts) < 4:
        return {}
    rest = sample.continuation[len("".join(parts)) :]
    place = rng.randrange(1, len(parts) - 1)
    return {
        "twin as it is": sample.continuation,
        "twin with a sentence taken out": "".join(parts[:place] + parts[place + 1 :]) + rest,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("rollouts", type=Path)
    parser.add_argument("--judge", required=True)
    parser.add_argument("--twin", type=Path, help="what the twin wrote behind the same prompts")
    parser.add_argument("--first", type=int, default=150, help="so many rollouts")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    vocab, codec = ActionVocab.load(arguments.model), Codec.load(arguments.model)
    texts: dict[str, list[Sample]] = {}
    for sample in read_samples(arguments.rollouts)[: arguments.first]:
        for name, tokens in variants(sample, vocab, codec).items():
            written = codec.decode(tokens)[len(sample.prompt) :]
            kept = Sample(system=name, id=sample.id, prompt=sample.prompt, continuation=written)
            texts.setdefault(name, []).append(kept)
    rng = random.Random(0)
    for sample in read_samples(arguments.twin)[: arguments.first] if arguments.twin else []:
        for name, written in opened(sample, rng).items():
            texts.setdefault(name, []).append(replace(sample, continuation=written))
    scorer = perplexity.Scorer.load(arguments.judge)
    found: dict[str, Any] = {}
    for name, samples in texts.items():
        value = perplexity.evaluate(scorer, samples).perplexity
        print(f"{name}: {value}, {len(samples)} rollouts")
        found[name] = {"rollouts": len(samples), "perplexity": value.to_dict()}
    write_json(arguments.output, {"model": arguments.model.name, "texts": found})
