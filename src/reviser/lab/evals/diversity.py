"""Diversity of a system's texts, and how much they repeat themselves.

The measures count words, not the tokens of a model, so systems with different tokenizers are
comparable. All of these measures depend on the number and length of the texts: compare sets of
equal size. This module does not import torch.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from reviser.errors import DataError
from reviser.lab.evals import intervals
from reviser.lab.evals.intervals import Estimate
from reviser.lab.evals.texts import Sample

Words = Sequence[str]
Clusters = Sequence[str]

LONGEST = 4
"""Length of the n-grams of `repetition`."""

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


def ngrams(text: Words, n: int) -> Iterator[tuple[str, ...]]:
    """Yield the n-grams of a text."""
    return zip(*(islice(text, start, None) for start in range(n)), strict=False)
