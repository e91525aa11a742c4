"""Capitals: at the start of a sentence, "I", days and months, peoples and places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reviser.proofread.rules.kinds import Rule
from reviser.proofread.rules.text import Text
from reviser.proofread.suggestion import Suggestion

SENTENCE = Rule("sentence-capital", "capital", "A sentence starts with a capital letter.")
PARAGRAPH = Rule("first-capital", "capital", "A text starts with a capital letter.")
PRONOUN = Rule("lone-i", "capital", "'I' is always written with a capital letter.")
DATE = Rule("date-capital", "capital", "Days and months are written with a capital letter.")
NAME = Rule("name-capital", "capital", "Names of peoples, languages and places have a capital.")

STARTERS = frozenset(
    "the this that these those it he she they we you there but and so if when while although"
    " because after before since as in on at for from to with however therefore moreover also"
    " first firstly second secondly third finally then now today my your his her its our their"
    " what who how why where which some many most all one no not please thanks thank yes maybe"
    " another every each nobody everyone everybody people is are do does did can could would will"
    " i'm i've i'll i'd it's that's there's let's don't sometimes usually unfortunately".split()
)
"""Words that start a sentence, and are no names, units or commands."""
ABBREVIATIONS = frozenset(
    "etc eg ie vs mr mrs ms dr prof st no nr fig figs eq vol pp cf al approx inc ltd co corp dept"
    " est min max hrs sec ca resp incl excl jan feb mar apr jun jul aug sep sept oct nov dec mon"
    " tue wed thu fri sat sun jr sr rev gen col capt lt sgt ave blvd rd ext tel ed eds trans chap"
    " ch art op cit ibid viz a.m p.m am pm".split()
)
_STOPPED = re.compile(r"(?P<stop>[.!?])[)\"\u201d]?(?: {1,2}|\n)[\"\u201c(]?\Z")

DAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
MONTHS = frozenset("january february april june july september october november december".split())
_PLURAL_DAYS = frozenset(day + "s" for day in DAYS)
_DATE_BEFORE = frozenset("in of on until till since by from early late mid last next this".split())

PEOPLES = frozenset(
    "english american british european african asian australian canadian french german italian"
    " spanish portuguese russian chinese japanese korean arabic hindi mexican brazilian greek"
    " egyptian irish scottish welsh austrian belgian swiss norwegian finnish hungarian romanian"
    " bulgarian ukrainian thai vietnamese indonesian malaysian pakistani iranian iraqi israeli"
    " moroccan nigerian kenyan ethiopian cuban colombian argentinian chilean peruvian venezuelan"
    " christian muslim jewish buddhist catholic islamic christmas halloween ramadan".split()
)
PLACES = frozenset(
    "england america europe africa asia australia canada france germany italy spain portugal"
    " russia india korea mexico brazil greece egypt ireland scotland austria belgium switzerland"
    " norway sweden denmark finland hungary romania bulgaria ukraine thailand vietnam indonesia"
    " malaysia singapore pakistan iran iraq israel morocco nigeria kenya ethiopia cuba colombia"
    " argentina peru venezuela london paris berlin rome madrid moscow beijing tokyo sydney chicago"
    " california florida texas boston washington".split()
)
_COMMON = frozenset("fries toast doors door windows press horn leave kiss dressing salad".split())
"""After these a people's name is often a common word, as in "french fries"."""

_NOT_PRONOUN = frozenset("in is and or to of th e j k n x y as equals a the i for".split())


def capitals(text: Text) -> Iterator[Suggestion]:
    """Yield missing capitals."""
    yield from _sentences(text)
    yield from _paragraphs(text)
    yield from _pronouns(text)
    yield from _dates(text)
    yield from _names(text)


def _capital(text: Text, n: int) -> str:
    return text.words[n][0].upper() + text.words[n][1:]


def _sentences(text: Text) -> Iterator[Suggestion]:
    for n in range(1, len(text)):
        if not text.words[n][0].islower() or not text.low[n]:
            continue
        match = _STOPPED.search(text.gap(n))
        line = text.line_of[n]
        if not match or line is not text.line_of[n - 1]:
            continue
        before = text.low[n - 1]
        if len(before) < 2 or before in ABBREVIATIONS or before[-1].isdigit():
            continue
        words = _is_inside(text, n, 3)
        sure = (
            text.low[n] in STARTERS
            and line.is_sentence
            and words
            and len(text.gap(n).strip()) == 1
            and match["stop"] != "!"
            and text.words[n - 1].islower()
        )
        yield SENTENCE.words(text, n, n, _capital(text, n), sure=sure)


def _is_inside(text: Text, n: int, count: int) -> bool:
    """Return whether some words before and after a word belong to the same line."""
    line = text.line_of[n]
    return (
        n >= count
        and n + count <= len(text)
        and text.line_of[n - count] is line
        and text.line_of[n + count - 1] is line
        and not any(text.starts[n - count + 1 : n])
    )


def _paragraphs(text: Text) -> Iterator[Suggestion]:
    last = None
    is_stopped = True
    for n, line in enumerate(text.line_of):
        if line is last:
            continue
        is_first = not text.text[line.start : text.start[n]].strip(" \t\n\"'\u201c\u2018(")
        is_lower = text.words[n][0].islower() and bool(text.low[n])
        if line.is_sentence and is_first and is_lower:
            sure = line.ends and line.is_alone and is_stopped and text.low[n] in STARTERS
            yield PARAGRAPH.words(text, n, n, _capital(text, n), sure=sure)
        last, is_stopped = line, line.ends or not line.is_sentence


def _pronouns(text: Text) -> Iterator[Suggestion]:
    for n in text.where(("i", "i'm", "i've", "i'll", "i'd")):
        word = text.words[n]
        if word[0] != "i":
            continue
        new = "I" + word[1:]
        if len(word) > 1:
            yield PRONOUN.words(text, n, n, new, sure=True)
            continue
        before = text.text[text.start[n] - 1 : text.start[n]] if text.start[n] else " "
        follows = text.next(n)
        if before not in " \n\"'\u201c\u2018" or text.after(n) in (".", ")", "="):
            continue
        sure = len(follows) > 1 and follows not in _NOT_PRONOUN and follows.isalpha()
        sure = sure and text.previous(n) not in ("for", "index", "variable", "type", "part")
        yield PRONOUN.words(text, n, n, new, sure=sure)


def _dates(text: Text) -> Iterator[Suggestion]:
    for n in text.where(DAYS | MONTHS | _PLURAL_DAYS):
        if text.words[n][0].islower():
            yield DATE.words(text, n, n, _capital(text, n), sure=True)
    for n in text.where(("march", "may", "august", "wednesdays")):
        near = text.next(n)[:1].isdigit() or text.previous(n)[:1].isdigit()
        if text.words[n][0].islower() and (near or text.previous(n) in _DATE_BEFORE):
            yield DATE.words(text, n, n, _capital(text, n))


def _names(text: Text) -> Iterator[Suggestion]:
    for n in text.where(PEOPLES | PLACES):
        if text.words[n][0].islower() and text.next(n) not in _COMMON:
            yield NAME.words(text, n, n, _capital(text, n), sure=True)
