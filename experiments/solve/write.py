"""Write the files of recorded edits that the arms of a task train on: the same problems in each.

python -m experiments.solve.write mazes touch --count 150000 --output runs/solve/mazes
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from reviser import write_trajectories

HERE = Path(__file__).parent
ACTIONS: dict[str, dict[str, Any]] = {
    "mazes": {"operators": ["delete", "replace"], "max_move": 16},
    "mazes8": {"operators": ["delete", "replace"], "max_move": 16},
    "arithmetic": {"operators": ["span_delete"], "max_move": 64, "search": True},
}
"""The actions of each task's vocabulary, as in its recipe."""
SEED = 1
"""The seed of the problems to train on."""


def write(task: str, file: str, count: int, folder: Path) -> None:
    """Write the file of an arm, unless it is there."""
    path = folder / f"{file}.jsonl"
    if path.exists():
        return
    make = getattr(import_module(f"experiments.solve.{task}"), file)
    examples = (make(SEED, 0, index) for index in range(count))
    write_trajectories(path, examples, tokenizer=HERE / f"{task}.json", **ACTIONS[task])


def main() -> None:
    """Write one file for each arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=ACTIONS)
    parser.add_argument("arms", nargs="+")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    for arm in options.arms:
        write(options.task, arm, options.count, options.output)


if __name__ == "__main__":
    main()
