"""Recorded edits: what they become, which are refused, and how files of them are read."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed, so there is nothing to batch for.")

from reviser import Recording, write_trajectories
from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.core.mask import ActionMask
from reviser.core.trajectory import Trajectory
from reviser.data.recorded import Recorder, _Replay, check, prompt_hash
from reviser.data.recorded_dataset import Generator, RecordedSplit, RecordedStream
from reviser.data.tokenizer import read_words, word_tokenizer
from reviser.data.trajectory_files import TrajectoryFiles, make_indexes
from reviser.errors import (
    ConfigError,
    DataError,
    InvalidAction,
    ReviserError,
    TrajectoryError,
    VocabError,
)
from reviser.trajectories.policy import Recorded
from support.strategies import small_vocabs

WORDS = ["a", "b", "c", "d", "go", "from", "to"]
ACTIONS: dict[str, Any] = {
    "operators": ["delete", "replace", "swap", "span_delete", "span_move", "span_copy"],
    "max_move": 8,
    "marks": True,
    "search": True,
}
TOKENIZER = word_tokenizer(WORDS)
VOCAB = ActionVocab.from_tokenizer(TOKENIZER, **ACTIONS)
CODEC = Codec(TOKENIZER)
RECORDER = Recorder(CODEC, VOCAB)
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def written(trajectory: Trajectory) -> str:
    return CODEC.decode(trajectory.target(VOCAB))


def named(trajectory: Trajectory) -> list[str]:
    return [VOCAB.describe(i) for i in trajectory.restoration]


# -- one recording ----------------------------------------------------------------------------


@given(prompt=texts, draft=texts, versions=st.lists(texts, max_size=5))
def test_every_version_is_reached_in_turn_and_the_draft_bears_no_loss(
    prompt: str, draft: str, versions: list[str]
) -> None:
    trajectory = RECORDER.trajectory(Recording(prompt=prompt, draft=draft, edits=versions))
    check(VOCAB, trajectory)
    canvas, seen, prefix = Canvas(VOCAB, trajectory.prefix), [""], len(trajectory.prefix)
    for action_id in trajectory.restoration:
        canvas.apply(action_id)
        text = CODEC.decode(canvas.tokens()[prefix:])
        if not canvas.is_spelling and seen[-1:] != [text]:
            seen.append(text)
    at = 0
    for version in [draft, *versions]:
        at += seen[at:].index(version)  # it is there, and after the version before
    assert CODEC.decode(trajectory.prefix) == prompt
    assert written(trajectory) == (versions or [draft])[-1]
    shown = Canvas.replay(VOCAB, [*trajectory.prefix, *trajectory.shown])
    assert CODEC.decode(shown.tokens()[prefix:]) == draft


@given(vocab=small_vocabs, seed=st.integers(0, 2**32 - 1))
def test_what_is_refused_is_what_the_mask_forbids(vocab: ActionVocab, seed: int) -> None:
    rng = Random(seed)
    inserts = np.flatnonzero(vocab.kinds[: vocab.tokens] == Kind.INSERT).tolist()
    prefix = rng.choices(inserts, k=rng.randint(1, 3))
    mask, floor = ActionMask(vocab, 1), len(prefix)
    mask.reset(0, length=floor, editable=[(floor, floor)], canvas=Canvas(vocab, prefix))
    replay = _Replay(vocab, prefix)
    ids: list[int] = []
    for _ in range(12):
        allowed = mask.allowed()[0]
        for action_id in range(vocab.size):
            if action_id == vocab.stop or vocab.kind(action_id) is Kind.RESERVED:
                continue
            trial = _Replay(vocab, prefix)
            for each in ids:
                trial.apply(each)
            try:
                trial.apply(action_id)
                is_taken = True
            except (TrajectoryError, InvalidAction):
                is_taken = False
            # The mask is stricter with digits of a number that cannot be completed as a legal span.
            if not mask.is_spelling[0]:
                assert is_taken == allowed[action_id], vocab.describe(action_id)
            elif allowed[action_id]:
                assert is_taken
        action_id = rng.choice(np.flatnonzero(allowed).tolist())
        if action_id == vocab.stop:
            return
        ids.append(action_id)
        replay.apply(action_id)
        mask.advance([action_id])


@pytest.mark.parametrize(
    ("edits", "ids"),
    [
        ([("insert", "a b")], ["insert 0", "insert 1"]),
        ([("insert", "a"), ("delete",)], ["insert 0", "delete"]),
        ([("insert", "a"), ("replace", "b")], ["insert 0", "replace", "insert 1"]),
        ([("insert", "a b"), ("move", -1)], ["insert 0", "insert 1", "move -1"]),
        ([("mark",), ("insert", "a"), ("back",)], ["mark", "insert 0", "back"]),
        (["a b", ("span_delete", 2)], ["insert 0", "insert 1", "span_delete", "move +2", "end"]),
        (["a", ("move", -1), ("find", "a")], ["insert 0", "move -1", "find", "insert 0", "here"]),
        (["a", "a b", "a"], ["insert 0", "insert 1", "delete"]),
    ],
)  # fmt: skip
def test_edits_become_these_ids(edits: list[Any], ids: list[str]) -> None:
    assert named(RECORDER.trajectory(("go", edits))) == [*ids, "stop"]


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (("go", [("jump", "a")]), r"Edit 1 \(\('jump', 'a'\)\): This is not an action\. Use"),
        (("go", [("stop",)]), "not an action"),
        (("go", [("insert",)]), "not an action"),
        (("go", [("move", "a")]), "not an action"),
        (("go", [()]), "not an action"),
        (("go", [5]), "not an action"),
        (("go", [("replace", "a b")]), "The text has 2 tokens, but replace writes exactly one"),
        (("go", [("delete",)]), "delete changes the prompt, which is locked: the first 1 tokens"),
        (("go", [("replace", "a")]), "changes the prompt, which is locked"),
        (("go", ["a", ("move", -2)]), "Edit 2 .* moves into the prompt, which is locked"),
        (("go", ["a", ("span_delete", 2)]), "changes the prompt, which is locked"),
        (("go", [("insert", "zebra")]), "cannot encode this text"),
        (("go", "a b"), "it should be a prompt and a list of versions or actions"),
        (("go",), "it should be a prompt"),
        (Recording(edits=["a"], seconds=[1, 2]), "There are 2 times for 1 edits"),
    ],
)
def test_bad_recordings_are_refused(example: Any, message: str) -> None:
    with pytest.raises(ReviserError, match=message):
        RECORDER.trajectory(example)


# -- files ------------------------------------------------------------------------------------


def a_file(folder: Path, count: int = 40) -> Path:
    (folder / "words.json").write_text(json.dumps(WORDS))
    rng = Random(5)

    def examples() -> Any:
        for _ in range(count):
            words = rng.choices(WORDS, k=4)
            yield " ".join(words), [words[0], f"{words[0]} {words[1]}", words[2]]

    path = folder / "edits.jsonl"
    assert write_trajectories(path, examples(), tokenizer=folder / "words.json", **ACTIONS) == count
    return path


def test_a_file_holds_what_was_written_with_the_time_of_every_id(tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text(json.dumps(WORDS))
    path = tmp_path / "person.jsonl"
    typed = Recording(prompt="go", edits=["a b", "a c"], seconds=[0.5, 2])
    write_trajectories(path, [typed, ("to", ["d"])], tokenizer=tmp_path / "words.json", **ACTIONS)
    header, first, _ = map(json.loads, path.read_text().splitlines())
    assert ActionVocab.from_json(json.dumps(header["vocab"])) == VOCAB
    assert first["seconds"] == [0.5, 0.5, 2, 2]  # insert, insert; replace and its token
    files = TrajectoryFiles([str(path)])
    assert [files.read(n) for n in range(2)] == [
        RECORDER.trajectory(typed),
        RECORDER.trajectory(("to", ["d"])),
    ]
    with pytest.raises(ConfigError, match="exists already"):
        write_trajectories(path, [], tokenizer=tmp_path / "words.json", **ACTIONS)


def test_an_index_is_made_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    index = path.with_name("edits.jsonl.index")
    made = index.read_bytes(), TrajectoryFiles([str(path)]).fingerprint
    index.unlink()
    make_indexes([str(path)])
    assert (index.read_bytes(), TrajectoryFiles([str(path)]).fingerprint) == made
    modified = index.stat().st_mtime_ns
    make_indexes([str(path)])
    assert index.stat().st_mtime_ns == modified
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    make_indexes([str(path)])
    assert len(TrajectoryFiles([str(path)])) == 41
    two = TrajectoryFiles([str(path), str(path)])
    assert [two.read(n) for n in (0, 40, 41, 81)] == [two.read(n) for n in (41, 81, 0, 40)]
    assert sum(map(len, two.rows(size=7))) == 82


GOOD = {"prefix": [4], "restoration": [0, VOCAB.stop]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON|Expecting"),
        ("[]", "A trajectory has"),
        ({"restoration": [0], "text": "a"}, "A trajectory has"),
        (GOOD | {"restoration": [0]}, "must end with STOP"),
        (GOOD | {"restoration": []}, "must end with STOP"),
        (GOOD | {"restoration": [VOCAB.stop, VOCAB.stop]}, "is not an action of a text"),
        (GOOD | {"restoration": [VOCAB.delete, VOCAB.stop]}, "delete changes the prompt"),
        (GOOD | {"restoration": [VOCAB.replace, VOCAB.stop]}, "changes the prompt"),
        (GOOD | {"restoration": [VOCAB.move_id(-1), VOCAB.stop]}, "moves into the prompt"),
        (GOOD | {"restoration": [0, VOCAB.replace, VOCAB.stop]}, "is not complete"),
        (GOOD | {"restoration": [VOCAB.delimiter, VOCAB.stop]}, "is not an action of a text"),
        (GOOD | {"restoration": [9999, VOCAB.stop]}, "not in a vocabulary"),
        (GOOD | {"prefix": [VOCAB.stop]}, "A prefix holds tokens"),
        (GOOD | {"seconds": [1.0, 2.0]}, "'seconds' must be a list of 1 numbers"),
        (GOOD | {"seconds": ["now"]}, "'seconds' must be a list of 1 numbers"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path: Path, line: Any, message: str) -> None:
    path = a_file(tmp_path, count=2)
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_text(path.read_text() + text + "\n")
    with pytest.raises(DataError, match=rf"Line 4 of 'edits\.jsonl'.*({message})"):
        make_indexes([str(path)])


def test_files_that_cannot_be_trained_on_are_refused(tmp_path: Path) -> None:
    path = a_file(tmp_path, count=2)
    files = TrajectoryFiles([str(path)])
    with pytest.raises(DataError, match="another tokenizer"):
        files.check(Codec(word_tokenizer(["x"])), VOCAB)
    with pytest.raises(DataError, match=r"other actions .* delete, .*max_move"):
        files.check(CODEC, ActionVocab.from_tokenizer(word_tokenizer(WORDS), max_move=4))
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"Line 3 of 'cut\.jsonl' is not complete"):
        make_indexes([str(cut)])
    cut.write_text('{"restoration": [1]}\n')
    with pytest.raises(DataError, match="does not begin with the line"):
        make_indexes([str(cut)])
    other = tmp_path / "other.jsonl"
    write_trajectories(other, [], tokenizer=tmp_path / "words.json", max_move=4)
    with pytest.raises(DataError, match="different tokenizers or actions"):
        TrajectoryFiles([str(path), str(other)])


def test_memory_grows_by_a_few_bytes_per_trajectory(tmp_path: Path) -> None:
    path = a_file(tmp_path, count=3000)
    tracemalloc.start()
    files = TrajectoryFiles([str(path)])
    before = tracemalloc.get_traced_memory()[0]
    split = RecordedSplit(files, 0.1, 64)
    for n in range(len(split)):
        split.read(n)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(split) > 2000
    assert grown < 8 * 3000 + 40_000  # the number of each, and open files


# -- examples ---------------------------------------------------------------------------------


def stream_of(data: Any, policy: Recorded = Recorded(), **options: Any) -> RecordedStream:  # noqa: B008
    context = options.pop("context", 64)
    split = RecordedSplit(data, 0.2, context, **options)
    return RecordedStream(split, VOCAB, policy, context=context)


def test_a_split_has_each_recording_once_and_no_prompt_of_the_other(tmp_path: Path) -> None:
    files = TrajectoryFiles([str(a_file(tmp_path))])
    splits = [RecordedSplit(files, 0.3, 64, held_out=each) for each in (True, False)]
    hashes = [{prompt_hash(s.read(n)) for n in range(len(s))} for s in splits]
    assert sum(map(len, splits)) == 40
    assert not hashes[0] & hashes[1]


def test_long_histories_are_cut_and_counted_and_long_prompts_left_out(tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text(json.dumps(WORDS))
    path = tmp_path / "long.jsonl"
    examples = [("go", ["a " * 9 + "b"]), ("go " * 19 + "to", ["a"]), ("to", ["a"])]
    write_trajectories(path, examples, tokenizer=tmp_path / "words.json", **ACTIONS)
    split = RecordedSplit(TrajectoryFiles([str(path)]), 0.0, 10)
    assert (len(split), split.left_out, split.longer) == (2, 1, 1)
    stream = RecordedStream(split, VOCAB, Recorded(), context=10)
    found = {(len(e.ids), e.is_cut, e.text_tokens) for e in stream.examples(np.arange(2))}
    assert found == {(10, True, 10), (5, False, 1)}


def test_final_writes_the_last_version_left_to_right() -> None:
    recording = Recording(prompt="go", draft="a b", edits=["a c", "a c d"])
    final = Recorded(versions="final").compile(VOCAB, 64)(RECORDER.trajectory(recording))[0]
    assert CODEC.decode(final.prefix) == "go a b"
    assert named(final) == ["insert 0", "insert 2", "insert 3", "stop"]
    assert final.no_loss == ()


GENERATOR = """
import random
def example(seed, epoch, index):
    rng = random.Random(f"{seed} {epoch} {index}")
    words = rng.choices("abcd", k=6)
    return " ".join(words), [words[0], words[1]]
