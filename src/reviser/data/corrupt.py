"""Pairs from clean English text: small mistakes are inserted, and the clean text is the target.

This module knows English words in Latin letters only. A mistake changes plain words and the
punctuation and single spaces next to them. Nothing else changes: line ends stay, and so does
everything between two spaces that has digits, slashes and the like, such as numbers, addresses and
most code. All mistakes are planned on the clean text, so no mistake falls on another.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from reviser.data.pairs import Pair
from reviser.errors import ConfigError

_LETTER = "[A-Za-zÀ-ÖØ-öø-ÿ]"
_WORD = re.compile(
    rf"(?<!\S)[(\[\"'\u201c\u2018*]*({_LETTER}+(?:['\u2019-]{_LETTER}+)*)"
    r"[)\]\"'\u201d\u2019*.,;:!?\u2026]*(?!\S)"
)
"""A word with the punctuation that may touch it; anything else between spaces is left alone."""
_SENTENCE_END = re.compile(r"(?:\A|\n|[.!?][)\"'\u201d\u2019]* )\Z")
_MARKS = frozenset(",.;:!?")
_TRIES = 16

_ARTICLES = "a an the"
_PREPOSITIONS = "of in on at to for with by from as about into over under between through during"
_AUXILIARIES = "is are was were be been being has have had do does did will would can could may"


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_DROPPED = _words(f"{_ARTICLES} {_PREPOSITIONS} {_AUXILIARIES} that not and it")
_DROPPED_WEIGHT = 10
"""The weight of these words among dropped words. Other words can rarely be guessed again."""

_T = TypeVar("_T")
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _neighbours() -> dict[str, str]:
    """Return for each letter the neighbouring keys, on its row and the rows above and below."""
    found: dict[str, str] = {}
    for n, row in enumerate(_KEYS):
        for i, key in enumerate(row):
            near = row[max(0, i - 1) : i] + row[i + 1 : i + 2]
            above = _KEYS[n - 1][i : i + 2] if n else ""
            below = _KEYS[n + 1][max(0, i - 1) : i + 1] if n + 1 < len(_KEYS) else ""
            found[key] = near + above + below
    return found


_NEIGHBOURS = _neighbours()


def _both_ways(groups: str) -> dict[str, tuple[str, ...]]:
    """Map each word to the others of its group, from a text like `their/there/they're its/it's`."""
    table: dict[str, tuple[str, ...]] = {}
    for group in groups.split():
        words = group.split("/")
        for word in words:
            table[word] = table.get(word, ()) + tuple(w for w in words if w != word)
    return table


_CONFUSED = _both_ways(
    "their/there/they're its/it's then/than to/too your/you're affect/effect lose/loose whose/who's"
    " accept/except advice/advise weather/whether were/where quite/quiet through/though fewer/less"
    " passed/past principle/principal of/off who/whom which/witch here/hear by/buy know/no"
    " right/write peace/piece brake/break whole/hole led/lead"
)
_COMMON = _words("of to by who which were no")
"""Frequent words with a lower weight, which would otherwise be most of the confusions."""
_AGREEING = _both_ways(
    "is/are was/were has/have does/do isn't/aren't wasn't/weren't hasn't/haven't doesn't/don't"
    " this/these"
)
_VERBS = (
    "allow appear apply ask become begin believe bring call carry come contain continue create"
    " depend describe develop differ enable explain feel follow get give go grow happen help hold"
    " include increase involve keep know lead learn leave let live look lose make mean meet move"
    " need occur offer produce provide reach receive reduce refer remain represent require run say"
    " see seem send show sit speak stand start suggest take tell tend think try understand use"
    " want work write"
)


def _with_s(word: str) -> str:
    """Return the plural of a regular noun, or the third person of a verb."""
    if re.search("(?:[sxz]|ch|sh|[^aeiou]o)$", word):
        return word + "es"
    return word[:-1] + "ies" if re.search("[^aeiou]y$", word) else word + "s"


_VERB_FORMS = _both_ways(" ".join(f"{verb}/{_with_s(verb)}" for verb in _VERBS.split()))
_DETERMINERS = _words("a an the this each every another one his her its their our my your")
_AFTER_NOUN = _words("of is was has in that which and or for with on at by from")
_PLURAL = re.compile(r"[a-z]{2,}(?:[b-df-hj-np-tv-z]e?|[aeo]y|ee|ie)s")
_NOT_PLURAL = _words(
    "always perhaps besides sometimes species series news means afterwards towards themselves"
    " ourselves yourselves goes upwards downwards forwards backwards nowadays yes"
)


class _Site(NamedTuple):
    """A span of the clean text that a mistake may replace."""

    start: int
    end: int
    change: Callable[[str, np.random.Generator], str]
    """A function from the span's text to the mistaken text."""
    weight: int = 1


