"""Mazes of 8 by 8 cells: the functions of `mazes.py` with another size."""

from __future__ import annotations

import json
import sys
from functools import partial

from experiments.solve import mazes

SIZE = 8
touch = partial(mazes.touch, size=SIZE)
task = partial(mazes.task, size=SIZE)
is_solved = partial(mazes.is_solved, size=SIZE)
group = partial(mazes.group, size=SIZE)


if __name__ == "__main__":
    json.dump(mazes.words(SIZE), sys.stdout)
