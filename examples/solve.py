"""Train a model that walks mazes, and print how it steps back: python examples/solve.py OUTPUT."""

import json
import random
import sys
from pathlib import Path

import reviser
from reviser.models.trunk_config import TrunkConfig
from reviser.train.recipe import DataConfig, EvaluationConfig, Recipe, TrainingConfig, VocabConfig
from reviser.train.run import train
from reviser.trajectories.policy import Recorded

CELLS = [f"{x}{y}" for x in "abcd" for y in "1234"]
NEAR = {a: [b for b in CELLS if abs(ord(a[0]) - ord(b[0])) + abs(int(a[1]) - int(b[1])) == 1] for a in CELLS}  # fmt: skip  # noqa: E501


def example(seed: int, epoch: int, index: int) -> tuple[str, list[tuple[str, ...]]]:
    rng = random.Random(f"{seed} {epoch} {index}")
    tree: dict[str, list[str]] = {cell: [] for cell in CELLS}
    stack = [root := rng.choice(CELLS)]
    while stack:  # a random walk that enters every cell once: the passages of the maze
        if free := [cell for cell in NEAR[stack[-1]] if not tree[cell] and cell != root]:
            stack.append(rng.choice(free))
            tree[stack[-2]].append(stack[-1])
            tree[stack[-1]].append(stack[-2])
        else:
            stack.pop()
    start, goal = rng.sample(CELLS, 2)
    path, seen, actions = [start], {start}, [("insert", start)]
    while path[-1] != goal:
        if free := [cell for cell in sorted(tree[path[-1]]) if cell not in seen]:
            path, seen = [*path, free[0]], {*seen, free[0]}
            actions.append(("insert", free[0]))
        else:  # a dead end: delete the step, and name the cell before it
            path.pop()
            actions += [("delete",), ("replace", path[-1])]
    passages = [f"{a}-{b}" for a in CELLS for b in sorted(tree[a]) if a < b]
    return " ".join([*passages, "from", start, "to", goal]), actions


def main(output: str, steps: str = "1000") -> None:
    (words := Path(f"{output}-words.json")).write_text(json.dumps(["from", "to", *CELLS, *(f"{a}-{b}" for a in CELLS for b in NEAR[a])]))  # fmt: skip  # noqa: E501
    recipe = Recipe(
        trunk=TrunkConfig(layers=3, width=64, heads=2, mlp_width=160, context=128, dropout=0.0),
        vocab=VocabConfig(operators=("delete", "replace"), max_move=16),
        policy=Recorded(),
        data=DataConfig(generator=f"{Path(__file__).resolve()}:example", words=words),
        training=TrainingConfig(steps=int(steps), learning_rate=4e-3, precision="fp32"),
        evaluation=EvaluationConfig(examples=64, solve=200, prompts=(), max_actions=90),
    )
    task = reviser.Continue(example(-1, 0, 0)[0])  # a maze in which this walk meets dead ends
    with reviser.load(train(recipe, output)) as model:
        for _ in (writing := model.stream(task, temperature=0.0, max_actions=90)):
            print(writing.text.removeprefix(task.prompt))


if __name__ == "__main__":
    main(*sys.argv[1:])
