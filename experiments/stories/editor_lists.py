"""Write the word lists of the story editor: `words.txt` and `suggestions.json`.

    python -m experiments.stories.editor_lists stories-*.jsonl -o RUN

The words are those of the stories, the most frequent first, and then those of the proofreader's
list, so that a correct word that no story has is not taken for a misspelled one. Of the
proofreader's replacements, those between two words of the stories are kept. Words that begin
sentences can also get a capital. The model decides which suggestions are right.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.stories.editor import read_stories
from reviser import Codec
from reviser.models.wordlists import LISTS, WORDS

ROOT = Path(__file__).parents[2]
PROOFREADER = ROOT / "models" / "proofreader"
MIN_COUNT = 3
"""How often the stories must have a word: they are sampled, so they have misspelled words too."""
OTHERS = 15_000
"""Words of the proofreader's list, the most frequent ones."""
INSERTED = "a an the to of in on at for with and was is had it that he she they , ."
EXTRA = "a an the to of in on at for with and was is were had it that he she they his her ,"
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
FIRST = re.compile(r"(?:\A|[.!?\"]\s+\"?|\n\"?)([A-Z][a-z]*)")


def lists_of(stories: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """Return the words, and what may replace, follow or leave them."""
    counts = Counter(word for text in stories for word in WORD.findall(text.lower()))
    known = [word for word, count in counts.most_common() if count >= MIN_COUNT]
    others = (PROOFREADER / WORDS).read_text("utf-8").split()[:OTHERS]
    words = list(dict.fromkeys([*known, *others]))
    saved = json.loads((PROOFREADER / LISTS).read_text("utf-8"))["replace"]
    usual = set(known)
    replace = {
        word: [new for new in some if new in usual] for word, some in saved.items() if word in usual
    }
    begins = Counter(word for text in stories for word in FIRST.findall(text))
    for word, count in begins.items():
        # Names are never in lower case, so they are not among the known words in lower case.
        if count >= MIN_COUNT and word.lower() in usual:
            replace.setdefault(word.lower(), []).append(word)
    replace = {word: some for word, some in replace.items() if some}
    return words, {"replace": replace, "insert": INSERTED.split(), "delete": EXTRA.split()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stories", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the model's folder")
    given = parser.parse_args()
    _, stories = read_stories(given.stories, Codec.load(given.output))
    words, lists = lists_of(stories)
    (given.output / WORDS).write_text("\n".join(words) + "\n", encoding="utf-8")
    text = json.dumps(lists, separators=(",", ":"), sort_keys=True)
    (given.output / LISTS).write_text(text + "\n", encoding="utf-8")
    print(f"{len(words)} words, {len(lists['replace'])} with replacements")  # type: ignore[arg-type]
