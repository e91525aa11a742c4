"""A fault of one request: it fails, and the others get the ids they would have had without it."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import ActionMask
from reviser.engines import mask_args
from reviser.engines.base import DecodeConfig, Request, Score, Scores
from support.asking import answers_of, records_of

torch = pytest.importorskip("torch", reason="torch is not installed, so there are no trunks.")

from reviser.engines.hf import HFEngine  # noqa: E402
from reviser.engines.vllm_state import BatchMask  # noqa: E402
from reviser.models import trunks  # noqa: E402
from support.engine_suite import poisoned  # noqa: E402

VOCAB = ActionVocab.build(20, max_move=8, operators=OPERATORS, marks=True, search=True)
SIZES: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "mlp_width": 24, "context": 96}
BAD = 2
"""Position of the request that fails."""


@cache
def trunk() -> Any:
    model = trunks.build(trunks.TrunkConfig(architecture="llama", **SIZES), VOCAB, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6)
    return model.eval()


def requests() -> list[Request]:
    configs = [DecodeConfig(seed=n, max_actions=20, top_k=n, stop_bias=-2.0) for n in range(6)]
    return [Request.continuation(VOCAB, [n + 1, 7, 9], each) for n, each in enumerate(configs)]


FAULTS: dict[str, dict[str, Any]] = {
    "a top_k that no tensor holds": {"top_k": 10**309},
    "a bias that is no number": {"stop_bias": "much"},
    "a bias beyond any float": {"move_bias": 10**400},
    "a temperature that is no number": {"temperature": "hot"},
    "a seed that no generator takes": {"seed": -1},
    "a budget that is no number": {"max_edits": "few"},
}


def check(engine: HFEngine, asked: list[Request]) -> None:
    """Compare with a run without the request that fails; nothing of it may be left."""
    others = [request for n, request in enumerate(asked) if n != BAD]
    wanted = records_of(HFEngine(trunk(), VOCAB), others)
    found = records_of(engine, asked)
    failed = found.pop(BAD)
    assert str(failed["error"]).startswith("The engine could not continue this request")
    assert [each["actions"] for each in found] == [each["actions"] for each in wanted]
    assert all(each["error"] is None for each in found)
    assert sum(len(each["actions"]) for each in found) > 40
    assert sorted(engine._free) == list(range(64))
    assert records_of(engine, others) == wanted  # the engine still works


@pytest.mark.parametrize("fault", FAULTS)
def test_a_setting_that_makes_no_sense_fails_its_row_alone(fault: str) -> None:
    asked = requests()
    asked[BAD] = poisoned(asked[BAD], **FAULTS[fault])
    check(HFEngine(trunk(), VOCAB), asked)


@pytest.mark.parametrize("after", [0, 5])
def test_random_numbers_that_fail_fail_their_row_alone(after: int) -> None:
    class Failing:
        drawn = 0

        def random(self) -> float:
            self.drawn += 1
            if self.drawn > after:
                raise RuntimeError("no more numbers")
            return 0.25

    class Engine(HFEngine):
        def _read(self, entering: Any) -> Any:
            for row in entering:
                if row.number == 1 + BAD:
                    row.draws = Failing()
            return super()._read(entering)

    check(Engine(trunk(), VOCAB), requests())


def test_a_text_that_fails_fails_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bad: list[Any] = []

    class Engine(HFEngine):
        def _read(self, entering: Any) -> Any:
            bad.extend(row for row in entering if row.number == 1 + BAD)
            return super()._read(entering)

    apply, engine = Canvas.apply, Engine(trunk(), VOCAB)
    rows: Any = engine._action_mask

    def failing(canvas: Canvas, action_id: int) -> Any:
        if any(canvas is rows._canvases[row.slot] and row.actions == 3 for row in bad):
            raise KeyError("a bug")
        return apply(canvas, action_id)

    monkeypatch.setattr(Canvas, "apply", failing)
    check(engine, requests())


def test_a_history_that_the_trunk_cannot_read_fails_alone() -> None:
    def run_out(_: Any, __: Any, inputs: dict[str, Any]) -> None:
        ids = inputs["input_ids"]
        if ids.shape[1] > 1 and (ids == BAD + 1).any():
            raise MemoryError("out of memory")

    narrow = deepcopy(trunk())
    narrow.register_forward_pre_hook(run_out, with_kwargs=True)
    check(HFEngine(narrow, VOCAB), requests())


def test_a_text_that_cannot_be_scored_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, texts = HFEngine(trunk(), VOCAB), [(1, n, 3) for n in range(5)]
    wanted = answers_of(engine, [Score(text) for text in texts])
    score = engine._scorer.score

    def failing(question: Score) -> Scores:
        if question.history == texts[BAD]:
            raise MemoryError("out of memory")
        return score(question)

    monkeypatch.setattr(engine._scorer, "score", failing)
    found = answers_of(engine, [Score(text) for text in texts])
    assert "MemoryError: out of memory" in str(found.pop(BAD))
    del wanted[BAD]
    for one, other in zip(found, wanted, strict=True):
        assert isinstance(one, Scores)
        assert isinstance(other, Scores)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


# -- the mask in vLLM's workers -------------------------------------------------------------------


@pytest.mark.parametrize("when", ["enter", "mask", "advance"])
def test_the_mask_fails_on_one_request_alone(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = mask_args.read

    def reading(vocab: Any, history: Any, args: Any) -> Request:
        if args.get("reviser_max_edits") == 77 and when == "enter":
            raise ZeroDivisionError("a bug")
        return read(vocab, history, args)

    monkeypatch.setattr(mask_args, "read", reading)
    outputs: list[list[int]] = [[] for _ in range(4)]
    wanted, found = BatchMask(VOCAB), BatchMask(VOCAB)
    for mask, arguments in ((wanted, [{}] * 4), (found, [{}, {}, {"reviser_max_edits": 77}, {}])):
        for n, args in enumerate(arguments):
            mask.add(n, args, VOCAB.prefix_actions([n + 1]), outputs[n])
    live = found._requests[BAD]
    if when == "mask":
        live.config = poisoned(requests()[0], stop_bias="much").config
    if when == "advance":
        for output in outputs:
            output.append(5)
        advance, replay = ActionMask.advance, ActionMask.replay

        def advancing(self: ActionMask, ids: Any, rows: Any = None) -> None:
            if self is found._action_mask and live.row in rows:
                raise ZeroDivisionError("a bug")
            advance(self, ids, rows)

        def replaying(self: ActionMask, row: int, ids: Any) -> None:
            if self is found._action_mask and live.row == row:
                raise ZeroDivisionError("a bug")
            replay(self, row, ids)

        monkeypatch.setattr(ActionMask, "advance", advancing)
        monkeypatch.setattr(ActionMask, "replay", replaying)
    logits = [torch.randn(4, VOCAB.size, generator=torch.Generator().manual_seed(1))]
    logits.append(logits[0].clone())
    wanted.apply(logits[0])
    found.apply(logits[1])
    assert live.mask_failed
    for n in range(4):
        if n == BAD:
            [only] = torch.isfinite(logits[1][n]).nonzero()[:, 0].tolist()
            assert VOCAB.kinds[only] >= Kind.SEPARATOR
        else:
            assert torch.equal(logits[0][n], logits[1][n])
