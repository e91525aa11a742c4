"""The mask in vLLM's workers, against batches as both runners rearrange them; without vLLM.

The truth is slow: every row's own history, replayed from its start.
"""

from __future__ import annotations

import sys
from importlib import import_module
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab, Kind
from reviser.core.mask import ActionMask
from reviser.engines import mask_args
from reviser.errors import ConfigError
from support import naive, strategies

torch = pytest.importorskip("torch", reason="torch is not installed, so there are no logits.")

from reviser.engines.vllm_state import BatchMask, SlotMask, check_config  # noqa: E402

MARKS = ActionVocab.build(5, operators=["delete"], max_move=2, marks=True)
SEARCH = ActionVocab.build(5, operators=["delete", "replace"], max_move=2, marks=True, search=True)
VOCABS = [*strategies.SMALL_VOCABS, MARKS, MARKS, MARKS, SEARCH, SEARCH, SEARCH]
PADDING = 3

randoms = st.randoms(use_true_random=False)
# Shrinking a random walk takes minutes and says little.
walks = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


class Asked:
    """A request as vLLM knows it: ids and arguments."""

    def __init__(self, rng: Random, vocab: ActionVocab) -> None:
        tokens = np.flatnonzero(vocab.kinds == Kind.INSERT).tolist()
        length = rng.randint(0 if vocab.begin is not None else 1, 6)
        prefix = rng.choices(tokens, k=length)
        self.prompt = vocab.prefix_actions(prefix) if prefix or vocab.begin is not None else []
        self.args: dict[str, Any] = {}
        if rng.random() < 0.5:  # one range around the cursor, or a second one before it
            low = rng.randint(0, length)
            bounds = [low, length]
            if low > 1 and rng.random() < 0.5:
                bounds = [0, rng.randint(0, low - 1), *bounds]
            self.args["reviser_editable"] = bounds
        if rng.random() < 0.3:
            self.args["reviser_max_edits"] = rng.randint(0, 6)
        if rng.random() < 0.3:
            self.args["reviser_max_length"] = length + rng.randint(0, 4)
        if rng.random() < 0.3:
            self.args["reviser_stop_bias"] = rng.choice([-2.0, 0.5])
        if rng.random() < 0.3:
            self.args["reviser_move_bias"] = rng.choice([-2.0, 0.5])
        if rng.random() < 0.3:
            self.args["reviser_max_moves"] = rng.randint(0, 3)
        self.output: list[int] = []

    def allowed(self, vocab: ActionVocab, more: list[int] | None = None) -> np.ndarray[Any, Any]:
        rows = ActionMask(vocab, 1)
        mask_args.read(vocab, self.prompt, self.args).enter(rows, 0)
        rows.replay(0, [*self.output, *(more or [])])
        return rows.allowed()[0]

    def expected(self, vocab: ActionVocab, row: Any, more: list[int] | None = None) -> Any:
        wide = torch.zeros(len(row), dtype=torch.bool)
        wide[: vocab.size] = torch.from_numpy(self.allowed(vocab, more))
        row = row.clone()
        row[vocab.stop] += self.args.get("reviser_stop_bias", 0.0)
        if wide[vocab.stop]:  # else an action is half spelled, and moves are digits
            is_move = torch.from_numpy(np.isin(vocab.kinds, [Kind.MOVE, Kind.MARK, Kind.FIND]))
            row[: vocab.size][is_move] += self.args.get("reviser_move_bias", 0.0)
        return torch.where(wide, row, -torch.inf)


def random_logits(rng: Random, rows: int, vocab: ActionVocab) -> Any:
    generator = torch.Generator().manual_seed(rng.getrandbits(40))
    return torch.randn(rows, vocab.size + PADDING, generator=generator)


def only_stop(vocab: ActionVocab, row: Any) -> bool:
    return row[vocab.stop] > -torch.inf and (row > -torch.inf).sum() == 1


def pick(rng: Random, vocab: ActionVocab, asked: Asked, more: list[int] | None = None) -> int:
    return naive.pick(rng, vocab, {*np.flatnonzero(asked.allowed(vocab, more)).tolist()})


