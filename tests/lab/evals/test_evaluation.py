"""One record of all measures: each is the measure's own, kept as it comes, and honest in pairs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reviser.errors import ConfigError, DataError
from reviser.lab.evals.texts import Sample
from support import small_tokenizers

pytest.importorskip("torch", reason="torch is not installed, so there are no models.")
pytest.importorskip("sklearn", reason="scikit-learn is not installed, so there is no MAUVE.")

from safetensors.numpy import load_file, save_file

from reviser.lab.evals import arena, diversity, flops, perplexity
from reviser.lab.evals.evaluation import Measures, System, evaluate
from reviser.model import load
from reviser.models import adaptation, hub, info, trunks
from reviser.writing.tasks import Continue

PROMPTS = ["The cat", "A dog", "One morning, Ada", "It rained", "Straße", "They", "Once", "So"]


@pytest.fixture(scope="module")
def folder(causal_lm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that writes by editing, untrained."""
    output = tmp_path_factory.mktemp("writes")
    model, tokenizer = trunks.load_base(causal_lm)
    trunks.save(model, tokenizer, adaptation.adapt(model, tokenizer, max_move=4), output)
    return output


@pytest.fixture(scope="module")
def ours(folder: Path) -> System:
    """Every prompt twice, as with two seeds."""
    with load(folder) as model:
        settings = {"max_actions": 24, "seed": 3, "temperature": 9.0, "top_k": 0}
        written = list(model.run_many(map(Continue, PROMPTS * 2), **settings))
    samples = [
        Sample(
            system="ours",
            id=str(n % len(PROMPTS)),
            prompt=rollout.prompt,
            continuation=rollout.text.removeprefix(rollout.prompt),
            reference=f" and {n % len(PROMPTS)} went home.",
            rollout=rollout,
        )
        for n, rollout in enumerate(written)
    ]
    return System(name="ours", samples=tuple(samples))


@pytest.fixture(scope="module")
def theirs(ours: System) -> System:
    rng = Random(1)
    words = " ".join(small_tokenizers.LINES).split()
    samples = [
        replace(s, system="theirs", rollout=None, continuation=" " + " ".join(rng.sample(words, 6)))
        for s in ours.samples
    ]
    return System(name="theirs", samples=tuple(samples))


@pytest.fixture(scope="module")
def record(ours: System, theirs: System, causal_lm: Path) -> dict[str, Any]:
    measures = Measures(scorers=(str(causal_lm),), mauve=(f"last:{causal_lm}",))
    return evaluate([ours, theirs], measures)


