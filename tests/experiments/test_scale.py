"""The model of scale: its limits are the textbook's, its bytes are a real shard's."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.scale import check_core, inputs, model, serving
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.data.shards import TokenShards, tokenize
from reviser.data.tokenizer import train_bpe
from reviser.models import trunks
from reviser.models.trunks import TrunkConfig

MACHINE, SERVICE = inputs.Accelerator(), inputs.Service()


def test_one_slot_and_random_lengths_wait_as_m_m_1_does() -> None:
    rng, mean, step = np.random.default_rng(0), 20, 0.05
    rate = 0.6 / (mean * step)
    arrivals = serving.poisson(rate, 15_000, rng)
    lengths = rng.geometric(1 / mean, len(arrivals))
    took = serving.simulate(arrivals, lengths.tolist(), lambda _: step, 1)
    expected = 1 / (1 / (mean * step) - rate)
    assert took.mean() == pytest.approx(expected, rel=0.1)
    assert serving.waiting(rate, mean * step, 1) + mean * step == pytest.approx(expected)


@given(st.floats(0.05, 0.9), st.integers(1, 40))
def test_more_servers_at_the_same_load_wait_less(load: float, servers: int) -> None:
    waits = [serving.waiting(load * n, 1.0, n) for n in (servers, servers + 1)]
    assert waits[1] < waits[0]
    assert serving.waiting(servers, 1.0, servers) == np.inf


@settings(max_examples=25)
@given(st.integers(0, 99), st.integers(1, 9), st.floats(0.1, 20.0))
def test_a_request_takes_its_steps_and_in_a_crowd_more(seed: int, slots: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    arrivals, lengths = serving.poisson(rate, 60, rng), rng.integers(1, 30, 60)
    step = serving.Engine(fixed=0.01, row=0.002)
    took = serving.simulate(arrivals, lengths.tolist(), step, slots)
    assert np.all(took >= lengths * step(1) - 1e-9)
    apart = serving.simulate(np.arange(60) * 100.0, lengths.tolist(), step, slots)
    assert apart == pytest.approx(lengths * step(1))


@pytest.mark.parametrize(("save", "failure"), [(10.0, 3600.0), (300.0, 3000.0)])
def test_the_interval_of_young_and_daly_loses_least(save: float, failure: float) -> None:
    best = model.young_daly(save, failure)
    costs = [model.expected_seconds(1e6, best * x, save, 120, failure) for x in (0.7, 1, 1.4)]
    assert min(costs) == costs[1]


def test_a_simulated_run_takes_as_long_as_expected() -> None:
    rng, (save, restart, failure) = np.random.default_rng(0), (30.0, 200.0, 5000.0)
    best = model.young_daly(save, failure)
    for every in (best, 4 * best):
        rest = (100 * every, every, save, restart, failure)
        took = [model.simulated_seconds(*rest, rng) for _ in range(40)]
        assert np.mean(took) == pytest.approx(model.expected_seconds(*rest), rel=0.05)


def test_shards_have_the_bytes_of_the_formula(tmp_path: Path) -> None:
    text = Path(__file__).parents[2] / "recipes" / "smoke.txt"
    (tmp_path / "bpe").mkdir()
    bpe = train_bpe([str(text)], 300, split="blank", text_key="text")
    bpe.save(str(tmp_path / "bpe" / "tokenizer.json"))
    made = tokenize([text], tmp_path / "shards", tmp_path / "bpe", workers=1)
    files = [tmp_path / "shards" / f"{s.name}{end}" for s in made.shards for end in ("", ".index")]
    expected = model.stored_bytes(made.tokens, made.documents, len(Codec(bpe).token_bytes))
    assert sum(file.stat().st_size for file in files) == expected
    check_core.write_shards(tmp_path, 100)  # those of the check can be read, too
    assert len(TokenShards.open(tmp_path)) == 100


@pytest.mark.parametrize("architecture", ["gpt_neox", "llama"])
def test_parameters_are_counted_as_torch_counts_them(architecture: str) -> None:
    vocab = ActionVocab.build(500, max_move=16)
    sizes = {"layers": 3, "width": 32, "mlp_width": 80}
    config = TrunkConfig(architecture=architecture, heads=4, context=64, **sizes)  # type: ignore[arg-type]
    built = trunks.build(config, vocab)
    trunk = inputs.Trunk(
        name="", rows=trunks.rows_for(vocab.size), kv_width=32, gated=architecture == "llama",
        tied=built.config.tie_word_embeddings, **sizes,
    )  # fmt: skip
    assert trunk.parameters == sum(p.numel() for p in built.parameters())


def test_twice_the_devices_hold_half_the_state_each() -> None:
    run = inputs.RUNS[1]
    more = dataclasses.replace(run, accelerators=2 * run.accelerators)
    parts, half = model.device_memory(run), model.device_memory(more)
    assert half["state"] == parts["state"] / 2
    assert half["activations"] == parts["activations"]


def test_a_price_rises_with_actions_and_with_the_mask() -> None:
    known = (inputs.LLAMA_8B, SERVICE, MACHINE, inputs.Rates.load())
    step = {mask: serving.engine(*known, mask, 1.0)(256) for mask in serving.MASKS}
    assert step["none"] < step["plain"] < step["marks"] < step["search"]
    assert SERVICE.slots / step["none"] == pytest.approx(SERVICE.tokens_per_second)
    replicas = [serving.fleet(*known, "marks", r)["replicas"] for r in (1.0, 1.5, 3.0)]
    assert replicas == sorted(set(replicas))


def test_every_input_has_a_unit_and_a_source() -> None:
    for kind in (inputs.Accelerator, inputs.Storage, inputs.Corpus, inputs.Rates, inputs.Service):
        for field in dataclasses.fields(kind):
            assert field.metadata["unit"]
            assert field.metadata["source"]
