"""What each part of a story costs a model with one late sentence, above what it costs the twin.

Held-out stories, taken apart as the policy `late-1` does: the tokens before the mark, behind it,
and those written last. Every token is scored by the model where it comes in the trajectory, and by
the twin from left to right.

    python benchmarks/phases.py WORLD full late-1-marks-0 half-late-marks-0 -o FILE
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import world

from reviser import ActionVocab, Codec, Kind, Sampler
from reviser.evals import intervals
from reviser.files import write_json
from reviser.models import trunks
from reviser.trajectories.policy import PRESETS

PREFIX, POLICY = 32, PRESETS["late-1"]
NAMES = ("before the mark", "behind it", "written last")


@torch.inference_mode()
def nats(model: torch.nn.Module, history: list[int]) -> npt.NDArray[np.float64]:
    """What every id but the first costs a model."""
    ids_1T = torch.tensor([history])
    with torch.autocast("cpu", torch.bfloat16):
        logits_TA = model(ids_1T).logits[0, :-1]
    scores_TA = torch.log_softmax(logits_TA.float(), dim=-1)
    costs: npt.NDArray[np.float64] = -scores_TA.gather(1, ids_1T.T[1:])[:, 0].double().numpy()
    return costs


def parts_of(kinds: list[Kind]) -> list[int]:
    """For each insertion of a restoration, in which of the three parts it is."""
    part, parts = 0, []
    for kind in kinds:
        part += kind in (Kind.MARK, Kind.BACK)
        if kind is Kind.INSERT:
            parts.append(part)
    return parts


def compare(
    runs: Path, names: list[str], twin: str, world_folder: Path, count: int
) -> dict[str, Any]:
    """For each model and part: tokens a story, and nats above the twin's."""
    texts: list[tuple[Codec, npt.NDArray[np.int32]]] = []
    for codec, tokens in world.held_out_texts(world.recipe_of(world_folder)):
        if 3 * PREFIX <= len(tokens) <= 240:
            texts.append((codec, tokens))
        if len(texts) == count:
            break
    plain, plain_vocab = trunks.load(runs / twin)
    expected = [
        nats(plain.eval(), [*plain_vocab.prefix_actions(t[:PREFIX]), *t[PREFIX:].tolist()])
        for _, t in texts
    ]
    places = ActionVocab.build(max(len(t) for _, t in texts), marks=True)
    record: dict[str, Any] = {}
    for name in names:
        model, vocab = trunks.load(runs / name)
        model.eval()
        above = defaultdict[int, list[float]](list)
        sizes: list[list[int]] = []
        for n, (codec, tokens) in enumerate(texts):
            target, units = tokens[PREFIX:], codec.unit_starts(tokens)[PREFIX:]
            found = Sampler(vocab, POLICY).sample(
                target, prefix=tokens[:PREFIX].tolist(), units=units, index=n
            )
            where = Sampler(places, POLICY).sample(np.arange(len(target)), units=units, index=n)
            parts = parts_of([places.kind(i) for i in where.restoration])
            order = [i for i in where.restoration if places.kind(i) is Kind.INSERT]
            assert [target[i] for i in order] == [
                i for i in found.restoration if vocab.kind(i) is Kind.INSERT
            ]
            costs = nats(model, found.history(vocab))[-len(found.restoration) :]
            is_insert = [vocab.kind(i) is Kind.INSERT for i in found.restoration]
            gaps = costs[is_insert] - expected[n][-len(target) :][order]
            for part in range(3):
                chosen = gaps[np.array(parts) == part]
                above[part].append(float(chosen.sum()))
            sizes.append([parts.count(part) for part in range(3)])
        record[name] = {}
        for part, told in enumerate(NAMES):
            sums, tokens_in = np.array(above[part]), np.array(sizes)[:, part]
            record[name][told] = {
                "tokens": float(tokens_in.mean()),
                "nats_above": intervals.ratio_of_means(sums, tokens_in).to_dict(),
                "share": float(sums.sum() / np.array(sizes).sum()),
            }
    return {"stories": len(texts), "twin": twin, "runs": record}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("world", type=Path)
    parser.add_argument("budget", choices=list(world.BUDGETS))
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--twin", default="append-0")
    parser.add_argument("--stories", type=int, default=300)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    home = arguments.world.absolute()
    folder = home / "runs" / arguments.budget
    found = compare(folder, arguments.runs, arguments.twin, home, arguments.stories)
    write_json(arguments.output, {"budget": arguments.budget, **found})
