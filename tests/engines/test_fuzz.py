"""A short fuzz of the Transformers engine, and proof that the judge can object."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import fuzz

pytest.importorskip("torch", reason="torch is not installed, so there are no trunks.")

from reviser.engines.hf import HFEngine
from reviser.engines.logits import LogitsMask


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> HFEngine:
    folder = fuzz.folder_of_a_fresh_model(tmp_path_factory.mktemp("model"))
    return HFEngine.load(folder)[0]


def test_no_action_is_illegal_and_no_request_is_lost(engine: HFEngine) -> None:
    report = fuzz.fuzz(engine, actions=20_000, seed=7, context=fuzz.CONTEXT)
    assert (report.illegal, report.lost, report.first) == (0, 0, "")
    assert report.cancelled + report.ended.total() == report.requests
    assert report.cancelled > 0
    assert {kind.name for kind in fuzz.CHOSEN} == report.kinds.keys()


@pytest.mark.parametrize("how", ["mask", "rows"])
def test_a_broken_mask_is_caught(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = HFEngine.load(fuzz.folder_of_a_fresh_model(tmp_path, searches=False))
    monkeypatch.setattr(LogitsMask, "plan", LogitsMask.plan)  # so that it is put back
    fuzz.break_mask(how)
    report = fuzz.fuzz(engine, actions=2000, seed=7, context=fuzz.CONTEXT)
    assert report.illegal > 20
