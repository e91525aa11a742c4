"""The user's own entries, which several language servers may save at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reviser.errors import ConfigError
from reviser.proofread import settings
from reviser.proofread.settings import (
    Settings,
    add_word,
    find_settings,
    ignore_rule,
    user_dictionary,
)

ADDING = """
import sys
from reviser.proofread.settings import add_word

for n in range(15):
    add_word(f"{sys.argv[1]}{n}")
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
    path = user_dictionary()
    path.parent.mkdir()
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        add_word("word")
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
        assert find_settings(tmp_path / "a.md").file is None


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (".reviser.toml", "", 'ignore = ["a-an"]\n'),
        (".reviser.toml", 'ignore = ["x"] # y\n', 'ignore = ["a-an", "x"] # y\n'),
        (".reviser.toml", "ignore = [\n]\n", 'ignore = ["a-an"\n]\n'),
        ("pyproject.toml", "[tool.reviser]\n[a]\nignore = []\n",
         '[tool.reviser]\nignore = ["a-an"]\n[a]\nignore = []\n'),
        ("pyproject.toml", "[tool.reviser]\nignore = ['a-an']",
         "[tool.reviser]\nignore = ['a-an']"),
        ("pyproject.toml", "[tool]\nreviser = {words = []}\n", None),
    ],
)  # fmt: skip
def test_a_rule_is_added_to_the_settings_of_a_file(
    tmp_path: Path, name: str, before: str, after: str | None
) -> None:
    path = tmp_path / name
    path.write_text(before)
    if after is None:
        with pytest.raises(ConfigError, match='Add "a-an" to `ignore` in'):
            ignore_rule(tmp_path / "docs" / "a.md", "a-an")
    else:
        assert ignore_rule(tmp_path / "docs" / "a.md", "a-an") == path
    assert path.read_text() == (before if after is None else after)
    if after is not None:
        assert "a-an" in find_settings(tmp_path / "a.md").ignore


def test_settings_come_from_the_nearest_folder(tmp_path: Path) -> None:
    inner = tmp_path / "docs" / "sub"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.reviser]\njudge = "m"\nwords = ["teh"]\nignore-files = ["docs/old*", "LOG.md"]\n'
    )
    settings = find_settings(inner / "a.md")
    assert (settings.judge, settings.words) == ("m", ("teh",))
    assert settings.file == tmp_path / "pyproject.toml"
    assert settings.ignores(tmp_path / "docs" / "old.md")
    assert settings.ignores(inner / "LOG.md")
    assert not settings.ignores(inner / "a.md")
    (inner / ".reviser.toml").write_text("min-confidence = 0.9\n")
    assert find_settings(inner / "a.md").min_confidence == 0.9
    assert find_settings(tmp_path.parent / "none.md") == Settings()


OWN, SHARED = ".reviser.toml", "pyproject.toml"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (OWN, "wrods = []", "Did you mean `words`"),
        (OWN, "words = 3", "must be a list of texts"),
        (OWN, "judge = 3", "must be a text"),
        (OWN, "dialect = 'x'", "must be one of auto, american, british"),
        (OWN, "delay = true", "must be a number"),
        (OWN, "delay = 1" + 400 * "0", "must be a number"),
        (OWN, "delay = 1" + 5000 * "0", "Cannot read the settings"),
        (OWN, "words = " + 100_000 * "[", "Cannot read the settings"),
        (OWN, "min-confidence = 2", "from 0 to 1"),
        (OWN, "x = ", "Cannot read the settings"),
        (SHARED, "tool = 1", "^`tool` in .* must be a table"),
        (SHARED, "tool = []", "^`tool` in .* must be a table"),
        (SHARED, "tool.reviser = 3", "^`tool.reviser` in .* must be a table"),
        (SHARED, "[[tool.reviser]]\nwords = []", "^`tool.reviser` in .* must be a table"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, file: str, content: str, message: str) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(ConfigError, match=message):
        find_settings(tmp_path / "a.md")


def test_settings_are_read_from_regular_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".reviser.toml")
    (tmp_path / "pyproject.toml").symlink_to("/dev/zero")
    for folder in ("a", "a" * 5000, "a\0"):
        assert find_settings(tmp_path / folder / "a.md") == Settings()
