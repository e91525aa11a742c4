"""The systems that the experiment compares: an editor and the baselines.

Each system is a function from drafts to attempts. The editor applies edit actions; one baseline
rewrites every text, another writes search-and-replace blocks, and "left alone" changes nothing.
Texts longer than those in training are split into the same windows for all of them. This module
knows no measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from experiments.revise import blocks
from reviser.engines.settings import DecodeConfig
from reviser.model import Reviser
from reviser.writing.driver import Flow, run_many
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Continue, Revise
from reviser.writing.windows import windows

WINDOW, CONTEXT = 62, 12
"""The longest texts that the models were trained on, in tokens."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The result of revising one draft."""

    text: str
    steps: int
    """Ids that the model chose, in all windows, and one more for each window that it read first
    and then edited."""
    is_whole: bool
    """Whether the model ended by itself in every window."""
    faults: tuple[str, ...] = ()
    """The reasons of edits that could not be applied."""


System = Callable[[Sequence[str]], Iterator[Attempt]]


def leave(drafts: Sequence[str]) -> Iterator[Attempt]:
    """Return every draft unchanged."""
    for draft in drafts:
        yield Attempt(text=draft, steps=0, is_whole=True)


def edit(model: Reviser, *, min_edit_probability: float = 0.0, **settings: Any) -> System:
    """Return a system that revises with an editor."""
    options = {"window": WINDOW, "context": CONTEXT, "min_edit_probability": min_edit_probability}

    def attempts(drafts: Sequence[str]) -> Iterator[Attempt]:
        tasks = (Revise(draft, **options) for draft in drafts)
        for made in model.run_many(tasks, **settings):
            read = 0
            if min_edit_probability:
                # A window that is locked as a whole was read and left alone. Reading was its only
                # step, and is counted already.
                locked = ([part.text for part in rollout.locked] for rollout in made.rollouts)
                read = sum(a != [b.prompt] for a, b in zip(locked, made.rollouts, strict=True))
            yield Attempt(
                text=made.text, steps=made.actions + read, is_whole=made.stop_reason == "stop"
            )

    return attempts


def rewrite(
    model: Reviser, read: Callable[[str, str], blocks.Applied] = lambda _, text: (text, ())
) -> System:
    """Return a system that continues each window; `read` turns window and output into a text."""

    def flows(draft: str) -> Iterator[Flow[Rollout]]:
        for _, start, end, _ in windows(model.codec, draft, WINDOW, 0):
            part = draft[start:end]
            most = 2 * len(model.codec.encode(part)) + 16
            yield model.flow(Continue(part), DecodeConfig(temperature=0.0, max_actions=most))

    def attempts(drafts: Sequence[str]) -> Iterator[Attempt]:
        asked = [list(flows(draft)) for draft in drafts]
        runs = run_many((flow for some in asked for flow in some), model.driver)
        for some in asked:
            rollouts = [run.wait() for run in islice(runs, len(some))]
            made = [read(each.prompt, each.text[len(each.prompt) :]) for each in rollouts]
            ends = {each.stop_reason for each in rollouts}
            yield Attempt(
                text="".join(text for text, _ in made),
                steps=sum(each.statistics.actions for each in rollouts),
                is_whole=ends == {"stop"},
                faults=tuple(fault for _, faults in made for fault in faults),
            )

    return attempts


def replace_blocks(model: Reviser) -> System:
    """Return a system that writes search-and-replace blocks and applies those that fit."""
    return rewrite(model, blocks.apply)


MAKERS = {"editor": edit, "rewriter": rewrite, "blocks": replace_blocks}
"""The systems that need a model, in the order in which the command line takes their folders."""
