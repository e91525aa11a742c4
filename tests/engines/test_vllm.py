"""A real vLLM: what it chooses is what Transformers does, and never what the mask closed.

Servers are started as `--engine vllm` does it, with a mask that can be broken (`vllm_mask`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.core.mask import ActionMask
from reviser.engines import mask_args
from reviser.engines.base import Act, DecodeConfig, EngineEnded, Request, Score
from reviser.engines.hf import HFEngine
from reviser.engines.vllm_server import VLLMServer
from reviser.errors import ConfigError, EngineError, InvalidAction
from reviser.proofread.suggestion import Suggestion
from reviser.trajectories.refresh import Refresh
from reviser.writing.tasks import Continue

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vllm is not installed; `just test-vllm` installs it.", allow_module_level=True)

from reviser import model
from reviser.models import trunks
from support import same_judge, small_tokenizers, vllm_runs
from support.asking import answers_of
from support.engine_suite import (
    SIZES,
    TOKENIZER,
    VOCABS,
    EngineSuite,
    check_greedy,
    check_scores,
    random_requests,
    trunk,
)
from support.serving import eventually
from support.vllm_runs import Server

# With the counts of preempted requests.
OPTIONS = {"dtype": "float32", "enforce_eager": True, "max_num_seqs": 16, "disable_log_stats": None}
ARCHITECTURES = ["gpt_neox", "llama"]
TRITON = os.environ.get("REVISER_TRITON")
"""A folder with package triton, which must not be in the environment itself."""

PAIRS = [(architecture, name) for architecture in ARCHITECTURES for name in VOCABS]
QUICK = ("llama", "operators")
"""The trunk and vocabulary that the gate is content with: one server answers all of its tests."""
full = pytest.mark.full


# -- what is asked --------------------------------------------------------------------------------


GREEDY = {name: random_requests(name, 200, temperature=0.0) for name in VOCABS}
WILD = {
    name: random_requests(name, 150, temperature=1.5, top_k=0, stop_bias=0.0) for name in VOCABS
}


def restless(vocab: ActionVocab) -> dict[str, Any]:
    """So that moves and operators come up, and what is never allowed most of all."""
    bias = {int(i): 4.0 for i in vocab.controls} | {int(i): 8.0 for i in vocab.forbidden}
    bias |= {vocab.stop: -6.0}
    return {"logit_bias": {str(i): value for i, value in bias.items()}}


FEW = slice(20, 28)
"""Of the greedy requests those for the second runner; some of them search."""
# A move left of nothing.
NOWHERE = Request(history=(20, 23), length=0, cursor=0, editable=((0, 0),))
WRONG_ARGS = {
    "reviser_editable": [0, 1, 2],
    "reviser_max_edits": -1,
    "reviser_stop_bias": "much",
    "reviser_max_lenght": 3,
}


# -- who answers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for architecture, name in PAIRS:
        folder, vocab = root / f"{architecture}-{name}", VOCABS[name]
        if name == "operators":
            trunks.save(trunk(architecture, name), TOKENIZER, vocab, folder)
        else:
            trunks.save_weights(trunk(architecture, name), folder)
            vocab.save(folder)
    return root


class Servers:
    """Starts a server when a test asks for another one than the test before."""

    def __init__(self, folders: Path, tmp: pytest.TempPathFactory) -> None:
        self._folders, self._tmp = folders, tmp
        self._name: str | None = None
        self._open = ExitStack()

    def get(self, pair: tuple[str, str] = QUICK, how: str = "", **options: Any) -> Server:
        name = "-".join(pair) + how
        if name != self._name:
            self.close()
            environment = vllm_runs.second_runner(str(TRITON)) if "V2" in how else {}
            serving = vllm_runs.serving(
                self._folders / "-".join(pair),
                self._tmp.mktemp("work"),
                OPTIONS | options,
                **environment,
            )
            self._server, self._name = self._open.enter_context(serving), name
        return self._server

    def close(self) -> None:
        self._name = None
        self._open.close()


@pytest.fixture(scope="module")
def servers(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(folders, tmp_path_factory)
    yield found
    found.close()


@pytest.fixture(
    scope="module",
    params=[pytest.param(pair, marks=() if pair == QUICK else full) for pair in PAIRS],
    ids="-".join,
)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Each trunk and vocabulary; a fixture, so that its tests share a server."""
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def quick(servers: Servers) -> Server:
    return servers.get()


