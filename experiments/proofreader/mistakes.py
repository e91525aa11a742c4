"""Put realistic mistakes into clean English text.

A mistake falls on a site: a span of characters that one kind of mistake can change. Sites come
from the words of the text and their Penn tags. A kind offers a site only where the sentence shows
that the change is wrong. "The cats sat" can become "The cat sat" without a mistake, so the noun
number kind leaves it alone; "these cats" cannot, so it offers that one.

The weights follow the error types of learners (Write & Improve) and native writers (LOCNESS) in
the BEA-2019 development set, in equal parts. `error_types.py` compares them. Everything drawn
depends only on the random generator that the caller passes.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import NamedTuple

import lemminflect
import numpy as np

MAX_PER_SENTENCE = 4
CLEAN = 0.35
"""Share of texts that get no mistake."""
RATES = (4.0, 8.0, 12.0, 18.0)
"""Mistakes per 100 words; each text draws one of these."""

WEIGHTS = {
    "comma missing": 15.0,
    "comma extra": 4.0,
    "comma splice": 6.0,
    "end mark": 3.0,
    "other punctuation": 3.0,
    "spelling": 11.0,
    "confusion": 6.0,
    "article missing": 5.0,
    "article extra": 3.5,
    "article replaced": 2.5,
    "preposition replaced": 6.0,
    "preposition missing": 2.0,
    "preposition extra": 1.5,
    "capital": 4.0,
    "space": 3.0,
    "apostrophe": 2.0,
    "tense": 5.0,
    "verb form": 4.0,
    "agreement": 4.0,
    "noun number": 4.5,
    "word form": 2.5,
    "word choice": 5.0,
    "pronoun": 2.5,
    "word order": 1.5,
    "word missing": 3.0,
    "word extra": 2.5,
}


class Word(NamedTuple):
    """A word or a punctuation mark of a text."""

    start: int
    end: int
    tag: str
    text: str

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.text.lower()


class Mistake(NamedTuple):
    """One mistake: `start` to `end` of the clean text became `text`."""

    kind: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Site:
    """A span of the clean text and its possible replacements."""

    start: int
    end: int
    options: Sequence[str] | Callable[[str, np.random.Generator], str]
    weight: float = 1.0


def read_words(text: str, spans: Sequence[int], tags: str) -> list[Word]:
    """Return the words of a unit, as `prepare.py` stores them."""
    bounds = zip(spans[::2], spans[1::2], tags.split(" "), strict=True)
    return [Word(start, end, tag, text[start:end]) for start, end, tag in bounds]


def draw_mistakes(
    text: str, words: Sequence[Word], rng: np.random.Generator, *, clean: float = CLEAN
) -> list[Mistake]:
    """Draw the mistakes of a text, in order and apart. A clean text has none."""
    if rng.random() < clean:
        return []
    size = sum(word.text[0].isalpha() for word in words)
    ends = sum(word.tag == "." for word in words) or 1
    rate = RATES[int(rng.integers(len(RATES)))]
    count = min(MAX_PER_SENTENCE * ends, max(1, int(rng.poisson(rate * size / 100))))
    weights, sites, sums = dict(WEIGHTS), dict[str, list[Site]](), dict[str, list[float]]()
    taken = bytearray(len(text) + 2)
    made: list[Mistake] = []
    for _ in range(20 * count):
        if len(made) >= count or not weights:
            break
        kind = _choose(list(weights), list(accumulate(weights.values())), rng)
        if kind not in sites:
            sites[kind] = list(KINDS[kind](text, words))
            sums[kind] = list(accumulate(site.weight for site in sites[kind]))
        if not sites[kind]:
            del weights[kind]
            continue
        site = _choose(sites[kind], sums[kind], rng)
        # One more character on both sides, so that two mistakes never touch.
        if any(taken[site.start : site.end + 2]):
            continue
        old = text[site.start : site.end]
        options = site.options
        new = options(old, rng) if callable(options) else options[int(rng.integers(len(options)))]
        if new == old:
            continue
        taken[site.start : site.end + 2] = b"\1" * (site.end + 2 - site.start)
        made.append(Mistake(kind, site.start, site.end, new))
    return sorted(made, key=lambda mistake: mistake.start)


def apply(text: str, mistakes: Sequence[Mistake]) -> str:
    """Return the text with the mistakes in it."""
    parts, done = [], 0
    for mistake in mistakes:
        parts += [text[done : mistake.start], mistake.text]
        done = mistake.end
    return "".join([*parts, text[done:]])


def _choose(things: Sequence, sums: Sequence[float], rng: np.random.Generator):
    return things[min(bisect_right(sums, rng.random() * sums[-1]), len(things) - 1)]


# -- word lists -------------------------------------------------------------------------------


@cache
def known_words() -> dict[str, int]:
    """Return the words of symspellpy's frequency dictionary and their counts."""
    path = files("symspellpy") / "frequency_dictionary_en_82_765.txt"
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return {word: int(count) for word, count in (line.split() for line in lines if line.strip())}


