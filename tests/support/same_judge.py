"""Judges on different engines: what they suggest for a text, and whether it is the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from reviser.core.codec import Codec
from reviser.engines.base import Engine
from reviser.model import Reviser
from reviser.proofread.flow import Proofreading
from reviser.proofread.judge import Judge
from reviser.proofread.suggestion import Proposer
from reviser.writing.changes import Change

ROUNDING = 2e-3
"""Engines add in different orders; confidences and gains in nats differ by less."""


def judged(
    engine: Engine, codec: Codec, begin: int, text: str, proposers: Sequence[Proposer]
) -> tuple[Change, ...]:
    """Return what the default judge's numbers make of the suggestions for a text."""
    tools = Proofreading(
        proposers=proposers,
        judge=Judge.load(),
        codec=codec,
        begin=begin,
        context=engine.context or sys.maxsize,
    )
    return Reviser(engine, codec, proofreading=tools).revise(text).suggestions


def check_equal(found: Sequence[Change], wanted: Sequence[Change]) -> None:
    """Check that two engines suggest the same, with equal confidences but for rounding."""

    def edits(changes: Sequence[Change]) -> list[tuple[int, int, str]]:
        return [(each.start, each.end, each.after) for each in changes]

    assert edits(found) == edits(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.confidence == pytest.approx(other.confidence, abs=ROUNDING)
        assert one.gain == pytest.approx(other.gain, abs=ROUNDING)
