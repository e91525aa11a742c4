"""Writes rollouts.html and edits.html: what models wrote and revised, drawn by a seed, to be watched.

python docs/rollouts.py
"""

from __future__ import annotations

from pathlib import Path

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.generate import Rollout
from reviser.player.film import Cutter
from reviser.player.page import to_html

DOCS = Path(__file__).parent
STORIES = (
    "What models/stories-revise (5.8 million parameters) made of ten held-out beginnings, drawn"
    " from the thousand of the results page by seed 7, not by hand. The prompt is grey. It writes a"
    " story, leaves something out, goes back, and writes that last."
)
DRAFTS = (
    "What the story editor of the results page made of ten held-out pieces with mistakes in them,"
    " drawn by seed 7 from those that need a change, not by hand. It has read each first and may edit"
    " only where it noted something; it searches for a place, changes it and goes on, or stops. Of"
    " ten mistakes it leaves six or seven."
)


def page(rollouts: str, vocab: str, tokens: str, *, name: str, title: str, note: str) -> str:
    """A page of films: of which rollouts, by whose actions, in whose tokens."""
    top = DOCS.parent
    cutter = Cutter(ActionVocab.load(top / vocab), Codec.load(top / tokens))
    lines = (top / rollouts).read_text("utf-8").splitlines()
    films = [
        cutter.film_of(Rollout.from_json(line), name=f"{name} {n}")
        for n, line in enumerate(lines, start=1)
    ]
    return to_html(films, title=title, note=note)


def pages() -> dict[str, str]:
    """Both, by the name of their file."""
    return {
        "rollouts.html": page(
            "results/world/rollouts.jsonl",
            "models/stories-revise",
            "models/stories-revise",
            name="Story",
            title="Ten stories, written by editing",
            note=STORIES,
        ),
        "edits.html": page(
            "results/revise/edits.jsonl",
            "results/revise",
            "models/stories-append",  # whose tokenizer the editor has
            name="Draft",
            title="Ten drafts, revised",
            note=DRAFTS,
        ),
    }


if __name__ == "__main__":
    for file, content in pages().items():
        (DOCS / file).write_text(content, encoding="utf-8", newline="\n")
