"""Scores of revised texts: GLEU, precision and recall of edits, and locality.

Inputs are strings: a source, a system's revision of it (the hypothesis) and people's revisions (the
references). Each text becomes a row of counts, and a score is a function of stacked rows. So
`intervals.bootstrap(gleu_score, rows)` gives the interval of one system, and `bootstrap(lambda a,
b: gleu_score(a) - gleu_score(b), ours, theirs)` that of a paired difference. GLEU and edits split
words at spaces and are case-sensitive, so tokenize first; locality takes any text. This module
knows nothing about models, datasets or tokenizers, and does not import torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reviser.errors import DataError
from reviser.lab.evals import intervals
from reviser.lab.evals.diversity import ngrams
from reviser.lab.evals.intervals import Estimate
from reviser.lab.evals.word_edits import edits_between as edits_between
from reviser.lab.evals.word_edits import pieces, untouched

Floats = npt.NDArray[np.float64]

LONGEST = 4
"""Length of the longest n-grams of GLEU."""


def revision(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    clusters: intervals.Clusters = None,
) -> dict[str, Estimate]:
    """Return every score of this module, for tokenized texts."""
    _check(sources, hypotheses, references)
    texts = list(zip(sources, hypotheses, references, strict=True))
    grams = gleu_rows(sources, hypotheses, references)
    edits = edit_rows(sources, hypotheses, references)
    kept = np.array([locality(*text) for text in texts], np.float64)
    equal = [exact_match(hypothesis, ours) for _, hypothesis, ours in texts]
    report = {
        "gleu": intervals.bootstrap(gleu_score, grams, clusters=clusters).within(0, 1),
    }
    for name, score in (
        ("edit_precision", edit_precision),
        ("edit_recall", edit_recall),
        ("edit_f", edit_f),
    ):
        report[name] = intervals.bootstrap(score, edits, clusters=clusters).within(0, 1)
    if kept[:, 1].any():
        share = intervals.ratio_of_means(kept[:, 0], kept[:, 1], clusters)
        report["locality"] = share.within(0, 1)
    report["exact_match"] = intervals.share(equal, clusters)
    return report


def exact_match(hypothesis: str, references: Sequence[str]) -> bool:
    """Return whether the text is one of the references, apart from the width of spaces."""
    return hypothesis.split() in [reference.split() for reference in references]


# -- GLEU -----------------------------------------------------------------------------------------


def gleu(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """Compute GLEU for corrections, 0 to 1, over all texts together (Napoles et al. 2015; 2016).

    >>> round(gleu(["a b c d e"], ["a b c d f"], [["a b c d f"]]), 3)
    1.0
    """
    return gleu_score(gleu_rows(sources, hypotheses, references))


def gleu_rows(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Floats:
    """Return the counts of GLEU for each text, averaged over its references.

    The published score is the mean over 500 draws of one reference per sentence. This one averages
    the references instead: it is not random, and a sum over texts, so it can be resampled. On JFLEG
    the two differ by less than 0.1 of 100.
    """
    _check(sources, hypotheses, references)
    return np.array(
        [
            np.mean([gleu_counts(source, hypothesis, reference) for reference in ours], axis=0)
            for source, hypothesis, ours in zip(sources, hypotheses, references, strict=True)
        ]
    )


def gleu_counts(source: str, hypothesis: str, reference: str) -> list[int]:
    """Count points and n-grams for n = 1 to 4, then words of the hypothesis and the reference.

    An n-gram of the hypothesis earns a point where the reference has it, and loses one where only
    the source has it: it should have been changed. Here "only" means not once in the reference, as
    in the authors' program and so in all published figures; their formula compares counts.
    """
    texts = [text.split() for text in (source, hypothesis, reference)]
    points, sizes = [], []
    for n in range(1, LONGEST + 1):
        before, ours, theirs = (Counter(ngrams(text, n)) for text in texts)
        stale = Counter({gram: count for gram, count in before.items() if gram not in theirs})
        points.append(max(0, (ours & theirs).total() - (ours & stale).total()))
        sizes.append(ours.total())
    return [*points, *sizes, len(texts[1]), len(texts[2])]


def gleu_score(rows: Floats) -> float:
    """Return the geometric mean of the shares of points, with a brevity penalty; 0 if one is 0."""
    total = np.asarray(rows).sum(0)
    points, sizes, (ours, theirs) = total[:LONGEST], total[LONGEST:-2], total[-2:]
    if not points.all():
        return 0.0
    brevity = min(0.0, 1 - theirs / ours)
    return float(np.exp(np.log(points / sizes).mean() + brevity))


# -- edits ----------------------------------------------------------------------------------------


class EditCounts(NamedTuple):
    """Counts of the correct edits, all edits of the hypothesis, and those of the reference."""

    right: int
    made: int
    wanted: int


def edit_counts(
    source: str, hypothesis: str, references: Sequence[str], beta: float = 0.5
) -> EditCounts:
    """Count edits with equal span and words, against the best of the references.

    The best reference has the highest F of this text, then most correct edits, then fewest edits.
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
    """Return the edit counts of each text."""
    _check(sources, hypotheses, references)
    texts = zip(sources, hypotheses, references, strict=True)
    return np.array([edit_counts(*text) for text in texts], np.float64)


def edit_precision(rows: npt.NDArray[Any]) -> float:
    """Return the share of the edits made that are correct; 1 if none is made."""
    right, made, _ = rows.sum(0)
    return _part(right, made)


def edit_recall(rows: npt.NDArray[Any]) -> float:
    """Return the share of the edits wanted that are made; 1 if none is wanted."""
    right, _, wanted = rows.sum(0)
    return _part(right, wanted)


def edit_f(rows: npt.NDArray[Any], beta: float = 0.5) -> float:
    """Return F-beta of precision and recall; a beta of 0.5 weighs precision twice as much."""
    return _f(edit_precision(rows), edit_recall(rows), beta)


# -- locality -------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """Bytes of the source that are rightly kept, and all that should be kept."""

    bytes: int
    of: int

    @property
    def share(self) -> float:
        """The share of bytes kept; 1 if none should be."""
        return _part(self.bytes, self.of)


def locality(source: str, hypothesis: str, references: Sequence[str]) -> Kept:
    """Measure how much of the text that a reference leaves alone the hypothesis leaves alone too.

    The unit is a whole word, mark or space (see `untouched`), weighted by its UTF-8 bytes. So a
    different correction of the same word costs nothing. With several references, the one with the
    highest share counts, then the one that leaves most alone. The share is 1 if and only if every
    such piece is kept.

    >>> locality("He go home.", "She go home!", ["He goes home."])
    Kept(bytes=6, of=9)
    """
    _check([source], [hypothesis], [references])
    sizes = [len(piece.encode()) for piece in pieces(source)]
    left = untouched(source, hypothesis)
    found = []
    for reference in references:
        asked = untouched(source, reference)
        found.append(Kept(sum(sizes[i] for i in asked & left), sum(sizes[i] for i in asked)))
    return max(found, key=lambda kept: (kept.share, kept.of))


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
    """Return a share, which is 1 for an empty whole."""
    return float(part / whole) if whole else 1.0


def _f(precision: float, recall: float, beta: float = 1.0) -> float:
    square = beta * beta
    below = square * precision + recall
    return (1 + square) * precision * recall / below if below else 0.0
