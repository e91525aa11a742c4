"""The figures of a run, computed again the slow way: one example at a time, in float64."""

from __future__ import annotations

import json
import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("datatrove")


from reviser.core.actions import Action, ActionVocab, Kind  # noqa: E402
from reviser.data.dataset import DIGEST_RANGE, Example, WindowStream  # noqa: E402
from reviser.data.windows import Windows  # noqa: E402
from reviser.errors import ReviserError  # noqa: E402
from reviser.models import trunks  # noqa: E402
from reviser.train.inputs import held_out_set, open_inputs, training_set  # noqa: E402
from reviser.train.recipe import Recipe, load_recipe  # noqa: E402
from reviser.train.run import train  # noqa: E402
from reviser.train.trainer import GROUPS, groups_of  # noqa: E402
from reviser.trajectories.policy import Policy  # noqa: E402
from reviser.trajectories.sampler import Sampler  # noqa: E402

from .conftest import assert_same_weights, weights  # noqa: E402

MARKED = "{kind: spans, mean: 4, late: 2}"
CHANGING = (
    "{kind: mixture, policies: [append, {kind: spans, mean: 4}], weights: [1, 0],"
    " final_weights: [1, 3]}"
)


def run(workshop: Path, output: Path, *changes: str) -> tuple[Recipe, list[dict[str, Any]]]:
    """Train; the recipe and what was logged."""
    recipe = load_recipe(workshop / "recipe.yaml", changes)
    train(recipe, output)
    return recipe, [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


# -- the slow reference -----------------------------------------------------------------------


def group(kind: Kind) -> str:
    name = kind.word
    return {"back": "move"}.get(name, name if name in ("insert", "move", "stop") else "operator")


@torch.no_grad()
def losses(model: Any, vocab: ActionVocab, example: Example) -> dict[str, list[float]]:
    """The loss of every learned id of one example, by the kind of its action."""
    ids = example.ids.tolist()
    logits = model(input_ids=torch.tensor([ids])).logits[0].double()
    prefix = ids.index(vocab.delimiter) + 1
    assert not example.learned[:prefix].any()
    found: dict[str, list[float]] = {name: [] for name in GROUPS}
    for place in range(prefix, len(ids)):
        if example.learned[place]:
            log_shares = torch.log_softmax(logits[place - 1], 0)
            found[group(vocab.kind(ids[place]))].append(-float(log_shares[ids[place]]))
    return found


def held_out_examples(recipe: Recipe, inputs: Any, policy: Policy, count: int) -> list[Example]:
    """Of documents never trained on, with the policy as it is when training ends."""
    windows = Windows(inputs.data, recipe.data.windows, held_out=True)
    stream = WindowStream(
        windows,
        Sampler(inputs.vocab, policy),
        context=inputs.context,
        unit_starts=inputs.codec.unit_starts,
        seed=recipe.seed,
    )
    return stream.examples(np.arange(count), progress=1.0)


def slow_scores(model: Any, vocab: ActionVocab, examples: list[Example]) -> dict[str, float]:
    found = [losses(model, vocab, example) for example in examples]
    tokens = [example.text_tokens for example in examples]
    totals = [sum(sum(part) for part in each.values()) for each in found]
    ratio = sum(totals) / sum(tokens)
    # A ratio estimator: the residuals of examples, which are drawn independently.
    residuals = [total - ratio * n for total, n in zip(totals, tokens, strict=True)]
    error = math.sqrt(sum(r * r for r in residuals)) / sum(tokens)
    ids = sum(len(part) for each in found for part in each.values())
    return {
        "nll": ratio,
        "nll_95": 1.96 * error,
        **{f"{k}_nll": sum(sum(each[k]) for each in found) / sum(tokens) for k in GROUPS},
        "actions_per_token": (ids - len(examples)) / sum(tokens),  # STOP is none
        "text_tokens": float(sum(tokens)),
        "cut": sum(example.is_cut for example in examples) / len(examples),
    }


# -- held-out scores --------------------------------------------------------------------------


def test_each_id_of_a_history_has_its_group() -> None:
    vocab = ActionVocab.build(
        10, operators=["replace", "span_delete"], max_move=2, marks=True, search=True
    )
    actions = [
        (Action(Kind.INSERT, 1), "insert"),
        (Action(Kind.INSERT, 2), "insert"),
        (Action(Kind.MARK), "operator"),
        (Action(Kind.MOVE, -2), "move"),
        (Action(Kind.FIND, tokens=(1, 2)), "move"),
        (Action(Kind.REPLACE, 3), "operator"),
        (Action(Kind.INSERT, 4), "insert"),
        (Action(Kind.TO_MARK), "move"),
        (Action(Kind.SPAN_DELETE, 2), "operator"),
        (Action(Kind.STOP), "stop"),
    ]
    spelled = [(i, name) for action, name in actions for i in vocab.spell(action)]
    ids = np.array([[i for i, _ in spelled], [1] * len(spelled)])
    first, second = groups_of(vocab, ids)
    assert [GROUPS[n] for n in first] == [name for _, name in spelled]
    assert {GROUPS[n] for n in second} == {"insert"}


@pytest.mark.parametrize(
    "marks", [False, pytest.param(True, marks=pytest.mark.full)], ids=["plain", "marks"]
)
def test_held_out_scores_are_those_of_the_saved_model_one_example_at_a_time(
    workshop: Path, tmp_path: Path, marks: bool
) -> None:
    scored = f"evaluation.policies={{own: paper, left: append, changing: {CHANGING}}}"
    richer = [
        "vocab.marks=true",
        f"policy={MARKED}",
        f"evaluation.policies={{marked: {MARKED}, left: append}}",
    ]
    changes = ["seed=5", "training.steps=6", "evaluation.examples=9"]
    recipe, log = run(workshop, tmp_path, *changes, *(richer if marks else [scored]))
    inputs = open_inputs(recipe, tmp_path)
    model, vocab = trunks.load(tmp_path)
    expected = {}
    for name, policy in recipe.evaluation.policies.items():
        examples = held_out_examples(recipe, inputs, policy, 8)
        scores = slow_scores(model.eval(), vocab, examples)
        expected |= {f"eval_{name}_{key}": value for key, value in scores.items()}
    metrics = json.loads((tmp_path / "run.json").read_text())["metrics"]
    assert metrics == pytest.approx(expected, rel=1e-5)
    assert log[-1] == {"step": 6, **metrics}
    used = {key for key, value in metrics.items() if value > 0}
    assert ("eval_marked_operator_nll" in used) == marks
    assert ("eval_changing_move_nll" in used) != marks


def test_evaluating_more_often_changes_neither_loss_nor_weights(
    workshop: Path, tmp_path: Path
) -> None:
    logs = {}
    for often in (1, 1000):
        changes = [f"training.evaluate_every={often}", "trunk.dropout=0.3"]
        _, logs[often] = run(workshop, tmp_path / str(often), *changes)
    assert_same_weights(tmp_path / "1", tmp_path / "1000")
    for key in ("loss", "grad_norm", "digest_seen"):
        one, other = ([line[key] for line in log if key in line] for log in logs.values())
        assert one == other
    evaluated = [line["step"] for line in logs[1] if "eval_held_out_nll" in line]
    assert evaluated == list(range(1, 13))
    assert [line["step"] for line in logs[1000] if "eval_held_out_nll" in line] == [12]


# -- training ---------------------------------------------------------------------------------


def steps_of(recipe: Recipe, folder: Path) -> list[list[Example]]:
    """The examples of every step, from the stream itself."""
    training = recipe.training
    per_step = training.batch // training.micro_batch
    inputs = open_inputs(recipe, folder)
    count = per_step * training.steps
    batches = training_set(recipe, inputs)
    assert len(batches) == count
    by_ids = {
        tuple(e.ids.tolist()): e
        for e in batches.stream.examples(np.arange(count * training.micro_batch))
    }
    steps: list[list[Example]] = []
    for step in range(training.steps):
        steps.append([])
        for number in range(step * per_step, (step + 1) * per_step):
            ids_BT, labels_BT = (batches[number][name] for name in ("input_ids", "labels"))
            for row, labels in zip(ids_BT, labels_BT, strict=True):
                end = int((labels >= 0).nonzero().max()) + 1
                steps[-1].append(by_ids[tuple(row[:end].tolist())])
    return steps


def mean_loss(model: Any, examples: list[Example]) -> Any:
    """Of all learned ids together, with its gradient."""
    total, count = torch.zeros(()), 0
    for example in examples:
        ids = torch.tensor(example.ids.tolist())
        learned = torch.from_numpy(example.learned)[1:]
        log_shares = torch.log_softmax(model(input_ids=ids[None]).logits[0, :-1], -1)
        total = total - log_shares[learned, ids[1:][learned]].sum()
        count += int(learned.sum())
    return total / count


def gradient_norm(model: Any) -> float:
    return math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))