@contextmanager
def unchecked(args: dict[str, Any]) -> Iterator[None]:
    """Send requests whatever they hold, with other arguments for the mask."""
    with (
        mock.patch.object(Request, "check"),
        mock.patch.object(mask_args, "write", return_value=args),
    ):
        yield


# -- what they gave -------------------------------------------------------------------------------


def faults(name: str, requests: list[Request], records: list[dict[str, Any]]) -> tuple[int, int]:
    """How many actions were not allowed where they came, and of how many."""
    vocab, wrong, count = VOCABS[name], 0, 0
    for request, record in zip(requests, records, strict=True):
        rows = ActionMask(vocab, 1)
        request.enter(rows, 0)
        canvas = Canvas.replay(vocab, request.history)
        for action in record["actions"]:
            count += 1
            if action >= vocab.size or not rows.allowed()[0, action]:
                wrong += 1
                break
            rows.advance([action])
            try:
                canvas.apply(action)
            except InvalidAction:
                wrong += 1
                break
        else:
            assert (len(canvas), canvas.cursor) == (rows.length[0], rows.cursor[0])
            if "The mask failed" in str(record["error"]):  # an id that is never allowed
                wrong, count = wrong + 1, count + 1
    return wrong, count


def check_ends(name: str, requests: list[Request], records: list[dict[str, Any]]) -> None:
    for request, record in zip(requests, records, strict=True):
        actions, stop = record["actions"], VOCABS[name].stop
        context = len(request.history) + len(actions) == SIZES["context"]
        if record["ended"] == "stop":
            assert actions.index(stop) == len(actions) - 1
        elif record["ended"] == "max_actions":
            assert len(actions) == request.config.max_actions
        elif record["ended"] == "context":
            assert context
        else:
            assert record["ended"] == "cancelled"
        assert stop not in actions[:-1]


def check_equal(
    architecture: str, name: str, records: list[dict[str, Any]], part: slice = slice(None)
) -> None:
    for request, record in zip(GREEDY[name][part], records, strict=True):
        check_greedy(trunk(architecture, name), VOCABS[name], request, record)
    taken = {action for record in records for action in record["actions"]}
    assert (VOCABS[name].find in taken) == (name == "operators")


class TestSuite(EngineSuite):
    @pytest.fixture
    def engine(self, quick: Server) -> VLLMServer:
        return quick.engine


def test_texts_and_branches_are_scored_with_every_trunk(
    servers: Servers, pair: tuple[str, str]
) -> None:
    engine = servers.get(pair).engine
    answer = lambda questions: answers_of(engine, questions)  # noqa: E731
    check_scores(answer, trunk(*pair), VOCABS[pair[1]], texts=2)


def test_greedy_actions_are_those_of_transformers(servers: Servers, pair: tuple[str, str]) -> None:
    server = servers.get(pair)
    records = server.run(GREEDY[pair[1]])
    assert server.seen["mask"] == "BatchMask"
    check_equal(*pair, records)
    check_ends(pair[1], GREEDY[pair[1]], records)


def test_nothing_but_what_is_allowed_is_sampled(servers: Servers, pair: tuple[str, str]) -> None:
    name = pair[1]
    records = servers.get(pair).run(WILD[name], **restless(VOCABS[name]))
    assert [record["error"] for record in records if record["error"] is not None] == []
    wrong, count = faults(name, WILD[name], records)
    assert wrong == 0
    assert count > 1000
    check_ends(name, WILD[name], records)
    kinds = {int(VOCABS[name].kinds[a]) for record in records for a in record["actions"]}
    assert kinds >= {int(VOCABS[name].kinds[a]) for a in VOCABS[name].controls}


@pytest.mark.parametrize("poison", vllm_runs.POISONS)
def test_a_fault_of_one_row_fails_that_row_alone(quick: Server, poison: int) -> None:
    asked = list(GREEDY["operators"][FEW])
    config = DecodeConfig(max_edits=poison, temperature=0.0)
    records = quick.run([*asked[:3], replace(asked[3], config=config), *asked[3:]])
    poisoned = records.pop(3)
    assert (poisoned["ended"], str(poisoned["error"])) == (
        "error",
        "The mask failed on this request.",
    )
    check_equal(*QUICK, records, FEW)
    assert sum(len(record["actions"]) for record in records) > 20


