"""Mazes: the examples of every arm, as functions of seed, epoch and index.

A maze is a spanning tree of a square grid, from a random depth-first walk. The prompt lists its
open passages, start and goal; the answer is the only path between them. The recorded search walks
depth first from the start, tries the untried neighbour nearest to the goal first, and steps back at
a dead end. It is deterministic: ties go to the cell that comes first.

`reviser train` names a function of this file in a recipe: data: {generator: "mazes.py:touch"}.
"""

from __future__ import annotations

import json
import random
import sys
from functools import cache
from typing import TypeAlias

import reviser

Cell: TypeAlias = tuple[int, int]
Maze: TypeAlias = dict[Cell, list[Cell]]
Example: TypeAlias = tuple[str, list[tuple[str, ...]]]

SIZE = 6
"""Cells along a side; `mazes8.py` has larger ones."""


def name(cell: Cell) -> str:
    """Return the name of a cell, such as c4: a column and a row."""
    return f"{chr(97 + cell[0])}{cell[1] + 1}"


def cell_of(word: str) -> Cell:
    """Return the cell of a name."""
    return ord(word[0]) - 97, int(word[1:]) - 1


@cache
def _neighbours(size: int) -> Maze:
    cells = [(x, y) for y in range(size) for x in range(size)]
    steps = ((0, -1), (-1, 0), (1, 0), (0, 1))
    return {
        (x, y): [(x + i, y + j) for i, j in steps if 0 <= x + i < size and 0 <= y + j < size]
        for x, y in cells
    }


def words(size: int = SIZE) -> list[str]:
    """Return every word of a prompt or an answer."""
    around = _neighbours(size)
    passages = [f"{name(a)}-{name(b)}" for a in around for b in around[a] if _order(a) < _order(b)]
    return ["from", "to", "=", *map(name, around), *passages]


def _order(cell: Cell) -> tuple[int, int]:
    return cell[1], cell[0]


def maze(seed: int, epoch: int, index: int, size: int = SIZE) -> tuple[Maze, Cell, Cell]:
    """Return the open passages of a maze, its start and its goal."""
    rng = random.Random(f"{seed} {epoch} {index}")
    around = _neighbours(size)
    open_: Maze = {cell: [] for cell in around}
    cells = list(around)
    stack = [rng.choice(cells)]
    seen = {stack[0]}
    while stack:
        free = [cell for cell in around[stack[-1]] if cell not in seen]
        if not free:
            stack.pop()
            continue
        cell = rng.choice(free)
        open_[stack[-1]].append(cell)
        open_[cell].append(stack[-1])
        seen.add(cell)
        stack.append(cell)
    start, goal = rng.sample(cells, 2)
    return open_, start, goal


def prompt_of(open_: Maze, start: Cell, goal: Cell) -> str:
    """Return the prompt: all open passages, in order, then start and goal."""
    passages = [
        f"{name(a)}-{name(b)}"
        for a in sorted(open_, key=_order)
        for b in sorted(open_[a], key=_order)
        if _order(a) < _order(b)
    ]
    return " ".join([*passages, "from", name(start), "to", name(goal)])


def walk(open_: Maze, start: Cell, goal: Cell) -> list[Cell | None]:
    """Return the search: each cell that is entered, and None for each step back."""
    path, seen, steps = [start], {start}, list[Cell | None]([start])

    def distance(cell: Cell) -> tuple[int, int, int]:
        return abs(cell[0] - goal[0]) + abs(cell[1] - goal[1]), *_order(cell)

    while path[-1] != goal:
        free = [cell for cell in open_[path[-1]] if cell not in seen]
        if not free:
            path.pop()
            steps.append(None)
            continue
        path.append(min(free, key=distance))
        seen.add(path[-1])
        steps.append(path[-1])
    return steps


def path_of(steps: list[Cell | None]) -> list[Cell]:
    """Return the path that a search ends with."""
    path: list[Cell] = []
    for step in steps:
        if step is None:
            path.pop()
        else:
            path.append(step)
    return path


def revise(seed: int, epoch: int, index: int, size: int = SIZE) -> Example:
    """Editing: INSERT a step, DELETE it at a dead end."""
    open_, start, goal = maze(seed, epoch, index, size)
    edits: list[tuple[str, ...]] = [
        ("delete",) if step is None else ("insert", name(step)) for step in walk(open_, start, goal)
    ]
    return prompt_of(open_, start, goal), edits


def touch(seed: int, epoch: int, index: int, size: int = SIZE) -> Example:
    """Editing that names the place: after a DELETE, the last cell is replaced by itself."""
    open_, start, goal = maze(seed, epoch, index, size)
    edits: list[tuple[str, ...]] = []
    path: list[Cell] = []
    for step in walk(open_, start, goal):
        if step is None:
            path.pop()
            edits += [("delete",), ("replace", name(path[-1]))]
        else:
            path.append(step)
            edits.append(("insert", name(step)))
    return prompt_of(open_, start, goal), edits


def ltr(seed: int, epoch: int, index: int, size: int = SIZE) -> Example:
    """Left to right: the path alone."""
    open_, start, goal = maze(seed, epoch, index, size)
    path = path_of(walk(open_, start, goal))
    return prompt_of(open_, start, goal), [("insert", name(cell)) for cell in path]


def cot(seed: int, epoch: int, index: int, size: int = SIZE) -> Example:
    """Left to right with the search as text: cells entered and junctions returned to, =, path."""
    open_, start, goal = maze(seed, epoch, index, size)
    steps = walk(open_, start, goal)
    path: list[Cell] = []
    trace: list[str] = []
    for number, step in enumerate(steps):
        if step is not None:
            path.append(step)
            trace.append(name(step))
            continue
        path.pop()
        if steps[number + 1] is not None:  # the junction, from which it goes on
            trace.append(name(path[-1]))
    written = [*trace, "=", *map(name, path)]
    return prompt_of(open_, start, goal), [("insert", word) for word in written]


def back(seed: int, epoch: int, index: int, size: int = SIZE) -> Example:
    """Editing for order alone: the path from the goal leftwards, with nothing taken back."""
    open_, start, goal = maze(seed, epoch, index, size)
    path = path_of(walk(open_, start, goal))
    edits: list[tuple[str, ...]] = []
    for cell in reversed(path):
        edits += [("insert", name(cell)), ("move", -1)]  # type: ignore[list-item]
    return prompt_of(open_, start, goal), edits


# -- test problems --------------------------------------------------------------------------------

TEST_SEED = -1
"""The seed of the test problems, which training never uses: its seeds are 0 or more."""


def task(index: int, _arm: str = "", size: int = SIZE) -> reviser.Continue:
    """Return a test problem."""
    return reviser.Continue(prompt_of(*maze(TEST_SEED, 0, index, size)))


def is_solved(index: int, text: str, arm: str, size: int = SIZE) -> bool:
    """Return whether an answer is exactly the path."""
    path = " ".join(map(name, path_of(walk(*maze(TEST_SEED, 0, index, size)))))
    return (text.rpartition("= ")[2] if arm == "cot" else text) == path


BACK, DIRECT = "needs a step back", "does not"


def group(index: int, size: int = SIZE) -> str:
    """Return whether the recorded search meets a dead end: where greedy guessing fails."""
    return BACK if None in walk(*maze(TEST_SEED, 0, index, size)) else DIRECT


if __name__ == "__main__":
    json.dump(words(), sys.stdout)
