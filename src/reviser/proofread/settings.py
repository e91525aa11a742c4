"""Settings of proofreading: `[tool.reviser]` in pyproject.toml, or a file `.reviser.toml`.

The command, the language server and the MCP server read the same settings. What a user adds for all
projects is in files of its own.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, get_args

from reviser.errors import ConfigError, did_you_mean
from reviser.files import lock, read_text, write_whole
from reviser.proofread.suggestion import Dialect

FILE = ".reviser.toml"
WORDS = "words.txt"
"""The user's dictionary for all projects."""
MAX_SETTINGS_BYTES = 1 << 20
"""Bytes of a file with settings."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a project asks of the proofreader."""

    file: Path | None = None
    """The file that holds these settings."""
    judge: str | None = None
    """The language model that judges suggestions: a folder or a hub name."""
    min_confidence: float | None = None
    """The least confidence of a change; None is the judge's own."""
    dialect: Dialect = "auto"
    """Which spelling is right."""
    words: tuple[str, ...] = ()
    """The dictionary: words that are never changed."""
    ignore: tuple[str, ...] = ()
    """Rules, or categories of rules, whose suggestions are never shown, such as "a-an"."""
    ignore_files: tuple[str, ...] = ()
    """Patterns of files that the language server does not check, such as "CHANGELOG.md"."""
    delay: float = 0.5
    """Seconds without typing before the language server starts a check."""

    def ignores(self, path: Path) -> bool:
        """Return whether a file is not checked."""
        name = path.name
        if self.file is not None and path.is_relative_to(self.file.parent):
            name = path.relative_to(self.file.parent).as_posix()
        return any(fnmatch(each, pattern) for pattern in self.ignore_files
                   for each in (name, path.name))  # fmt: skip


def user_words() -> set[str]:
    """Return the user's dictionary for all projects."""
    path = user_dictionary()
    # A file that cannot be read is refused, because `add_word` would overwrite it.
    return {*read_text(path, ConfigError).splitlines()} - {""} if path.exists() else set()


def user_dictionary() -> Path:
    """Return the path of the user's dictionary, with one word per line."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder, "reviser", WORDS)


def add_word(word: str) -> None:
    """Add a word to the user's dictionary."""
    path = user_dictionary()
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock(path.with_suffix(".lock")):  # each editor has a server of its own
        write_whole(path, "".join(f"{each}\n" for each in sorted({*user_words(), word})))


def settings_for(path: Path, editor: Settings | None = None) -> Settings:
    """Return the settings for a file, with the user's own words."""
    settings = find_settings(path, editor)
    return replace(settings, words=tuple(sorted({*settings.words, *user_words()})))


def find_settings(path: Path, editor: Settings | None = None) -> Settings:
    """Return the settings for a file: those of the nearest folder above it that has some.

    What they do not set is as in `editor`, the settings that the editor sent.
    """
    editor = editor or Settings()
    for folder in path.absolute().parents:
        own, project = folder / FILE, folder / "pyproject.toml"
        if os.path.isfile(own):  # noqa: PTH113  # a name that is too long is an error of Path's
            return _settings(_read(own), own, editor)
        if os.path.isfile(project):  # noqa: PTH113
            tools = _table(_read(project).get("tool", {}), "tool", project)
            if "reviser" in tools:
                return _settings(_table(tools["reviser"], "tool.reviser", project), project, editor)
    return editor


def editor_settings(options: Any) -> Settings:
    """Return the settings that an editor sent when it started the server."""
    if options is None:
        return Settings()
    if not isinstance(options, dict):
        raise ConfigError(f"The editor's settings are {options!r}; they must be an object.")
    return _settings(options, None, Settings())


def ignore_rule(path: Path, rule: str) -> Path:
    """Add a rule to the settings that count for a file, and return the file that holds them.

    Without settings, a new file is written at the top of the repository, or beside the file.
    """
    file = find_settings(path).file
    if file is None:
        parents = path.absolute().parents
        top = next((folder for folder in parents if (folder / ".git").exists()), parents[0])
        file = top / FILE
        write_whole(file, f"ignore = [{json.dumps(rule)}]\n")
        return file
    before = read_text(file, ConfigError, limit=MAX_SETTINGS_BYTES)
    known = find_settings(path).ignore
    after = _with_rule(before, rule, is_project=file.name != FILE)
    try:
        table = tomllib.loads(after)
        table = table if file.name == FILE else table["tool"]["reviser"]
        is_right = {*table.get("ignore", ())} == {*known, rule}
    except (ValueError, LookupError):
        is_right = False
    if not is_right:  # such as a table that is written inline
        raise ConfigError(f"Add {json.dumps(rule)} to `ignore` in {str(file)!r}.")
    if rule not in known:
        write_whole(file, after, expected=before.encode())
    return file


def _with_rule(text: str, rule: str, *, is_project: bool) -> str:
    """Return the text of a settings file with one more rule that is ignored."""
    header = re.search(r"^\[tool\.reviser\][^\n]*\n", text, re.MULTILINE) if is_project else None
    start = header.end() if header else 0
    end = re.compile(r"^\[", re.MULTILINE).search(text, start)
    table = text[start : end.start() if end else len(text)]
    found = re.search(r"^ignore\s*=\s*\[", table, re.MULTILINE)
    if found is None:
        return f"{text[:start]}ignore = [{json.dumps(rule)}]\n{text[start:]}"
    at = start + found.end()
    comma = "" if text[at:].lstrip().startswith("]") else ", "
    return f"{text[:at]}{json.dumps(rule)}{comma}{text[at:]}"


def _table(value: Any, name: str, path: Path) -> dict[str, Any]:
    """Return a table of a settings file, or refuse what is not one."""
    if not isinstance(value, dict):
        raise ConfigError(
            f"`{name}` in {str(path)!r} is {value!r}; it must be a table. Write a line"
            " [tool.reviser], and the settings below it."
        )
    return value


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path, ConfigError, limit=MAX_SETTINGS_BYTES))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"Cannot read the settings in {str(path)!r}: {error}.") from error


def _settings(table: dict[str, Any], path: Path | None, editor: Settings) -> Settings:
    known = {each.name.replace("_", "-"): each.name for each in fields(Settings)}
    del known["file"]
    where = "the editor's settings" if path is None else repr(str(path))
    values: dict[str, Any] = {"file": path}
    for key, value in table.items():
        name = known.get(key.replace("_", "-"))
        if name is None:
            raise ConfigError(f"`{key}` in {where} is not a setting. {did_you_mean(key, known)}")
        values[name] = _checked(name, value, where)
    return replace(editor, **values)


def _checked(name: str, value: Any, where: str) -> Any:
    """Return a value of the right type, or refuse it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in ("words", "ignore", "ignore_files"):
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        wanted = "a list of texts"
    elif name == "dialect":
        if value in get_args(Dialect):
            return value
        wanted = "one of " + ", ".join(get_args(Dialect))
    elif name == "judge":
        if isinstance(value, str):
            return value
        wanted = "a text"
    elif name == "min_confidence":
        if is_number and 0 <= value <= 1:
            return float(value)
        wanted = "a number from 0 to 1"
    else:
        if is_number and 0 <= value <= 3600:
            return float(value)
        wanted = "a number from 0 to 3600"
    key = name.replace("_", "-")
    raise ConfigError(f"`{key}` in {where} is {value!r}; it must be {wanted}.")
