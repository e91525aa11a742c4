"""Harper as a proposer: what it suggests, in our terms, and never sure."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import reviser
from reviser.errors import MissingExtra
from reviser.proofread.harper import Harper
from reviser.proofread.suggestion import Suggestion

TEXT = "😀 I could of seen a error in the the end"


@pytest.fixture(scope="module")
def harper() -> Harper:
    pytest.importorskip("harper", reason="harper-py is not installed: the extra harper has it.")
    return Harper()


def test_lints_are_suggestions_with_a_category_and_a_reason(harper: Harper) -> None:
    found = {each.rule: each for each in harper(TEXT)}
    assert {"ModalOf", "AnA", "RepeatedWords"} <= found.keys()
    each = found["ModalOf"]
    assert TEXT[each.start : each.end] == "could of"
    assert each.replacements == ("could have",)
    assert (each.category, each.source) == ("word choice", "harper")
    assert each.message == "Use 'have' rather than 'of' here."


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("She is taller then me.", "She is taller than me."),  # replaced
        ("I saw that , too.", "I saw that, too."),  # removed
        ("However I left.", "However, I left."),  # inserted
    ],
)
def test_each_kind_of_suggestion_is_an_edit(harper: Harper, text: str, fixed: str) -> None:
    made = [text[: s.start] + s.replacements[0] + text[s.end :] for s in harper(text)]
    assert fixed in made


def test_nothing_is_sure(harper: Harper) -> None:
    found = list(harper(TEXT))
    assert found
    assert not any(each.sure for each in found)
    with reviser.proofreader(None, also=[harper]) as model:
        assert all(change.source != "harper" for change in model.revise(TEXT).changes)


def test_threads_take_turns(harper: Harper) -> None:
    def rules(_: int) -> list[Suggestion]:
        return list(harper(TEXT))

    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(rules, range(16))
    assert all(each == first for each in others)


def test_dialects_differ(harper: Harper) -> None:
    text = "Her favourite colour is grey."
    assert any(text[s.start : s.end] == "colour" for s in harper(text))
    assert not any(text[s.start : s.end] == "colour" for s in Harper("british")(text))


def test_without_the_extra_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "harper", None)
    with pytest.raises(MissingExtra, match=r"pip install 'reviser-lm\[harper\]'"):
        Harper()
