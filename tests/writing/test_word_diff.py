"""The word diff: it makes the new text, spares what is locked, and changes few words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.markup.spans import Span, joined, touched
from reviser.writing.word_diff import Hunk, changes_from, rewritten

WORDS = st.lists(st.sampled_from(["a", "of", "cat", "Cat's", " ", "  ", "\n", ".", ",", "é", "x"]))
TEXTS = WORDS.map("".join)


@st.composite
def locked_texts(draw: st.DrawFn) -> tuple[str, list[Span]]:
    text = draw(TEXTS)
    ends = st.integers(0, len(text))
    spans = draw(st.lists(st.tuples(ends, ends).map(sorted), max_size=4))
    return text, joined((a, b) for a, b in spans)


def is_allowed(hunk: Hunk, locked: list[Span]) -> bool:
    """What `touched` says, character by character."""
    inside = {n for start, end in locked for n in range(start, end)}
    between = {n for start, end in locked for n in range(start + 1, end)}
    return inside.isdisjoint(range(hunk.start, hunk.end)) and hunk.start not in between


@given(TEXTS, TEXTS)
def test_without_locks_the_new_text_comes_out(old: str, new: str) -> None:
    fits, refused = rewritten(old, (0, len(old)), new, [], keeps_lines=False)
    assert refused == []
    assert changes_from(old, fits).text == new


@given(TEXTS, TEXTS)
def test_a_space_may_stand_for_a_line_end(old: str, new: str) -> None:
    fits, _ = rewritten(old, (0, len(old)), new, [], keeps_lines=True)
    assert changes_from(old, fits).text.split() == new.split()
    same, _ = rewritten(old, (0, len(old)), " ".join(old.split()), [], keeps_lines=True)
    inner = changes_from(old, same).text
    assert inner.strip() == old.strip()


@given(locked_texts(), TEXTS, st.booleans(), TEXTS)
def test_no_lock_is_touched(
    text: tuple[str, list[Span]], new: str, keeps_lines: bool, before: str
) -> None:
    draft, locked = before + text[0], [(a + len(before), b + len(before)) for a, b in text[1]]
    span = len(before), len(draft)
    fits, refused = rewritten(draft, span, new, locked, keeps_lines=keeps_lines)
    changes = changes_from(draft, fits)
    assert all(is_allowed(hunk, locked) for hunk in fits)
    assert all(is_allowed(Hunk(c.start, c.end, c.after), locked) for c in changes)
    assert all(span[0] <= hunk.start <= hunk.end <= span[1] for hunk in [*fits, *refused])
    if not refused and not keeps_lines:
        assert changes.text == before + new


@given(locked_texts(), st.integers(0, 60), st.integers(0, 60))
def test_what_touches_a_lock(text: tuple[str, list[Span]], one: int, other: int) -> None:
    start, end = sorted((one, other))
    assert bool(touched(text[1], start, end)) != is_allowed(Hunk(start, end, ""), text[1])


@pytest.mark.parametrize(
    ("old", "new", "locked", "hunks"),
    [
        ("It have a end.", "It has an end.", "", ["have a -> has an"]),
        ("The colour red.", "The color blue.", "", ["colour red -> color blue"]),
        ("One two, six four.", "1 two, 3 four.", "", ["One -> 1", "six -> 3"]),
        # Of two equal words, the one goes that is not locked; within a word, letters are locked.
        ("it of of it", "it of it", "of it", ["of  -> "]),
        ("color", "colour", "colo", [" -> u"]),
    ],
)
def test_changes_are_small(old: str, new: str, locked: str, hunks: list[str]) -> None:
    spans = [(old.rfind(locked), old.rfind(locked) + len(locked))] if locked else []
    fits, refused = rewritten(old, (0, len(old)), new, spans, keeps_lines=True)
    found = [f"{c.before} -> {c.after}" for c in changes_from(old, fits)]
    assert (found, refused) == (hunks, [])


def test_locked_text_is_not_copied_when_the_model_moves_it() -> None:
    old = "See `code` and words."
    fits, refused = rewritten(old, (0, len(old)), "See words and `code`.", [(4, 10)],
                              keeps_lines=True)  # fmt: skip
    assert fits == []
    assert refused
