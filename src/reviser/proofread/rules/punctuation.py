"""Stops, commas and spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reviser.proofread.rules.kinds import Rule
from reviser.proofread.rules.text import ABBREVIATIONS, Text
from reviser.proofread.rules.words import words
from reviser.proofread.suggestion import Suggestion

FINAL_STOP = Rule("final-stop", "punctuation", "A sentence ends with a full stop.")
STOP = Rule("missing-stop", "punctuation", "A new sentence may begin here.")
SPLICE = Rule("comma-splice", "punctuation", "Two sentences are joined by a comma only.")
QUESTION = Rule("question-mark", "punctuation", "A question ends with a question mark.")
INTRO = Rule("intro-comma", "punctuation", "An introductory word is followed by a comma.")
CLAUSE = Rule("clause-comma", "punctuation", "A comma separates two clauses.")
SPACE_BEFORE = Rule("space-before", "spacing", "No space before a punctuation mark.")
SPACE_AFTER = Rule("space-after", "spacing", "A space follows a punctuation mark.")
REPEATED = Rule("repeated-mark", "punctuation", "The punctuation mark is written twice.")

_PRONOUNS = words("pronouns")
_SUBJECTS = _PRONOUNS | words("clause-subjects")
_NO_STOP_AFTER = words("no-stop-after")
_SUBORDINATES = words("subordinates")
_INTRO = words("intro")
_INTRO_PHRASES = {
    "for": ("example", "instance", "me"),
    "in": (
        "conclusion",
        "fact",
        "addition",
        "general",
        "summary",
        "short",
        "particular",
        "contrast",
        "reality",
        "other words",
        "my opinion",
        "my view",
        "my case",
        "my country",
        "this case",
        "the past",
        "the end",
        "the future",
        "addition to that",
        "recent years",
        "this way",
        "the beginning",
        "the morning",
    ),
    "on": ("the other hand", "the one hand", "the contrary", "the weekend", "weekends"),
    "as": ("a result", "a consequence", "you know", "far as i know", "a child", "usual"),
    "first": ("of all",),
    "second": ("of all",),
    "last": ("but not least", "week", "year", "month"),
    "of": ("course",),
    "after": ("that", "all", "this"),
    "at": (
        "first",
        "last",
        "the same time",
        "the moment",
        "that time",
        "the end",
        "the beginning",
        "least",
    ),
    "to": ("sum up", "conclude", "begin with", "start with", "be honest", "my mind"),
    "by": ("the way",),
    "these": ("days",),
    "from": ("my point of view", "then on", "now on"),
    "because": ("of this", "of that"),
    "apart": ("from this", "from that"),
    "until": ("now", "then"),
    "since": ("then",),
    "so": ("far",),
    "all": ("in all",),
    "one": ("day",),
    "this": ("year", "week", "time"),
    "next": ("year", "week", "month"),
    "every": ("day", "year", "time"),
    "what": ("is more",),
}
_QUESTION = words("question")
_AUX = words("aux")
_ASKS = words("asks")
_BEFORE = re.compile(r"(?<=[^\W_])[ \u00a0]+([,;!?]|\.(?!\.|\w))(?=\s|\Z)")
_AFTER = re.compile(
    r"(?<=[a-z])([,;!?])(?=[A-Za-z]{2})|(?<=[a-z]{3})\.(?=[A-Z][a-z]*\b)|(?<=[a-z]),(?=I\b)"
)
_REPEATED = re.compile(r"(?<=\w)(,,+|;;+|::+|\.\.(?!\.)|,\.|\.,)(?=\s|\Z)")


def punctuation(text: Text) -> Iterator[Suggestion]:
    """Yield missing and wrong punctuation."""
    yield from _spaces(text)
    yield from _final(text)
    yield from _within(text)


def _spaces(text: Text) -> Iterator[Suggestion]:
    for match in _BEFORE.finditer(text.text):
        yield SPACE_BEFORE.span(text, match.start(), match.start(1), "", sure=False)
    for match in _AFTER.finditer(text.text):
        yield SPACE_AFTER.span(text, match.start(), match.end(), match[0] + " ")
    for match in _REPEATED.finditer(text.text):
        yield REPEATED.span(text, match.start(), match.end(), match[0][0], ".")


def _final(text: Text) -> Iterator[Suggestion]:
    """Yield stops at the end of lines that are sentences, and question marks."""
    first = [n for n in range(len(text)) if not n or text.line_of[n] is not text.line_of[n - 1]]
    for n, after in zip(first, [*first[1:], len(text)], strict=False):
        line = text.line_of[n]
        end = text.end[after - 1]
        if line.is_sentence and not line.ends and not text.text[end : line.end].strip():
            mark = "?" if text.low[n] in _ASKS else "."
            yield FINAL_STOP.span(text, end, end, mark, "?" if mark == "." else ".")
    yield from _questions(text)


def _questions(text: Text) -> Iterator[Suggestion]:
    """Yield full stops after questions."""
    starts = [n for n in range(len(text)) if text.starts[n]]
    for n, after in zip(starts, [*starts[1:], len(text)], strict=False):
        is_question = (text.low[n] in _QUESTION and text.next(n) in _AUX) or (
            text.low[n] in _ASKS and text.next(n) in _PRONOUNS
        )
        is_question = is_question or (text.low[n] == "how" and text.next(n, 2) in _AUX)
        if is_question and after - n > 2 and text.after(after - 1) == ".":
            end = text.end[after - 1]
            yield QUESTION.span(text, end, end + 1, "?")


def _within(text: Text) -> Iterator[Suggestion]:
    """Yield commas and stops that may be missing within a line."""
    opened = commas = 0
    for n in range(len(text)):
        line = text.line_of[n]
        if text.starts[n]:
            opened, commas = n, 0
            if line.is_sentence or line.is_item:
                yield from _introductions(text, n)
            continue
        gap = text.gap(n)
        if "," in gap or ";" in gap or ":" in gap:
            commas += 1
            if gap == ", " and text.low[n] in _PRONOUNS and n - opened > 2 and line.is_sentence:
                word = text.words[n]
                new = ". " + word[0].upper() + word[1:]
                yield SPLICE.span(text, text.end[n - 1], text.end[n], new)
            continue
        if gap != " " or not line.is_sentence or n - opened < 3:
            continue
        yield from _between(text, n, text.low[opened] in _SUBORDINATES and not commas)


def _between(text: Text, n: int, is_subordinate: bool) -> Iterator[Suggestion]:
    """Yield what may be missing between a word and the one before it."""
    word, before, follows = text.low[n], text.low[n - 1], text.next(n)
    end = text.end[n - 1]
    if word == "but" or (word in ("so", "and", "or", "yet") and follows in _SUBJECTS):
        if before not in ("nothing", "anything", "ever", "and"):
            yield CLAUSE.span(text, end, end, ",")
    elif word in ("which", "because", "although", "however", "too", "please", "then", "while"):
        if word in ("which", "however", "although", "while") and before not in _NO_STOP_AFTER:
            yield CLAUSE.span(text, end, end, ",")
    elif word in _SUBJECTS and is_subordinate and before not in _NO_STOP_AFTER:
        yield CLAUSE.span(text, end, end, ",")
    elif (
        text.words[n][0].isupper()
        and word in _SUBJECTS
        and before not in _NO_STOP_AFTER
        and before not in ABBREVIATIONS
        and not (text.words[n - 1][0].isupper() and word != "i" and len(before) > 4)
    ):
        yield STOP.span(text, end, end, ".", ",")


def _introductions(text: Text, n: int) -> Iterator[Suggestion]:
    word = text.low[n]
    last = n if word in _INTRO else -1
    for phrase in _INTRO_PHRASES.get(word, ()):
        rest = phrase.split(" ")
        if [text.next(n, step + 1) for step in range(len(rest))] == rest:
            last = n + len(rest)
    if (
        last >= 0
        and last + 1 < len(text)
        and text.next(last) in _SUBJECTS | {"a", "some", "many", "people"}
    ):
        yield INTRO.span(text, text.end[last], text.end[last], ",")
