"""Search-and-replace blocks: a format in which models that write text are often asked to edit.

A block is a text to search for and its replacement, separated and ended by the two ASCII control
characters for that purpose. `write` makes blocks from a pair, for a baseline to learn. `apply`
applies the blocks that are valid for a draft. To train the baseline:

    python -m experiments.revise.blocks recipes/revise.yaml -o BLOCKS --set base=base
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.core.trajectory import Trajectory
from reviser.errors import DataError
from reviser.train.recipe import Recipe, absolute_paths, load_recipe
from reviser.trajectories.alignment import Hunk, diff
from reviser.trajectories.policy import AnyPolicy, ByKind, Rewrite, TokenPair

PART, END = "\x1f", "\x1e"
"""The characters between a search and its replacement, and after each block."""

_WORD = re.compile(r"\s*\S+|\s+")


@dataclass(frozen=True, kw_only=True)
class Blocks(Rewrite):
    """A policy for pairs: the draft is the prefix, and search-and-replace blocks follow it."""

    def compile(self, vocab: ActionVocab, codec: Codec, /) -> Callable[[TokenPair], Trajectory]:
        """Return what makes a trajectory that writes the blocks."""
        rewrite = super().compile(vocab, codec)

        def write_blocks(pair: TokenPair) -> Trajectory:
            before, after = (codec.decode(text.tolist()) for text in (pair.before, pair.after))
            _, written = codec.encode_parts(["", write(before, after)])
            return rewrite(pair._replace(after=np.array(written, np.int32)))

        return write_blocks


@dataclass(frozen=True, kw_only=True)
class BlocksRecipe(Recipe):
    """A recipe whose policy writes blocks."""

    policy: Annotated[AnyPolicy | Blocks, ByKind()] = Blocks()


class Applied(NamedTuple):
    """A draft after its blocks were applied, and the reasons why blocks were skipped."""

    text: str
    faults: tuple[str, ...]
    """One reason per skipped block: "broken", "absent", "ambiguous" or "overlapping"."""


def write(before: str, after: str) -> str:
    r"""Return the blocks that turn one text into the other; empty if they are equal.

    Each search is made of whole words, as few as make it unique in the draft.

    >>> write("A cat saw a cat.", "A cat saw the cat.")
    ' a\x1f the\x1e'
    >>> write("my cat saw my cat", "my dog saw my cat")
    ' cat saw\x1f dog saw\x1e'
    """
    if any(mark in text for mark in (PART, END) for text in (before, after)):
        raise DataError("A text contains a separator character of blocks (U+001F or U+001E).")
    old, new = _WORD.findall(before), _WORD.findall(after)
    codes = {word: code for code, word in enumerate(dict.fromkeys([*old, *new]))}
    words = list(codes)
    spans: list[tuple[int, int, list[Hunk]]] = []
    for hunk in diff([codes[word] for word in old], [codes[word] for word in new]):
        start, end = _unique(before, old, hunk)
        hunks = [hunk]
        while spans and spans[-1][1] > start:  # two searches overlap: merge them into one block
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
    r"""Apply blocks to a draft; every search refers to the original draft.

    >>> apply("my cat saw my cat", " saw\x1f sees\x1e cat\x1f dog\x1e dog\x1f cat\x1e saw")
    Applied(text='my cat sees my cat', faults=('ambiguous', 'absent', 'broken'))
    """
    *complete, rest = blocks.split(END)
    faults: list[str] = []
    replacements: list[tuple[int, int, str]] = []
    for block in complete:
        search, *replacement = block.split(PART)
        start = draft.find(search)
        end = start + len(search)
        if len(replacement) != 1:
            faults.append("broken")
        elif start < 0:
            faults.append("absent")
        elif draft.find(search, start + 1) >= 0:
            faults.append("ambiguous")
        elif any(start < high and low < end for low, high, _ in replacements):
            faults.append("overlapping")
        else:
            replacements.append((start, end, replacement[0]))
    for start, end, text in sorted(replacements, reverse=True):  # so that offsets stay valid
        draft = draft[:start] + text + draft[end:]
    return Applied(draft, (*faults, "broken") if rest else tuple(faults))


def _unique(draft: str, words: list[str], hunk: Hunk) -> tuple[int, int]:
    """Extend a hunk by as few words as make its text unique in the draft."""
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
    raise AssertionError("the whole draft occurs in itself once")


if __name__ == "__main__":
    from reviser.train.run import train

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of the recipe")
    arguments = parser.parse_args()
    changes = ["policy={kind: blocks}", *map(absolute_paths, arguments.set)]
    train(load_recipe(arguments.recipe, changes, cls=BlocksRecipe), arguments.output)
