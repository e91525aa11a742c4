"""Sentences and lines: nothing is lost between them, and wrapped lines share a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.markup.sentences import LONGEST, UnitKind, unit_spans

TEXTS = st.lists(
    st.sampled_from(["A cat", "mr", ".", "! ", " ", "\n", "\r\n", "\t", "。", "x" * 60, "1. ",
                     "”", "\u2028"])
).map("".join)  # fmt: skip


@given(TEXTS, st.sampled_from(["sentence", "line"]))
def test_all_text_is_in_one_unit(text: str, kind: UnitKind) -> None:
    spans = unit_spans(text, kind)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(edges)
    last = 0
    for start, end in [*spans, (len(text), len(text))]:
        assert not text[last:start].strip()
        last = end
    assert all(text[start:end].strip() for start, end in spans)
    assert kind == "line" or all(end - start <= LONGEST for start, end in spans)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("One. Two! Three? “Four.” Five", ["One.", "Two!", "Three?", "“Four.”", "Five"]),
        ("Mr. Fox met J. Doe, e.g. here. Yes.", ["Mr. Fox met J. Doe, e.g. here.", "Yes."]),
        ("It is 3.5 m. and so on.", ["It is 3.5 m. and so on."]),
        ("1. One.\n2. Two.", ["1. One.", "2. Two."]),
        ("- One\n- Two\n  more", ["- One", "- Two", "more"]),
        ("x" * 49 + " goes\non here.\nNo", ["x" * 49 + " goes\non here.", "No"]),
        ("x" * 50 + "\n- item", ["x" * 50, "- item"]),
        ("今天。明天。", ["今天。", "明天。"]),
        ("a " * 600, [("a " * 500).strip(), ("a " * 100).strip()]),
        ("y" * 1500, ["y" * 1000, "y" * 500]),
    ],
)
def test_sentences(text: str, units: list[str]) -> None:
    assert [text[start:end] for start, end in unit_spans(text, "sentence")] == units


def test_lines_keep_their_indentation() -> None:
    text = "if x:\r\n    y = 1\r\n\r\n  \r\nz\n"
    assert [text[a:b] for a, b in unit_spans(text, "line")] == ["if x:", "    y = 1", "z"]
