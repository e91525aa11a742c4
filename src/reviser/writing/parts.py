"""One text, written in one request or in several: between them the model is shown the text again.

So a task does not end for want of context, on any engine: each part is a request of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from reviser.core.codec import TextEdit
from reviser.engines.base import Act, Request, Step
from reviser.writing.prompts import Model
from reviser.writing.text import Writing

__all__ = ["Parts"]


class Parts:
    """The requests that write one text; a model without a refresh needs one."""

    def __init__(self, writing: Writing, model: Model, on_end: Callable[[], object]) -> None:
        self._writing, self._refresh, self._on_end = writing, model.refresh, on_end
        self._vocab = model.vocab
        self._room = model.refresh.room(model.context) if model.refresh else model.context
        self._seeds = 0  # one for each part
        self._before = 0  # actions of the parts that have ended
        self._is_stalled = False  # an action did not fit into the last part
        self._next: Request | None = None

    def question(self) -> Act:
        """Return the request for the next part."""
        request = self._next or self._writing.prompt.request
        self._next, self._before = None, self._writing.actions
        self._writing.ids_read += len(request.history)
        if self._refresh is not None:
            request = self._limited(request)
        return Act(request, self._take, self.has_next)

    def has_next(self) -> bool:
        """Return whether there is another part."""
        return self._next is not None

    def _limited(self, request: Request) -> Request:
        """Return a request that ends where the model is to be shown the text again."""
        writing, refresh = self._writing, self._refresh
        assert refresh is not None
        asked = writing.prompt.request.config
        after = None if self._is_stalled else refresh.after
        most = min(asked.max_actions - self._before, after or asked.max_actions)
        free = max(1, self._room - len(request.history))
        config = replace(
            asked,
            max_actions=min(most, free),
            max_edits=None if asked.max_edits is None else asked.max_edits - writing.edits,
            seed=(asked.seed + (self._seeds << 32)) % 2**64,
        )
        self._seeds += 1
        return replace(request, config=config)

    def _take(self, step: Step) -> TextEdit:
        edit = self._writing.take(step)
        if self._is_over(step):
            self._next = self._shown_again()
        if self._next is None and step.ended is not None:
            self._on_end()
        return edit

    def _is_over(self, step: Step) -> bool:
        """Return whether this part ends here, but the text may not."""
        writing, refresh = self._writing, self._refresh
        if refresh is None or writing.actions >= writing.prompt.request.config.max_actions:
            return False
        if step.ended is None:
            name = writing.completed
            return bool(name) and (self._is_stalled or name == refresh.action)
        return step.ended in ("max_actions", "context")

    def _shown_again(self) -> Request | None:
        """Return the request for the next part; None if the text leaves no room for one."""
        writing, refresh = self._writing, self._refresh
        assert refresh is not None
        writing.drop_unfinished()
        has_stalled, self._is_stalled = self._is_stalled, writing.actions == self._before
        request = writing.shown_again(refresh, self._room)
        if request is None or (has_stalled and self._is_stalled):
            writing.stop_reason = "context"  # the text itself fills it
            return None
        writing.stop_reason = None
        return request
