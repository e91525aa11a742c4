"""Search-and-replace blocks: written ones give the exact text, invalid ones are named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from experiments.revise import blocks
from experiments.revise.blocks import END, PART, Blocks, BlocksRecipe
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.errors import DataError
from reviser.train.recipe import load_recipe
from reviser.trajectories.policy import TokenPair
from support import small_tokenizers

words = st.sampled_from(["a", "cat", "catch", "é", ".", ",", " ", "  ", "\n", "\n\n"])
texts = st.lists(words, max_size=24).map("".join)


@given(before=texts, after=texts)
@example(before="", after="a")
@example(before="a", after="")
@example(before=" ", after="")
@example(before="cat cat cat", after="cat cat")
def test_blocks_make_the_text_of_the_draft(before: str, after: str) -> None:
    written = blocks.write(before, after)
    assert blocks.apply(before, written) == (after, ())
    assert (written == "") == (before == after)
    if "  " not in before + after:
        searches = [block.partition(PART)[0] for block in written.split(END)[:-1]]
        pieces = "".join(searches).split()
        assert {*pieces} <= {*before.split()}  # words are never parted


@pytest.mark.parametrize(
    ("given", "text", "faults"),
    [
        ("", "my cat saw my cat", ()),
        (f" saw{PART} sees{END}", "my cat sees my cat", ()),
        (f" saw{PART}{END}", "my cat my cat", ()),
        (f"{PART}so{END}", "my cat saw my cat", ("ambiguous",)),
        (f" dog{PART} ox{END} saw{PART} met{END}", "my cat met my cat", ("absent",)),
        (f" cat{PART} ox{END}", "my cat saw my cat", ("ambiguous",)),
        (f" saw{PART} met{END}t saw m{PART}s{END}", "my cat met my cat", ("overlapping",)),
        (f" saw{PART} met{PART}{END}", "my cat saw my cat", ("broken",)),
        (f" saw{PART} met", "my cat saw my cat", ("broken",)),
        (f" saw{END}", "my cat saw my cat", ("broken",)),
    ],
)
def test_blocks_that_cannot_be_applied_are_skipped_and_named(
    given: str, text: str, faults: tuple[str, ...]
) -> None:
    assert blocks.apply("my cat saw my cat", given) == (text, faults)


@given(draft=texts, given=st.text(st.sampled_from(["a", "c", " ", PART, END])))
def test_any_output_is_read(draft: str, given: str) -> None:
    text, faults = blocks.apply(draft, given)
    assert {*faults} <= {"broken", "absent", "ambiguous", "overlapping"}
    assert len(faults) <= given.count(END) + 1
    if text != draft:
        assert len(faults) < given.count(END) + (not given.endswith(END))


def test_a_text_with_the_marks_of_blocks_is_refused() -> None:
    with pytest.raises(DataError, match="U\\+001F"):
        blocks.write("a", f"a{PART}")


@given(before=texts, after=texts)
def test_a_trajectory_writes_the_blocks_after_the_draft(before: str, after: str) -> None:
    tokenizer = small_tokenizers.byte_level()
    codec, vocab = Codec(tokenizer), ActionVocab.from_tokenizer(tokenizer)
    pair = (np.array(codec.encode(text), np.int32) for text in ("Fix. ", before, after))
    trajectory = Blocks().compile(vocab, codec)(TokenPair(*pair))
    assert codec.decode(trajectory.prefix) == f"Fix. {before}"
    *written, last = trajectory.restoration
    assert last == vocab.stop
    assert blocks.apply(before, codec.decode(written)) == (after, ())


def test_a_recipe_can_train_the_baseline() -> None:
    recipe = load_recipe("recipes/revise.yaml", ["policy={kind: blocks}"], cls=BlocksRecipe)
    assert recipe.policy == Blocks()
