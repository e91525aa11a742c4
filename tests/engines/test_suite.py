"""What every engine must do, by Transformers: here, and in a process of its own.

By vLLM, the same runs in `test_vllm.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed, so there are no trunks.")

from reviser.engines.hf import HFEngine
from reviser.engines.process import ProcessEngine
from reviser.models import trunks
from support.engine_suite import TOKENIZER, EngineSuite


def load(folder: Path) -> HFEngine:
    return HFEngine.load(folder, rows=16)[0]


@pytest.fixture(scope="module")
def in_a_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessEngine]:
    folder = tmp_path_factory.mktemp("model")
    trunks.save(EngineSuite.model(), TOKENIZER, EngineSuite.vocab, folder)
    engine = ProcessEngine(load, folder)
    yield engine
    engine.close()


class TestHere(EngineSuite):
    @pytest.fixture
    def engine(self) -> HFEngine:
        return HFEngine(self.model(), self.vocab, rows=16)


class TestInAProcess(EngineSuite):
    @pytest.fixture
    def engine(self, in_a_process: ProcessEngine) -> ProcessEngine:
        return in_a_process