@cache
def inflected(word: str, tag: str, to: str) -> str | None:
    """Return another form of a word in lower case, or None if there is none.

    >>> inflected("goes", "VBZ", "VBD"), inflected("cats", "NNS", "NN")
    ('went', 'cat')
    """
    upos = "NOUN" if tag.startswith("N") else "VERB"
    if word in BE:
        return BE_FORMS.get(to)
    lemma = lemminflect.getLemma(word, upos, lemmatize_oov=False)
    forms = lemminflect.getInflection(lemma[0], to, inflect_oov=False) if lemma else ()
    return next((form for form in forms if form != word and form.isalpha()), None)


def listed(words: str) -> frozenset[str]:
    """Return the set of some words."""
    return frozenset(words.split())


BE = listed("be am is are was were been being")
BE_FORMS = {"VB": "be", "VBZ": "is", "VBP": "are", "VBD": "was", "VBN": "been", "VBG": "being"}
VERBS = listed("VB VBD VBG VBN VBP VBZ")
NOUNS = listed("NN NNS NNP NNPS")
ARTICLES = frozenset(["a", "an", "the"])
SINGULAR = listed("a an one each every another this that either neither")
PLURAL = listed("these those many several few both two three four five six ten various most")
PREPOSITIONS = {
    "in": "on at into of for",
    "on": "in at of about upon",
    "at": "in on to",
    "to": "for at in into of",
    "for": "to of in since",
    "of": "in for from on about",
    "with": "by of for to",
    "by": "with from of in",
    "from": "of for since in",
    "about": "of on for",
    "into": "in to",
    "during": "while in",
    "between": "among in",
    "among": "between in",
    "since": "from for",
    "through": "by in",
    "over": "on above",
    "against": "to for with",
    "within": "in into",
    "toward": "for to",
    "towards": "for to",
}


def _groups(listed: str) -> dict[str, tuple[str, ...]]:
    """Map each word of a group such as `their/there` to the others."""
    table: dict[str, tuple[str, ...]] = {}
    for group in listed.split():
        words = group.replace("_", " ").split("/")
        for word in words:
            table[word] = table.get(word, ()) + tuple(w for w in words if w != word)
    return table


CONFUSED = _groups(
    "their/there/they're its/it's then/than to/too/two your/you're affect/effect lose/loose"
    " whose/who's accept/except advice/advise weather/whether were/where/we're quite/quiet/quit"
    " through/though/thought/threw passed/past principle/principal of/off which/witch here/hear"
    " by/buy/bye know/now/no right/write peace/piece brake/break whole/hole led/lead form/from"
    " were/was week/weak great/grate hour/our wood/would one/won son/sun sea/see meet/meat"
    " there/the new/knew site/sight/cite bare/bear fair/fare plain/plane sole/soul role/roll"
    " wear/where/ware desert/dessert personal/personnel stationary/stationery complement/compliment"
    " council/counsel ensure/insure device/devise practice/practise choose/chose precede/proceed"
    " lead/led lay/lie rise/raise alter/altar board/bored course/coarse dairy/diary die/dye"
    " every_day/everyday may_be/maybe for/four fourth/forth heard/herd hole/whole him/hymn"
    " idle/idol knight/night knot/not mail/male main/mane morning/mourning none/nun pair/pear"
    " pray/prey rain/reign/rein sail/sale scene/seen steal/steel straight/strait tail/tale"
    " threw/through throne/thrown vain/vein waist/waste wait/weight way/weigh weak/week"
    " what/that this/these that/than these/this those/that then/them as/has his/is an/and"
    " out/our for/far on/one be/been who/how were/where live/life/leave breath/breathe cloth/clothe"
    " belief/believe prove/proof safe/save loss/lost choice/choose thing/think use/used"
    " some/same though/tough thru/through believes/beliefs lives/life's bath/bathe fell/feel"
    " filled/field found/fund send/sent spend/spent build/built lend/lent percent/present"
    " conscious/conscience moral/morale later/latter thorough/through trough/through"
    " sing/sign world/word worse/worst since/science county/country costumer/customer"
    " allot/a_lot already/all_ready altogether/all_together anyway/any_way"
)
CHOICES = _groups(
    "make/do say/tell speak/tell look/see/watch bring/take learn/teach borrow/lend hear/listen"
    " win/beat remember/remind let/leave cause/make allow/let get/become rise/raise"
    " much/many few/little less/fewer other/another some/any so/such also/too good/well like/as"
    " while/during until/by amount/number economic/economical historic/historical every/all"
    " very/too among/between each/every big/large high/tall small/little job/work travel/trip"
    " possibility/opportunity sensible/sensitive affect/influence fun/funny"
    " interesting/interested exciting/excited boring/bored confusing/confused that/which"
    " people/persons way/manner problem/trouble part/piece beside/besides especially/specially"
    " hard/hardly late/lately near/nearly most/almost sometime/sometimes"
)
FORMS = _groups(
    "different/difference important/importance confident/confidence success/succeed/successful"
    " significant/significance independent/independence violent/violence intelligent/intelligence"
    " patient/patience silent/silence absent/absence present/presence evident/evidence"
    " dangerous/danger famous/fame beautiful/beauty healthy/health wealthy/wealth safe/safety"
    " popular/popularity possible/possibility responsible/responsibility able/ability"
    " national/nation cultural/culture natural/nature political/politics economic/economy"
    " environmental/environment religious/religion social/society traditional/tradition"
    " educational/education historical/history industrial/industry scientific/science"
    " develop/development govern/government improve/improvement move/movement agree/agreement"
    " argue/argument treat/treatment require/requirement achieve/achievement"
    " decide/decision conclude/conclusion discuss/discussion educate/education"
    " produce/production/product create/creation introduce/introduction reduce/reduction"
    " protect/protection connect/connection communicate/communication inform/information"
    " organize/organization explain/explanation describe/description solve/solution"
    " choose/choice believe/belief live/life think/thought die/death/dead grow/growth"
    " analyze/analysis compare/comparison lose/loss high/height long/length strong/strength"
    " wide/width deep/depth hot/heat free/freedom true/truth young/youth angry/anger"
    " hungry/hunger lucky/luck easy/ease happy/happiness aware/awareness ill/illness"
    " employ/employment/employee train/training build/building mean/meaning feel/feeling"
    " begin/beginning effective/effect active/activity creative/creativity practical/practice"
    " critical/criticism modern/modernity poor/poverty rich/riches equal/equality real/reality"
)
CASES = {
    "i": ("me",), "me": ("I",), "he": ("him", "his", "she"), "him": ("he", "his"),
    "she": ("her", "he"), "they": ("them", "their", "it"), "them": ("they", "their", "it"),
    "we": ("us", "our"), "us": ("we",), "their": ("they", "there", "his", "its"),
    "his": ("him", "he", "its"), "who": ("which", "whom"), "which": ("who", "what", "that"),
    "whom": ("who",), "its": ("it", "their", "his"), "our": ("us", "we"), "my": ("me", "mine"),
    "himself": ("hisself", "him"), "themselves": ("themself", "them"), "it": ("its", "they"),
    "what": ("that", "which"), "whose": ("which", "who's"),
}  # fmt: skip
DROPPED = {
    "to": 3.0, "is": 3.0, "are": 3.0, "was": 2.5, "were": 2.5, "be": 3.0, "been": 2.5, "has": 1.5,
    "have": 2.0, "had": 1.0, "will": 0.6, "and": 2.0, "it": 2.5, "as": 2.0, "than": 2.0, "who": 1.5,
    "which": 1.5, "do": 1.5, "does": 1.5, "did": 1.5, "they": 2.0, "he": 1.2, "she": 1.2,
    "there": 1.5, "their": 0.7, "because": 1.0, "if": 1.0, "when": 0.7, "or": 1.0, "can": 0.8,
    "being": 1.0, "them": 1.5, "more": 0.4, "not": 0.3, "that": 0.5, "up": 1.0, "out": 1.0,
}  # fmt: skip


