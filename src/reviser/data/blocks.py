"""Search-and-replace blocks: the format by which models that write text are often asked to edit.

A block is a text to search for and what takes its place, parted and ended by the two characters
that ASCII has for it. `write` makes blocks of a pair, for a twin to learn; `apply` does what such
blocks say, as far as they say something that can be done. Knows text only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from reviser.errors import DataError
from reviser.trajectories.alignment import Hunk, diff

PART, END = "\x1f", "\x1e"
"""Between a search and its replacement, and behind each block."""

_WORD = re.compile(r"\s*\S+|\s+")


class Applied(NamedTuple):
    """What became of a draft, and what was wrong with the blocks that were left out."""

    text: str
    faults: tuple[str, ...]
    """Of each such block: "broken", "absent", "ambiguous" or "overlapping"."""


def write(before: str, after: str) -> str:
    r"""The blocks that make the one text of the other; none if they are equal.

    Each search is whole words, as few as are found nowhere else in the draft.

    >>> write("A cat saw a cat.", "A cat saw the cat.")
    ' a\x1f the\x1e'
    >>> write("my cat saw my cat", "my dog saw my cat")
    ' cat saw\x1f dog saw\x1e'
    """
    if any(mark in text for mark in (PART, END) for text in (before, after)):
        raise DataError("A text holds a character that parts or ends blocks (U+001F, U+001E).")
    old, new = _WORD.findall(before), _WORD.findall(after)
    codes = {word: code for code, word in enumerate(dict.fromkeys([*old, *new]))}
    words = list(codes)
    spans: list[tuple[int, int, list[Hunk]]] = []
    for hunk in diff([codes[word] for word in old], [codes[word] for word in new]):
        start, end = _unique(before, old, hunk)
        hunks = [hunk]
        while spans and spans[-1][1] > start:
            low, high, others = spans.pop()
            start, end, hunks = min(low, start), max(high, end), [*others, *hunks]
        spans.append((start, end, hunks))
    made = ""
    for start, end, hunks in spans:
        parts, at = [], start
        for hunk in hunks:
            parts += old[at : hunk.start] + [words[code] for code in hunk.tokens]
            at = hunk.end
        made += "".join([*old[start:end], PART, *parts, *old[at:end], END])
    return made


def apply(draft: str, blocks: str) -> Applied:
    r"""Do what the blocks say, each by the draft as it was.

    >>> apply("my cat saw my cat", " saw\x1f sees\x1e cat\x1f dog\x1e dog\x1f cat\x1e saw")
    Applied(text='my cat sees my cat', faults=('ambiguous', 'absent', 'broken'))
    """
    *given, rest = blocks.split(END)
    faults: list[str] = []
    places: list[tuple[int, int, str]] = []
    for block in given:
        search, *replacement = block.split(PART)
        start = draft.find(search)
        end = start + len(search)
        if len(replacement) != 1:
            faults.append("broken")
        elif start < 0:
            faults.append("absent")
        elif draft.find(search, start + 1) >= 0:
            faults.append("ambiguous")
        elif any(start < high and low < end for low, high, _ in places):
            faults.append("overlapping")
        else:
            places.append((start, end, replacement[0]))
    for start, end, text in sorted(places, reverse=True):
        draft = draft[:start] + text + draft[end:]
    return Applied(draft, (*faults, "broken") if rest else tuple(faults))


def _unique(draft: str, words: list[str], hunk: Hunk) -> tuple[int, int]:
    """The hunk with as few words on either side as make its text stand nowhere else."""
    for more in range(len(words) + 1):
        found = []
        for left in range(more + 1):
            start, end = hunk.start - left, hunk.end + more - left
            if start >= 0 and end <= len(words):
                text = "".join(words[start:end])
                if draft.find(text, draft.find(text) + 1) < 0:
                    found.append((len(text), start, end))
        if found:
            return min(found)[1:]
    raise AssertionError("the whole draft stands in it once")