def by_name(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {system["name"]: system for system in record["systems"]}


def test_the_record_is_json_and_holds_what_each_measure_says(
    record: dict[str, Any], ours: System, theirs: System, causal_lm: Path
) -> None:
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    found = by_name(record)
    assert list(found) == ["ours", "theirs", "reference"]
    scorer = perplexity.Scorer.load(causal_lm)
    for system in (ours, theirs):
        told = found[system.name]
        score = perplexity.evaluate(scorer, system.samples)
        (ppl,) = told["perplexity"]
        assert ppl["perplexity"] == pytest.approx(score.perplexity.to_dict())
        assert ppl["scorer"]["weights"] == hub.fingerprint(causal_lm)
        varied = {k: v.to_dict() for k, v in diversity.diversity(system.samples).items()}
        assert told["diversity"] == varied
        assert (told["samples"], told["prompts"]) == (16, 8)
        assert 0 <= told["mauve"][0]["mauve"]["value"] <= 1


def test_rollouts_are_counted_and_costed_by_the_folder_that_they_name(
    record: dict[str, Any], ours: System, folder: Path
) -> None:
    told, other = by_name(record)["ours"], by_name(record)["theirs"]
    rollouts = [sample.rollout for sample in ours.samples]
    actions = sum(r.statistics.actions for r in rollouts if r)
    tokens = sum(r.statistics.tokens_after - r.statistics.tokens_before for r in rollouts if r)
    assert told["trajectories"]["actions_per_token"]["value"] == pytest.approx(actions / tokens)
    assert told["trajectories"]["move_fraction"]["value"] > 0
    assert sum(told["stopped"].values()) == 16
    assert told["decoding"]["max_actions"] == 24
    assert "seed" not in told["decoding"]
    assert told["model"]["parameters"] == info.describe(folder)["parameters"]
    assert told["cost"]["sizes"] == vars(flops.Sizes.of(folder))
    for name in ("model", "engine", "decoding", "stopped", "trajectories", "cost"):
        assert other[name] is None


def test_the_documents_are_a_system_each_once(record: dict[str, Any], ours: System) -> None:
    told = by_name(record)["reference"]
    assert (told["samples"], told["prompts"]) == (8, 8)
    assert told["mauve"] == []
    assert told["examples"][0]["continuation"] == ours.samples[0].reference
    without = replace(ours.samples[0], reference=None)
    alone = evaluate([System(name="ours", samples=(without, *ours.samples[1:]))])
    assert "reference" in by_name(alone)  # that prompt's other sample has it
    alone = evaluate([System(name="x", samples=tuple(replace(s, reference=None) for s in
                                                     ours.samples))])  # fmt: skip
    assert list(by_name(alone)) == ["x"]


def test_the_ratio_is_that_of_the_perplexities(record: dict[str, Any]) -> None:
    found = by_name(record)
    values = [found[name]["perplexity"][0]["perplexity"]["value"] for name in ("ours", "theirs")]
    (comparison,) = record["comparisons"]
    ratio = comparison["perplexity_ratio"][0]["ratio"]
    assert ratio["value"] == pytest.approx(values[0] / values[1])
    assert ratio["low"] < ratio["value"] < ratio["high"]
    assert ratio["n"] == 8
    assert comparison["systems"] == ["ours", "theirs"]
    assert comparison["arena"] is None


def test_what_is_measured_is_kept_and_not_measured_again(
    ours: System, theirs: System, causal_lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measures = Measures(scorers=(str(causal_lm),), mauve=(f"last:{causal_lm}",))
    calls: list[str] = []
    load_scorer = perplexity.Scorer.load

    def counted(name: str, **options: Any) -> Any:
        calls.append(name)
        return load_scorer(name, **options)

    monkeypatch.setattr(perplexity.Scorer, "load", counted)
    first = evaluate([ours, theirs], measures, cache=tmp_path)
    assert evaluate([ours, theirs], measures, cache=tmp_path) == first
    assert len(calls) == 1
    for path in sorted(tmp_path.glob("*.json")):  # as if killed before this was written
        path.unlink()
        assert evaluate([ours, theirs], measures, cache=tmp_path) == first
    changed = replace(theirs.samples[0], continuation=" other words")
    other = System(name="theirs", samples=(changed, *theirs.samples[1:]))
    calls.clear()
    again = evaluate([ours, other], measures, cache=tmp_path)
    assert len(calls) == 1
    assert again["systems"][0] == first["systems"][0]
    assert again["systems"][1]["perplexity"] != first["systems"][1]["perplexity"]


def test_what_is_kept_depends_on_the_weights_and_on_every_text(
    ours: System, causal_lm: Path, tmp_path: Path
) -> None:
    scorer = tmp_path / "scorer"
    shutil.copytree(causal_lm, scorer)
    measures = Measures(scorers=(str(scorer),))
    first = evaluate([ours], measures, cache=tmp_path / "kept")["systems"][0]["perplexity"]
    weights = load_file(scorer / "model.safetensors")
    changed = {name: 1.5 * tensor for name, tensor in weights.items()}
    save_file(changed, scorer / "model.safetensors", metadata={"format": "pt"})
    again = evaluate([ours], measures, cache=tmp_path / "kept")["systems"][0]["perplexity"]
    assert again[0]["perplexity"] != first[0]["perplexity"]
    digests = {ours.digest}
    for name in ("id", "prompt", "continuation", "reference"):
        other = replace(ours.samples[0], **{name: "other"})
        digests.add(System(name="ours", samples=(other, *ours.samples[1:])).digest)
    assert len(digests) == 5


def test_prompts_are_what_intervals_count(record: dict[str, Any]) -> None:
    told = by_name(record)["ours"]
    assert told["trajectories"]["actions_per_token"]["n"] == 8
    assert told["trajectories"]["revised"]["n"] == 8
    assert told["cost"]["measured"]["n"] == 8
    assert told["perplexity"][0]["perplexity"]["n"] == 8
    assert told["mauve"][0]["mauve"]["n"] == 8


def test_a_ratio_of_mostly_nothing_has_no_interval(ours: System, causal_lm: Path) -> None:
    empty = tuple(replace(s, continuation="", rollout=None) for s in ours.samples[1:])
    some = (replace(ours.samples[0], rollout=None), *empty)
    both = [System(name=name, samples=some) for name in "ab"]
    found = evaluate(both, Measures(scorers=(str(causal_lm),)))["comparisons"][0]
    ratio = found["perplexity_ratio"][0]["ratio"]
    assert (ratio["value"], ratio["low"], ratio["high"]) == (1, None, None)


class FirstJudge:
    """Prefers what is shown first."""

    def __init__(self) -> None:
        self.about = {"judge": "first"}

    def replies(self, questions: Any) -> Any:
        for question in questions:
            yield question, "[[A]]"


def test_a_judge_s_bias_is_in_the_record(ours: System, theirs: System, tmp_path: Path) -> None:
    record = evaluate([ours, theirs], Measures(judge=FirstJudge()), cache=tmp_path)
    match = record["comparisons"][0]["arena"]
    assert match["is_biased"]
    assert match["order"] == "both"
    once = evaluate([ours, theirs], Measures(judge=FirstJudge(), order="random"))
    assert once["comparisons"][0]["arena"]["order"] == "random"
    assert once["comparisons"][0]["arena"]["consistent"] is None
    assert match["win_rate"]["value"] == 0.5
    assert (match["wins"], match["losses"]) == (16, 16)
    assert match["consistent"]["value"] == 0
    assert (tmp_path / "verdicts.jsonl").read_text().count("\n") == len(
        {q.key for e in arena.questions_of(arena.pair_up(ours.samples, theirs.samples))
         for q, _ in e}
    )  # fmt: skip


def test_what_cannot_be_compared_is_refused(
    ours: System, theirs: System, causal_lm: Path, folder: Path
) -> None:
    with pytest.raises(ConfigError, match="needs its own name"):
        evaluate([ours, ours])
    with pytest.raises(ConfigError, match="other than 'reference'"):
        evaluate([System(name="reference", samples=ours.samples)])
    with pytest.raises(
        DataError, match="'ours' and 'theirs' cannot be compared: 1 of the 16 samples"
    ):
        evaluate([ours, System(name="theirs", samples=theirs.samples[1:])])
    with pytest.raises(DataError, match="has no samples"):
        System(name="x", samples=())
    rollout = replace(ours.samples[0].rollout, provenance={"model": "b"})  # type: ignore[type-var]
    other = replace(ours.samples[0], rollout=rollout)
    with pytest.raises(DataError, match="are from several models"):
        evaluate([System(name="ours", samples=(other, *ours.samples[1:]))])
    mixed = System(name="m", samples=(*ours.samples[:3], *theirs.samples[3:]))
    with pytest.raises(DataError, match="Only some samples of 'm' are rollouts"):
        evaluate([mixed])
    with pytest.raises(DataError, match="is not a model that writes by editing"):
        evaluate([replace(ours, folder=causal_lm)])
    lost = replace(ours.samples[0].rollout, provenance={"model": "./gone"})  # type: ignore[type-var]
    moved = System(name="ours", samples=tuple(replace(s, rollout=lost) for s in ours.samples[:1]))
    with pytest.raises(DataError, match=r"written by './gone', which is not here\. Name"):
        evaluate([moved])
    assert evaluate([replace(moved, folder=folder)])["systems"][0]["model"]
    with pytest.raises(ConfigError, match="pll:NAME of a masked LM"):
        evaluate([ours], Measures(mauve=("bert:x",)))


def test_rollouts_of_another_vocabulary_are_told(
    ours: System, causal_lm: Path, tmp_path: Path
) -> None:
    model, tokenizer = trunks.load_base(causal_lm)
    vocab = adaptation.adapt(model, tokenizer, max_move=4, delimiter=False)
    trunks.save(model, tokenizer, vocab, tmp_path / "other")
    with pytest.raises(DataError, match=r"Rollout \d+ of 'ours' does not replay"):
        evaluate([replace(ours, folder=tmp_path / "other")])