# -- spelling ---------------------------------------------------------------------------------

RULES = [
    (re.compile(pattern), change, weight)
    for pattern, change, weight in (
        ("ie", "ei", 4), ("(?<=[a-z])ei", "ie", 4), ("ance", "ence", 3), ("ence", "ance", 3),
        ("ant(?=s?$|ly)", "ent", 2), ("ent(?=s?$|ly)", "ant", 2), ("able$", "ible", 2),
        ("ible$", "able", 3), ("tion", "sion", 1.5), ("ssion", "tion", 2), ("sion$", "tion", 1.5),
        ("^kn", "n", 1), ("^wh", "w", 2), ("^wr", "r", 1), ("ough", "ow", 0.7), ("ght", "gth", 1.5),
        ("gh(?=t)", "", 1.5), ("ph", "f", 1.5), ("(?<=[a-z])ch", "c", 0.7), ("sc(?=[ei])", "s", 3),
        ("(?<=[a-z])c(?=[ei])", "s", 2), ("(?<=[a-z])s(?=[ei])", "c", 0.7), ("qu", "q", 0.7),
        ("ally$", "aly", 2.5), ("ally$", "ly", 2), ("(?<=[^l])ly$", "lly", 1), ("ely$", "ly", 3),
        ("full$", "ful", 1), ("ful$", "full", 2.5), ("fully$", "fuly", 1.5), ("y(?=ing$)", "", 1.5),
        ("ies$", "ys", 2), ("ied$", "yed", 1.5), ("(?<=[^aeiou])ing$", "eing", 0.6),
        ("(?<=[aeiou])([tpnmlr])(?=ing$|ed$)", r"\1\1", 2), ("([bdfglmnprtsc])\\1", r"\1", 5),
        ("(?<=[aeiou])([lmnprtsc])(?=[aeiou])", r"\1\1", 2), ("a(?=[lnrt])", "e", 1.3),
        ("e(?=[lnrt])", "a", 1.3), ("(?<=[a-z])i(?=[a-z])", "e", 1.3), ("o(?=r)", "e", 1.0),
        ("(?<=[a-z])e(?=[a-z])", "i", 1.0), ("(?<=[a-z])ea", "ee", 1), ("ee", "ea", 1),
        ("ai", "a", 1),
        ("ai", "ia", 1), ("ou", "o", 1.5), ("ou", "uo", 0.6), ("oo", "o", 0.7), ("au", "a", 1),
        ("ui", "iu", 0.8), ("eau", "eu", 2), ("(?<=[a-z])er$", "or", 1), ("or$", "er", 1.2),
        ("ar(?=[dy]?$)", "er", 1.2), ("ary$", "ery", 1.5), ("ory$", "ary", 1), ("ury$", "ery", 1),
        ("(?<=[a-z])e$", "", 1.5), ("(?<=[bcdfgmnprst])$", "e", 0.5), ("ise$", "ice", 1),
        ("eed", "ede", 0.7), ("cede", "ceed", 2), ("mb$", "m", 1.5), ("mn$", "m", 2),
        ("^h", "", 0.3),
        ("(?<=[a-z])h(?=[aeiou])", "", 0.5), ("ck", "k", 1), ("dge", "ge", 1.5), ("tch", "ch", 1.5),
        ("(?<=[a-z])u(?=[a-z])", "o", 0.7), ("nm", "m", 2), ("st(?=l)", "s", 1), ("nv", "v", 0.5),
        ("pt$", "p", 0.6), ("sy", "si", 1), ("(?<=[a-z])y(?=[a-z])", "i", 1.5), ("xc", "x", 2),
        ("ia", "a", 0.7), ("mm", "m", 1.5), ("cq", "q", 3), ("cc", "c", 2), ("^ex", "exc", 0.3),
    )
]  # fmt: skip
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
NEAR = {
    key: (row[max(0, i - 1) : i] + row[i + 1 : i + 2])
    + (ROWS[n - 1][i : i + 2] if n else "")
    + (ROWS[n + 1][max(0, i - 1) : i + 1] if n < 2 else "")
    for n, row in enumerate(ROWS)
    for i, key in enumerate(row)
}


