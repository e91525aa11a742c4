"""The prose of the page on solving; braces are filled in by `report.py`."""

INTRODUCTION = """\
# Solving: results

`python -m experiments.solve.report` writes this page from the files in `experiments/solve/results`.

A model that may take back what it wrote can search: it tries a way, sees that it leads nowhere, deletes it and tries the next. This page measures when that helps a small model, and what does as well.
"""

MAZES = """\
## Mazes

A maze of 6 by 6 cells is a random tree of passages. The prompt lists all open passages, the start and the goal; the answer is the only path. No order of writing helps, because the way back is as hard as the way there. A model of {parameters:,} weights (three layers of width 64) learns from a depth-first search that tries the cell nearest to the goal first:

- **touch**: the editor inserts each step and deletes it at a dead end. After a delete it replaces the last cell by itself. The text does not change, but the history then names where the cursor is.
- **revise**: the same without naming the place.
- **search as text**: left to right, the cells in the order of the search, then `=`, then the path.
- **left to right**: the path alone.
- **guessing** never steps back: it is what the search reaches without a dead end.

{missing}All arms read {ids:.1f} million ids in training, prompts included, of the same problems, in batches of {batch} at a learning rate of {rate:g}; {tuned} Decoding is greedy, through `reviser.load` and the mask, on {count} mazes that training does not use. A maze counts as solved if the text is exactly the path when the model stops. [..] is a 95 % interval over mazes; it does not cover other seeds of training, and there is one seed for each row.
"""

AFTER = """\
"Needs a step back" are the mazes in which the recorded search meets a dead end. Ids written are all that the model chose, arguments and STOP included, per maze.
"""

REFRESH = """\
## See the text again

The editor with a context of {context} ids, half of what the longest history in training needs ({longest}), on {count} mazes, prompts included. When the context is full, [the text is shown again](guides/decode.md#see-the-text-again) in place of the actions so far: the prompt, the path as it is, and the last few actions. The model was not trained for that. Ids read are all that it reads, again included.
"""

LIMITS = """\
## What this does not show

These are tiny models that were trained for minutes on one core. Left to right does not solve these mazes at this size and compute; more layers or more data would raise it. Searching as text is a fair rival: it takes steps back too, and leaves the search in the text. One task is measured here; other tasks, larger mazes and other widths are not.
"""
