"""Have a model solve the test problems of a task, through `reviser.load` and the mask, greedily.

A task's module has `problem(index)`, which returns a prompt and a draft, `is_solved(index, text,
arm)`, and `needs_back(index)`: whether the recorded solution takes something back.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import reviser
from reviser.train.samples import wilson

TESTED = 500
MAX_ACTIONS = 400


def score(
    folder: Path,
    task: ModuleType,
    arm: str,
    *,
    count: int = TESTED,
    shift: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """Return the share of problems that are solved, and what the answers cost."""
    indices = range(shift, shift + count)
    tasks = [reviser.Continue(task.problem(index)) for index in indices]
    config = {"temperature": 0.0, "max_actions": MAX_ACTIONS} | settings
    with reviser.load(folder) as model:
        rollouts = list(model.run_many(tasks, **config))
    solved, hard, written, read = [], [], [], []
    ended: dict[str, int] = {}
    for index, rollout in zip(indices, rollouts, strict=True):
        text = rollout.text.removeprefix(rollout.prompt).strip()
        stopped = rollout.stop_reason == "stop"
        solved.append(stopped and task.is_solved(index, text, arm))
        hard.append(task.needs_back(index))
        written.append(rollout.statistics.actions)
        read.append(len(rollout.trajectory.prefix) + rollout.statistics.actions)
        ended[rollout.stop_reason] = ended.get(rollout.stop_reason, 0) + 1
    right = [n for n in range(count) if solved[n]]
    return {
        "exact": share(solved),
        "with_back": share([s for s, h in zip(solved, hard, strict=True) if h]),
        "without_back": share([s for s, h in zip(solved, hard, strict=True) if not h]),
        "ids_written": sum(written) / count,
        "ids_written_if_solved": sum(written[n] for n in right) / max(1, len(right)),
        "ids_read": sum(read) / count,
        "ended": ended,
        "solved": "".join("1" if each else "0" for each in solved),
    }


def share(solved: list[bool]) -> dict[str, Any]:
    """Return a share with its 95 % interval, by Wilson's formula."""
    if not solved:
        return {"value": 0.0, "low": 0.0, "high": 1.0, "solved": 0, "of": 0}
    low, high = wilson(sum(solved), len(solved))
    found = {"value": sum(solved) / len(solved), "low": low, "high": high}
    return found | {"solved": sum(solved), "of": len(solved)}
