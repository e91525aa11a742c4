"""The model of scale: its limits are the textbook's, its bytes are a real shard's."""

import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest
import scale
import scale_runs
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser import models
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.data.shards import TokenShards, tokenize
from reviser.data.tokenizer import train_bpe
from reviser.models import TrunkConfig

ROOT = Path(__file__).parents[1]
MACHINE, STORAGE, SERVICE = scale.Accelerator(), scale.Storage(), scale.Service()


# -- queues ---------------------------------------------------------------------------------------


def test_one_slot_and_random_lengths_wait_as_m_m_1_does() -> None:
    rng, mean, step = np.random.default_rng(0), 20, 0.05
    rate = 0.6 / (mean * step)
    arrivals = scale.poisson(rate, 15_000, rng)
    lengths = rng.geometric(1 / mean, len(arrivals))
    took = scale.simulate(arrivals, lengths.tolist(), lambda _: step, 1)
    expected = 1 / (1 / (mean * step) - rate)
    assert took.mean() == pytest.approx(expected, rel=0.1)
    assert scale.waiting(rate, mean * step, 1) + mean * step == pytest.approx(expected)


@given(st.floats(0.05, 0.9), st.integers(1, 40))
def test_more_servers_at_the_same_load_wait_less(load: float, servers: int) -> None:
    waits = [scale.waiting(load * n, 1.0, n) for n in (servers, servers + 1)]
    assert waits[1] < waits[0]
    assert scale.waiting(servers, 1.0, servers) == np.inf


@settings(max_examples=25)
@given(st.integers(0, 99), st.integers(1, 9), st.floats(0.1, 20.0))
def test_a_request_takes_its_steps_and_in_a_crowd_more(seed: int, slots: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    arrivals, lengths = scale.poisson(rate, 60, rng), rng.integers(1, 30, 60)
    step = scale.Engine(fixed=0.01, row=0.002)
    took = scale.simulate(arrivals, lengths.tolist(), step, slots)
    assert np.all(took >= lengths * step(1) - 1e-9)
    apart = scale.simulate(np.arange(60) * 100.0, lengths.tolist(), step, slots)
    assert apart == pytest.approx(lengths * step(1))


# -- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("save", "failure"), [(10.0, 3600.0), (60.0, 10_000.0), (300.0, 3000.0)])
def test_the_interval_of_young_and_daly_loses_least(save: float, failure: float) -> None:
    best = scale.young_daly(save, failure)
    costs = [scale.expected_seconds(1e6, best * x, save, 120, failure) for x in (0.7, 1, 1.4)]
    assert min(costs) == costs[1]


def test_a_run_that_is_played_takes_as_long_as_expected() -> None:
    rng, (save, restart, failure) = np.random.default_rng(0), (30.0, 200.0, 5000.0)
    best = scale.young_daly(save, failure)
    for every in (best, 4 * best):
        work = 100 * every
        said = scale.expected_seconds(work, every, save, restart, failure)
        played = [
            scale.simulated_seconds(work, every, save, restart, failure, rng) for _ in range(40)
        ]
        assert np.mean(played) == pytest.approx(said, rel=0.05)


# -- bytes ----------------------------------------------------------------------------------------


def test_shards_have_the_bytes_of_the_formula(tmp_path: Path) -> None:
    text = ROOT / "recipes" / "smoke.txt"
    (tmp_path / "bpe").mkdir()
    bpe = train_bpe([str(text)], 300, split="blank", text_key="text")
    bpe.save(str(tmp_path / "bpe" / "tokenizer.json"))
    made = tokenize([text], tmp_path / "shards", tmp_path / "bpe", workers=1)
    files = [tmp_path / "shards" / f"{s.name}{end}" for s in made.shards for end in ("", ".index")]
    rows = len(Codec(bpe).token_bytes)
    said = scale.stored_bytes(made.tokens, made.documents, rows)
    assert sum(file.stat().st_size for file in files) == said


def test_shards_that_the_check_makes_can_be_read(tmp_path: Path) -> None:
    scale_runs.write_shards(tmp_path, 100)
    assert len(TokenShards.open(tmp_path)) == 100


@pytest.mark.parametrize("architecture", ["gpt_neox", "llama"])
def test_parameters_are_counted_as_torch_counts_them(architecture: str) -> None:
    vocab = ActionVocab.build(500, max_move=16)
    sizes = {"layers": 3, "width": 32, "mlp_width": 80}
    config = TrunkConfig(architecture=architecture, heads=4, context=64, **sizes)  # type: ignore[arg-type]
    built = models.build(config, vocab)
    trunk = scale.Trunk(
        name="", rows=models.rows_for(vocab.size), kv_width=32, gated=architecture == "llama",
        tied=built.config.tie_word_embeddings, **sizes,
    )  # fmt: skip
    assert trunk.parameters == sum(p.numel() for p in built.parameters())


# -- the model ------------------------------------------------------------------------------------


def test_twice_the_devices_hold_half_the_state_each() -> None:
    run = scale.RUNS[1]
    more = dataclasses.replace(run, accelerators=2 * run.accelerators)
    parts, half = scale.device_memory(run), scale.device_memory(more)
    assert half["state"] == parts["state"] / 2
    assert half["activations"] == parts["activations"]


def test_a_price_rises_with_actions_and_with_the_mask() -> None:
    rates = scale.Rates.load()
    given = (scale.LLAMA_8B, SERVICE, MACHINE, rates)
    step = {mask: scale.engine(*given, mask, 1.0)(256) for mask in scale.MASKS}
    assert step["none"] < step["plain"] < step["marks"] < step["search"]
    assert SERVICE.slots / step["none"] == pytest.approx(SERVICE.tokens_per_second)
    replicas = [scale.fleet(*given, "marks", r)["replicas"] for r in (1.0, 1.5, 3.0)]
    assert replicas == sorted(set(replicas))


def test_every_input_says_its_unit_and_its_source() -> None:
    for kind in (scale.Accelerator, scale.Storage, scale.Corpus, scale.Rates, scale.Service):
        for field in dataclasses.fields(kind):
            assert field.metadata["unit"]
            assert field.metadata["source"]


def test_the_page_is_what_its_script_writes() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "scale_results.py"))["page"]()
    assert (ROOT / "docs" / "design" / "scale.md").read_text("utf-8") == made
