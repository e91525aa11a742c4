"""What results say of how they were made."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest

from reviser import provenance


def test_versions_are_those_installed() -> None:
    made = provenance.made_with("numpy", "no-such-package")
    assert made["versions"].keys() == {"reviser-lm", "numpy"}
    assert made["python"] == platform.python_version()
    assert made["commit"] is None or re.match(r"[0-9a-f]{40}(-dirty)?$", made["commit"])


def installed(folder: Path, direct_url: str | None) -> PathDistribution:
    """Return a package as pip leaves it in site-packages."""
    info = folder / "reviser_lm-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: reviser-lm\nVersion: 9.9\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(direct_url)
    return PathDistribution(info)


@pytest.mark.parametrize(
    ("direct_url", "found"),
    [
        (None, None),
        ('{"url": "file:///x.whl", "archive_info": {}}', None),
        ('{"url": "https://g", "vcs_info": {"vcs": "git", "commit_id": "f00"}}', "f00"),
        ("[]", None),
        ("{", None),
    ],
)
def test_without_a_checkout_it_is_what_pip_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_url: str | None, found: str | None
) -> None:
    monkeypatch.setenv("PATH", "")
    package = installed(tmp_path, direct_url)
    monkeypatch.setattr(provenance, "distribution", lambda _: package)
    assert provenance.commit() == found


def test_without_git_and_package_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> PathDistribution:
        raise PackageNotFoundError(name)

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(provenance, "distribution", missing)
    assert provenance.commit() is None
