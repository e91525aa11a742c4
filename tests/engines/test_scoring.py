"""Scores by one tree over one cache are those of full forward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from reviser.core.actions import ActionVocab
from reviser.engines import scoring, tree
from reviser.engines.base import Branch, Score, Scores
from reviser.engines.hf import HFEngine
from reviser.errors import ConfigError
from reviser.models import trunks
from support.engine_suite import check_scores

VOCAB = ActionVocab.build(60, operators=["delete"])


def trunk(architecture: str, seed: int = 0) -> Any:
    config = trunks.TrunkConfig(
        architecture=architecture, layers=2, width=32, heads=2, mlp_width=48, context=256
    )
    model = trunks.build(config, VOCAB, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # else everything is about equally likely
    return model.eval()


def answer(model: Any) -> Callable[[Sequence[Score]], list[Scores]]:
    scorer = scoring.Scorer(model, VOCAB)

    def each(questions: Sequence[Score]) -> list[Scores]:
        with torch.no_grad():
            return [scorer.score(question) for question in questions]

    return each


@pytest.mark.parametrize(("architecture", "nodes"), [("llama", 1), ("llama", 256), ("gpt_neox", 9)])
def test_branches_are_scored_as_full_forward_passes_score_them(
    architecture: str, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "NODES", nodes)
    model = trunk(architecture)
    check_scores(answer(model), model, VOCAB, seed=nodes)


def test_a_text_that_was_read_is_not_read_again() -> None:
    model = trunk("llama")
    read: list[int] = []
    model.register_forward_pre_hook(
        lambda _, __, inputs: read.append(inputs["input_ids"].shape[1]), with_kwargs=True
    )
    scorer = scoring.Scorer(model, VOCAB)
    history = tuple(range(30))
    with torch.no_grad():
        scorer.score(Score(history))
        scorer.score(Score(history, 30, (Branch(10, (5, 6, 7)), Branch(10, (5, 6, 8)))))
    assert read == [30, 2]  # 5 and 6 are shared


def test_only_so_many_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "CACHED_IDS", 50)
    scorer = scoring.Scorer(trunk("llama"), VOCAB)
    texts = [tuple(range(n, n + 20)) for n in range(5)]
    with torch.no_grad():
        for text in texts:
            scorer.score(Score(text))
    assert [scorer.has_read(text) for text in texts] == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (Score(()), "empty or holds ids outside"),
        (Score((1, 10_000)), "ids outside"),
        (Score((1, 2), 1, (Branch(0, (3,)),)), "begins outside"),
        (Score((1, 2), 1, (Branch(3, (3,)),)), "begins outside"),
        (Score((1, 2), 1, (Branch(1, ()),)), "or is empty"),
        (Score((1,) * 300), "limit is 256"),
        (Score((1, 2), 1, (Branch(2, (3,) * 255),)), "limit is 256"),
    ],
)
def test_questions_that_cannot_be_answered_are_refused(question: Score, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        HFEngine(trunk("llama"), VOCAB).add(question)


def test_branches_of_a_model_with_a_sliding_window_stay_within_it() -> None:
    """Their layers would see more than they do in a full forward pass."""
    config = MistralConfig(
        vocab_size=trunks.rows_for(VOCAB.size), hidden_size=32, intermediate_size=48,
        num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, sliding_window=7,
    )  # fmt: skip
    scorer = scoring.Scorer(MistralForCausalLM(config).eval(), VOCAB)
    with torch.no_grad():
        scorer.score(Score((1, 2, 3), 1, (Branch(2, (4, 5)),)))
        with pytest.raises(ConfigError, match="sees 7 tokens at a time, and this text has 8"):
            scorer.score(Score((1, 2, 3), 1, (Branch(2, (4,) * 7),)))
