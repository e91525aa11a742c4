"""How usual a short stretch of English is, from counts in clean text.

The table has probabilities of three word classes in a row, and of pairs of words that are more or
less frequent than their classes suggest. The most frequent words are classes of their own; other
words share a class if they are the same parts of speech. `experiments/proofreader/lists_build.py`
writes the data files.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np

OWN = 700
"""Words that are a class of their own: the first ones of the list of words."""
VOCABULARY = 12_000
"""Words whose pairs are counted: the first ones of the list of words."""
SCALE = 8
"""Units of the saved numbers in a nat, a natural unit of information."""
SHIFT, PAIR_SHIFT = 10, 14
"""Bits of a class, and of a word, in a key."""
UNSEEN = 6
"""What it costs, in units, that a row of three was not seen."""
MARGIN = 8
"""How much lower than asked the gain by pairs of classes may be."""
NEVER, SLACK = 10_000, 16
"""A cost that no row has, and what frequent pairs may still save once a row costs too much."""
RARE = 10 * SCALE
"""The cost of a word of no list, given its class."""

TOKEN = re.compile(
    r"[^\W\d_]+(?:['\u2019](?!s\b)[^\W\d_]+)*|['\u2019]s\b|\d+(?:[.,]\d+)*|\ufffc+|[^\w\s\"\u201c\u201d*_]"
)
"""A word, the ending 's, a number or a mark. Quotation marks and emphasis are left out."""
STOPS = frozenset(".?!:")
MARKS = (".", ",", "?", "!", ";", ":", "'s", "(", ")", "-", "'", "\u2014")
"""Marks that are classes. The first seven begin the list of words."""


def load(name: str) -> bytes:
    """Return the bytes of a data file."""
    return files("reviser.proofread").joinpath("data", name).read_bytes()


@cache
def words() -> tuple[str, ...]:
    """Return the known words in lower case, the most frequent first."""
    return tuple(zlib.decompress(load("words.bin")).decode().split("\n"))


FAMILIES = {"v": range(5), "n": range(5, 7), "a": range(7, 11), "d": range(0)}
"""The kinds of families, and the tags of their words: "v" for the base, -s, past, participle and
-ing of a verb, "n" for a noun and its plural, "a" for an adjective, its comparative, its
superlative and its adverb, "d" for other words with the same stem."""


class Forms(NamedTuple):
    """The other forms of words."""

    families: dict[str, dict[str, tuple[tuple[str, ...], ...]]]
    """For each kind, the families of each word; "-" is a form that the verb or word lacks."""
    tags: dict[str, int]
    """What forms each word can be, as bits."""


@cache
def forms() -> Forms:
    """Return the forms of words from the data file."""
    families: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {kind: {} for kind in FAMILIES}
    tags: dict[str, int] = {}
    for line in zlib.decompress(load("forms.bin")).decode().split("\n"):
        kind, *members = line.split(" ")
        found, family = families[kind], (tuple(members),)
        for member in set(members):
            found[member] = found[member] + family if member in found else family
        for tag, member in zip(FAMILIES[kind], members, strict=False):
            tags[member] = tags.get(member, 0) | 1 << tag
    tags.pop("-", None)
    for found in families.values():
        found.pop("-", None)
    return Forms(families, tags)


Entry: TypeAlias = tuple[int, int, int]
"""A word's class, its number in the table of pairs or -1, and its cost in its class."""


class Token(NamedTuple):
    """A word or mark of a text."""

    start: int
    end: int
    text: str
    """Empty for the stop that stands between two paragraphs."""
    lower: str
    """In lower case, with straight apostrophes."""
    is_first: bool
    """True if a sentence starts here."""
    is_name: bool
    """True if it has a capital that does not come from the start of a sentence."""


def tokenize(text: str) -> Iterator[Token]:
    """Yield the words and marks of a text, and a stop between two lines."""
    first, end = True, 0
    for match in TOKEN.finditer(text):
        start, word = match.start(), match.group()
        lower = word.lower()
        if "\u2019" in lower:
            lower = lower.replace("\u2019", "'")
        if end and "\n" in text[end:start]:
            first = True
            yield Token(end, end, "", ".", False, False)
        end = match.end()
        is_i = lower == "i" or lower[:2] == "i'"
        is_name = word[:1].isupper() and not first and not is_i
        yield Token(start, end, word, lower, first, is_name)
        first = lower in STOPS


class Cache(dict[str, Entry]):
    """What a function returns for each word, computed once."""

    def __init__(self, find: Callable[[str], Entry]) -> None:
        self._find = find

    def __missing__(self, word: str) -> Entry:
        found = self[word] = self._find(word)
        return found


