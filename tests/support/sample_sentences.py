"""A random sample of our sentences, to judge as an editor would.

`python -m support.sample_sentences SEED [COUNT]` prints sentences of pages, docstrings, comments,
help and messages, each with its place. Every sentence has the same weight.
"""

from __future__ import annotations

import random
import re
import sys

from support import prose

MIN_WORDS = 4
NOT_PROSE = re.compile(r"</?\w+[ >]|^\w+:\s|(?:/\w+ ){3}")
"""Markup, keys of YAML, and lists of words such as `their/there its/it's`."""


def sentences() -> list[str]:
    """Return every sentence with at least `MIN_WORDS` words, after its file and line."""
    found = []
    for each in prose.passages(with_code=True):
        if NOT_PROSE.search(each.text):
            continue
        text = re.sub(r"^[\s#>|*-]*|[|\s]+$", "", each.text)
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[])|\s\|\s", text):
            if len(re.findall(r"\b[a-z]{2,}\b", prose.without_code(sentence))) >= MIN_WORDS:
                found.append(f"{each.path.relative_to(prose.ROOT)}:{each.line}: {sentence.strip()}")
    return found


if __name__ == "__main__":
    rng = random.Random(int(sys.argv[1]))
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    print(*rng.sample(sentences(), count), sep="\n")
