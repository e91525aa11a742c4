"""Real engines under load behind `reviser serve`; vLLM runs in its own environment."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from support import fuzz, small_tokenizers, vllm_runs

pytest.importorskip("fastapi", reason="The extra serve is not installed.")
pytest.importorskip("torch", reason="torch is not installed, so nothing can write.")

import httpx2

from experiments.speed import serve
from experiments.speed.serve import WAYS, Judge, Served, bodies, load_up
from support.serving import eventually

HAS_VLLM = importlib.util.find_spec("vllm") is not None
ENGINE = "vllm" if HAS_VLLM else "hf"
OPTIONS = ['dtype="float32"', "enforce_eager=true"] if HAS_VLLM else []


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("load") / "model"
    tokenizer = small_tokenizers.byte_level()
    return str(fuzz.folder_of_a_fresh_model(folder, context=512, tokenizer=tokenizer))


@contextmanager
def served(model: str, *arguments: str) -> Iterator[Served]:
    chosen = [f"--engine-option={option}" for option in OPTIONS]
    with (
        mock.patch.dict(os.environ, vllm_runs.ENVIRONMENT),
        serve.served(model, "--engine", ENGINE, *chosen, *arguments) as server,
    ):
        yield server


def load(server: Served, way: str, *, count: int, actions: int = 24, **settings: Any) -> Any:
    asked = [body | settings for body in bodies(count, actions, 0)]
    return asyncio.run(load_up([server.port], asked, way, 64))[1]


@pytest.mark.full
def test_under_load_none_is_lost_and_none_mixed_up_and_a_signal_loses_none(model: str) -> None:
    judge = Judge(model)
    with served(model) as server:
        written = {}
        for way in WAYS:
            answers = load(server, way, count=200)
            assert len(answers) == 200
            written[way] = judge.actions(answers, way)
        assert written["stream"] == written["JSON"]  # the same seeds give the same actions
        with ThreadPoolExecutor() as pool:
            under_way = pool.submit(load, server, "stream", count=64, actions=300, stop_bias=-50.0)
            eventually(lambda: running(server) > 32)
            server.process.send_signal(signal.SIGTERM)
            answers = under_way.result()
        assert len(answers) == 64
        assert judge.actions(answers, "stream") > 0
        assert server.process.wait(60) == 0


@pytest.mark.full
@pytest.mark.skipif(not HAS_VLLM, reason="vllm is not installed; `just test-vllm` installs it.")
def test_a_vllm_that_is_killed_under_load_ends_the_server(model: str) -> None:
    with served(model) as server, ThreadPoolExecutor() as pool:
        waiting = [
            pool.submit(load, server, way, count=32, actions=400, stop_bias=-50.0) for way in WAYS
        ]
        eventually(lambda: running(server) > 32)
        [vllm] = children(server.process.pid, "vllm_process")
        [core] = children(vllm, "EngineCore")
        os.kill(core, signal.SIGKILL)
        for under_way in waiting:
            for answer in under_way.result():
                text = answer.body.decode()
                assert "The engine failed while it ran this request. Try again." in text
        assert server.process.wait(60) == 1


def metrics(server: Served) -> str:
    return str(httpx2.get(server.url + "/metrics").text)


def running(server: Served) -> float:
    return float(re.findall(r"^reviser_running (\S+)", metrics(server), re.MULTILINE)[0])


def children(process: int, name: str) -> list[int]:
    """Return the child processes of one with a name."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()[1:]]
    return [int(pid) for pid, above, words in rows if int(above) == process and name in words]
