"""Measure an editor of mazes whose context is too short, with and without seeing the text again.

python -m experiments.solve.refresh MODEL --context 88 --count 300
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import reviser
from experiments.solve import mazes
from experiments.solve.score import share
from reviser.provenance import made_with
from reviser.writing.driver import Flow, run_many
from reviser.writing.refresh import Refresh, Refreshed, write_refreshed

RESULTS = Path(__file__).parent / "results"
MAX_ACTIONS = 400


def measure(
    model: reviser.Reviser, name: str, refresh: Refresh, count: int, *, room: int | None = None
) -> dict[str, Any]:
    """Return the share of mazes that are solved, and what was read for it.

    With `room`, a maze ends when the history has so many ids.
    """
    about = model.model(revises=False)

    def flow(index: int) -> Flow[Refreshed]:
        prompt, most = mazes.problem(index), MAX_ACTIONS
        if room is not None:
            most = room - len(model.vocab.prefix_actions(model.codec.encode(prompt)))
        config = reviser.DecodeConfig(temperature=0.0, max_actions=most)
        return write_refreshed(reviser.Continue(prompt), about, config, refresh)

    flows = map(flow, range(count))
    found = [run.wait() for run in run_many(flows, model.driver)]
    solved = []
    for index, each in enumerate(found):
        rollout = each.rollout
        text = rollout.text.removeprefix(rollout.prompt).strip()
        solved.append(rollout.stop_reason == "stop" and mazes.is_solved(index, text, "touch"))
    return {
        "name": name,
        "exact": share(solved),
        "times": sum(each.times for each in found) / count,
        "ids_read": sum(each.ids_read for each in found) / count,
        "longest": max(
            len(each.rollout.trajectory.prefix) + len(each.rollout.trajectory.restoration)
            for each in found
        ),
    }


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--context", type=int, default=88)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    short, count = options.context, options.count
    late = Refresh(context=short, keep=8)
    often = Refresh(context=short, after=16, keep=8)
    with reviser.load(options.model) as model:
        rows = [
            measure(model, "the whole context", Refresh(), count),
            measure(model, f"{short} ids, never shown again", Refresh(), count, room=short),
            measure(model, f"{short} ids, shown again when full", late, count),
            measure(model, f"{short} ids, shown again every 16 ids", often, count),
        ]
    found = {"context": short, "count": count, "rows": rows, **made_with("torch", "transformers")}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "refresh.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
