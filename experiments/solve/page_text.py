"""The prose of the page on solving; braces are filled in by `report.py`."""

INTRODUCTION = """\
# Solving: results

`python -m experiments.solve.report` writes this page from the files in `experiments/solve/results`.

A model that may take back what it wrote can search: it tries a way, sees that it leads nowhere, deletes it and tries the next. This page measures how much of a task a small model solves in this way.

![A path through a maze grows, runs into a dead end, shrinks, and finds the goal](img/maze.gif)

`models/maze` in the picture is the first row of the table. `python -m experiments.solve.watch models/maze` draws other mazes in the terminal, and `--page maze.html` writes a page.
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

This is one tiny model, trained once for minutes on one core, on one task. It shows that walking and taking back is learned, and how far it goes; it does not show that it is better than another way to write. The fair rivals, which `experiments/solve/run.py` trains too, are search written out as text, which also takes steps back, and the path written left to right; a row that is missing from the table was not trained. The learning rate is the one of an earlier study of the same task. A context that is too short was measured on the same mazes as the whole one, so the rows of that table can be compared with each other.
"""
