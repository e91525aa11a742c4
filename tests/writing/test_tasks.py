"""Tasks: they check themselves, and come back from JSON as they were."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from reviser.errors import ConfigError
from reviser.writing.tasks import Continue, Infill, Revise, Task, task_from_dict


@pytest.mark.parametrize(
    "task",
    [
        Continue(),
        Continue("The"),
        Infill("The {} sat"),
        Infill("The cat sat", [(4, 7), (8, 8)]),
        Revise("The cat"),
        Revise("The cat", locked=["cat", (0, 3)], instruction="Fix it.", window=9, context=0),
        Revise("The cat", min_edit_probability=0.0, precision=0.5),
    ],
)
def test_a_task_survives_json(task: Task) -> None:
    assert task_from_dict(json.loads(json.dumps(task.to_dict()))) == task


def test_batch_files_and_pairs_have_names_of_their_own() -> None:
    assert task_from_dict({"infill": "a{}"}) == Infill("a{}")
    assert task_from_dict({"before": "a"}) == Revise("a")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "exactly one of these"),
        ({"prompt": "a", "draft": "b"}, "exactly one of these"),
        ({"draft": "a", "before": "b"}, "exactly one of these"),
        ({"prompt": "a", "locked": []}, "`locked` is not a field of a task with a `prompt`"),
        ({"draft": "a", "lockd": []}, "Did you mean `locked`?"),
        ({"prompt": None}, "prompt must be a text; got NoneType"),
        ({"prompt": ["The"]}, "prompt must be a text; got list"),
        ({"prompt": "\ud800"}, "half of a surrogate pair"),
        ({"text": "\ud800{}"}, "half of a surrogate pair"),
        ({"text": "The cat"}, "has no gap. Mark one or more with {}"),
        ({"text": "The cat", "spans": []}, "give one or more"),
        ({"text": "The cat", "spans": [(2, 9)]}, "within the text's 7 characters"),
        ({"text": "The cat", "spans": [(3, 5), (4, 6)]}, "in order, apart"),
        ({"text": "The cat", "spans": [(-1, 2)]}, "in order"),
        ({"text": "The cat", "spans": (0, 3)}, "pairs of positions"),
        ({"text": "The cat", "spans": [(0, 3, 4)]}, "pairs of positions"),
        ({"text": "The cat", "spans": [(0.5, 3)]}, "pairs of positions"),
        ({"draft": 5}, "draft must be a text; got int"),
        ({"draft": "a", "instruction": 0}, "instruction must be a text; got int"),
        ({"draft": "one two", "locked": ["three"]}, "'three', which does not occur in the draft"),
        ({"draft": "one two", "locked": [""]}, "'', which does not occur in the draft"),
        ({"draft": "one two", "locked": [(2, 99)]}, "2..99 is not within the draft's 7"),
        ({"draft": "one two", "locked": [(2, "x")]}, "texts, or of pairs of positions"),
        ({"draft": "one two", "locked": 5}, "texts, or of pairs of positions"),
        ({"draft": "a", "window": 0}, "window is 0; it must be a whole number, 1 or more"),
        ({"draft": "a", "window": "x"}, "window is 'x'"),
        ({"draft": "a", "context": -1}, "context is -1; it must be a whole number, 0 or more"),
        ({"draft": "a", "precision": "x"}, "precision is 'x'; it must be a number from 0 to 1"),
        ({"draft": "a", "min_edit_probability": 2}, "min_edit_probability is 2; it must be a num"),
        ({"draft": "a", "min_edit_probability": True}, "min_edit_probability is True"),
    ],
)
def test_a_task_that_makes_no_sense_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        task_from_dict(fields)


def test_locks_are_found_wherever_they_occur_and_joined() -> None:
    assert Revise("one two one", locked=["one"]).locked_spans == ((0, 3), (8, 11))
    assert Revise("one two", locked="one").locked_spans == ((0, 3),)
    assert Revise("banana", locked=["ana"]).locked_spans == ((1, 6),)  # also where they overlap
    assert Revise("abcdef", locked=[(4, 5), (0, 2), "bc", (3, 3)]).locked_spans == ((0, 3), (4, 5))
    many = Revise("a" * 9999, locked=["a"] * 1000)
    assert many.locked_spans == ((0, 9999),)
