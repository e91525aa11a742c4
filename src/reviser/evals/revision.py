"""How well a text was revised: what was mended, what was left alone, what both come to.

A source, what a system made of it (the hypothesis) and what people made of it (the references)
come in as strings; counts of each text come out, and scores are functions of stacked counts. So
`intervals.bootstrap(gleu_score, rows)` has an interval of one system, and
`bootstrap(lambda a, b: gleu_score(a) - gleu_score(b), ours, theirs)` one of a paired difference.
Knows nothing of models, sets of data or tokenizers: GLEU, SARI and edits read words with spaces
between them, as they are, capitals included, so tokenise first; locality reads any text. No torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reviser.errors import DataError
from reviser.evals import intervals
from reviser.evals.intervals import Estimate

Floats = npt.NDArray[np.float64]
Gram = tuple[str, ...]

LONGEST = 4
"""Words in the longest n-gram, of GLEU and of SARI."""

ONE, EXCHANGE = 10, 11
"""What leaving a word out or putting one in costs, and exchanging one for another: hardly more."""

_PIECE = re.compile(r"\w+|\s+|[^\w\s]")


def revision(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    clusters: intervals.Clusters = None,
) -> dict[str, Estimate]:
    """Every measure of this room, of tokenised texts."""
    _check(sources, hypotheses, references)
    texts = list(zip(sources, hypotheses, references, strict=True))
    grams = gleu_rows(sources, hypotheses, references)
    edits = edit_rows(sources, hypotheses, references)
    kept = np.array([locality(*text) for text in texts], np.float64)
    equal = [exact_match(hypothesis, ours) for _, hypothesis, ours in texts]
    report = {
        "gleu": intervals.bootstrap(gleu_score, grams, clusters=clusters),
        "sari": intervals.mean([sari(*text) for text in texts], clusters).within(0, 1),
    }
    for name, score in (
        ("edit_precision", edit_precision),
        ("edit_recall", edit_recall),
        ("edit_f", edit_f),
    ):
        report[name] = intervals.bootstrap(score, edits, clusters=clusters)
    if kept[:, 1].any():
        share = intervals.ratio_of_means(kept[:, 0], kept[:, 1], clusters)
        report["locality"] = share.within(0, 1)
    report["exact_match"] = intervals.share(equal, clusters)
    return report


def exact_match(hypothesis: str, references: Sequence[str]) -> bool:
    """Whether the text is one of the references, but for the size of its spaces."""
    return hypothesis.split() in [reference.split() for reference in references]


# -- GLEU -----------------------------------------------------------------------------------------


def gleu(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """GLEU for corrections, 0 to 1, of all texts together (Napoles et al. 2015; 2016).

    >>> round(gleu(["a b c d e"], ["a b c d f"], [["a b c d f"]]), 3)
    1.0
    """
    return gleu_score(gleu_rows(sources, hypotheses, references))


def gleu_rows(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Floats:
    """What GLEU counts in each text, averaged over its references.

    The published score is the mean over 500 draws of one reference for each sentence. Ours has the
    references' mean in place of a draw: nothing random, and a sum over texts, so it can be
    resampled. On JFLEG the two differ by less than 0.1 of 100.
    """
    _check(sources, hypotheses, references)
    return np.array(
        [
            np.mean([gleu_counts(source, hypothesis, reference) for reference in ours], axis=0)
            for source, hypothesis, ours in zip(sources, hypotheses, references, strict=True)
        ]
    )


def gleu_counts(source: str, hypothesis: str, reference: str) -> list[int]:
    """Points and n-grams for n = 1 to 4, then the words of the hypothesis and of the reference.

    An n-gram of the hypothesis earns a point where the reference has it, and loses one where only
    the source has it: it should have been changed. The authors' program and so all published
    figures take "only" to mean not once in the reference, where their formula compares counts.
    """
    texts = [text.split() for text in (source, hypothesis, reference)]
    points, sizes = [], []
    for n in range(1, LONGEST + 1):
        before, ours, theirs = (Counter(_ngrams(text, n)) for text in texts)
        stale = Counter({gram: count for gram, count in before.items() if gram not in theirs})
        points.append(max(0, (ours & theirs).total() - (ours & stale).total()))
        sizes.append(ours.total())
    return [*points, *sizes, len(texts[1]), len(texts[2])]


def gleu_score(rows: Floats) -> float:
    """The geometric mean of the shares of points, less a penalty for brevity; 0 if one is 0."""
    total = np.asarray(rows).sum(0)
    points, sizes, (ours, theirs) = total[:LONGEST], total[LONGEST:-2], total[-2:]
    if not points.all():
        return 0.0
    brevity = min(0.0, 1 - theirs / ours)
    return float(np.exp(np.log(points / sizes).mean() + brevity))


# -- SARI -----------------------------------------------------------------------------------------


def sari(source: str, hypothesis: str, references: Sequence[str]) -> float:
    """SARI of one text, 0 to 1 (Xu et al. 2016): the mean of adding, keeping and deleting well.

    F1 of n-grams added and kept, precision of those deleted, each for n = 1 to 4 and then averaged,
    as in the authors' program. An n-gram in half of the references counts half when it is kept or
    deleted, and fully when it is added. Where there was nothing to do and nothing was done, that
    is right: 1, and not 0 as in the authors' program. Hugging Face's also gives 1 where nothing was
    deleted and something should have been, so that leaving texts alone looks good; ours gives 0.

    >>> sari("a b", "a b", ["a b"])
    1.0
    """
    _check([source], [hypothesis], [references])
    texts = [source.split(), hypothesis.split(), *(text.split() for text in references)]
    return float(np.mean([_sari_of(texts, n) for n in range(1, LONGEST + 1)]))


def _sari_of(texts: Sequence[Sequence[str]], n: int) -> list[float]:
    """Adding, keeping and deleting n-grams of one length; counts are times the references."""
    many = len(texts) - 2
    before, ours, *others = (Counter(_ngrams(text, n)) for text in texts)
    theirs = sum(others, Counter[Gram]())
    new, wanted = set(ours) - set(before), set(theirs) - set(before)
    before, ours = (Counter({g: many * c for g, c in held.items()}) for held in (before, ours))
    kept, keepable = before & ours, before & theirs
    gone, stale = before - ours, before - theirs
    well_kept = (kept & theirs).total()
    return [
        _f(_part(len(new & wanted), len(new)), _part(len(new & wanted), len(wanted))),
        _f(_part(well_kept, kept.total()), _part(well_kept, keepable.total())),
        _part((gone & stale).total(), gone.total()) if gone else float(not stale),
    ]


# -- edits ----------------------------------------------------------------------------------------


class Edit(NamedTuple):
    """Words of the source and what is in their place."""

    start: int
    end: int
    words: Gram


def edits_between(source: str, revised: str) -> list[Edit]:
    """The edits that lead from one tokenised text to the other.

    Stretches between the words that stay (see `aligned`); as many words for as many are that many
    edits. One rule for hypotheses and references, no linguistics: these are
    not ERRANT's edits and the scores are not comparable with its.

    >>> edits_between("he go to school", "he went to the school")
    [Edit(start=1, end=2, words=('went',)), Edit(start=3, end=3, words=('the',))]
    """
    old, new = source.split(), revised.split()
    edits, i, j = [], 0, 0
    for a, b in [*aligned(old, new), (len(old), len(new))]:
        if a - i == b - j:
            edits += [Edit(i + k, i + k + 1, (new[j + k],)) for k in range(a - i)]
        elif (a, b) != (i, j):
            edits.append(Edit(i, a, tuple(new[j:b])))
        i, j = a + 1, b + 1
    return edits


class EditCounts(NamedTuple):
    """Edits of a hypothesis that are right, all of them, and those of the reference."""

    right: int
    made: int
    wanted: int


def edit_counts(
    source: str, hypothesis: str, references: Sequence[str], beta: float = 0.5
) -> EditCounts:
    """A text's edits, span and words equal, against the reference that it does best by.

    Best by this text's own F; then the one with most edits right, then with fewest wanted.
    """
    _check([source], [hypothesis], [references])
    made = set(edits_between(source, hypothesis))
    found = []
    for reference in references:
        wanted = set(edits_between(source, reference))
        found.append(EditCounts(len(made & wanted), len(made), len(wanted)))
    return max(found, key=lambda row: (edit_f(np.array([row]), beta), row.right, -row.wanted))


def edit_rows(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Floats:
    """The counts of each text."""
    _check(sources, hypotheses, references)
    texts = zip(sources, hypotheses, references, strict=True)
    return np.array([edit_counts(*text) for text in texts], np.float64)


def edit_precision(rows: npt.NDArray[Any]) -> float:
    """The share of edits made that are right; 1 where none is made."""
    right, made, _ = rows.sum(0)
    return _part(right, made)


def edit_recall(rows: npt.NDArray[Any]) -> float:
    """The share of edits wanted that are made; 1 where none is wanted."""
    right, _, wanted = rows.sum(0)
    return _part(right, wanted)


def edit_f(rows: npt.NDArray[Any], beta: float = 0.5) -> float:
    """Precision and recall in one; a beta of 0.5 weighs precision twice as much."""
    return _f(edit_precision(rows), edit_recall(rows), beta)


@dataclass(frozen=True, kw_only=True)
class Annotated:
    """A sentence of an M2 file, and what each of its annotators makes of it."""

    source: str
    references: tuple[str, ...]


def read_m2(path: Path) -> list[Annotated]:
    """The sentences of an M2 file with their corrections made.

    An annotator who has no line for a sentence is none of its references; where nobody has one,
    the sentence stays as it is. Of several corrections of one edit the first is made.
    """
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    return [_annotated(block.strip().splitlines(), str(path)) for block in blocks]


def _annotated(lines: Sequence[str], place: str) -> Annotated:
    if not lines or lines[0][:1] != "S" or any(line[:2] != "A " for line in lines[1:]):
        raise DataError(f"{place}: a block of M2 is a line S and lines A; got {lines[:2]}.")
    words = lines[0][2:].split()
    edits: dict[str, list[Edit]] = {}
    for line in lines[1:]:
        span, kind, correction, *_, annotator = line[2:].split("|||")
        start, end = map(int, span.split())
        mine = edits.setdefault(annotator, [])
        if kind != "noop":
            mine.append(Edit(start, end, tuple(correction.split("||")[0].split())))
    made = [_applied(words, mine) for mine in edits.values()]
    return Annotated(source=" ".join(words), references=tuple(made) or (" ".join(words),))


def _applied(words: Sequence[str], edits: Sequence[Edit]) -> str:
    """The words with the edits made, from the last to the first so that places hold."""
    made, ordered = list(words), sorted(edits, key=lambda edit: edit[:2])
    for start, end, correction in ordered[::-1]:
        made[start:end] = correction
    return " ".join(made)


# -- locality -------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """Bytes of the source that should stay and do, and all that should stay."""

    bytes: int
    of: int

    @property
    def share(self) -> float:
        """1 where nothing should stay."""
        return _part(self.bytes, self.of)


def locality(source: str, hypothesis: str, references: Sequence[str]) -> Kept:
    """How much of what a reference leaves alone the hypothesis leaves alone, too.

    By whole words, marks and spaces (see `untouched`), weighed by their bytes of UTF-8: whoever
    mends a word otherwise than the reference has not gone beyond its place. Of several references
    it is the one that the hypothesis does best by, then the one that leaves most alone. The share
    is 1 if and only if every such piece stays.

    >>> locality("He go home.", "She go home!", ["He goes home."])
    Kept(bytes=6, of=9)
    """
    _check([source], [hypothesis], [references])
    sizes = [len(piece.encode()) for piece in _PIECE.findall(source)]
    left = untouched(source, hypothesis)
    found = []
    for reference in references:
        asked = untouched(source, reference)
        found.append(Kept(sum(sizes[i] for i in asked & left), sum(sizes[i] for i in asked)))
    return max(found, key=lambda kept: (kept.share, kept.of))


def untouched(source: str, revised: str) -> set[int]:
    """Which words, marks and stretches of spaces of the source are still there, by number.

    By the same alignment as edits. A space stays only beside something else that stays,
    in both texts, since any space is like any other.
    """
    old, new = _PIECE.findall(source), _PIECE.findall(revised)
    pairs = aligned(old, new)
    solid = {(i, j) for i, j in pairs if not old[i].isspace()}
    return {
        i for i, j in pairs if (i, j) in solid or (i - 1, j - 1) in solid or (i + 1, j + 1) in solid
    }


# -- the parts ------------------------------------------------------------------------------------


def aligned(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Which items stay, as rising pairs of places, if as few as can be are changed.

    Of two ways with as many changes, the one that keeps more is taken.

    >>> aligned("abcd", "acxd")
    [(0, 0), (2, 1), (3, 3)]
    """
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    ends = len(old) - tail, len(new) - tail
    return [
        *((n, n) for n in range(head)),
        *((head + i, head + j) for i, j in _by_table(old[head : ends[0]], new[head : ends[1]])),
        *((ends[0] + n, ends[1] + n) for n in range(tail)),
    ]


