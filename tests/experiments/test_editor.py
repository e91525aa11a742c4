"""The measurements of the language server."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from experiments.editor import cost
from reviser.markup import locked_spans

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("words", [500, 5_000])
def test_a_measured_document_has_its_size_and_its_mistakes(words: int) -> None:
    text = cost.document(words, 5)
    assert 0.8 * words < len(text.split()) <= words + 10
    assert text.count("teh") == 6
    assert text.endswith(f"\n\n{cost.END}\n")
    locked = {n for span in locked_spans(text, "markdown") for n in range(*span)}
    places = cost.targets(text, random.Random(0))
    assert places
    assert all(text.startswith("the ", place) and place not in locked for place in places)
