"""Write docs/models.md, the list of the included models, from their folders and the results.

python -m experiments.models
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.markdown import estimate, table
from experiments.stories import editor_scores
from experiments.stories.model_cards import MEASURE, NAME, record, usual

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "models.md"
HEAD = """\
# Models

These models come with the checkout, in `models/`. There is nothing to download, except for the base model of the proofreader. `python -m experiments.models` writes this page from the result files.

"""
TAIL = """
The card of each model (its `README.md`) says how its scores were measured; they cannot be compared with each other. [..] and "to" are 95 % intervals. Bits per character are of texts written at temperature 0.9, measured with stories15M; lower is better. stories15M generated the training text and gave these models their layers, so it is not an independent judge. F0.5 is in per cent; higher is better. For the proofreader, ERRANT computes it on {sentences} sentences of each set. For stories-edit, it is on stories with mistakes that a program made, which are easier.

| to measure a row again | run |
| --- | --- |
| stories-revise | `{measure_writers}` |
| stories-edit | `python -m experiments.stories.editor_scores measure models/stories-edit RUN/held-out.jsonl --first 60` |
| proofreader | `python rivals.py TESTS units -o results/rivals.json --only proofreader --model ../../models/proofreader --first 200`, in `experiments/proofreader` |

STORIES15M is the folder of that model, and BASELINE a left-to-right model that is not included; the card says how to train it.

Other models:

- **Your own.** [Train](guides/train.md) one, or [adapt](guides/adapt.md) a causal LM that you have, and [share](guides/share.md) it.
- **The paper's.** Its 100M and 300M checkpoints are separate downloads; `reviser convert` turns them into model folders. The [paper map](design/paper-map.md) says which figures to expect.
- **Hugging Face hub.** Every command takes a hub name in place of a folder. We have not uploaded any of these models.
"""
TASKS = {
    "proofreader": ("correct English", "reviser revise draft.md -m models/proofreader"),
    "stories-edit": ("correct simple stories", "reviser revise story.txt -m models/stories-edit"),
    "stories-revise": (
        "write stories, fill gaps",
        'reviser generate "Ben had a" -m models/stories-revise',
    ),
}


def megabytes(name: str) -> str:
    """Return the size of a model's files, in steps of a megabyte."""
    size = sum(path.stat().st_size for path in (ROOT / "models" / name).iterdir())
    return f"{size / 1e6:.0f} MB"


def proofreader() -> tuple[str, str]:
    """Return what the proofreader is, and its scores."""
    found = _rivals()
    sets = {"BEA-19 dev": "bea19-dev", "JFLEG test": "jfleg-test"}
    scores = [
        f"F0.5 {100 * found[key]['f05'][0]:.1f} ({100 * found[key]['f05'][1]:.1f} to"
        f" {100 * found[key]['f05'][2]:.1f}) on {name}"
        for name, key in sets.items()
    ]
    alarms = found["clean units"]["per_1000_words"]
    scores.append(f"{alarms[0]:.1f} false alarms per 1,000 clean words")
    return "adapter for SmolLM2-135M-Instruct", "; ".join(scores)


def _rivals() -> dict[str, Any]:
    path = ROOT / "experiments" / "proofreader" / "results" / "rivals.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["proofreader"]
    return found


def writer() -> tuple[str, str]:
    """Return what the story writer is, and its scores."""
    kind = f"Llama, {record()['parameters'] / 1e6:.1f} million parameters"
    return kind, f"{estimate(usual()['bits_per_character'], 3)} bits per character"


def editor() -> tuple[str, str]:
    """Return what the story editor is, and its scores."""
    found: dict[str, Any] = json.loads(editor_scores.RESULT.read_text("utf-8"))
    f05, alarms = found["f05"], found["false_alarms"]
    score = f"F0.5 {100 * f05['value']:.1f} [{100 * f05['low']:.1f}, {100 * f05['high']:.1f}]"
    scores = [f"{score} on {found['stories']} stories"]
    scores.append(f"{alarms['value']:.1f} false alarms per 1,000 clean words")
    return "Llama, 7.2 million parameters", "; ".join(scores)


MODELS = {"proofreader": proofreader, "stories-edit": editor, NAME: writer}


def page() -> str:
    """Return the page."""
    rows = []
    for name, (task, command) in TASKS.items():
        kind, scores = MODELS[name]()
        card = f"`models/{name}`"
        rows.append([card, task, f"{kind}, {megabytes(name)}", scores, f"`{command}`"])
    columns = ["model", "for", "what it is", "scores", "run it"]
    sentences = _rivals()["bea19-dev"]["sentences"]
    return (
        HEAD
        + table(columns, rows, numbers=False)
        + TAIL.format(sentences=sentences, measure_writers=MEASURE)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
