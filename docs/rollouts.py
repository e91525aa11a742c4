"""Writes rollouts.html: ten stories that the shipped model wrote, chosen by a seed, to be watched.

python docs/rollouts.py > docs/rollouts.html
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
ROLLOUTS = HERE / "results" / "world" / "rollouts.jsonl"
MODEL = HERE / "models" / "stories-revise"
TITLE = "Ten stories, written by editing"
NOTE = (
    "What models/stories-revise (5.8 million parameters) made of ten held-out beginnings, drawn"
    " from the thousand of the results page by seed 7, not by hand. The prompt is grey. It writes a"
    " story, leaves something out, goes back, and writes that last."
)


def films() -> list[Film]:
    """The rollouts in the order of their prompts."""
    cutter = Cutter(ActionVocab.load(MODEL), Codec.load(MODEL))
    lines = ROLLOUTS.read_text("utf-8").splitlines()
    return [
        cutter.film_of(Rollout.from_json(line), name=f"Story {n}")
        for n, line in enumerate(lines, start=1)
    ]


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write(to_html(films(), title=TITLE, note=NOTE))
