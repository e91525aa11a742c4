"""Kinds of mistakes that people make in English.

A kind offers a site only where the sentence shows that the change is wrong. "The cats sat" can
become "The cat sat" without a mistake, so the noun number kind rarely takes it; "these cats"
cannot, so it often takes that one. For this it needs the part of speech of a word, which
`reviser.data.words` guesses; callers with a real tagger pass better words.

The weights follow the error types of learners (Write & Improve) and native writers (LOCNESS) in
the BEA-2019 development set, in equal parts; `experiments/proofreader/error_types.py` compares
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from reviser.data import punctuation
from reviser.data.mistakes import Kind, Site, Word
from reviser.data.spelling import misspell
from reviser.data.words import (
    LISTS,
    NAMES,
    NOUNS,
    Sites,
    after,
    cut,
    gaps,
    is_plain,
    listed,
    put,
    regular,
)

Inflect = Callable[[str, str, str], str | None]
"""A function from a word in lower case, its tag and another tag to the other form, if any."""


def groups(lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Map each word of a group such as `their/there` to the others."""
    table: dict[str, tuple[str, ...]] = {}
    for group in lines:
        words = group.replace("_", " ").split("/")
        for word in words:
            table[word] = table.get(word, ()) + tuple(w for w in words if w != word)
    return table


def _options(name: str) -> dict[str, tuple[str, ...]]:
    return {word: tuple(others.split("/")) for word, others in LISTS[name].items()}


CONFUSED = groups(LISTS["confused"])
FORMS = groups(LISTS["forms"])
PRONOUNS = _options("pronouns")
PREPOSITIONS = _options("prepositions")
BE = listed("be am is are was were been being")
VERBS = listed("VB VBD VBG VBN VBP VBZ")
ARTICLES = listed("a an the")

_OFTEN_CONFUSED = frozenset(LISTS["often confused"])
_DROPPED: dict[str, float] = LISTS["dropped"]
_IN_PHRASE = listed("JJ JJR JJS NN NNP VBG VBN CD RB NNS")
_SINGULAR = listed("a an one each every another this that either neither")
_PLURAL = listed("these those many several few both two three four five six ten various most")
_UNCOUNTED = listed("information knowledge research advice equipment evidence")


def _phrase_start(words: Sequence[Word], i: int) -> int:
    """Return where the noun phrase of the noun at `i` begins, without its determiner."""
    while i and words[i - 1].tag in _IN_PHRASE:
        i -= 1
    return i


def _is_head(words: Sequence[Word], i: int) -> bool:
    """Return whether the noun at `i` ends its noun phrase."""
    following = after(words, i)
    return following is None or following.tag not in (*NOUNS, "POS", "HYPH", "CD")


def _spelling(_: str, words: Sequence[Word], known: Mapping[str, int]) -> Sites:
    for word in words:
        size = len(word.text)
        if size < 3 or not is_plain(word) or word.text.isupper():
            continue
        weight = {3: 0.15, 4: 0.4, 5: 0.7}.get(size, 1.0 + 0.1 * (size - 6))
        if word.tag in NAMES:
            weight *= 0.2  # an invented name cannot be corrected
        yield Site(word.start, word.end, partial(misspell, known=known), weight)


def _confusion(_: str, words: Sequence[Word]) -> Sites:
    for word in words:
        options = CONFUSED.get(word.lower)
        if options and word.tag not in NAMES:
            yield put(word, *options, weight=0.5 if word.lower in _OFTEN_CONFUSED else 2.0)


def _article_missing(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[:-1]):
        if word.lower not in ARTICLES or word.tag != "DT":
            continue
        j = i + 1
        while j + 1 < len(words) and words[j].tag not in NOUNS and j < i + 5:
            j += 1
        while j + 1 < len(words) and words[j + 1].tag in NOUNS:
            j += 1
        head = words[j].tag
        weight = 1.0 if word.lower != "the" else {"NN": 0.7, "NNS": 0.12, "NNP": 0.3}.get(head, 0.4)
        yield from cut(text, word, weight)


