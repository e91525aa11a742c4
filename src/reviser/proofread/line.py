"""A text as tokens with what is looked up for each, and edits of tokens as edits of the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from reviser.proofread import ngrams
from reviser.proofread.ngrams import Entry, Ngrams, Token, tokenize
from reviser.proofread.suggestion import LOCKED, Dialect
from reviser.proofread.words import Option, listed, ranks

Options: TypeAlias = tuple[int, int, Sequence[Option]]
"""First token, last token + 1, and what may replace them."""
STOP = Token(0, 0, "", ".", False, False)
CHUNK = re.compile(r"\S+")
GLUED = re.compile(r"[@/\\_=#$&+~|<>{}\[\]^\d]|\w[.:]\w")
LONGEST = 30
"""Letters of the longest word that is looked at."""
JOINED = frozenset((",", ".", ";", "?", "'s", "'"))
MARGIN = 32
"""How far below zero the gain of a missing word may be by pairs of classes alone."""


MISSING = listed(
    "it to of is are was were be been am have has had that a an the and in on for at with they he"
    " she i we you them him me us there not do does did will would can could as so if who which"
    " what when this my his her their our your by from about also very more all some any up out"
    " but or because than no people one 's"
)


class Line(NamedTuple):
    """The tokens of a text with what is looked up for each of them."""

    text: str
    tokens: list[Token]
    """With two stops before, and two after."""
    words: list[str]
    """The tokens in lower case."""
    entries: list[Entry]
    tags: list[int]
    """What forms each word is, as bits."""
    unknown: frozenset[str]
    """Words that may be misspelled."""
    missing: list[list[Option]]
    """For each token, the small words that may be missing before it."""
    is_glued: list[bool]
    """Whether each token is part of a path, an address, a number or a name with a mark in it."""
    dialect: Dialect
    costs: dict[tuple[int, int], int]
    """The costs of rows of tokens, by the first one and the last one + 1."""


def read(text: str, model: Ngrams, known: Collection[str] = (), dialect: Dialect = "auto") -> Line:
    """Return the tokens of a text with what is looked up for each."""
    tokens = [STOP, STOP, *tokenize(text), STOP, STOP]
    words = [token.lower for token in tokens]
    entries = [model.entry(token.lower, token.is_name) for token in tokens]
    get = ngrams.forms().tags.get
    tags = [0 if token.is_name else get(token.lower, 0) for token in tokens]
    rank, counts = ranks(), Counter(words)
    glued = [match.span() for match in CHUNK.finditer(text) if GLUED.search(match.group())]
    is_glued = _inside(tokens, glued)
    unknown = frozenset(
        token.lower
        for token, is_part in zip(tokens, is_glued, strict=True)
        if token.lower not in rank
        and 2 < len(token.lower) <= LONGEST
        and counts[token.lower] == 1
        and token.text[1:].replace("'", "").replace("\u2019", "").islower()
        and not is_part
        and "-" not in (text[token.start - 1 : token.start], text[token.end : token.end + 1])
    )
    found = model.inserted(entries, MISSING, MARGIN)
    options: list[list[Option]] = [[(MISSING[n],) for n in some] for some in found]
    unknown = unknown.difference(known)
    return Line(text, tokens, words, entries, tags, unknown, options, is_glued, dialect, {})


def _inside(tokens: Sequence[Token], spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Return whether each token is in one of some spans, which are in order."""
    found, n = [], 0
    for token in tokens:
        while n < len(spans) and spans[n][1] <= token.start:
            n += 1
        found.append(bool(token.text) and n < len(spans) and spans[n][0] <= token.start)
    return found


def _written(words: Sequence[str], old: Token) -> str:
    """Return words as text, with a capital where the old word has one."""
    text = ""
    for word in words:
        word = "I" + word[1:] if word == "i" or word[:2] == "i'" else word
        text += word if word in JOINED or not text else " " + word
    if old.text[:1].isupper() and (old.is_first or old.is_name):
        is_upper = old.text.isupper() and len(old.text) > 1
        return text.upper() if is_upper else text[:1].upper() + text[1:]
    return text


def _inner(token: Token) -> str:
    """Return a word as it is written within a sentence."""
    is_plain = token.text[1:].islower() and token.lower[:2] != "i'"
    return token.lower if is_plain or token.lower == "a" else token.text


def place(line: Line, i: int, j: int, new: Option) -> tuple[int, int, str] | None:
    """Return an edit of tokens as an edit of the text; None if there is no room for it."""
    text, tokens = line.text, line.tokens
    before, first, last, following = tokens[i - 1], tokens[i], tokens[j - 1], tokens[j]
    if i == j:
        return _inserted(text, before, first, new)
    if not (first.text and last.text) or LOCKED in text[first.start : last.end]:
        return None
    if any(line.is_glued[i:j]):
        return None
    if any(text[a.end : b.start] not in ("", " ") for a, b in pairwise(tokens[i:j])):
        return None
    if new == (".",) and first.lower in ",;":
        return _stopped(text, first.start, following)
    if new:
        return first.start, last.end, _written(new, first)
    if first.lower in ",;":
        return first.start, last.end, ""
    if first.is_first:
        if text[last.end : following.start] != " " or not following.text[:1].isalpha():
            return None
        return first.start, following.end, following.text[:1].upper() + following.text[1:]
    is_apart = before.end and text[before.end : first.start] in (" ", "")
    return (before.end, last.end, "") if is_apart else None


def _inserted(text: str, before: Token, first: Token, new: Option) -> tuple[int, int, str] | None:
    gap = text[before.end : first.start]
    if not before.text or not first.text or gap not in ("", " "):
        if not first.is_first or new[0] in JOINED:
            return None
        return first.start, first.end, f"{_written(new, first)} {_inner(first)}"
    if new == (".",):
        return _stopped(text, before.end, first)
    if new[0] in JOINED:
        return before.end, before.end, new[0]
    if first.is_first:
        return first.start, first.end, f"{_written(new, first)} {_inner(first)}"
    if gap:
        return first.start, first.start, _written(new, STOP) + " "
    if first.lower in (".", ",", "?", "!", ";"):
        return before.end, before.end, " " + _written(new, STOP)
    return None


def _stopped(text: str, start: int, following: Token) -> tuple[int, int, str] | None:
    """Return the edit that puts a stop, and a capital after it."""
    if not following.text[:1].isalpha() or text[following.start - 1] != " ":
        return None
    return start, following.end, f". {following.text[:1].upper()}{following.text[1:]}"
