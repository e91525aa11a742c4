"""Plans that run side by side: their parts share the engine, their results come in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from reviser.engines.base import Request
from reviser.errors import EngineError, ReviserError
from reviser.writing.driver import Driver
from reviser.writing.plan import Plan
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.session import Writing

OnError: TypeAlias = Literal["raise", "return"]
"""The fate of a task that fails among many: its error ends all of them, or takes its place."""
Progress: TypeAlias = Callable[[int, int], object]
"""A function that is called with the number of finished parts of a plan, and of all its parts."""
Result: TypeAlias = Rollout | Revision


def run_plans(
    plans: Iterable[Plan | ReviserError],
    driver: Driver,
    provenance: dict[str, Any],
    *,
    on_error: OnError = "raise",
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Run plans side by side and yield their results in order.

    A plan starts as soon as there is capacity. An error among the plans is yielded in its position.
    """
    waiting: deque[_Running] = deque()  # in order, until the result is yielded
    writings: dict[int, tuple[_Running, int, Writing]] = {}  # by the number of the request
    held = [0]  # finished parts whose results are not yielded yet

    def requests() -> Iterator[Request]:
        number = 0
        for plan in plans:
            waiting.append(_Running(plan))
            if isinstance(plan, ReviserError):
                continue
            for n, part in enumerate(plan.parts):
                writings[number] = waiting[-1], n, Writing(part, plan.codec, driver, provenance)
                number += 1
                yield part.request

    def results() -> Iterator[Result | ReviserError]:
        while waiting and len(waiting[0].done) == waiting[0].parts:
            running = waiting.popleft()
            held[0] -= running.parts
            failed = [each for each in running.done.values() if isinstance(each, ReviserError)]
            plan = failed[0] if failed else running.plan
            if not isinstance(plan, ReviserError):
                yield plan.result([running.done[n] for n in range(running.parts)])
            elif on_error == "raise":
                raise plan
            else:
                yield plan

    for step in driver.run(requests(), held=lambda: held[0]):
        if step.request not in writings:  # its part has failed
            continue
        running, n, writing = writings[step.request]
        try:
            writing.take(step)
            if step.ended is None:
                continue
            running.done[n] = writing.rollout()
        except EngineError as error:
            running.done[n] = error
        del writings[step.request]
        held[0] += 1
        if progress is not None:
            progress(len(running.done), running.parts)
        yield from results()
    yield from results()


@dataclass
class _Running:
    """A plan whose parts run, or an error in place of a plan."""

    plan: Plan | ReviserError
    done: dict[int, Any] = field(default_factory=dict)
    """Rollouts by the number of their part, or errors."""

    @property
    def parts(self) -> int:
        return 0 if isinstance(self.plan, ReviserError) else len(self.plan.parts)
