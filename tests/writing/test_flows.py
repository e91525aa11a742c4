"""Many who share an engine: each flow gets the answers to its own questions, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import SimpleQueue
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab
from reviser.engines.base import Act, Answer, Branch, DecodeConfig, Question, Request, Score, Step
from reviser.errors import ConfigError, EngineError
from reviser.writing.driver import (
    Cancelled,
    Driver,
    Flow,
    Inline,
    Reply,
    Run,
    run_many,
    scores,
)  # fmt: skip
from support import noting
from support.random_engine import RandomEngine

VOCAB = ActionVocab.build(20, max_move=8)


def request(seed: int, most: int = 20) -> Request:
    return Request.continuation(VOCAB, [1, 2], DecodeConfig(seed=seed, max_actions=most))


reasons: list[str] = []


def writing(seed: int, most: int = 20) -> Flow[list[int]]:
    """Write twice, then score what was written: the second questions follow from the answers."""
    ids: list[int] = []

    def take(step: Step) -> int:
        ids.append(step.action)
        return step.action

    try:
        yield [Act(request(seed, most), take)]
        first = tuple(ids)
        [one, two] = yield from scores([Score((1, *first)), Score((2,), 1, (Branch(1, first),))])
        assert one == noting.scores(Score((1, *first)))
        assert two == noting.scores(Score((2,), 1, (Branch(1, first),)))
        yield [Act(request(seed + 1, 3), take), Act(request(seed + 2, 3))]
    except Cancelled as end:
        reasons.append(end.reason)
    return ids


@settings(max_examples=20)
@given(st.lists(st.integers(1, 12), max_size=6), st.integers(1, 5))
def test_one_thread_gives_the_same_steps_each_time(most: list[int], ahead: int) -> None:
    class Logging(RandomEngine):
        def step(self, wait: float = 0.0) -> list[Answer]:
            log.append([*self.running])
            return super().step(wait)

    logs, log = [], list[list[int]]()
    for _ in range(2):
        flows = (writing(10 * n, m) for n, m in enumerate(most))
        runs = list(run_many(flows, Inline(Logging(VOCAB)), ahead=ahead))
        assert [run.result for run in runs] == [alone(10 * n, m) for n, m in enumerate(most)]
        logs.append(log[:])
        log.clear()
    assert logs[0] == logs[1]


@cache
def alone(seed: int, most: int = 20) -> list[int]:
    return Run(writing(seed, most), Driver(RandomEngine(VOCAB))).wait()


def until(holds: Callable[[], bool]) -> None:
    """Wait for what another thread does soon."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 30), max_size=12), st.integers(1, 5), st.integers(1, 6))
def test_many_flows_give_what_each_gives_alone(most: list[int], rows: int, ahead: int) -> None:
    engine = RandomEngine(VOCAB, rows=rows)
    driver = Driver(engine)
    flows = (writing(10 * n, m) for n, m in enumerate(most))
    found = [run.result for run in run_many(flows, driver, ahead=ahead)]
    assert found == [alone(10 * n, m) for n, m in enumerate(most)]
    driver.close()
    assert not engine.running


def test_threads_and_tasks_share_an_engine() -> None:
    driver = Driver(RandomEngine(VOCAB, rows=2))

    async def tasks() -> list[list[int]]:
        runs = (asyncio.to_thread(Run(writing(n), driver).wait) for n in range(8))
        return await asyncio.gather(*runs)

    with ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(Run(writing(n), driver).wait) for n in range(16)]
        assert asyncio.run(tasks()) == [alone(n) for n in range(8)]
        assert [thread.result() for thread in threads] == [alone(n) for n in range(16)]


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_a_run_that_is_cancelled_takes_nothing_more(taken: int) -> None:
    engine = RandomEngine(VOCAB)
    driver = Driver(engine)
    run = Run(writing(3), driver)
    events = [next(run) for _ in range(taken)]
    threading.Thread(target=run.cancel, args=("time",)).start()
    until(lambda: run._cancelled is not None)
    assert run.wait() == events == alone(3)[:taken]
    assert reasons[-1] == "time"
    other = Run(writing(1), driver)
    assert other.wait() == alone(1)
    assert not engine.running


