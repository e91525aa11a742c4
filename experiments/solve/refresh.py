"""Measure an editor of mazes whose context is too short, with and without seeing the text again.

python -m experiments.solve.refresh mazes MODEL --context 88
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import reviser
from experiments.solve.score import share
from reviser.provenance import made_with
from reviser.writing.driver import run_many

RESULTS = Path(__file__).parent / "results"
MAX_ACTIONS = 600


def measure(
    model: reviser.Reviser,
    task: Any,
    name: str,
    refresh: reviser.Refresh | None,
    count: int,
    *,
    room: int | None = None,
) -> dict[str, Any]:
    """Return the share of mazes that are solved, and what was read for it.

    With `room`, a maze ends when the history has so many ids.
    """
    model.refresh = refresh

    def flow(index: int) -> Any:
        problem, most = task.task(index), MAX_ACTIONS
        if room is not None:
            most = room - len(model.vocab.prefix_actions(model.codec.encode(problem.prompt)))
        return model.flow(problem, reviser.DecodeConfig(temperature=0.0, max_actions=most))

    rollouts = [run.wait() for run in run_many(map(flow, range(count)), model.driver)]
    solved = []
    for index, rollout in enumerate(rollouts):
        text = rollout.text.removeprefix(rollout.prompt).strip()
        solved.append(rollout.stop_reason == "stop" and task.is_solved(index, text, "touch"))
    written = [len(each.trajectory.history(model.vocab)) for each in rollouts]
    read = [each.statistics.ids_read for each in rollouts]
    return {
        "name": name,
        "exact": share(solved),
        "is_again": sum(a > b for a, b in zip(read, written, strict=True)) / count,
        "ids_read": sum(read) / count,
        "longest": max(written),
    }


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["mazes", "mazes8"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    task, short, count = (
        import_module(f"experiments.solve.{options.task}"),
        options.context,
        options.count,
    )
    late = reviser.Refresh(context=short, keep=8)
    often = reviser.Refresh(context=short, after=16, keep=8)
    with reviser.load(options.model) as model:
        rows = [
            measure(model, task, "the whole context", None, count),
            measure(model, task, f"{short} ids, never shown again", None, count, room=short),
            measure(model, task, f"{short} ids, shown again when full", late, count),
            measure(model, task, f"{short} ids, shown again every 16 ids", often, count),
        ]
    found = {"context": short, "count": count, "rows": rows, **made_with("torch", "transformers")}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"refresh-{options.task}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
