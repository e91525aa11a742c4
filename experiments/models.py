"""Write docs/models.md, the list of the included models, from their folders and the results.

python -m experiments.models
"""

from __future__ import annotations

import json
from pathlib import Path

from experiments.markdown import estimate, table
from experiments.stories.model_cards import MEASURE, NAME, record, usual

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "models.md"
HEAD = """\
# Models

These models come with the checkout, in `models/`. There is nothing to download. `python -m experiments.models` writes this page from the result files.

"""
TAIL = """
The card of a model (its `README.md`) says how its score was measured. [..] is a 95 % interval. Bits per character are of texts written at temperature 0.9, measured with stories15M; lower is better. stories15M generated the training text and gave the model its layers, so it is not an independent judge.

| to measure a row again | run |
| --- | --- |
| stories-revise | `{measure_writers}` |
| maze | `python -m experiments.solve.run mazes --arms touch --seeds 0 --work runs/solve` |

STORIES15M is the folder of that model, and BASELINE a left-to-right model that is not included; the card says how to train it.

Other models:

- **The proofreader's judge.** `reviser proofread` judges with SmolLM2-135M-Instruct, or with any causal LM that `--judge` names. See the [results](proofreading-results.md).
- **Your own.** [Train](guides/train.md) one, or [adapt](guides/adapt.md) a causal LM that you have, and [share](guides/share.md) it.
- **The paper's.** Its 100M and 300M checkpoints are separate downloads; `reviser convert` turns them into model folders. The [paper map](design/paper-map.md) says which figures to expect.
- **Hugging Face hub.** Every command takes a hub name in place of a folder. We have not uploaded any model.
"""
TASKS = {
    "stories-revise": (
        "write stories, fill gaps",
        'reviser generate "Ben had a" -m models/stories-revise',
    ),
    "maze": (
        "solve mazes of 6 by 6 cells",
        "python -m experiments.solve.watch models/maze",
    ),
}


def megabytes(name: str) -> str:
    """Return the size of a model's files, in steps of a megabyte."""
    size = sum(path.stat().st_size for path in (ROOT / "models" / name).iterdir())
    return f"{size / 1e6:.0f} MB"


def writer() -> tuple[str, str]:
    """Return what the story writer is, and its scores."""
    kind = f"Llama, {record()['parameters'] / 1e6:.1f} million parameters"
    return kind, f"{estimate(usual()['bits_per_character'], 3)} bits per character"


def maze() -> tuple[str, str]:
    """Return what the model of mazes is, and its scores."""
    found = json.loads((ROOT / "experiments/solve/results/model.json").read_text("utf-8"))
    kind = f"Llama, {found['parameters'] / 1e6:.2f} million parameters"
    exact = found["scores"]["exact"]
    return kind, f"{estimate(exact, 3)} of {exact['of']} mazes ([results](solving.md))"


MODELS = {NAME: writer, "maze": maze}


def page() -> str:
    """Return the page."""
    rows = []
    for name, (task, command) in TASKS.items():
        kind, scores = MODELS[name]()
        card = f"`models/{name}`"
        rows.append([card, task, f"{kind}, {megabytes(name)}", scores, f"`{command}`"])
    columns = ["model", "for", "what it is", "scores", "run it"]
    return HEAD + table(columns, rows, numbers=False) + TAIL.format(measure_writers=MEASURE)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
