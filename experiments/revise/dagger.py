"""Does DAgger help an editor? The same editor with and without rounds, at the same steps.

Held-out drafts are revised greedily, and an oracle that knows the result watches. Scores are F0.5,
precision and recall of word edits, the share of drafts that become the result exactly (`hit`), and
the number of actions that make the rest of the way longer (`mistakes`, per draft).

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

from reviser.core.canvas import Canvas
from reviser.engines.hf import HFEngine
from reviser.files import write_json
from reviser.lab.dagger import CHUNK, roll_out
from reviser.lab.evals.intervals import bootstrap, mean
from reviser.lab.evals.revision import edit_f, edit_precision, edit_recall, edit_rows
from reviser.lab.recipe import Dagger, LabRecipe, load_recipe
from reviser.lab.train import train
from reviser.models import trunks
from reviser.provenance import made_with
from reviser.train.inputs import Inputs, open_inputs, pair_stream
from reviser.trajectories.alignment import present

RECIPE = Path(__file__).parents[2] / "recipes" / "dagger.yaml"
RESULTS = Path(__file__).parent / "results" / "dagger.json"
SCORES = {"f05": edit_f, "precision": edit_precision, "recall": edit_recall}
ARMS = {
    "edits": ["policy={kind: edits, address: search}"],
    "dagger": [],
}


def judge(recipe: LabRecipe, inputs: Inputs, folder: Path) -> dict[str, np.ndarray]:
    """Return figures of each held-out draft, in the order of their pairs."""
    model, vocab = trunks.load(folder, dtype=torch.float32)
    policy = Dagger(address="search", oracle=0.0, temperature=0.0, drafts=1 << 20)
    stream = pair_stream(recipe, inputs, policy, held_out=True)
    engine = HFEngine(model, vocab, rows=CHUNK)
    found = []
    for chunk in range(-(-len(stream.split) // CHUNK)):
        found += roll_out(engine, policy, stream, inputs, round_=1, chunk=chunk)
    rows = sorted(found[: len(stream.split)])
    texts = []
    for visited in rows:
        pair = stream.split.read(visited.pair)
        shown = present(vocab, pair.before.tolist(), prefix=pair.instruction.tolist())
        canvas = Canvas.replay(vocab, [*pair.instruction.tolist(), *shown, *visited.ids])
        result = canvas.tokens()[len(pair.instruction) :]
        parts = (pair.before.tolist(), result, pair.after.tolist())
        texts.append([inputs.codec.decode(part) for part in parts])
    sources, results, wanted = zip(*texts, strict=True)
    wrong = [
        sum(label not in (None, taken) for taken, label in zip(v.ids, v.labels, strict=True))
        for v in rows
    ]
    return {
        "pair": np.array([visited.pair for visited in rows]),
        "edits": edit_rows(sources, results, [[text] for text in wanted]),
        "hit": np.array([a == b for a, b in zip(results, wanted, strict=True)], float),
        "mistakes": np.array(wrong, float),
        "ids": np.array([len(visited.ids) for visited in rows], float),
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
        pairs, edits = whole["pair"], whole["edits"]
        rows[name] = {key: asdict(mean(whole[key], pairs)) for key in ("hit", "mistakes", "ids")}
        for key, score in SCORES.items():
            columns = [edits[:, n] for n in range(3)]
            estimate = bootstrap(
                lambda *c, score=score: score(np.stack(c, 1)), *columns, clusters=pairs
            )
            rows[name][key] = asdict(estimate)
        print(name, rows[name], flush=True)
    write_json(RESULTS, {"arms": rows, "seeds": options.seeds, **made_with("torch", "numpy")})


if __name__ == "__main__":
    main()
