"""The tasks that a model writes, as flows: continue, infill, and revise by a model that edits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from reviser.engines.base import Score, Step, StopReason
from reviser.engines.settings import DecodeConfig
from reviser.writing.driver import Cancelled, Flow, scores
from reviser.writing.parts import Parts
from reviser.writing.prompts import Model, prompts_of
from reviser.writing.revise import merged, narrow, window_changes
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Continue, Infill, Revise
from reviser.writing.text import Writing

T = TypeVar("T")
Progress: TypeAlias = Callable[[int, int], object]
"""A function that is called with the number of finished windows of a draft, and of all of them."""


def no_progress(_done: int, _all: int) -> None:
    """Report nothing."""


WINDOWS = 64
"""Windows of a draft that are written side by side; the next ones wait for all of them."""


def write(
    task: Continue | Infill, model: Model, config: DecodeConfig | None = None, **limits: Any
) -> Flow[Rollout]:
    """Continue a prompt, or fill the gaps of a text."""
    (prompt,) = prompts_of(task, model, config, **limits)
    writing = Writing(prompt, model)
    yield from act([writing], model)
    return writing.rollout()


def revise(
    task: Revise,
    model: Model,
    config: DecodeConfig | None = None,
    progress: Progress = no_progress,
    **limits: Any,
) -> Flow[Revision]:
    """Have a model edit a draft, window by window."""
    threshold = model.editing.minimum(task.min_edit_probability, task.precision)
    prompts = prompts_of(task, model, config, **limits)
    writings: list[Writing] = []

    def report() -> None:
        progress(sum(writing.stop_reason is not None for writing in writings), len(prompts))

    for group in batches(prompts, WINDOWS):
        started = [Writing(prompt, model) for prompt in group]
        writings += started
        if (yield from edit(started, threshold, model, report)) is not None:
            break
    rollouts = [writing.rollout() for writing in writings]
    made = [
        (prompt.offset, window_changes(prompt, rollout, model))
        for prompt, rollout in zip(prompts, rollouts, strict=False)
    ]
    reasons = (rollout.stop_reason for rollout in rollouts)
    return Revision(
        changes=merged(task.draft, made),
        rollouts=tuple(rollouts),
        stop_reason=next((reason for reason in reasons if reason != "stop"), "stop"),
    )


def edit(
    writings: Sequence[Writing],
    threshold: float,
    model: Model,
    on_end: Callable[[], object] = lambda: None,
) -> Flow[StopReason | None]:
    """Have a model edit windows; with a threshold, only where it finds an edit likely.

    `on_end` is called after each window. Return the reason if this was cancelled; the windows are
    valid nevertheless.
    """
    if threshold:
        reason = yield from _narrow(writings, threshold, model)
        if reason is not None:
            return reason
    left = [writing for writing in writings if writing.stop_reason is None]
    if len(left) < len(writings):
        on_end()
    return (yield from act(left, model, on_end))


def _narrow(writings: Sequence[Writing], threshold: float, model: Model) -> Flow[StopReason | None]:
    """Read windows, and say where they may be changed; end those that need no edit."""
    read = [writing for writing in writings if writing.prompt.request.editable]
    questions = [Score(writing.prompt.request.history) for writing in read]
    try:
        readings = yield from scores(questions)
    except Cancelled as end:
        for writing in writings:
            writing.stop_reason = end.reason
        return end.reason
    for writing, reading in zip(read, readings, strict=True):
        editable = narrow(writing.prompt, reading, threshold, model)
        writing.restrict(editable)
        if not editable:
            writing.take(Step(model.vocab.stop, reading.stop[-1], "stop"))
    return None


def act(
    writings: Sequence[Writing], model: Model, on_end: Callable[[], object] = lambda: None
) -> Flow[StopReason | None]:
    """Have the model write until all texts have ended; return the reason if this was cancelled."""
    left = [Parts(writing, model, on_end) for writing in writings]
    try:
        while left:
            yield [parts.question() for parts in left]
            left = [parts for parts in left if parts.has_next()]
    except Cancelled as end:
        for writing in writings:
            writing.stop_reason = writing.stop_reason or end.reason
        return end.reason
    return None


def batches(values: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield values in lists of a size, the last one shorter."""
    source = iter(values)
    while batch := list(islice(source, size)):
        yield batch
