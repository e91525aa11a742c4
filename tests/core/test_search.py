"""Searches: FIND, tokens, FIND_END. Vocabulary, canvas and mask against a few lines of Python."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import ActionMask
from reviser.errors import ConfigError, InvalidAction, VocabError
from support.strategies import seeds

TOKENS, PREFIX_ONLY = 4, 4
ALL = ActionVocab.build(
    TOKENS + 1, operators=OPERATORS, max_move=4, marks=True, search=True, never_insert=[PREFIX_ONLY]
)
PLAIN = ActionVocab.build(TOKENS, search=True)
STEPS = 60
assert ALL.find is not None
assert ALL.here is not None
assert PLAIN.find is not None
assert PLAIN.here is not None


def first_found(tokens: list[int], cursor: int, typed: list[int]) -> int | None:
    """Return where some tokens first occur, from the cursor on."""
    size = len(typed)
    starts = range(cursor, len(tokens) - size + 1)
    return next((p for p in starts if tokens[p : p + size] == typed), None)


def searched(vocab: ActionVocab, tokens: list[int], cursor: int = 0) -> Canvas:
    """Return a canvas whose search has begun."""
    assert vocab.find is not None
    canvas = Canvas(vocab, tokens, cursor)
    canvas.apply(vocab.find)
    return canvas


# -- the vocabulary -------------------------------------------------------------------------------


def test_searches_come_last_and_survive_saving() -> None:
    assert list(PLAIN.control_tokens)[-2:] == ["<|find|>", "<|here|>"]
    assert ActionVocab.from_json(PLAIN.to_json()) == PLAIN
    assert "find" not in ActionVocab.build(TOKENS).to_json()
    assert PLAIN.is_move[[PLAIN.find, PLAIN.here]].tolist() == [True, False]


@given(st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=5).map(tuple))
def test_a_search_is_read_as_it_is_spelled(tokens: tuple[int, ...]) -> None:
    action = Action(Kind.FIND, tokens=tokens)
    assert str(action) == " ".join(["find", *map(str, tokens)])
    ids = PLAIN.spell(action)
    assert [PLAIN.describe(i) for i in ids[:: len(ids) - 1]] == ["find", "here"]
    assert PLAIN.read([2, *ids, 1]) == [Action(Kind.INSERT, 2), action, Action(Kind.INSERT, 1)]


@pytest.mark.parametrize(
    "ids", [["find"], ["find", 1], ["find", "here"], ["here"], ["find", "stop"]]
)
def test_a_misspelled_search_is_refused(ids: list[str | int]) -> None:
    with pytest.raises(VocabError, match=r"misspelled|cannot start"):
        PLAIN.read([i if isinstance(i, int) else getattr(PLAIN, i) for i in ids])


def test_what_cannot_be_searched_for_is_not_spelled() -> None:
    with pytest.raises(VocabError, match="needs at least one token"):
        ALL.spell(Action(Kind.FIND))
    with pytest.raises(VocabError, match="cannot be inserted"):
        ALL.spell(Action(Kind.FIND, tokens=(PREFIX_ONLY,)))
    with pytest.raises(VocabError, match="no action here"):
        ALL.spell(Action(Kind.FIND_END))


# -- the canvas -----------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, TOKENS), min_size=1, max_size=12),
    st.lists(st.integers(0, TOKENS), min_size=1, max_size=4),
    st.data(),
)
def test_a_search_ends_after_the_first_match(
    tokens: list[int], typed: list[int], data: st.DataObject
) -> None:
    cursor = data.draw(st.integers(0, len(tokens)))
    canvas = Canvas(ALL, tokens, cursor)
    start = first_found(tokens, cursor, typed)
    action = Action(Kind.FIND, tokens=tuple(typed))
    if start is None or PREFIX_ONLY in typed:
        with pytest.raises((InvalidAction, VocabError)):
            canvas.act(action)
        assert (canvas.tokens(), canvas.cursor, canvas.is_spelling) == (tokens, cursor, False)
        return
    edits = canvas.act(action)
    assert not any(edit.changes_text for edit in edits)
    assert all(edit.cursor == cursor for edit in edits[:-1])
    assert canvas.cursor == start + len(typed)
    canvas.rollback(len(edits))
    assert (canvas.tokens(), canvas.cursor) == (tokens, cursor)


def test_here_needs_a_token_and_find_something_to_its_right() -> None:
    with pytest.raises(InvalidAction, match="find expects tokens that occur to the right"):
        searched(PLAIN, [1]).apply(PLAIN.here)
    for tokens, cursor in (([1], 1), ([], 0)):
        with pytest.raises(InvalidAction, match="must be a token to its right"):
            searched(PLAIN, tokens, cursor)
    with pytest.raises(InvalidAction, match="must be a token to its right"):
        searched(ALL, [PREFIX_ONLY, PREFIX_ONLY])
    assert Canvas(PLAIN, [1]).findable() == []


@given(seeds)
def test_a_search_continues_with_the_tokens_that_still_match_up_to_a_boundary(seed: int) -> None:
    rng = Random(seed)
    tokens = rng.choices(range(TOKENS + 1), k=rng.randint(1, 12))
    cursor, until = (rng.randint(0, len(tokens)) for _ in range(2))
    canvas, typed = Canvas(ALL, tokens, cursor), list[int]()

    def may_follow() -> list[int]:
        found = {t: first_found(tokens, cursor, [*typed, t]) for t in range(TOKENS)}
        return [t for t, p in found.items() if p is not None and p + len(typed) + 1 <= until]

    assert canvas.can_find(until) == bool(may_follow())
    if canvas.can_find(len(tokens)):
        canvas.apply(ALL.find)
        while canvas.findable(until) == may_follow() != []:
            typed.append(rng.choice(may_follow()))
            canvas.apply(typed[-1])
        assert canvas.findable(until) == may_follow() == []


def test_a_copy_without_a_past_searches_on_but_cannot_roll_back() -> None:
    canvas = searched(PLAIN, [1, 2])
    forked = canvas.fork(past=False)
    forked.apply(2)
    assert (canvas.findable(), forked.findable()) == ([1, 2], [])
    with pytest.raises(InvalidAction, match="1 were applied"):
        forked.rollback(2)


def test_with_searches_a_row_needs_its_canvas() -> None:
    rows = ActionMask(ALL, 1)
    rows.reset(0)
    with pytest.raises(ConfigError, match="Searches need the canvas: one of length 3"):
        rows.reset(0, length=3)
    with pytest.raises(ConfigError, match="cursor at 1, not of length 3 with its cursor at 3"):
        rows.reset(0, length=3, cursor=1, canvas=Canvas(ALL, [1, 2, 3]))
