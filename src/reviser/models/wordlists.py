"""Edits that word lists suggest; a model decides which of them are right.

A small model sees that something is wrong more often than it knows the right word. A list knows the
words, but not the sentence. So the lists suggest, and the model compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from reviser.errors import CheckpointError, MissingExtra
from reviser.files import read_object, read_text

WORDS = "words.txt"
"""A model folder's list of words, one a line, in lower case, the most frequent first."""
LISTS = "suggestions.json"
"""A model folder's lists: what may replace a word, and which words may be missing or extra."""
MAX_FILE_BYTES = 16 << 20
"""Bytes of the largest file, so that a damaged folder cannot ask for too much."""
MAX_WORDS, MAX_OTHERS, MAX_CHARACTERS = 500_000, 64, 100
"""Limits of a folder's lists: words, and words with replacements; replacements of one word, and
words that may be missing or extra; characters of each. The included models have up to 83,000, 23
and 28. Each unknown word in a draft is compared with all words, and each suggestion takes a forward
pass."""
MAX_SPELLINGS = 5
"""Spellings that are suggested for a word: those with the fewest wrong letters, then the most
frequent."""
DISTANCE = 2
"""Wrong letters that a word may have; one if it is shorter than `LONG`."""
LONG = 5

FREQUENT = 2000
"""Words that an unknown word may be two of, as in "tomake": the most frequent ones."""
SINGLE = frozenset("bcdefghjklmnopqrstuvwxyz")
"""Letters that are no words."""

Source: TypeAlias = Literal["model", "spelling", "list"]
"""Who suggested a change: the model itself, the list of words, or the lists of replacements."""

_WORD = re.compile(
    r"(?<![\w@/.'\u2019-])[^\W\d_]{1,30}(?:['\u2019][^\W\d_]{1,3})?(?![\w@/'\u2019-]|\.\w)"
)
_COMMA = re.compile(r" ?,(?= )")
_FIRST = re.compile(r"(?:\A|[.!?\n][\"\u201d)]?) *\Z")


class Suggestion(NamedTuple):
    """An edit: the characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str
    source: Source
    extra_letters: int = 0
    """How many more letters are wrong than in the nearest spelling."""


class WordLists:
    """A list of words, and lists of what may replace them.

    >>> lists = WordLists(["the", "was", "there", "definitely"], {"was": ["were"]})
    >>> [each[:3] for each in lists.suggestions("We was definately there with Nouf.")]
    [(3, 6, 'were'), (7, 17, 'definitely')]
    >>> [each.text for each in lists.suggestions("wasthere")]
    ['was there']
    """

    def __init__(
        self,
        words: Sequence[str],
        replace: Mapping[str, Sequence[str]] | None = None,
        *,
        insert: Sequence[str] = (),
        delete: Sequence[str] = (),
    ) -> None:
        try:
            from rapidfuzz import process  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingExtra(
                "This model has word lists, which need rapidfuzz. Install it with: pip install"
                " rapidfuzz."
            ) from error
        self._words, self._replace = list(words), replace or {}
        self._insert, self._delete = tuple(insert), frozenset(delete)
        self._known = frozenset(words) | self._replace.keys()
        self._frequent = frozenset(words[:FREQUENT]) - SINGLE
        self._similar = lru_cache(10_000)(self._find_similar)

    @classmethod
    def load(cls, folder: Path) -> WordLists:
        """Read the lists of a model folder."""
        words = read_text(folder / WORDS, CheckpointError, limit=MAX_FILE_BYTES).split()
        saved = {}
        if (folder / LISTS).exists():
            saved = read_object(folder / LISTS, CheckpointError, limit=MAX_FILE_BYTES)
        try:
            replace = {
                str(word): list(map(str, new)) for word, new in saved.pop("replace", {}).items()
            }
            insert, delete = (list(map(str, saved.pop(name, ()))) for name in ("insert", "delete"))
        except (AttributeError, TypeError) as error:
            raise CheckpointError(f"{str(folder / LISTS)!r} is damaged: {error}.") from error
        others = (*replace.values(), insert, delete)
        if (
            max(len(words), len(replace)) > MAX_WORDS
            or max(map(len, others)) > MAX_OTHERS
            or any(
                len(word) > MAX_CHARACTERS for some in (words, replace, *others) for word in some
            )
        ):
            raise CheckpointError(
                f"The word lists in {str(folder)!r} are too large: at most {MAX_WORDS:,} words,"
                f" {MAX_OTHERS} replacements of a word, {MAX_OTHERS} words to insert or delete,"
                f" and {MAX_CHARACTERS} characters each."
            )
        return cls(words, replace, insert=insert, delete=delete)

    def suggestions(self, text: str) -> Iterator[Suggestion]:
        """Yield every edit that the lists suggest, from the left.

        Unknown words with capitals are taken for names, except at the start of a sentence.
        """
        for match in _WORD.finditer(text):
            word, (start, end) = match.group(), match.span()
            lower = word.lower().replace("\u2019", "'")
            is_title = word[0].isupper() and word[1:] == word[1:].lower() and word != "I"
            is_first = is_title and _FIRST.search(text, max(0, start - 8), start) is not None
            if word == word.lower() or is_first or lower in self._replace:
                for new in self._replace.get(lower, ()):
                    yield Suggestion(start, end, _like(new, is_title=is_title), "list")
                for new, extra in self._similar(lower) if word == word.lower() or is_first else ():
                    put = _like(new, is_title=is_title)
                    yield Suggestion(start, end, put, "spelling", extra)
            if text[start - 1 : start] == " ":
                if lower in self._delete:
                    yield Suggestion(start - 1, end, "", "list")
                if start > 1 and text[start - 2].isalnum():
                    for new in self._insert:
                        at, put = (start - 1, new) if new == "," else (start, new + " ")
                        if new != ".":
                            yield Suggestion(at, at, put, "list")
        if "," in self._delete:
            for match in _COMMA.finditer(text):
                yield Suggestion(*match.span(), "", "list")
        if "." in self._insert and text[-1:].isalnum():
            yield Suggestion(len(text), len(text), ".", "list")

    def _find_similar(self, word: str) -> tuple[tuple[str, int], ...]:
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        if word in self._known or len(word) < 3 or not word.isalpha():
            return ()
        most = DISTANCE if len(word) >= LONG else 1
        found = process.extract(
            word, self._words, scorer=OSA.distance, score_cutoff=most, limit=None
        )
        ranked = sorted((distance, rank) for _, distance, rank in found)
        halves = ((word[:n], word[n:]) for n in range(1, len(word)))
        split = [(f"{one} {two}", 0) for one, two in halves if {one, two} <= self._frequent]
        near = [
            (self._words[rank], distance - ranked[0][0])
            for distance, rank in ranked[:MAX_SPELLINGS]
        ]
        return (*split, *near)


def _like(new: str, *, is_title: bool) -> str:
    return new[:1].upper() + new[1:] if is_title else new
