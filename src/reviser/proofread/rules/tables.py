"""Mistakes that are listed in files: words and short phrases, and what may replace them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from reviser.proofread.rules.kinds import Rule
from reviser.proofread.rules.text import VERBS, Text
from reviser.proofread.rules.words import lines, words
from reviser.proofread.suggestion import Suggestion

_HEADER = re.compile(r"\[([a-z-]+) \| ([a-z ]+) \| (sure|ask) \| (.+)\]")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a table."""

    rule: Rule
    rest: tuple[str, ...]
    """The words of the phrase after the first one."""
    new: tuple[str, ...]
    sure: bool


@cache
def entries() -> dict[str, list[Entry]]:
    """Return the lines of `tables.txt`, by their first word, or their first two."""
    found: dict[str, list[Entry]] = {}
    rule, sure = Rule("", "", ""), False
    for line in lines("tables.txt"):
        if line[0] == "[":
            match = _HEADER.fullmatch(line)
            assert match is not None, line
            rule, sure = Rule(match[1], match[2], match[4]), match[3] == "sure"
            continue
        old, _, new = line.partition(": ")
        others = tuple(word for word in new.split(" | ") if word != old)
        if others:
            first, *rest = old.split(" ")
            key = f"{first} {rest[0]}" if rest else first
            found.setdefault(key, []).append(Entry(rule, tuple(rest), others, sure))
    return found


def listed(text: Text) -> Iterator[Suggestion]:
    """Yield what the tables have for the words of a text."""
    table = entries()
    low = text.low
    for n, word in enumerate(low):
        pair = f"{word} {low[n + 1]}" if n + 1 < len(low) else ""
        for entry in (*table.get(word, ()), *table.get(pair, ())):
            if entry.rest and not _matches(text, n, entry.rest):
                continue
            if entry.new[0].endswith(("'s", "s'")) and not _may_own(text, n):
                continue
            sure = entry.sure and text.words[n].islower() and not text.foreign[n]
            yield entry.rule.words(text, n, n + len(entry.rest), *entry.new, sure=sure)


_NO_NOUNS = words("no-nouns")


def _may_own(text: Text, n: int) -> bool:
    """Return whether a noun may follow a word, so that it may be a possessive."""
    follows = text.next(n)
    return len(follows) > 2 and follows not in _NO_NOUNS and follows not in VERBS


def _matches(text: Text, n: int, rest: tuple[str, ...]) -> bool:
    """Return whether some words stand after a word, with one space between."""
    if text.low[n + 1 : n + 1 + len(rest)] != list(rest):
        return False
    return all(text.is_same_line(m) for m in range(n, n + len(rest)))


@cache
def misspellings() -> dict[str, str]:
    """Return the right spelling of each listed misspelling."""
    found: dict[str, str] = {}
    for name in ("misspellings.txt", "typos.txt"):
        for line in lines(name):
            right, _, wrong = line.partition(":")
            for word in wrong.split():
                found.setdefault(word, right.replace("_", " "))
    return found


@cache
def confusions() -> dict[str, tuple[str, ...]]:
    """Return the words that each word is confused with."""
    found: dict[str, list[str]] = {}
    for line in lines("confusions.txt"):
        words = line.split()
        for word in words:
            others = found.setdefault(word, [])
            others += [other for other in words if other != word and other not in others]
    return {word: tuple(others) for word, others in found.items()}


@cache
def dialects() -> dict[str, tuple[str, str]]:
    """Return the British and the American spelling, by each of both."""
    found = {}
    for line in lines("dialects.txt"):
        british, american = line.split()
        found[british] = found[american] = (british, american)
    return found
