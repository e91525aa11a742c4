"""A suggestion: what may be better in a text, and why; and what makes suggestions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

LOCKED = "\ufffc"
"""Stands for each character that may not be changed, in the text that a proposer is given."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion: the characters from `start` to `end` become one of `replacements`."""

    start: int
    end: int
    replacements: tuple[str, ...]
    """The first is the most likely; an empty one deletes."""
    rule: str
    """The name of what found it, such as "a-an"."""
    category: str
    """The kind of mistake, such as "article"."""
    message: str
    """The reason, in a sentence for the writer; `{new}` in it stands for the replacement."""
    source: str = "rules"
    """The name of the proposer."""
    sure: bool = False
    """True if it is shown without asking a language model: only for a rule that was measured."""


Proposer: TypeAlias = Callable[[str], Iterable[Suggestion]]
"""Anything that makes suggestions for a text, as in `propose(text)`. One whose suggestions are
never sure may say so, which saves time: `may_be_sure = False`."""
Dialect: TypeAlias = Literal["auto", "american", "british"]
"""Which spelling is right; "auto" is the one that the text uses more."""
