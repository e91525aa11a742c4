"""Mistakes in English punctuation, capitals, spaces and apostrophes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from reviser.data.mistakes import Site, Word
from reviser.data.words import NAMES, NOUNS, Sites, after, gaps, is_plain, listed, put

_EASILY_JOINED = listed("a in any every some may can all to up on")


def comma_missing(text: str, words: Sequence[Word]) -> Sites:
    """Leave out a comma."""
    since = 0  # words since the sentence began
    commas = 0
    for i, word in enumerate(words):
        if word.tag == ".":
            since, commas = 0, 0
            continue
        since += 1
        following = after(words, i)
        if word.text != "," or not i or following is None or text[word.end] != " ":
            continue
        commas += 1
        # The comma before the last item of a list is a matter of style.
        weight = 1.5 if following.tag in ("CC", "WDT", "WP") else 0.8
        if following.lower in ("and", "or") and commas > 1:
            weight = 0.15
        elif commas == 1 and since <= 9:
            weight = 2.0
        yield Site(word.start, word.end, [""], weight)


def comma_extra(text: str, words: Sequence[Word]) -> Sites:
    """Put a comma where none belongs."""
    for _, word, following in gaps(text, words):
        if not (is_plain(word) and is_plain(following)):
            continue
        weight = 0.1
        if following.lower in ("that", "because", "than"):
            weight = 2.0
        elif following.lower in ("and", "or", "when", "if", "who", "to", "as", "which"):
            weight = 0.8
        elif word.tag in NOUNS and following.tag in ("VBZ", "VBP", "VBD", "MD"):
            weight = 1.5
        elif word.lower in ("and", "but", "although", "because", "that", "such"):
            weight = 1.0
        yield Site(word.end, following.start, [", "], weight)


def comma_splice(text: str, words: Sequence[Word]) -> Sites:
    """Join two sentences, or cut one."""
    for i, word in enumerate(words[1:-1], start=1):
        following = words[i + 1]
        is_spaced = text[word.end : following.start] == " "
        if word.text == "." and is_spaced and following.text[0].isupper():
            keeps = following.tag in NAMES or following.text == "I"
            first = following.text if keeps else following.lower
            joins = [f", {first}"] * 3 + [f" {first}"] * 2
            joins += [f". {first}"] * (first != following.text)
            yield Site(word.start, following.end, joins, 2.0)
        elif word.text == ";" and text[word.end] == " ":
            yield Site(word.start, word.end, [",", ",", ""], 1.5)
        elif word.text == "," and following.lower in ("but", "so", "and") and i > 4:
            yield Site(word.start, word.end, [".", ";"], 0.15)


def end_mark(text: str, words: Sequence[Word]) -> Sites:
    """Leave out or replace the mark at the end."""
    others = {".": ["", "", "", ",", "?"], "?": [".", ".", ""], "!": [".", ""]}
    for i, word in enumerate(words):
        if word.text in others and i and is_plain(words[i - 1]):
            is_last = text[word.end : word.end + 1] in ("", "\n")
            if is_last or word.text != ".":
                weight = 1.0 if word.text == "." else 2.0
                yield Site(word.start, word.end, others[word.text], weight)


def other_punctuation(text: str, words: Sequence[Word]) -> Sites:
    """Change other punctuation."""
    for i, word in enumerate(words):
        start, end = word.start, word.end
        if word.text == ":" and text[end : end + 1] == " ":
            yield Site(start, end, [";", ",", ""])
        elif word.text in ('"', "\u201c", "\u201d") and i:
            yield Site(start, end, [""], 0.7)
        elif word.text in ("(", ")"):
            yield Site(start, end, [""], 0.5)
        elif word.text == "-" and f"{text[start - 1]}{text[end : end + 1]}".isalpha():
            yield Site(start, end, [" ", " ", ""], 3.0)
        elif word.text in (",", ".") and i + 1 < len(words):
            yield Site(start, end, [word.text * 2], 0.2)


def capital(text: str, words: Sequence[Word]) -> Sites:
    """Change the case of a first letter."""
    for i, word in enumerate(words):
        first = word.text[0]
        if not first.isalpha() or (len(word.text) > 1 and word.text.isupper()):
            continue
        starts = i == 0 or words[i - 1].tag == "." or (i == 1 and words[0].tag in ("``", "''"))
        if word.text == "I":
            yield Site(word.start, word.end, ["i"], 2.0)
        elif first.isupper():
            weight = 1.0 if starts else 1.2 if word.tag in ("NNP", "NNPS", "JJ") else 0.5
            yield Site(word.start, word.start + 1, [first.lower()], weight)
        elif (
            word.tag in ("NN", "NNS", "JJ")
            and len(word.text) > 3
            and text[word.start - 1 : word.start] == " "
        ):
            yield Site(word.start, word.start + 1, [first.upper()], 0.25)


def space(text: str, words: Sequence[Word], known: Mapping[str, int]) -> Sites:
    """Join words, or cut one in two known ones."""
    for word, following in pairwise(words):
        gap = text[word.end : following.start]
        if gap == " " and is_plain(word) and is_plain(following):
            weight = 0.8 if word.lower in _EASILY_JOINED else 0.15
            yield Site(word.end, following.start, [""], weight)
        elif word.text in (",", ".") and gap == " ":
            yield Site(word.end, following.start, [""], 0.7 if word.text == "," else 1.0)
        if following.text in (",", ".", ";", "?", "!") and gap == "" and is_plain(word):
            yield Site(word.end, following.start, [" "], 0.25)
        if is_plain(word) and len(word.text) > 5 and word.tag not in NAMES:
            cuts = [
                f"{word.text[:n]} {word.text[n:]}"
                for n in range(2, len(word.text) - 2)
                if min(known.get(part, 0) for part in (word.lower[:n], word.lower[n:])) > 20_000_000
            ]
            if cuts:
                yield Site(word.start, word.end, cuts, 0.8)


def apostrophe(text: str, words: Sequence[Word]) -> Sites:
    """Leave out an apostrophe, or put one into a plural."""
    for i, word in enumerate(words):
        mark = next((m for m in "'\u2019" if m in word.text), None)
        if mark and i and len(word.text) > 1 and text[word.start - 1].isalpha():
            bare = word.text.replace(mark, "")
            options = [bare, bare] if word.tag != "POS" else [bare, bare, f"{bare}{mark}"]
            yield Site(word.start, word.end, options, 3.0)
        elif word.tag == "NNS" and word.text.endswith("s") and is_plain(word):
            yield Site(word.end - 1, word.end, ["'s"], 0.3)
        elif word.lower == "its":
            yield put(word, "it's", weight=2.0)
