"""What a revision did to a draft: changes that people read, accept or reject, and programs apply.

Knows the canvas's edits and a tokenizer's bytes, and neither engines nor requests. Everything here
counts characters of the draft; tokens end in `changes_of`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from math import fsum, isfinite
from typing import Any, Literal, NamedTuple, get_args

from reviser.core.canvas import Edit
from reviser.core.codec import Codec
from reviser.errors import ConfigError, DataError

__all__ = ["Change", "Changes", "Untouched", "changes_of"]

Encoding = Literal["utf-8", "utf-16", "utf-32"]
"""In what units a language server's client counts."""

_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
_CRITIC = re.compile(r"\{\+\+|\+\+\}|\{--|--\}|\{~~|~>|~~\}|\{==|==\}|\{>>|<<\}")
_LSP_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One stretch of the draft that gave way to another text, either of them maybe empty."""

    start: int
    end: int
    """Characters of the draft."""
    before: str
    after: str
    logprob: float
    """Of the actions that led here and made it, as a sum."""
    actions: int
    """How many ids these were."""

    def __add__(self, other: Change) -> Change:
        """Return two changes that meet as one."""
        return Change(
            start=self.start,
            end=other.end,
            before=self.before + other.before,
            after=self.after + other.after,
            logprob=self.logprob + other.logprob,
            actions=self.actions + other.actions,
        )


@dataclass(frozen=True, kw_only=True)
class Untouched:
    """A stretch of the draft between changes, and proof that it is in the result."""

    start: int
    end: int
    """Characters of the draft."""
    before: str
    """SHA-256 of its bytes in the draft."""
    after: str
    """SHA-256 of the bytes in its place in the result."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """A draft and what was done to it, from the left; something is kept between any two changes.

    >>> change = Change(start=4, end=7, before="cat", after="dog", logprob=-1.5, actions=3)
    >>> changes = Changes(draft="The cat sat", changes=(change,), stop_logprob=-0.1)
    >>> changes.text, changes.reject(0).text
    ('The dog sat', 'The cat sat')
    >>> changes.critic()
    'The {~~cat~>dog~~} sat'
    """

    draft: str
    changes: tuple[Change, ...] = ()
    stop_logprob: float = 0.0
    """Of the actions behind the last change, STOP included, as a sum."""

    def __post_init__(self) -> None:
        try:
            "".join([self.draft, *(change.after for change in self.changes)]).encode()
        except UnicodeEncodeError as error:
            raise DataError("This text is not UTF-8: it holds half a surrogate pair.") from error
        if not isfinite(self.stop_logprob):
            raise DataError(f"stop_logprob is {self.stop_logprob}; it must be finite.")
        end = -1
        for number, change in enumerate(self.changes):
            if not end < change.start <= change.end <= len(self.draft):
                raise DataError(
                    f"Change {number} is at {change.start}..{change.end}; it must lie behind {end}"
                    f" and within the {len(self.draft)} characters of the draft."
                )
            end = change.end
            found = self.draft[change.start : end]
            if change.before != found:
                raise DataError(
                    f"Change {number} is of {change.before[:40]!r}, and the draft has"
                    f" {found[:40]!r} there: it belongs to another draft."
                )
            if not isfinite(change.logprob) or change.actions < 0:
                raise DataError(
                    f"Change {number} has logprob {change.logprob} and {change.actions} actions;"
                    " these must be finite and not negative."
                )

    @property
    def text(self) -> str:
        """The draft with all changes made."""
        return self._rendered(lambda change: change.after)

    def accept(self, *numbers: int) -> Changes:
        """With these changes only; numbers are places in `changes`."""
        self._check(numbers)
        return self._with(self.changes[number] for number in sorted({*numbers}))

    def reject(self, *numbers: int) -> Changes:
        """Without these changes."""
        self._check(numbers)
        return self._with(each for n, each in enumerate(self.changes) if n not in numbers)

    def only(self, where: Callable[[Change], bool]) -> Changes:
        """With the changes that `where` says yes to, such as `lambda it: it.logprob > -9`."""
        return self._with(filter(where, self.changes))

    def within(self, text: str, start: int = 0) -> Changes:
        """The same changes in a longer text that holds the draft, which begins there at `start`."""
        if not text.startswith(self.draft, start):
            raise DataError(f"The text does not hold the draft at {start}.")
        moved = (replace(c, start=c.start + start, end=c.end + start) for c in self.changes)
        return replace(self, draft=text, changes=tuple(moved))

    @property
    def untouched(self) -> tuple[Untouched, ...]:
        """The stretches of the draft that no change touches, each with its proof."""
        text, grown, start, found = self.text, 0, 0, []
        for change in (*self.changes, None):
            end = len(self.draft) if change is None else change.start
            if start < end:
                stretches = self.draft[start:end], text[start + grown : end + grown]
                before, after = (hashlib.sha256(each.encode()).hexdigest() for each in stretches)
                found.append(Untouched(start=start, end=end, before=before, after=after))
            if change is not None:
                start, grown = change.end, grown + len(change.after) - len(change.before)
        return tuple(found)

    def unified(self, name: str = "draft", *, context: int = 3) -> str:
        """A unified diff for `patch -p0` and `git apply -p0`; empty if nothing changed.

        Lines end at a line feed, as for these two; git wants `--unidiff-zero` with no context.
        """
        if not name or not name.isprintable() or '"' in name:
            raise ConfigError(f"name is {name!r}; use a file's name in printable letters.")
        if context < 0:
            raise ConfigError(f"context is {context}; use a number of lines from 0.")
        shown = f"{name}\t" if " " in name else name  # the tab ends a name with spaces
        old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (self.draft, self.text))
        diff = difflib.unified_diff(old, new, shown, shown, n=context)
        whole = (
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in diff
        )
        return "".join(whole)

    def lsp(self, encoding: Encoding = "utf-16") -> list[dict[str, Any]]:
        """The changes as TextEdits of the Language Server Protocol, to be applied at once.

        No position lies between a carriage return and its line feed; an edit there holds both.
        """
        if encoding not in _UNITS:
            raise ConfigError(f"encoding is {encoding!r}; use one of {get_args(Encoding)}.")
        draft, (codec, size) = self.draft, _UNITS[encoding]
        lines = [0, *(match.end() for match in _LSP_LINE_END.finditer(draft))]

        def position(place: int) -> dict[str, int]:
            line = bisect_right(lines, place) - 1
            told = draft[lines[line] : place].encode(codec)
            return {"line": line, "character": len(told) // size}

        edits = []
        for change in self.changes:
            start = change.start - self._parts_line_end(change.start)
            end = change.end + self._parts_line_end(change.end)
            text = draft[start : change.start] + change.after + draft[change.end : end]
            edits.append(
                {"range": {"start": position(start), "end": position(end)}, "newText": text}
            )
        return edits

    def critic(self) -> str:
        """The draft with the changes in CriticMarkup: accept all for `text`, none for the draft.

        CriticMarkup has no escape, so a text with one of its delimiters is refused. A change over
        several paragraphs is one mark, which some of its readers do not take.
        """
        for text in (self.draft, *(change.after for change in self.changes)):
            if delimiter := _CRITIC.search(text):
                raise DataError(
                    f"A text with {delimiter[0]!r} cannot be written in CriticMarkup, which has no"
                    " escape for it; use unified() or lsp()."
                )

        def mark(change: Change) -> str:
            if not change.before:
                return f"{{++{change.after}++}}"
            if not change.after:
                return f"{{--{change.before}--}}"
            return f"{{~~{change.before}~>{change.after}~~}}"

        return self._rendered(mark)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self) | {"changes": [asdict(change) for change in self.changes]}

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Changes:
        """Read what `to_json` wrote."""
        try:
            told = json.loads(text)
            return cls(
                draft=told["draft"],
                changes=tuple(Change(**each) for each in told["changes"]),
                stop_logprob=float(told["stop_logprob"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"These are no changes ({error}): {str(text)[:80]!r}.") from error

    def _rendered(self, show: Callable[[Change], str]) -> str:
        """The draft with something shown in place of each change."""
        parts, place = [], 0
        for change in self.changes:
            parts += [self.draft[place : change.start], show(change)]
            place = change.end
        return "".join([*parts, self.draft[place:]])

    def _parts_line_end(self, place: int) -> bool:
        return self.draft[max(0, place - 1) : place + 1] == "\r\n"

    def _check(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if not 0 <= number < len(self.changes):
                raise DataError(
                    f"There is no change {number}: there are {len(self.changes)}, from 0 on."
                )

    def _with(self, changes: Iterable[Change]) -> Changes:
        return replace(self, changes=tuple(changes))


def changes_of(
    codec: Codec,
    tokens: Sequence[int],
    steps: Iterable[tuple[Edit, float]],
    *,
    draft: str | None = None,
) -> Changes:
    """The changes that a model made to a draft whose tokens the canvas held at the start.

    Each step is what `Canvas.apply` gave for a chosen id, with the id's log-probability; it counts
    for the change whose edit comes next. Work that left no trace counts for the change after it.
    A `draft` that the tokens do not spell is refused, since its characters are others.
    """
    canvas, work, rest = _followed(tokens, steps)
    ends, old = _laid_out(codec, tokens)
    new_ends, new = _laid_out(codec, [item.token for item in canvas])
    shift, new_shift = (codec.hides_first_space and data.startswith(b" ") for data in (old, new))
    kept = [
        _Kept(ends[item.place] - shift, new_ends[n] - new_shift, len(codec.token_bytes[item.token]))
        for n, item in enumerate(canvas)
        if item.is_own
    ]
    old, new = old[shift:], new[new_shift:]
    text = _read(old)
    if draft is not None and draft != text:
        place = _common(draft, text)
        raise DataError(
            f"The draft has {draft[place : place + 20]!r} at {place}, and its tokens"
            f" {text[place : place + 20]!r}: give the text that the tokens spell."
        )

    regions: list[_Region] = []  # the ones that differ
    found: list[tuple[int, str, str]] = []
    start = place = 0
    for region in _regions(old, new, kept):
        before, after = _read(old[region.start : region.end]), _read(new[region.new])
        start += len(_read(old[place : region.start]))
        if before != after:
            regions.append(region)
            found.append(_trimmed(start, before, after))
        start, place = start + len(before), region.end

    spent: list[list[float]] = [[] for _ in regions]
    waiting: list[float] = []
    for place, logprobs in work:
        waiting += logprobs
        at = max(0, ends[place + 1] - shift)
        number = bisect_left(regions, at, key=lambda region: region.end)
        if number < len(regions) and regions[number].start <= at:
            spent[number] += waiting
            waiting = []
    changes = (
        Change(
            start=start,
            end=start + len(before),
            before=before,
            after=after,
            logprob=fsum(logprobs),
            actions=len(logprobs),
        )
        for (start, before, after), logprobs in zip(found, spent, strict=True)
    )
    return Changes(draft=text, changes=tuple(changes), stop_logprob=fsum(waiting + rest))


class _Item(NamedTuple):
    """A token on the canvas: the draft's own, or one that was written behind a place in it."""

    token: int
    place: int
    is_own: bool


