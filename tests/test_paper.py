"""What the paper prints, replayed: its tables, its figure, its ten trajectories, its numbers.

The print is in `fixtures/paper.json`, which `fixtures/extract_paper.py` reads out of the LaTeX.
Tokens are printed as strings; here each gets a made-up token id, the same everywhere.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.core.mask import ActionMask
from reviser.core.trajectory import Trajectory
from reviser.trajectories.policy import Obfuscation
from reviser.trajectories.sampler import Sampler

FIXTURES = Path(__file__).parent / "fixtures"
SHARED = Path(__file__).parents[2] / "shared"
PAPER = json.loads((FIXTURES / "paper.json").read_text(encoding="utf-8"))
TABLES, FIGURE, PRINTED = PAPER["tables"], PAPER["figure"], PAPER["printed"]

VOCAB = ActionVocab.paper()
RICHER = replace(VOCAB, delete=50259)
PREFIX = 35

each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
each_printed = pytest.mark.parametrize("printed", PRINTED, ids=[p["name"] for p in PRINTED])

# -- reading the print ----------------------------------------------------------------------------

_token_ids: dict[str, int] = {}


def token_id(token: str) -> int:
    return _token_ids.setdefault(token, len(_token_ids))


def written(tokens: Iterable[int]) -> str:
    strings = list(_token_ids)
    return "".join(strings[token] for token in tokens)


def action(printed: Sequence[Any]) -> Action:
    kind, *argument = printed
    if kind == "insert":
        return Action(Kind.INSERT, token_id(argument[0]))
    return Action(Kind[kind.upper()], *argument)


def ids(printed: Iterable[Sequence[Any]], vocab: ActionVocab = VOCAB) -> list[int]:
    return [i for each in printed for i in vocab.spell(action(each))]


def prefix_ids(printed: dict[str, Any]) -> list[int]:
    return [token_id(token) for token in printed["prefix"]]


def history(printed: dict[str, Any]) -> list[int]:
    """The printed steps; the print leaves out the id that begins every history."""
    return prefix_ids(printed) + ids(printed["actions"])


def steps(rows: Sequence[dict[str, Any]]) -> list[Any]:
    """The actions of a table's column, or of the figure, whose first row has none."""
    first, *rest = [row["action"] for row in rows]
    assert first == ["initial"]
    return rest


def shown(canvas: Canvas) -> str:
    """A canvas as the paper shows it; in its tables a token is a word, so spaces do not count."""
    left, right = canvas.window(len(canvas), len(canvas))
    return unspaced(f"{written(left)}|{written(right)}")


def unspaced(text: str) -> str:
    return "".join(text.split())


def letters(text: str) -> str:
    """The print loses escapes and split characters, never a letter or a digit."""
    return "".join(char for char in text if char.isalnum())


def check_rows(canvas: Canvas, rows: Sequence[dict[str, Any]]) -> None:
    assert shown(canvas) == unspaced(rows[0]["canvas"])
    for step, row in zip(steps(rows), rows[1:], strict=True):
        canvas.act(action(step))
        assert shown(canvas) == unspaced(row["canvas"])


# -- the worked example and the two tables --------------------------------------------------------


@each_table
def test_each_row_of_a_restoration_gives_the_printed_canvas(table: dict[str, Any]) -> None:
    canvas = Canvas(RICHER)
    check_rows(canvas, table["restoration"])
    assert canvas.is_finished


@each_table
def test_each_row_of_an_obfuscation_gives_the_printed_canvas(table: dict[str, Any]) -> None:
    restored = Canvas.replay(RICHER, ids(steps(table["restoration"]), RICHER))
    canvas = Canvas(RICHER, restored.tokens(), restored.cursor)
    check_rows(canvas, table["obfuscation"])
    assert canvas.tokens() == []


@each_table
def test_the_inverse_of_an_obfuscation_is_the_printed_restoration(table: dict[str, Any]) -> None:
    obfuscation, restoration = steps(table["obfuscation"]), steps(table["restoration"])
    restored = Canvas.replay(RICHER, ids(restoration, RICHER))
    trajectory = Trajectory.from_obfuscation(
        RICHER, restored.tokens(), restored.cursor, map(action, obfuscation)
    )
    assert list(trajectory.restoration) == ids(restoration, RICHER)
    assert len(trajectory.restoration) == len(obfuscation) + 1  # T_rest = n_obf + 1
    assert trajectory.target(RICHER) == restored.tokens()


