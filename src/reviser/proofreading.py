"""The proofreader: rules and word lists suggest, and any causal language model judges."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from reviser.engines.scorers import Backend, open_scorer
from reviser.model import Reviser
from reviser.proofread.cache import Cache
from reviser.proofread.flow import Gain, Proofreading
from reviser.proofread.judge import Judge
from reviser.proofread.lists import Lists
from reviser.proofread.rules import Rules
from reviser.proofread.settings import Settings
from reviser.proofread.shown import without
from reviser.proofread.suggestion import Dialect, Proposer

__all__ = ["DEFAULT_JUDGE", "chosen", "proofreader", "proposers", "with_settings"]

DEFAULT_JUDGE = "HuggingFaceTB/SmolLM2-135M-Instruct"


def proofreader(
    judge: str | Path | None = DEFAULT_JUDGE,
    *,
    backend: Backend = "auto",
    words: Sequence[str] = (),
    dialect: Dialect = "auto",
    ignore: Sequence[str] = (),
    also: Sequence[Proposer] = (),
    own_process: bool = False,
    **options: Any,
) -> Reviser:
    """Return a proofreader: `reviser.proofreader().revise(text)` has the changes and their reasons.

    `judge` is a causal language model: a folder, or a name on the hub. Without one, only what is
    sure is changed. `words` are never changed, and rules or categories in `ignore` suggest nothing.
    `also` are proposers of your own: functions that take a text and return suggestions. Options go
    to the engine, as those of `reviser.load` do.
    """
    found = chosen(words, dialect, ignore, also)
    if judge is None:
        nothing: Any = NoModel()
        return Reviser(nothing, nothing, proofreading=Proofreading(proposers=found))
    model = open_scorer(judge, backend=backend, own_process=own_process, **options)
    engine: Any = model.engine
    tools = Proofreading(
        proposers=found,
        judge=Judge.load(),
        codec=model.codec,
        begin=model.begin,
        context=engine.context or sys.maxsize,
    )
    provenance = {"model": str(judge), "engine": backend, "versions": engine.versions}
    return Reviser(engine, model.codec, provenance=provenance, proofreading=tools)


def chosen(
    words: Sequence[str] = (),
    dialect: Dialect = "auto",
    ignore: Sequence[str] = (),
    also: Sequence[Proposer] = (),
) -> list[Proposer]:
    """Return the proposers that are built in, and others, without what the user does not want."""
    both = [*proposers(words, dialect), *also]
    return [without(each, words, ignore) for each in both]


def with_settings(model: Reviser, settings: Settings, cache: Cache[Gain] | None = None) -> Reviser:
    """Return a proofreader that follows the settings of a project, with the same model."""
    assert model.proofreading is not None
    judge = model.proofreading.judge
    if judge is not None and settings.min_confidence is not None:
        judge = replace(judge, min_confidence=settings.min_confidence)
    own = chosen(settings.words, settings.dialect, settings.ignore)
    other = copy(model)
    other.proofreading = replace(model.proofreading, proposers=own, judge=judge, cache=cache)
    return other


class NoModel:
    """In place of an engine and a codec, where only what is sure is changed."""

    vocab = None
    context = 0

    def close(self) -> None:
        """There is nothing to release."""


def proposers(words: Sequence[str] = (), dialect: Dialect = "auto") -> list[Proposer]:
    """Return the proposers that are built in."""
    return [Rules(dialect, words), Lists(words, dialect)]
