"""Rewards against slow references, and the figures that show what they do not see."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reviser.engines.base import Request
from reviser.errors import ConfigError
from reviser.lab.evals.arena import Question
from reviser.lab.evals.perplexity import Scorer
from reviser.lab.evals.texts import Sample
from reviser.lab.reinforce.config import ReinforceConfig, RewardConfig
from reviser.lab.reinforce.prompts import Prompt
from reviser.lab.reinforce.rewards import (
    NOTHING,
    EditReward,
    JudgeScore,
    Ranked,
    ScorerReward,
    guards,
    linear_decay,
    open_reward,
)
from reviser.lab.reinforce.rollouts import Rollout

REQUEST = Request(history=(0,), length=1, cursor=1, editable=((0, 1),))


def rollout(text: str, draft: str = "", target: str = "", **fields: Any) -> Rollout:
    prompt = Prompt(
        key=fields.pop("key", "training 0"),
        request=REQUEST,
        text=draft,
        target=target,
        is_draft=fields.pop("is_draft", True),
    )
    given = {"ids": (1, 2), "by_oracle": 0, "tokens": 2, "is_revised": True, "has_stopped": True}
    return Rollout(prompt=prompt, text=text, **given | fields)


@pytest.mark.parametrize(
    ("text", "score", "wrong_bytes"),
    [
        ("He goes home .", 1.0, 0),  # the wanted edit
        ("He go home .", 0.0, 0),  # no edit at all
        # One right, one wrong: precision 1/2, recall 1. The space between them counts as changed.
        ("She goes home .", 1.25 * 0.5 / (0.25 * 0.5 + 1), 3),
        ("She go home .", 0.0, 2),
    ],
)
def test_edits_earn_f05_less_a_price_for_what_should_have_stayed(
    text: str, score: float, wrong_bytes: int
) -> None:
    reward = EditReward(RewardConfig(kind="edits", price_per_byte=0.1))
    (found,) = reward([rollout(text, "He go home .", "He goes home .")])
    assert found == pytest.approx(score - 0.1 * wrong_bytes)


def test_a_correct_draft_is_best_left_alone_under_either_measure() -> None:
    for measure in ("f0.5", "gleu"):
        reward = EditReward(RewardConfig(kind="edits", measure=measure))  # type: ignore[arg-type]
        text = "He goes home now ."
        same, other = reward([rollout(each, text, text) for each in (text, "He goes home .")])
        assert same == pytest.approx(1.0)
        assert other < same


class LongerIsBetter:
    """A judge that prefers the longer text, and the first of two of equal length."""

    about: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def replies(self, questions: Sequence[Question]) -> Iterator[tuple[Question, str]]:
        self.asked += questions
        for question in reversed(questions):
            yield question, "[[A]]" if len(question.a) >= len(question.b) else "So [[B]]"


def test_a_judge_ranks_the_rollouts_of_each_prompt_by_round_robin() -> None:
    judge = LongerIsBetter()
    texts = ["aaa", "a", "aa", "bb", "b", "cc"]
    keys = ["training 0"] * 3 + ["training 1"] * 3
    made = [rollout(text, key=key) for text, key in zip(texts, keys, strict=True)]
    # "bb" and "cc" are as long: in both orders the first wins, so they share ranks 1 and 2.
    assert Ranked(JudgeScore(judge))(made) == pytest.approx([1.0, 0.0, 0.5, 0.75, 0.0, 0.75])
    assert len(judge.asked) == 12
    same = [rollout("x"), rollout("x"), rollout("xy")]
    assert Ranked(JudgeScore(judge))(same) == pytest.approx([0.25, 0.25, 1.0])


def test_a_scorer_gives_the_mean_log_probability_of_a_character(bench: Path) -> None:
    scorer = Scorer.load(bench / "scorer")
    texts = [" One day", " Once upon", ""]
    made = [rollout(text, "Ben had", is_draft=False) for text in texts]
    found = ScorerReward(scorer)(made)
    for text, value in zip(texts[:2], found[:2], strict=True):
        (alone,) = scorer.score([Sample(system="x", id="0", prompt="Ben had", continuation=text)])
        assert value == pytest.approx(-alone.nll / len(text), abs=1e-5)
    assert found[2] == NOTHING == pytest.approx(-math.log(256))
    ranked = open_reward(RewardConfig(kind="judge", scorer=str(bench / "scorer")), "cpu")
    assert ranked(made) == linear_decay(found)


def test_guards_show_what_a_reward_does_not_see() -> None:
    made = [
        rollout("a b a b", "a b", "a c", tokens=4, ids=(1, 2, 3), by_oracle=1),
        rollout("a b a b", "a b", "a c", tokens=4, has_stopped=False),
        rollout("a c", "a b", "a c", tokens=2, is_revised=False),
        rollout("a b", "a b", "a c", tokens=2, key="training 1"),
    ]
    found = guards(made)
    assert found["distinct_2"] == pytest.approx(3 / 8)  # a b, b a, a c
    assert found["text_tokens"] == 3
    assert found["revised"] == 0.75
    assert found["stopped"] == 0.75
    assert found["actions_per_token"] == pytest.approx(8 / 12)
    assert found["equal_in_group"] == 0.5
    assert found["exact_match"] == 0.25
    assert "locality" not in guards([rollout("a b", is_draft=False)])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "likelihood"}, "give scorer"),
        ({"kind": "judge"}, "one of the two"),
        ({"kind": "judge", "judge": "a", "scorer": "b"}, "one of the two"),
        ({"kind": "edits", "scorer": "a"}, "leave out scorer"),
        ({"kind": "judge", "scorer": "a", "url": "http://x"}, "the url that serves it"),
        ({"kind": "judge", "judge": "a"}, "the url that serves it"),
        ({"kind": "edits", "price_per_byte": -1.0}, "0 or more"),
        ({"kind": "judge", "judge": "a", "url": "u", "price_per_byte": 1.0}, "of kind edits"),
    ],
)
def test_rewards_that_lack_something_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RewardConfig(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group": 1}, "group is 1"),
        ({"kl": -1.0}, "kl is -1"),
        ({"temperature": 0.0}, "above 0"),
        ({"oracle": 2.0}, "from 0 to 1"),
        ({"kl": 0.0, "types": 0.1}, "types needs kl"),
    ],
)
def test_settings_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ReinforceConfig(reward=RewardConfig(kind="edits"), **fields)


def test_the_share_of_the_oracle_decreases_to_nothing() -> None:
    config = ReinforceConfig(reward=RewardConfig(kind="edits"), oracle=0.8, oracle_until=0.5)
    shares = [config.oracle_share(progress) for progress in (0.0, 0.25, 0.5, 1.0)]
    assert shares == pytest.approx([0.8, 0.4, 0.0, 0.0])