def misspell(word: str, rng: np.random.Generator) -> str:
    """Return a misspelling of a word: by sound in half of the cases, else by a slip of the hand.

    A result that is another known word is kept in 3 of 10 cases only: those are harder to see, and
    the kind "confusion" has its share of them.
    """
    for _ in range(12):
        new = _misspelled(word, rng)
        if new != word and (new.lower() not in known_words() or rng.random() < 0.3):
            return new
    return word


def _misspelled(word: str, rng: np.random.Generator) -> str:
    lower, size = word.lower(), len(word)
    if rng.random() < 0.5:
        found = [
            (match, change, weight)
            for pattern, change, weight in RULES
            for match in pattern.finditer(lower)
        ]
        if not found:
            return word
        sums = list(accumulate(weight for *_, weight in found))
        match, change, _ = _choose(found, sums, rng)
        new = lower[: match.start()] + match.expand(change) + lower[match.end() :]
        return new[:1].upper() + new[1:] if word[0].isupper() else new
    # People rarely get the first letter wrong.
    i = int(rng.integers(1, size)) if rng.random() < 0.93 else 0
    slip = rng.random()
    if slip < 0.30:
        return word[:i] + word[i + 1 :]
    if slip < 0.58 and i + 1 < size:
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    if slip < 0.75:
        return word[: i + 1] + lower[i] + word[i + 1 :]
    near = NEAR.get(lower[i])
    if near is None:
        return word
    key = near[int(rng.integers(len(near)))]
    if slip < 0.92:
        return word[:i] + key + word[i + 1 :]
    return word[: i + 1] + key + word[i + 1 :]


# -- kinds ------------------------------------------------------------------------------------

Sites = Iterator[Site]


def like(old: str, new: str) -> str:
    """Return a word with the capital of the word that it replaces."""
    return new[:1].upper() + new[1:] if old[:1].isupper() and old != "I" else new


def _put(word: Word, *options: str, weight: float = 1.0) -> Site:
    return Site(word.start, word.end, [like(word.text, new) for new in options], weight)


def _cut(text: str, word: Word, weight: float = 1.0) -> Iterator[Site]:
    """Drop a word and one space next to it; the next word takes over a capital."""
    start, end = word.start, word.end
    if text[start - 1 : start] == " " and start > 1:
        yield Site(start - 1, end, [""], weight)
    elif text[end : end + 1] == " " and text[end + 1 : end + 2].isalpha():
        follows = text[end + 1]
        first = follows.upper() if word.text[0].isupper() else follows
        yield Site(start, end + 2, [first], weight)


def _next(words: Sequence[Word], i: int) -> Word | None:
    return words[i + 1] if i + 1 < len(words) else None


def _plain(word: Word) -> bool:
    return word.text.isalpha()


def _phrase_start(words: Sequence[Word], i: int) -> int:
    """Return where the noun phrase of the noun at `i` begins, without its determiner."""
    while i and words[i - 1].tag in (
        "JJ",
        "JJR",
        "JJS",
        "NN",
        "NNP",
        "VBG",
        "VBN",
        "CD",
        "RB",
        "NNS",
    ):
        i -= 1
    return i


def _is_head(words: Sequence[Word], i: int) -> bool:
    """Return whether the noun at `i` ends its noun phrase."""
    after = _next(words, i)
    return after is None or after.tag not in (*NOUNS, "POS", "HYPH", "CD")