def _by_table(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The usual table of edit distances, a row at a time, and the way back through it."""
    codes: dict[Hashable, int] = {}
    mine, theirs = (
        np.array([codes.setdefault(item, len(codes)) for item in items], np.int32)
        for items in (old, new)
    )
    put_in = ONE * np.arange(len(new) + 1, dtype=np.int32)
    table = np.empty((len(old) + 1, len(new) + 1), np.int32)
    table[0] = put_in
    for i, item in enumerate(mine):
        row = table[i] + ONE
        np.minimum(row[1:], table[i, :-1] + EXCHANGE * (theirs != item), out=row[1:])
        table[i + 1] = np.minimum.accumulate(row - put_in) + put_in
    pairs, i, j = [], len(old), len(new)
    while i and j:
        stays = mine[i - 1] == theirs[j - 1]
        if table[i, j] == table[i - 1, j - 1] + (0 if stays else EXCHANGE):
            i, j = i - 1, j - 1
            if stays:
                pairs.append((i, j))
        elif table[i, j] == table[i - 1, j] + ONE:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _check(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> None:
    if not len(sources) == len(hypotheses) == len(references) > 0:
        raise DataError(
            f"There are {len(sources)} sources, {len(hypotheses)} hypotheses and references of"
            f" {len(references)}; give as many of each, and at least one."
        )
    for number, ours in enumerate(references):
        if isinstance(ours, str) or not ours:
            raise DataError(f"Text {number} needs a list of one or more references; got {ours!r}.")


def _part(part: float, whole: float) -> float:
    """A share; 1 of nothing."""
    return float(part / whole) if whole else 1.0


def _f(precision: float, recall: float, beta: float = 1.0) -> float:
    square = beta * beta
    below = square * precision + recall
    return (1 + square) * precision * recall / below if below else 0.0


def _ngrams(text: Sequence[str], n: int) -> Iterator[Gram]:
    return zip(*(islice(text, start, None) for start in range(n)), strict=False)
