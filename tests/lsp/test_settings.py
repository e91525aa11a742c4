"""The user's own entries, which several language servers may save at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
