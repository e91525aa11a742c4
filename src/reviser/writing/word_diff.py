"""A word diff that spares locked text: the changes that make one text out of another.

It is for a text that somebody wrote again as a whole, such as a sentence, where few words differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from reviser.markup.spans import Span, touched
from reviser.writing.changes import Change, Changes

__all__ = ["Hunk", "changes_from", "rewritten"]

_TOKEN = re.compile(r"\s+|\w+(?:['’]\w+)*|[^\w\s]")  # noqa: RUF001


class Hunk(NamedTuple):
    """A stretch of a draft, and the text that replaces it."""

    start: int
    end: int
    after: str


def rewritten(
    draft: str, span: Span, new: str, locked: Sequence[Span], *, keeps_lines: bool
) -> tuple[list[Hunk], list[Hunk]]:
    """Return the hunks that turn a span of a draft into a new text, and those that a lock forbids.

    With `keeps_lines`, a space in the new text may stand for a line end of the draft, which stays.

    >>> rewritten("A cat sat.", (0, 10), "The cat sits.", [], keeps_lines=True)
    ([Hunk(start=0, end=1, after='The'), Hunk(start=6, end=9, after='sits')], [])
    """
    old = draft[slice(*span)]
    fits: list[Hunk] = []
    refused: list[Hunk] = []
    for choices in _differences(old, new, span[0], keeps_lines=keeps_lines):
        fit = next((each for each in choices if not touched(locked, *each[:2])), None)
        (refused if fit is None else fits).append(fit or choices[0])
    fits = list(_phrases(draft, fits, locked))
    # If locked text was moved, the hunk that deletes it is refused. Without it, the one that
    # writes it elsewhere would copy it.
    pieces = {draft[a:b] for each in refused for a, b in touched(locked, *each[:2])}
    own = (Hunk(low - span[0], high - span[0], after) for low, high, after in fits)
    result = changes_from(old, own).text
    if any(result.count(piece) > old.count(piece) for piece in pieces):
        return [], sorted(fits + refused)
    return fits, refused


def changes_from(draft: str, hunks: Iterable[Hunk]) -> Changes:
    """Return the changes that hunks make, in order; those that touch or overlap become one."""
    merged: list[Hunk] = []
    for hunk in hunks:
        if merged and hunk.start <= merged[-1].end:
            start, end, after = merged.pop()
            hunk = Hunk(start, max(end, hunk.end), after + hunk.after)
        merged.append(hunk)
    found = (
        Change(start=start, end=end, before=draft[start:end], after=after)
        for start, end, after in merged
        if draft[start:end] != after
    )
    return Changes(draft=draft, changes=tuple(found))


def _differences(old: str, new: str, start: int, *, keeps_lines: bool) -> Iterator[list[Hunk]]:
    """Yield the hunks between two texts, each in all the ways in which it can be written."""
    words, others = _TOKEN.findall(old), _TOKEN.findall(new)
    keys, other_keys = ([" " if keeps_lines and word.isspace() else word for word in each]
                        for each in (words, others))  # fmt: skip
    at = [start]
    for word in words:
        at.append(at[-1] + len(word))
    found = list(_unequal(keys, other_keys))
    for n, (i, j, k, m) in enumerate(found):
        hunk = Hunk(at[i], at[j], "".join(others[k:m]))
        choices = [hunk, _trimmed(hunk, "".join(words[i:j]))]
        # Of "of of", either may go, unless another change lies next to it.
        least = found[n - 1][1] + 1 if n else 0
        most = found[n + 1][0] - 1 if n + 1 < len(found) else len(keys)
        low, high = i, j
        while k == m and low > least and keys[low - 1] == keys[high - 1]:
            low, high = low - 1, high - 1
            choices.append(Hunk(at[low], at[high], ""))
        low, high = i, j
        while k == m and high < most and keys[low] == keys[high]:
            low, high = low + 1, high + 1
            choices.append(Hunk(at[low], at[high], ""))
        yield choices


def _unequal(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where two lists of words differ, as positions in both."""
    i = k = 0
    for block in (*Levenshtein.opcodes(old, new), None):
        if block is not None and block.tag != "equal":
            continue
        j, m = (len(old), len(new)) if block is None else (block.src_start, block.dest_start)
        if i < j or k < m:
            yield i, j, k, m
        if block is not None:
            i, k = block.src_end, block.dest_end


def _trimmed(hunk: Hunk, before: str) -> Hunk:
    """Return a hunk without the letters that both of its texts begin or end with."""
    start, end, after = hunk
    while before and after and before[0] == after[0]:
        start, before, after = start + 1, before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        end, before, after = end - 1, before[:-1], after[:-1]
    return Hunk(start, end, after)


def _phrases(draft: str, hunks: Iterable[Hunk], locked: Sequence[Span]) -> Iterator[Hunk]:
    """Join hunks with only a space between them, so that people read a phrase as one change."""
    last: Hunk | None = None
    for hunk in hunks:
        if last is not None:
            between = draft[last.end : hunk.start]
            if between.strip(" ") or touched(locked, last.start, hunk.end):
                yield last
            else:
                hunk = Hunk(last.start, hunk.end, last.after + between + hunk.after)
        last = hunk
    if last is not None:
        yield last
