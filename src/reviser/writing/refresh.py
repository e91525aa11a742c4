"""See the text again: a flow in which a model's past actions give way to the text they made.

A history grows with every action. Here it is replaced, after some actions or when the context is
full, by the prompt, the text as it is, the cursor and the last few actions. So a task does not end
for want of context, on any engine: each part is a request of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from reviser.engines.base import Act
from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError
from reviser.writing.driver import Cancelled, Flow
from reviser.writing.prompts import Model, prompts_of
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import Continue, Infill
from reviser.writing.text import Writing

__all__ = ["Refresh", "Refreshed", "write_refreshed"]

_LEAST = 8
"""Ids that must be free in the context after the text is shown again."""


@dataclass(frozen=True, kw_only=True)
class Refresh:
    """When a model is shown the text again, and what it keeps of its past actions."""

    after: int | None = None
    """Ids of actions after which the text is shown again. None: only when the context is full."""
    context: int | None = None
    """Ids at which the context counts as full, if that is less than the model's own."""
    keep: int = 16
    """Ids of the last actions that stay in the history, at most."""

    def __post_init__(self) -> None:
        if self.after is not None and self.after < 1:
            raise ConfigError(f"after is {self.after}; it must be 1 or more, or None.")
        if self.keep < 0:
            raise ConfigError(f"keep is {self.keep}; it must be 0 or more.")
        if self.context is not None and self.context < 1:
            raise ConfigError(f"context is {self.context}; it must be 1 or more, or None.")


@dataclass(frozen=True, kw_only=True)
class Refreshed:
    """A rollout, and what it cost to write it in parts."""

    rollout: Rollout
    """All actions, as if they had been one request."""
    times: int
    """Number of times that the text was shown again."""
    ids_read: int
    """Ids that the model read: the history of each part, and every action."""


def write_refreshed(
    task: Continue | Infill,
    model: Model,
    config: DecodeConfig | None = None,
    refresh: Refresh | None = None,
) -> Flow[Refreshed]:
    """Continue a prompt or fill gaps, and show the model the text again as `refresh` says."""
    refresh = refresh or Refresh()
    (prompt,) = prompts_of(task, model, config)
    writing, times, read = Writing(prompt, model), 0, 0
    room = min(model.context, refresh.context or model.context)
    asked, request = prompt.request.config, prompt.request
    if len(request.history) >= room:
        raise ConfigError(
            f"The prompt takes {len(request.history):,} ids, and the context of a refresh is"
            f" {room:,}. Raise it."
        )
    stalled = False  # an action did not fit into the last part
    while True:
        before = writing.actions
        after = None if stalled else refresh.after
        most = min(asked.max_actions - before, after or asked.max_actions)
        part = replace(
            asked,
            max_actions=min(most, room - len(request.history)),
            max_edits=None if asked.max_edits is None else asked.max_edits - writing.edits,
            seed=(asked.seed + (times << 32)) % 2**64,
        )
        try:
            yield [Act(replace(request, config=part), writing.take)]
        except Cancelled as end:
            writing.stop_reason = writing.stop_reason or end.reason
            break
        read += len(request.history) + writing.actions - before
        if writing.stop_reason not in ("max_actions", "context"):
            break
        if writing.actions >= asked.max_actions:
            break
        writing.drop_unfinished()
        request = writing.shown_again(refresh.keep)
        if len(request.history) + _LEAST > room:
            request = writing.shown_again(0)
        is_stuck = stalled and writing.actions == before
        stalled = writing.actions == before
        if len(request.history) + _LEAST > room or is_stuck:
            writing.stop_reason = "context"  # the text itself fills it
            break
        writing.stop_reason = None
        times += 1
    return Refreshed(rollout=writing.rollout(), times=times, ids_read=read)
