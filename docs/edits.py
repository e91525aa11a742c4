"""Writes edits.html: ten drafts that an editor revised, chosen by a seed, to be watched.

python docs/edits.py > docs/edits.html
"""

from __future__ import annotations

import sys
from pathlib import Path

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.generate import Rollout
from reviser.player.film import Cutter, Film
from reviser.player.page import to_html

HERE = Path(__file__).parent.parent
RESULTS = HERE / "results" / "revise"
TOKENS = HERE / "models" / "stories-append"
"""Whose tokenizer the editor has."""
TITLE = "Ten drafts, revised"
NOTE = (
    "What the story editor of the results page made of ten held-out pieces with mistakes in them,"
    " drawn by seed 7 from those that need a change, not by hand. It searches for a place, changes it"
    " and goes on, or stops. It has learnt little yet: most mistakes it does not find."
)


def films() -> list[Film]:
    """The revisions in the order of their drafts."""
    cutter = Cutter(ActionVocab.load(RESULTS), Codec.load(TOKENS))
    lines = (RESULTS / "edits.jsonl").read_text("utf-8").splitlines()
    return [
        cutter.film_of(Rollout.from_json(line), name=f"Draft {n}")
        for n, line in enumerate(lines, start=1)
    ]


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write(to_html(films(), title=TITLE, note=NOTE))