def test_the_logged_loss_and_gradient_are_of_all_learned_ids_of_the_whole_batch(
    workshop: Path, tmp_path: Path
) -> None:
    # So small a rate changes no weight: every step has the loss of the fresh model.
    changes = ["trunk.dropout=0", "training.learning_rate=1e-12", "training.steps=4"]
    changes += ["data.windows.size=68", "training.batch=12", "training.clip=0"]
    recipe, log = run(workshop, tmp_path, *changes)
    inputs = open_inputs(recipe, tmp_path)
    model, vocab = inputs.model.train(), inputs.vocab
    far = 0.0
    lines, steps = [line for line in log if "loss" in line], steps_of(recipe, tmp_path)
    for line, examples in zip(lines, steps, strict=True):
        nlls = [[*chain(*losses(model, vocab, example).values())] for example in examples]
        mean = sum(map(sum, nlls)) / sum(map(len, nlls))
        micro = [nlls[n : n + 4] for n in range(0, len(nlls), 4)]
        mean_of_means = np.mean([sum(map(sum, m)) / sum(map(len, m)) for m in micro])
        assert line["loss"] == pytest.approx(mean, rel=2e-6)
        far = max(far, abs(mean_of_means / mean - 1))
    assert far > 1e-5  # the test could tell the two apart
    mean_loss(model, steps[0]).backward()
    assert lines[0]["grad_norm"] == pytest.approx(gradient_norm(model), rel=1e-4)