def _comma_missing(text: str, words: Sequence[Word]) -> Sites:
    since = 0  # words since the sentence began or since the last comma
    commas = 0
    for i, word in enumerate(words):
        if word.tag == ".":
            since, commas = 0, 0
            continue
        since += 1
        if word.text != "," or not i:
            continue
        after = _next(words, i)
        if after is None or text[word.end : word.end + 1] != " ":
            continue
        commas += 1
        # The comma before the last item of a list is a matter of style.
        is_list = after.lower in ("and", "or") and commas > 1
        starts = commas == 1 and since <= 9
        weight = (
            0.15 if is_list else 2.0 if starts else 1.5 if after.tag in ("CC", "WDT", "WP") else 0.8
        )
        yield Site(word.start, word.end, [""], weight)


def _comma_extra(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[:-1]):
        after = words[i + 1]
        if not (_plain(word) and _plain(after)) or text[word.end : after.start] != " ":
            continue
        weight = 0.1
        if after.lower in ("that", "because", "than"):
            weight = 2.0
        elif after.lower in ("and", "or", "when", "if", "who", "to", "as", "which"):
            weight = 0.8
        elif word.tag in NOUNS and after.tag in ("VBZ", "VBP", "VBD", "MD"):
            weight = 1.5
        elif word.lower in ("and", "but", "although", "because", "that", "such"):
            weight = 1.0
        elif word.tag in ("DT", "IN", "TO", "MD", "PRP$", "JJ") or after.tag in ("DT", "CC"):
            weight = 0.1
        yield Site(word.end, after.start, [", "], weight)


def _comma_splice(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[1:-1], start=1):
        after = words[i + 1]
        if word.text == "." and text[word.end : after.start] == " " and after.text[0].isupper():
            first = after.text if after.tag in ("NNP", "NNPS") or after.text == "I" else after.lower
            joins = [f", {first}"] * 3 + [f" {first}"] * 2 + [f". {first}"] * (first != after.text)
            yield Site(word.start, after.end, joins, 2.0)
        elif word.text == ";" and text[word.end : word.end + 1] == " ":
            yield Site(word.start, word.end, [",", ",", ""], 1.5)
        elif word.text == "," and after.lower in ("but", "so", "and") and i > 4:
            yield Site(word.start, word.end, [".", ";"], 0.15)