class _Mistake(NamedTuple):
    kind: str
    start: int
    end: int
    text: str


def _to(*options: str) -> Callable[[str, np.random.Generator], str]:
    """Return a change to one of some words, in the letter case of the old word."""
    return lambda old, rng: _cased(options[int(rng.integers(len(options)))], old)


def _cased(new: str, old: str) -> str:
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def _plain(word: str) -> str:
    return word.lower().replace("\u2019", "'")


def _mistyped(word: str, rng: np.random.Generator) -> str:
    """Swap two letters, drop one, double one, or replace one by a neighbouring key."""
    forms = list(rng.permutation(4))
    swaps = [i for i, (a, b) in enumerate(pairwise(word)) if a != b]
    letters = [i for i, letter in enumerate(word) if letter.isalpha()]
    keys = [i for i in letters if word[i].lower() in _NEIGHBOURS]
    for form in forms:
        if form == 0 and swaps:
            i = swaps[int(rng.integers(len(swaps)))]
            return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        if form == 1 and keys:
            i = keys[int(rng.integers(len(keys)))]
            near = _NEIGHBOURS[word[i].lower()]
            key = near[int(rng.integers(len(near)))]
            return word[:i] + (key.upper() if word[i].isupper() else key) + word[i + 1 :]
        i = letters[int(rng.integers(len(letters)))]
        if form == 2 and len(word) > 2:
            return word[:i] + word[i + 1 :]
        if form == 3:
            return word[: i + 1] + word[i].lower() + word[i + 1 :]
    raise AssertionError("a letter can always be doubled")


