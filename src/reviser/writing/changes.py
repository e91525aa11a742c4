"""Changes of a draft: people read, accept or reject them, and programs apply them.

This module knows canvas edits and token bytes, but not engines or requests. `changes_of`
turns edits of tokens into changes; everything else counts characters of the draft.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum, isfinite
from operator import add
from typing import Any

from reviser.core.canvas import Edit
from reviser.core.codec import Codec
from reviser.errors import ConfigError, DataError
from reviser.writing import _regions
from reviser.writing.positions import Encoding, Positions

__all__ = ["Change", "Changes", "Untouched", "changes_of"]

_CRITIC = re.compile(r"\{\+\+|\+\+\}|\{--|--\}|\{~~|~>|~~\}|\{==|==\}|\{>>|<<\}")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A stretch of the draft and the text that replaced it; either may be empty."""

    start: int
    end: int
    """Start and end count characters of the draft."""
    before: str
    after: str
    logprob: float = 0.0
    """Sum of the log-probabilities of the actions that led here and made the change."""
    actions: int = 0
    """Number of these actions; 0 if a proposer suggested the change."""
    gain: float | None = None
    """How much more likely the model finds the text with the change, in nats; None if it did not
    compare the two."""
    confidence: float | None = None
    """Probability that the change is right, for a model that was calibrated."""
    source: str = "model"
    """Who suggested it: the model, or the name of a proposer."""
    rule: str = ""
    """The name of the rule that found it."""
    category: str = ""
    """The kind of mistake."""
    message: str = ""
    """The reason, in a sentence for people."""

    def moved(self, by: int) -> Change:
        """Return this change at other positions, as in a text of which its draft is a part."""
        return replace(self, start=self.start + by, end=self.end + by)

    def __add__(self, other: Change) -> Change:
        """Merge two adjacent changes into one."""
        return Change(
            start=self.start,
            end=other.end,
            before=self.before + other.before,
            after=self.after + other.after,
            logprob=self.logprob + other.logprob,
            actions=self.actions + other.actions,
            gain=_both(self.gain, other.gain, add),
            confidence=_both(self.confidence, other.confidence, min),
            source=self.source if self.source == other.source else "model",
            rule=self.rule if self.rule == other.rule else "",
            category=self.category if self.category == other.category else "",
            message=" ".join(dict.fromkeys(filter(None, (self.message, other.message)))),
        )


def _both(
    one: float | None, other: float | None, joined: Callable[[float, float], float]
) -> float | None:
    return None if one is None or other is None else joined(one, other)


