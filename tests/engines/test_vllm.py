"""A real vLLM: what it chooses is what Transformers does, and never what the mask closed.

Engines run in processes of their own, all at once; tests look at what they gave.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.mask import Boundary
from reviser.engines import wire
from reviser.engines.base import DecodeConfig, Request, Step
from reviser.engines.vllm_requests import PROCESSOR
from reviser.engines.vllm_server import VLLMServer
from reviser.errors import ConfigError, EngineError, InvalidAction
from reviser.writing.driver import Driver
from reviser.writing.tasks import Continue

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vllm is not installed; `just test-vllm` installs it.", allow_module_level=True)

import torch

from reviser.engines.hf import HFEngine
from reviser.models import trunks
from reviser.writing import model
from support import small_tokenizers, vllm_runs

# In one process, so that the mask can be broken on purpose.
ENVIRONMENT = {**os.environ, **vllm_runs.ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
OPTIONS = {"dtype": "float32", "enforce_eager": True, "max_num_seqs": 16}
# vLLM's attention on a CPU wants heads of 32 or more.
SIZES = {"layers": 2, "width": 64, "heads": 2, "mlp_width": 48, "context": 96}
ARCHITECTURES = ["gpt_neox", "llama"]
VOCABS = {
    "plain": ActionVocab.build(20, max_move=8),
    "operators": ActionVocab.build(
        20, max_move=8, operators=OPERATORS, reserved=3, marks=True, search=True
    ),
    "bare": ActionVocab.build(20, begin=4, delimiter=False, max_move=4, never_insert=[0, 7]),
}
TRITON = os.environ.get("REVISER_TRITON")
"""A folder with package triton, which must not be in the environment itself."""

PATIENCE = 1200
"""Seconds that an engine may take for all it is asked, with many others on two slow cores."""

PAIRS = [(architecture, name) for architecture in ARCHITECTURES for name in VOCABS]
QUICK = ("llama", "operators")
"""The trunk and vocabulary that the gate is content with."""
full = pytest.mark.full
every_pair = pytest.mark.parametrize(
    ("architecture", "name"),
    [pytest.param(*pair, marks=() if pair == QUICK else full) for pair in PAIRS],
)


# -- what is asked --------------------------------------------------------------------------------


@cache
def trunk(architecture: str, name: str) -> Any:
    """A small trunk that has opinions: fresh weights hold every action for equally likely."""
    config = trunks.TrunkConfig(architecture=architecture, **SIZES)
    model = trunks.build(config, VOCABS[name], seed=3)
    for parameter in model.parameters():
        parameter.data.mul_(4)
    return model.eval()


def random_request(rng: Random, vocab: ActionVocab, config: DecodeConfig) -> Request:
    """A text with a few gaps, and the cursor somewhere between them."""
    tokens = np.flatnonzero(vocab.kinds == Kind.INSERT).tolist()
    length = rng.randint(0, 20)
    count = rng.randint(1, 3)
    bounds = sorted(rng.sample(range(length + 1), min(length + 1, 2 * count)))
    gaps = list(zip(bounds[::2], bounds[1::2], strict=False)) or [(length, length)]
    cursor = rng.randint(gaps[0][0], gaps[-1][1])
    moves = (
        vocab.split_move(cursor - length, cursor=length, length=length) if cursor < length else ()
    )
    return Request(
        history=(
            *vocab.prefix_actions(rng.choices(tokens, k=length)),
            *(vocab.move_id(delta) for delta in moves),
        ),
        length=length,
        cursor=cursor,
        gaps=tuple(gaps),
        config=replace(
            config,
            seed=rng.getrandbits(64),
            max_actions=rng.randint(1, 60),
            max_edits=rng.choice([None, None, 0, 3, 20]),
            max_moves=rng.choice([None, None, 0, 2]),
            max_length=rng.choice([None, None, length, length + 5]),
            stop_bias=rng.choice([0.0, 0.0, -3.0]),
            move_bias=rng.choice([0.0, 0.0, -3.0, 2.0]),
        ),
    )


def random_requests(name: str, count: int, **settings: Any) -> list[Request]:
    rng = Random(count)
    config = DecodeConfig(**settings)
    return [random_request(rng, VOCABS[name], config) for _ in range(count)]


GREEDY = {
    name: [
        replace(request, with_reading=n % 5 == 0)
        for n, request in enumerate(random_requests(name, 200, temperature=0.0))
    ]
    for name in VOCABS
}
WILD = {
    name: random_requests(name, 150, temperature=1.5, top_k=0, stop_bias=0.0) for name in VOCABS
}


def restless(vocab: ActionVocab) -> dict[str, Any]:
    """So that moves and operators come up, and what is never allowed most of all."""
    bias = {int(i): 4.0 for i in vocab.controls} | {int(i): 8.0 for i in vocab.forbidden}
    return {"logit_bias": bias | {vocab.stop: -6.0}}


def wild(name: str, requests: list[Request] | None = None, **more: Any) -> dict[str, Any]:
    asked = [vllm_runs.to_json(request) for request in requests or WILD[name]]
    return {"requests": asked, "extras": restless(VOCABS[name]), **more}


def greedy(name: str, part: slice = slice(None)) -> dict[str, Any]:
    return {"requests": [vllm_runs.to_json(request) for request in GREEDY[name][part]]}


FEW = slice(20, 28)
"""Of the greedy requests those for the second runner; some of them search."""


NOWHERE = Request(history=(20, 23), length=0, cursor=0, gaps=((0, 0),))  # a move left of nothing
WRONG_ARGS = {
    "reviser_gaps": [0, 1, 2],
    "reviser_max_edits": -1,
    "reviser_stop_bias": "much",
    "reviser_max_lenght": 3,
}


def free_runs(folder: Path, pair: tuple[str, str]) -> dict[str, Any]:
    """One trunk and vocabulary: greedy requests and wild ones."""
    model = str(folder / "-".join(pair))
    runs = [greedy(pair[1]), wild(pair[1])]
    if pair == QUICK:
        asked = [vllm_runs.to_json(request) for request in with_a_poisoned_one(pair[1])]
        runs += [{"requests": asked, "broken": how} for how in ("one history", "one config")]
    return {"folder": model, "options": OPTIONS, "runs": runs}


def with_a_poisoned_one(name: str) -> list[Request]:
    """Some of the greedy requests, with one among them on which the mask fails."""
    asked = list(GREEDY[name][FEW])
    config = DecodeConfig(max_edits=vllm_runs.POISON, temperature=0.0)
    return [*asked[:3], replace(asked[3], config=config), *asked[3:]]


def first_runner(folder: Path) -> list[dict[str, Any]]:
    """For each trunk and vocabulary but the quick one; the last meets all that may go wrong."""
    jobs = [free_runs(folder, pair) for pair in PAIRS if pair != QUICK]
    few = vllm_runs.to_json(replace(GREEDY["operators"][0], config=DecodeConfig(max_actions=40)))
    replacing = {"allowed_token_ids": [VOCABS["operators"].replace]}
    tight = {**OPTIONS, "block_size": 32, "num_gpu_blocks_override": 14}
    # Room for one prompt a step: if a second were read in part, vLLM would die of its seed.
    tight["max_num_batched_tokens"] = SIZES["context"]
    runs = [
        wild("operators", cancel=0.3),
        wild("operators", broken="no moves", cancel=0.3),
        wild("operators", broken="no mask"),
        {"requests": [vllm_runs.to_json(r) for r in GREEDY["operators"]], "extras": replacing},
        {"requests": [vllm_runs.to_json(NOWHERE)] * 2, "args": {}, "unchecked": True},
    ]
    for key, value in WRONG_ARGS.items():
        runs.append({"requests": [few], "args": {key: value}, "unchecked": True, "refused": True})
    runs.append({"requests": [few], "extras": {"thinking_token_budget": 3}, "refused": True})
    too_long = {**few, "history": [20] + [1] * 96}
    lying = {**few, "length": few["length"] + 1}
    runs.append({"requests": [too_long, lying], "refused": True})
    jobs.append({"folder": str(folder / "llama-operators"), "options": tight, "runs": runs})
    return jobs


def second_runner(folder: Path) -> list[dict[str, Any]]:
    """Few actions, since an interpreter runs it: plain, with prompts in pieces, with drafts."""
    options = {**OPTIONS, "max_num_seqs": 8}
    pieces = {**options, "enable_chunked_prefill": True, "max_num_batched_tokens": 16}
    drafts = {"method": "ngram_gpu", "num_speculative_tokens": 3}
    drafts |= {"prompt_lookup_max": 2, "prompt_lookup_min": 1}
    some = WILD["operators"][:12]
    return [
        {
            "folder": str(folder / "llama-operators"),
            "options": options,
            "runs": [greedy("operators", FEW), wild("operators", some)],
        },
        {
            "folder": str(folder / "llama-plain"),
            "options": pieces,
            "runs": [greedy("plain", FEW), wild("plain", WILD["plain"][:8])],
        },
        {
            "folder": str(folder / "llama-operators"),
            "options": {**options, "speculative_config": drafts},
            "runs": [greedy("operators", FEW), {**wild("operators", some), "extras": {}}],
        },
    ]


# -- who answers ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for architecture in ARCHITECTURES:
        for name, vocab in VOCABS.items():
            trunks.save_weights(trunk(architecture, name), root / f"{architecture}-{name}")
            vocab.save(root / f"{architecture}-{name}")
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=["delete"], max_move=8)
    config = trunks.TrunkConfig(architecture="llama", **SIZES)
    trunks.save(trunks.build(config, vocab), tokenizer, vocab, root / "text")
    return root


class Process:
    """One that was started, with what it wrote."""

    def __init__(self, log: Path, command: list[str], **environment: str) -> None:
        self.log = log
        with log.open("w") as out:
            self.popen = subprocess.Popen(
                [sys.executable, *command],
                env={**ENVIRONMENT, **environment},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, answers: Path) -> list[Any]:
        assert self.popen.wait(timeout=PATIENCE) == 0, self.log.read_text()[-3000:]
        got: list[Any] = json.loads(answers.read_text())
        return got

    def end(self) -> None:
        if self.popen.poll() is None:
            self.popen.terminate()
        try:
            self.popen.wait(timeout=60)
        except subprocess.TimeoutExpired:  # how soon a server ends is not what is tested
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def processes(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """An engine and a server, and for the full tests two more of each, started together."""
    work = tmp_path_factory.mktemp("work")
    is_full = any(item.get_closest_marker("full") for item in request.session.items)
    jobs = {"quick": [free_runs(folder, QUICK)]}
    if is_full:
        jobs["first"] = first_runner(folder)
    if is_full and TRITON:
        jobs["second"] = second_runner(folder)
    running: dict[str, Any] = {}
    try:
        for name in jobs:
            (work / name).mkdir()
            (work / name / "jobs.json").write_text(json.dumps(jobs[name]))
            more = {}
            if name == "second":
                path = os.pathsep.join(
                    [str(Path(str(TRITON)).resolve()), os.environ.get("PYTHONPATH", "")]
                )
                more = {"PYTHONPATH": path, "TRITON_INTERPRET": "1", "TRITON_BACKENDS_IN_TREE": "1"}
            script = str(Path(vllm_runs.__file__))
            running[name] = Process(work / f"{name}.log", [script, str(work / name)], **more)
        for name in ("masked", "twin", "bare") if is_full else ("masked",):
            port = free_port()
            command = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(folder / "text")]
            command += ["--port", str(port), "--dtype", "float32", "--enforce-eager"]
            command += ["--max-num-seqs", "16", "--host", "127.0.0.1"]
            command += ["--logits-processors", PROCESSOR] if name != "bare" else []
            running[name] = Process(work / f"{name}.log", command)
            running[name].url = f"http://127.0.0.1:{port}"
        running["work"] = work
        yield running
    finally:
        for process in running.values():
            if isinstance(process, Process):
                process.end()


@pytest.fixture(scope="session")
def quick(processes: dict[str, Any]) -> list[Any]:
    got: list[Any] = processes["quick"].wait(processes["work"] / "quick" / "answers.json")
    return got


@pytest.fixture(scope="session")
def first(processes: dict[str, Any]) -> list[Any]:
    got: list[Any] = processes["first"].wait(processes["work"] / "first" / "answers.json")
    return got


@pytest.fixture(scope="session")
def second(processes: dict[str, Any]) -> list[Any]:
    if not TRITON:
        pytest.skip("REVISER_TRITON names no folder with triton; `just install-triton` makes one.")
    got: list[Any] = processes["second"].wait(processes["work"] / "second" / "answers.json")
    return got


def url_of(process: Any) -> str:
    """A server's address, once it answers."""
    address = process.url.removeprefix("http://").split(":")
    for _ in range(2 * PATIENCE):
        assert process.popen.poll() is None, process.log.read_text()[-3000:]
        try:
            socket.create_connection((address[0], int(address[1])), timeout=1).close()
        except OSError:
            time.sleep(0.5)
            continue
        url: str = process.url
        return url
    raise AssertionError(process.log.read_text()[-3000:])