@walks
@given(random=randoms, vocab=st.sampled_from(VOCABS))
def test_rows_that_leave_come_and_change_places_keep_their_own_mask(
    random: Random, vocab: ActionVocab
) -> None:
    mask, batch = BatchMask(vocab), [None] * 0
    gone: list[Asked] = []
    for _ in range(random.randint(1, 10)):
        # As vLLM does: some leave, new ones take their places, the last ones fill what is empty.
        leaving = [n for n in range(len(batch)) if random.random() < 0.25]
        for n in leaving:
            gone.append(batch[n])
            batch[n] = None
            mask.remove(n)
        for _ in range(random.randint(0, 4)):
            back = gone.pop() if gone and random.random() < 0.5 else Asked(random, vocab)
            empty = [n for n, asked in enumerate(batch) if asked is None] or [len(batch)]
            batch[empty[0] : empty[0] + 1] = [back]
            mask.add(empty[0], back.args, back.prompt, back.output)
        while None in batch:
            if batch[-1] is not None:
                empty = batch.index(None)
                mask.move(len(batch) - 1, empty, swap=False)
                batch[empty] = batch[-1]
            batch.pop()
        for _ in range(random.randint(0, 3) if len(batch) > 1 else 0):
            a, b = random.sample(range(len(batch)), 2)
            mask.move(a, b, swap=True)
            batch[a], batch[b] = batch[b], batch[a]
        for asked in batch:  # what was not known yet when the batch was rearranged
            if asked.output and asked.output[-1] == -1:
                asked.output.pop()
                asked.output.append(pick(random, vocab, asked))
            if random.random() < 0.1:  # some of it is discarded
                del asked.output[random.randint(0, len(asked.output)) :]
        logits = random_logits(random, len(batch), vocab)
        before = logits.clone()
        mask.apply(logits)
        for n, asked in enumerate(batch):
            assert torch.equal(logits[n], asked.expected(vocab, before[n]))
            asked.output.append(-1)


def test_who_moves_onto_another_takes_its_place() -> None:
    mask = BatchMask(VOCAB)
    mask.add(0, {"reviser_max_edits": 0}, VOCAB.prefix_actions([1]), [])
    mask.add(1, {}, VOCAB.prefix_actions([1]), [])
    mask.move(1, 0, swap=False)
    mask.add(1, {}, VOCAB.prefix_actions([2]), [])
    mask.move(1, 2, swap=True)
    logits = torch.zeros(3, VOCAB.size)
    mask.apply(logits)
    assert [only_stop(VOCAB, row) for row in logits] == [False, True, False]
    mask.move(2, 0, swap=False)
    mask.apply(logits := torch.zeros(3, VOCAB.size))
    assert [only_stop(VOCAB, row) for row in logits] == [False, True, True]


class Device:
    """The second runner's request states and contexts, played by tensors of this machine."""

    def __init__(self, slots: int, width: int) -> None:
        def table(*shape: int) -> Any:
            values = torch.full(shape, 7, dtype=torch.int32)  # what is not written is anything
            return SimpleNamespace(gpu=values, np=values.numpy())

        self.free = list(range(slots))
        self.live: dict[int, Asked] = {}
        self.states = SimpleNamespace(
            device=torch.device("cpu"),
            max_num_reqs=slots,
            all_token_ids=table(slots, width),
            prompt_len=table(slots),
            total_len=table(slots),
        )

    def enter(self, slot: int, asked: Asked) -> None:
        self.live[slot] = asked
        self.states.prompt_len.np[slot] = len(asked.prompt)
        self.commit(slot)

    def commit(self, slot: int) -> None:
        ids = [*self.live[slot].prompt, *self.live[slot].output]
        self.states.all_token_ids.np[slot, : len(ids)] = ids
        self.states.total_len.np[slot] = len(ids)

    def context(self, layout: list[tuple[int, int, list[int]]]) -> Any:
        """Of (slot, place of its first row, drafts) for each request, in order."""
        rows = [
            (slot, n, place + n, draft if n else 0)
            for slot, place, drafts in layout
            for n, draft in enumerate([0, *drafts])
        ]
        columns = torch.tensor(rows, dtype=torch.int64).reshape(-1, 4).T
        slots = torch.tensor([slot for slot, _, _ in layout], dtype=torch.int32)
        return SimpleNamespace(
            idx_mapping=slots,
            idx_mapping_np=slots.numpy(),
            expanded_idx_mapping=columns[0].int(),
            expanded_local_pos=columns[1].int(),
            pos=columns[2],
            input_ids=columns[3].int(),
            seq_lens_upper_bound_np=np.array([p + 1 + len(d) for _, p, d in layout], np.int32),
        )