@pytest.mark.parametrize("fault", ["no moves", "no mask"])
def test_a_broken_mask_is_noticed(quick: Server, fault: str) -> None:
    with quick.fault(fault):
        records = quick.run(WILD["operators"], cancel=0.3, **restless(VOCABS["operators"]))
    wrong, count = faults("operators", WILD["operators"], records)
    assert wrong
    assert count > 100


def test_a_server_without_the_mask_is_refused(quick: Server, folders: Path) -> None:
    load = {"url": quick.engine.url, "api_key": quick.key}
    with quick.fault("no mask"), pytest.raises(ConfigError, match="does not mask actions"):
        VLLMServer.load(folders / "llama-operators", **load)
    with pytest.raises(ConfigError, match="has no model 'other'"):
        VLLMServer.load(folders / "llama-operators", model="other", **load)


def test_where_settings_leave_nothing_stop_or_what_completes_an_action_is_taken(
    quick: Server,
) -> None:
    vocab = VOCABS["operators"]
    records = quick.run(GREEDY["operators"], allowed_token_ids=[vocab.replace])
    assert faults("operators", GREEDY["operators"], records)[0] == 0
    kinds = {int(vocab.kinds[a]) for record in records for a in record["actions"]}
    assert kinds == {Kind.REPLACE, Kind.INSERT, Kind.STOP}


def test_a_history_that_cannot_be_may_only_stop(quick: Server) -> None:
    with unchecked({}):
        records = quick.run([NOWHERE] * 2)
    assert [record["actions"] for record in records] == [[VOCABS["operators"].stop]] * 2


def test_wrong_arguments_are_refused_before_they_reach_a_worker(quick: Server) -> None:
    few = GREEDY["operators"][:1]
    for name, value in WRONG_ARGS.items():
        with unchecked({name: value}):
            (record,) = quick.run(few)
        assert re.search(f"refused: .*{name}", str(record["error"]))
    assert "Did you mean `reviser_max_length`?" in str(record["error"])
    assert "thinking" in str(quick.run(few, thinking_token_budget=3)[0]["error"])


def test_text_is_written_by_a_server_that_runs(quick: Server, folders: Path) -> None:
    folder = folders / "llama-operators"
    with model.load(folder, engine="vllm", url=quick.engine.url, api_key=quick.key) as reviser:
        rollout = reviser.infill("abc{}fed{}", max_actions=30, seed=4)
        assert rollout.text.startswith("abc")
        assert all(part.before == part.after for part in rollout.locked)
        assert rollout.provenance["engine"] == "vllm"
        assert len(list(reviser.run_many(map(Continue, ["a", "b", "cat"]), max_actions=9))) == 3


@pytest.mark.parametrize(
    "refresh",
    [Refresh(after=12, keep=4), Refresh(action="insert", keep=0), Refresh(context=32, keep=4)],
)
def test_a_text_that_is_shown_again_is_the_one_of_transformers(
    quick: Server, folders: Path, refresh: Refresh
) -> None:
    folder, settings = folders / "llama-operators", {"temperature": 0.0, "max_actions": 40}
    tasks = [Continue(prompt) for prompt in ("a", "bad", "cab", "decaf")]
    asked = {"engine": "vllm", "url": quick.engine.url, "api_key": quick.key}
    with model.load(folder, refresh=refresh, **asked) as server:
        vocab, found = server.vocab, list(server.run_many(tasks, **settings))
    with model.load(folder, refresh=refresh) as transformers:
        wanted = list(transformers.run_many(tasks, **settings))
    assert [each.trajectory for each in found] == [each.trajectory for each in wanted]
    assert [each.statistics for each in found] == [each.statistics for each in wanted]
    again = [each.statistics.ids_read - len(each.trajectory.history(vocab)) for each in found]
    assert max(again) > 0