@pytest.mark.parametrize("make", [Driver, Inline])
def test_after_ctrl_c_a_run_has_what_was_taken(make: type[Driver]) -> None:
    class Interrupted(RandomEngine):
        def step(self, wait: float = 0.0) -> list[Answer]:
            if make is Inline and self.added == 1 and self.walks and self.walks[1].actions == 5:
                raise KeyboardInterrupt
            return super().step(wait)

    engine = Interrupted(VOCAB)
    driver = make(engine)
    run = Run(writing(3), driver)
    taken = []
    try:
        for action in run:
            taken.append(action)
            if make is Driver and len(taken) == 5:
                run.close()  # as Ctrl-C does it, which may come anywhere
                break
    except KeyboardInterrupt:
        assert make is Inline
    reasons.clear()
    assert run.wait() == taken == alone(3)[: len(taken)]
    assert len(taken) == 5
    assert Run(writing(1), driver).wait() == alone(1)
    assert not engine.running


def test_a_flow_that_does_not_write_ends_with_the_reason() -> None:
    run = Run(scores([Score((1, 2))]), Driver(RandomEngine(VOCAB)))
    run.cancel("cancelled")
    with pytest.raises(Cancelled, match="cancelled"):
        run.wait()


def test_what_nobody_refers_to_any_more_frees_the_engine() -> None:
    engine = RandomEngine(VOCAB, rows=1)
    driver = Driver(engine)
    run = Run(writing(0, 10**6), driver)
    next(run)
    del run
    gc.collect()
    assert Run(writing(1), driver).wait() == alone(1)
    runs = run_many((writing(n, 10**6) for n in range(10**9)), driver, ahead=5)
    thread = threading.Thread(target=lambda: next(runs, None), daemon=True)
    thread.start()
    until(lambda: len(engine.running) == 5)


class Faulty(RandomEngine):
    """Fails in one of several ways for everybody, or for texts that begin with 9."""

    fault = ""

    def add(self, question: Question) -> int:
        history = question.history if isinstance(question, Score) else question.request.history
        if self.fault == "refuse" and history[0] == 9:
            raise ConfigError("no nines")
        if self.fault == "bug" and history[0] == 9:
            raise ZeroDivisionError("a bug")
        return super().add(question)

    def step(self, wait: float = 0.0) -> list[Answer]:
        if self.fault == "step":
            self.fault = ""
            raise EngineError("out of memory")
        return [Answer(number, self._lost(value) or value) for number, value in super().step(wait)]

    def _lost(self, value: Any) -> EngineError | None:
        is_nine = value == noting.scores(Score((9, 1)))
        return EngineError("lost") if self.fault == "answer" and is_nine else None


@pytest.mark.parametrize(
    ("fault", "sentence", "spared"),
    [
        ("refuse", "no nines", True),
        ("bug", "ZeroDivisionError: a bug", True),
        ("answer", "lost", True),
        ("step", "out of memory", False),
    ],
)
def test_a_fault_fails_those_whom_it_concerns(fault: str, sentence: str, spared: bool) -> None:
    engine = Faulty(VOCAB)
    driver = Driver(engine)
    engine.fault = fault
    nine, other = run_many([scores([Score((1, 5)), Score((9, 1))]), writing(2)], driver)
    assert sentence in str(nine.error)
    assert (other.error is None) == spared
    engine.fault = ""
    assert Run(writing(3), driver).wait() == alone(3)
    assert not engine.running


def test_a_text_that_refuses_a_step_fails_its_flow_alone() -> None:
    def take(_: Step) -> None:
        raise EngineError("locked")

    def refusing() -> Flow[None]:
        yield [Act(request(0), take), Act(request(1))]

    engine = RandomEngine(VOCAB)
    one, other = run_many([refusing(), writing(5)], driver := Driver(engine))
    assert str(one.error) == "locked"
    assert other.result == alone(5)
    driver.close()
    assert not engine.running


