"""Does DAgger help an editor? The same editor with and without rounds, at the same steps.

Held-out drafts are revised greedily, and an oracle that knows the result watches. A draft is "hit"
if it is revised into that result exactly. The first mistake of a draft is the first action that
makes the rest of the way longer. A draft is "recovered" if it is hit in spite of a mistake.

    reviser data corrupt recipes/smoke.txt -o pairs.jsonl --rate 8
    python -m experiments.revise.dagger pairs.jsonl -o runs --seeds 2

Finished models are kept, so a second start continues. The figures are printed and written to
`experiments/revise/results/dagger.json`.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reviser.engines.hf import HFEngine
from reviser.evals.intervals import mean
from reviser.files import write_json
from reviser.models import trunks
from reviser.provenance import made_with
from reviser.train.dagger import CHUNK, roll_out
from reviser.train.inputs import Inputs, open_inputs, pair_stream
from reviser.train.recipe import Recipe, load_recipe
from reviser.train.run import train
from reviser.trajectories.policy import Dagger

RECIPE = Path(__file__).parents[2] / "recipes" / "dagger.yaml"
RESULTS = Path(__file__).parent / "results" / "dagger.json"
ARMS = {
    "edits": ["policy={kind: edits, address: search}"],
    "dagger": [],
}


def judge(recipe: Recipe, inputs: Inputs, folder: Path) -> dict[str, np.ndarray]:
    """Return for each held-out draft whether it was hit, had a mistake, and how long it took."""
    model, vocab = trunks.load(folder, dtype=torch.float32)
    policy = Dagger(address="search", oracle=0.0, temperature=0.0, drafts=1 << 20)
    stream = pair_stream(recipe, inputs, policy, held_out=True)
    engine = HFEngine(model, vocab, rows=CHUNK)
    found = []
    for chunk in range(-(-len(stream.split) // CHUNK)):
        found += roll_out(engine, policy, stream, inputs, round_=1, chunk=chunk)
    found = found[: len(stream.split)]
    # The last label of a draft that was hit is STOP, and STOP was taken.
    is_hit = [v.ids[-1:] == [vocab.stop] and v.labels[-1:] == [vocab.stop] for v in found]
    return {
        "pair": np.array([v.pair for v in found]),
        "hit": np.array(is_hit, float),
        "mistake": np.array([v.ids != v.labels for v in found], float),
        "ids": np.array([len(v.ids) for v in found], float),
    }


def main() -> None:
    """Train every arm, judge it, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], dest="changes")
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    for name, arm in ARMS.items():
        parts = []
        for seed in range(options.seeds):
            changes = [f"data.pairs=[{options.pairs.absolute()}]", f"seed={seed}"]
            recipe = load_recipe(RECIPE, [*changes, *arm, *options.changes])
            folder = train(recipe, options.output / f"{name}-{seed}")
            parts.append(judge(recipe, open_inputs(recipe, folder), folder))
        whole = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        wrong = whole["mistake"] > 0
        rows[name] = {
            key: asdict(mean(whole[key], whole["pair"])) for key in ("hit", "mistake", "ids")
        }
        rows[name]["recovered"] = asdict(mean(whole["hit"][wrong], whole["pair"][wrong]))
        print(name, rows[name], flush=True)
    write_json(RESULTS, {"arms": rows, "seeds": options.seeds, **made_with("torch", "numpy")})


if __name__ == "__main__":
    main()
