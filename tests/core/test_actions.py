"""The action vocabulary: its layout, its file, its spelling, and the shortest way to move."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from reviser.core.actions import FILE_NAME, OPERATORS, Action, ActionVocab, Kind
from reviser.core.kinds import KIND_OF_WORD
from reviser.errors import VocabError
from support import naive
from support.strategies import seeds, vocabs

ALL = ActionVocab.build(10, operators=OPERATORS, max_move=8)
NO_ACTIONS = {"end", "separator", "prefix_only", "reserved"}
LENGTHS = st.integers(1, 5000)
OFFSETS = st.integers(-5000, 5000)


@st.composite
def actions(draw: st.DrawFn, vocab: ActionVocab) -> Action:
    """Draw any whole action that the vocabulary can spell."""
    name = draw(st.sampled_from(sorted({*naive.names(vocab)} - NO_ACTIONS)))
    kind = KIND_OF_WORD[name]
    if kind in (Kind.INSERT, Kind.REPLACE):
        return Action(kind, draw(st.sampled_from(naive.ids_of(vocab, "insert"))))
    if kind is Kind.MOVE:
        return Action(kind, draw(st.sampled_from(vocab.deltas)))
    if kind is Kind.SPAN_DELETE:
        return Action(kind, draw(LENGTHS))
    if kind in (Kind.SPAN_MOVE, Kind.SPAN_COPY):
        return Action(kind, draw(LENGTHS), draw(OFFSETS))
    return Action(kind)


# -- spelling -------------------------------------------------------------------------------------


@given(st.data(), vocabs())
def test_reading_a_spelled_history_gives_back_its_actions(
    data: st.DataObject, vocab: ActionVocab
) -> None:
    whole = data.draw(st.lists(actions(vocab), max_size=8))
    without_effect = [i for i in (vocab.begin, vocab.delimiter) if i is not None]
    spelled = [i for action in whole for i in (*without_effect, *vocab.spell(action))]
    assert vocab.read([*spelled, *without_effect]) == whole


@given(vocabs(), st.integers(0, 9), st.integers(0, 9))
def test_every_action_is_spelled_as_in_the_paper_reference(
    vocab: ActionVocab, length: int, cursor: int
) -> None:
    assume(cursor <= length)
    for action, spelling in naive.spellings(vocab, length, cursor):
        name, *arguments = action
        if name == "span_move":
            k, j = arguments
            arguments = [k, j - cursor if j >= cursor else j - (cursor - k)]
        if name == "span_copy":
            arguments[1] -= cursor
        assert vocab.spell(Action(KIND_OF_WORD[name], *arguments)) == spelling


@pytest.mark.parametrize(
    ("action", "spelled", "shown"),
    [
        (Action(Kind.INSERT, 7), "insert 7", "insert 7"),
        (Action(Kind.MOVE, 4), "move +4", "move +4"),
        (Action(Kind.STOP), "stop", "stop"),
        (Action(Kind.REPLACE, 3), "replace, insert 3", "replace 3"),
        (Action(Kind.SPAN_DELETE, 5), "span_delete, move +4, move +1, end", "span_delete 5"),
        (
            Action(Kind.SPAN_MOVE, 1, -3),
            "span_move, move +1, end, move -2, move -1, end",
            "span_move 1 -3",
        ),
        (
            Action(Kind.SPAN_COPY, 17, 0),
            "span_copy, move +8, move +8, move +1, end, end",
            "span_copy 17 +0",
        ),
    ],
    ids=str,
)
def test_an_operator_is_followed_by_its_arguments(action: Action, spelled: str, shown: str) -> None:
    assert ", ".join(ALL.describe(i) for i in ALL.spell(action)) == spelled
    assert str(action) == shown


def test_ids_that_are_not_actions_are_described_too() -> None:
    vocab = ActionVocab.build(3, never_insert=[1], reserved=1)
    ids = (vocab.begin, vocab.delimiter, 1, vocab.size - 1, -1)
    assert [vocab.describe(i) for i in ids] == [  # type: ignore[arg-type]
        "begin",
        "delimiter",
        "prefix-only token 1",
        f"reserved id {vocab.size - 1}",
        "unknown id -1",
    ]


@given(st.data(), vocabs())
def test_a_history_starts_with_begin_the_prefix_and_the_delimiter(
    data: st.DataObject, vocab: ActionVocab
) -> None:
    prefix = data.draw(st.lists(st.sampled_from(naive.ids_of(vocab, "insert"))))
    begin, delimiter = ([] if i is None else [i] for i in (vocab.begin, vocab.delimiter))
    assume(begin or prefix or delimiter)
    assert vocab.prefix_actions(prefix) == [*begin, *prefix, *delimiter]


# -- the layout -----------------------------------------------------------------------------------


def test_the_paper_preset_is_the_released_layout_id_for_id() -> None:
    # Its sizes, moves and forbidden ids are in tests/test_paper.py.
    with_delete = replace(ActionVocab.paper(), delete=50259)
    assert with_delete.kind(50259) is Kind.DELETE
    assert with_delete.controls.tolist() == [50260, *range(50261, 50281), 50259]
    assert list(with_delete.control_tokens.values()) == list(range(50257, 50291))
    assert list(with_delete.control_tokens)[:5] == [
        "<|reserved_0|>", "<|begin|>", "<|delete|>", "<|stop|>", "<|move+1|>",
    ]  # fmt: skip


def test_our_preset_lays_its_controls_out_behind_the_tokens() -> None:
    vocab = ActionVocab.build(10, operators=reversed(OPERATORS), max_move=2, reserved=1)
    moves = ["<|move+1|>", "<|move-1|>", "<|move+2|>", "<|move-2|>"]
    operators = [f"<|{name}|>" for name in OPERATORS]
    names = ["<|begin|>", "<|delimiter|>", "<|stop|>", *moves, *operators, "<|end|>"]
    assert vocab.control_tokens == dict(zip([*names, "<|reserved_0|>"], range(10, 25), strict=True))


def test_a_begin_token_can_be_reused_and_the_delimiter_left_out() -> None:
    vocab = ActionVocab.build(10, max_move=1, begin=4, delimiter=False, never_insert=[7])
    assert vocab.control_tokens == {
        "<|begin|>": 4, "<|stop|>": 10, "<|move+1|>": 11, "<|move-1|>": 12,
    }  # fmt: skip
    assert vocab.never_insert == (4, 7)
    assert vocab.delimiter is None


@given(vocabs())
def test_every_id_has_one_kind_and_is_an_insert_a_control_or_forbidden(vocab: ActionVocab) -> None:
    inserts = np.flatnonzero(vocab.kinds == Kind.INSERT).tolist()
    parts = [*inserts, *vocab.controls.tolist(), *vocab.forbidden.tolist()]
    assert sorted(parts) == list(range(vocab.size))
    assert not {*vocab.never_insert} & {*inserts}
    assert [vocab.kind(i) for i in range(vocab.size)] == vocab.kinds.tolist()
    assert vocab.kind(-1) is vocab.kind(vocab.size) is Kind.RESERVED


@given(vocabs())
def test_the_delta_tables_hold_the_effect_of_each_id(vocab: ActionVocab) -> None:
    for i, name in enumerate(naive.names(vocab)):
        change = {"insert": 1, "prefix_only": 1, "delete": -1, "replace": -1}.get(name, 0)
        assert vocab.length_deltas[i] == change
        assert vocab.cursor_deltas[i] == naive.deltas(vocab).get(i, change)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_move": 3}, "max_move is 3; it must be a power of two from 1 to 65536"),
        ({"max_move": 0}, "max_move is 0"),
        ({"max_move": 131072}, "max_move is 131072"),
        ({"stop": 30}, "outside 0..19: {'stop': 30}. Raise size"),
        ({"size": 14}, "outside 0..13: {'move+2': 14, 'move-2': 15}"),
        ({"tokens": 21}, "tokens is 21; it must be from 1 to size, 20"),
        ({"delete": 13}, "Two names share one id in {'stop': 11, 'delete': 13"),
        ({"stop": 5}, "also ordinary tokens: {'stop': 5}. Add them to never_insert"),
        ({"never_insert": (3, 10)}, "never_insert must name tokens, 0..9"),
        ({"never_insert": (-1,)}, "never_insert must name tokens, 0..9"),
        ({"span_copy": 17}, "Span operators need an `end` id"),
        ({"end": 17}, "Span operators need an `end` id"),
        ({"mark": 17}, "give both `mark` and `back`"),
        ({"back": 17}, "give both `mark` and `back`"),
        ({"find": 17}, "give both `find` and `here`"),
        ({"here": 17}, "give both `find` and `here`"),
    ],
)
def test_an_impossible_layout_is_refused(changed: dict[str, Any], message: str) -> None:
    sound: dict[str, Any] = {"tokens": 10, "size": 20, "max_move": 2, "first_move": 12, "stop": 11}
    ActionVocab(**sound)
    with pytest.raises(VocabError, match=re.escape(message)):
        ActionVocab(**sound | changed)


# -- refusals -------------------------------------------------------------------------------------

BARE = ActionVocab.build(10)
NO_BEGIN = replace(ActionVocab.paper(), begin=None)
NEVER_4 = ActionVocab.build(9, operators=["replace"], never_insert=[4])
ONE, FOUR = ALL.move_id(1), ALL.move_id(4)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: ALL.move_id(3), "Move delta 3 is not in this vocabulary (allowed: +-1, +-2, ..."),
        (lambda: ALL.move_id(3), "Use vocab.split_move(3)"),
        (lambda: ALL.split_move(4, cursor=3), "Give both cursor and length, or neither"),
        (lambda: ALL.split_move(4, cursor=3, length=5), "Cannot move 4 from cursor 3: the canvas"),
        (lambda: ALL.split_move(-1, cursor=6, length=5), "Cannot move -1 from cursor 6"),
        (lambda: ActionVocab.build(9, operators=["twist"]), "operators ['twist']. Known: delete,"),
        (lambda: BARE.spell(Action(Kind.SWAP)), "no action swap"),
        (lambda: BARE.spell(Action(Kind.MARK)), "no action mark"),
        (lambda: BARE.spell(Action(Kind.FIND, tokens=(1,))), "no action find"),
        (lambda: ALL.spell(Action(Kind.NUMBER_END)), "no action end"),
        (lambda: ALL.spell(Action(Kind.INSERT, 10)), "Token 10 cannot be inserted"),
        (lambda: NEVER_4.spell(Action(Kind.REPLACE, 4)), "Token 4 cannot be inserted"),
        (lambda: ALL.spell(Action(Kind.SPAN_COPY, 0, 2)), "at least one token; span_copy got 0"),
        (lambda: ALL.read([3, ALL.end]), f"end (id {ALL.end}) cannot start an action"),
        (lambda: ALL.read([-7]), "unknown id -7 (id -7) cannot start an action"),
        (lambda: ALL.read([ALL.span_delete, ONE]), "NUMBER_END is missing at its end"),
        (lambda: ALL.read([ALL.span_delete, ONE, 3]), "A number is misspelled"),
        (lambda: ALL.read([ALL.span_delete, ONE, FOUR, ALL.end]), "A number is misspelled"),
        (lambda: ALL.read([ALL.span_delete, ALL.end]), "at least one token; span_delete has none"),
        (lambda: ALL.read([ALL.replace, ALL.stop]), f"Token {ALL.stop} cannot be inserted"),
        (lambda: NO_BEGIN.prefix_actions([]), "this vocabulary has no begin token. Give a prefix"),
        (lambda: ALL.prefix_actions([4, ALL.stop]), f"tokens; id {ALL.stop} is stop"),
        (lambda: ActionVocab.from_json("{"), "This is not JSON, so not an action_vocab.json"),
        (lambda: ActionVocab.from_json("[]"), "This is not an action_vocab.json of format 1"),
        (lambda: ActionVocab.from_json("{}"), "This is not an action_vocab.json of format 1"),
        (lambda: ActionVocab.from_json("[" * 100_000), "This is not JSON"),
        (lambda: ActionVocab.build(1 << 22), "a vocabulary has at most 4,194,304 ids"),
        (lambda: changed_json('"stop": 12', '"stop": "12"'), "must be whole numbers"),
        (lambda: changed_json('"never_insert": []', '"never_insert": 3'), "must be whole numbers"),
        (lambda: changed_json('"stop"', '"stpo"'), "unknown keys ['stpo'] and lacks ['stop']"),
    ],
)
def test_a_refusal_says_what_was_given_and_what_is_allowed(
    ask: Callable[[], object], message: str
) -> None:
    with pytest.raises(VocabError, match=re.escape(message)):
        ask()


def changed_json(old: str, new: str) -> ActionVocab:
    return ActionVocab.from_json(ALL.to_json().replace(old, new))


# -- saving ---------------------------------------------------------------------------------------


@given(vocabs())
def test_a_vocabulary_survives_its_file(
    tmp_path_factory: pytest.TempPathFactory, vocab: ActionVocab
) -> None:
    folder = tmp_path_factory.getbasetemp()
    vocab.save(folder)
    assert ActionVocab.load(folder) == vocab
    assert ActionVocab.from_json(vocab.to_json()) == vocab


def test_absent_operators_are_not_in_the_file() -> None:
    saved = json.loads(ActionVocab.paper().to_json())
    assert saved == {
        "format": 1, "tokens": 50257, "size": 50291, "max_move": 512, "first_move": 50261,
        "stop": 50260, "begin": 50258, "never_insert": [50256],
    }  # fmt: skip


def test_a_missing_or_damaged_file_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(
        VocabError, match=r"There is no action_vocab\.json in .*recipes/adapt\.yaml"
    ):
        ActionVocab.load(tmp_path)
    for content in ("{", '{"stpo": 1}'):
        (tmp_path / FILE_NAME).write_text(content, encoding="utf-8")
        with pytest.raises(VocabError, match=re.escape(str(tmp_path / FILE_NAME))):
            ActionVocab.load(tmp_path)


# -- from a tokenizer -----------------------------------------------------------------------------


def byte_tokenizer(special: tuple[str, ...] = ("<|endoftext|>",)) -> Tokenizer:
    """A byte-level BPE of 256 bytes and one merge, with special tokens behind them."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = {piece: n for n, piece in enumerate([*letters, "th"])}
    tokenizer = Tokenizer(models.BPE(pieces, [("t", "h")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    return tokenizer


def test_a_tokenizer_is_extended_with_the_control_tokens(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS, max_move=4, reserved=2)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    saved = Tokenizer.from_file(str(path))
    assert vocab.tokens == 258
    assert saved.get_vocab_size() == vocab.size
    assert {name: saved.token_to_id(name) for name in vocab.control_tokens} == vocab.control_tokens
    assert all(saved.get_added_tokens_decoder()[i].special for i in vocab.control_tokens.values())
    text = "<|stop|>the thé<|move-4|>"
    ids = saved.encode(text).ids
    assert [ids[0], ids[-1]] == [vocab.stop, vocab.move_id(-4)]
    assert saved.decode(ids) == "the thé"


def test_a_tokenizers_own_special_tokens_are_never_inserted() -> None:
    vocab = ActionVocab.from_tokenizer(byte_tokenizer(("<pad>", "<eos>")))
    assert vocab.never_insert == (257, 258)


def test_ids_that_a_tokenizer_skips_are_never_inserted() -> None:
    tokenizer = Tokenizer(models.BPE({"a": 0, "<s>": 5}, []))
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    vocab = ActionVocab.from_tokenizer(tokenizer)
    assert vocab.never_insert == (1, 2, 3, 4, 5)
    assert vocab.control_tokens["<|begin|>"] == tokenizer.token_to_id("<|begin|>") == 6


def test_an_added_token_that_is_not_special_can_be_inserted() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["reviser"])
    vocab = ActionVocab.from_tokenizer(tokenizer)
    assert vocab.kind(tokenizer.token_to_id("reviser")) is Kind.INSERT
    assert vocab.kind(tokenizer.token_to_id("<|endoftext|>")) is Kind.PREFIX_ONLY


def test_a_tokenizers_own_token_can_begin() -> None:
    tokenizer = byte_tokenizer()
    vocab = ActionVocab.from_tokenizer(tokenizer, begin="<|endoftext|>", delimiter=False)
    assert vocab.begin == tokenizer.token_to_id("<|endoftext|>") == 257
    assert tokenizer.token_to_id("<|begin|>") is None
    assert vocab.kind(257) is Kind.SEPARATOR


def extend_again() -> None:
    tokenizer = byte_tokenizer()
    ActionVocab.from_tokenizer(tokenizer)
    ActionVocab.from_tokenizer(tokenizer)


@pytest.mark.parametrize(
    ("extend", "message"),
    [
        (extend_again, r"already has '<\|begin\|>': it was extended before. Open its action_vocab"),
        (
            lambda: ActionVocab.from_tokenizer(byte_tokenizer(), begin="<s>"),
            "has no token '<s>' that could be the begin token",
        ),
        (
            # The next token of a tokenizer with a hole is 2, not 6.
            lambda: ActionVocab.from_tokenizer(Tokenizer(models.BPE({"a": 0, "b": 5}, []))),
            r"numbered the control tokens .*'<\|stop\|>': 4, .* not",
        ),
        (
            lambda: ActionVocab.paper().extend(byte_tokenizer()),
            "ids end at 257; this vocabulary's control tokens begin at 50257",
        ),
    ],
)
def test_a_tokenizer_that_cannot_be_extended_is_refused(
    extend: Callable[[], object], message: str
) -> None:
    with pytest.raises(VocabError, match=message):
        extend()


# -- the shortest way -----------------------------------------------------------------------------


def assert_shortest(vocab: ActionVocab, start: int, goal: int, length: int, count: int) -> None:
    path = vocab.split_move(goal - start, cursor=start, length=length)
    assert len(path) == count
    assert {*path} <= {*vocab.deltas}
    positions = np.cumsum([start, *path])
    assert positions[-1] == goal
    assert positions.min() >= 0
    assert positions.max() <= length


@pytest.mark.parametrize("max_move", [1, 2, 4, 8, 16])
def test_a_move_is_split_into_as_few_deltas_as_a_search_finds(max_move: int) -> None:
    vocab = ActionVocab.build(1, max_move=max_move)
    for length in range(20):
        for start in range(length + 1):
            counts = naive.move_counts(start, length, max_move)
            for goal in range(length + 1):
                assert_shortest(vocab, start, goal, length, counts[goal])


@given(st.integers(0, 9), st.integers(1, 3000), seeds)
def test_a_move_on_a_long_canvas_is_split_into_as_few_deltas_as_a_search_finds(
    exponent: int, length: int, seed: int
) -> None:
    rng, vocab = Random(seed), ActionVocab.build(1, max_move=2**exponent)
    start = rng.choice([0, length, rng.randint(0, length)])
    counts = naive.move_counts(start, length, vocab.max_move)
    for goal in {0, length, *rng.choices(range(length + 1), k=20)}:
        assert_shortest(vocab, start, goal, length, counts[goal])


@given(st.integers(0, 6), st.integers(-400, 400))
def test_without_a_canvas_a_move_may_pass_over_any_position(exponent: int, distance: int) -> None:
    vocab = ActionVocab.build(1, max_move=2**exponent)
    path = vocab.split_move(distance)
    wide = naive.move_counts(1000, 2000, vocab.max_move)
    assert (sum(path), len(path)) == (distance, wide[1000 + distance])
