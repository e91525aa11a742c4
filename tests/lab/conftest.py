"""What the tests of training share with those of the library."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer, shards and recipe.yaml, for one pytest process."""
    from tests.train.conftest import make_workshop  # here, because it needs torch

    folder = tmp_path_factory.mktemp("workshop")
    make_workshop(folder)
    return folder