class Ngrams:
    """Probabilities of word classes and of pairs of words, as costs in units of `SCALE`."""

    def __init__(self) -> None:
        data = zlib.decompress(load("ngrams.bin"))
        sizes = array("I")
        sizes.frombytes(data[:12])
        at = 12
        names = data[at : at + sizes[0]].decode().split(" ")
        at += sizes[0]
        self._emission = data[at : at + VOCABULARY]
        at += VOCABULARY
        width = OWN + len(names)
        self.two = np.frombuffer(data, np.uint8, width * width, at).reshape(width, width)
        """The cost of each class after each class."""
        self._width, self._two = width, data[at : at + width * width]
        at += width * width
        tables: list[dict[int, int]] = []
        for size in sizes[1:3]:
            keys, values = unpack(data[at : at + 5 * size], size)
            tables.append(dict(zip(keys, values, strict=True)))
            at += 5 * size
        self._three, self._pairs = tables
        known = words()
        self._numbers = {word: n for n, word in enumerate(known[:VOCABULARY])}
        self._others = {name: n + OWN for n, name in enumerate(names)}
        self._entries = Cache(self._find)
        self._name = self._others["name"], -1, 0

    def entry(self, word: str, is_name: bool = False) -> Entry:
        """Return the class of a word, its number (-1 if it has none) and its cost in its class."""
        found = self._entries[word]
        return self._name if is_name and found[0] >= OWN else found

    def _find(self, word: str) -> Entry:
        number = self._numbers.get(word, -1)
        if 0 <= number < OWN:
            return number, number, self._emission[number]
        klass = self._others.get(class_name(word), self._others["unknown"])
        return klass, number, self._emission[number] if number >= 0 else RARE

    def cost(self, row: Sequence[Entry], i: int, j: int) -> int:
        """Return the cost of the words from `i` to `j` of a row, and of the next two."""
        return self._cost(row[i - 2], row[i - 1], row[i : j + 2], NEVER)

    def gains(
        self,
        row: Sequence[Entry],
        i: int,
        j: int,
        options: Sequence[Sequence[str]],
        old: int,
        least: int,
    ) -> list[int]:
        """Return how much more usual a row gets if the words from `i` to `j` become an option.

        `old` is their cost. What is sure to be below `least` is not computed to the end.
        """
        one, two, right = row[i - 2], row[i - 1], list(row[j : j + 2])
        most, entries, cost, pair = old - least + SLACK, self._entries, self._cost, self._two
        start, end = two[0] * self._width, right[0][0]
        most_pair = pair[start + row[i][0]] + MARGIN - least
        if i < j:
            most_pair += pair[row[j - 1][0] * self._width + end]
        gains = []
        for option in options:
            new = [entries[word] for word in option]
            if new and pair[start + new[0][0]] + pair[new[-1][0] * self._width + end] > most_pair:
                gains.append(-NEVER)
            else:
                gains.append(old - cost(one, two, new + right, most))
        return gains

    def inserted(self, row: Sequence[Entry], new: Sequence[str], margin: int) -> list[list[int]]:
        """Return, for each word of a row, which new words may stand before it.

        This looks at pairs of classes only, and at all words at once.
        """
        classes = np.array([entry[0] for entry in row])
        some = np.array([self.entry(word)[0] for word in new])
        left, right = np.roll(classes, 1), classes
        two = self.two.astype(np.int16)
        with_new = two[left[:, None], some] + two[some, right[:, None]]
        likely = with_new - two[left, right][:, None] <= margin
        found: list[list[int]] = [[] for _ in row]
        for i, n in zip(*(some.tolist() for some in np.nonzero(likely)), strict=True):
            if new[n] != "":
                found[i].append(n)
        return found

    def _cost(self, one: Entry, two: Entry, row: Sequence[Entry], most: int) -> int:
        """Return the cost of a row of words after two others; it stops counting at `most`."""
        three, pairs, pair, width = self._three.get, self._pairs.get, self._two, self._width
        a, b, before = one[0], two[0], two[1]
        total = 0
        for c, number, cost in row:
            found = three(a << SHIFT + SHIFT | b << SHIFT | c)
            total += cost + (UNSEEN + pair[b * width + c] if found is None else found)
            if before >= 0 <= number:
                total -= pairs(before << PAIR_SHIFT | number, 0)
            if total > most:
                return total
            a, b, before = b, c, number
        return total


def class_name(word: str) -> str:
    """Return the name of the class of a word that is not a class of its own."""
    if word in MARKS:
        return word
    bits = forms().tags.get(word)
    if bits:
        return str(bits)
    if word[0].isdigit():
        return "number"
    if not word[0].isalpha():
        return "mark"
    for ending in ("ly", "ing", "ed", "s"):
        if word.endswith(ending):
            return "-" + ending
    return "unknown"


def pack(keys: Sequence[int], values: Sequence[int]) -> bytes:
    """Return sorted keys and their values (-128 to 127) as bytes that compress well."""
    gaps = array("I", [b - a for a, b in zip([0, *keys], keys, strict=False)]).tobytes()
    return b"".join(gaps[n::4] for n in range(4)) + array("b", values).tobytes()


def unpack(data: bytes, size: int) -> tuple[Iterator[int], array[int]]:
    """Return what `pack` was given."""
    gaps = bytearray(4 * size)
    for n in range(4):
        gaps[n::4] = data[n * size : (n + 1) * size]
    numbers, values = array("I"), array("b")
    numbers.frombytes(gaps)
    values.frombytes(data[4 * size :])
    return accumulate(numbers), values
