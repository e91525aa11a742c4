"""Put realistic mistakes into clean English text.

The kinds of mistakes are those of `reviser.data.english`, with the forms of words that lemminflect
knows, three more that need them (tense, verb form and word choice), and what the proofreader's own
tables list. Everything drawn depends only on the random generator that the caller passes.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import lemminflect
import numpy as np

from reviser.data import english
from reviser.data.english import BE, VERBS, groups
from reviser.data.mistakes import Kind, Mistake, Site, Word, draw
from reviser.data.words import NAMES, Sites, is_plain, put
from reviser.proofread.context import DAYS, DURATIONS, MONTHS, YEAR
from reviser.proofread.rules.tables import entries

MAX_PER_SENTENCE = 4
CLEAN = 0.35
"""Share of texts that get no mistake."""
RATES = (4.0, 8.0, 12.0, 18.0)
"""Mistakes per 100 words; each text draws one of these."""


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
    return draw(text, words, kinds(), count, rng, tries=20 * count)


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


BE_FORMS = {"VB": "be", "VBZ": "is", "VBP": "are", "VBD": "was", "VBN": "been", "VBG": "being"}
ALTERNATIVES = (
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
CHOICES = groups(ALTERNATIVES.split())


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
        if word.tag not in ("VBD", "VBZ", "VBP") or not is_plain(word):
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
            yield put(word, new, weight=weight)
        if (
            word.tag == "VBD"
            and (base := inflected(word.lower, "VBD", "VBP"))
            and word.lower not in BE
        ):
            yield put(word, f"have {base}", f"had {base}", f"was {base}", weight=0.08)
    for i, word in enumerate(words[:-1]):
        if (
            word.tag == "MD"
            and word.lower in ("will", "would", "can", "could")
            and words[i + 1].tag == "VB"
        ):
            swap = {"will": "would", "would": "will", "can": "could", "could": "can"}
            yield put(word, swap[word.lower], weight=0.15)


def _verb_form(text: str, words: Sequence[Word]) -> Sites:
    for i, word in enumerate(words):
        if word.tag not in VERBS or not is_plain(word) or word.lower in ("had", "did"):
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
                yield put(word, new)
        # "enjoy swimming" to "enjoy to swim", and "to swim" to "swimming"
        if word.tag == "VBG" and before is not None and before.tag in (*VERBS, "IN"):
            base = inflected(word.lower, "VBG", "VB")
            if base and before.lower not in BE:
                yield put(word, f"to {base}", weight=0.8)
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
                yield put(word, wrong, weight=0.3)


def _word_choice(_: str, words: Sequence[Word]) -> Sites:
    for word in words:
        if not is_plain(word) or word.tag in NAMES:
            continue
        if word.lower in CHOICES and word.tag not in VERBS:
            yield put(word, *CHOICES[word.lower], weight=1.0)
        elif word.tag in VERBS:
            lemma = lemminflect.getLemma(word.lower, "VERB", lemmatize_oov=False)
            for other in CHOICES.get(lemma[0], ()) if lemma else ():
                form = lemminflect.getInflection(other, word.tag, inflect_oov=False)
                if form:
                    yield put(word, form[0])


LISTED_WEIGHTS = {"could-of": 30.0, "then-than": 20.0, "everyday": 3.0, "apostrophe-two": 4.0}
"""How often the mistakes of some rules are drawn where they are possible; those of others once."""


@cache
def listed() -> dict[str, list[tuple[str, float]]]:
    """Return the mistakes that the proofreader's tables know, by what is right."""
    found: dict[str, list[tuple[str, float]]] = {}
    for first, some in entries().items():
        for entry in some:
            # The key is the first word of a phrase, or its first two.
            wrong = " ".join([first.split(" ")[0], *entry.rest])
            for right in entry.new:
                weight = LISTED_WEIGHTS.get(entry.rule.name, 1.0)
                # Such as "the an" for "the": many lines, and their places are everywhere.
                weight *= 0.03 if right in wrong.split(" ") else 1.0
                found.setdefault(right.lower(), []).append((wrong, weight))
    return found


def _listed(text: str, words: Sequence[Word]) -> Sites:
    table = listed()
    for i, word in enumerate(words):
        for last in words[i : i + 4]:
            for wrong, weight in table.get(text[word.start : last.end].lower(), ()):
                option = wrong.capitalize() if word.text[0].isupper() else wrong
                yield Site(word.start, last.end, [option], weight)


def _time(_: str, words: Sequence[Word]) -> Sites:
    """Yield other prepositions before days, months, years and lengths of time."""
    others = {"on": ("in", "at"), "in": ("on", "at"), "at": ("in", "on")}
    for word, following, last in zip(words, words[1:], [*words[2:], words[-1]], strict=False):
        is_day = following.lower in DAYS or (following.text.isdigit() and last.lower in MONTHS)
        is_year = following.lower in MONTHS or bool(YEAR.fullmatch(following.text))
        if (word.lower == "on" and is_day) or (word.lower == "in" and is_year):
            yield put(word, *others[word.lower], weight=2.0)
        elif word.lower == "for" and last.lower in DURATIONS:
            yield put(word, "since", "during")
        elif word.lower == "since" and (following.lower in DAYS or is_year):
            yield put(word, "for")


EVERYDAY = {
    "comma missing": 7.0,
    "comma extra": 2.0,
    "comma splice": 3.0,
    "other punctuation": 2.0,
    "confusion": 12.0,
    "capital": 3.0,
    "space": 4.0,
    "apostrophe": 4.0,
    "agreement": 8.0,
    "word form": 3.0,
    "word missing": 4.0,
    "tense": 6.0,
    "verb form": 6.0,
    "word choice": 3.0,
}
"""How often some kinds are drawn. Learners' essays, from which `reviser.data.english` has its
weights, have more commas and fewer confused words than what people write every day."""


@cache
def kinds() -> list[Kind]:
    """Return the kinds of mistakes, in the order in which they have always been drawn."""
    found = english.kinds(known_words(), inflected)
    names = [kind.name for kind in found]
    found.insert(names.index("pronoun"), Kind("word choice", 5.0, _word_choice))
    found += [Kind("listed", 12.0, _listed), Kind("time", 6.0, _time)]
    at = names.index("agreement")
    found[at:at] = [Kind("tense", 5.0, _tense), Kind("verb form", 4.0, _verb_form)]
    return [kind._replace(weight=EVERYDAY.get(kind.name, kind.weight)) for kind in found]
