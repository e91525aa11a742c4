"""The prose of the page on solving; braces are filled in by `report.py`."""

INTRODUCTION = """\
# Solving: results

`python -m experiments.solve.report` writes this page from the files in `experiments/solve/results`.

A model that may take back what it wrote can search: it tries a way, sees that it leads nowhere, deletes it and tries the next. This page measures how much of a task a small model solves in this way, and compares it with the same model writing left to right.

![Two mazes. On the left, a path grows, turns red at a dead end, shrinks, and finds the goal. On the right, a path is written left to right; in the second maze it goes through a wall](img/maze.gif)

These are test problems 2 and 3, the first two that need a step back. On the left is `models/maze`, on the right a model that writes left to right. [Watch the first eight test problems](maze.html), none of them picked. `python -m experiments.solve.watch models/maze` draws them in the terminal, and `--page maze.html` writes a page.

`models/maze` comes with the checkout. It was trained before the runs below, as "touch" at a learning rate of {rate:g}, and solves {solved} of {count} mazes.
"""

MAZES = """\
## Mazes

A maze of 6 by 6 cells is a random tree of passages. The prompt lists all open passages, the start and the goal; the answer is the only path. No order of writing helps, because the way back is as hard as the way there. A model of {parameters:,} weights (three layers of width 64) learns from a depth-first search that tries the cell nearest to the goal first:

- **touch**: the editor inserts each step and deletes it at a dead end. After a delete it replaces the last cell by itself. The text does not change, but the history then names where the cursor is.
- **revise**: the same without naming the place.
- **search as text**: left to right, the cells in the order of the search, then `=`, then the path.
- **left to right**: the path alone.
- **guessing** never steps back: it is what the search reaches without a dead end.

All arms read {ids:.1f} million ids in training, prompts included, of the same problems. Each was trained with three seeds at the best of {trials} learning rates, by its own held-out loss after 1 million ids: {chosen}. Decoding is greedy, through `reviser.load` and the mask, on {count} mazes that training does not use. A maze counts as solved if the answer is exactly the path when the model stops. [..] is a 95 % interval over seeds.
"""

AFTER_MAZES = """\
"Needs a step back" are the mazes in which the recorded search meets a dead end. Ids written are all that the model chose, arguments and STOP included, per maze; ids read are those and the prompt. Touch leads, in the share solved, over seeds: {leads}. With three seeds, an interval that includes 0 leaves it open whether there is a lead.

While they train, the arms solve this share of 100 held-out mazes at about a quarter, half, three quarters and all of the steps (mean over seeds). The learning rate falls to the end, so this is not what shorter runs would reach. Search as text must here write the search exactly, too, and not only the path.
"""

ARITHMETIC = """\
## Arithmetic, reduced in place

An expression has {low} to {high} operations, each in brackets, and every value in it is a digit: `( ( 3 + 4 ) - 2 )`. The first pair of brackets that has only digits inside gives way to its value, until one digit is left.

- **refresh**: the editor finds the bracket, deletes the operation and inserts its value; then [it is shown the text again](guides/policy.md#show-the-text-again), without its past actions.
- **history only**: the same edits, but the model reads only its history.
- **expressions as text**: left to right, the whole expression again after each operation.
- **steps as text**: left to right, each operation with its value.
- **left to right**: the answer alone.

All arms have the trunk of the mazes and read {ids:.1f} million ids in training of the same problems, at the best of {trials} learning rates, by their own held-out loss after 1 million ids: {chosen}. The test has {count} problems of the sizes to train on, and 250 of each further size, which no arm has seen in training.
"""

AFTER_ARITHMETIC = """\
Refresh leads in the share solved: {leads}. With a refresh, ids read count what is shown again. Its training is slow because each recorded history is edited again to see the text.
"""

REFRESH = {
    "mazes": """\
## A context that is too short

The editor of mazes with a context of {context} ids, half of what its longest history in training needs (177), on {count} mazes, prompts included. When the context is full, [the text is shown again](guides/decode.md#see-the-text-again) in place of the actions so far: the prompt, the current path, and the last few actions. The model was not trained for that.
""",
    "mazes8": """\
Mazes of {size} by {size} cells, with an editor that was trained on them with a context large enough for all. Its longest history here has {longest} ids, and {context} are half of that:
""",
}

LIMITS = """\
## What this does not show

These are tiny models, trained for minutes on one core, on two tasks that suit the question. Left to right does not solve them at this size and compute; a larger model, or more training, may. Search written out as text takes steps back, too, and is the fair rival: editing leaves only the answer in the text. In arithmetic it was more accurate here; on mazes, three seeds leave that open. The learning rates were chosen in short runs; a rate that is best there need not be best in a long one. A context that is too short was measured on the same mazes as the whole one, so the rows of those tables can be compared with each other.
"""