def test_a_judge_suggests_what_it_does_on_transformers(quick: Server, folders: Path) -> None:
    """The tokenizer has letters and a line break only, so the suggestions are for letters."""

    def letters(text: str) -> Iterator[Suggestion]:
        for n in range(0, len(text), 2):
            new = tuple(letter * times for letter in "abs" for times in (0, 1, 2))
            yield Suggestion(n, n + 1, new, "letter", "spelling", "Another letter.")

    text = "cabanahadaleakinafacade"
    codec = Codec(small_tokenizers.few_tokens("abcdefghijklmnopqrs\u010a"))
    hf = HFEngine.load(folders / "llama-operators")[0]
    wanted = same_judge.judged(hf, codec, 0, text, [letters])
    found = same_judge.judged(quick.engine, codec, 0, text, [letters])
    assert len(wanted) >= 5
    same_judge.check_equal(found, wanted)


def test_a_server_that_is_killed_is_reported_as_ended(quick: Server, servers: Servers) -> None:
    engine, config = quick.engine, DecodeConfig(max_actions=60, stop_bias=-100.0)
    assert engine._process is not None
    group = engine._process._popen.pid
    request = Request.continuation(engine.vocab, [1], config)
    numbers = [engine.add(Act(request)) for _ in range(16)]
    answers = engine.step(10.0)  # on a busy machine, some may have ended by now
    os.kill(group, signal.SIGKILL)
    ended: dict[int, Any] = {}
    while len(ended) < len(numbers):
        ended |= {answer.number: answer.value for answer in answers if answer.is_last}
        answers = engine.step(1.0)
    assert any(isinstance(value, EngineError) for value in ended.values())
    for question in (Act(request), Score((1, 2))):
        engine.add(question)
        ((_, failed),) = engine.step(10.0)
        assert isinstance(failed, EngineEnded)
    servers.close()
    eventually(lambda: not running_in(group))


def running_in(group: int) -> list[str]:
    """Return the processes of a group, without those that have only not been collected."""
    listed = subprocess.run(["ps", "-eo", "pgid,stat,args"], capture_output=True, text=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()[1:]]
    return [words for each, state, words in rows if int(each) == group and state[0] != "Z"]


# -- with other servers ---------------------------------------------------------------------------


@full
def test_cancelled_and_preempted_requests_change_nothing_for_the_others(servers: Servers) -> None:
    # Room for one prompt a step: if a second were read in part, vLLM would die of its seed.
    room = {"max_num_batched_tokens": SIZES["context"]}
    server = servers.get(how="tight", block_size=32, num_gpu_blocks_override=14, **room)
    records = server.run(WILD["operators"], cancel=0.3, **restless(VOCABS["operators"]))
    wrong, count = faults("operators", WILD["operators"], records)
    assert wrong == 0
    assert count > 1000
    assert vllm_runs.preemptions(server.engine.url) > 10
    assert sum(record["ended"] == "cancelled" for record in records) > 10
    check_ends("operators", WILD["operators"], records)


DRAFTS = {"method": "ngram_gpu", "num_speculative_tokens": 3}
DRAFTS |= {"prompt_lookup_max": 2, "prompt_lookup_min": 1}


@full
@pytest.mark.skipif(not TRITON, reason="REVISER_TRITON is not set; see `just install-triton`.")
@pytest.mark.parametrize(
    ("how", "name", "options"),
    [
        ("V2", "operators", {}),
        ("V2 pieces", "plain", {"enable_chunked_prefill": True, "max_num_batched_tokens": 16}),
        ("V2 drafts", "operators", {"speculative_config": DRAFTS}),
    ],
)
def test_the_second_runner_masks_too(
    servers: Servers, how: str, name: str, options: dict[str, Any]
) -> None:
    """With few actions, since an interpreter runs it."""
    server = servers.get(("llama", name), how, max_num_seqs=8, **options)
    check_equal("llama", name, server.run(GREEDY[name][FEW]), FEW)
    some = WILD[name][:12]
    extras = {} if "drafts" in how else restless(VOCABS[name])
    records = server.run(some, **extras)
    wrong, count = faults(name, some, records)
    assert wrong == 0
    assert count > 100
    check_ends(name, some, records)
    assert server.seen["mask"] == "SlotMask"
    drafts = min(server.seen["allowed"], server.seen["refused"])
    assert (drafts > 10) == ("drafts" in how)  # some allowed, some not