class _Kept(NamedTuple):
    """Bytes that both texts hold; they may begin with one that a text does not show, at -1."""

    start: int
    new_start: int
    size: int


class _Region(NamedTuple):
    """Bytes of the draft that gave way to others, whole characters in both texts."""

    start: int
    end: int
    new: slice


def _followed(
    tokens: Sequence[int], steps: Iterable[tuple[Edit, float]]
) -> tuple[list[_Item], list[tuple[int, list[float]]], list[float]]:
    """The canvas at the end; for each edit the draft's place before it, and its steps; the rest.

    Tokens that an edit takes out and puts in elsewhere, as a swap does, are new ones there.
    """
    canvas = [_Item(int(token), place, True) for place, token in enumerate(tokens)]
    work: list[tuple[int, list[float]]] = []
    pending: list[float] = []
    for number, (edit, logprob) in enumerate(steps):
        pending.append(logprob)
        if not edit.changes_text:
            continue
        start, end = edit.position, edit.position + len(edit.removed)
        if tuple(item.token for item in canvas[start:end]) != edit.removed or end > len(canvas):
            raise DataError(
                f"Step {number} takes {edit.removed} out at {start}, where the canvas of"
                f" {len(canvas)} tokens does not have them: give the tokens it held at the start,"
                " and all steps since."
            )
        if edit.removed == edit.inserted:
            continue
        place = canvas[start - 1].place if start else -1
        canvas[start:end] = [_Item(token, place, False) for token in edit.inserted]
        work.append((place, pending))
        pending = []
    return canvas, work, pending


