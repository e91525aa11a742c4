"""A server that the engine starts itself: started, reported and ended, whatever happens.

In place of vLLM there is a package of that name with a server of a few lines.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from reviser.core.actions import ActionVocab
from reviser.engines import vllm_process
from reviser.engines.base import Act, EngineEnded, Request
from reviser.engines.vllm_process import PROCESSOR, VLLMProcess, words_of
from reviser.engines.vllm_server import VLLMServer
from reviser.errors import ConfigError, EngineError, MissingExtra
from support.serving import eventually

pytest.importorskip("httpx2", reason="httpx2 is not installed, so no server can be asked.")

VOCAB = ActionVocab.build(20, max_move=4)
SERVER = """
import json, os, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
words = sys.argv[1:]
child = subprocess.Popen(["sleep", "600"])  # as vLLM's engine, it holds on to the log
print("children:", os.getpid(), child.pid, flush=True)
if "--fail" in words:
    print("ERROR [core.py] reviser.errors.ConfigError: Turn off trace replay.")
    print("Traceback (most recent call last):\\n  more\\nRuntimeError: See root cause above.")
    child.kill()
    sys.exit(1)
if "--wrong" in words:
    print("usage: api_server\\napi_server: error: unrecognized arguments: --wrong")
    child.kill()
    sys.exit(2)
if "--slow" in words:
    time.sleep(600)
assert "--no-enable-chunked-prefill" in words, words
model = words[words.index("--model") + 1]

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        key = self.headers.get("Authorization")
        right = self.path == "/health" or key == f"Bearer {os.environ['VLLM_API_KEY']}"
        self.answer({"data": [{"id": model, "max_model_len": 30}]}, 200 if right else 401)
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        logprobs = {"top_logprobs": [{"a": -1.0, "b": -2.0}]}
        self.answer({"choices": [{"token_ids": [STOP], "logprobs": logprobs}]}, 200)
    def answer(self, content, status):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

HTTPServer(("127.0.0.1", int(words[words.index("--port") + 1])), Handler).serve_forever()
""".replace("STOP", str(VOCAB.stop))
PROGRAM = """
import sys
from reviser.engines.vllm_server import VLLMServer
VLLMServer.load(sys.argv[1], **{name: True for name in sys.argv[2:]})
print("loaded", file=sys.stderr, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder, with the fake vLLM on the path of every process that is started."""
    package = tmp_path / "path" / "vllm"
    (package / "entrypoints" / "openai").mkdir(parents=True)
    for name in ("", "entrypoints", "entrypoints/openai"):
        (package / name / "__init__.py").touch()
    cpu = "current_platform = type('Cpu', (), {'is_cpu': staticmethod(lambda: True)})"
    (package / "platforms.py").write_text(cpu)
    (package / "entrypoints" / "openai" / "api_server.py").write_text(SERVER)
    monkeypatch.syspath_prepend(str(package.parent))
    paths = [str(package.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    model = tmp_path / "model"
    model.mkdir()
    VOCAB.save(model)
    for name in ("config.json", "model.safetensors"):
        (model / name).write_text("{}")
    return model


def is_running(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def processes_in(log: str) -> list[int]:
    (line,) = [line for line in log.splitlines() if line.startswith("children:")]
    return [int(word) for word in line.split()[1:]]


@pytest.fixture
def relayed(capfd: pytest.CaptureFixture[str]) -> Callable[[], list[int]]:
    """Return the processes that a server names in its log, which is ours, once that has come."""
    log: list[str] = []

    def find() -> list[int]:
        eventually(lambda: log.append(capfd.readouterr().err) or "children:" in "".join(log))
        return processes_in("".join(log))

    return find


def started(folder: Path, *options: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a program that opens a model; return it with the processes that it has started."""
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), *options],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stderr is not None
    lines = [program.stderr.readline()]
    while not options and lines[-1] != "loaded\n":
        assert lines[-1], lines
        lines.append(program.stderr.readline())
    return program, processes_in("".join(lines))


def test_a_server_is_started_used_and_ended(
    folder: Path, relayed: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "runpy.py").write_text("raise SystemExit('a module of the working folder')")
    engine, found = VLLMServer.load(folder)
    assert found == folder
    processes = relayed()
    assert all(map(is_running, processes))
    engine.close()
    eventually(lambda: not any(map(is_running, processes)))


def test_a_server_that_is_killed_has_ended(folder: Path, relayed: Callable[[], list[int]]) -> None:
    engine, _ = VLLMServer.load(folder)
    server, child = relayed()
    os.kill(server, signal.SIGKILL)
    engine.add(Act(Request.continuation(VOCAB, [1])))
    ((_, failed),) = engine.step(10.0)
    assert isinstance(failed, EngineEnded)
    engine.close()
    eventually(lambda: not is_running(child))


@pytest.mark.parametrize(
    ("option", "how"),
    [
        *product([(), ("slow",)], [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]),
        ((), None),  # it ends by itself; with "slow" it waits for its server
    ],
)
def test_no_process_stays_however_the_program_ends(
    folder: Path, option: tuple[str, ...], how: signal.Signals | None
) -> None:
    program, processes = started(folder, *option)
    assert all(map(is_running, processes))
    if how is None:
        program.communicate("")
    else:
        program.send_signal(how)
        program.communicate()
    eventually(lambda: not any(map(is_running, processes)))


@pytest.mark.parametrize(
    ("option", "kind", "words"),
    [
        (
            "fail",
            EngineError,
            r"started: ConfigError: Turn off trace replay\.\n(.*\n)+RuntimeError",
        ),
        ("wrong", ConfigError, "does not accept these options: .*unrecognized arguments: --wrong"),
    ],
)
def test_the_reason_why_a_server_does_not_start_is_reported(
    folder: Path, option: str, kind: Any, words: str
) -> None:
    start = time.monotonic()
    with pytest.raises(kind, match=words):
        VLLMProcess(folder, {option: True})
    assert time.monotonic() - start < 60


def test_without_vllm_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_process, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"reviser-lm\[vllm\]"):
        VLLMServer.load(folder)


def test_options_become_words() -> None:
    fixed = ["--logits-processors", PROCESSOR, "--logprobs-mode=raw_logprobs"]
    assert words_of({}) == [
        "--skip-tokenizer-init", "--disable-log-stats", "--disable-uvicorn-access-log",
        "--uvicorn-log-level=warning", "--load-format=safetensors", *fixed,
    ]  # fmt: skip
    assert words_of({}, masks=False)[-1] == "--logprobs-mode=raw_logprobs"
    assert PROCESSOR not in words_of({}, masks=False)
    options = {"skip_tokenizer_init": False, "disable_log_stats": None, "load_format": "auto"}
    options |= {"max_num_seqs": 8, "hf_overrides": {"a": [1]}, "logits_processors": ["own"]}
    options |= {"allowed_media": ["a", 1], "logprobs_mode": "processed_logprobs"}
    assert words_of(options) == [
        "--no-skip-tokenizer-init", "--disable-uvicorn-access-log",
        "--uvicorn-log-level=warning", "--load-format=auto", "--max-num-seqs=8",
        '--hf-overrides={"a": [1]}', "--logits-processors", "own", PROCESSOR,
        "--allowed-media", "a", "1", "--logprobs-mode=raw_logprobs",
    ]  # fmt: skip
