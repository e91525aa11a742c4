"""evalPPL against the same sum by hand: one text at a time, nothing padded, nothing in batches."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reviser.core.codec import Codec
from reviser.errors import CheckpointError, ConfigError, DataError
from reviser.lab.evals.texts import Sample
from support import small_tokenizers

pytest.importorskip("torch", reason="torch is not installed, so there are no scorers.")

import torch
from transformers import AutoModelForCausalLM

from reviser.lab.evals import perplexity
from reviser.lab.evals.perplexity import Scorer
from reviser.models import adaptation, hub, trunks

from .conftest import CONTEXT

BEGIN = small_tokenizers.byte_level().token_to_id(small_tokenizers.END_OF_TEXT)


@pytest.fixture(scope="module")
def scorer(causal_lm: Path) -> Scorer:
    return Scorer.load(causal_lm)


def sample(prompt: str, continuation: str, name: str = "x") -> Sample:
    return Sample(system="s", id=name, prompt=prompt, continuation=continuation)


def samples(count: int = 40) -> list[Sample]:
    """Short texts in several scripts, cut anywhere."""
    rng = Random(2)
    found = []
    for n in range(count):
        line = rng.choice(small_tokenizers.LINES)[: rng.randint(2, 40)]
        cut = rng.randint(0, len(line))
        found.append(sample(line[:cut], line[cut:], str(n)))
    return found


@lru_cache
def opened(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder)


def by_hand(folder: Path, given: Sample, *, begin: bool = True) -> tuple[float, int]:
    """Sum and number of the continuation's tokens, found by the bytes that they hold."""
    tokenizer = small_tokenizers.byte_level()
    ids = tokenizer.encode(given.text, add_special_tokens=False).ids
    model = opened(folder)
    boundary = len(given.prompt.encode())
    table = Codec(tokenizer).token_bytes
    history, total, count, end = [BEGIN] * begin, 0.0, 0, 0
    for token in ids:
        end += len(table[token])
        if end > boundary:
            with torch.no_grad():
                logits = model(torch.tensor([history])).logits[0, -1].double()
            total -= torch.log_softmax(logits, -1)[token].item()
            count += 1
        history.append(token)
    return total, count


def test_every_score_is_the_sum_by_hand(causal_lm: Path, scorer: Scorer) -> None:
    given = samples()
    told: list[tuple[int, int]] = []
    scores = scorer.score(given, batch_tokens=128, progress=lambda *done: told.append(done))
    rows = sum(bool(one.continuation) for one in given)
    assert told[-1] == (rows, rows)
    for one, score in zip(given, scores, strict=True):
        nll, tokens = by_hand(causal_lm, one)
        assert score.tokens == tokens
        assert score.nll == pytest.approx(nll, rel=1e-5, abs=1e-5)
        assert score.characters == len(one.continuation)


def test_a_token_across_the_boundary_counts_whole(scorer: Scorer) -> None:
    tokenizer = small_tokenizers.byte_level()
    assert tokenizer.encode("The").tokens == ["The"]
    (score,) = scorer.score([sample("Th", "e")])
    assert (score.tokens, score.characters) == (1, 1)
    (whole,) = scorer.score([sample("", "The")])
    assert score.nll == pytest.approx(whole.nll)


def test_perplexity_is_of_all_tokens_together(causal_lm: Path, scorer: Scorer) -> None:
    given = [*samples(), sample("The", "", "empty")]
    report = perplexity.evaluate(scorer, given)
    hands = [by_hand(causal_lm, one) for one in given]
    nll, tokens = (sum(column) for column in zip(*hands, strict=True))
    assert report.perplexity.value == pytest.approx(math.exp(nll / tokens), rel=1e-5)
    bits = nll / math.log(2) / sum(len(one.continuation) for one in given)
    assert report.bits_per_character.value == pytest.approx(bits, rel=1e-5)
    assert report.perplexity.low < report.perplexity.value < report.perplexity.high
    assert report.perplexity.n == len(given)
    assert report.empty == sum(not one.continuation for one in given) >= 1
    assert len(report.scores) == len(given)