def test_a_run_ends_where_adamw_by_hand_does(workshop: Path, tmp_path: Path) -> None:
    changes = ["trunk.dropout=0", "training.steps=8", "training.warmup=2", "training.clip=0.4"]
    changes += ["training.weight_decay=0.5", "training.betas=[0.8, 0.9]", "training.epsilon=1e-3"]
    recipe, log = run(workshop, tmp_path, *changes, "training.min_learning_rate=0.002")
    rates = [line["learning_rate"] for line in log if "loss" in line]
    model = open_inputs(recipe, tmp_path).model.train()
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]  # biases and norms do not decay
    groups = [{"params": matrices, "weight_decay": 0.5}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.8, 0.9), eps=1e-3)
    clipped = 0
    for done, examples in enumerate(steps_of(recipe, tmp_path)):
        fall = 0.002 + 0.008 * (1 + math.cos(math.pi * (done - 2) / 6)) / 2
        rate = 0.01 * done / 2 if done < 2 else fall  # linear warm-up, then half a cosine
        assert rates[done] == pytest.approx(rate)
        for part in optimizer.param_groups:
            part["lr"] = rate
        optimizer.zero_grad()
        mean_loss(model, examples).backward()
        norm = gradient_norm(model)
        clipped += norm > 0.4
        for parameter in model.parameters():
            parameter.grad *= min(1.0, 0.4 / norm)
        optimizer.step()
    assert clipped == 8
    saved = weights(tmp_path)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(saved[name], parameter.detach(), rtol=0, atol=1e-5)
    fresh = open_inputs(recipe, tmp_path).model.state_dict()
    assert all(np.abs(saved[n] - fresh[n].numpy()).max() > 3e-3 for n in saved)


