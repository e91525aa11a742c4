"""Suggest what may be better at each word of a text, for a language model to judge.

Word lists (`words.py`) say what could be there instead. Counts of clean text (`ngrams.py`) leave
out what is most likely wrong. The rest is many suggestions of which few are right, so none is sure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from reviser.proofread import context
from reviser.proofread.line import LONGEST, MISSING, Line, Options, place, read
from reviser.proofread.ngrams import NEVER, Ngrams
from reviser.proofread.suggestion import LOCKED, Dialect, Suggestion
from reviser.proofread.words import (
    ADJECTIVE,
    ADVERB,
    AUXILIARY,
    BE,
    DETERMINERS,
    DO,
    HAVE,
    NOUN,
    PLURAL,
    USUAL,
    VERB,
    Option,
    confusions,
    families,
    halves,
    is_foreign,
    listed,
    most_frequent,
    near,
    other_forms,
    ranks,
    slips,
)

BEFORE_BASE = listed("to will would can could should do don't does doesn't did didn't")
BETWEEN = frozenset(listed("not still also just never always already only"))
"""Words that stand between an auxiliary and its verb."""
BEFORE_ING = ("for", "of", "in", "by", "to")
PREPOSITIONS = listed(
    "in on at for to of from by with about into over after during than as since until through among"
    " between without towards like around against upon across"
)
EXTRA = frozenset(MISSING) - {"people"} | frozenset(
    listed("being most just even then too such other own really much many into every another")
)
AN = re.compile(
    r"[aio](?!ne\b|nce\b)|e(?!u)|u(?!ni(?![mn])|s[aeiu]|ti|r[aio]|k|bi)|hour|honest|hono|heir"
    r"|8|11\b|18\b|[fhlmnrsx]\b"
)
"""The start of a word that needs "an"."""


# -- kinds: what could be instead ---------------------------------------------------------------


def slip(line: Line, i: int) -> Iterator[Options]:
    """Suggest common words that differ by a letter."""
    if len(line.words[i]) > 1 and line.words[i] in ranks() and not line.tokens[i].is_name:
        yield i, i + 1, slips(line.words[i])


def verb_form(line: Line, i: int) -> Iterator[Options]:
    """Suggest the other forms of a verb."""
    word = line.words[i]
    if word in AUXILIARY:
        groups = (group for group in (BE, HAVE, DO) if word in group)
        yield i, i + 1, [(other,) for group in groups for other in group if other != word]
    elif line.tags[i] & VERB:
        yield i, i + 1, other_forms("v", word)


def auxiliary(line: Line, i: int) -> Iterator[Options]:
    """Suggest a verb with another auxiliary, with one more or with one less."""
    word, before = line.words[i], line.words[i - 1]
    if not line.tags[i] & VERB or word in AUXILIARY:
        return
    for base, third, past, participle, ing in families("v").get(word, ()):
        if "-" in (base, third, past, participle, ing):
            continue
        if before in AUXILIARY:
            yield i - 1, i + 1, [(third,), (past,), (base,), (ing,)]
            options = [(be, participle) for be in BE] + [(be, ing) for be in BE[:5]]
            options += [(have, participle) for have in HAVE]
            yield i - 1, i + 1, options + [(to, base) for to in BEFORE_BASE]
            continue
        if before in BEFORE_ING:
            continue
        first = i - 1 if before in BETWEEN or line.tags[i - 1] == ADVERB else i
        middle = (before,) if first < i else ()
        options = [(have, *middle, participle) for have in HAVE]
        options += [(be, *middle, form) for be in BE[:5] for form in (ing, participle)]
        yield first, i + 1, options + [(to, *middle, base) for to in BEFORE_BASE]


def ing_form(line: Line, i: int) -> Iterator[Options]:
    """Suggest "doing" for "to do", "to do" for "doing", and the like."""
    if not line.tags[i] & VERB or line.words[i] in AUXILIARY:
        return
    for base, *_, ing in families("v").get(line.words[i], ()):
        before = line.words[i - 1]
        if before in BEFORE_ING and "-" not in (base, ing):
            yield i - 1, i + 1, [("to", base), (before, ing), ("for", ing), (ing,), (base,)]
        elif line.words[i] == ing and base != "-":
            yield i, i + 1, [("to", base)]


def noun_number(line: Line, i: int) -> Iterator[Options]:
    """Suggest the plural of a singular, or the other way round."""
    if line.tags[i] & (NOUN | PLURAL):
        yield i, i + 1, other_forms("n", line.words[i])


def adjective(line: Line, i: int) -> Iterator[Options]:
    """Suggest an adverb for an adjective, a comparative, or the other way round."""
    word = line.words[i]
    others = other_forms("a", word)
    yield i, i + 1, others
    if line.words[i - 1] in ("more", "most"):
        yield i - 1, i + 1, [*others, (word,)]
    elif line.tags[i] & ADJECTIVE:
        yield i, i + 1, [("more", word), ("most", word)]


def word_family(line: Line, i: int) -> Iterator[Options]:
    """Suggest words of the same family, such as "success" for "succeed"."""
    yield i, i + 1, other_forms("d", line.words[i])


def confused(line: Line, i: int) -> Iterator[Options]:
    """Suggest words that people confuse with this one."""
    yield i, i + 1, confusions().get(line.words[i], ())


def article(line: Line, i: int) -> Iterator[Options]:
    """Suggest a missing or another article."""
    word, following = line.words[i], line.words[i + 1]
    if word in ("a", "an"):
        yield i, i + 1, [("an" if word == "a" else "a",), ("the",), ("some",)]
    elif word == "the":
        yield i, i + 1, [("an" if AN.match(following) else "a",)]
    elif word[0].isalnum() and line.words[i - 1] not in DETERMINERS:
        yield i, i, [("the",), ("an" if AN.match(word) else "a",)]


def preposition(line: Line, i: int) -> Iterator[Options]:
    """Suggest another preposition."""
    if line.words[i] in PREPOSITIONS:
        yield i, i + 1, [(other,) for other in PREPOSITIONS if other != line.words[i]]


def missing(line: Line, i: int) -> Iterator[Options]:
    """Suggest a missing small word."""
    yield i, i, line.missing[i]


def extra(line: Line, i: int) -> Iterator[Options]:
    """Suggest to leave out a small word, or a word that is there twice."""
    if line.words[i] in EXTRA or line.words[i] == line.words[i - 1] != ".":
        yield i, i + 1, [()]


def punctuation(line: Line, i: int) -> Iterator[Options]:
    """Suggest a comma or a stop, another mark or none."""
    word, before = line.words[i], line.words[i - 1]
    if word in (",", ";"):
        yield i, i + 1, [(), (".",), (";" if word == "," else ",",)]
        yield i, i + 2, [("and", line.words[i + 1])] if word == "," else []
    elif word in (".", "?"):
        yield i, i + 1, [(",",), ("?" if word == "." else ".",)]
    elif word[0].isalnum() and before[-1].isalnum():
        yield i, i, [(",",), (".",)]
        if not line.tokens[i].is_first:
            yield i, i, [("'s",)]


def order(line: Line, i: int) -> Iterator[Options]:
    """Suggest to swap two words, or to move an adverb."""
    one, two, three = line.words[i : i + 3]
    if one[0].isalpha() and two[0].isalpha() and one != two:
        yield i, i + 2, [(two, one)]
        if three[0].isalpha() and (line.tags[i] | line.tags[i + 2]) & ADVERB:
            yield i, i + 3, [(two, three, one), (three, one, two)]


def possessive(line: Line, i: int) -> Iterator[Options]:
    """Suggest an apostrophe in a plural."""
    for one, *many in families("n").get(line.words[i], ()):
        if line.words[i] in many and line.words[i] == one + "s":
            yield i, i + 1, [(one, "'s"), (one + "s", "'")]


def spacing(line: Line, i: int) -> Iterator[Options]:
    """Suggest one word for two, or two for one."""
    one, two = line.words[i], line.words[i + 1]
    if one[0].isalpha() and two[0].isalpha():
        joined = [one + two, one + two[1:]] if one[-1] == two[0] else [one + two]
        yield i, i + 2, [(word,) for word in joined if word in most_frequent(USUAL)]
    if len(one) > 3 and one not in line.unknown:
        yield i, i + 1, halves(one)


def spelling(line: Line, i: int) -> Iterator[Options]:
    """Suggest words that are spelled like an unknown one."""
    if line.words[i] in line.unknown and not line.tokens[i].is_name:
        options = [option for option, _ in near(line.words[i])]
        yield i, i + 1, [one for one in options if not is_foreign(one[0], line.dialect)]


class Kind(NamedTuple):
    """A kind of suggestion."""

    rule: str
    category: str
    message: str
    find: Callable[[Line, int], Iterator[Options]]
    least: int
    """The lowest gain, in units of `ngrams.SCALE`, that is suggested."""
    most: int = 4
    """How many replacements of the same words are suggested."""


ALWAYS = -NEVER
"""The lowest gain of kinds that counts do not leave anything out of."""
KINDS = (
    Kind(
        "time-preposition",
        "preposition",
        "Days, months and lengths of time have prepositions of their own.",
        context.time_preposition,
        ALWAYS,
    ),
    Kind(
        "to-or-ing",
        "verb form",
        "The word before asks for 'to' or for a form in -ing.",
        context.to_or_ing,
        ALWAYS,
    ),
    Kind(
        "subject-verb",
        "agreement",
        "The verb may not agree with its subject.",
        context.agreement,
        ALWAYS,
    ),
    Kind(
        "tense", "verb form", "Another tense may fit the rest of the text.", context.tense, ALWAYS
    ),
    Kind("spelling", "spelling", "This word may be misspelled.", spelling, -5000, 5),
    Kind("spacing", "spelling", "This may be one word, or two.", spacing, -30, 2),
    Kind("verb-form", "verb form", "Another form of the verb may fit better.", verb_form, -32),
    Kind("noun-number", "noun form", "This may have to be singular or plural.", noun_number, -60),
    Kind("article", "article", "The article may be missing or wrong.", article, -36),
    Kind("preposition", "preposition", "Another word may fit better here.", preposition, -24),
    Kind("missing", "missing word", "A word may be missing here.", missing, -22, 5),
    Kind("extra", "extra word", "This word may not be needed.", extra, -32),
    Kind("ing-form", "verb form", '"To" or "-ing" may fit better.', ing_form, -32, 3),
    Kind("auxiliary", "verb form", "Another tense may fit better.", auxiliary, -8),
    Kind("adjective", "adjective form", "Another form may fit better.", adjective, -32),
    Kind(
        "word-family",
        "word choice",
        "Another word of this family may fit better.",
        word_family,
        -40,
    ),
    Kind("confused", "word choice", "This word may be mixed up with another.", confused, -28, 6),
    Kind("punctuation", "punctuation", "Other punctuation may be better.", punctuation, -24),
    Kind("possessive", "punctuation", "An apostrophe may be missing.", possessive, -40),
    Kind("order", "word order", "Another order of the words may be better.", order, -8),
    Kind("slip", "spelling", "A letter may be wrong or missing.", slip, 8),
)
"""All kinds. If two suggest the same change, the first one counts."""


class Lists:
    """A proposer: word lists, and counts of clean text that leave out the unlikely.

    >>> suggest = Lists()
    >>> [one.replacements for one in suggest("We went their.") if one.start == 8][0][0]
    'there'
    """

    may_be_sure = False

    def __init__(self, words: Collection[str] = (), dialect: Dialect = "auto") -> None:
        self._known = frozenset(word.lower() for word in words)
        self._dialect = dialect

    def __call__(self, text: str) -> Iterator[Suggestion]:
        """Yield suggestions, from the left, those for the same words by how usual they are."""
        line = read(text, _model(), self._known, self._dialect)
        seen: set[tuple[int, int, str]] = set()
        for i in range(2, len(line.tokens) - 2):
            token = line.tokens[i]
            is_word = token.text and token.text[0] != LOCKED and len(token.text) <= LONGEST
            if is_word and not line.is_glued[i]:
                for kind in KINDS:
                    for options in kind.find(line, i):
                        if options[2]:
                            yield from self._suggestions(line, kind, options, seen)

    def _suggestions(
        self, line: Line, kind: Kind, found: Options, seen: set[tuple[int, int, str]]
    ) -> Iterator[Suggestion]:
        """Yield what is likely enough, by where it is, and was not seen."""
        first, end, options = found
        model, costs = _model(), line.costs
        if (first, end) not in costs:
            costs[first, end] = model.cost(line.entries, first, end)
        gains = model.gains(line.entries, first, end, options, costs[first, end], kind.least)
        places: dict[tuple[int, int], list[str]] = {}
        for option in ranked(kind, line.words[first], options, gains):
            edit = place(line, first, end, option)
            if edit and edit not in seen and line.text[edit[0] : edit[1]] != edit[2]:
                seen.add(edit)
                places.setdefault(edit[:2], []).append(edit[2])
        for (start, stop), new in places.items():
            yield Suggestion(
                start, stop, tuple(new), kind.rule, kind.category, kind.message, "lists"
            )


def ranked(kind: Kind, word: str, options: Sequence[Option], gains: Sequence[int]) -> list[Option]:
    """Return the options that are suggested, the best first."""
    if kind.find is spelling:
        costs = dict(near(word))
        gains = [gain - costs[option] for gain, option in zip(gains, options, strict=True)]
    kept = [(-gain, n) for n, gain in enumerate(gains) if gain >= kind.least]
    if not kept:
        return []
    return [options[n] for _, n in sorted(kept)[: kind.most]]


@cache
def _model() -> Ngrams:
    return Ngrams()