def test_samples_of_one_prompt_are_one_cluster(scorer: Scorer) -> None:
    given = [sample("The", f" cat {n}", str(n // 3)) for n in range(30)]
    assert perplexity.evaluate(scorer, given).perplexity.n == 10


def test_the_report_names_its_scorer(causal_lm: Path, scorer: Scorer) -> None:
    about = perplexity.evaluate(scorer, samples()).scorer
    assert about["model"] == str(causal_lm)
    assert about["weights"] == hub.fingerprint(causal_lm)
    assert len(about["tokenizer"]) == 64
    assert (about["begin"], about["context"], about["dtype"]) == ([BEGIN], CONTEXT, "float32")


def test_a_text_that_spells_a_control_token_is_letters(scorer: Scorer) -> None:
    (score,) = scorer.score([sample("The ", small_tokenizers.END_OF_TEXT)])
    assert score.tokens > 3


@pytest.mark.parametrize("prompt", [0, 1, 10, 60, 199])
def test_long_texts_are_read_in_windows(causal_lm: Path, scorer: Scorer, prompt: int) -> None:
    rng = Random(prompt)
    text = "".join(rng.choices("XYZQJK", k=200))  # a token each
    (score,) = scorer.score([sample(text[:prompt], text[prompt:])])
    ids = [BEGIN, *small_tokenizers.byte_level().encode(text).ids]
    assert len(ids) == 201
    assert score.tokens == 200 - prompt
    assert score.longer
    (short,) = scorer.score([sample(text[:prompt][:20], text[prompt:][: CONTEXT - 21])])
    assert not short.longer
    rows = list(scorer._windows(ids, prompt + 1))
    place = prompt + 1
    model = opened(causal_lm)
    total = 0.0
    for row in rows:
        assert len(row.tokens) <= CONTEXT
        assert row.first >= min(place, CONTEXT // 2)  # what is before it, or half a context
        start = place - row.first
        assert row.tokens == ids[start : start + len(row.tokens)]
        with torch.no_grad():
            logp = torch.log_softmax(model(torch.tensor([row.tokens])).logits[0].double(), -1)
        for n in range(row.first, len(row.tokens)):
            total -= logp[n - 1, row.tokens[n]].item()
        assert row.start == start
        place = start + len(row.tokens)
    assert place == len(ids)
    assert score.nll == pytest.approx(total, rel=1e-5)


def test_without_a_begin_token_a_prompt_is_needed(causal_lm: Path) -> None:
    scorer = Scorer.load(causal_lm, begin=())
    with pytest.raises(DataError, match="prompt 'x' has nothing before it"):
        scorer.score([sample("", "The")])
    (score,) = scorer.score([sample("The", " cat")])
    assert score.nll == pytest.approx(by_hand(causal_lm, sample("The", " cat"), begin=False)[0])
    assert scorer.about["begin"] == []


def test_a_model_of_ours_is_a_scorer_if_it_only_appends(causal_lm: Path, tmp_path: Path) -> None:
    model, tokenizer = trunks.load_base(causal_lm)
    vocab = adaptation.adapt(model, tokenizer, max_move=4)
    trunks.save(model, tokenizer, vocab, tmp_path)
    with pytest.raises(ConfigError, match="writes by editing"):
        Scorer.load(tmp_path)
    for kind in ("spans", "append"):
        recipe = {"policy": {"kind": kind}, "training": {"steps": 1}}
        run = {"recipe": recipe, "seen": {"text_tokens": 1}, "metrics": {}, "commit": None}
        (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
        if kind == "spans":
            with pytest.raises(ConfigError, match="trained to append"):
                Scorer.load(tmp_path)
    assert Scorer.load(tmp_path).about["begin"] == vocab.prefix_actions(())


def test_the_hash_of_a_model_covers_its_tokenizer(causal_lm: Path, tmp_path: Path) -> None:
    for path in causal_lm.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    same = hub.fingerprint(tmp_path)
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    assert hub.fingerprint(tmp_path) == same == hub.fingerprint(causal_lm)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text("utf-8").replace("}", " }", 1), encoding="utf-8")
    assert hub.fingerprint(tmp_path) != same
    (tmp_path / "config.json").unlink()
    with pytest.raises(CheckpointError, match="is not a model folder"):
        hub.fingerprint(tmp_path)


@pytest.mark.parametrize("family", ["byte_fallback", "metaspace", "unigram"])
def test_boundaries_hold_for_every_tokenizer(causal_lm: Path, family: str) -> None:
    tokenizer = getattr(small_tokenizers, family)()
    scorer = Scorer(opened(causal_lm), tokenizer, begin=[0])
    whole = "The cat sat on the mat."
    (everything,) = scorer.score([sample("", whole)])
    assert everything.tokens == len(tokenizer.encode(whole, add_special_tokens=False).ids)
    counts = [scorer.score([sample(whole[:n], whole[n:])])[0].tokens for n in range(len(whole))]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1
