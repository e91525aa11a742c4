"""The user's own entries, which several language servers may save at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reviser.errors import ConfigError
from reviser.lsp import settings
from reviser.lsp.settings import WORDS, add_user_entry, find_settings, user_file

ADDING = """
import sys
from reviser.lsp.settings import WORDS, add_user_entry

for n in range(15):
    add_user_entry(WORDS, f"{sys.argv[1]}{n}")
"""


def test_entries_that_several_servers_add_are_all_kept(tmp_path: Path) -> None:
    settings = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-c", ADDING]
    adding = [subprocess.Popen([*command, name], env=settings) for name in "abc"]
    assert [each.wait(60) for each in adding] == [0, 0, 0]
    saved = (tmp_path / "reviser" / "words.txt").read_text("utf-8").split()
    assert saved == sorted(f"{name}{n}" for name in "abc" for n in range(15))


def test_a_dictionary_that_cannot_be_read_is_refused_and_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = user_file(WORDS)
    path.parent.mkdir()
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        add_user_entry(WORDS, "word")
    assert path.read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize("kind", ["large", "pipe"])
def test_settings_that_would_never_end_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pyproject.toml"
    if kind == "large":
        path.write_text("#" * (settings.MAX_SETTINGS_BYTES + 1), encoding="utf-8")
        with pytest.raises(ConfigError, match="more than 1,048,576 bytes"):
            find_settings(tmp_path / "a.md")
    else:
        os.mkfifo(path)
        assert find_settings(tmp_path / "a.md").root is None
