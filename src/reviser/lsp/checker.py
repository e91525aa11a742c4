"""Checks of paragraphs, each of them once: results are cached by the paragraph."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from reviser.lsp.documents import Paragraph
from reviser.markup.spans import Span
from reviser.model import Reviser
from reviser.proofread.cache import Cache
from reviser.proofread.flow import Gain, replacements, sure_edits
from reviser.proofread.settings import Settings
from reviser.proofread.suggestion import Dialect, Proposer
from reviser.proofreading import chosen, with_settings
from reviser.writing.changes import Change
from reviser.writing.tasks import Revise

Options: TypeAlias = tuple[tuple[str, ...], Dialect, tuple[str, ...], float | None]
CACHED = 20_000
"""Paragraphs whose changes are kept."""


class Checker:
    """The changes of paragraphs: the sure ones, and all of them once a judge has read them."""

    def __init__(self) -> None:
        self._found: OrderedDict[_Key, _Found] = OrderedDict()
        self._cache = Cache[Gain]()

    def is_judged(self, paragraph: Paragraph, settings: Settings) -> bool:
        """Return whether a judge has read a paragraph."""
        return self._get(_key(paragraph, settings)).is_judged

    def changes(self, paragraph: Paragraph, settings: Settings) -> tuple[Change, ...]:
        """Return what is known of a paragraph."""
        return self._get(_key(paragraph, settings)).changes

    def find_sure(self, paragraphs: Sequence[Paragraph], settings: Settings) -> None:
        """Find the changes that need no judge; this takes milliseconds."""
        for each in paragraphs:
            key = _key(each, settings)
            if key not in self._found:
                sure = sure_edits(each.text, each.locked, _proposers(key.options))
                self._put(key, _Found(tuple(sure), is_judged=False))

    async def judge(self, paragraph: Paragraph, settings: Settings, model: Reviser) -> bool:
        """Have a model judge a paragraph; return whether that changed what is known.

        Cancelling this ends the work for it.
        """
        key = _key(paragraph, settings)
        before = self._get(key).changes
        task = Revise(key.text, locked=key.locked)
        own = with_settings(model, settings, self._cache)
        changes = tuple((await own.arun(task)).changes)
        self._put(key, _Found(changes, is_judged=True))
        return changes != before

    def _get(self, key: _Key) -> _Found:
        if key not in self._found:
            return _Found((), is_judged=False)
        self._found.move_to_end(key)
        return self._found[key]

    def _put(self, key: _Key, found: _Found) -> None:
        self._found[key] = found
        while len(self._found) > CACHED:
            self._found.popitem(last=False)


class _Key(NamedTuple):
    """What decides about the changes of a paragraph."""

    text: str
    locked: tuple[Span, ...]
    options: Options


class _Found(NamedTuple):
    changes: tuple[Change, ...]
    is_judged: bool


def _key(paragraph: Paragraph, settings: Settings) -> _Key:
    options = settings.words, settings.dialect, settings.ignore, settings.min_confidence
    return _Key(paragraph.text, paragraph.locked, options)


@lru_cache(maxsize=16)
def _proposers(options: Options) -> list[Proposer]:
    words, dialect, ignore, _ = options
    return chosen(words, dialect, ignore)


def alternatives(paragraph: Paragraph, change: Change, settings: Settings) -> list[str]:
    """Return what could replace the text of a change in a paragraph, the change's own first."""
    options = _key(paragraph, settings).options
    return replacements(paragraph.text, paragraph.locked, _proposers(options), change)
