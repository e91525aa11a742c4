"""What every engine must do, on a small model of which the truth is one full forward pass.

A test file inherits `EngineSuite` and gives it a fixture `engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import exp, inf
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.mask import ActionMask
from reviser.engines.base import (
    Act,
    Branch,
    DecodeConfig,
    Engine,
    PlainVocab,
    Question,
    Request,
    Score,
    Scores,
    Vocab,
)
from reviser.errors import ConfigError, ReviserError
from reviser.models import trunks
from support import fuzz, small_tokenizers
from support.asking import answers_of, records_of

SIZES: dict[str, Any] = {"layers": 2, "width": 64, "heads": 2, "mlp_width": 48, "context": 96}
"""vLLM's attention on a CPU wants heads of 32 or more."""
TOKENIZER = small_tokenizers.few_tokens()
VOCABS = {
    "plain": ActionVocab.build(20, max_move=8),
    "operators": ActionVocab.from_tokenizer(
        TOKENIZER, max_move=8, operators=OPERATORS, reserved=3, marks=True, search=True
    ),
    "bare": ActionVocab.build(20, begin=4, delimiter=False, max_move=4, never_insert=[0, 7]),
}
REPORTED = 20
"""An engine may leave out how likely STOP is where so many ids are likelier."""


@cache
def trunk(architecture: Any, name: str) -> Any:
    """A small trunk that has opinions: fresh weights hold every action for equally likely."""
    config = trunks.TrunkConfig(architecture=architecture, **SIZES)
    model = trunks.build(config, VOCABS[name], seed=3)
    for parameter in model.parameters():
        parameter.data.mul_(4)
    return model.eval()


def random_request(rng: Random, vocab: ActionVocab, config: DecodeConfig) -> Request:
    """A text with a few ranges, and the cursor somewhere between them."""
    tokens = np.flatnonzero(vocab.kinds == Kind.INSERT).tolist()
    length = rng.randint(0, 20)
    count = rng.randint(1, 3)
    bounds = sorted(rng.sample(range(length + 1), min(length + 1, 2 * count)))
    editable = list(zip(bounds[::2], bounds[1::2], strict=False)) or [(length, length)]
    cursor = rng.randint(editable[0][0], editable[-1][1])
    moves = (
        vocab.split_move(cursor - length, cursor=length, length=length) if cursor < length else ()
    )
    return Request(
        history=(
            *vocab.prefix_actions(rng.choices(tokens, k=length)),
            *(vocab.move_id(delta) for delta in moves),
        ),
        length=length,
        cursor=cursor,
        editable=tuple(editable),
        config=replace(
            config,
            seed=rng.getrandbits(64),
            max_actions=rng.randint(1, 60),
            max_edits=rng.choice([None, None, 0, 3, 20]),
            max_moves=rng.choice([None, None, 0, 2]),
            max_length=rng.choice([None, None, length, length + 5]),
            stop_bias=rng.choice([0.0, 0.0, -3.0]),
            move_bias=rng.choice([0.0, 0.0, -3.0, 2.0]),
        ),
    )


def random_requests(name: str, count: int, **settings: Any) -> list[Request]:
    rng, config = Random(count), DecodeConfig(**settings)
    return [random_request(rng, VOCABS[name], config) for _ in range(count)]


def poisoned(request: Request, **values: Any) -> Request:
    """Return a request with settings that no check has seen."""
    config = replace(request.config)
    for name, value in values.items():
        object.__setattr__(config, name, value)
    return replace(request, config=config)


@torch.no_grad()
def check_greedy(model: Any, vocab: ActionVocab, request: Request, record: dict[str, Any]) -> None:
    """Compare with the likeliest action after each part of a history, which is read in one go."""
    rows, actions = ActionMask(vocab, 1), record["actions"]
    request.enter(rows, 0)
    ids = torch.tensor([[*request.history, *actions]])
    logits_TA = model(input_ids=ids, use_cache=False).logits[0, len(request.history) - 1 : -1]
    is_biased = torch.from_numpy(np.isin(vocab.kinds, [Kind.MOVE, Kind.MARK, Kind.FIND]))
    assert actions
    for action, logprob, logits in zip(actions, record["logprobs"], logits_TA, strict=True):
        assert logprob == pytest.approx(float(logits.log_softmax(0)[action]), abs=2e-4)
        logits = logits[: vocab.size].clone()
        if not rows.is_spelling[0]:
            logits[vocab.stop] += request.config.stop_bias
            logits[is_biased] += request.config.move_bias
        allowed = torch.from_numpy(rows.allowed()[0])
        assert allowed[action]
        assert logits[action] > logits[allowed].max() - 1e-4
        rows.advance([action])
    if record["ended"] is None:
        raise AssertionError("This request has no end.")


def random_branch(rng: Random, vocab: Vocab, history: Sequence[int]) -> Branch:
    """An edit of a text, and some of what follows: it inserts, replaces or only deletes."""
    cut = rng.choice([1, len(history), rng.randint(1, len(history))])
    new = [rng.randrange(vocab.size) for _ in range(rng.choice([0, 1, 1, 2, 20]))]
    begin = cut + rng.randint(0, 3)
    ids = new + list(history[begin : begin + rng.randint(0, 6)])
    return Branch(cut, tuple(ids or [rng.randrange(vocab.size)]))