def draft(rng: Random, vocab: ActionVocab, asked: Asked) -> list[int]:
    """Some ids that may come next, some that may not, some that are none at all."""
    drafts: list[int] = []
    for _ in range(rng.randint(0, 3)):
        if rng.random() < 0.6 and all_allowed(vocab, asked, drafts):
            drafts.append(pick(rng, vocab, asked, drafts))
        else:
            drafts.append(rng.randrange(-1, vocab.size + PADDING))
    return drafts


def all_allowed(vocab: ActionVocab, asked: Asked, drafts: list[int]) -> bool:
    return all(
        0 <= action < vocab.size and asked.allowed(vocab, drafts[:n])[action]
        for n, action in enumerate(drafts)
    )


@walks
@given(random=randoms, vocab=st.sampled_from(VOCABS))
def test_slots_with_drafts_taken_and_rejected_keep_their_own_mask(
    random: Random, vocab: ActionVocab
) -> None:
    device = Device(slots=4, width=64)
    mask = SlotMask(vocab, device.states)
    preempted: list[Asked] = []
    fresh: set[int] = set()
    for _ in range(random.randint(1, 10)):
        for slot in [slot for slot in device.live if random.random() < 0.2]:
            preempted.append(device.live.pop(slot))
            device.free.append(slot)
        random.shuffle(device.free)
        while device.free and random.random() < 0.7:
            back = preempted.pop() if preempted and random.random() < 0.5 else Asked(random, vocab)
            slot = device.free.pop()
            device.enter(slot, back)
            mask.add(slot, back.args)
            fresh.add(slot)
        for slot, asked in device.live.items():
            if slot not in fresh and random.random() < 0.1:  # some of it is discarded
                del asked.output[random.randint(0, len(asked.output)) :]
                device.commit(slot)
        layout = []
        for slot in random.sample(sorted(device.live), random.randint(0, len(device.live))):
            total = int(device.states.total_len.np[slot])
            in_pieces = slot in fresh and total > 1 and random.random() < 0.4
            drafts = [] if slot in fresh else draft(random, vocab, device.live[slot])
            place = random.randint(0, total - 2) if in_pieces else total - 1
            layout.append((slot, place, drafts))
        if not layout:
            continue
        context = device.context(layout)
        logits = random_logits(random, len(context.pos), vocab)
        before = logits.clone()
        mask.apply(logits, context)
        row = 0
        for slot, place, drafts in layout:
            asked = device.live[slot]
            read_whole = place + 1 == device.states.total_len.np[slot]
            for n in range(len(drafts) + 1):
                if read_whole and all_allowed(vocab, asked, drafts[:n]):
                    expected = asked.expected(vocab, before[row], drafts[:n])
                    assert torch.equal(logits[row], expected)
                else:  # never taken
                    assert only_stop(vocab, logits[row])
                row += 1
            if read_whole:
                fresh.discard(slot)
                good = [n for n in range(len(drafts) + 1) if all_allowed(vocab, asked, drafts[:n])]
                asked.output += drafts[: random.choice(good)]
                asked.output.append(pick(random, vocab, asked))
                device.commit(slot)


def apply_one(vocab: ActionVocab, prompt: Any, args: Any, output: list[int], logits: Any) -> Any:
    """The last row of both runners, which must agree."""
    batch = BatchMask(vocab)
    batch.add(0, args, prompt, output)
    first, second = logits.clone()[None], logits.clone()[None]
    batch.apply(first)
    device = Device(1, 32)
    slots = SlotMask(vocab, device.states)
    device.enter(0, SimpleNamespace(prompt=prompt, output=output))  # type: ignore[arg-type]
    slots.add(0, args)
    slots.apply(second, device.context([(0, len(prompt) + len(output) - 1, [])]))
    assert torch.equal(first, second)
    return first[0]