def test_what_a_flow_asks_after_an_error_is_not_answered_by_what_came_before() -> None:
    """Answers to questions that were withdrawn may still be on their way."""

    def stubborn(rng: Random) -> Flow[list[Any]]:
        found = []
        for n in range(20):
            history = (n, rng.randrange(20))
            try:
                found += yield [Score(history), Score((9, 1)), Act(request(n))]
            except EngineError:
                found += yield from scores([Score((n, 3, 4))])
        return found

    engine = Faulty(VOCAB, rows=1)
    engine.fault = "answer"
    found = Run(stubborn(Random(1)), Driver(engine)).wait()
    assert found == [noting.scores(Score((n, 3, 4))) for n in range(20)]


def test_a_late_answer_is_ignored_and_others_are_sorted() -> None:
    asked: list[tuple[Score, Reply]] = []
    withdrawn: list[int] = []

    class Late(Driver):
        def post(self, question: Question, reply: Reply) -> int:
            assert isinstance(question, Score)
            asked.append((question, reply))
            if len(asked) == 2:  # the second answer comes although it is withdrawn
                asked[0][1](Answer(0, EngineError("lost")))
                asked[1][1](Answer(1, noting.scores(asked[1][0])))
            if len(asked) == 4:  # the last question is answered first
                for each, answer in reversed(asked[2:]):
                    answer(Answer(2, noting.scores(each)))
            return len(asked)

        def cancel(self, ticket: int) -> None:
            withdrawn.append(ticket)

    def flow() -> Flow[list[Any]]:
        try:
            yield [Score((1, 2)), Score((1, 3))]
        except EngineError:
            return (yield from scores([Score((1, 4)), Score((1, 5))]))
        return []

    found = Run(flow(), Late(RandomEngine(VOCAB))).wait()
    assert found == [noting.scores(Score((1, 4))), noting.scores(Score((1, 5)))]
    assert withdrawn == [2]


def test_planning_holds_up_nobody() -> None:
    begun = threading.Event()

    def planning() -> Flow[None]:
        begun.set()
        time.sleep(5)
        yield from scores([Score((1, 2))])

    driver = Driver(RandomEngine(VOCAB))
    threading.Thread(target=Run(planning(), driver).wait, daemon=True).start()
    begun.wait()
    start = time.monotonic()
    assert Run(writing(1), driver).wait() == alone(1)
    assert time.monotonic() - start < 4


def test_a_question_is_answered_while_the_engine_waits_for_another() -> None:
    """An engine whose work is done elsewhere returns at least every `wait` seconds."""

    class Remote(RandomEngine):
        def step(self, wait: float = 0.0) -> list[Answer]:
            hanging = [n for n, each in self.running.items() if isinstance(each, Score)]
            if len(hanging) == len(self.running):
                time.sleep(wait)
                return []
            held = {n: self.running.pop(n) for n in hanging}
            answers = super().step(wait)
            self.running |= held
            return answers

    driver = Driver(Remote(VOCAB))
    hanging = Run(scores([Score((1, 2))]), driver)
    hanging.begin()
    other: Flow[None] = iter_act(request(1))
    Run(other, driver).wait()
    hanging.cancel()


def iter_act(asked: Request) -> Any:
    yield [Act(asked)]


def test_a_driver_that_was_closed_answers_with_an_error() -> None:
    driver = Driver(RandomEngine(VOCAB))
    run = Run(writing(0, 10**6), driver)
    next(run)
    driver.close()
    for each in (run, Run(writing(1), driver)):
        with pytest.raises(EngineError, match="closed"):
            each.wait()
    driver.close()


def test_a_driver_that_is_not_referred_to_ends_its_thread() -> None:
    driver = Driver(RandomEngine(VOCAB))
    Run(writing(1), driver).wait()
    thread = driver._thread
    assert thread is not None
    del driver
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_replies_come_from_the_thread_of_the_driver() -> None:
    names: SimpleQueue[str] = SimpleQueue()
    driver = Driver(RandomEngine(VOCAB))
    driver.post(Score((1, 2)), lambda _: names.put(threading.current_thread().name))
    assert names.get(timeout=5) == "engine"