@torch.no_grad()
def by_full_forwards(model: Any, vocab: Vocab, asked: Score) -> Scores:
    """The slow twin: every branch is read with all that stands before it; nothing is shared."""
    parts = [(asked.history, asked.start)]
    parts += [((*asked.history[:cut], *ids), cut) for cut, ids in asked.branches]
    width = max(len(history) for history, _ in parts)
    padded = [[*history, *[0] * (width - len(history))] for history, _ in parts]  # never seen
    table_BTA = model(input_ids=torch.tensor(padded)).logits.double().log_softmax(-1)
    if isinstance(vocab, PlainVocab):
        pairs = zip(table_BTA, parts, strict=True)
        found = [Scores(_logprobs(table, *part)) for table, part in pairs]
        return replace(found[0], branches=tuple(found[1:]))
    found = []
    for table, (history, start) in zip(table_BTA, parts, strict=True):
        ids = range(start, len(history))
        found.append(
            Scores(
                _logprobs(table, history, start),
                tuple(float(table[n - 1, vocab.stop]) for n in [*ids, len(history)]),
            )
        )
    return replace(found[0], branches=tuple(found[1:]))


def _logprobs(table: torch.Tensor, history: Sequence[int], start: int) -> tuple[float, ...]:
    return tuple(float(table[n - 1, history[n]]) for n in range(start, len(history)))


def check_scores(
    answer: Callable[[Sequence[Score]], Sequence[Any]],
    model: Any,
    vocab: Vocab,
    *,
    texts: int = 10,
    seed: int = 0,
) -> None:
    """Compare the answers about some texts, with 50 branches each, with full forward passes."""
    rng, questions = Random(seed), []
    for n in range(texts):
        history = [rng.randrange(vocab.size) for _ in range((1, 40)[n % 5 > 0] + n)]
        start = rng.choice([1, len(history), rng.randint(1, len(history))])
        branches = tuple(random_branch(rng, vocab, history) for _ in range(50))
        questions += [
            Score(tuple(history)),
            Score(tuple(history), start, branches),  # now the text may be known
        ]

    def compare(found: Scores, wanted: Scores) -> None:
        assert found.logprobs == pytest.approx(wanted.logprobs, abs=1e-3)

    for question, found in zip(questions, answer(questions), strict=True):
        assert isinstance(found, Scores), found
        wanted = by_full_forwards(model, vocab, question)
        compare(found, wanted)
        for one, other in zip(found.stop, wanted.stop, strict=True):
            is_left_out = one == -inf and exp(other) < 1 / REPORTED
            assert is_left_out or one == pytest.approx(other, abs=1e-3)
        for part, whole in zip(found.branches, wanted.branches, strict=True):
            compare(part, whole)


class EngineSuite:
    """Tests of an engine with the llama trunk and the vocabulary that has every operator."""

    model = staticmethod(lambda: trunk("llama", "operators"))
    vocab = VOCABS["operators"]

    def test_greedy_actions_are_the_likeliest(self, engine: Engine) -> None:
        requests = random_requests("operators", 40, temperature=0.0)
        for request, record in zip(requests, records_of(engine, requests), strict=True):
            check_greedy(self.model(), self.vocab, request, record)

    def test_a_request_that_fails_fails_alone(self, engine: Engine) -> None:
        requests = random_requests("operators", 12, temperature=0.0)
        wanted = records_of(engine, requests)
        bad = poisoned(requests[3], stop_bias="much")
        *found, failed = records_of(engine, [*requests, bad])
        assert isinstance(failed["error"], ReviserError)
        assert [each["actions"] for each in found] == [each["actions"] for each in wanted]

    def test_what_is_locked_stays_and_nothing_else_is_broken(self, engine: Engine) -> None:
        report = fuzz.fuzz(engine, actions=1000, seed=3, context=engine.context, at_once=16)
        assert (report.illegal, report.lost) == (0, 0), report

    def test_a_cancelled_question_is_not_answered(self, engine: Engine) -> None:
        config = DecodeConfig(max_actions=20, temperature=2.0, stop_bias=-50.0)
        request = Request.continuation(self.vocab, [1], config)
        acts = [engine.add(Act(request)) for _ in range(4)]
        scores = [engine.add(Score((1, 2, 3))) for _ in range(2)]
        engine.cancel(acts[0])
        engine.cancel(scores[0])
        engine.cancel(10_000)
        said: list[int] = []
        while any(said.count(number) < 20 for number in acts[1:]) or scores[1] not in said:
            said += [answer.number for answer in engine.step(1.0)]
        assert sorted(said) == sorted([*acts[1:] * 20, scores[1]])

    def test_scores_are_those_of_full_forward_passes(self, engine: Engine) -> None:
        answer = lambda questions: answers_of(engine, questions)  # noqa: E731
        check_scores(answer, self.model(), self.vocab)

    def test_what_no_engine_can_read_is_refused(self, engine: Engine) -> None:
        one = Request.continuation(self.vocab, [1])
        long, other = replace(one, history=(1,) * 97), replace(one, length=one.length + 1)
        questions: list[Question] = [Act(long), Act(other)]
        questions += [Score((1,) * 97), Score(()), Score((1, 10_000))]
        for question in questions:
            with pytest.raises(ConfigError):
                engine.add(question)
