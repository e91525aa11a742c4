"""The three tasks of a model as values: continue a prompt, fill gaps, revise a draft.

A task checks itself when it is made, so the Python API, the command, batch files and the server
refuse the same things with the same sentences. This module knows no tokens, engines or models;
`plan` turns a task into requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from operator import index
from typing import Any, ClassVar, TypeAlias

from reviser.engines.settings import MAX_RANGES, DecodeConfig
from reviser.errors import ConfigError, did_you_mean
from reviser.markup.spans import Span, joined

__all__ = ["Continue", "Infill", "Revise", "Task", "task_from_dict"]

GAP = "{}"
"""The mark of a gap in a text to fill."""
WINDOW, CONTEXT = 192, 48
"""Tokens of a draft that are revised at a time, and tokens shown on either side of them."""


@dataclass(frozen=True)
class Continue:
    """Continue a prompt, which is never changed."""

    prompt: str = ""

    default_config: ClassVar[DecodeConfig] = DecodeConfig()

    def __post_init__(self) -> None:
        _check_text("prompt", self.prompt)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that `task_from_dict` reads."""
        return {"prompt": self.prompt}


@dataclass(frozen=True)
class Infill:
    """Fill the gaps of a text; the rest of it is never changed.

    Gaps are marked with {} in the text, or given as spans of characters to rewrite.

    >>> Infill("The {} sat.").locked
    ('The ', ' sat.')
    >>> Infill("The cat sat.", spans=[(4, 7)]).locked
    ('The ', ' sat.')
    """

    text: str
    spans: Sequence[Span] | None = None

    default_config: ClassVar[DecodeConfig] = DecodeConfig()

    def __post_init__(self) -> None:
        _check_text("text", self.text)
        if self.spans is None:
            if GAP not in self.text:
                raise ConfigError(f"The text has no gap. Mark one or more with {GAP}.")
            _check_gap_count(self.text.count(GAP))
            return
        spans = _pairs("spans", self.spans)
        bounds = [bound for span in spans for bound in span]
        if not bounds or bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > len(self.text):
            raise ConfigError(
                f"spans is {str(list(spans))[:80]}; give one or more, in order, apart from each"
                f" other, and within the text's {len(self.text)} characters."
            )
        _check_gap_count(len(spans))
        object.__setattr__(self, "spans", spans)

    @property
    def gaps(self) -> tuple[Span, ...]:
        """The spans of the gaps, marks included; gaps with nothing between them are one."""
        if self.spans is None:
            spans: Sequence[Span] = [mark.span() for mark in re.finditer(re.escape(GAP), self.text)]
        else:
            spans = self.spans
        gaps: list[Span] = []
        for start, end in spans:
            if gaps and gaps[-1][1] == start:
                start = gaps.pop()[0]
            gaps.append((start, end))
        return tuple(gaps)

    @property
    def locked(self) -> tuple[str, ...]:
        """The texts around the gaps, one more than there are gaps."""
        edges = [0, *(bound for gap in self.gaps for bound in gap), len(self.text)]
        return tuple(self.text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))

    def fills(self, text: str) -> tuple[str, ...]:
        """Return what stands in each gap of a result.

        If the text between two gaps occurs several times, the first occurrence counts.

        >>> Infill("A {} and a {}.").fills("A cat and a dog.")
        ('cat', 'dog')
        """
        first, *between, last = self.locked
        at, end = len(first), len(text) - len(last)
        if not (text.startswith(first) and text.endswith(last) and at <= end):
            raise ConfigError(_OTHER_TEXT)
        found = []
        for part in between:
            start = text.find(part, at, end)
            if start < 0:
                raise ConfigError(_OTHER_TEXT)
            found.append(text[at:start])
            at = start + len(part)
        return (*found, text[at:end])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that `task_from_dict` reads."""
        spans = {} if self.spans is None else {"spans": [list(span) for span in self.spans]}
        return {"text": self.text, **spans}


@dataclass(frozen=True)
class Revise:
    """Edit a draft where it needs it.

    A long draft is revised in windows, which share no change, so the cost grows with its length.
    """

    draft: str
    _: KW_ONLY
    instruction: str = ""
    """An instruction in words, for models that were trained with instructions."""
    locked: Sequence[str | Span] = ()
    """Text that is never changed: spans of characters, or texts wherever they occur."""
    min_edit_probability: float | None = None
    """Change only words with this probability, or a higher one, of needing an edit. The model reads
    the draft once to find them. None is the model's own default; 0 leaves the reading out."""
    precision: float | None = None
    """The share of changes that should be right, by the model's calibration: a way to choose
    `min_edit_probability` or `min_confidence`."""
    min_confidence: float | None = None
    """Keep only changes with this confidence, or a higher one, for a proofreader. None is its own
    default."""
    window: int = WINDOW
    """Tokens of the draft that are revised at a time."""
    context: int = CONTEXT
    """Tokens shown on either side of a window, which are locked there."""

    default_config: ClassVar[DecodeConfig] = DecodeConfig(temperature=0.0)

    def __post_init__(self) -> None:
        _check_text("draft", self.draft)
        _check_text("instruction", self.instruction)
        _check_share("min_edit_probability", self.min_edit_probability)
        _check_share("precision", self.precision)
        _check_share("min_confidence", self.min_confidence)
        _check_count("window", self.window, 1)
        _check_count("context", self.context, 0)
        locked = [self.locked] if isinstance(self.locked, str) else self.locked
        if not isinstance(locked, Sequence):
            raise ConfigError(_LOCKED)
        object.__setattr__(self, "locked", tuple(map(_lock, locked)))
        self.locked_spans  # noqa: B018  # refuses locks that do not fit the draft

    @cached_property
    def locked_spans(self) -> tuple[Span, ...]:
        """The locked spans of characters, in order; those that touch or overlap are one."""
        spans: list[Span] = []
        matches, most = 0, max(10_000, len(self.draft))  # so that locks cost no more than the draft
        for lock in dict.fromkeys(self.locked):
            if isinstance(lock, str):
                start = self.draft.find(lock) if lock else -1
                if start < 0:
                    raise ConfigError(
                        f"locked holds {lock[:40]!r}, which does not occur in the draft."
                    )
                while start >= 0:
                    matches += 1
                    if matches > most:
                        raise ConfigError(
                            f"The texts in locked occur more than {most:,} times in the draft."
                            " Leave out those that overlap, or lock spans."
                        )
                    # Touching or overlapping matches, as both of "ana" in "banana", are one span.
                    if spans and spans[-1][0] <= start <= spans[-1][1] <= start + len(lock):
                        spans[-1] = spans[-1][0], start + len(lock)
                    else:
                        spans.append((start, start + len(lock)))
                    start = self.draft.find(lock, start + 1)
            elif 0 <= lock[0] <= lock[1] <= len(self.draft):
                spans.append(lock)
            else:
                raise ConfigError(
                    f"The locked span {lock[0]}..{lock[1]} is not within the draft's"
                    f" {len(self.draft)} characters."
                )
        return tuple(joined(spans))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that `task_from_dict` reads, without those that have their default."""
        locked = [lock if isinstance(lock, str) else list(lock) for lock in self.locked]
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        changed = {
            each.name: values[each.name]
            for each in fields(self)
            if each.name == "draft" or values[each.name] != each.default
        }
        return changed | ({"locked": locked} if locked else {})


Task: TypeAlias = Continue | Infill | Revise

_OTHER_TEXT = "This text is not a result of the task: its locked text differs."
_LOCKED = "locked must be a list of texts, or of pairs of positions in the draft."
_KINDS: dict[str, type[Continue] | type[Infill] | type[Revise]] = {
    "prompt": Continue,
    "text": Infill,
    "draft": Revise,
}
REVISE_OPTIONS = tuple(each.name for each in fields(Revise) if each.kw_only)
_ALIASES = {"infill": "text", "before": "draft"}
"""Other names of a field, as batch files and files of pairs have them."""


def task_from_dict(values: Mapping[str, object]) -> Task:
    """Return the task that a JSON object describes.

    >>> task_from_dict({"prompt": "Once upon a time"})
    Continue(prompt='Once upon a time')
    >>> task_from_dict({"before": "It have a end.", "locked": ["It"]}).locked_spans
    ((0, 2),)
    """
    renamed: dict[str, Any] = {_ALIASES.get(name, name): value for name, value in values.items()}
    found = [name for name in _KINDS if name in renamed]
    if len(found) != 1 or len(renamed) != len(values):
        raise ConfigError(
            "A task has exactly one of these: a `prompt` to continue, a `text` (or `infill`) with"
            " gaps to fill, a `draft` (or `before`) to revise."
        )
    kind = _KINDS[found[0]]
    known = [each.name for each in fields(kind)]
    for name in renamed:
        if name not in known:
            raise ConfigError(
                f"`{name}` is not a field of a task with a `{found[0]}`."
                f" {did_you_mean(name, known)}"
            )
    return kind(**renamed)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a text; got {type(value).__name__}.")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise ConfigError(f"{name} is not valid text: it holds half of a surrogate pair.")


def _check_gap_count(count: int) -> None:
    if count > MAX_RANGES:
        raise ConfigError(f"The text has {count:,} gaps; {MAX_RANGES:,} are allowed.")


def _check_share(name: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value <= 1):  # type: ignore[operator]
        raise ConfigError(f"{name} is {value!r}; it must be a number from 0 to 1.")


def _check_count(name: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number, {least} or more.")


def _lock(lock: object) -> str | Span:
    if isinstance(lock, str):
        return lock
    try:
        start, end = map(index, lock)  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise ConfigError(_LOCKED) from error
    return start, end


def _pairs(name: str, spans: object) -> tuple[Span, ...]:
    try:
        return tuple((index(start), index(end)) for start, end in spans)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} must be pairs of positions in the text.") from error