@dataclass(frozen=True, kw_only=True)
class Untouched:
    """A stretch of the draft between changes, and proof that it is in the result."""

    start: int
    end: int
    """Start and end count characters of the draft."""
    before: str
    """SHA-256 of its bytes in the draft."""
    after: str
    """SHA-256 of the bytes at its position in the result."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """A draft and its changes, from the left; there is unchanged text between any two of them.

    >>> change = Change(start=4, end=7, before="cat", after="dog", logprob=-1.5, actions=3)
    >>> changes = Changes(draft="The cat sat", changes=(change,), stop_logprob=-0.1)
    >>> changes.text, changes.reject(0).text
    ('The dog sat', 'The cat sat')
    >>> len(changes), changes[0].after, [change.before for change in changes]
    (1, 'dog', ['cat'])
    >>> changes.criticmarkup()
    'The {~~cat~>dog~~} sat'
    """

    draft: str
    changes: tuple[Change, ...] = ()
    stop_logprob: float = 0.0
    """Sum of the log-probabilities of the actions after the last change, STOP included."""

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
                    f"Change {number} is at {change.start}..{change.end}; it must lie after {end}"
                    f" and within the {len(self.draft)} characters of the draft."
                )
            end = change.end
            found = self.draft[change.start : end]
            if change.before != found:
                raise DataError(
                    f"Change {number} is of {change.before[:40]!r}, and the draft has"
                    f" {found[:40]!r} there: it belongs to another draft."
                )
            scores = change.logprob, change.gain or 0.0, change.confidence or 0.0
            if not all(map(isfinite, scores)) or change.actions < 0:
                raise DataError(
                    f"Change {number} has logprob {change.logprob}, gain {change.gain}, confidence"
                    f" {change.confidence} and {change.actions} actions; these must be finite, and"
                    " the last not negative."
                )

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __getitem__(self, number: int) -> Change:
        return self.changes[number]

    @property
    def text(self) -> str:
        """The draft with all changes made."""
        return self._rendered(lambda change: change.after)

    def accept(self, *numbers: int) -> Changes:
        """Return only these changes, by their numbers, which count from 0."""
        self._check(numbers)
        return self._with(self.changes[number] for number in sorted({*numbers}))

    def reject(self, *numbers: int) -> Changes:
        """Return all changes but these."""
        self._check(numbers)
        return self._with(each for n, each in enumerate(self.changes) if n not in numbers)

    def only(self, where: Callable[[Change], bool]) -> Changes:
        """Return the changes for which a function is true: `lambda it: it.logprob > -9`."""
        return self._with(filter(where, self.changes))

    def within(self, text: str, start: int = 0) -> Changes:
        """Return the changes of a longer text that holds the draft at `start`."""
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
        """Return a unified diff for `patch -p0` and `git apply -p0`; empty without changes.

        Lines end at a line feed, as for these two; without context git needs `--unidiff-zero`.
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
        """Return the changes as TextEdits of the Language Server Protocol, to be applied at once.

        No position lies between a carriage return and its line feed: an edit there holds both.
        """
        draft, positions, edits = self.draft, Positions(self.draft, encoding), []
        for change in self.changes:
            start = change.start - self._is_within_line_end(change.start)
            end = change.end + self._is_within_line_end(change.end)
            text = draft[start : change.start] + change.after + draft[change.end : end]
            ends = (positions.position(each)._asdict() for each in (start, end))
            edits.append({"range": dict(zip(("start", "end"), ends, strict=True)), "newText": text})
        return edits

    def criticmarkup(self) -> str:
        """Return the draft with the changes in CriticMarkup.

        CriticMarkup has no escape, so a text with one of its delimiters is refused. A change over
        several paragraphs is one mark, which some programs do not read.
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
        """Return the fields as JSON holds them."""
        return asdict(self) | {"changes": [asdict(change) for change in self.changes]}

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Changes:
        """Read what `to_json` returned."""
        try:
            saved = json.loads(text)
            return cls(
                draft=saved["draft"],
                changes=tuple(Change(**each) for each in saved["changes"]),
                stop_logprob=float(saved["stop_logprob"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"These are not changes ({error}): {str(text)[:80]!r}.") from error

    def _rendered(self, show: Callable[[Change], str]) -> str:
        """Return the draft with a text in place of each change."""
        parts, end = [], 0
        for change in self.changes:
            parts += [self.draft[end : change.start], show(change)]
            end = change.end
        return "".join([*parts, self.draft[end:]])

    def _is_within_line_end(self, offset: int) -> bool:
        return self.draft[max(0, offset - 1) : offset + 1] == "\r\n"

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
    """Return the changes that a model made to a draft whose tokens the canvas held at the start.

    Each step is what `Canvas.apply` returned for a chosen id, with the id's log-probability; it
    counts for the change whose edit comes next. Work that left no trace counts for the change after
    it. A `draft` that the tokens do not spell is refused.
    """
    canvas, work, rest = _regions.follow(tokens, steps)
    ends, old = _regions.lay_out(codec, tokens)
    new_ends, new = _regions.lay_out(codec, [item.token for item in canvas])
    # A first space that the tokenizer hides is not a character of the text.
    shift, new_shift = (codec.hides_first_space and data.startswith(b" ") for data in (old, new))
    kept = [
        _regions.Kept(
            ends[item.source] - shift, new_ends[n] - new_shift, len(codec.token_bytes[item.token])
        )
        for n, item in enumerate(canvas)
        if item.is_own
    ]
    old, new = old[shift:], new[new_shift:]
    text = _regions.read(old)
    if draft is not None and draft != text:
        at = _regions.common_prefix(draft, text)
        raise DataError(
            f"The draft has {draft[at : at + 20]!r} at {at}, and its tokens"
            f" {text[at : at + 20]!r}: pass the text that the tokens spell."
        )

    changed: list[_regions.Region] = []
    found: list[tuple[int, str, str]] = []
    start = end = 0  # of the draft in characters, of its bytes
    for region in _regions.regions(old, new, kept):
        before = _regions.read(old[region.start : region.end])
        after = _regions.read(new[region.new])
        start += len(_regions.read(old[end : region.start]))
        if before != after:
            changed.append(region)
            found.append(_regions.trimmed(start, before, after))
        start, end = start + len(before), region.end

    steps_of = [(max(0, ends[source + 1] - shift), logprobs) for source, logprobs in work]
    spent, waiting = _shared_out(steps_of, changed)
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


def _shared_out(
    work: Iterable[tuple[int, list[float]]], changed: Sequence[_regions.Region]
) -> tuple[list[list[float]], list[float]]:
    """Return the log-probabilities of the actions of each change, and those after the last.

    `work` says where in the draft, counted in bytes, actions were done.
    """
    spent: list[list[float]] = [[] for _ in changed]
    waiting: list[float] = []
    for position, logprobs in work:
        waiting += logprobs
        number = bisect_left(changed, position, key=lambda region: region.end)
        if number < len(changed) and changed[number].start <= position:
            spent[number] += waiting
            waiting = []
    return spent, waiting