VOCAB = ActionVocab.build(5, operators=["delete", "replace", "span_delete"], max_move=4, reserved=2)


@pytest.mark.parametrize("open_id", ["token", "forbidden", "none"])
@pytest.mark.parametrize("edits", [0, 9])
def test_stop_wins_where_other_settings_close_all_that_is_allowed(open_id: str, edits: int) -> None:
    closed = torch.full((VOCAB.size + PADDING,), -torch.inf)
    if open_id == "token":  # but no edit is left, or it is outside the range
        closed[1 if edits == 0 else VOCAB.move_id(4)] = 9.0
    elif open_id == "forbidden":
        closed[VOCAB.forbidden[-1]] = closed[VOCAB.size] = 9.0
    args = {"reviser_max_edits": edits, "reviser_editable": [0, 1]}
    row = apply_one(VOCAB, VOCAB.prefix_actions([1]), args, [], closed)
    assert only_stop(VOCAB, row)
    assert row[VOCAB.stop] == 0


def test_in_the_middle_of_a_search_what_can_be_found_wins() -> None:
    assert SEARCH.find is not None
    prompt = [*SEARCH.prefix_actions([1, 2, 1, 3]), *[SEARCH.move_id(-2)] * 2]
    args = {"reviser_editable": [0, 3]}  # so that what is found ends before the last token
    for typed, found in (
        ([], [1, 2]),
        ([1], [2, SEARCH.here]),
        ([1, 2, 1], [SEARCH.here]),
    ):
        for kept in (None, *found):
            logits = torch.full((SEARCH.size + PADDING,), -torch.inf)
            logits[[3, 4, SEARCH.stop, SEARCH.move_id(1), SEARCH.size]] = 9.0
            if kept is not None:  # one of them is open, and the others stay closed
                logits[kept] = -2.5
            row = apply_one(SEARCH, prompt, args, [SEARCH.find, *typed], logits)
            open_ids = torch.isfinite(row).nonzero()[:, 0].tolist()
            assert open_ids == (found if kept is None else [kept])
            assert row[open_ids].unique().tolist() == [0.0 if kept is None else -2.5]


@pytest.mark.parametrize(
    ("prompt", "args"),
    [
        ([VOCAB.begin, VOCAB.move_id(-1)], {}),
        ([VOCAB.begin, 1, VOCAB.stop], {}),
        ([VOCAB.begin, 1, VOCAB.size + 1], {}),
        ([VOCAB.begin, 1, VOCAB.forbidden[-1]], {}),
        ([VOCAB.begin, 1, VOCAB.replace], {}),
        ([VOCAB.begin, 1], {"reviser_editable": [0, 5]}),
        ([VOCAB.begin, 1], {"reviser_editable": [0]}),
        ([VOCAB.begin, 1], {"reviser_editable": "0 1"}),
        ([VOCAB.begin, 1], {"reviser_max_edits": -1}),
        ([VOCAB.begin, 1], {"reviser_stop_bias": "nan"}),
        ([VOCAB.begin, 1], {"reviser_gasp": [0, 1]}),
        ([VOCAB.begin, 1, 2, VOCAB.move_id(-1)], {}),  # outside its only range
    ],
)
def test_a_request_that_makes_no_sense_may_only_stop(prompt: Any, args: Any) -> None:
    logits = torch.zeros(VOCAB.size + PADDING)
    for output in ([], [1], [1, VOCAB.stop], [VOCAB.replace, VOCAB.stop]):
        assert only_stop(VOCAB, apply_one(VOCAB, [int(i) for i in prompt], args, output, logits))


def test_an_output_outside_the_vocabulary_ends_its_request_alone() -> None:
    mask = BatchMask(VOCAB)
    outputs: list[list[int]] = [[1], [VOCAB.size]]
    for n, output in enumerate(outputs):
        mask.add(n, {}, VOCAB.prefix_actions([1]), output)
    logits = torch.zeros(3, VOCAB.size + PADDING)  # one row more than there are requests
    mask.apply(logits)
    assert torch.isfinite(logits[0]).sum() > 5
    assert only_stop(VOCAB, logits[1])
    assert only_stop(VOCAB, logits[2])


