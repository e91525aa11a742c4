"""Suggest what may be better at each word of a text, for a language model to judge.

Word lists say what a word could be instead: its other forms, words that people confuse with it,
near spellings. Counts of clean text (`ngrams.py`) leave out what is most likely wrong. The rest is
many suggestions of which few are right, so none is sure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import Literal, NamedTuple, TypeAlias

from reviser.proofread import ngrams
from reviser.proofread.ngrams import Entry, Ngrams, Token, tokenize
from reviser.proofread.suggestion import LOCKED, Suggestion

Dialect: TypeAlias = Literal["auto", "american", "british"]
Option: TypeAlias = tuple[str, ...]
"""The words that replace some tokens; none if they are left out."""
Options: TypeAlias = tuple[int, int, Sequence[Option]]
"""First token, last token + 1, and what may replace them."""

BASE, THIRD, PAST, PARTICIPLE, ING, NOUN, PLURAL, ADJECTIVE, _, _, ADVERB = (
    1 << n for n in range(11)
)
VERB = BASE | THIRD | PAST | PARTICIPLE | ING


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


BE = ("am", "is", "are", "was", "were", "be", "been", "being")
HAVE = ("have", "has", "had")
DO = ("do", "does", "did")
MODAL = _listed("will would can could may might shall should must")
AUXILIARY = frozenset((*BE, *HAVE, *DO, *MODAL))
BEFORE_BASE = _listed("to will would can could should do don't does doesn't did didn't")
BETWEEN = frozenset(_listed("not still also just never always already only"))
"""Words that stand between an auxiliary and its verb."""
BEFORE_ING = ("for", "of", "in", "by", "to")
DETERMINERS = frozenset(
    _listed(
        "a an the my your his her its our their this that these those some any each every no much"
        " many few several all both another either neither 's"
    )
)
PREPOSITIONS = _listed(
    "in on at for to of from by with about into over after during than as since until through among"
    " between without towards like around against upon across"
)
MISSING = _listed(
    "it to of is are was were be been am have has had that a an the and in on for at with they he"
    " she i we you them him me us there not do does did will would can could as so if who which"
    " what when this my his her their our your by from about also very more all some any up out"
    " but or because than no people one 's"
)
EXTRA = frozenset(MISSING) - {"people"} | frozenset(
    _listed("being most just even then too such other own really much many into every another")
)
AN = re.compile(
    r"[aio](?!ne\b|nce\b)|e(?!u)|u(?!ni(?![mn])|s[aeiu]|ti|r[aio]|k|bi)|hour|honest|hono|heir"
    r"|8|11\b|18\b|[fhlmnrsx]\b"
)
"""The start of a word that needs "an"."""

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


# -- tables -----------------------------------------------------------------------------------


def _families(kind: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the families of a kind that each word is in."""
    return ngrams.forms().families[kind]


def _others(kind: str, word: str) -> list[Option]:
    """Return the other words of the families of a word."""
    families = _families(kind).get(word, ())
    return [(other,) for other in dict.fromkeys(chain(*families)) if other not in (word, "-")]


@cache
def _confused() -> dict[str, list[Option]]:
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
def _ranks() -> dict[str, int]:
    return {word: n for n, word in enumerate(ngrams.words())}


@cache
def _first(count: int) -> frozenset[str]:
    """Return the most frequent words."""
    return frozenset(ngrams.words()[:count])


@cache
def _by_start() -> dict[tuple[str, int], list[str]]:
    """Return the words with each first letter and length."""
    table: dict[tuple[str, int], list[str]] = {}
    for word in ngrams.words():
        table.setdefault((word[0], len(word)), []).append(word)
    return table


# -- spelling -----------------------------------------------------------------------------------


