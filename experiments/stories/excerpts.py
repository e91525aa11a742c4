"""Add pieces from the middle of stories to the stories, so that a text can end anywhere.

    python -m experiments.stories.excerpts stories.jsonl -o text.jsonl

A writer that knows whole stories only fills a gap in a short text with the rest of a story.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path

SENTENCES = (4, 8)
"""Fewest and most sentences of a piece."""
SHARE = 0.2
"""The share of stories that also give a piece."""
BEGINNING = 2
"""Sentences at the beginning of a story that are in no piece: a beginning promises a story."""


def excerpt(story: str, rng: random.Random) -> str | None:
    """Return a piece from the middle of a story, or None if the story is short.

    >>> excerpt("A a. B b. C c. D d. E e. F f. G g. H h. I i. J j. K k.", random.Random(1))
    'G g. H h. I i. J j. K k.'
    """
    sentences = re.findall(r"[^.!?]+[.!?]+\"?\s*", story)
    count = rng.randint(*SENTENCES)
    if len(sentences) <= BEGINNING + max(SENTENCES):
        return None
    start = rng.randint(BEGINNING, len(sentences) - count)
    return "".join(sentences[start : start + count]).strip()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stories", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    rng = random.Random(5)
    stories = [json.loads(line)["text"] for line in given.stories.open(encoding="utf-8")]
    chosen = [story for story in stories if rng.random() < SHARE]
    pieces = [piece for story in chosen if (piece := excerpt(story, rng))]
    texts = rng.sample(stories + pieces, len(stories) + len(pieces))
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    given.output.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