def _typos(_: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    for word in words:
        if len(word[1]) > 1:
            yield _Site(*word.span(1), _mistyped)


def _dropped(text: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    for word in words:
        start, end = word.span(1)
        if text[start - 1 : start] == " ":
            start -= 1
        elif text[end : end + 1] == " ":
            end += 1
        else:
            continue  # alone on its line, or between punctuation on both sides
        yield _Site(start, end, lambda *_: "", _DROPPED_WEIGHT if word[1] in _DROPPED else 1)


def _doubled(_: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    for word in words:
        weight = 4 if word[1] in _DROPPED else 1
        yield _Site(*word.span(1), lambda old, _: f"{old} {old[0].lower()}{old[1:]}", weight)


def _agreement(text: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    plain = [_plain(word[1]) for word in words]
    for i, word in enumerate(words):
        this = plain[i]
        if options := _AGREEING.get(this) or _VERB_FORMS.get(this):
            yield _Site(*word.span(1), _to(*options))
        elif this in ("a", "an"):
            if re.match(f" {_LETTER}", text[word.end(1) :][:2]):
                yield _Site(*word.span(1), _to("an" if this == "a" else "a"))
        elif this != word[1] or this in _DROPPED or len(this) < 3:
            continue  # a name, or not a noun
        elif _PLURAL.fullmatch(this) and this not in _NOT_PLURAL:
            single = this[:-3] + "y" if re.search("[^aeiou]ies$", this) else this[:-1]
            yield _Site(*word.span(1), _to(re.sub("(ss|x|z|ch|sh)e$", r"\1", single)))
        elif i and plain[i - 1] in _DETERMINERS and words[i - 1].end() + 1 == word.start(1):
            after = text[word.end(1) : word.end(1) + 1]
            follows = plain[i + 1] if i + 1 < len(words) else ""
            if (after in {".", ",", ";"} or follows in _AFTER_NOUN) and not this.endswith("s"):
                yield _Site(*word.span(1), _to(_with_s(this)))


def _confusions(_: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    for word in words:
        if options := _CONFUSED.get(_plain(word[1])):
            yield _Site(*word.span(1), _to(*options), 1 if _plain(word[1]) in _COMMON else 6)


def _swapped(text: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    for left, right in pairwise(words):
        start, end = left.start(1), right.end(1)
        if text[left.end(1) : right.start(1)] == " " and _plain(left[1]) != _plain(right[1]):
            yield _Site(start, end, lambda old, _: " ".join(old.split(" ")[::-1]))


def _case(text: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    for word in words:
        first = word.start(1)
        other = text[first].swapcase()
        is_other = len(other) == 1 and other != text[first]
        if is_other and _SENTENCE_END.search(text[max(0, word.start() - 5) : word.start()]):
            yield _Site(first, first + 1, lambda old, _: old.swapcase())


def _punctuation(text: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    for word in words:
        end = word.end(1)
        if text[end : word.end()] in _MARKS:
            yield _Site(end, end + 1, lambda old, rng: ("", old + old)[int(rng.integers(2))])


def _spaces(text: str, words: list[re.Match[str]]) -> Iterator[_Site]:
    for left, right in pairwise(words):
        if text[left.end() : right.start()] == " ":
            yield _Site(left.end(), right.start(), lambda _, rng: ("", "  ")[int(rng.integers(2))])


_KINDS: dict[str, Callable[[str, list[re.Match[str]]], Iterator[_Site]]] = {
    "typo": _typos,
    "dropped": _dropped,
    "doubled": _doubled,
    "agreement": _agreement,
    "confusion": _confusions,
    "swapped": _swapped,
    "case": _case,
    "punctuation": _punctuation,
    "space": _spaces,
}


def _weights() -> dict[str, float]:
    return {
        "typo": 4.0,
        "dropped": 2.0,
        "doubled": 1.0,
        "agreement": 4.0,
        "confusion": 2.0,
        "swapped": 1.0,
        "case": 1.0,
        "punctuation": 1.0,
        "space": 1.0,
    }


@dataclass(frozen=True, kw_only=True)
class Corruption:
    """The number and the kinds of mistakes, and the share of texts without any."""

    rate: float = 5.0
    """Mean number of mistakes per 100 words. A text that has any has at least one."""
    unchanged: float = 0.3
    """Share of pairs without a mistake, from which a model learns to stop at once."""
    kinds: Mapping[str, float] = field(default_factory=_weights)
    """Relative weights of the kinds of mistakes."""

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 100:
            raise ConfigError(f"rate is {self.rate}; it must be above 0 and at most 100.")
        if not 0 <= self.unchanged <= 1:
            raise ConfigError(f"unchanged is {self.unchanged}; it must be 0 to 1.")
        unknown = sorted(self.kinds.keys() - _KINDS.keys())
        if unknown or not self.kinds or not all(0 < w < np.inf for w in self.kinds.values()):
            raise ConfigError(
                f"kinds is {dict(self.kinds)}; give any of {', '.join(_KINDS)} a weight above 0."
            )


def corrupt(text: str, rng: np.random.Generator, corruption: Corruption | None = None) -> str:
    """Return the text with mistakes; unchanged only if no mistake is possible in it."""
    return _applied(text, _drawn(text, rng, corruption or Corruption()))


def corrupted(texts: Iterable[str], corruption: Corruption, seed: int) -> Iterator[Pair]:
    """Yield a pair for each clean text. Pair n depends only on the seed, n and its text."""
    for n, text in enumerate(texts):
        rng = np.random.default_rng((seed, n))
        keep = rng.random() < corruption.unchanged
        mistakes = [] if keep else _drawn(text, rng, corruption)
        kinds = {"mistakes": [mistake.kind for mistake in mistakes]}
        yield Pair(before=_applied(text, mistakes), after=text, more=kinds)


def _drawn(text: str, rng: np.random.Generator, corruption: Corruption) -> list[_Mistake]:
    """Draw mistakes that do not overlap and together change the text, in text order."""
    words = list(_WORD.finditer(text))
    weights, sites = dict(corruption.kinds), dict[str, list[_Site]]()
    steps: dict[str, list[int]] = {}
    taken = bytearray(len(text))
    mistakes: list[_Mistake] = []
    wanted = max(1, int(rng.poisson(corruption.rate * len(words) / 100)))
    while weights and len(mistakes) < wanted:
        kind = _chosen(list(weights), list(accumulate(weights.values())), rng)
        if kind not in sites:
            sites[kind] = list(_KINDS[kind](text, words))
            steps[kind] = list(accumulate(site.weight for site in sites[kind]))
        for _ in range(_TRIES if sites[kind] else 0):
            site = _chosen(sites[kind], steps[kind], rng)
            if not any(taken[site.start : site.end]):
                break
        else:
            del weights[kind]  # no free site for it, or hardly any left
            continue
        old = text[site.start : site.end]
        new = site.change(old, rng)
        assert new != old, (kind, old)
        taken[site.start : site.end] = b"\1" * len(old)
        mistakes.append(_Mistake(kind, site.start, site.end, new))
    if mistakes and _applied(text, mistakes) == text:  # "so so": one dropped, the other doubled
        del mistakes[1:]
    return sorted(mistakes, key=lambda mistake: mistake.start)


def _chosen(things: list[_T], steps: Sequence[float], rng: np.random.Generator) -> _T:
    """Draw one of some things by the running sums of their weights."""
    return things[min(bisect_right(steps, rng.random() * steps[-1]), len(things) - 1)]


def _applied(text: str, mistakes: list[_Mistake]) -> str:
    parts, done = [], 0
    for mistake in sorted(mistakes, key=lambda mistake: mistake.start):
        parts += [text[done : mistake.start], mistake.text]
        done = mistake.end
    return "".join([*parts, text[done:]])
