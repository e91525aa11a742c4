"""Record what the proofreader makes of some drafts, for a page of the documentation.

    python showcase.py units -o results/showcase.json --model proofreader --base base

There are the ten drafts of `drafts/`, which were written for this, and ten held-out texts with
mistakes, drawn by a seed. `experiments/player_pages.py` turns the file into a page.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mistakes import draw_mistakes, read_words

import reviser
from reviser.data.mistakes import apply

DRAFTS = Path(__file__).parent / "drafts"
SEED, DRAWN = 7, 10


def drawn(units: Path) -> list[tuple[str, str]]:
    """Return held-out texts with and without mistakes."""
    rows = [json.loads(line) for line in (units / "held_out.jsonl").open(encoding="utf-8")]
    rows = [row for row in rows if "tags" in row]
    rng = np.random.default_rng(SEED)
    found: list[tuple[str, str]] = []
    for n in rng.permutation(len(rows)):
        words = read_words(rows[n]["text"], rows[n]["spans"], rows[n]["tags"])
        wrong = apply(rows[n]["text"], draw_mistakes(rows[n]["text"], words, rng))
        if wrong != rows[n]["text"] and len(found) < DRAWN:
            found.append((wrong, rows[n]["text"]))
    return found


def revised(model: reviser.Reviser, draft: str) -> dict[str, Any]:
    """Return a draft, what the model makes of it, and its changes."""
    revision = model.revise(draft)
    changes = [
        {"before": each.before, "after": each.after, "confidence": each.confidence}
        for each in revision.changes
    ]
    return {"before": draft, "after": revision.text, "changes": changes}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=Path, help="what prepare.py wrote")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--base", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = reviser.load(given.model, base=given.base)
    written = [revised(model, path.read_text("utf-8")) for path in sorted(DRAFTS.glob("*.txt"))]
    held_out = [{**revised(model, wrong), "right": right} for wrong, right in drawn(given.units)]
    text = json.dumps({"written": written, "drawn": held_out}, indent=1, ensure_ascii=False)
    given.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