def one(seed, epoch, index):
    return "go", ["a"]
def wrong(seed, epoch, index):
    return "go", [("delete",)]
"""


def test_a_generator_is_a_pure_function_with_disjoint_splits(tmp_path: Path) -> None:
    path = tmp_path / "words.py"
    path.write_text(GENERATOR)
    data = Generator(f"{path}:example", CODEC, VOCAB)
    trained, held = stream_of(data), stream_of(data, held_out=True, examples=50)
    first = trained.examples(np.arange(64))
    again = pickle.loads(pickle.dumps(trained)).examples(np.arange(63, -1, -1))  # noqa: S301
    for one, other in zip(first, reversed(again), strict=True):
        assert np.array_equal(one.ids, other.ids)
    other_seed = stream_of(data, seed=1).examples(np.arange(64))
    assert any(not np.array_equal(a.ids, b.ids) for a, b in zip(first, other_seed, strict=True))
    prompts = {tuple(e.ids[:8].tolist()) for e in held.examples(np.arange(50))}
    assert len(held.split) == 50
    assert len(prompts) > 30
    assert not prompts & {tuple(e.ids[:8].tolist()) for e in first}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("words.py", "should be a Python file and the name of a function"),
        ("words.txt:example", "should be a Python file"),
        ("none.py:example", "cannot read"),
        ("words.py:other", "has no function named 'other'"),
        ("words.py:wrong", r"words\.py:wrong\(0, 0, 0\): Edit 1 .*delete changes the prompt"),
        ("words.py:one", "makes too few different prompts"),
    ],
)
def test_bad_generators_are_refused(
    tmp_path: Path, source: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reviser.data.recorded_dataset.ATTEMPTS", 50)
    (tmp_path / "words.py").write_text(GENERATOR)
    (tmp_path / "words.txt").write_text("")

    def read() -> None:
        for held_out in (False, True):
            data = Generator(str(tmp_path / source), CODEC, VOCAB)
            RecordedSplit(data, 0.2, 64, held_out=held_out).read(0)

    with pytest.raises(ReviserError, match=message):
        read()


# -- words ------------------------------------------------------------------------------------


def test_a_word_tokenizer_has_one_token_for_each_word(tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text(json.dumps(WORDS))
    codec = Codec(read_words(tmp_path / "words.json"))
    assert codec.encode("from a to b") == [5, 0, 6, 1]
    assert codec.decode([5, 0, 6, 1]) == "from a to b"
    with pytest.raises(VocabError, match="cannot encode"):
        codec.encode("from z")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "b c"], "has 'b c'; each word should be a text without spaces"),
        (["a", 5], "has 5; each word"),
        (["a", "a"], "none of them twice"),
        ([], "at least one word"),
        ({"a": 1}, "should hold a list of words"),
    ],
)
def test_bad_lists_of_words_are_refused(tmp_path: Path, words: Any, message: str) -> None:
    (tmp_path / "words.json").write_text(json.dumps(words))
    with pytest.raises(ConfigError, match=message):
        read_words(tmp_path / "words.json")