@pytest.mark.parametrize("wrong", [[SEARCH.here], [SEARCH.find, 4], [SEARCH.move_id(-1)] * 2])
def test_what_a_search_had_closed_ends_its_request_alone(wrong: list[int]) -> None:
    prompt = [*SEARCH.prefix_actions([1, 2, 3]), SEARCH.move_id(-2)]
    outputs: list[list[int]] = [[], [], []]
    batch, alone = BatchMask(SEARCH), BatchMask(SEARCH)
    for n, output in enumerate(outputs):
        batch.add(n, {"reviser_editable": [0, 3]}, prompt, output)
    alone.add(0, {"reviser_editable": [0, 3]}, prompt, outputs[0])
    others = [*[SEARCH.find, 2, SEARCH.here], 4, SEARCH.move_id(1)]
    for n, action in enumerate(others):
        for output in outputs[::2]:
            output.append(action)
        outputs[1].append(wrong[n] if n < len(wrong) else 1)
        logits, truth = torch.zeros(3, SEARCH.size), torch.zeros(1, SEARCH.size)
        batch.apply(logits)
        alone.apply(truth)
        assert torch.equal(logits[0], truth[0])
        assert torch.equal(logits[2], truth[0])
        assert only_stop(SEARCH, logits[1]) == (n + 1 >= len(wrong))


def test_a_placeholder_in_place_of_an_action_is_an_error() -> None:
    mask = BatchMask(VOCAB)
    mask.add(0, {}, VOCAB.prefix_actions([1]), [1, -1])
    with pytest.raises(ConfigError, match="placeholders"):
        mask.apply(torch.zeros(1, VOCAB.size))


def a_config(**changes: Any) -> Any:
    model = {"get_vocab_size": lambda: 64, "enable_prompt_embeds": False, **changes}
    speculation = model.pop("speculation", None)
    return SimpleNamespace(model_config=SimpleNamespace(**model), speculative_config=speculation)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"get_vocab_size": lambda: VOCAB.size - 1}, "do not belong together"),
        ({"enable_prompt_embeds": True}, "Turn off prompt_embeds"),
        ({"enable_trace_replay": True}, "Turn off trace replay"),
        (
            {"speculation": SimpleNamespace(rejection_sample_method="synthetic")},
            "synthetic acceptance",
        ),
        ({"speculation": SimpleNamespace(enable_adaptive_verification=True)}, "Turn off adaptive"),
    ],
)
def test_what_would_pass_the_mask_by_is_refused_at_start(changes: Any, words: str) -> None:
    check_config(a_config(), VOCAB)
    with pytest.raises(ConfigError, match=words):
        check_config(a_config(**changes), VOCAB)


def test_a_runner_that_shows_less_than_the_mask_needs_is_refused() -> None:
    states = Device(1, 8).states
    del states.total_len
    with pytest.raises(ConfigError, match="does not show its processors total_len"):
        SlotMask(VOCAB, states)


def test_a_vllm_without_processors_for_its_second_runner_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As before 0.32: `ray[llm]` pins such a version."""
    first = ModuleType("vllm.v1.sample.logits_processor")
    for name in ("BatchUpdate", "LogitsProcessor", "MoveDirectionality"):
        setattr(first, name, type(name, (), {}))
    for name in ("vllm", "vllm.v1", "vllm.v1.sample", "vllm.v1.worker"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, first.__name__, first)
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.gpu.sample.logits_processor", None)
    monkeypatch.delitem(sys.modules, "reviser.engines.vllm_plugin", raising=False)
    plugin = import_module("reviser.engines.vllm_plugin")
    monkeypatch.delitem(sys.modules, "reviser.engines.vllm_plugin")  # made of stand-ins
    assert issubclass(plugin.ReviserMask, first.LogitsProcessor)
    assert plugin.SlotLogitsProcessor is object