def test_the_printed_lists_are_the_columns_of_their_table() -> None:
    table = TABLES["tab:obf_restore_side_by_side"]
    assert table["B"] == steps(table["obfuscation"])
    assert table["A"] == steps(table["restoration"])


def test_only_the_transient_insert_and_the_prefix_bear_no_loss() -> None:
    table = TABLES["tab:obf_restore_side_by_side"]
    restored = Canvas.replay(RICHER, ids(table["A"], RICHER))
    prefix = [token_id("Once"), token_id(",")]
    trajectory = Trajectory.from_obfuscation(
        RICHER, restored.tokens(), restored.cursor, map(action, table["B"]), prefix=prefix
    )
    assert trajectory.history(RICHER) == RICHER.prefix_actions(prefix) + ids(table["A"], RICHER)
    learned = [printed != ["insert", "hello"] for printed in table["A"]]
    assert trajectory.loss_mask(RICHER) == [False, False, False, *learned]
    assert learned.count(False) == 1


@pytest.mark.parametrize(
    "step",
    [
        Action(Kind.INSERT, 9),
        Action(Kind.REPLACE, 9),
        Action(Kind.SWAP),
        Action(Kind.SPAN_DELETE, 3),
        *(Action(Kind.SPAN_MOVE, 2, jump) for jump in (-2, -1, 0, 1, 3)),
        *(Action(Kind.SPAN_COPY, 3, offset) for offset in (-4, -1, 0, 3)),
    ],
    ids=str,
)
def test_the_inverse_of_every_operator_restores_the_target(step: Action) -> None:
    vocab = ActionVocab.build(10, operators=OPERATORS)
    target, cursor = list(range(7)), 4
    canvas = Canvas(vocab, target, cursor)
    canvas.act(step)
    to_the_end = [Action(Kind.MOVE, 1)] * (len(canvas) - canvas.cursor)
    clear = [*to_the_end, Action(Kind.SPAN_DELETE, len(canvas))]
    trajectory = Trajectory.from_obfuscation(vocab, target, cursor, [step, *clear])
    restored = Canvas.replay(vocab, trajectory.restoration)
    assert (restored.tokens(), restored.cursor) == (target, cursor)


def test_the_worked_example_bears_loss_everywhere() -> None:
    table = TABLES["tab:trajectory"]
    restored = Canvas.replay(VOCAB, ids(steps(table["restoration"])))
    obfuscation = map(action, steps(table["obfuscation"]))
    trajectory = Trajectory.from_obfuscation(
        RICHER, restored.tokens(), restored.cursor, obfuscation
    )
    assert trajectory.no_loss == ()


def test_the_illustrative_figure_replays() -> None:
    words = FIGURE[0]["canvas"].replace("|", "").split()
    canvas = Canvas(VOCAB, map(token_id, words))
    check_rows(canvas, FIGURE[:-1])  # the last step shows the output, without a cursor
    canvas.act(action(FIGURE[-1]["action"]))
    assert canvas.is_finished
    assert written(canvas.tokens()) == unspaced(FIGURE[-1]["canvas"])


# -- the ten printed trajectories -----------------------------------------------------------------


@each_printed
def test_a_printed_trajectory_replays_to_its_text(printed: dict[str, Any]) -> None:
    past = history(printed)
    assert len(past) == printed["announced"]
    canvas = Canvas.replay(VOCAB, past)  # raises if the executor refuses any
    assert canvas.is_finished
    assert letters(written(canvas.tokens())) == letters(printed["text"])


@each_printed
def test_a_printed_prefix_is_35_tokens_and_stays_in_front(printed: dict[str, Any]) -> None:
    prefix = prefix_ids(printed)
    assert len(prefix) == PREFIX
    assert letters(written(prefix)) == letters(printed["prompt_text"])
    assert Canvas.replay(VOCAB, history(printed)).tokens()[:PREFIX] == prefix


@each_printed
def test_the_counts_of_a_printed_trajectory_are_those_of_its_replay(
    printed: dict[str, Any],
) -> None:
    counts = dict.fromkeys(["inserts", "moves", "backward_moves", "end_appends"], 0)
    canvas = Canvas(VOCAB, prefix_ids(printed))
    for action_id in ids(printed["actions"]):
        edit = canvas.apply(action_id)
        counts["inserts"] += edit.changes_text
        counts["end_appends"] += edit.changes_text and edit.cursor == len(canvas)
        counts["moves"] += not edit.changes_text and not canvas.is_finished
        counts["backward_moves"] += edit.cursor < edit.cursor_before
    assert counts == printed["counts"]


