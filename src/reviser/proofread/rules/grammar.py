"""Grammar that depends on the neighbouring words: a/an, verb forms, number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reviser.proofread.rules.kinds import Rule
from reviser.proofread.rules.text import Text
from reviser.proofread.suggestion import Suggestion

AN = Rule("a-an", "article", "'a' becomes 'an' before a vowel sound.")
A = Rule("a-an", "article", "'an' becomes 'a' before a consonant sound.")
BASE = Rule("base-form", "verb", "After '{aux}' the verb has its base form: '{new}'.")
PARTICIPLE = Rule("participle", "verb", "After 'have' the verb is a participle: '{new}'.")
NUMBER = Rule("noun-number", "agreement", "More than one: '{new}'.")
DEMONSTRATIVE = Rule("this-these", "agreement", "'{new}' agrees with the noun after it.")
DONT = Rule("dont", "punctuation", "'{new}' has an apostrophe.")
ITS = Rule("its-own", "word", "'its' is the possessive; 'it's' means 'it is'.")
PLURAL = Rule("plural-apostrophe", "punctuation", "A plural has no apostrophe: '{new}'.")

_LIKE_CONSONANT = re.compile(
    r"(?:uni(?:vers|t(?!im)|on|que|form|corn|cycl|sex|lat|son|fi|code|direc|pol|x|cell|ver|br)"
    r"|unanim|us(?:e|a[gb]|u)|ut(?:il|op)|ur(?:in|an[iu]|olog)|ubiq|uk|ufo|eu|ew|once\b|one\b"
    r"|one-|ouija|u-)"
)
_LIKE_VOWEL = re.compile(r"(?:hour|honest|honou?r|heir(?!l)|x-ray|x-rays)")
_PLAIN_H = frozenset(
    "house home horse hotel hospital high huge happy hard hat half hand head heart heavy help hero"
    " hill hobby hole holiday hope hot hundred husband healthy history human hamburger harmful".split()
)
_NO_NOUN = frozenset(
    "and is in or of as are at it if on i e o an am us our was were be to for with the a from by"
    " has have can will that this into about up out off only after also ii iii above et".split()
)
_LETTER_BEFORE = frozenset(
    "vitamin hepatitis type option group class grade plan appendix section figure part team point"
    " line an a the vs column row level series letter exhibit note category model variable".split()
)


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
            sure = text.words[n + 1].islower() or text.words[n + 1].isdigit()
            yield (AN if wanted == "an" else A).words(text, n, n, wanted, sure=sure)


def article(word: str) -> str:
    """Return "a" or "an" for a word by its first sound, or "" if both are in use.

    >>> [article(w) for w in ("hour", "university", "8", "MRI", "SQL", "historic", "umbrella")]
    ['an', 'a', 'an', 'an', '', '', 'an']
    """
    low = word.lower()
    if word[0].isdigit():
        if re.fullmatch(r"8\d*|8[\d,.]+\d|(?:11|18)(?:,\d+)?(?:th)?|8\d*(?:th|-\w+)", low):
            return "an"
        return "" if re.match(r"1[18]", low) else "a"
    if len(word) == 1:
        return ""
    if word.isupper():
        if set(word) & set("AEIOU") or word == "SQL" or not word.isalpha():
            return ""
        return "an" if word[0] in "FHLMNRSX" else "a"
    if not low.isascii() or (word[0].isupper() and low[:2] in ("eu", "ur", "ug", "uk", "on")):
        return ""
    if low[0] == "h":
        return "an" if _LIKE_VOWEL.match(low) else "a" if low in _PLAIN_H else ""
    if low[:3] in ("url", "xml", "sql", "mp3", "ssh", "nlp", "lcd", "led", "html") or "y" == low[0]:
        return "" if low[0] != "y" else "a" if len(low) > 2 else ""
    if low[0] in "aeiou":
        return "a" if _LIKE_CONSONANT.match(low) else "an"
    if _LIKE_VOWEL.match(low):
        return "an"
    return "a" if set(low[1:]) & set("aeiouy") else ""


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

_DO = frozenset("do does did don't doesn't didn't dont doesnt didnt".split())
_MODALS = frozenset(
    "can can't cannot could couldn't will won't would wouldn't should shouldn't must mustn't may"
    " might shall".split()
)
_HAVE = frozenset("have has had haven't hasn't hadn't having i've you've we've they've".split())
_SUBJECTS = frozenset("i you he she it we they".split())
_BETWEEN = frozenset("not never always also really just even still".split())
_NOT_VERBS = frozenset("found left felt saw thought fell lent wound bound ground shot bit".split())
_SAME_BASE = frozenset("need feed speed bleed exceed proceed succeed indeed hundred red bed".split())


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
        negated = text.low[n][-2:] == "nt" or text.low[n].endswith("n't") or text.next(n) == "not"
        sure = text.low[n] in _DO and negated and rest in PAST and rest not in _NOT_VERBS
        yield rule.words(text, m, m, *new, sure=sure and m - n == (text.next(n) == "not") + 1)


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
    if stem[-1] in "vzcusg" or (stem[-1] in "tdrkmp" and stem[-2] in "aiou" and stem[-3:-2] not in "aeiou"):
        return (stem + "e", stem)
    return (stem, stem + "e")


# -- number -----------------------------------------------------------------------------------

_COUNTS = frozenset(
    "two three four five six seven eight nine ten twelve twenty thirty forty fifty sixty hundred"
    " many several few these those various both different 2 3 4 5 6 7 8 9 10 12 15 20 24 30 40 50"
    " 60 100".split()
)
_NOUNS = frozenset(
    "year month day week hour minute second time thing person man woman child way problem question"
    " reason idea friend student teacher book word sentence page letter email message file photo"
    " picture movie film song game place country city town house room school class lesson language"
    " family parent brother sister son daughter kid boy girl dog cat animal bird tree flower car"
    " bus bike train plane ticket trip street road shop store restaurant hotel company job worker"
    " employee customer user client member product price dollar euro kilometer kilometre mile meter"
    " metre percent point part kind type sort form example case fact step rule law change mistake"
    " error test exam subject course activity sport hobby interest dream plan goal effect advantage"
    " disadvantage benefit problem solution opportunity option choice difference reason result"
    " opinion project report article story meeting party event team player computer phone machine"
    " device app program website server feature function option button issue bug test command tool"
    " color colour hand eye leg arm tooth foot bag box bottle cup glass plate chair table door"
    " window wall skill experience country culture tradition expert scientist doctor patient"
    " disease drug risk danger factor aspect element area region island park museum building".split()
)
_IRREGULAR = {"person": "people", "man": "men", "woman": "women", "child": "children",
              "tooth": "teeth", "foot": "feet", "percent": "percent"}
_PLURALS = {}


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


_PLURALS = {plural(noun): noun for noun in _NOUNS if plural(noun) != noun}
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
        if noun in (_PLURALS if text.low[n] in ("this", "that") else _NOUNS):
            yield DEMONSTRATIVE.words(text, n, n, _DEMONSTRATIVES[text.low[n]])
            other = _PLURALS.get(noun) or plural(noun)
            if text.low[n] in ("this", "that"):
                yield NUMBER_ONE.words(text, n + 1, n + 1, other)


NUMBER_ONE = Rule("noun-number", "agreement", "Only one: '{new}'.")


# -- words with an apostrophe -----------------------------------------------------------------

_DONT_AFTER = frozenset("i you we they people who please also and but so just really".split())


def apostrophes(text: Text) -> Iterator[Suggestion]:
    """Yield apostrophes that depend on the words around: "dont", "it's own", "photo's"."""
    for n in text.where(("dont",)):
        before = text.previous(n)
        if before in _DONT_AFTER or (not before and text.starts[n]):
            yield DONT.words(text, n, n, "don't", sure=text.words[n].islower())
        else:
            yield DONT.words(text, n, n, "don't", "doesn't")
    for n in text.where(("it's",)):
        if text.next(n) == "own":
            yield ITS.words(text, n, n, "its")
    for n in text.where(("its",)):
        if text.next(n) in ("a", "an", "the", "not", "been", "very", "too", "so", "really", "just"):
            yield ITS.words(text, n, n, "it's")
    for n, word in enumerate(text.low):
        if word.endswith("'s") and len(word) > 4 and not text.is_name(n):
            follows = text.next(n)
            if not follows or follows in _AFTER_PLURAL:
                yield PLURAL.words(text, n, n, text.words[n][:-2] + "s")


_AFTER_PLURAL = frozenset(
    "and or are were have of in on at for with to from that which who will can do don't is was"
    " but because when if we i they you".split()
)
