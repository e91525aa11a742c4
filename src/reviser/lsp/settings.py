"""Settings of a project: `[tool.reviser]` in pyproject.toml, or a file `.reviser.toml`."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from reviser.errors import ConfigError, did_you_mean
from reviser.files import lock, read_text, write_whole
from reviser.writing.tasks import Revise

FILE = ".reviser.toml"
WORDS, IGNORED = "words.txt", "ignore.txt"
"""Files of the user, for all projects."""
MAX_SETTINGS_BYTES = 1 << 20
"""Bytes of a file with settings."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a project asks of the language server."""

    root: Path | None = None
    """Folder of the file that holds these settings."""
    model: str | None = None
    """Model folder or hub name, if the command names none."""
    min_edit_probability: float | None = None
    """Suggest only changes of words with at least this edit probability."""
    precision: float | None = None
    """The share of suggestions that should be correct, for a model that was calibrated."""
    instruction: str = ""
    """What to change, for a model that was trained with instructions."""
    words: tuple[str, ...] = ()
    """The user's dictionary: words that are never changed."""
    ignore: tuple[str, ...] = ()
    """Suggestions that are never shown, as "before -> after"."""
    ignore_files: tuple[str, ...] = ()
    """Patterns of files that are not checked, such as "CHANGELOG.md" or "vendor/*"."""
    delay: float = 0.5
    """Seconds without typing before a check starts."""

    def ignores(self, path: Path) -> bool:
        """Return whether a file is not checked."""
        name = path.name
        if self.root is not None and path.is_relative_to(self.root):
            name = path.relative_to(self.root).as_posix()
        return any(fnmatch(each, pattern) for pattern in self.ignore_files
                   for each in (name, path.name))  # fmt: skip


def user_file(name: str) -> Path:
    """Return the path of a file with the user's own entries, one per line."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder, "reviser", name)


def user_entries(name: str) -> set[str]:
    """Return the entries that the user saved, for all projects."""
    path = user_file(name)
    # A file that cannot be read is refused, because `add_user_entry` would overwrite it.
    return {*read_text(path, ConfigError).splitlines()} - {""} if path.exists() else set()


def add_user_entry(name: str, entry: str) -> None:
    """Save an entry for all projects."""
    path = user_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock(path.with_suffix(".lock")):  # each editor has a server of its own
        write_whole(path, "".join(f"{each}\n" for each in sorted({*user_entries(name), entry})))


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
    del known["root"]
    where = "the editor's settings" if path is None else repr(str(path))
    values: dict[str, Any] = {"root": path and path.parent}
    for key, value in table.items():
        name = known.get(key.replace("_", "-"))
        if name is None:
            raise ConfigError(f"`{key}` in {where} is not a setting. {did_you_mean(key, known)}")
        values[name] = _checked(name, value, where)
    settings = replace(editor, **values)
    Revise("", min_edit_probability=settings.min_edit_probability, precision=settings.precision,
           instruction=settings.instruction)  # fmt: skip  # refuses values out of range
    return settings


def _checked(name: str, value: Any, where: str) -> Any:
    """Return a value of the right type, or refuse it."""
    if name in ("words", "ignore", "ignore_files"):
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        wanted = "a list of texts"
    elif name in ("model", "instruction"):
        if isinstance(value, str):
            return value
        wanted = "a text"
    else:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 3600:
            return float(value)
        wanted = "a number from 0 to 3600"
    key = name.replace("_", "-")
    raise ConfigError(f"`{key}` in {where} is {value!r}; it must be {wanted}.")
