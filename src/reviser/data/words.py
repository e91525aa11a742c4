"""The words of an English text, with guesses at their parts of speech.

Lists and endings show some of them, which is enough to say where a mistake is one. The lists are
in `english.json`. The last part has what the kinds of mistakes share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import pairwise
from typing import Any

from reviser.data.mistakes import Site, Word

LISTS: dict[str, Any] = json.loads(files("reviser.data").joinpath("english.json").read_text())


def listed(words: str) -> frozenset[str]:
    """Return the set of some words."""
    return frozenset(words.split())


NOUNS = listed("NN NNS NNP NNPS")
NAMES = listed("NNP NNPS")
Sites = Iterator[Site]

_LETTER = "[A-Za-zÀ-ÖØ-öø-ÿ]"
_CHUNK = re.compile(
    rf"(?<!\S)([(\[\"'\u201c\u2018*]*)({_LETTER}+(?:['\u2019-]{_LETTER}+)*)"
    r"([)\]\"'\u201d\u2019*.,;:!?\u2026]*)(?!\S)"
)
"""A word with the punctuation that may touch it; anything else between spaces is left alone."""
_PART = re.compile(r"-|([^-]+?)(n['\u2019]t|['\u2019](?:s|re|ve|ll|d|m))?(?=-|$)")
_MARKS = {mark: mark for mark in ",:;()"} | dict.fromkeys(".?!", ".") | {"-": "HYPH"}
_TAGS = {word: tag for tag, words in LISTS["tags"].items() for word in words.split()}
_BASES = frozenset(LISTS["verbs"])
_NOT_PLURAL = frozenset(LISTS["not plural"])
_PLURAL_FORM = re.compile(r"[a-z]{2,}(?:(?!s)[b-df-hj-np-tv-z]e?|se|[aeo]y|ee|ie)s")
_AFTER_NOUN = listed("of is was has in that which and or for with on at by from . , ;")


def read_words(text: str) -> list[Word]:
    """Return the plain words of a text and the punctuation that touches them, with tags."""
    spans = [span for chunk in _CHUNK.finditer(text) for span in _spans(chunk)]
    words: list[Word] = []
    for n, (start, end) in enumerate(spans):
        before = words[-1] if words and "\n" not in text[words[-1].end : start] else None
        follows = text[slice(*spans[n + 1])].lower() if n + 1 < len(spans) else ""
        words.append(Word(start, end, _tag(text[start:end], before, follows), text[start:end]))
    return words


def _spans(chunk: re.Match[str]) -> Iterator[tuple[int, int]]:
    yield from ((at, at + 1) for at in range(*chunk.span(1)) if chunk.string[at] != "*")
    for part in _PART.finditer(chunk[2]):
        start = chunk.start(2)
        for group in (1, 2) if part[1] else (0,):
            if part[group]:
                yield start + part.start(group), start + part.end(group)
    yield from ((at, at + 1) for at in range(*chunk.span(3)) if chunk.string[at] != "*")


def _tag(word: str, before: Word | None, follows: str) -> str:
    """Guess the part of speech of a word; empty for the many that no list or ending shows."""
    lower, previous = word.lower().replace("\u2019", "'"), before.tag if before else "."
    if lower == "'s":
        return "POS" if previous in ("", *NOUNS) else "VBZ"
    if lower in _TAGS or not word[0].isalpha():
        return _TAGS.get(lower) or _MARKS.get(word, "``" if len(word) == 1 else "")
    if word[0].isupper() and previous not in (".", "``", "("):
        return "NNP"
    is_noun = previous in ("DT", "PRP$", "POS")
    if lower in _BASES:
        return "VB" if previous in ("TO", "MD") else "NN" if is_noun else "VBP"
    if lower in _BASES_OF:
        return "NNS" if is_noun else "VBZ"
    if lower.endswith("ly"):
        return "RB"
    if _PLURAL_FORM.fullmatch(lower) and lower not in _NOT_PLURAL:
        return "NNS"
    return "NN" if is_noun and len(lower) > 2 and follows in _AFTER_NOUN else ""


def _with_s(word: str) -> str:
    """Return the plural of a regular noun, or the third person of a verb."""
    if re.search("(?:[sxz]|ch|sh|[^aeiou]o)$", word):
        return word + "es"
    return word[:-1] + "ies" if re.search("[^aeiou]y$", word) else word + "s"


_BASES_OF = {_with_s(verb): verb for verb in _BASES}


def regular(word: str, _: str, to: str) -> str | None:
    """Return a regular noun in the other number, or a listed verb in the other person.

    >>> regular("cities", "NNS", "NN"), regular("apply", "VBP", "VBZ")
    ('city', 'applies')
    """
    if to in ("NNS", "VBZ"):
        return _with_s(word)
    if to != "NN":
        return _BASES_OF.get(word)
    single = word[:-3] + "y" if re.search("[^aeiou]ies$", word) else word[:-1]
    return re.sub("(ss|x|z|ch|sh)e$", r"\1", single)


def like(old: str, new: str) -> str:
    """Return a word with the capital of the word that it replaces."""
    return new[:1].upper() + new[1:] if old[:1].isupper() and old != "I" else new


def put(word: Word, *options: str, weight: float = 1.0) -> Site:
    """Return the site that replaces a word by another one."""
    return Site(word.start, word.end, [like(word.text, new) for new in options], weight)


def cut(text: str, word: Word, weight: float = 1.0) -> Sites:
    """Drop a word and one space next to it; the next word takes over a capital."""
    start, end = word.start, word.end
    if text[start - 1 : start] == " " and start > 1:
        yield Site(start - 1, end, [""], weight)
    elif text[end : end + 1] == " " and text[end + 1 : end + 2].isalpha():
        follows = text[end + 1]
        first = follows.upper() if word.text[0].isupper() else follows
        yield Site(start, end + 2, [first], weight)


def is_plain(word: Word) -> bool:
    """Return whether a word consists of letters."""
    return word.text.isalpha()


def after(words: Sequence[Word], i: int) -> Word | None:
    """Return the word after the word at `i`, if any."""
    return words[i + 1] if i + 1 < len(words) else None


def gaps(text: str, words: Sequence[Word]) -> Iterator[tuple[int, Word, Word]]:
    """Yield the words that one space parts, with the index of the first."""
    for i, (word, following) in enumerate(pairwise(words)):
        if text[word.end : following.start] == " ":
            yield i, word, following