@each_printed
def test_a_mask_without_a_floor_allows_every_printed_action(printed: dict[str, Any]) -> None:
    rows, canvas = ActionMask(VOCAB, 1), Canvas(VOCAB)
    for action_id in history(printed):
        assert rows.allowed()[0, action_id]
        rows.advance([action_id])
        canvas.apply(action_id)
        assert (rows.length[0], rows.cursor[0]) == (len(canvas), canvas.cursor)
    assert rows.is_finished[0]


@each_printed
def test_the_prefix_floor_refuses_only_the_move_to_34(printed: dict[str, Any]) -> None:
    canvas = Canvas(VOCAB, prefix_ids(printed))
    rows = ActionMask(VOCAB, 1)
    rows.reset(0, length=PREFIX, editable=[(PREFIX, PREFIX)], max_length=512)  # the paper's L_max
    refused = []
    for step, action_id in enumerate(ids(printed["actions"])):
        if rows.allowed()[0, action_id]:
            rows.advance([action_id])
            canvas.apply(action_id)
        else:
            refused.append((step, canvas.cursor + int(VOCAB.cursor_deltas[action_id])))
        assert (rows.length[0], rows.cursor[0]) == (len(canvas), canvas.cursor)
    before_stop = len(printed["actions"]) - 2
    goes_below = printed["size"] == "100M" and printed["name"] != "100M Reviser Example 4"
    assert refused == ([(before_stop, 34)] if goes_below else [])
    assert rows.is_finished[0]
    assert canvas.tokens() == Canvas.replay(VOCAB, history(printed)).tokens()


@each_printed
def test_a_printed_trajectory_ends_at_the_left_edge(printed: dict[str, Any]) -> None:
    # As if obfuscation had started there, not uniformly: `Obfuscation.start` offers both.
    assert Canvas.replay(VOCAB, history(printed)).cursor in (PREFIX - 1, PREFIX)


def test_a_printed_trajectory_may_write_past_the_editable_region() -> None:
    # The checklist says [35, 180); no length below 191 would let this one through.
    lengths = {p["name"]: len(Canvas.replay(VOCAB, history(p))) for p in PRINTED}
    assert {n: size for n, size in lengths.items() if size > 180} == {"300M Reviser Example 1": 191}


def test_the_introductions_example_is_found_at_its_steps() -> None:
    # Steps are counted from 1 and include the 35 that write the prefix.
    (printed,) = [p for p in PRINTED if p["name"] == "300M Reviser Example 1"]
    past = history(printed)
    inserts = [["insert", token] for token in (" at", " the", " time", " of", " publishing")]
    assert past[204 - 1 : 209] == ids([["move", -16], *inserts])

    before = Canvas.replay(VOCAB, past[: 204 - 1])
    assert unspaced(
        "Information is deemed correct and is subject to change. Real estate listings obtained"
        " from third party sources are for | consumers' personal purchasing decisions and should"
    ) in shown(before)
    after = Canvas.replay(VOCAB, past[:209])  # the paper heads it "After move"
    assert unspaced(
        "Information is deemed correct at the time of publishing | and is subject to change. Real"
        " estate listings obtained from third party sources are for"
    ) in shown(after)


# -- Algorithm 2, sampled -------------------------------------------------------------------------


def walk(restoration: Sequence[int]) -> list[tuple[int, int, int]]:
    """The obfuscation steps behind a restoration: length, cursor and delta, 0 for a delete."""
    canvas, taken = Canvas(VOCAB), []
    for action_id in restoration[:-1]:
        edit = canvas.apply(action_id)
        delta = 0 if edit.changes_text else edit.cursor_before - edit.cursor
        taken.append((len(canvas), canvas.cursor, delta))
    return taken[::-1]


@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_a_sampled_restoration_is_the_strict_inverse_of_a_walk(length: int) -> None:
    for index in range(20):
        sampled = Sampler(VOCAB, Obfuscation()).sample(range(length), prefix=[5], index=index)
        assert sampled.target(VOCAB) == list(range(length))
        taken = walk(sampled.restoration)
        obfuscation = [Action(Kind.MOVE, d) if d else Action(Kind.DELETE) for *_, d in taken]
        start = taken[0][1]
        assert sampled == Trajectory.from_obfuscation(
            RICHER, range(length), start, obfuscation, prefix=[5]
        )


