"""Have a model solve the test problems of a task, through `reviser.load` and the mask, greedily.

A task's module has `task(index, arm)`, which returns a test problem as a task of Reviser, and
`is_solved(index, text, arm)`; `group(index)` says which kind of problem it is.
"""

from __future__ import annotations

from collections import Counter
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
    first: int = 0,
    refresh: reviser.Refresh | None = None,
) -> dict[str, Any]:
    """Return the share of problems that are solved, and what the answers cost."""
    indices = range(first, first + count)
    tasks = [task.task(index, arm) for index in indices]
    with reviser.load(folder, refresh=refresh) as model:
        results = list(model.run_many(tasks, temperature=0.0, max_actions=MAX_ACTIONS))
    solved, written, read = [], [], []
    for index, result in zip(indices, results, strict=True):
        rollout = result.rollouts[0] if isinstance(result, reviser.Revision) else result
        text = rollout.text if isinstance(result, reviser.Revision) else result.text
        text = text.removeprefix(getattr(task.task(index, arm), "prompt", "")).strip()
        solved.append(result.stop_reason == "stop" and task.is_solved(index, text, arm))
        written.append(rollout.statistics.actions)
        read.append(rollout.statistics.ids_read)
    return {
        "exact": share(solved),
        "groups": groups(task, solved, first),
        "ids_written": sum(written) / count,
        "ids_read": sum(read) / count,
        "ended": Counter(result.stop_reason for result in results),
        "solved": "".join("1" if each else "0" for each in solved),
    }


def groups(task: ModuleType, solved: list[bool], first: int = 0) -> dict[str, Any]:
    """Return the share of each kind of problem that is solved."""
    by_name: dict[str, list[bool]] = {}
    for index, each in enumerate(solved, start=first):
        by_name.setdefault(task.group(index), []).append(each)
    return {name: share(by_name[name]) for name in sorted(by_name)}


def share(solved: list[bool]) -> dict[str, Any]:
    """Return a share with its 95 % interval, by Wilson's formula."""
    if not solved:
        return {"value": 0.0, "low": 0.0, "high": 1.0, "solved": 0, "of": 0}
    low, high = wilson(sum(solved), len(solved))
    found = {"value": sum(solved) / len(solved), "low": low, "high": high}
    return found | {"solved": sum(solved), "of": len(solved)}
