"""Checks of paragraphs by a model, each of them once: results are cached by the paragraph."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from reviser.lsp.documents import Paragraph
from reviser.lsp.settings import Settings
from reviser.markup.spans import Span
from reviser.writing.changes import Change
from reviser.writing.tasks import Revise

if TYPE_CHECKING:
    from reviser.model import Reviser

_Key: TypeAlias = tuple[str, tuple[Span, ...], tuple[str, float | None, float | None]]

CACHED = 20_000
"""Paragraphs whose changes are kept."""


class Checker:
    """A model, and the changes that it suggested for paragraphs."""

    def __init__(self, model: Reviser) -> None:
        self.model = model
        self._cache: OrderedDict[_Key, tuple[Change, ...]] = OrderedDict()

    def known(self, paragraph: Paragraph, settings: Settings) -> tuple[Change, ...] | None:
        """Return the changes of a paragraph that was checked before; None if it was not."""
        key = _key(paragraph, settings)
        if key in self._cache:
            self._cache.move_to_end(key)
        return self._cache.get(key)

    async def check(self, paragraph: Paragraph, settings: Settings) -> tuple[Change, ...]:
        """Return the changes that the model suggests; cancelling this ends the work for it."""
        revision = await self.model.arun(_task(paragraph, settings))
        changes = revision.changes.changes
        self._cache[_key(paragraph, settings)] = changes
        while len(self._cache) > CACHED:
            self._cache.popitem(last=False)
        return changes


def _key(paragraph: Paragraph, settings: Settings) -> _Key:
    """Return what decides about the changes of a paragraph."""
    options = settings.instruction, settings.min_edit_probability, settings.precision
    return paragraph.text, paragraph.locked, options


def _task(paragraph: Paragraph, settings: Settings) -> Revise:
    return Revise(
        paragraph.text,
        instruction=settings.instruction,
        locked=paragraph.locked,
        min_edit_probability=settings.min_edit_probability,
        precision=settings.precision,
    )


def confidence_of(change: Change) -> float:
    """Return how sure the model is: the confidence, or the mean probability of the actions."""
    if change.confidence is not None:
        return change.confidence
    return math.exp(change.logprob / max(1, change.actions))