def test_a_walk_starts_anywhere_deletes_with_0_8_and_moves_uniformly() -> None:
    n, samples = 12, 3000
    batch = Sampler(VOCAB, Obfuscation()).batch([range(n)] * samples, range(samples))
    happened: defaultdict[str, float] = defaultdict(float)
    expected: defaultdict[str, float] = defaultdict(float)
    expected |= {f"start {cursor}": samples / (n + 1) for cursor in range(n + 1)}
    for first, last in pairwise(batch.offsets.tolist()):
        taken = walk(batch.ids[first:last].tolist())
        happened[f"start {taken[0][1]}"] += 1
        for length, cursor, delta in taken:
            valid = [d for d in VOCAB.deltas if 0 <= cursor + d <= length]
            delete = 0.8 if cursor > 0 else 0.0
            happened[f"step {delta}"] += 1
            expected["step 0"] += delete
            for d in valid:
                expected[f"step {d}"] += (1 - delete) / len(valid)
    assert happened.keys() == expected.keys()
    for name, count in expected.items():  # five standard deviations, with a fixed seed
        assert abs(happened[name] - count) < 5 * count**0.5, name


def test_a_walk_beyond_its_step_budget_is_sampled_again() -> None:
    sampler = Sampler(VOCAB, Obfuscation(max_obfuscation_steps=14))
    sampled = [sampler.sample(range(12), index=index) for index in range(100)]
    assert {len(trajectory.restoration) - 1 for trajectory in sampled} == {12, 13, 14}
    assert all(trajectory.target(VOCAB) == list(range(12)) for trajectory in sampled)


# -- the action space -----------------------------------------------------------------------------


def test_the_paper_preset_has_the_papers_moves() -> None:
    sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert list(VOCAB.deltas) == [delta for size in sizes for delta in (size, -size)]
    assert len(VOCAB.deltas) == 20
    assert [VOCAB.move_id(delta) for delta in VOCAB.deltas] == list(range(50261, 50281))


def test_the_paper_preset_has_the_released_ids() -> None:
    assert (VOCAB.tokens, VOCAB.size, VOCAB.stop, RICHER.delete) == (50257, 50291, 50260, 50259)
    assert (VOCAB.begin, VOCAB.delimiter) == (50258, None)  # it is called END_OF_INPUT there
    # GPT-2's end of text, cursor marker, begin, DELETE (never trained), the reserved ten
    assert VOCAB.forbidden.tolist() == [50256, 50257, 50258, 50259, *range(50281, 50291)]


def test_the_primary_action_set_is_tokens_moves_and_stop() -> None:
    counts = Counter(VOCAB.kinds.tolist())
    assert counts == {
        Kind.INSERT: 50256,
        Kind.MOVE: 20,
        Kind.STOP: 1,
        Kind.PREFIX_ONLY: 1,
        Kind.SEPARATOR: 1,
        Kind.RESERVED: 12,
    }


# -- against the sources, where they are at hand --------------------------------------------------


def given(variable: str, default: Path, *inside: str) -> Path:
    """A path under the one that a variable names, or under the default; skips if not there."""
    path = Path(os.environ.get(variable, default)).joinpath(*inside)
    if variable not in os.environ and not path.exists():
        pytest.skip(f"{path.name} is not at hand; {variable} can say where {default.name} is")
    return path


@pytest.fixture(scope="module")
def gpt2() -> Codec:
    return Codec.load(given("REVISER_DATA", SHARED / "data", "gpt2-tokenizer"))


@each_printed
def test_every_printed_insert_is_one_gpt2_token(printed: dict[str, Any], gpt2: Codec) -> None:
    single = set(gpt2.token_bytes)
    inserts = [argument for kind, *argument in printed["actions"] if kind == "insert"]
    tokens = printed["prefix"] + [token for (token,) in inserts]
    assert [token for token in tokens if token.encode() not in single] == []


@each_printed
def test_gpt2_cuts_a_printed_prompt_into_its_printed_prefix(
    printed: dict[str, Any], gpt2: Codec
) -> None:
    pieces = [gpt2.decode([token]) for token in gpt2.encode(printed["prompt_text"])]
    assert pieces == printed["prefix"]


def test_extracting_the_paper_again_gives_the_fixture(tmp_path: Path) -> None:
    source = given("REVISER_PAPER", SHARED / "paper" / "reviser.tex")
    script = shutil.copy(FIXTURES / "extract_paper.py", tmp_path)  # it writes next to itself
    subprocess.run([sys.executable, script, source], check=True)
    assert (tmp_path / "paper.json").read_bytes() == (FIXTURES / "paper.json").read_bytes()
