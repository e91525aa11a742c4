"""Plain YAML values to dataclasses and back.

Error messages say which setting is wrong, its value and what is allowed. A union of dataclasses is
one of policies: the setting `kind` is the name of the class, in lower case.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from reviser.errors import ConfigError, VocabError, did_you_mean
from reviser.trajectories.policy import PRESETS


def to_plain(value: Any) -> Any:
    """Turn a recipe into values that JSON and YAML can write; policies include their `kind`."""
    if dataclasses.is_dataclass(value):
        plain = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        is_policy = callable(getattr(value, "compile", None))
        return ({"kind": _kind(type(value))} if is_policy else {}) | plain
    if isinstance(value, Mapping):
        return {name: to_plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def _kind(policy: Any) -> str:
    name: str = policy.__name__
    return name.lower()


def from_plain(cls: Any, value: Any, where: str) -> Any:
    """Turn plain YAML into a value of some type; `where` is its path, for messages."""
    if dataclasses.is_dataclass(cls):
        return _read_dataclass(cls, value, where)
    if cls is Any:
        return value
    origin, parts = get_origin(cls), get_args(cls)
    if origin in (Union, types.UnionType):
        rest = [part for part in parts if part is not types.NoneType]
        policies = {_kind(cls): cls for cls in rest if dataclasses.is_dataclass(cls)}
        if len(policies) > 1:
            return _read_policy(policies, value, where)
        if value is None or len(rest) > 1:
            return value
        return from_plain(rest[0], value, where)
    if origin is tuple and value is None and parts[-1] is ...:
        return ()
    if origin is tuple and isinstance(value, list):
        kinds = [parts[0]] * len(value) if parts[-1] is ... else parts
        if len(kinds) != len(value):
            raise ConfigError(f"{where} takes {len(kinds)} values; got {value!r}.")
        pairs = enumerate(zip(kinds, value, strict=True))
        return tuple(from_plain(kind, part, f"{where}[{n}]") for n, (kind, part) in pairs)
    if origin is Mapping and isinstance(value, dict):
        items = {str(key): (part, f"{where}.{key}") for key, part in value.items()}
        return {key: from_plain(parts[1], *item) for key, item in items.items()}
    return _read_leaf(cls, value, where)


def _read_leaf(cls: Any, value: Any, where: str) -> Any:
    if cls is float and type(value) in (int, str):  # YAML reads 1e-4, without a dot, as text
        with suppress(ValueError):
            value = float(value)
    if cls is Path and isinstance(value, str):
        return Path(value)
    choices = get_args(cls) if get_origin(cls) is Literal else ()
    if value in choices or (type(value) is cls and not (cls is float and not math.isfinite(value))):
        return value
    allowed = " or ".join(map(repr, choices)) or _WORDS[get_origin(cls) or cls]
    raise ConfigError(f"{where} is {_brief(value)}; it should be {allowed}.")


_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "text",
    Path: "a path",
    tuple: "a list",
    Mapping: "a mapping of names",
}


def _read_dataclass(cls: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ConfigError(f"{where or 'A recipe'} must be a mapping of names; got {_brief(value)}.")
    hints = get_type_hints(cls)
    known = [f.name for f in dataclasses.fields(cls)]
    for key in value:
        if key not in known:
            inner = [name for name in known if key in _names(hints[name])]
            advice = f"Did you mean `{_path(where, inner[0])}.{key}`?" if inner else ""
            advice = advice or did_you_mean(str(key), known)
            raise ConfigError(f"`{_path(where, key)}` is not a setting. {advice}")
    fields = {key: from_plain(hints[key], part, _path(where, key)) for key, part in value.items()}
    missing = [
        f.name
        for f in dataclasses.fields(cls)
        if f.name not in fields
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{_path(where, missing[0])} is missing.")
    try:
        return cls(**fields)
    except (ConfigError, VocabError) as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from error


def _names(hint: Any) -> set[str]:
    """Return the settings of a section, or nothing for a plain value."""
    classes = [cls for cls in (hint, *get_args(hint)) if dataclasses.is_dataclass(cls)]
    return {field.name for cls in classes for field in dataclasses.fields(cls)}


def _read_policy(policies: Mapping[str, Any], value: Any, where: str) -> Any:
    if isinstance(value, str):
        if value not in PRESETS:
            raise ConfigError(f"{where} is {value!r}; known names: {', '.join(PRESETS)}.")
        return PRESETS[value]
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in policies:
        raise ConfigError(
            f"{where} is {value!r}; give a name ({', '.join(PRESETS)}) or a mapping with kind:"
            f" {', '.join(policies)}."
        )
    fields = {key: part for key, part in value.items() if key != "kind"}
    return _read_dataclass(policies[kind], fields, where)


def set_value(fields: Any, change: str) -> None:
    """Replace one value, as in "training.steps=100", creating its sections if needed."""
    import yaml

    name, equals, value = change.partition("=")
    if not equals:
        raise ConfigError(f"Write a change as name=value, like training.steps=100; got {change!r}.")
    *parents, last = name.split(".")
    for parent in parents:
        if not isinstance(fields, dict):
            break
        fields = fields.setdefault(parent, {})
    if not isinstance(fields, dict):
        raise ConfigError(
            f"{name} cannot be changed: {change!r} needs a section where the recipe has a value."
        )
    try:
        fields[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"The value of {change!r} is not YAML: {one_line(error)}") from error


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _path(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


def one_line(error: Exception) -> str:
    """Return an error's message without line ends and, for YAML, with its line and column."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    words = [getattr(error, "context", None), getattr(error, "problem", None)]
    what = ", ".join(word for word in words if word)
    return f"{what} (line {mark.line + 1}, column {mark.column + 1})."
