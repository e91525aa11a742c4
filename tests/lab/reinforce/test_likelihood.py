"""Log-probabilities of rollouts: equal to those that the engine samples by."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from reviser.core.actions import ActionVocab, Kind
from reviser.core.mask import ActionMask
from reviser.engines import hf
from reviser.engines.hf import HFEngine
from reviser.engines.logits import LogitsMask, choose
from reviser.lab.recipe import LabRecipe, load_recipe
from reviser.lab.reinforce.likelihood import likelihood, masked_steps, type_divergence
from reviser.lab.reinforce.prompts import TRAINING, Prompt, Prompts
from reviser.lab.reinforce.rollouts import Rollout, roll_out
from reviser.train.inputs import Inputs, make_missing, open_inputs
from reviser.train.trainer import GROUPS

TEMPERATURE = 0.7


def rollouts_of(bench: Path, name: str, oracle: float) -> tuple[Inputs, list[Rollout]]:
    changes = [f"reinforce.temperature={TEMPERATURE}"]
    changes += ["policy={kind: edits, address: search}"] * (name == "edits")
    recipe: LabRecipe = load_recipe(bench / f"{name}.yaml", changes)
    make_missing(recipe, bench / "shards-of-text")
    inputs = open_inputs(recipe, bench / "shards-of-text")
    torch.manual_seed(0)
    for parameter in inputs.model.parameters():  # far from uniform, so that errors show
        parameter.data += 0.3 * torch.randn_like(parameter)
    prompts = Prompts(recipe, inputs, TRAINING)
    engine = HFEngine(inputs.model, inputs.vocab, rows=1)
    asked = [prompts[number] for number in (0, 0, 1, 2, 3)]
    return inputs, roll_out(engine, inputs.codec, asked, seed=3, oracle=oracle)


@torch.no_grad()
def slow_reference(
    model: Any, vocab: ActionVocab, rollout: Rollout, temperature: float = TEMPERATURE
) -> list[dict[str, Any]]:
    """Compute each step by itself: no cache, no batch, and the mask as wide as the vocabulary."""
    request, found = rollout.prompt.request, []
    action_mask = ActionMask(vocab, 1)
    request.enter(action_mask, 0)
    history = list(request.history)
    for action in rollout.ids:
        logits = model(input_ids=torch.tensor([history])).logits[0, -1].double()
        allowed = action_mask.allowed()[0]
        weights = {
            i: math.exp(logits[i].item() / temperature) for i in range(len(allowed)) if allowed[i]
        }
        total = sum(weights.values())
        shares = {i: weight / total for i, weight in weights.items()}
        by_type = dict.fromkeys(GROUPS, 0.0)
        for i, share in shares.items():
            by_type[type_name(vocab.kinds[i])] += share
        found.append(
            {
                "logprob": math.log(shares[action]),
                "entropy": -sum(share * math.log(share) for share in shares.values()),
                "types": list(by_type.values()) if not action_mask.is_spelling[0] else [0.0] * 4,
            }
        )
        action_mask.advance([action])
        history.append(action)
    return found


def type_name(kind: int) -> str:
    if kind in (Kind.MOVE, Kind.TO_MARK, Kind.FIND):
        return "move"
    return {Kind.INSERT: "insert", Kind.STOP: "stop"}.get(Kind(kind), "operator")


@pytest.mark.parametrize(("name", "oracle"), [("edits", 0.0), ("edits", 1.0), ("text", 0.0)])
def test_log_probabilities_are_those_of_the_engine(
    bench: Path, name: str, oracle: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines: list[float] = []  # what the engine itself chose by, one action after the other

    def recorded(logits_BA: torch.Tensor, *args: Any) -> torch.Tensor:
        chosen_B = choose(logits_BA, *args)
        logprobs_BA = (logits_BA / TEMPERATURE).log_softmax(-1)
        engines.extend(logprobs_BA.gather(1, chosen_B[:, None])[:, 0].tolist())
        return chosen_B

    monkeypatch.setattr(hf, "choose", recorded)
    inputs, rollouts = rollouts_of(bench, name, oracle)
    assert any(inputs.vocab.find in each.ids[: each.by_oracle] for each in rollouts) == (oracle > 0)
    mask = LogitsMask(inputs.vocab)
    requests = [each.prompt.request for each in rollouts]
    actions = [each.ids for each in rollouts]
    steps = masked_steps(mask, requests, actions)
    width = max(map(len, actions))
    # As in training: histories padded on the left, completions on the right.
    longest = max(len(request.history) for request in requests)
    ids_BT = torch.full((len(rollouts), longest + width), inputs.vocab.stop)
    real_BT = torch.zeros_like(ids_BT)
    for n, (request, chosen) in enumerate(zip(requests, actions, strict=True)):
        first = longest - len(request.history)
        ids_BT[n, first:longest] = torch.tensor(request.history)
        ids_BT[n, longest : longest + len(chosen)] = torch.tensor(chosen)
        real_BT[n, first : longest + len(chosen)] = 1
    logits_BTA = inputs.model(
        input_ids=ids_BT,
        attention_mask=real_BT,
        position_ids=(real_BT.cumsum(1) - 1).clamp(min=0),
    ).logits[:, longest - 1 : -1]
    found = likelihood(logits_BTA, ids_BT[:, longest:], steps, mask, temperature=TEMPERATURE)
    for n, rollout in enumerate(rollouts):
        expected = slow_reference(inputs.model, inputs.vocab, rollout)
        for t, step in enumerate(expected):
            assert found.logprobs[n, t].item() == pytest.approx(step["logprob"], abs=1e-4)
            assert found.entropies[n, t].item() == pytest.approx(step["entropy"], abs=1e-4)
            assert found.types[n, t].tolist() == pytest.approx(step["types"], abs=1e-4)
        rest = slice(len(expected), None)
        assert not found.logprobs[n, rest].any()
        assert not found.entropies[n, rest].any()
    by_model = [found.logprobs[n, r.by_oracle : len(r.ids)] for n, r in enumerate(rollouts)]
    assert torch.cat(by_model).tolist() == pytest.approx(engines, abs=1e-4)
    # Gradients are finite although illegal actions have the log-probability -inf.
    (found.logprobs.sum() + found.entropies.sum() + found.types[..., 0].sum()).backward()
    assert all(p.grad.isfinite().all() for p in inputs.model.parameters() if p.grad is not None)


def test_a_rollout_depends_on_the_seed_its_prompt_and_its_number_only(bench: Path) -> None:
    inputs, rollouts = rollouts_of(bench, "edits", 0.0)
    one, two = rollouts[0].prompt, rollouts[2].prompt

    def made(prompts: list[Prompt], seed: int, rows: int) -> dict[str, list[tuple[int, ...]]]:
        engine = HFEngine(inputs.model, inputs.vocab, rows=rows)
        found: dict[str, list[tuple[int, ...]]] = {}
        for each in roll_out(engine, inputs.codec, prompts, seed=seed):
            found.setdefault(each.prompt.key, []).append(each.ids)
        return found

    first = made([one, one, two], 3, 3)
    assert first == made([two, one, one], 3, 1)
    assert first != made([one, one, two], 4, 3)
    assert first[one.key][0] != first[one.key][1]


def test_the_divergence_of_types_is_that_of_their_mean_shares() -> None:
    torch.manual_seed(0)
    types, reference = (torch.rand(2, 3, 4).softmax(-1) for _ in range(2))
    counted = torch.tensor([[1, 1, 0], [1, 0, 0]])
    rows = [(0, 0), (0, 1), (1, 0)]
    p, q = (
        [sum(each[n, t, k].item() for n, t in rows) / 3 for k in range(4)]
        for each in (types, reference)
    )
    expected = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert type_divergence(types, reference, counted).item() == pytest.approx(expected, abs=1e-5)
    assert type_divergence(types, types, counted).item() == 0.0