def _laid_out(codec: Codec, tokens: Iterable[int]) -> tuple[list[int], bytes]:
    """Where each token's bytes begin and the last ones end, and the bytes."""
    parts = [codec.token_bytes[token] for token in tokens]
    return [0, *accumulate(map(len, parts))], b"".join(parts)


def _regions(old: bytes, new: bytes, kept: Iterable[_Kept]) -> Iterator[_Region]:
    """What lies between kept bytes, widened to whole characters of both texts."""
    start = new_start = 0
    for stretch in (*_joined(kept), _Kept(len(old), len(new), 0)):
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
            yield _Region(start, end, slice(new_start, new_end))
        start, new_start = end + high - low, new_end + high - low


def _joined(kept: Iterable[_Kept]) -> Iterator[_Kept]:
    """Stretches that are next to each other in both texts as one, and what is not shown cut off."""
    last = _Kept(0, 0, 0)
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
            last = _Kept(start, new_start, size)
    if last.size:
        yield last


def _cuts(data: bytes, place: int) -> bool:
    """Whether no character goes on across a place, be it a broken one."""
    before, after = data[max(0, place - 3) : place], data[place : place + 3]
    return len(_read(before)) + len(_read(after)) == len(_read(before + after))


def _read(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _trimmed(start: int, before: str, after: str) -> tuple[int, str, str]:
    """A change without the characters that both its texts begin or end with."""
    head = _common(before, after)
    before, after = before[head:], after[head:]
    tail = _common(before[::-1], after[::-1])
    return start + head, before[: len(before) - tail], after[: len(after) - tail]


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
