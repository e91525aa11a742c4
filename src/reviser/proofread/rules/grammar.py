"""Grammar that depends on the neighbouring words: a/an, verb forms, number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reviser.proofread.rules.kinds import Rule
from reviser.proofread.rules.text import Text
from reviser.proofread.rules.words import words
from reviser.proofread.suggestion import Suggestion

AN = Rule("a-an", "article", "'a' becomes 'an' before a vowel sound.")
A = Rule("a-an", "article", "'an' becomes 'a' before a consonant sound.")
BASE = Rule("base-form", "verb form", "After '{aux}' the verb has its base form: '{new}'.")
PARTICIPLE = Rule("participle", "verb form", "After 'have' the verb is a participle: '{new}'.")
NUMBER = Rule("noun-number", "agreement", "More than one: '{new}'.")
DEMONSTRATIVE = Rule("this-these", "agreement", "'{new}' agrees with the noun after it.")
DONT = Rule("apostrophe", "punctuation", "It is written '{new}'.")
ITS = Rule("its-own", "word choice", "'its' is the possessive; 'it's' means 'it is'.")
PLURAL = Rule("plural-apostrophe", "punctuation", "A plural has no apostrophe: '{new}'.")

_LIKE_CONSONANT = re.compile(
    r"(?:uni(?!n|m|dent|ss|rr)"
    r"|unanim|us(?:e|a[gb]|u)|ut(?:il|op)|ur(?:in|an[iu]|olog)|ubiq|uk|ufo|eu|ew|once\b|ones?\b"
    r"|one-|ouija|u-)"
)
_LIKE_VOWEL = re.compile(r"(?:hour|honest|honou?r|heir(?!l)|x-ray|x-rays)")
_PLAIN_H = words("plain-h")
_NO_NOUN = words("no-noun")
_ARTICLE_AFTER = words("article-after")
_SPELLED = words("spelled")
_LETTER_BEFORE = words("letter-before")


def a_or_an(text: Text) -> Iterator[Suggestion]:
    """Yield "a" before a vowel sound and "an" before a consonant sound."""
    for n in text.where(("a", "an")):
        word = text.words[n]
        if n + 1 >= len(text) or not text.next(n) or text.previous(n) in _LETTER_BEFORE:
            continue
        if word not in ("a", "an", "A", "An") or (word == "A" and not text.starts[n]):
            continue
        if text.after(n + 1) == "'" or text.next(n) in _NO_NOUN:
            continue
        wanted = article(text.words[n + 1])
        if wanted and wanted != text.low[n]:
            follows = text.words[n + 1]
            sure = follows.islower() or follows.isdigit()
            if wanted == "a":  # elsewhere "an" may stand for "and"
                sure = sure and text.previous(n) in _ARTICLE_AFTER
            yield (AN if wanted == "an" else A).words(text, n, n, wanted, sure=sure)


def article(word: str) -> str:
    """Return "a" or "an" for a word by its first sound, or "" if both are in use.

    >>> [article(w) for w in ("hour", "university", "8", "MRI", "SQL", "historic", "umbrella")]
    ['an', 'a', 'an', 'an', '', '', 'an']
    """
    low = word.lower()
    if word[0].isdigit():
        if not re.fullmatch(r"\d[\d,.]*(?:th|rd|nd|st|%|-\w+)?", low):
            return ""
        if re.fullmatch(r"8\d*|8[\d,.]+\d|(?:11|18)(?:,\d+)?(?:th)?|8\d*(?:th|-\w+)", low):
            return "an"
        return "" if re.match(r"1[18]", low) else "a"
    if len(word) == 1:
        return ""
    if word.isupper():
        return _article_of_letters(word)
    if low.startswith(("europ", "ukrain")):
        return "a"
    if not low.isascii() or (word[0].isupper() and low[:2] in ("eu", "ur", "ug", "on")):
        return ""
    if low[0] == "h":
        return "an" if _LIKE_VOWEL.match(low) else "a" if low in _PLAIN_H else ""
    if low[:3] in ("url", "xml", "sql", "mp3", "ssh", "nlp", "lcd", "led", "html") or low[0] == "y":
        return "" if low[0] != "y" else "a" if len(low) > 2 else ""
    if low[0] in "aeiou":
        return "a" if _LIKE_CONSONANT.match(low) else "an"
    if _LIKE_VOWEL.match(low):
        return "an"
    return "a" if set(low[1:]) & set("aeiouy") else ""


def _article_of_letters(word: str) -> str:
    """Return "a" or "an" for an acronym; "" if it may be read as letters or as a word."""
    if not word.isalpha() or word in ("SQL", "URL") or len(word) > 5:
        return ""
    if word[0] in "BCDGJKPQTVWYZ":
        return "a"
    is_spelled = not set(word) & set("AEIOU") or word in _SPELLED
    if word[0] in "AI" or (is_spelled and word[0] in "EFHLMNORSX"):
        return "an"
    return "a" if is_spelled and word[0] == "U" else ""


# -- verbs ------------------------------------------------------------------------------------

_VERBS = """\
be was/were been|begin began begun|bite bit bitten|blow blew blown|break broke broken|bring brought
|build built|buy bought|catch caught|choose chose chosen|come came come|do did done
|draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed
|feel felt|fight fought|find found|fly flew flown|forget forgot forgotten|forgive forgave forgiven
|freeze froze frozen|get got|give gave given|go went gone|grow grew grown|have had|hear heard
|hide hid hidden|hold held|keep kept|know knew known|leave left|lend lent|lose lost|make made
|mean meant|meet met|pay paid|ride rode ridden|ring rang rung|rise rose risen|run ran run|say said
|see saw seen|sell sold|send sent|shake shook shaken|shoot shot|show showed shown|sing sang sung
|sink sank sunk|sit sat|sleep slept|speak spoke spoken|spend spent|stand stood|steal stole stolen
|swim swam swum|take took taken|teach taught|tear tore torn|tell told|think thought
|throw threw thrown|understand understood|wake woke woken|wear wore worn|win won
|write wrote written|become became become"""
PAST: dict[str, str] = {}
"""The base of each irregular past tense and participle."""
PARTICIPLES: dict[str, str] = {}
"""The participle of each past tense that is none itself."""
for _verb in _VERBS.replace("\n", "").split("|"):
    _base, _past, *_rest = _verb.split()
    for _form in (*_past.split("/"), *_rest):
        if _form != _base:
            PAST.setdefault(_form, _base)
    if _rest:
        PARTICIPLES.update(dict.fromkeys(_past.split("/"), _rest[0]))

_DO = words("do")
_MODALS = words("modals")
_HAVE = words("have")
_SUBJECTS = words("subjects")
_BETWEEN = words("between")
_NOT_VERBS = words("not-verbs")
_SAME_BASE = words("same-base")


def verb_forms(text: Text) -> Iterator[Suggestion]:
    """Yield past tenses after "did" or "can", and after "have" where a participle is needed."""
    for n in text.where(_DO | _MODALS | {"to"} | _HAVE):
        m, rest = _verb_after(text, n)
        if not rest:
            continue
        if text.low[n] in _HAVE:
            if rest in PARTICIPLES and rest not in ("was", "were"):
                yield PARTICIPLE.words(text, m, m, PARTICIPLES[rest])
            continue
        new = _bases(rest)
        if not new:
            continue
        rule = Rule(BASE.name, BASE.category, BASE.message.replace("{aux}", text.words[n]))
        yield rule.words(text, m, m, *new)


def _verb_after(text: Text, n: int) -> tuple[int, str]:
    """Return the number and the word of the verb after an auxiliary, or (0, "")."""
    is_have = text.low[n] in _HAVE or text.low[n] == "to"
    for step in (1, 2, 3):
        word = text.next(n, step)
        if word in _BETWEEN or (word in _SUBJECTS and step == 1 and not is_have):
            continue
        return n + step, word
    return 0, ""


def _bases(word: str) -> tuple[str, ...]:
    """Return what the base of a past tense, or of a third person, may be."""
    if word in PAST:
        return (PAST[word],)
    if word in ("does", "goes", "has", "is", "are", "am"):
        return ({"does": "do", "goes": "go", "has": "have"}.get(word, "be"),)
    if len(word) < 5 or word in _SAME_BASE or not word.endswith("ed") or word.endswith("eed"):
        return ()
    stem = word[:-2]
    if stem[-1] == "i":
        return (stem[:-1] + "y",)
    if stem[-1] == stem[-2] and stem[-1] not in "ls":
        return (stem[:-1],)
    if stem[-1] in "vzcusg" or (
        stem[-1] in "tdrkmp" and stem[-2] in "aiou" and stem[-3:-2] not in "aeiou"
    ):
        return (stem + "e", stem)
    return (stem, stem + "e")


# -- number -----------------------------------------------------------------------------------

_COUNTS = words("counts")
_NOUNS = words("nouns")
_IRREGULAR = {
    "person": "people",
    "man": "men",
    "woman": "women",
    "child": "children",
    "tooth": "teeth",
    "foot": "feet",
    "percent": "percent",
}
_PLURALS = {}


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun.endswith(("s", "x", "ch", "sh", "tomato", "potato", "hero", "echo")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


_PLURALS = {plural(noun): noun for noun in _NOUNS if plural(noun) != noun}
_LIKE_PLURAL = re.compile(r"[^s](?:ions|ments|ists|ities|ings)\Z")
_DEMONSTRATIVES = {"this": "these", "that": "those", "these": "this", "those": "that"}


def number(text: Text) -> Iterator[Suggestion]:
    """Yield nouns and demonstratives that disagree in number."""
    for n in text.where(_COUNTS):
        for m in (n + 1, n + 2):
            noun = text.next(n, m - n)
            if noun in _NOUNS and plural(noun) != noun:
                sure = False
                yield NUMBER.words(text, m, m, plural(noun), sure=sure)
                break
    for n in text.where(("one", "some", "most", "all")):
        if text.next(n) == "of" and text.next(n, 2) in ("the", "my", "our", "your", "his", "her"):
            for step in (3, 4):
                noun = text.next(n, step)
                if noun in _NOUNS and plural(noun) != noun:
                    yield NUMBER.words(text, n + step, n + step, plural(noun))
                    break
    for n in text.where(_DEMONSTRATIVES):
        noun = text.next(n)
        is_one = text.low[n] in ("this", "that")
        if noun in (_PLURALS if is_one else _NOUNS) or (is_one and _LIKE_PLURAL.search(noun)):
            yield DEMONSTRATIVE.words(text, n, n, _DEMONSTRATIVES[text.low[n]])
            if noun in _PLURALS:
                yield NUMBER_ONE.words(text, n + 1, n + 1, _PLURALS[noun])


NUMBER_ONE = Rule("noun-number", "agreement", "Only one: '{new}'.")


# -- words with an apostrophe -----------------------------------------------------------------

_AFTER_IM = words("after-im")
_BEFORE_CANT = words("before-cant")
_DONT_AFTER = words("dont-after")


def apostrophes(text: Text) -> Iterator[Suggestion]:
    """Yield apostrophes that depend on the words around: "dont", "it's own", "photo's"."""
    for n in text.where(("dont",)):
        before = text.previous(n)
        if before in _DONT_AFTER or (not before and text.starts[n]):
            yield DONT.words(text, n, n, "don't", sure=text.words[n].islower())
        else:
            yield DONT.words(text, n, n, "don't", "doesn't")
    for n in text.where(("im", "cant")):
        is_im = text.low[n] == "im"  # "im" is also German, and a cant is a slope and a jargon
        sure = text.next(n) in _AFTER_IM if is_im else text.previous(n) in _BEFORE_CANT
        new = "I'm" if is_im else "can't"
        yield DONT.words(text, n, n, new, sure=sure and text.words[n].islower())
    for n in text.where(("it's",)):
        if text.next(n) == "own":
            yield ITS.words(text, n, n, "its")
    for n in text.where(("its",)):
        if text.next(n) in ("a", "an", "the", "not", "been", "very", "too", "so", "really", "just"):
            yield ITS.words(text, n, n, "it's")
    for n, word in enumerate(text.low):
        if word[:-2] in _IRREGULAR.values():  # "children's"
            continue
        if word.endswith("'s") and len(word) > 4 and not text.is_name(n):
            # "the paper's." and "the table's 0.42" leave out a noun.
            follows = text.next(n)
            if follows in _AFTER_PLURAL or (not follows and text.previous(n) != "the"):
                yield PLURAL.words(text, n, n, plural(text.words[n][:-2]))


_AFTER_PLURAL = words("after-plural")
