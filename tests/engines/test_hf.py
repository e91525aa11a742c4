"""Decoding: only what the mask allows, the same alone and in company, cached or not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.mask import ActionMask
from reviser.engines.base import Act, DecodeConfig, Request
from support import naive, strategies

torch = pytest.importorskip("torch", reason="torch is not installed, so there are no trunks.")

from transformers import MambaConfig, MambaForCausalLM, MistralConfig, MistralForCausalLM  # noqa: E402

from reviser.core.trajectory import Trajectory  # noqa: E402
from reviser.engines.hf import HFEngine, MaskProcessor  # noqa: E402
from reviser.engines.logits import LogitsMask  # noqa: E402
from reviser.errors import ConfigError  # noqa: E402
from reviser.models import trunks  # noqa: E402
from support.asking import records_of  # noqa: E402

SIZES = {"layers": 2, "width": 16, "heads": 2, "mlp_width": 24, "context": 96}
MISTRAL = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 96,
    "sliding_window": 7,
}
VOCABS = {
    "plain": ActionVocab.build(20, max_move=8),
    "operators": ActionVocab.build(20, max_move=8, operators=OPERATORS, reserved=3),
    "marks": ActionVocab.build(20, max_move=8, operators=OPERATORS, reserved=3, marks=True),
    "bare": ActionVocab.build(20, begin=4, delimiter=False, max_move=4, never_insert=[0, 7]),
}

every_trunk = pytest.mark.parametrize("architecture", ["gpt_neox", "llama", "mistral"])
every_vocab = pytest.mark.parametrize("name", VOCABS)


@cache
def trunk(architecture: str, name: str) -> Any:
    """A small trunk that has opinions: fresh weights hold every action for equally likely."""
    if architecture == "mistral":  # whose layers see a window only
        torch.manual_seed(3)
        rows = trunks.rows_for(VOCABS[name].size)
        model = MistralForCausalLM(MistralConfig(vocab_size=rows, **MISTRAL))
    else:
        config = trunks.TrunkConfig(architecture=architecture, **SIZES)
        model = trunks.build(config, VOCABS[name], seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6)
    return model.eval()


@torch.no_grad()
def slow_rollout(model: Any, vocab: ActionVocab, prefix: list[int], config: DecodeConfig) -> Any:
    """The slow reference: no cache, no state; every step reads the whole history again."""
    draws = np.random.Generator(np.random.Philox(key=config.seed)).random(config.max_actions)
    chosen: list[int] = []
    while len(chosen) < config.max_actions and vocab.stop not in chosen:
        rows = ActionMask(vocab, 1)
        end = len(prefix)
        rows.reset(0, length=end, editable=[(end, end)], max_moves=config.max_moves)
        rows.replay(0, chosen)
        history = torch.tensor([vocab.prefix_actions(prefix) + chosen])
        logits = model(input_ids=history, use_cache=False).logits[0, -1].tolist()
        allowed = np.flatnonzero(rows.allowed()[0]).tolist()
        if vocab.stop in allowed:  # else an action is half spelled, and moves are digits
            logits[vocab.stop] += config.stop_bias
            places = np.isin(vocab.kinds, [Kind.MOVE, Kind.MARK])
            for action in np.flatnonzero(places).tolist():
                logits[action] += config.move_bias
        ranked = sorted(allowed, key=lambda action: -logits[action])
        if config.temperature == 0:
            chosen.append(ranked[0])
            continue
        ranked = ranked[: config.top_k or None]
        weights = np.exp((np.array([logits[a] for a in ranked]) - logits[ranked[0]])
                         / config.temperature)  # fmt: skip
        shares = weights / weights.sum()
        likely = [n for n, share in enumerate(shares) if share >= config.min_p * shares[0]]
        kept = shares[likely].sum()
        likely = [n for n in likely if shares[:n].sum() / kept < config.top_p]
        goal = draws[len(chosen)] * shares[likely].sum()
        place = next(n for n in likely if shares[likely][: likely.index(n) + 1].sum() > goal)
        chosen.append(ranked[place])
    return Trajectory(prefix=tuple(prefix), restoration=tuple(chosen))


def rollouts(
    model: Any, vocab: ActionVocab, asked: list[tuple[list[int], DecodeConfig]], *, rows: int = 64
) -> list[Trajectory]:
    """What the engine chooses for some prefixes, so many at a time."""
    requests = [Request.continuation(vocab, prefix, config) for prefix, config in asked]
    records = records_of(HFEngine(model, vocab, rows=rows), requests)
    return [
        Trajectory(prefix=tuple(prefix), restoration=tuple(record["actions"]))
        for (prefix, _), record in zip(asked, records, strict=True)
    ]


configs = st.builds(
    DecodeConfig,
    temperature=st.sampled_from([0.0, 0.5, 0.9, 3.0]),
    top_k=st.sampled_from([0, 1, 3, 50, 1000]),
    top_p=st.sampled_from([1.0, 0.9, 0.3]),
    min_p=st.sampled_from([0.0, 0.1, 1.0]),
    max_actions=st.integers(1, 30),
    seed=st.integers(0, 2**63 - 1),
    max_moves=st.sampled_from([None, None, 0, 1, 3]),
    stop_bias=st.sampled_from([0.0, -3.0]),
    move_bias=st.sampled_from([0.0, 0.0, -2.0, 4.0]),
)
prefixes = st.lists(st.sampled_from([1, 2, 3, 5, 19]), max_size=6)


@every_vocab
@given(random=st.randoms(use_true_random=False), rows=st.integers(1, 4), padding=st.integers(0, 9))
def test_applying_the_mask_leaves_open_exactly_what_it_allows(
    name: str, random: Random, rows: int, padding: int
) -> None:
    for vocab in (VOCABS[name], random.choice(strategies.SMALL_VOCABS)):
        action_mask = ActionMask(vocab, rows)
        for row in range(rows):
            action_mask.reset(row, **strategies.random_layout(random, 8)._asdict())
        for _ in range(random.randint(0, 12)):
            allowed = action_mask.allowed()
            ids = [naive.pick(random, vocab, {*np.flatnonzero(row)}) for row in allowed]
            action_mask.advance(ids)
        allowed = action_mask.allowed()
        generator = torch.Generator().manual_seed(random.getrandbits(40))
        logits = torch.randn(rows, vocab.size + padding, generator=generator)
        before = logits.clone()
        wide = torch.zeros(logits.shape, dtype=torch.bool)
        wide[:, : vocab.size] = torch.from_numpy(allowed)
        mask = LogitsMask(vocab)
        mask.apply(logits, mask.plan(action_mask, [DecodeConfig()] * len(action_mask)))
        assert torch.equal(logits, torch.where(wide, before, -torch.inf))


@every_trunk
@every_vocab
@settings(max_examples=5)  # of each trunk with each vocabulary
@given(
    asked=st.lists(st.tuples(prefixes, configs), min_size=1, max_size=5),
    rows=st.sampled_from([1, 3, 64]),
)
def test_with_a_cache_and_in_company_the_same_actions_are_chosen(
    architecture: str, name: str, asked: list[tuple[list[int], DecodeConfig]], rows: int
) -> None:
    model, vocab = trunk(architecture, name), VOCABS[name]
    alone = [slow_rollout(model, vocab, prefix, config) for prefix, config in asked]
    state = torch.get_rng_state()
    assert rollouts(model, vocab, asked, rows=rows) == alone
    assert torch.equal(torch.get_rng_state(), state)


def test_a_step_that_is_broken_off_leaves_an_engine_that_works() -> None:
    model, vocab = trunk("llama", "plain"), VOCABS["plain"]
    config = DecodeConfig(max_actions=9, stop_bias=-9.0)
    requests = [Request.continuation(vocab, [1] * n, config) for n in range(6)]
    expected = records_of(HFEngine(model, vocab), requests[:1])
    for call in range(1, 5):
        engine, calls = HFEngine(model, vocab, rows=3), 0

        def interrupt(*_: Any, **__: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == call:  # noqa: B023
                raise KeyboardInterrupt

        hook = model.model.layers[1].register_forward_hook(interrupt)
        for request in requests:
            engine.add(Act(request))
        with pytest.raises(KeyboardInterrupt):
            [engine.step() for _ in range(9)]
        hook.remove()
        for number in range(1, 7):
            engine.cancel(number)
        assert records_of(engine, requests[:1]) == expected


def test_a_request_ends_where_the_context_does() -> None:
    model, vocab = trunk("llama", "plain"), VOCABS["plain"]
    config = DecodeConfig(max_actions=500, stop_bias=-1e9)
    request = Request.continuation(vocab, [1] * 50, config)
    (record,) = records_of(HFEngine(model, vocab), [request])
    assert record["ended"] == "context"
    assert len(request.history) + len(record["actions"]) == SIZES["context"]
    with pytest.raises(ConfigError, match="this model's limit is 95"):
        HFEngine(model, vocab).add(Act(Request.continuation(vocab, [1] * 96, config)))


def test_log_probabilities_are_the_models_own() -> None:
    model, vocab = trunk("gpt_neox", "plain"), VOCABS["plain"]
    request = Request.continuation(
        vocab, [1, 2], DecodeConfig(max_actions=12, temperature=2.0, stop_bias=-3.0)
    )
    history = list(request.history)
    (record,) = records_of(HFEngine(model, vocab), [request])
    for action, logprob in zip(record["actions"], record["logprobs"], strict=True):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([history])).logits[0, -1]
        expected = torch.log_softmax(logits, 0)[action]
        assert logprob == pytest.approx(float(expected), abs=1e-4)
        history.append(action)


def test_a_trunk_without_a_cache_of_keys_and_values_is_refused() -> None:
    vocab = VOCABS["plain"]
    model = MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1))
    engine = HFEngine(model, vocab)
    engine.add(Act(Request.continuation(vocab, [1, 2])))
    with pytest.raises(ConfigError, match="MambaForCausalLM has no cache of plain keys"):
        engine.step()


@pytest.mark.parametrize("name", VOCABS)
def test_generate_with_the_processor_chooses_what_the_engine_does(name: str) -> None:
    model, vocab = trunk("llama", name), VOCABS[name]
    config = DecodeConfig(temperature=0.0, max_actions=20, stop_bias=-6.0)
    changes = [{}, {"move_bias": 9.0, "max_moves": 2}, {"move_bias": -9.0}]
    asked = [([1] * n, replace(config, **c)) for n, c in zip((2, 5, 9), changes, strict=True)]
    requests = [Request.continuation(vocab, *each) for each in asked]
    width = max(len(request.history) for request in requests)
    padded = [[vocab.stop] * (width - len(r.history)) + list(r.history) for r in requests]
    ids = torch.tensor(padded)
    mask = torch.tensor([[0] * (width - len(r.history)) + [1] * len(r.history) for r in requests])
    output = model.generate(
        input_ids=ids,
        attention_mask=mask,
        logits_processor=[MaskProcessor(vocab, requests)],
        max_new_tokens=20,
        do_sample=False,
        eos_token_id=vocab.stop,
        pad_token_id=vocab.stop,
    )
    for row, trajectory in zip(
        output[:, width:].tolist(), rollouts(model, vocab, asked), strict=True
    ):
        end = row.index(vocab.stop) + 1 if vocab.stop in row else len(row)
        assert tuple(row[:end]) == trajectory.restoration