def test_what_was_read_is_what_the_stream_holds(workshop: Path, tmp_path: Path) -> None:
    changes = ["training.log_every=5", "training.save_every=4", "data.windows.size=68"]
    recipe, log = run(workshop, tmp_path, *changes)
    inputs = open_inputs(recipe, tmp_path)
    windows = training_set(recipe, inputs).stream.split
    steps = steps_of(recipe, tmp_path)
    lines = [line for line in log if "loss" in line]
    assert [line["step"] for line in lines] == [4, 5, 8, 10, 12]  # with every checkpoint, too
    before = 0
    for line in lines:
        seen = [example for step in steps[: line["step"]] for example in step]
        assert line["examples_seen"] == len(seen)
        assert line["ids_seen"] == sum(len(e.ids) for e in seen)
        assert line["text_tokens_seen"] == sum(e.text_tokens for e in seen)
        assert line["digest_seen"] == sum(e.digest for e in seen) % DIGEST_RANGE
        assert line["epochs_seen"] == len(seen) / len(windows)
        ids = cells = 0
        for step in steps[before : line["step"]]:
            for micro in (step[:4], step[4:]):
                lengths = [len(e.ids) for e in micro]
                width = min(-(-max(lengths) // 8) * 8, 96)  # a multiple of 8, within the context
                ids, cells = ids + sum(lengths), cells + 4 * width
        assert line["padding"] == pytest.approx(1 - ids / cells)
        before = line["step"]
    seen = json.loads((tmp_path / "run.json").read_text())["seen"]
    assert seen == {name: lines[-1][f"{name}_seen"] for name in seen}
    assert seen.keys() == {"ids", "text_tokens", "examples", "digest"}


def test_a_loss_that_is_not_a_number_ends_the_run(workshop: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ReviserError, match=r"The (loss|grad_norm) is (nan|inf) at step \d+: .* learning_rate"
    ):
        run(
            workshop, tmp_path, "training.learning_rate=1.0e+30", "training.clip=0",
            "training.log_every=100", "training.save_every=4",
        )  # fmt: skip
    assert not (tmp_path / "run.json").exists()
    assert not list(tmp_path.glob("checkpoints/*/complete"))  # it was found before one was written


@pytest.mark.full
def test_half_precision_trains_nearly_the_same_and_leaves_nothing_behind(
    workshop: Path, tmp_path: Path
) -> None:
    logs = {}
    for name, precision in {"first": "fp32", "half": "bf16", "again": "fp32"}.items():
        changes = [f"training.precision={precision}", "trunk.dropout=0"]
        _, logs[name] = run(workshop, tmp_path / name, *changes)
    assert_same_weights(tmp_path / "first", tmp_path / "again")
    full, half = ([line["loss"] for line in logs[n] if "loss" in line] for n in ("first", "half"))
    assert full != half
    assert half == pytest.approx(full, rel=2e-2)
    saved = weights(tmp_path / "half")
    assert {str(table.dtype) for table in saved.values()} == {"float32"}


def test_no_held_out_window_is_scored_twice(workshop: Path, tmp_path: Path) -> None:
    recipe, _ = run(workshop, tmp_path, "training.steps=1", "evaluation.examples=100000")
    batches = held_out_set(recipe, open_inputs(recipe, tmp_path), recipe.policy)
    windows, size = len(batches.stream.split), recipe.training.micro_batch
    assert (len(batches), batches.size) == (windows // size, size)
    texts = [batches[n]["text_tokens"] for n in range(len(batches))]
    metrics = json.loads((tmp_path / "run.json").read_text())["metrics"]
    assert metrics["eval_held_out_text_tokens"] == sum(int(t.sum()) for t in texts)
