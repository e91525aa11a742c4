"""What results say of how they were made."""

from __future__ import annotations

import platform
import re

import pytest

from reviser import provenance


def test_versions_are_those_installed() -> None:
    made = provenance.made_with("numpy", "no-such-package")
    assert made["versions"].keys() == {"reviser-lm", "numpy"}
    assert made["python"] == platform.python_version()
    assert made["commit"] is None or re.match(r"[0-9a-f]{40}(-dirty)?$", made["commit"])


def test_without_git_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert provenance.commit() is None
