"""Listed misspellings, words that are confused, doubled words, British and American spelling."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, TypeAlias

from reviser.proofread.rules.kinds import Rule
from reviser.proofread.rules.tables import confusions, dialects, misspellings
from reviser.proofread.rules.text import Text
from reviser.proofread.suggestion import Suggestion

Dialect: TypeAlias = Literal["auto", "british", "american"]

MISSPELLING = Rule("misspelling", "spelling", "'{old}' is a misspelling of '{new}'.")
CONFUSION = Rule("confused-word", "word", "'{old}' and '{new}' are often confused.")
DOUBLED = Rule("doubled-word", "repetition", "The word is written twice.")
DIALECT = Rule("dialect", "spelling", "The rest of the text is not spelled this way: '{new}'.")

NEVER_TWICE = frozenset(
    "the a an of to and for with we they my your this be from by or but not if can its our their at"
    " are was were which what i as into would could should will has than then when because"
    " about there these those some any every also only".split()
)
"""Words that are written twice by mistake only."""
TWICE = frozenset(
    "had that very very really so much no more bye ha blah long many far never well now yes hey"
    " hello please her is do does did had ok okay old big again on in it you there hi la na pooh"
    " tut knock chop tick quick low higher deep round less wee hear go dear poor time dum one two"
    " click ho hum hush holy aye boo test bla cha aha haha oh ah ooh so-so tsk yeah nah".split()
)
"""Words that may be written twice."""

NEVER = frozenset(
    "the and with not by which from for been was one's between man cell thus most see being long"
    " people person government new yet night used use uses number look help power seen thing came"
    " come began begin become became among until information present produce product free move"
    " movement production work works human national nation political young youth response mail"
    " hear watch wish till near dear full end find fined poor years men knight increase increasing"
    " death child children kind these this they he him she way our feet presence various main"
    " able ability view related social society increased".split()
)
"""Words that others are mistaken for, and that are too frequent to be asked about themselves."""
ADJECTIVES = frozenset(
    "much many few little big small large late early loud hard easy expensive cheap long short good"
    " bad difficult fast slow slowly quickly cold hot warm high low tired busy old young far often"
    " soon strict heavy noisy crowded dangerous complicated simple strong weak close deep wide dark"
    " bright dry wet full empty sick ill sad happy lazy shy nervous afraid proud poor rich great".split()
)
BE = frozenset("is are was were will has have would may might can".split())
ONLY_BEFORE = {
    "to": ADJECTIVES | {""},
    "an": frozenset("the i he she we they it you then so".split()),
    "his": frozenset("a an the not been going very so really always never just also".split()),
    "their": frozenset(
        "is are was were will has have would may might can not a going no still very also".split()
    ),
}
"""Where a frequent word may be a mistake for another: before these, or elsewhere not."""
ONLY_AFTER = {
    "of": frozenset(
        "get gets got getting take takes took taking turn turns turned turning fall falls fell cut"
        " set put pay paid show day drop dropped log logged switch switched call called break broke"
        " run ran come came lay laid send sent jump jumped far well better kick kicked drove".split()
    ),
    "one": frozenset("i he she we they who team has have had".split()),
    "no": frozenset("i you we they to don't didn't not let dont didnt could would who".split()),
    "that": frozenset("more less rather other better worse".split()),
    "them": frozenset("and since by back".split()),
    "know": frozenset("right until from till even just and there is are by".split()),
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
            yield MISSPELLING.words(text, n, n, right, sure=True)


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


_SHARED = frozenset("program programs license licenses meter meters".split())
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
