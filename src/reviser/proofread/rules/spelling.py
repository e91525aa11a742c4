"""Listed misspellings, words that are confused, doubled words, British and American spelling."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from reviser.proofread.rules.kinds import Rule
from reviser.proofread.rules.tables import confusions, dialects, misspellings
from reviser.proofread.rules.text import Text
from reviser.proofread.rules.words import words
from reviser.proofread.suggestion import Dialect, Suggestion

MISSPELLING = Rule("misspelling", "spelling", "'{old}' is a misspelling of '{new}'.")
CONFUSION = Rule("confused-word", "word choice", "'{old}' and '{new}' are often confused.")
DOUBLED = Rule("doubled-word", "repetition", "The word is written twice.")
DIALECT = Rule("dialect", "spelling", "British and American spelling differ: here it is '{new}'.")

NEVER_TWICE = words("never-twice")
"""Words that are written twice by mistake only."""
TWICE = words("twice")
"""Words that may be written twice."""

NEVER = words("never")
"""Words that others are mistaken for, and that are too frequent to be asked about themselves."""
ADJECTIVES = words("adjectives")
BE = words("be")
ONLY_BEFORE = {
    "to": ADJECTIVES | {""},
    "an": words("only-before-an"),
    "his": words("only-before-his"),
    "their": words("only-before-their"),
}
"""Where a frequent word may be a mistake for another: before these, or elsewhere not."""
ONLY_AFTER = {
    "of": words("only-after-of"),
    "one": words("only-after-one"),
    "no": words("only-after-no"),
    "that": words("only-after-that"),
    "them": words("only-after-them"),
    "know": words("only-after-know"),
}
"""The same, after these."""


def misspelled(text: Text, known: Collection[str]) -> Iterator[Suggestion]:
    """Yield the right spelling of listed misspellings."""
    table = misspellings()
    for n, word in enumerate(text.low):
        right = table.get(word)
        if right is None or word in known or text.is_name(n):
            continue
        if text.words[n].islower() or text.words[n].istitle():
            yield MISSPELLING.words(text, n, n, right, sure=not text.foreign[n])


def confused(text: Text) -> Iterator[Suggestion]:
    """Yield the words that a word is often confused with."""
    table = confusions()
    for n, word in enumerate(text.low):
        others = table.get(word)
        if not others or text.is_name(n):
            continue
        if _may_be_confused(text, n, word):
            yield CONFUSION.words(text, n, n, *others)


def _may_be_confused(text: Text, n: int, word: str) -> bool:
    """Return whether a word stands where it may be a mistake for another."""
    if word in NEVER:
        return False
    if word == "that" and text.previous(n)[-2:] == "er":
        return True
    if word == "there" and text.next(n) in BE:
        return False
    before, after = ONLY_AFTER.get(word), ONLY_BEFORE.get(word)
    if before is None and after is None:
        return True
    if before is not None and text.previous(n) in before:
        return True
    return after is not None and text.next(n) in after


def doubled(text: Text) -> Iterator[Suggestion]:
    """Yield words that stand twice in a row."""
    low = text.low
    for n in range(len(low) - 1):
        word = low[n]
        if not word or word != low[n + 1] or text.next(n) != word or word in TWICE:
            continue
        if not word.replace("'", "").isalpha() or (len(word) == 1 and word not in "ai"):
            continue
        if text.previous(n) == word or text.next(n, 2) == word:
            continue
        second = text.words[n + 1]
        if second[0].isupper() and word not in ("i", "i'm"):
            continue
        sure = word in NEVER_TWICE and text.words[n][0].islower()
        yield DOUBLED.span(text, text.end[n], text.end[n + 1], "", sure=sure)


_SHARED = words("shared")
"""American spellings that are words in Britain, too."""


def dialect_of(text: Text) -> Dialect:
    """Return which spelling a text uses more; "auto" if it shows none."""
    british = american = 0
    table = dialects()
    for word in table.keys() & text.at.keys():
        count = len(text.at[word])
        if word == table[word][0]:
            british += count
        elif word not in _SHARED and not _is_oxford(*table[word]):
            american += count
    if british == american:
        return "auto"
    return "british" if british > american else "american"


def _is_oxford(british: str, american: str) -> bool:
    """Return whether the American spelling is used in Britain, too, as in "organize"."""
    return british.replace("is", "iz") == american


def other_dialect(text: Text, dialect: Dialect) -> Iterator[Suggestion]:
    """Yield words that are spelled as in the other country."""
    wanted = dialect_of(text) if dialect == "auto" else dialect
    if wanted == "auto":
        return
    table = dialects()
    for n in text.where(table.keys() & text.at.keys()):
        british, american = table[text.low[n]]
        new = british if wanted == "british" else american
        kept = text.low[n] == american and (
            american in _SHARED or (dialect == "auto" and _is_oxford(british, american))
        )
        if new != text.low[n] and not kept and not text.is_name(n):
            yield DIALECT.words(text, n, n, new)
