"""Capitals: at the start of a sentence, "I", days and months, peoples and places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reviser.proofread.rules.kinds import Rule
from reviser.proofread.rules.text import ABBREVIATIONS, Text
from reviser.proofread.rules.words import words
from reviser.proofread.suggestion import Suggestion

SENTENCE = Rule("sentence-capital", "capital letter", "A sentence starts with a capital letter.")
PARAGRAPH = Rule("first-capital", "capital letter", "A text starts with a capital letter.")
PRONOUN = Rule("lone-i", "capital letter", "'I' is always written with a capital letter.")
DATE = Rule("date-capital", "capital letter", "Days and months are written with a capital letter.")
NAME = Rule(
    "name-capital", "capital letter", "Names of peoples, languages and places have a capital."
)

STARTERS = words("starters")
"""Words that start a sentence, and are no names, units or commands."""
SHORT = words("short")
"""Words of up to three letters that are no abbreviations."""
_CONTINUES = words("continues")
_SUBORDINATE = words("subordinate")
"""Words that may also continue a sentence after a stop that is wrong."""
_STOPPED = re.compile(r"(?P<stop>[.!?])[)\"\u201d]?(?: {1,2}|\n)[\"\u201c(]?\Z")

_QUOTES = ('"', "\u201c", "\u201d")

DAYS = words("days")
MONTHS = words("months")
_PLURAL_DAYS = frozenset(day + "s" for day in DAYS)
_DATE_BEFORE = words("date-before")

PEOPLES = words("peoples")
PLACES = words("places")
_COMMON = words("common")
"""After these a people's name is often a common word, as in "french fries"."""

_NOT_PRONOUN = words("not-pronoun")


def capitals(text: Text) -> Iterator[Suggestion]:
    """Yield missing capitals."""
    yield from _sentences(text)
    yield from _paragraphs(text)
    yield from _pronouns(text)
    yield from _dates(text)
    yield from _names(text)


def _capital(text: Text, n: int) -> str:
    return text.words[n][0].upper() + text.words[n][1:]


def _sentences(text: Text) -> Iterator[Suggestion]:
    for n in range(1, len(text)):
        if not text.words[n][0].islower() or not text.low[n]:
            continue
        match = _STOPPED.search(text.gap(n))
        line = text.line_of[n]
        is_quoted = text.gap(n)[-1:] in _QUOTES and text.after(n) in _QUOTES  # a word as such
        if not match or is_quoted or line is not text.line_of[n - 1]:
            continue
        before = text.low[n - 1]
        is_short = len(before) < 4 and before not in SHORT
        if len(before) < 2 or before in ABBREVIATIONS or before[-1].isdigit():
            continue
        words = _is_inside(text, n, 3)
        sure = (
            text.low[n] in STARTERS - _SUBORDINATE - _CONTINUES
            and line.is_sentence
            and not is_short
            and words
            and len(text.gap(n).strip()) == 1
            and match["stop"] == "."
            and text.words[n - 1].islower()
        )
        yield SENTENCE.words(text, n, n, _capital(text, n), sure=sure)


def _is_inside(text: Text, n: int, count: int) -> bool:
    """Return whether some words before and after a word belong to the same line."""
    line = text.line_of[n]
    return (
        n >= count
        and n + count <= len(text)
        and text.line_of[n - count] is line
        and text.line_of[n + count - 1] is line
        and not any(text.starts[n - count + 1 : n])
    )


def _paragraphs(text: Text) -> Iterator[Suggestion]:
    last = None
    is_stopped = True
    is_style = _is_without_capitals(text)
    for n, line in enumerate(text.line_of):
        if line is last:
            continue
        is_first = not text.text[line.start : text.start[n]].strip(" \t\n\"'\u201c\u2018(")
        is_lower = text.words[n][0].islower() and bool(text.low[n]) and text.next(n) != ""
        if line.is_sentence and is_first and is_lower:
            is_sure = not is_style and line.ends and line.is_alone and is_stopped
            sure = is_sure and text.low[n] in STARTERS - _CONTINUES
            yield PARAGRAPH.words(text, n, n, _capital(text, n), sure=sure)
        last, is_stopped = line, line.ends or not line.is_sentence


def _is_without_capitals(text: Text) -> bool:
    """Return whether no sentence of a longer text starts with a capital: a choice of style."""
    first = [text.words[n] for n in range(len(text)) if text.starts[n]]
    return len(first) > 2 and not any(word[0].isupper() for word in first)


def _pronouns(text: Text) -> Iterator[Suggestion]:
    for n in text.where(("i", "i'm", "i've", "i'll", "i'd")):
        word = text.words[n]
        if word[0] != "i":
            continue
        new = "I" + word[1:]
        if len(word) > 1:
            yield PRONOUN.words(text, n, n, new, sure=True)
            continue
        before = text.text[text.start[n] - 1 : text.start[n]] if text.start[n] else " "
        follows = text.next(n)
        if before not in " \n\"'\u201c\u2018" or text.after(n) in (".", ")", "="):
            continue
        sure = len(follows) > 1 and follows not in _NOT_PRONOUN and follows.isalpha()
        sure = sure and text.previous(n) not in ("for", "index", "variable", "type", "part")
        yield PRONOUN.words(text, n, n, new, sure=sure)


def _dates(text: Text) -> Iterator[Suggestion]:
    for n in text.where(DAYS | MONTHS | _PLURAL_DAYS):
        if text.words[n][0].islower():
            yield DATE.words(text, n, n, _capital(text, n), sure=True)
    for n in text.where(("march", "may", "august", "wednesdays")):
        near = text.next(n)[:1].isdigit() or text.previous(n)[:1].isdigit()
        if text.words[n][0].islower() and (near or text.previous(n) in _DATE_BEFORE):
            yield DATE.words(text, n, n, _capital(text, n))


def _names(text: Text) -> Iterator[Suggestion]:
    for n in text.where(PEOPLES | PLACES):
        if text.words[n][0].islower() and text.next(n) not in _COMMON:
            yield NAME.words(text, n, n, _capital(text, n))