def _end_mark(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.text in (".", "?", "!") and i and words[i - 1].text.isalpha():
            is_last = word.end == len(text)
            others = {".": ["", "", "", ",", "?"], "?": [".", ".", ""], "!": [".", ""]}[word.text]
            if is_last or word.text != ".":
                yield Site(word.start, word.end, others, 1.0 if word.text == "." else 2.0)


def _other_punctuation(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.text == ":" and text[word.end : word.end + 1] == " ":
            yield Site(word.start, word.end, [";", ",", ""])
        elif word.text in ('"', "\u201c", "\u201d") and i:
            yield Site(word.start, word.end, [""], 0.7)
        elif word.text in ("(", ")"):
            yield Site(word.start, word.end, [""], 0.5)
        elif word.text == "-" and f"{text[word.start - 1]}{text[word.end :][:1]}".isalpha():
            yield Site(word.start, word.end, [" ", " ", ""], 3.0)
        elif word.text in (",", ".") and i + 1 < len(words):
            yield Site(word.start, word.end, [word.text * 2], 0.2)


def _spelling(_: str, words: Sequence[Word]) -> Sites:
    for word in words:
        size = len(word.text)
        if size < 3 or not _plain(word) or word.text.isupper():
            continue
        weight = {3: 0.15, 4: 0.4, 5: 0.7}.get(size, 1.0 + 0.1 * (size - 6))
        if word.tag in ("NNP", "NNPS"):
            weight *= 0.2  # an invented name cannot be corrected
        yield Site(word.start, word.end, misspell, weight)


def _confusion(_: str, words: Sequence[Word]) -> Sites:
    for word in words:
        options = CONFUSED.get(word.lower)
        if options and word.tag not in ("NNP", "NNPS"):
            common = known_words().get(word.lower, 0) > 1_000_000_000
            yield _put(word, *options, weight=0.5 if common else 2.0)


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
        yield from _cut(text, word, weight)


def _article_extra(_: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.tag not in NOUNS or not _is_head(words, i):
            continue
        start = _phrase_start(words, i)
        before = words[start - 1] if start else None
        if before is not None and before.tag in ("DT", "PRP$", "POS", "CD", "WP$", "PDT", "HYPH"):
            continue
        if before is not None and before.tag not in ("IN", "TO", ",", "CC", *VERBS):
            continue
        first = words[start]
        if not _plain(first) or first.tag in ("RB", "CD", "VBN"):
            continue
        at = first.start
        lower = (
            first.text[0].lower() + first.text[1:]
            if first.tag not in ("NNP", "NNPS")
            else first.text
        )
        for article, weight in (("the", 1.0 if word.tag != "NN" else 0.7), ("a", 0.5)):
            if article == "a" and word.tag in ("NNP", "NNPS"):
                continue
            new = "an" if article == "a" and first.lower[0] in "aeiou" else article
            is_first = before is None or before.tag == "."
            if is_first and first.text[0].isupper():
                yield Site(at, first.end, [f"{new.capitalize()} {lower}"], 0.5 * weight)
            else:
                yield Site(at, first.end, [f"{new} {first.text}"], weight)


def _article_replaced(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[:-1]):
        if word.tag != "DT":
            continue
        if word.lower in ("a", "an") and text[word.end] == " ":
            yield _put(word, "an" if word.lower == "a" else "a", weight=1.5)
            yield _put(word, "the", weight=0.4)
        elif word.lower == "the":
            j = i + 1
            while j + 1 < len(words) and words[j].tag in ("JJ", "VBN", "VBG", "JJS"):
                j += 1
            article = "an" if words[i + 1].lower[0] in "aeiou" else "a"
            if words[j].tag in ("NNS", "NNPS") or words[i + 1].tag == "JJS":
                yield _put(word, article)
        elif word.lower in ("this", "that"):
            yield _put(word, "these" if word.lower == "this" else "those")
        elif word.lower in ("these", "those"):
            yield _put(word, "this" if word.lower == "these" else "that", weight=2.0)


def _preposition_replaced(_: str, words: Sequence[Word]) -> Sites:
    for word in words:
        if word.tag in ("IN", "TO", "RP") and word.lower in PREPOSITIONS:
            # "to" before a verb is not a preposition.
            after = _next(words, words.index(word))
            if word.lower == "to" and (after is None or after.tag == "VB"):
                continue
            yield _put(word, *PREPOSITIONS[word.lower].split())


def _preposition_missing(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if i and word.tag in ("IN", "TO", "RP") and word.lower in PREPOSITIONS:
            weight = 2.0 if words[i - 1].tag in (*VERBS, "JJ") else 0.7
            yield from _cut(text, word, weight)


def _preposition_extra(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[:-1]):
        after = words[i + 1]
        if text[word.end : after.start] != " " or not _plain(word):
            continue
        if word.tag in VERBS and word.lower not in BE and after.tag in ("DT", "PRP$", "PRP", "NNS"):
            others = ("to", "about", "for", "of", "in", "with", "on", "at")
            yield Site(word.end, after.start, [f" {other} " for other in others])
        elif word.tag == "MD" and after.tag == "VB":
            yield Site(word.end, after.start, [" to "], 1.0)
        elif word.tag in ("CD", "JJ", "DT") and after.tag in ("NNS", "NN"):
            yield Site(word.end, after.start, [" of "], 0.15)


def _capital(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        first = word.text[0]
        if not first.isalpha() or (len(word.text) > 1 and word.text.isupper()):
            continue
        starts = i == 0 or words[i - 1].tag == "." or (i == 1 and words[0].tag in ("``", "''"))
        other = first.lower() if first.isupper() else first.upper()
        if word.text == "I":
            yield Site(word.start, word.end, ["i"], 2.0)
        elif first.isupper():
            weight = 1.0 if starts else 1.2 if word.tag in ("NNP", "NNPS", "JJ") else 0.5
            yield Site(word.start, word.start + 1, [other], weight)
        elif (
            word.tag in ("NN", "NNS", "JJ")
            and len(word.text) > 3
            and text[word.start - 1 : word.start] == " "
        ):
            yield Site(word.start, word.start + 1, [other], 0.25)


def _space(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[:-1]):
        after = words[i + 1]
        gap = text[word.end : after.start]
        if gap == " " and _plain(word) and _plain(after):
            short = word.lower in (
                "a",
                "in",
                "any",
                "every",
                "some",
                "may",
                "can",
                "all",
                "to",
                "up",
                "on",
            )
            yield Site(word.end, after.start, [""], 0.8 if short else 0.15)
        elif word.text == "," and gap == " ":
            yield Site(word.end, after.start, [""], 0.7)
        elif word.text == "." and gap == " ":
            yield Site(word.end, after.start, [""], 1.0)
        if after.text in (",", ".", ";", "?", "!") and gap == "" and _plain(word):
            yield Site(word.end, after.start, [" "], 0.25)
        if _plain(word) and len(word.text) > 5 and word.tag not in ("NNP", "NNPS"):
            cuts = [
                f"{word.text[:n]} {word.text[n:]}"
                for n in range(2, len(word.text) - 2)
                if known_words().get(word.lower[:n], 0) > 20_000_000
                and known_words().get(word.lower[n:], 0) > 20_000_000
            ]
            if cuts:
                yield Site(word.start, word.end, cuts, 0.8)


def _apostrophe(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        mark = next((m for m in "'\u2019" if m in word.text), None)
        if mark and i and len(word.text) > 1 and text[word.start - 1].isalpha():
            bare = word.text.replace(mark, "")
            options = [bare, bare] if word.tag != "POS" else [bare, bare, f"{bare}{mark}"]
            yield Site(word.start, word.end, options, 3.0)
        elif word.tag == "NNS" and word.text.endswith("s") and _plain(word):
            yield Site(word.end - 1, word.end, ["'s"], 0.3)
        elif word.lower == "its":
            yield _put(word, "it's", weight=2.0)


def _finite(words: Sequence[Word], i: int) -> list[str]:
    """Return the tags of the other finite verbs in the sentence of word `i`."""
    low, high = i, i
    while low and words[low - 1].tag != ".":
        low -= 1
    while high < len(words) and words[high].tag != ".":
        high += 1
    return [
        w.tag
        for n, w in enumerate(words[low:high], low)
        if n != i and w.tag in ("VBD", "VBZ", "VBP")
    ]


def _tense(_: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.tag not in ("VBD", "VBZ", "VBP") or not _plain(word):
            continue
        others = _finite(words, i)
        # Without another verb in the same tense nothing shows that the tense is wrong.
        same = sum((tag == "VBD") == (word.tag == "VBD") for tag in others)
        weight = 1.0 if same and same == len(others) else 0.1
        subject = words[i - 1] if i else None
        present = "VBP" if subject is not None and subject.tag in ("NNS", "NNPS") else "VBZ"
        if subject is not None and subject.lower in ("they", "we", "you", "i"):
            present = "VBP"
        to = present if word.tag == "VBD" else "VBD"
        if word.lower == "were" or (word.lower == "are" and to == "VBD"):
            new: str | None = "are" if word.lower == "were" else "were"
        else:
            new = inflected(word.lower, word.tag, to)
        if new:
            yield _put(word, new, weight=weight)
        if (
            word.tag == "VBD"
            and (base := inflected(word.lower, "VBD", "VBP"))
            and word.lower not in BE
        ):
            yield _put(word, f"have {base}", f"had {base}", f"was {base}", weight=0.08)
    for i, word in enumerate(words[:-1]):
        if (
            word.tag == "MD"
            and word.lower in ("will", "would", "can", "could")
            and words[i + 1].tag == "VB"
        ):
            swap = {"will": "would", "would": "will", "can": "could", "could": "can"}
            yield _put(word, swap[word.lower], weight=0.15)


def _verb_form(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.tag not in VERBS or not _plain(word) or word.lower in ("had", "did"):
            continue
        before = words[i - 1] if i else None
        to: list[str] = []
        if before is not None and before.tag in ("TO", "MD") and word.tag == "VB":
            to = ["VBG", "VBD", "VBZ", "VBN"]
        elif word.tag == "VBN":
            to = ["VBD", "VB", "VBG"]
        elif word.tag == "VBG":
            to = ["VB", "VBN", "VBZ"]
        elif word.tag == "VBD":
            to = ["VBN"]
        for tag in to:
            new = inflected(word.lower, word.tag, tag)
            if new and new != word.lower:
                yield _put(word, new)
        # "enjoy swimming" to "enjoy to swim", and "to swim" to "swimming"
        if word.tag == "VBG" and before is not None and before.tag in (*VERBS, "IN"):
            base = inflected(word.lower, "VBG", "VB")
            if base and before.lower not in BE:
                yield _put(word, f"to {base}", weight=0.8)
        if (
            word.tag == "VB"
            and before is not None
            and before.tag == "TO"
            and text[before.end] == " "
        ):
            ing = inflected(word.lower, "VB", "VBG")
            if ing:
                yield Site(before.start, word.end, [f"for {ing}", f"of {ing}", ing], 0.3)
        if word.tag == "VBD" and (over := inflected(word.lower, "VBD", "VB")):
            wrong = over + ("d" if over.endswith("e") else "ed")
            if wrong != word.lower and not word.lower.endswith("ed") and word.lower not in BE:
                yield _put(word, wrong, weight=0.3)


def _agreement(_: str, words: Sequence[Word]) -> Sites:
    swap = {"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has",
            "does": "do", "do": "does", "am": "is"}  # fmt: skip
    for word in words:
        if word.tag not in ("VBZ", "VBP", "VBD") or not _plain(word):
            continue
        if word.lower in swap:
            yield _put(word, swap[word.lower], weight=1.0)
        elif word.tag != "VBD":
            new = inflected(word.lower, word.tag, "VBP" if word.tag == "VBZ" else "VBZ")
            if new:
                yield _put(word, new, weight=1.5)


def _noun_number(_: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.tag not in ("NN", "NNS") or not _plain(word) or not _is_head(words, i):
            continue
        start = _phrase_start(words, i)
        before = words[start - 1] if start else None
        after = _next(words, i)
        new = inflected(word.lower, word.tag, "NNS" if word.tag == "NN" else "NN")
        if not new:
            continue
        determiner = before.lower if before is not None else ""
        follows = after.tag if after is not None else ""
        numbers = any(w.tag == "CD" or w.lower in PLURAL for w in words[start:i])
        if word.tag == "NNS":
            if numbers or determiner in PLURAL:
                weight = 2.0
            elif before is None or before.tag in ("IN", "TO", ",", "CC", ".", *VERBS):
                weight = 1.5  # a bare singular
            elif follows == "VBP":
                weight = 1.0
            else:
                weight = 0.1
        elif determiner in SINGULAR:
            weight = 1.2
        elif follows == "VBZ":
            weight = 1.0
        elif word.lower in (
            "information",
            "knowledge",
            "research",
            "advice",
            "equipment",
            "evidence",
        ):
            weight = 3.0
        else:
            weight = 0.05
        yield _put(word, new, weight=weight)


def _word_form(_: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        lower = word.lower
        if lower in FORMS and word.tag not in ("NNP", "NNPS"):
            yield _put(word, *FORMS[lower], weight=2.0)
        if word.tag == "RB" and lower.endswith("ly") and len(lower) > 5:
            base = lower[:-2] if not lower.endswith("ily") else f"{lower[:-3]}y"
            if base in known_words():
                yield _put(word, base, weight=1.5)
        after = _next(words, i)
        is_followed = after is not None and after.tag in NOUNS
        if word.tag == "JJ" and is_followed and len(lower) > 3 and f"{lower}ly" in known_words():
            yield _put(word, f"{lower}ly", weight=0.5)
        if word.tag in ("JJR", "RBR") and lower not in ("more", "less") and lower.endswith("er"):
            yield _put(word, f"more {lower}", weight=1.0)


def _word_choice(_: str, words: Sequence[Word]) -> Sites:
    for word in words:
        if not _plain(word) or word.tag in ("NNP", "NNPS"):
            continue
        if word.lower in CHOICES and word.tag not in VERBS:
            yield _put(word, *CHOICES[word.lower], weight=1.0)
        elif word.tag in VERBS:
            lemma = lemminflect.getLemma(word.lower, "VERB", lemmatize_oov=False)
            for other in CHOICES.get(lemma[0], ()) if lemma else ():
                form = lemminflect.getInflection(other, word.tag, inflect_oov=False)
                if form:
                    yield _put(word, form[0])


def _pronoun(_: str, words: Sequence[Word]) -> Sites:
    for word in words:
        if word.lower in CASES and word.tag in ("PRP", "PRP$", "WP", "WDT", "WP$"):
            yield _put(word, *CASES[word.lower])


def _word_order(text: str, words: Sequence[Word]) -> Sites:
    good = {
        ("JJ", "NN"): 1.5, ("JJ", "NNS"): 1.5, ("RB", "JJ"): 1.0, ("RB", "VB"): 0.7,
        ("RB", "VBN"): 0.7, ("MD", "RB"): 0.7, ("VBZ", "RB"): 0.5, ("IN", "DT"): 0.2,
        ("DT", "JJ"): 0.5, ("NN", "NN"): 0.4, ("PRP", "MD"): 0.5, ("VB", "DT"): 0.1,
        ("TO", "VB"): 0.3,
    }  # fmt: skip
    for i, word in enumerate(words[:-1]):
        after = words[i + 1]
        if not (_plain(word) and _plain(after)) or text[word.end : after.start] != " ":
            continue
        weight = good.get((word.tag, after.tag), 0.03)
        one, two = word.text, after.text
        if one[0].isupper() and word.tag not in ("NNP", "NNPS") and one != "I":
            one, two = one.lower(), two.capitalize()
        yield Site(word.start, after.end, [f"{two} {one}"], weight)


def _word_missing(text: str, words: Sequence[Word]) -> Sites:
    for word in words:
        weight = DROPPED.get(word.lower)
        if weight and word.tag not in ("NNP", "RP"):
            yield from _cut(text, word, weight)


def _word_extra(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words[:-1]):
        after = words[i + 1]
        if not _plain(word) or text[word.end : word.end + 1] != " ":
            continue
        short = word.lower in DROPPED or word.lower in PREPOSITIONS or word.lower in ARTICLES
        again = word.lower if word.text != "I" and word.tag not in ("NNP", "NNPS") else word.text
        yield Site(word.end, word.end, [f" {again}"], 1.0 if short else 0.1)
        if (
            word.tag in ("NN", "NNS", "NNP")
            and after.tag in ("VBZ", "VBD", "VBP")
            and _is_head(words, i)
        ):
            yield Site(word.end, word.end, [" it"] if word.tag == "NN" else [" they"], 0.15)
        if (
            word.tag in ("PRP", "NNS", "NN")
            and after.tag in ("VBD", "VBP", "VBZ")
            and after.lower not in BE
        ):
            yield Site(word.end, word.end, [" is", " was", " are", " were"], 0.4)
        if word.tag in VERBS and after.tag in ("JJ", "RB") and word.lower in BE:
            yield Site(word.end, word.end, [" being", " very much"], 0.15)


KINDS: dict[str, Callable[[str, Sequence[Word]], Sites]] = {
    "comma missing": _comma_missing,
    "comma extra": _comma_extra,
    "comma splice": _comma_splice,
    "end mark": _end_mark,
    "other punctuation": _other_punctuation,
    "spelling": _spelling,
    "confusion": _confusion,
    "article missing": _article_missing,
    "article extra": _article_extra,
    "article replaced": _article_replaced,
    "preposition replaced": _preposition_replaced,
    "preposition missing": _preposition_missing,
    "preposition extra": _preposition_extra,
    "capital": _capital,
    "space": _space,
    "apostrophe": _apostrophe,
    "tense": _tense,
    "verb form": _verb_form,
    "agreement": _agreement,
    "noun number": _noun_number,
    "word form": _word_form,
    "word choice": _word_choice,
    "pronoun": _pronoun,
    "word order": _word_order,
    "word missing": _word_missing,
    "word extra": _word_extra,
}