@pytest.fixture(scope="session")
def server(processes: dict[str, Any]) -> str:
    return url_of(processes["masked"])


# -- what they gave -------------------------------------------------------------------------------


def faults(name: str, requests: list[Request], records: list[dict[str, Any]]) -> tuple[int, int]:
    """How many actions were not allowed where they came, and of how many."""
    vocab, wrong, count = VOCABS[name], 0, 0
    for request, record in zip(requests, records, strict=True):
        rows = Boundary(vocab, 1)
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
            if "error" in record:  # an id that is never allowed
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


@cache
def by_transformers(
    architecture: str, name: str
) -> list[tuple[list[int], list[float], list[float]]]:
    rolled: list[tuple[list[int], list[float], list[float]]] = [([], [], []) for _ in GREEDY[name]]
    for step in Driver(HFEngine(trunk(architecture, name), VOCABS[name])).run(GREEDY[name]):
        actions, logprobs, probabilities = rolled[step.request]
        actions.append(step.action)
        logprobs.append(step.logprob)
        probabilities += step.reading.edit_probabilities() if step.reading else ()
    return rolled


@pytest.fixture
def answer(request: pytest.FixtureRequest, architecture: str, name: str) -> Any:
    """What the engine of a trunk and vocabulary gave."""
    if (architecture, name) == QUICK:
        return request.getfixturevalue("quick")[0]
    others = [pair for pair in PAIRS if pair != QUICK]
    return request.getfixturevalue("first")[others.index((architecture, name))]


