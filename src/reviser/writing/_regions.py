"""The regions of a draft that edits of its tokens changed, in bytes of the old and the new text.

Tokens may hold parts of characters, so regions are widened until both texts have whole ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from reviser.core.canvas import Edit
from reviser.core.codec import Codec
from reviser.errors import DataError


class Item(NamedTuple):
    """A token on the canvas, and the draft's token that it is or was written after."""

    token: int
    source: int
    is_own: bool


class Kept(NamedTuple):
    """Bytes that both texts hold; they start at -1 if a text hides the first of them."""

    start: int
    new_start: int
    size: int


class Region(NamedTuple):
    """Bytes of the draft that were replaced, whole characters in both texts."""

    start: int
    end: int
    new: slice


def follow(
    tokens: Sequence[int], steps: Iterable[tuple[Edit, float]]
) -> tuple[list[Item], list[tuple[int, list[float]]], list[float]]:
    """Apply steps to a draft and return the canvas, the work of each edit, and the last steps.

    The work of an edit is the draft's token before it, and the log-probabilities that led to it.
    Tokens that an edit removes and inserts elsewhere, as a swap does, are new ones there.
    """
    canvas = [Item(int(token), n, True) for n, token in enumerate(tokens)]
    work: list[tuple[int, list[float]]] = []
    pending: list[float] = []
    for number, (edit, logprob) in enumerate(steps):
        pending.append(logprob)
        if not edit.changes_text:
            continue
        start, end = edit.position, edit.position + len(edit.removed)
        if tuple(item.token for item in canvas[start:end]) != edit.removed or end > len(canvas):
            raise DataError(
                f"Step {number} removes {edit.removed} at {start}, where the canvas of"
                f" {len(canvas)} tokens does not have them: pass the tokens it held at the start,"
                " and all steps since then."
            )
        if edit.removed == edit.inserted:
            continue
        source = canvas[start - 1].source if start else -1
        canvas[start:end] = [Item(token, source, False) for token in edit.inserted]
        work.append((source, pending))
        pending = []
    return canvas, work, pending


def lay_out(codec: Codec, tokens: Iterable[int]) -> tuple[list[int], bytes]:
    """Return the offsets of the tokens' bytes, one more than there are tokens, and the bytes."""
    parts = [codec.token_bytes[token] for token in tokens]
    return [0, *accumulate(map(len, parts))], b"".join(parts)


def regions(old: bytes, new: bytes, kept: Iterable[Kept]) -> Iterator[Region]:
    """Yield what lies between kept bytes, widened to whole characters of both texts."""
    start = new_start = 0
    for stretch in (*_joined(kept), Kept(len(old), len(new), 0)):
        low, high = 0, stretch.size
        end, new_end = stretch.start, stretch.new_start
        while low < high and not (_cuts(old, end + low) and _cuts(new, new_end + low)):
            low += 1
        while low < high and not (_cuts(old, end + high) and _cuts(new, new_end + high)):
            high -= 1
        if low == high and stretch.size:
            continue
        end, new_end = end + low, new_end + low
        if start < end or new_start < new_end:
            yield Region(start, end, slice(new_start, new_end))
        start, new_start = end + high - low, new_end + high - low


def _joined(kept: Iterable[Kept]) -> Iterator[Kept]:
    """Yield kept bytes, joined where they touch in both texts, without those that are hidden."""
    last = Kept(0, 0, 0)
    for stretch in kept:
        cut = max(0, -stretch.start, -stretch.new_start)
        start, new_start, size = (
            stretch.start + cut,
            stretch.new_start + cut,
            stretch.size - cut,
        )
        if size <= 0:
            continue
        if (start, new_start) == (last.start + last.size, last.new_start + last.size):
            last = last._replace(size=last.size + size)
        else:
            if last.size:
                yield last
            last = Kept(start, new_start, size)
    if last.size:
        yield last


def _cuts(data: bytes, at: int) -> bool:
    """Return whether an offset lies between characters, also between broken ones."""
    before, after = data[max(0, at - 3) : at], data[at : at + 3]
    return len(read(before)) + len(read(after)) == len(read(before + after))


def read(data: bytes) -> str:
    """Return bytes as text; those that make no character show as U+FFFD."""
    return data.decode("utf-8", "replace")


def trimmed(start: int, before: str, after: str) -> tuple[int, str, str]:
    """Return a change without the characters that both its texts begin or end with."""
    head = common_prefix(before, after)
    before, after = before[head:], after[head:]
    tail = common_prefix(before[::-1], after[::-1])
    return start + head, before[: len(before) - tail], after[: len(after) - tail]


def common_prefix(one: str, other: str) -> int:
    """Return the number of characters that two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
