"""Plans that run side by side: their parts share the engine, their results come in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from reviser.engines.base import Request, Step
from reviser.errors import EngineError, ReviserError
from reviser.writing.driver import Driver
from reviser.writing.plan import Part, Plan
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
    start: Callable[[Part], Writing],
    *,
    on_error: OnError = "raise",
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Run plans side by side and yield their results in order.

    Plans are taken as there is room for them. An error among the plans is passed on in its place.
    """
    waiting: deque[_Running] = deque()  # in order, until the result is yielded
    owners: dict[int, tuple[_Running, int]] = {}  # plan and part by the number of the request
    held = [0]  # finished parts whose results are not yielded yet

    def requests() -> Iterator[Request]:
        number = 0
        for plan in plans:
            if isinstance(plan, ReviserError):
                waiting.append(_Running(None, error=plan))
                continue
            running = _Running(plan, [start(part) for part in plan.parts])
            waiting.append(running)
            for n, part in enumerate(plan.parts):
                owners[number] = running, n
                number += 1
                yield part.request

    for step in driver.run(requests(), held=lambda: held[0]):
        if step.request not in owners:  # its part has failed
            continue
        running, n = owners[step.request]
        if running.take(n, step):
            del owners[step.request]
            held[0] += 1
            if progress is not None:
                progress(running.finished, len(running.writings))
        while waiting and waiting[0].is_done:
            done = waiting.popleft()
            held[0] -= len(done.writings)
            yield done.result(on_error)
    for done in waiting:
        yield done.result(on_error)


@dataclass
class _Running:
    """A plan whose parts run, or an error in place of a plan."""

    plan: Plan | None
    writings: list[Writing] = field(default_factory=list)
    error: ReviserError | None = None
    finished: int = 0
    rollouts: dict[int, Rollout] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.finished == len(self.writings)

    def take(self, n: int, step: Step) -> bool:
        """Apply a step to the n-th part; return whether the part has ended."""
        try:
            self.writings[n].take(step)
            if step.ended is None:
                return False
            self.rollouts[n] = self.writings[n].rollout()
        except EngineError as error:
            self.error = self.error or error
        self.finished += 1
        return True

    def result(self, on_error: OnError) -> Result | ReviserError:
        """Return the result, or raise or return the error."""
        if self.error is not None:
            if on_error == "raise":
                raise self.error
            return self.error
        assert self.plan is not None
        return self.plan.result([self.rollouts[n] for n in range(len(self.writings))])
