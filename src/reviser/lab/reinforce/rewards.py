"""Rewards of rollouts: a comparison with the corrected text, a scorer's likelihood, or ranks.

A reward is a function of rollouts; those of one prompt are next to each other. `guards` are the
figures that show what a reward does not see. This module knows texts, but not actions or training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, groupby
from typing import Protocol

import numpy as np

from reviser.lab.evals.arena import Judge, Question, read_verdict
from reviser.lab.evals.diversity import ngrams, words
from reviser.lab.evals.judges import JudgeConfig, open_judge
from reviser.lab.evals.perplexity import Scorer
from reviser.lab.evals.revision import edit_counts, edit_f, exact_match, gleu, locality
from reviser.lab.evals.texts import Sample
from reviser.lab.reinforce.config import RewardConfig
from reviser.lab.reinforce.rollouts import Rollout

NOTHING = -math.log(256)
"""Log-probability per character of a text without characters: that of random bytes. With 0, which
is higher than that of any text, a model would learn to write nothing."""


class Reward(Protocol):
    """A reward of finished rollouts."""

    def __call__(self, rollouts: Sequence[Rollout], /) -> list[float]:
        """Return the reward of each rollout."""
        ...


def open_reward(config: RewardConfig, device: str) -> Reward:
    """Open the models that a reward needs, and return it."""
    if config.kind == "edits":
        return EditReward(config)
    if config.scorer is not None:
        score = ScorerReward(Scorer.load(config.scorer, device=device))
        return score if config.kind == "likelihood" else Ranked(score)
    assert config.judge is not None
    assert config.url is not None
    return Ranked(JudgeScore(open_judge(JudgeConfig(model=config.judge, url=config.url))))


class EditReward:
    """F0.5 or GLEU of each text, less a price for bytes that were changed without need."""

    def __init__(self, config: RewardConfig) -> None:
        self._config = config

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """Compare each text with the draft and the corrected text."""
        return [self._one(each.prompt.text, each.text, each.prompt.target) for each in rollouts]

    def _one(self, draft: str, text: str, target: str) -> float:
        if self._config.measure == "gleu":
            score = gleu([draft], [text], [[target]])
        else:
            score = edit_f(np.array([edit_counts(draft, text, [target])]), beta=0.5)
        kept = locality(draft, text, [target])
        return score - self._config.price_per_byte * (kept.of - kept.bytes)


class ScorerReward:
    """The mean log-probability of a character under a scorer, in nats."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """Score what was written after each beginning, or each revised draft."""
        samples = [
            Sample(
                system="policy",
                id=each.prompt.key,
                prompt="" if each.prompt.is_draft else each.prompt.text,
                continuation=each.text,
            )
            for each in rollouts
        ]
        scores = self._scorer.score(samples)
        return [-s.nll / s.characters if s.tokens else NOTHING for s in scores]


class JudgeScore:
    """The number of comparisons with the others of its group that a rollout wins."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """Compare every two rollouts of a prompt, in both orders; without a verdict, both get half.

        Equal texts are not compared: they get half each.
        """
        asked: dict[str, Question] = {}
        meetings: list[tuple[int, int, str]] = []
        wins = [0.0] * len(rollouts)
        for _, group in groupby(range(len(rollouts)), lambda n: rollouts[n].prompt.key):
            for pair in combinations(group, 2):
                for a, b in (pair, pair[::-1]):
                    texts = rollouts[a].text, rollouts[b].text
                    if texts[0] == texts[1]:
                        wins[a], wins[b] = wins[a] + 0.5, wins[b] + 0.5
                        continue
                    question = Question(prompt=rollouts[a].prompt.text, a=texts[0], b=texts[1])
                    asked[question.key] = question
                    meetings.append((a, b, question.key))
        replies = self._judge.replies(list(asked.values())) if asked else ()
        verdicts = {question.key: read_verdict(reply) for question, reply in replies}
        for a, b, key in meetings:
            share = {"A": 1.0, "B": 0.0}.get(verdicts[key], 0.5)
            wins[a], wins[b] = wins[a] + share, wins[b] + 1 - share
        return wins


class Ranked:
    """The paper's reward: 1 - (r - 1) / (K - 1) for rank r of the K rollouts of a prompt."""

    def __init__(self, score: Reward) -> None:
        self._score = score
        self.scores: list[float] = []
        """Scores of the last call. Ranks have the same mean always, so these show the progress."""

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """Rank the rollouts of each prompt by their scores; equal scores share their ranks."""
        self.scores = scores = self._score(rollouts)
        rewards = []
        for _, group in groupby(range(len(rollouts)), lambda n: rollouts[n].prompt.key):
            rewards += linear_decay([scores[n] for n in group])
        return rewards


def linear_decay(scores: Sequence[float]) -> list[float]:
    """Return 1 for the highest score, 0 for the lowest, and equal steps between.

    >>> linear_decay([3.0, 9.0, 5.0]), linear_decay([1.0, 1.0, 0.0])
    ([0.0, 1.0, 0.5], [0.75, 0.75, 0.0])
    """
    ranks = [
        1 + sum(other > own for other in scores) + (sum(o == own for o in scores) - 1) / 2
        for own in scores
    ]
    return [1 - (rank - 1) / max(1, len(scores) - 1) for rank in ranks]


def guards(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Return figures of rollouts that their reward may hide."""
    grams = [gram for each in rollouts for gram in ngrams(words(each.text), 2)]
    actions = sum(each.actions for each in rollouts)
    figures = {
        "distinct_2": len({*grams}) / max(1, len(grams)),
        "text_tokens": float(np.mean([each.tokens for each in rollouts])),
        "revised": float(np.mean([each.is_revised for each in rollouts])),
        "actions_per_token": actions / max(1, sum(each.tokens for each in rollouts)),
        "stopped": float(np.mean([each.has_stopped for each in rollouts])),
        "equal_in_group": _equal_in_group(rollouts),
    }
    drafts = [each for each in rollouts if each.prompt.is_draft]
    if drafts:
        texts = [(each.prompt.text, each.text, [each.prompt.target]) for each in drafts]
        figures["exact_match"] = float(np.mean([exact_match(*text[1:]) for text in texts]))
        figures["locality"] = float(np.mean([locality(*text).share for text in texts]))
    return figures


def _equal_in_group(rollouts: Sequence[Rollout]) -> float:
    """Return the share of rollouts whose text another rollout of the same prompt has, too."""
    counts = Counter((each.prompt.key, each.text) for each in rollouts)
    return sum(count for count in counts.values() if count > 1) / len(rollouts)
