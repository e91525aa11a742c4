"""What the shipped models, commands and server do today is what the golden files say."""

from __future__ import annotations

from typing import Any

import pytest

from support import golden

QUICK = [name for name in golden.GROUPS if name != "proofreader"]  # `just golden` has all


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("group", QUICK)
def test_behaviour_is_that_of_the_golden_file(group: str) -> None:
    assert golden.check(group) == []


def test_a_difference_is_found_at_any_depth_and_named() -> None:
    wanted = {"a": [{"b": 1.0, "c": "x"}], "d": True}
    assert list(golden.differences(wanted, {"a": [{"b": 1.001, "c": "x"}], "d": True})) == []
    got = {"a": [{"b": 1.01, "c": "y"}], "e": None}
    assert list(golden.differences(wanted, got)) == [
        "/a/0/b: 1.0 became 1.01", "/a/0/c: 'x' became 'y'", "/d: True became None",
    ]  # fmt: skip
    assert list(golden.differences([1], [1, 2])) == [": [1] became [1, 2]"]
