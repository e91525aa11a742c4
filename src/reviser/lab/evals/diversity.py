"""Diversity of a system's texts, and how much they repeat themselves.

The measures count words, not the tokens of a model, so systems with different tokenizers are
comparable. All of these measures depend on the number and length of the texts: compare sets of
equal size. This module does not import torch.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from reviser.errors import DataError
from reviser.lab.evals import intervals
from reviser.lab.evals.intervals import Estimate
from reviser.lab.evals.texts import Sample

Words = Sequence[str]
Clusters = Sequence[str]
Highest = tuple[tuple[str, int], tuple[str, int]]
"""The two highest counts of an n-gram, each with its owner."""

LONGEST = 4
"""Length of the longest n-grams of BLEU and `repetition`."""
SMOOTHING = 0.1
"""BLEU's count where no n-gram of a length is shared, so that short texts do not get 0."""

_WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """Split a text into words and punctuation marks.

    >>> words("It's 3 p.m.")
    ['It', "'", 's', '3', 'p', '.', 'm', '.']
    """
    return _WORD.findall(text)


def diversity(samples: Sequence[Sample]) -> dict[str, Estimate]:
    """Return every measure of this module, for the continuations."""
    texts = [words(sample.continuation) for sample in samples]
    clusters = [sample.id for sample in samples]
    long_enough = [n for n, text in enumerate(texts) if len(text) >= LONGEST]
    report = {
        f"distinct_{n}": distinct(texts, n, clusters)
        for n in (1, 2, 3)
        if any(len(text) >= n for text in texts)
    }
    if len({*clusters}) > 1:
        report["self_bleu"] = intervals.mean(self_bleu(texts, clusters), clusters).within(0, 1)
    if long_enough:
        repeated = [repetition(texts[n]) for n in long_enough]
        found = intervals.mean(repeated, [clusters[n] for n in long_enough])
        report[f"repetition_{LONGEST}"] = found.within(0, 1)
    sizes = {
        "words": [len(text) for text in texts],
        "characters": [len(sample.continuation) for sample in samples],
    }
    for name, counts in sizes.items():
        report[name] = intervals.mean(counts, clusters).within(0, math.inf)
    return report


def distinct(texts: Sequence[Words], n: int, clusters: Clusters | None = None) -> Estimate:
    """Return the share of distinct n-grams among all n-grams (Li et al. 2016).

    A bootstrap draws texts twice and so repeats n-grams. The interval is therefore a jackknife's,
    which leaves out one cluster at a time.
    """
    groups: dict[str | int, Counter[tuple[str, ...]]] = {}
    for i, text in enumerate(texts):
        groups.setdefault(clusters[i] if clusters else i, Counter()).update(ngrams(text, n))
    total = sum(group.total() for group in groups.values())
    if not total:
        raise DataError(f"No text has {n} words, so there are no n-grams to count.")
    holders = Counter(gram for group in groups.values() for gram in group)
    without = []
    for group in groups.values():
        alone = sum(holders[gram] == 1 for gram in group)
        rest = total - group.total()
        if rest:
            without.append((len(holders) - alone) / rest)
    return intervals.jackknife(len(holders) / total, without).within(0, 1)


def repetition(text: Words, n: int = LONGEST) -> float:
    """Return the share of a text's n-grams that occurred in it before (Welleck et al. 2020).

    >>> repetition("a b a b a b".split(), 2)
    0.6
    """
    grams = list(ngrams(text, n))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def self_bleu(texts: Sequence[Words], clusters: Clusters | None = None) -> list[float]:
    """Return each text's BLEU with all others as references (Zhu et al. 2018); high means alike.

    Texts of one cluster are not compared: continuations of the same prompt are alike for its sake.
    Only the two highest counts of each n-gram are kept, so the cost is linear in the text.
    """
    owners = list(clusters) if clusters else [str(i) for i in range(len(texts))]
    if len(set(owners)) < 2:
        raise DataError("Self-BLEU compares texts of different prompts; give two or more.")
    best = [_two_highest(texts, owners, n) for n in range(1, LONGEST + 1)]
    lengths = _Lengths(texts, owners)
    return [
        _bleu(text, owner, best, lengths.nearest(len(text), owner))
        for text, owner in zip(texts, owners, strict=True)
    ]


def _two_highest(
    texts: Sequence[Words], owners: Clusters, n: int
) -> dict[tuple[str, ...], Highest]:
    """Return, for each n-gram, its highest count in one text and the highest of another owner."""
    nobody = ("", 0)
    found: dict[tuple[str, ...], Highest] = {}
    for text, owner in zip(texts, owners, strict=True):
        for gram, count in Counter(ngrams(text, n)).items():
            first, second = found.get(gram, (nobody, nobody))
            if owner == first[0]:
                first = (owner, max(count, first[1]))
            elif count > first[1]:
                first, second = (owner, count), first
            elif count > second[1]:
                second = (owner, count)
            found[gram] = (first, second)
    return found


def _elsewhere(highest: Highest, owner: str) -> int:
    first, second = highest
    return second[1] if first[0] == owner else first[1]


def _bleu(
    text: Words, owner: str, best: Sequence[dict[tuple[str, ...], Highest]], nearest: int
) -> float:
    total = 0.0
    for n, highest in enumerate(best, start=1):
        counts = Counter(ngrams(text, n))
        shared = sum(min(count, _elsewhere(highest[gram], owner)) for gram, count in counts.items())
        if n == 1 and not shared:
            return 0.0
        total += math.log((shared or SMOOTHING) / max(1, counts.total()))
    return math.exp(total / LONGEST + min(0.0, 1 - nearest / len(text)))


class _Lengths:
    """The lengths of texts, to find the nearest of another owner; of two, the shorter."""

    def __init__(self, texts: Sequence[Words], owners: Clusters) -> None:
        self._owners: dict[int, set[str]] = {}
        for text, owner in zip(texts, owners, strict=True):
            self._owners.setdefault(len(text), set()).add(owner)
        self._sorted = sorted(self._owners)

    def nearest(self, length: int, owner: str) -> int:
        index = bisect_left(self._sorted, length)
        up = (x for x in self._sorted[index:] if self._owners[x] != {owner})
        down = (x for x in reversed(self._sorted[:index]) if self._owners[x] != {owner})
        near = [x for side in (down, up) for x in islice(side, 1)]
        return min(near, key=lambda x: (abs(x - length), x))


def ngrams(text: Words, n: int) -> Iterator[tuple[str, ...]]:
    """Yield the n-grams of a text."""
    return zip(*(islice(text, start, None) for start in range(n)), strict=False)
