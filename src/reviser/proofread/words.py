"""What a word could be instead: other forms, near spellings, words that are confused with it."""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from itertools import chain
from typing import TypeAlias

from reviser.proofread import ngrams
from reviser.proofread.suggestion import Dialect

Option: TypeAlias = tuple[str, ...]
"""The words that replace some tokens; none if they are left out."""


def listed(words: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(words.split())


BASE, THIRD, PAST, PARTICIPLE, ING, NOUN, PLURAL, ADJECTIVE, _, _, ADVERB = (
    1 << n for n in range(11)
)
VERB = BASE | THIRD | PAST | PARTICIPLE | ING
BE = ("am", "is", "are", "was", "were", "be", "been", "being")
HAVE = ("have", "has", "had")
DO = ("do", "does", "did")
MODAL = listed("will would can could may might shall should must")
AUXILIARY = frozenset((*BE, *HAVE, *DO, *MODAL))
DETERMINERS = frozenset(
    listed(
        "a an the my your his her its our their this that these those some any each every no much"
        " many few several all both another either neither 's"
    )
)

LONG, VERY_LONG = 5, 9
"""Letters of a word that may have two, or three, that are wrong."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
FREQUENT, COMMON, USUAL = 2500, 5000, 20_000
"""Words that an unknown word may be two of, that a known word may be misspelled as, and that two
words may be together."""


VARIANTS = (
    ("our", "or"), ("ise", "ize"), ("ising", "izing"), ("isation", "ization"), ("yse", "yze"),
    ("tre", "ter"), ("lled", "led"), ("lling", "ling"), ("ogue", "og"), ("ence", "ense"),
    ("grey", "gray"), ("programme", "program"),
)  # fmt: skip
"""Letters of British words and of American ones."""


def families(kind: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the families of a kind that each word is in."""
    return ngrams.forms().families[kind]


def other_forms(kind: str, word: str) -> list[Option]:
    """Return the other words of the families of a word."""
    some = families(kind).get(word, ())
    return [(other,) for other in dict.fromkeys(chain(*some)) if other not in (word, "-")]


@cache
def confusions() -> dict[str, list[Option]]:
    """Return the words that people confuse with each word."""
    table: dict[str, dict[Option, None]] = {}
    for line in ngrams.load("confused.txt").decode().split("\n"):
        group = [tuple(words.split(" ")) for words in line.split("/")]
        for words in group:
            if len(words) == 1:
                others = dict.fromkeys(other for other in group if other != words)
                table.setdefault(words[0], {}).update(others)
    return {word: list(others) for word, others in table.items()}


@cache
def ranks() -> dict[str, int]:
    """Return the known words with their ranks by frequency."""
    return {word: n for n, word in enumerate(ngrams.words())}


@cache
def most_frequent(count: int) -> frozenset[str]:
    """Return the most frequent words."""
    return frozenset(ngrams.words()[:count])


@cache
def _by_start() -> dict[tuple[str, int], list[str]]:
    """Return the words with each first letter and length."""
    table: dict[tuple[str, int], list[str]] = {}
    for word in ngrams.words():
        table.setdefault((word[0], len(word)), []).append(word)
    return table


@lru_cache(20_000)
def near(word: str) -> tuple[tuple[Option, int], ...]:
    """Return known words that are spelled like an unknown one, and what speaks against each."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    rank, found = ranks(), dict[str, int]()
    rest, most = word[1:], 1 + (len(word) >= LONG) + (len(word) >= VERY_LONG)
    for letter in LETTERS:
        found |= {new: 1 for new in (rest, letter + rest, letter + word) if new in rank}
    for size in range(max(2, len(word) - 2), len(word) + 3):
        some = _by_start().get((word[0], size), ())
        scored = process.extract(word, some, scorer=OSA.distance, score_cutoff=most, limit=None)
        found |= {new: int(distance) for new, distance, _ in scored}
    for cut in (1, 2):  # "freezed" for "froze"
        for *_, past, participle, _ in families("v").get(word[:-cut], ()):
            if word.endswith("ed"):
                found |= {new: n for n, new in ((0, participle), (-1, past)) if new in rank}
    sound = _sound(word)
    costs: dict[Option, int] = {
        (new,): 24 * distance - 16 * (_sound(new) == sound) + int(4 * math.log(rank[new] + 50))
        for new, distance in found.items()
    }
    for one, two in halves(word):
        costs[one, two] = int(4 * math.log(FREQUENT))
    return tuple(costs.items())


def _sound(word: str) -> str:
    """Return the consonants of a word, so that words that sound alike are equal."""
    for old, new in (("ph", "f"), ("ck", "k"), ("c", "k"), ("z", "s")):
        word = word.replace(old, new)
    return re.sub(r"[aeiouyhw']|(.)(?=\1)", "", word)


def halves(word: str) -> list[tuple[str, str]]:
    """Return two frequent words that a word may be."""
    some = most_frequent(FREQUENT)
    return [
        (word[:n], word[n:]) for n in range(1, len(word)) if word[:n] in some and word[n:] in some
    ]


@lru_cache(20_000)
def slips(word: str) -> tuple[Option, ...]:
    """Return common words that are one wrong letter away from a known word."""
    common = most_frequent(COMMON)
    cuts = [(word[:n], word[n:]) for n in range(len(word) + 1)]
    shorter = (a + b[1:] for a, b in cuts if b)
    swapped = (a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1)
    changed = (a + letter + b[1:] for a, b in cuts if b for letter in LETTERS)
    longer = (a + letter + b for a, b in cuts for letter in LETTERS)
    found = dict.fromkeys(chain(shorter, swapped, changed, longer))
    return tuple((new,) for new in found if new in common and new != word)


def is_foreign(word: str, dialect: Dialect) -> bool:
    """Return whether a word is spelled as in the other dialect only."""
    if dialect == "auto":
        return False
    for british, american in VARIANTS:
        old, new = (british, american) if dialect == "american" else (american, british)
        at = word.find(old, 1)
        if at > 0 and word[:at] + new + word[at + len(old) :] in ranks():
            return True
    return False
