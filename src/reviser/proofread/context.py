"""Suggest what the words around a word ask for: prepositions of time, verb forms, agreement.

These kinds look further than the counts of three words in `ngrams.py`, so counts do not leave
anything out. Like those of `lists.py`, they are for a language model to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from reviser.proofread.line import Line, Options
from reviser.proofread.words import (
    ADJECTIVE,
    ADVERB,
    AUXILIARY,
    BASE,
    BE,
    DETERMINERS,
    DO,
    HAVE,
    ING,
    MODAL,
    NOUN,
    PAST,
    PLURAL,
    THIRD,
    VERB,
    families,
    listed,
)

DAYS = frozenset(listed("monday tuesday wednesday thursday friday saturday sunday"))
MONTHS = frozenset(
    listed("january february march april may june july august september october november december")
)
DURATIONS = frozenset(
    f"{word}{end}"
    for word in listed("second minute hour day week month year decade century")
    for end in ("", "s")
) | {"ages", "centuries"}
COUNTS = frozenset(
    listed(
        "a an one two three four five six seven eight nine ten twelve twenty thirty forty fifty"
        " several many few some couple half"
    )
)
APPROXIMATE = frozenset(listed("about nearly almost over only more than the last past a around"))
AFTER_ORDINAL = MONTHS | {".", ",", "?", "!"}
"""What shows that "the 4th" is a day: not "the 4th attempt"."""
YEAR = re.compile(r"(?:1[5-9]|20)\d\d")


def time_preposition(line: Line, i: int) -> Iterator[Options]:
    """Suggest the preposition that a day, a month, a year or a length of time asks for."""
    word, following, second, third, *rest = [*line.words[i : i + 7], *4 * [""]]
    if word in ("in", "at", "on"):
        is_date = following.isdigit() and second in MONTHS
        is_date |= following in MONTHS and second.isdigit() and not YEAR.fullmatch(second)
        if following == "the" and third in ("st", "nd", "rd", "th"):
            is_date = rest[1 if rest[0] == "of" else 0] in AFTER_ORDINAL
        if following in DAYS or is_date:
            wanted = "on"
        elif following in MONTHS or YEAR.fullmatch(following):
            wanted = "in"
        elif following.isdigit() and second in ("am", "pm", "o'clock"):
            wanted = "at"
        else:
            return
        if word != wanted:
            yield i, i + 1, [(wanted,)]
    elif word in ("since", "during", "from"):
        after = [following, second, third, *rest]
        while after[0] in APPROXIMATE and len(after) > 2:
            after.pop(0)
        count, unit = after[:2]
        if unit in DURATIONS and after[2:3] != ["ago"] and (count in COUNTS or count.isdigit()):
            yield i, i + 1, [("for",)]
    elif (
        word == "for"
        and (following in DAYS | MONTHS or YEAR.fullmatch(following))
        # Not "planned for Monday", but "we have lived here for 2010".
        and not {"have", "has", "had", "been"}.isdisjoint(line.words[max(0, i - 8) : i])
    ):
        yield i, i + 1, [("since",)]


# -- "to" and "-ing" ----------------------------------------------------------------------------

BEFORE_ING = frozenset(
    listed("of for by without before after about from despite while when in at on than instead")
)
"""Words after which a verb ends in -ing."""
BEFORE_TO = frozenset(listed("of for by without despite from"))
"""Words after which a verb has no "to"."""
TO_ING = frozenset(
    listed(
        "forward accustomed opposed addition committed dedicated object objected prior key due led"
        " lead leads approach thanks way close regard respect commitment contribute contributed"
        " compared similar devoted"
    )
)
"""Words after which "to" is a preposition."""


@cache
def _forms(verbs: str) -> frozenset[str]:
    """Return all forms of some verbs."""
    return frozenset(
        form for verb in listed(verbs) for family in families("v").get(verb, ()) for form in family
    ) | frozenset(listed(verbs))


WITH_ING = (
    "enjoy avoid finish suggest mind keep consider recommend practise practice miss risk deny"
    " imagine quit admit dislike delay postpone involve resist"
)
WITH_TO = (
    "want decide hope plan agree refuse offer need promise manage expect seem afford wish fail"
    " arrange choose intend tend pretend hesitate learn ask threaten"
)


def to_or_ing(line: Line, i: int) -> Iterator[Options]:
    """Suggest the form of a verb that the word before it asks for."""
    word, before, first = line.words[i], line.words[i - 1], line.words[i - 2]
    if not line.tags[i] & (BASE | ING) or word in AUXILIARY:
        return
    is_only_verb = not line.tags[i] & (NOUN | PLURAL | ADJECTIVE | ADVERB)
    for base, _, _, _, ing in families("v").get(word, ()):
        if "-" in (base, ing) or word not in (base, ing):
            continue
        if word == base:
            is_used = first == "used" and line.words[i - 3] in (*BE, "get", "got", "getting")
            if before == "to" and (first in TO_ING or is_used):
                yield i, i + 1, [(ing,)]
            elif before == "to" and (first in BEFORE_TO or first in _forms(WITH_ING)):
                yield i - 1, i + 1, [(ing,)]
            elif before in _forms(WITH_ING) or (before in BEFORE_ING and is_only_verb):
                yield i, i + 1, [(ing,)]
        elif before in _forms(WITH_TO):
            yield i, i + 1, [("to", base)]
        elif before == "for" and line.tags[i - 2] & (VERB | ADJECTIVE):
            yield i - 1, i + 1, [("to", base)]
        elif before == "to" and is_only_verb and first not in TO_ING | {"used"}:
            yield i, i + 1, [(base,)]


# -- agreement ----------------------------------------------------------------------------------

ONE = frozenset(
    listed(
        "he she it this everyone everybody everything someone somebody something anyone"
        " anybody anything nobody nothing each neither"
    )
)
MANY = frozenset(listed("they we you these those both many several few people"))
EITHER = frozenset(
    listed("rest majority couple half number lot police data fish sheep family team staff")
)
"""Subjects that may be one or many."""
OF_ONE = frozenset(listed("one each either neither every"))
JOINS = frozenset(listed("of in on at for with from to about by between near under over"))
SINGULAR = {"are": "is", "were": "was", "have": "has", "do": "does", "don't": "doesn't"}
MANY_OF = {one: many for many, one in SINGULAR.items()} | {"am": "are"}
SUBJECTS = ONE | MANY | {"i", "who", "which", "them"}
NO_VERB_AFTER = frozenset((*MODAL, *DO, *JOINS, "to", "not", "n't", "'s", ".", ",")) | (
    DETERMINERS - SUBJECTS
)
REACH = 7
"""Words between a subject and its verb that are looked at."""


def agreement(line: Line, i: int) -> Iterator[Options]:
    """Suggest the form of a verb that agrees with its subject, also with words between them."""
    word = line.words[i]
    is_known = word in SINGULAR or word in MANY_OF
    if not is_known and not _is_verb(line, i):
        return
    is_question = word in AUXILIARY and line.words[i + 1] in SUBJECTS
    if is_question or line.words[i - 2] in (*DO, *MODAL):
        return
    if line.words[i - 1] == "i" and line.words[i - 2] in ("and", "or", "nor"):
        return
    if line.words[i - 1] == "i":
        if word in ("is", "are", "has") or line.tags[i] & THIRD:
            own = {"is": "am", "are": "am", "has": "have"}.get(word)
            bases = [family[0] for family in families("v").get(word, ()) if family[1] == word]
            yield i, i + 1, [(own,)] if own else [(base,) for base in bases]
        return
    wanted = _number(line, i)
    if wanted == "one" and word in SINGULAR:
        yield i, i + 1, [(SINGULAR[word],)]
    elif wanted == "many" and word in MANY_OF:
        yield i, i + 1, [(MANY_OF[word],)]
    elif word not in AUXILIARY and not line.tags[i] & PAST:
        for base, third, *_ in families("v").get(word, ()):
            if wanted == "one" and word == base != third:
                yield i, i + 1, [(third,)]
            elif wanted == "many" and word == third != base:
                yield i, i + 1, [(base,)]


def _is_verb(line: Line, i: int) -> bool:
    """Return whether a word that may be a verb in the present is one, by the word before it."""
    tags, before = line.tags[i], line.words[i - 1]
    if not tags & (BASE | THIRD) or before in NO_VERB_AFTER or line.tags[i - 1] & ADJECTIVE:
        return False
    if before in SUBJECTS:  # not "he still", "this tool"
        return not tags & (ADVERB | ADJECTIVE) and not (before in ("this", "each") and tags & NOUN)
    return not tags & (NOUN | PLURAL | ADJECTIVE | ADVERB)


def _number(line: Line, i: int) -> str:
    """Return whether the subject of a verb is "one" or "many"; "" if that cannot be seen."""
    j = i - 1
    while j > i - 3 and line.tags[j] == ADVERB:
        j -= 1
    word = line.words[j]
    if word in ONE | MANY:
        return "one" if word in ONE else "many"
    head = j
    # "The walls in this building is": the subject stands before the first preposition.
    for k in range(j, max(1, i - REACH), -1):
        if line.words[k] in JOINS and k < j:
            head = k - 1
        elif not line.tags[k] & (NOUN | PLURAL) and line.words[k] not in DETERMINERS:
            break
    if line.words[head] in EITHER:
        return ""
    if line.words[head] in OF_ONE:
        return "one"
    if line.words[head - 1] == "and" or line.words[head - 2] == "and":
        return "many"
    bits = line.tags[head] & (NOUN | PLURAL)
    return {NOUN: "one", PLURAL: "many"}.get(bits, "")


# -- tense --------------------------------------------------------------------------------------

THEN = frozenset(listed("yesterday ago"))
LAST = frozenset(listed("week month year night summer winter spring autumn time weekend")) | DAYS
ENDS = frozenset((".", "?", "!", ";"))
FAR, AROUND = 40, 30
"""Words of a sentence, and beside it, that are looked at."""


def tense(line: Line, i: int) -> Iterator[Options]:
    """Suggest the past where the sentence is about the past, and the perfect with "since"."""
    word, tags = line.words[i], line.tags[i]
    present_be = {"is": "was", "are": "were", "am": "was", "has": "had", "do": "did", "does": "did",
                  "can": "could", "will": "would"}  # fmt: skip
    low, high = _sentence(line, i)
    words = line.words[low:high]
    if word in present_be:
        if _is_past(line, low, high, i):
            yield i, i + 1, [(present_be[word],)]
        return
    if word in HAVE and _dates(words):
        for _, _, past, participle, _ in families("v").get(line.words[i + 1], ()):
            if line.words[i + 1] == participle and past != "-":
                yield i, i + 2, [(past,)]
    if tags & PAST or word in AUXILIARY or not _is_verb(line, i):
        return
    for base, _, past, participle, ing in families("v").get(word, ()):
        if "-" in (base, past, participle, ing):
            continue
        if _dates(words) or _is_past(line, low, high, i):
            yield i, i + 1, [(past,)]
        if _lasts(words):
            have = "has" if line.words[i - 1] in ONE or tags & THIRD else "have"
            yield i, i + 1, [(have, participle), (have, "been", ing)]


def _sentence(line: Line, i: int) -> tuple[int, int]:
    """Return the bounds of the sentence of a token, as far as it is looked at."""
    low, high = i, i
    while low > max(0, i - FAR) and line.words[low - 1] not in ENDS:
        low -= 1
    while high < min(len(line.words), i + FAR) and line.words[high] not in ENDS:
        high += 1
    return low, high


def _dates(words: Sequence[str]) -> bool:
    """Return whether a sentence says when something was."""
    if not THEN.isdisjoint(words):
        return True
    return any(
        (one == "last" and two in LAST) or (one == "in" and YEAR.fullmatch(two))
        for one, two in pairwise(words)
    )


def _lasts(words: Sequence[str]) -> bool:
    """Return whether a sentence says how long something has been so."""
    triples = zip(words, words[1:], words[2:], strict=False)
    return "since" in words or any(
        one == "for" and (two in COUNTS or two.isdigit()) and three in DURATIONS
        for one, two, three in triples
    )


def _is_past(line: Line, low: int, high: int, i: int) -> bool:
    """Return whether the other verbs of a sentence, or of those beside it, are in the past."""
    past = present = 0
    for n in range(max(2, low - AROUND), min(len(line.words) - 2, high + AROUND)):
        word, tags = line.words[n], line.tags[n]
        if n == i:
            continue
        if word in ("was", "were", "had", "did") or (
            tags & PAST and not tags & (BASE | NOUN) and line.words[n - 1] not in (*BE, *HAVE)
        ):
            past += 1
        elif word in ("is", "are", "am", "has", "does"):
            present += 1
    return past > 1 + 2 * present