@lru_cache(20_000)
def near(word: str) -> tuple[tuple[Option, int], ...]:
    """Return known words that are spelled like an unknown one, and what speaks against each."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    ranks, found = _ranks(), dict[str, int]()
    rest, most = word[1:], 1 + (len(word) >= LONG) + (len(word) >= VERY_LONG)
    for letter in LETTERS:
        found |= {new: 1 for new in (rest, letter + rest, letter + word) if new in ranks}
    for size in range(max(2, len(word) - 2), len(word) + 3):
        some = _by_start().get((word[0], size), ())
        scored = process.extract(word, some, scorer=OSA.distance, score_cutoff=most, limit=None)
        found |= {new: int(distance) for new, distance, _ in scored}
    for cut in (1, 2):  # "freezed" for "froze"
        for *_, past, participle, _ in _families("v").get(word[:-cut], ()):
            if word.endswith("ed"):
                found |= {new: n for n, new in ((0, participle), (-1, past)) if new in ranks}
    sound = _sound(word)
    costs: dict[Option, int] = {
        (new,): 24 * distance - 16 * (_sound(new) == sound) + int(4 * math.log(ranks[new] + 50))
        for new, distance in found.items()
    }
    for one, two in _halves(word):
        costs[one, two] = int(4 * math.log(FREQUENT))
    return tuple(costs.items())


def _sound(word: str) -> str:
    """Return the consonants of a word, so that words that sound alike are equal."""
    for old, new in (("ph", "f"), ("ck", "k"), ("c", "k"), ("z", "s")):
        word = word.replace(old, new)
    return re.sub(r"[aeiouyhw']|(.)(?=\1)", "", word)


def _halves(word: str) -> list[tuple[str, str]]:
    """Return two frequent words that a word may be."""
    some = _first(FREQUENT)
    return [
        (word[:n], word[n:]) for n in range(1, len(word)) if word[:n] in some and word[n:] in some
    ]


@lru_cache(20_000)
def _slips(word: str) -> tuple[Option, ...]:
    """Return common words that are one wrong letter away from a known word."""
    common = _first(COMMON)
    cuts = [(word[:n], word[n:]) for n in range(len(word) + 1)]
    shorter = (a + b[1:] for a, b in cuts if b)
    swapped = (a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1)
    changed = (a + letter + b[1:] for a, b in cuts if b for letter in LETTERS)
    longer = (a + letter + b for a, b in cuts for letter in LETTERS)
    found = dict.fromkeys(chain(shorter, swapped, changed, longer))
    return tuple((new,) for new in found if new in common and new != word)


# -- kinds: what could be instead ---------------------------------------------------------------


def slip(line: Line, i: int) -> Iterator[Options]:
    """Suggest common words that differ by a letter."""
    if len(line.words[i]) > 1 and line.words[i] in _ranks() and not line.tokens[i].is_name:
        yield i, i + 1, _slips(line.words[i])


def verb_form(line: Line, i: int) -> Iterator[Options]:
    """Suggest the other forms of a verb."""
    word = line.words[i]
    if word in AUXILIARY:
        groups = (group for group in (BE, HAVE, DO) if word in group)
        yield i, i + 1, [(other,) for group in groups for other in group if other != word]
    elif line.tags[i] & VERB:
        yield i, i + 1, _others("v", word)


def auxiliary(line: Line, i: int) -> Iterator[Options]:
    """Suggest a verb with another auxiliary, with one more or with one less."""
    word, before = line.words[i], line.words[i - 1]
    if not line.tags[i] & VERB or word in AUXILIARY:
        return
    for base, third, past, participle, ing in _families("v").get(word, ()):
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
    for base, *_, ing in _families("v").get(line.words[i], ()):
        before = line.words[i - 1]
        if before in BEFORE_ING and "-" not in (base, ing):
            yield i - 1, i + 1, [("to", base), (before, ing), ("for", ing), (ing,), (base,)]
        elif "-" not in (base, ing):
            yield i, i + 1, [(of, ing) for of in BEFORE_ING] + [("to", base)]


def noun_number(line: Line, i: int) -> Iterator[Options]:
    """Suggest the plural of a singular, or the other way round."""
    if line.tags[i] & (NOUN | PLURAL):
        yield i, i + 1, _others("n", line.words[i])


def adjective(line: Line, i: int) -> Iterator[Options]:
    """Suggest an adverb for an adjective, a comparative, or the other way round."""
    word = line.words[i]
    others = _others("a", word)
    yield i, i + 1, others
    if line.words[i - 1] in ("more", "most"):
        yield i - 1, i + 1, [*others, (word,)]
    elif line.tags[i] & ADJECTIVE:
        yield i, i + 1, [("more", word), ("most", word)]


def word_family(line: Line, i: int) -> Iterator[Options]:
    """Suggest words of the same family, such as "success" for "succeed"."""
    yield i, i + 1, _others("d", line.words[i])


def confused(line: Line, i: int) -> Iterator[Options]:
    """Suggest words that people confuse with this one."""
    yield i, i + 1, _confused().get(line.words[i], ())


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
    for one, *many in _families("n").get(line.words[i], ()):
        if line.words[i] in many and line.words[i] == one + "s":
            yield i, i + 1, [(one, "'s"), (one + "s", "'")]


def spacing(line: Line, i: int) -> Iterator[Options]:
    """Suggest one word for two, or two for one."""
    one, two = line.words[i], line.words[i + 1]
    if one[0].isalpha() and two[0].isalpha():
        joined = [one + two, one + two[1:]] if one[-1] == two[0] else [one + two]
        yield i, i + 2, [(word,) for word in joined if word in _first(USUAL)]
    if len(one) > 3 and one not in line.unknown:
        yield i, i + 1, _halves(one)


def spelling(line: Line, i: int) -> Iterator[Options]:
    """Suggest words that are spelled like an unknown one."""
    if line.words[i] in line.unknown and not line.tokens[i].is_name:
        options = [option for option, _ in near(line.words[i])]
        yield i, i + 1, [one for one in options if not is_foreign(one[0], line.dialect)]


def is_foreign(word: str, dialect: Dialect) -> bool:
    """Return whether a word is spelled as in the other dialect only."""
    if dialect == "auto":
        return False
    for british, american in VARIANTS:
        old, new = (british, american) if dialect == "american" else (american, british)
        at = word.find(old, 1)
        if at > 0 and word[:at] + new + word[at + len(old) :] in _ranks():
            return True
    return False


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


KINDS = (
    Kind("spelling", "spelling", "This word may be misspelled.", spelling, -5000, 5),
    Kind("spacing", "spelling", "This may be one word, or two.", spacing, -30, 2),
    Kind("verb-form", "verb", "Another form of the verb may fit better.", verb_form, -32),
    Kind("noun-number", "noun", "This may have to be singular or plural.", noun_number, -60),
    Kind("article", "article", "The article may be missing or wrong.", article, -32),
    Kind("preposition", "preposition", "Another word may fit better here.", preposition, -24),
    Kind("missing", "missing word", "A word may be missing here.", missing, -22, 5),
    Kind("extra", "extra word", "This word may not be needed.", extra, -32),
    Kind("ing-form", "verb", '"To" or "-ing" may fit better.', ing_form, -24),
    Kind("auxiliary", "verb", "Another tense may fit better.", auxiliary, -8),
    Kind("adjective", "adjective", "Another form may fit better.", adjective, -32),
    Kind("word-family", "word", "Another word of this family may fit better.", word_family, -40),
    Kind("confused", "word", "This word may be mixed up with another.", confused, -28),
    Kind("punctuation", "punctuation", "Other punctuation may be better.", punctuation, -24),
    Kind("possessive", "punctuation", "An apostrophe may be missing.", possessive, -40),
    Kind("order", "order", "Another order of the words may be better.", order, -8),
    Kind("slip", "spelling", "A letter may be wrong or missing.", slip, 8),
)
"""All kinds. If two suggest the same change, the first one counts."""


# -- from tokens to the text --------------------------------------------------------------------

STOP = Token(0, 0, "", ".", False, False)
CHUNK = re.compile(r"\S+")
GLUED = re.compile(r"[@/\\_=#$&+~|<>{}\[\]^\d]|\w[.:]\w")
LONGEST = 30
"""Letters of the longest word that is looked at."""
MARKS = frozenset((",", ".", ";", "?", "'s", "'"))
MARGIN = 32
"""How far below zero the gain of a missing word may be by pairs of classes alone."""


def read(text: str, model: Ngrams, known: Collection[str] = (), dialect: Dialect = "auto") -> Line:
    """Return the tokens of a text with what is looked up for each."""
    tokens = [STOP, STOP, *tokenize(text), STOP, STOP]
    words = [token.lower for token in tokens]
    entries = [model.entry(token.lower, token.is_name) for token in tokens]
    get = ngrams.forms().tags.get
    tags = [0 if token.is_name else get(token.lower, 0) for token in tokens]
    ranks, counts = _ranks(), Counter(words)
    glued = [match.span() for match in CHUNK.finditer(text) if GLUED.search(match.group())]
    is_glued = _inside(tokens, glued)
    unknown = frozenset(
        token.lower
        for token, is_part in zip(tokens, is_glued, strict=True)
        if token.lower not in ranks
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
        text += word if word in MARKS or not text else " " + word
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
        if not first.is_first or new[0] in MARKS:
            return None
        return first.start, first.end, f"{_written(new, first)} {_inner(first)}"
    if new == (".",):
        return _stopped(text, before.end, first)
    if new[0] in MARKS:
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


class Lists:
    """A proposer: word lists, and counts of clean text that leave out the unlikely.

    >>> suggest = Lists()
    >>> [one.replacements for one in suggest("We went their.") if one.start == 8][0][0]
    'there'
    """

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
