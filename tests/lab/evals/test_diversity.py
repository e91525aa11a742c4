"""Each measure against its definition, written the slow way."""

from __future__ import annotations

import math
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.errors import DataError
from reviser.lab.evals import diversity, intervals
from reviser.lab.evals.texts import Sample

word = st.sampled_from("abcd")
corpora = st.lists(st.lists(word, max_size=9), min_size=2, max_size=6)


def grams(text: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]


@given(corpora, st.integers(1, 4))
def test_distinct_and_repetition_are_their_definitions(texts: list[list[str]], n: int) -> None:
    every = [gram for text in texts for gram in grams(text, n)]
    if every:
        assert diversity.distinct(texts, n).value == len(set(every)) / len(every)
    else:
        with pytest.raises(DataError, match="No text has"):
            diversity.distinct(texts, n)
    for text in texts:
        found = grams(text, n)
        before = sum(gram in found[:i] for i, gram in enumerate(found))
        expected = before / len(found) if found else 0
        assert diversity.repetition(text, n) == pytest.approx(expected)


def test_the_jackknife_leaves_one_prompt_out_at_a_time() -> None:
    rng = Random(5)
    texts = [rng.choices("abcdef", k=8) for _ in range(12)]
    owners = [str(n // 2) for n in range(12)]
    estimate = diversity.distinct(texts, 2, owners)
    without = []
    for owner in sorted(set(owners)):
        rest = [t for t, name in zip(texts, owners, strict=True) if name != owner]
        without.append(diversity.distinct(rest, 2).value)
    assert estimate == intervals.jackknife(estimate.value, without)
    assert estimate.n == 6
    spread = math.sqrt(5 / 6 * sum((x - sum(without) / 6) ** 2 for x in without))
    assert estimate.high - estimate.value == pytest.approx(2.571 * spread, rel=1e-3)
    assert diversity.distinct(texts[:1], 2).high == 1


def test_a_report_holds_every_measure() -> None:
    lines = ["the cat sat on the mat", "the dog sat on the dog sat on the", "no", ""]
    samples = [
        Sample(system="s", id=str(n % 3), prompt="x", continuation=line)
        for n, line in enumerate(lines)
    ]
    report = diversity.diversity(samples)
    assert list(report) == [
        *("distinct_1", "distinct_2", "distinct_3"),
        *("repetition_4", "words", "characters"),
    ]
    assert report["words"].value == (6 + 9 + 1) / 4
    assert report["characters"].value == (22 + 33 + 2) / 4
    assert report["repetition_4"].value == pytest.approx((0 + 1 / 3) / 2)
    assert report["words"].n == 3
    assert report["words"].low == report["characters"].low == 0  # not less, with so few
    short = [Sample(system="s", id="1", prompt="", continuation="no")]
    assert list(diversity.diversity(short)) == ["distinct_1", "words", "characters"]


def test_what_needs_no_model_imports_no_torch() -> None:
    modules = [f"reviser.lab.evals.{name}" for name in ("texts", "diversity", "arena", "report")]
    code = f"import sys, {', '.join(modules)}, reviser.lab.evals.judges; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "sklearn"} & {*run.stdout.split()}
