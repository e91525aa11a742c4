"""An engine in a process of its own: the same steps, and no fault of it makes a caller wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from reviser.core.actions import ActionVocab
from reviser.engines.base import Act, Answer, Branch, DecodeConfig, Question, Request, Score, Step
from reviser.engines.process import ProcessEngine
from reviser.errors import ConfigError, EngineError
from support import noting
from support.scripted import ScriptedEngine

VOCAB = ActionVocab.build(20)
SCRIPT = [3, 4, 5, VOCAB.stop]


class Scripted(ScriptedEngine):
    """A scripted engine; some tokens make it fail."""

    def __init__(self, script: list[int]) -> None:
        super().__init__(VOCAB, script)
        self._fails = False

    def add(self, question: Question) -> int:
        """Refuse a text that begins with 7; fail all after one that begins with 8 or 9."""
        asked = question.request if isinstance(question, Act) else question
        first = asked.history[1:2]
        if first == (7,):
            raise ConfigError("Not this one.")
        if first == (9,):
            os.kill(os.getpid(), signal.SIGKILL)
        self._fails |= first == (8,)
        return super().add(question)

    def step(self, wait: float = 0.0) -> list[Answer]:
        """Return the next answers, or fail once."""
        if self._fails:
            self._fails = False
            raise RuntimeError("Out of memory.")
        return super().step(wait)


def open_refused() -> Any:
    raise ConfigError("There is no such model.")


@pytest.fixture(scope="module")
def engine() -> Any:
    opened = ProcessEngine(Scripted, SCRIPT)
    yield opened
    opened.close()


def request(first: int = 2, tokens: int = 1) -> Act:
    asked = Request.continuation(VOCAB, [first] * tokens, DecodeConfig())
    return Act(asked, take=lambda _: None)  # which is not sent: no lambda can be


def drain(engine: ProcessEngine) -> dict[int, list[Any]]:
    """Return all answers to what runs, by number."""
    found: dict[int, list[Any]] = {}
    while engine._running:
        for number, value in engine.step(1.0):
            found.setdefault(number, []).append(value)
    return found


def test_every_question_gets_the_answers_of_the_engine_in_order(engine: ProcessEngine) -> None:
    assert (engine.vocab, engine.versions) == (VOCAB, Scripted.versions)
    asked = Score((1, 2, 3), 1, (Branch(2, (4, 5)),))
    numbers = [engine.add(request() if n % 5 else asked) for n in range(50)]
    found = drain(engine)
    assert sorted(found) == numbers
    for n, values in enumerate(found.values()):
        if n % 5 == 0:
            assert values == [noting.scores(asked)]
        else:
            ends = [None, None, None, "stop"]
            assert values == [Step(*each) for each in zip(SCRIPT, [0.0] * 4, ends, strict=True)]
    assert engine.step(0.0) == []


def test_neither_side_waits_for_the_other_with_its_pipe_full(engine: ProcessEngine) -> None:
    numbers = [engine.add(request(tokens=5000)) for _ in range(500)]  # megabytes, both ways
    assert sorted(drain(engine)) == numbers


def test_a_request_that_is_refused_in_the_process_fails_alone(engine: ProcessEngine) -> None:
    bad, good = engine.add(request(7)), engine.add(request())
    found = drain(engine)
    assert str(found[bad]) == "[ConfigError('Not this one.')]"
    assert len(found[good]) == len(SCRIPT)


def test_an_engine_that_fails_loses_what_ran_and_goes_on(engine: ProcessEngine) -> None:
    engine.add(request())  # the engine keeps this one, but its caller was told that it is lost
    engine.add(request(8))
    with pytest.raises(EngineError, match=r"RuntimeError: Out of memory\."):
        drain(engine)
    number = engine.add(request())
    assert [value.action for value in drain(engine)[number]] == SCRIPT


def test_a_process_that_is_killed_is_an_error_and_never_a_wait() -> None:
    engine = ProcessEngine(Scripted, SCRIPT)
    number = engine.add(request(9))
    with pytest.raises(EngineError, match="exit code -9"):
        drain(engine)
    with pytest.raises(EngineError, match="exit code -9"):
        engine.add(request())
    engine.cancel(number)  # a process that has ended runs nothing


def test_the_reason_why_an_engine_does_not_open_reaches_the_caller() -> None:
    with pytest.raises(ConfigError, match="no such model"):
        ProcessEngine(open_refused)
    with pytest.raises(EngineError, match="TypeError"):
        ProcessEngine(Scripted)


@pytest.mark.parametrize("end", ["time.sleep(60)", "sys.exit(3)"])
def test_it_ends_with_its_caller_however_that_ends(tmp_path: Path, end: str) -> None:
    script = tmp_path / "caller.py"
    script.write_text(f"""
import sys, time
from reviser.engines.process import ProcessEngine
from engines.test_process import SCRIPT, Scripted
if __name__ == "__main__":
    engine = ProcessEngine(Scripted, SCRIPT)
    print(engine._process.pid, flush=True)
    {end}
""")
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    caller = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert caller.stdout is not None
    child = psutil.Process(int(caller.stdout.readline()))
    if "sleep" in end:
        caller.kill()
    assert caller.wait(30) == (-9 if "sleep" in end else 3)
    caller.stdout.close()
    until = time.monotonic() + 30
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_signals_of_the_terminal_do_not_end_it_but_close_does(engine: ProcessEngine) -> None:
    child = psutil.Process(engine._process.pid)
    for number in (signal.SIGINT, signal.SIGTERM):
        child.send_signal(number)
    engine.add(request())
    assert drain(engine)
    engine.close()
    assert not child.is_running()
