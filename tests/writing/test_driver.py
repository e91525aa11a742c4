"""Many who share an engine: each gets its own steps, all of them, in order, and nothing else."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.core.actions import ActionVocab
from reviser.engines.base import DecodeConfig, Reading, Request, ScriptedEngine, Step
from reviser.errors import ConfigError, EngineError
from reviser.writing.driver import Driver
from support import noting
from support.random_engine import RandomEngine

VOCAB = ActionVocab.build(20, max_move=8)


def request(seed: int, most: int = 20) -> Request:
    return Request.continuation(VOCAB, [1, 2], DecodeConfig(seed=seed, max_actions=most))


def alone(asked: Request) -> list[int]:
    return [step.action for step in Driver(RandomEngine(VOCAB)).run([asked])]


def plain(seed: int) -> Request:
    """A text of three tokens, which is another for another seed, all of it free."""
    asked = Request.continuation(
        VOCAB, [seed % 20, seed // 20, 3], DecodeConfig(seed=seed, max_actions=20)
    )
    return replace(asked, gaps=((0, 3),))


def narrowed(seed: int, reading: Reading) -> Request | None:
    """As much of it as is likely to need an edit, from the end."""
    free = sum(probability > 0 for probability in reading.edit_probabilities()[:3])
    return replace(plain(seed), gaps=((3 - free, 3),)) if free else None


def read_first(seed: int) -> Request:
    return replace(plain(seed), then=partial(narrowed, seed))


def read_of(asked: Request) -> Reading:
    return noting.reading(noting.edit_probabilities(asked.history), asked.history)


def reviewed(asked: Request, most: int = 3) -> Request:
    """The same, and after it some texts are read."""

    def review(reading: Reading) -> list[Request]:
        assert reading == read_of(asked)
        return [plain(300 + n) for n in range(most)]

    return replace(asked, review=review)


def read_by_hand(seed: int) -> list[int]:
    """What comes of it, asked for one by one."""
    rest = narrowed(seed, read_of(plain(seed)))
    return alone(rest) if rest else [VOCAB.stop]


EDITED = next(seed for seed in range(400) if len(read_by_hand(seed)) > 4)


def finish(driver: Driver, number: int) -> list[Step]:
    steps: list[Step] = []
    while not steps or steps[-1].ended is None:
        steps += driver.take([number])
    return steps


async def in_task(driver: Driver, seed: int) -> list[int]:
    number = driver.add(request(seed))
    steps: list[Step] = []
    while not steps or steps[-1].ended is None:
        steps += await driver.atake([number])
    return [step.action for step in steps]


@given(st.lists(st.integers(1, 30), max_size=12), st.integers(1, 5), st.integers(1, 6))
def test_a_run_gives_every_request_what_it_gets_alone(
    most: list[int], rows: int, ahead: int
) -> None:
    requests = [request(seed, m) for seed, m in enumerate(most)]
    found: list[list[int]] = [[] for _ in requests]
    engine = RandomEngine(VOCAB, rows=rows)
    for step in Driver(engine).run(requests, ahead=ahead):
        found[step.request].append(step.action)
    assert found == [alone(asked) for asked in requests]
    assert not engine.running


@given(st.integers(0, 2**32))
def test_interleaved_callers_get_their_own(seed: int) -> None:
    rng, driver = Random(seed), Driver(RandomEngine(VOCAB, rows=2))
    requests = [request(n) for n in range(5)]
    numbers = [driver.add(asked) for asked in requests]
    found: dict[int, list[Step]] = {number: [] for number in numbers}
    waiting = set(numbers)
    while waiting:
        some = rng.sample(sorted(waiting), rng.randint(1, len(waiting)))
        for step in driver.take(some):
            assert step.request in some
            found[step.request].append(step)
            waiting -= {step.request} if step.ended else set()
    for number, asked in zip(numbers, requests, strict=True):
        assert [step.action for step in found[number]] == alone(asked)


def test_tasks_share_an_engine_in_one_event_loop_after_another() -> None:
    driver = Driver(RandomEngine(VOCAB, rows=2))

    async def all_of_them() -> list[list[int]]:
        return await asyncio.gather(*(in_task(driver, seed) for seed in range(40)))

    for _ in range(2):
        assert asyncio.run(all_of_them()) == [alone(request(seed)) for seed in range(40)]


def test_a_task_that_is_cancelled_leaves_the_others_whole() -> None:
    driver = Driver(RandomEngine(VOCAB, rows=2))

    async def some_of_them() -> list[object]:
        tasks = [asyncio.create_task(in_task(driver, seed)) for seed in range(12)]
        await asyncio.sleep(0.002)
        for task in tasks[::3]:
            task.cancel()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    found = asyncio.run(some_of_them())
    for seed in range(12):
        if seed % 3:
            assert found[seed] == alone(request(seed))


def test_the_event_loop_is_not_blocked() -> None:
    class Slow(RandomEngine):
        def step(self) -> list[Step]:
            time.sleep(0.02)
            return super().step()

    driver, ticks = Driver(Slow(VOCAB)), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    async def work() -> None:
        ticking = asyncio.create_task(tick())
        number = driver.add(request(0))
        for _ in range(10):
            await driver.atake([number])
        ticking.cancel()

    asyncio.run(work())
    assert ticks > 20


def test_who_stops_listening_frees_the_engine() -> None:
    engine = RandomEngine(VOCAB)
    steps = Driver(engine).run(request(seed) for seed in range(10**9))
    next(steps)
    steps.close()
    assert not engine.running
    driver = Driver(engine)
    number = driver.add(request(0))
    driver.take([number])
    driver.drop(number)
    driver.drop(number)
    assert engine.cancelled[-1] == number


def test_the_garbage_collector_may_drop_in_the_middle_of_a_step() -> None:
    class Dropping(RandomEngine):
        def step(self) -> list[Step]:
            driver.drop(other)
            return super().step()

    engine = Dropping(VOCAB)
    driver = Driver(engine)
    number, other = driver.add(request(0)), driver.add(request(1))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(driver.take, [number]).result(timeout=10)
    assert engine.cancelled == [other]


def test_a_request_that_another_drops_is_not_waited_for() -> None:
    driver = Driver(RandomEngine(VOCAB))
    number = driver.add(request(0))
    driver.drop(number)
    assert driver.take([number]) == []
    assert asyncio.run(driver.atake([number])) == []


def test_a_thread_and_a_task_share_an_engine() -> None:
    driver = Driver(RandomEngine(VOCAB, rows=2))

    async def tasks() -> list[list[int]]:
        return await asyncio.gather(*(in_task(driver, seed) for seed in range(20)))

    with ThreadPoolExecutor(4) as pool:
        threads = [
            pool.submit(lambda s: finish(driver, driver.add(request(s))), s) for s in range(20)
        ]
        assert asyncio.run(tasks()) == [alone(request(seed)) for seed in range(20)]
        for seed, thread in enumerate(threads):
            assert [step.action for step in thread.result()] == alone(request(seed))


@given(
    st.lists(st.integers(0, 399), max_size=9), st.integers(1, 5), st.integers(1, 6),
    st.integers(0, 3),
)  # fmt: skip
def test_what_is_read_first_runs_in_two_stages_and_the_last_step_brings_the_review(
    seeds: list[int], rows: int, ahead: int, most: int
) -> None:
    requests = [read_first(seed) if seed % 3 else request(seed) for seed in seeds]
    engine = RandomEngine(VOCAB, rows=rows)
    driver = Driver(engine)
    found: list[list[Step]] = [[] for _ in requests]
    for step in driver.run([reviewed(asked, most) for asked in requests], ahead=ahead):
        found[step.request].append(step)
    for seed, asked, steps in zip(seeds, requests, found, strict=True):
        actions = [step.action for step in steps]
        assert actions == (read_by_hand(seed) if asked.then else alone(asked))
        read = read_of(asked) if asked.then else None
        assert steps[0].reading == read
        assert steps[0].narrowed == (narrowed(seed, read) if read else None)
        assert all(step.reading is step.narrowed is None for step in steps[1:])
        assert not any(step.readings for step in steps[:-1])
        texts = [plain(300 + n) for n in range(most)] if asked.then else []
        assert steps[-1].readings == tuple(map(read_of, texts))
        assert steps[-1].ended is not None
    assert not engine.running
    assert not driver._numbers


def test_a_review_can_be_dropped_at_any_time() -> None:
    for steps in range(len(read_by_hand(EDITED)) + 3):  # the last turns are in the review
        engine = RandomEngine(VOCAB, rows=1)
        driver = Driver(engine)
        number = driver.add(reviewed(read_first(EDITED)))
        for _ in range(steps):
            assert not any(step.is_last for step in driver.turn([number]))
        driver.drop(number)
        assert not engine.running
        assert not driver._numbers
        assert driver.take([number]) == []


@pytest.mark.parametrize("fault", ["review", "add", "step"])
def test_a_review_that_fails_fails_its_request_alone(fault: str) -> None:
    class Faulty(RandomEngine):
        def add(self, request: Request) -> int:
            if fault == "add" and request.history in texts:
                raise ConfigError("no room")
            return super().add(request)

        def step(self) -> list[Step]:
            is_read = {n for n, walk in self.running.items() if walk.request.history in texts}
            return [
                replace(step, error=EngineError("lost"))
                if fault == "step" and step.request in is_read
                else step
                for step in super().step()
            ]

    def raising(_: Reading) -> list[Request]:
        raise ValueError("no such text")

    texts = {plain(300 + n).history for n in range(3)}
    asked = reviewed(read_first(EDITED))
    driver = Driver(Faulty(VOCAB))
    number = driver.add(replace(asked, review=raising) if fault == "review" else asked)
    other = driver.add(request(2))
    steps: list[Step] = []
    while not steps or not steps[-1].is_last:
        steps += driver.take([number])
    assert [step.action for step in steps[:-1]] == read_by_hand(EDITED)[:-1]
    said = {"review": "no such text", "add": "no room", "step": "lost"}[fault]
    assert said in str(steps[-1].error)
    assert [step.action for step in finish(driver, other)] == alone(request(2))
    driver.drop(number)
    assert not driver.engine.running  # type: ignore[attr-defined]


def test_what_is_read_can_be_dropped_just_before_it_runs() -> None:
    class Dropping(RandomEngine):
        def add(self, request: Request) -> int:
            if self.added == 2:  # the garbage collector comes just before what was read runs
                driver.drop(1)
            return super().add(request)

    engine = Dropping(VOCAB)
    driver = Driver(engine)
    assert driver.add(read_first(EDITED)) == 1
    other = driver.add(request(1))
    assert driver.take([other])
    assert engine.cancelled == [3]  # what would have run in its place
    assert [*engine.running] == [other]


def test_an_engine_that_gives_no_edit_probabilities_fails() -> None:
    driver = Driver(ScriptedEngine(VOCAB, [VOCAB.stop]))
    number = driver.add(read_first(1))
    (step,) = driver.take([number])
    assert "gives no log-probabilities" in str(step.error)

    class Refusing(RandomEngine):
        def step(self) -> list[Step]:
            return [replace(step, error=EngineError("refused")) for step in super().step()]

    driver = Driver(Refusing(VOCAB))
    (step,) = driver.take([driver.add(read_first(1))])
    assert str(step.error) == "refused"


@pytest.mark.parametrize("fault", ["add", "probabilities"])
def test_what_fails_once_it_was_read_fails_alone(fault: str) -> None:
    class Faulty(RandomEngine):
        def add(self, request: Request) -> int:
            if fault == "add" and self.added == 2:
                raise ConfigError("too many gaps")
            return super().add(request)

        def edit_probabilities(self, history: tuple[int, ...]) -> tuple[float, ...]:
            return super().edit_probabilities(history)[fault == "probabilities" :]

    seed = next(seed for seed in range(100) if len(read_by_hand(seed)) > 9)
    driver = Driver(Faulty(VOCAB))
    number, other = driver.add(read_first(seed)), driver.add(request(1))
    steps = driver.take([number])
    assert isinstance(steps[-1].error, EngineError)
    said = "too many gaps" if fault == "add" else "gave 3 log-probabilities for 5 ids"
    assert said in str(steps[-1].error)
    driver.drop(number)
    assert [step.action for step in finish(driver, other)] == alone(request(1))


def test_a_turn_is_one_step_of_the_engine() -> None:
    engine = RandomEngine(VOCAB)
    driver = Driver(engine)
    seed = next(seed for seed in range(100) if len(read_by_hand(seed)) > 9)
    number = driver.add(read_first(seed))
    assert driver.turn([number]) == []  # it was read, and runs now
    assert engine.added == 2
    assert len(driver.turn([number])) == 1
    driver.drop(number)
    assert driver.turn([number]) == []


def test_an_engine_with_nothing_left_does_not_hang_its_caller() -> None:
    driver = Driver(ScriptedEngine(VOCAB, [3, VOCAB.stop]))
    number = driver.add(request(0))
    assert [step.ended for step in finish(driver, number)] == [None, "stop"]
    with pytest.raises(EngineError, match="nothing left to run"):
        driver.take([number])