def check_probabilities(ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Compare them as far as vLLM knows them: it does not report STOP where it is unlikely."""
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, abs=2e-4) if other < 0.95 else one >= 0.95


def check_equal(
    architecture: str, name: str, records: list[dict[str, Any]], part: slice = slice(None)
) -> None:
    truth = by_transformers(architecture, name)[part]
    read = 0
    for record, (actions, logprobs, probabilities) in zip(records, truth, strict=True):
        assert record["actions"] == actions
        assert record["logprobs"] == pytest.approx(logprobs, abs=2e-4)
        check_probabilities(record["edit_probabilities"], probabilities)
        read += len(probabilities)
    assert read > 20
    taken = {action for record in records for action in record["actions"]}
    assert (VOCABS[name].find in taken) == (name == "operators")


@every_pair
def test_greedy_actions_are_those_of_transformers(
    architecture: str, name: str, answer: Any
) -> None:
    assert answer["runner"] == "vllm.v1.worker.cpu_model_runner"
    check_equal(architecture, name, answer["runs"][0])
    check_ends(name, GREEDY[name], answer["runs"][0])


@torch.no_grad()
def without_cache(
    model: Any, vocab: ActionVocab, request: Request, actions: list[int]
) -> list[int]:
    """The likeliest action behind each part of a history, which is read in one go."""
    rows = Boundary(vocab, 1)
    request.enter(rows, 0)
    ids = torch.tensor([[*request.history, *actions]])
    logits_TA = model(input_ids=ids, use_cache=False).logits[0, len(request.history) - 1 : -1]
    likeliest = []
    for action, logits in zip(actions, logits_TA, strict=True):
        logits[vocab.stop] += request.config.stop_bias
        allowed = np.flatnonzero(rows.allowed()[0])
        for place in allowed[np.isin(vocab.kinds[allowed], [Kind.MOVE, Kind.MARK])]:
            logits[place] += request.config.move_bias
        likeliest.append(int(allowed[logits[torch.from_numpy(allowed)].argmax()]))
        rows.advance([action])
    return likeliest


@full
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_actions_are_the_same_alone_and_without_a_cache(architecture: str) -> None:
    model, vocab, requests = trunk(architecture, "plain"), VOCABS["plain"], GREEDY["plain"]
    alone: list[list[int]] = [[] for _ in requests]
    for step in Driver(HFEngine(model, vocab, rows=1)).run(requests):
        alone[step.request].append(step.action)
    together = [actions for actions, *_ in by_transformers(architecture, "plain")]
    assert len(together) == 200
    assert alone == together
    pairs = zip(requests, together, strict=True)
    assert [without_cache(model, vocab, *pair) for pair in pairs] == together


@every_pair
def test_nothing_but_what_is_allowed_is_sampled(name: str, answer: Any) -> None:
    records = answer["runs"][1]
    wrong, count = faults(name, WILD[name], records)
    assert wrong == 0
    assert count > 1000
    check_ends(name, WILD[name], records)
    kinds = {int(VOCABS[name].kinds[a]) for record in records for a in record["actions"]}
    assert kinds >= {int(VOCABS[name].kinds[a]) for a in VOCABS[name].controls}


@full
def test_cancelled_and_preempted_requests_change_nothing_for_the_others(first: list[Any]) -> None:
    records = first[-1]["runs"][0]
    wrong, count = faults("operators", WILD["operators"], records)
    assert wrong == 0
    assert count > 1000
    assert first[-1]["preemptions"][0] > 10
    assert sum(record["ended"] == "cancelled" for record in records) > 10
    check_ends("operators", WILD["operators"], records)


@pytest.mark.parametrize("run", [2, 3])
def test_a_fault_of_one_row_fails_that_row_alone(quick: list[Any], run: int) -> None:
    records = list(quick[0]["runs"][run])
    poisoned = records.pop(3)
    assert (poisoned["ended"], poisoned["error"]) == ("error", "The mask failed on this request.")
    alone = quick[0]["runs"][0][FEW]
    assert [record["actions"] for record in records] == [record["actions"] for record in alone]
    assert sum(len(record["actions"]) for record in records) > 20


@full
@pytest.mark.parametrize("place", [1, 2])
def test_a_broken_mask_is_noticed(first: list[Any], place: int) -> None:
    wrong, count = faults("operators", WILD["operators"], first[-1]["runs"][place])
    assert wrong > 10
    assert count > 100


@full
def test_where_settings_leave_nothing_stop_or_what_completes_an_action_is_taken(
    first: list[Any],
) -> None:
    records = first[-1]["runs"][3]
    assert faults("operators", GREEDY["operators"], records)[0] == 0
    kinds = {int(VOCABS["operators"].kinds[a]) for record in records for a in record["actions"]}
    assert kinds == {Kind.REPLACE, Kind.INSERT, Kind.STOP}


@full
def test_a_history_that_cannot_be_may_only_stop(first: list[Any]) -> None:
    assert [record["actions"] for record in first[-1]["runs"][4]] == [[22], [22]]


@full
def test_wrong_arguments_are_refused_before_they_reach_a_worker(first: list[Any]) -> None:
    said = [run[0] for run in first[-1]["runs"][5 : 5 + len(WRONG_ARGS)]]
    for name, words in zip(WRONG_ARGS, said, strict=True):
        assert name in words
    assert "Did you mean `reviser_max_length`?" in said[-1]
    assert "thinking" in first[-1]["runs"][-2][0]


@full
def test_a_request_that_does_not_fit_its_model_or_its_history_is_refused(first: list[Any]) -> None:
    too_long, lying = first[-1]["runs"][-1]
    assert "this model's limit is 95" in too_long
    assert "but the request says" in lying


@full
@pytest.mark.parametrize(("place", "name"), [(0, "operators"), (1, "plain"), (2, "operators")])
def test_the_second_runner_masks_too(second: list[Any], place: int, name: str) -> None:
    answer = second[place]
    assert answer["runner"] == "vllm.v1.worker.cpu.model_runner"
    check_equal("llama", name, answer["runs"][0], FEW)
    asked = WILD[name][: len(answer["runs"][1])]
    wrong, count = faults(name, asked, answer["runs"][1])
    assert wrong == 0
    assert count > 100
    check_ends(name, asked, answer["runs"][1])
    assert (min(answer["drafts"]) > 10) == (place == 2)  # some allowed, some not


# -- over HTTP ------------------------------------------------------------------------------------


def test_a_server_gives_the_actions_of_transformers(server: str, folder: Path) -> None:
    asked, opened = VLLMServer.load(folder / "text", url=server), []
    engine, found = asked
    assert found == folder / "text"
    local, _ = HFEngine.load(folder / "text")
    rng = Random(1)
    config = DecodeConfig(temperature=0.0)
    requests = [random_request(rng, engine.vocab, config) for _ in range(40)]
    requests = [replace(request, with_reading=n % 2 == 0) for n, request in enumerate(requests)]
    for one in (engine, local):
        rolled: list[list[Step]] = [[] for _ in requests]
        for step in Driver(one).run(requests):
            rolled[step.request].append(step)
        opened.append(rolled)
    for request, ours, theirs in zip(requests, *opened, strict=True):
        assert [(s.action, s.ended) for s in ours] == [(s.action, s.ended) for s in theirs]
        logprobs = [step.logprob for step in theirs]
        assert [step.logprob for step in ours] == pytest.approx(logprobs, abs=2e-4)
        assert (ours[0].reading is not None) == request.with_reading
        if ours[0].reading and theirs[0].reading:
            found = [step.reading.edit_probabilities() for step in (ours[0], theirs[0])]
            check_probabilities(*found)
            ids = [step.reading.actual for step in (ours[0], theirs[0])]
            assert ids[0] == pytest.approx(ids[1], abs=2e-3)
    engine.close()


def test_a_cancelled_request_gives_no_further_step_over_http(server: str, folder: Path) -> None:
    engine, _ = VLLMServer.load(folder / "text", url=server)
    config = DecodeConfig(max_actions=60, stop_bias=-100.0, seed=2**64 - 1)
    numbers = [engine.add(Request.continuation(engine.vocab, [1], config)) for _ in range(3)]
    seen = [step.request for step in engine.step()]
    engine.cancel(numbers[0])
    after = []
    while steps := engine.step():
        after += [step.request for step in steps]
    assert numbers[0] not in after
    for number in numbers[1:]:
        assert [*seen, *after].count(number) == 60
    assert engine.step() == []
    engine.close()


def test_text_is_written_by_a_server(server: str, folder: Path) -> None:
    reviser = model.load(folder / "text", engine="vllm", url=server)
    rollout = reviser.infill("The cat {} the mat {}.", max_actions=30, seed=4)
    assert rollout.text.startswith("The cat ")
    assert all(part.before == part.after for part in rollout.locked)
    assert rollout.provenance["engine"] == "vllm"
    assert len(list(reviser.run_many(map(Continue, ["The", "A", "cat"]), max_actions=9))) == 3
    reviser.engine.close()  # type: ignore[attr-defined]


@full
def test_several_servers_share_the_requests_and_one_may_die(
    processes: dict[str, Any], server: str, folder: Path
) -> None:
    twin = processes["twin"]
    engine, _ = VLLMServer.load(folder / "text", url=[server, url_of(twin)])
    local, _ = HFEngine.load(folder / "text")
    rng, config = Random(5), DecodeConfig(temperature=0.0, stop_bias=-100.0, max_actions=40)
    requests = [random_request(rng, engine.vocab, config) for _ in range(40)]
    expected: list[list[int]] = [[] for _ in requests]
    for step in Driver(local).run(requests):
        expected[step.request].append(step.action)
    found: list[list[int]] = [[] for _ in requests]
    failed = set()
    for step in Driver(engine).run(requests):
        begun = sum(map(bool, found))
        if twin.popen.poll() is None and begun > len(requests) / 2:  # so both have begun some
            os.killpg(twin.popen.pid, signal.SIGKILL)
            twin.popen.wait()
        if step.error is None:
            found[step.request].append(step.action)
        else:
            failed.add(step.request)
    assert twin.popen.poll() is not None
    assert len(failed) < len(requests)
    for number, actions in enumerate(expected):
        seen = found[number]
        assert seen
        assert seen == actions[: len(seen)]
        # What the dead one had begun has failed. That may be nothing: on a busy machine a server
        # sends all actions of a request at once.
        assert (number in failed) == (len(seen) < len(actions))
    after = [step for step in Driver(engine).run(requests) if step.error is not None]
    assert not after
    engine.close()


@full
def test_a_server_without_the_mask_is_refused(processes: dict[str, Any], folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not mask actions.*--logits-processors"):
        VLLMServer.load(folder / "text", url=url_of(processes["bare"]))


def test_what_a_server_refuses_is_said(
    server: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = VLLMServer.load(folder / "text", url=server)
    with pytest.raises(ConfigError, match="this model's limit is 95"):
        engine.add(Request.continuation(engine.vocab, [1] * 96))
    monkeypatch.setattr(VLLMServer, "check", lambda *_: None)
    monkeypatch.setattr(wire, "write", lambda _: {"reviser_gap": [0, 0]})
    engine.add(Request.continuation(engine.vocab, [1]))
    (failed,) = engine.step()
    assert re.search(r"refused: .*Did you mean .reviser_gaps.", str(failed.error))
    assert engine.step() == []
    with pytest.raises(ConfigError, match="has no model 'other'"):
        VLLMServer.load(folder / "text", url=server, model="other")
    engine.close()


def test_a_server_that_is_down_is_said_so(folder: Path) -> None:
    with pytest.raises(EngineError, match="There is no server at"):
        VLLMServer.load(folder / "text", url=f"http://127.0.0.1:{free_port()}")