def _article_extra(_: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.tag not in NOUNS or not _is_head(words, i):
            continue
        start = _phrase_start(words, i)
        before, first = words[start - 1] if start else None, words[start]
        if before is not None and before.tag not in ("IN", "TO", ",", "CC", *VERBS):
            continue
        if not is_plain(first) or first.tag in ("RB", "CD", "VBN"):
            continue
        lower = first.text if first.tag in NAMES else first.text[0].lower() + first.text[1:]
        for article, weight in (("the", 1.0 if word.tag != "NN" else 0.7), ("a", 0.5)):
            if article == "a" and word.tag in NAMES:
                continue
            new = "an" if article == "a" and first.lower[0] in "aeiou" else article
            if before is None and first.text[0].isupper():
                option, weight = f"{new.capitalize()} {lower}", 0.5 * weight
            else:
                option = f"{new} {first.text}"
            yield Site(first.start, first.end, [option], weight)


def _article_replaced(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[:-1]):
        if word.tag != "DT":
            continue
        if word.lower in ("a", "an") and text[word.end] == " ":
            yield put(word, "an" if word.lower == "a" else "a", weight=1.5)
            yield put(word, "the", weight=0.4)
        elif word.lower == "the":
            j = i + 1
            while j + 1 < len(words) and words[j].tag in ("JJ", "VBN", "VBG", "JJS"):
                j += 1
            if words[j].tag in ("NNS", "NNPS") or words[i + 1].tag == "JJS":
                yield put(word, "an" if words[i + 1].lower[0] in "aeiou" else "a")
        elif word.lower in ("this", "that"):
            yield put(word, "these" if word.lower == "this" else "those")
        elif word.lower in ("these", "those"):
            yield put(word, "this" if word.lower == "these" else "that", weight=2.0)


def _preposition_replaced(_: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.tag in ("IN", "TO", "RP") and word.lower in PREPOSITIONS:
            following = after(words, i)
            # "to" before a verb is not a preposition.
            if word.lower != "to" or (following is not None and following.tag != "VB"):
                yield put(word, *PREPOSITIONS[word.lower])


def _preposition_missing(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if i and word.tag in ("IN", "TO", "RP") and word.lower in PREPOSITIONS:
            yield from cut(text, word, 2.0 if words[i - 1].tag in (*VERBS, "JJ") else 0.7)


def _preposition_extra(text: str, words: Sequence[Word]) -> Sites:
    others = [f" {other} " for other in ["to", "about", "for", "of", "in", "with", "on", "at"]]
    for _, word, following in gaps(text, words):
        start, end, tag = word.end, following.start, following.tag
        if not is_plain(word):
            continue
        if word.tag in VERBS and word.lower not in BE and tag in ("DT", "PRP$", "PRP", "NNS"):
            yield Site(start, end, others)
        elif word.tag == "MD" and tag == "VB":
            yield Site(start, end, [" to "])
        elif word.tag in ("CD", "JJ", "DT") and tag in ("NNS", "NN"):
            yield Site(start, end, [" of "], 0.15)


def _agreement(_: str, words: Sequence[Word], inflect: Inflect) -> Sites:
    swap = {"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has",
            "does": "do", "do": "does", "am": "is"}  # fmt: skip
    for word in words:
        if word.tag not in ("VBZ", "VBP", "VBD") or not is_plain(word):
            continue
        if word.lower in swap:
            yield put(word, swap[word.lower])
        elif word.tag != "VBD":
            new = inflect(word.lower, word.tag, "VBP" if word.tag == "VBZ" else "VBZ")
            if new:
                yield put(word, new, weight=1.5)


def _noun_number(_: str, words: Sequence[Word], inflect: Inflect) -> Sites:
    for i, word in enumerate(words):
        if word.tag not in ("NN", "NNS") or not is_plain(word) or not _is_head(words, i):
            continue
        new = inflect(word.lower, word.tag, "NNS" if word.tag == "NN" else "NN")
        if new:
            yield put(word, new, weight=_number_weight(words, i))


def _number_weight(words: Sequence[Word], i: int) -> float:
    """Return how clearly the sentence shows the number of the noun at `i`."""
    word, following, start = words[i], after(words, i), _phrase_start(words, i)
    before = words[start - 1] if start else None
    determiner = before.lower if before is not None else ""
    follows = following.tag if following is not None else ""
    if word.tag == "NN":
        if determiner in _SINGULAR:
            return 1.2
        return 1.0 if follows == "VBZ" else 3.0 if word.lower in _UNCOUNTED else 0.05
    if determiner in _PLURAL or any(w.tag == "CD" or w.lower in _PLURAL for w in words[start:i]):
        return 2.0
    if before is None or before.tag in ("IN", "TO", ",", "CC", ".", *VERBS):
        return 1.5  # a bare singular
    return 1.0 if follows == "VBP" else 0.1


def _word_form(_: str, words: Sequence[Word], known: Mapping[str, int]) -> Sites:
    for i, word in enumerate(words):
        lower = word.lower
        if lower in FORMS and word.tag not in NAMES:
            yield put(word, *FORMS[lower], weight=2.0)
        if word.tag == "RB" and lower.endswith("ly") and len(lower) > 5:
            base = lower[:-2] if not lower.endswith("ily") else f"{lower[:-3]}y"
            if base in known:
                yield put(word, base, weight=1.5)
        following = after(words, i)
        is_followed = following is not None and following.tag in NOUNS
        if word.tag == "JJ" and is_followed and len(lower) > 3 and f"{lower}ly" in known:
            yield put(word, f"{lower}ly", weight=0.5)
        if word.tag in ("JJR", "RBR") and lower not in ("more", "less") and lower.endswith("er"):
            yield put(word, f"more {lower}")


def _pronoun(_: str, words: Sequence[Word]) -> Sites:
    for word in words:
        if word.lower in PRONOUNS and word.tag in ("PRP", "PRP$", "WP", "WDT", "WP$"):
            yield put(word, *PRONOUNS[word.lower])


_ORDERS = {
    ("JJ", "NN"): 1.5, ("JJ", "NNS"): 1.5, ("RB", "JJ"): 1.0, ("RB", "VB"): 0.7,
    ("RB", "VBN"): 0.7, ("MD", "RB"): 0.7, ("VBZ", "RB"): 0.5, ("IN", "DT"): 0.2,
    ("DT", "JJ"): 0.5, ("NN", "NN"): 0.4, ("PRP", "MD"): 0.5, ("VB", "DT"): 0.1,
    ("TO", "VB"): 0.3,
}  # fmt: skip


def _word_order(text: str, words: Sequence[Word]) -> Sites:
    for _, word, following in gaps(text, words):
        if is_plain(word) and is_plain(following):
            one, two = word.text, following.text
            if one[0].isupper() and word.tag not in NAMES and one != "I":
                one, two = one.lower(), two.capitalize()
            weight = _ORDERS.get((word.tag, following.tag), 0.03)
            yield Site(word.start, following.end, [f"{two} {one}"], weight)


def _word_missing(text: str, words: Sequence[Word]) -> Sites:
    for word in words:
        weight = _DROPPED.get(word.lower)
        if weight and word.tag not in ("NNP", "RP"):
            yield from cut(text, word, weight)


def _word_extra(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[:-1]):
        following, at = words[i + 1], word.end
        if not is_plain(word) or text[at] != " ":
            continue
        short = word.lower in _DROPPED or word.lower in PREPOSITIONS or word.lower in ARTICLES
        again = word.text if word.text == "I" or word.tag in NAMES else word.lower
        yield Site(at, at, [f" {again}"], 1.0 if short else 0.1)
        is_verb = following.tag in ("VBZ", "VBD", "VBP")
        if word.tag in ("NN", "NNS", "NNP") and is_verb and _is_head(words, i):
            yield Site(at, at, [" it"] if word.tag == "NN" else [" they"], 0.15)
        if word.tag in ("PRP", "NNS", "NN") and is_verb and following.lower not in BE:
            yield Site(at, at, [" is", " was", " are", " were"], 0.4)
        if word.lower in BE and word.tag in VERBS and following.tag in ("JJ", "RB"):
            yield Site(at, at, [" being", " very much"], 0.15)


def kinds(known: Mapping[str, int], inflect: Inflect) -> list[Kind]:
    """Return the kinds of mistakes.

    Args:
        known: How often each known word occurs. With it, fewer misspellings are words, and some
            words are cut in two.
        inflect: Gives other forms of nouns and verbs.
    """
    return [
        Kind("comma missing", 15.0, punctuation.comma_missing),
        Kind("comma extra", 4.0, punctuation.comma_extra),
        Kind("comma splice", 6.0, punctuation.comma_splice),
        Kind("end mark", 3.0, punctuation.end_mark),
        Kind("other punctuation", 3.0, punctuation.other_punctuation),
        Kind("spelling", 11.0, partial(_spelling, known=known)),
        Kind("confusion", 6.0, _confusion),
        Kind("article missing", 5.0, _article_missing),
        Kind("article extra", 3.5, _article_extra),
        Kind("article replaced", 2.5, _article_replaced),
        Kind("preposition replaced", 6.0, _preposition_replaced),
        Kind("preposition missing", 2.0, _preposition_missing),
        Kind("preposition extra", 1.5, _preposition_extra),
        Kind("capital", 4.0, punctuation.capital),
        Kind("space", 3.0, partial(punctuation.space, known=known)),
        Kind("apostrophe", 2.0, punctuation.apostrophe),
        Kind("agreement", 4.0, partial(_agreement, inflect=inflect)),
        Kind("noun number", 4.5, partial(_noun_number, inflect=inflect)),
        Kind("word form", 2.5, partial(_word_form, known=known)),
        Kind("pronoun", 2.5, _pronoun),
        Kind("word order", 1.5, _word_order),
        Kind("word missing", 3.0, _word_missing),
        Kind("word extra", 2.5, _word_extra),
    ]


KINDS = tuple(kinds({}, regular))
"""The kinds that need nothing but the lists of this module."""
