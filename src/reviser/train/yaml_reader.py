"""YAML to frozen dataclasses and back: pydantic checks types, this module words the errors.

An error says which setting is wrong, its value and what is allowed. This module knows no recipe:
the dataclasses are the schema, and check their own ranges.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json

from reviser.errors import ConfigError, did_you_mean
from reviser.trajectories.policy import kind_of, policies_by_kind

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_UNKNOWN = "unexpected_keyword_argument"
_WORDS = {
    "bool_type": "true or false",
    "dataclass_type": "a mapping of names",
    "dict_type": "a mapping of names",
    "finite_number": "a finite number",
    "float_type": "a finite number",
    "int_type": "a whole number",
    "path_type": "a path",
    "string_type": "text",
    "too_long": "a list of {max_length} values",
    "tuple_type": "a list",
}
"""What is allowed, by the type of pydantic's error."""


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-4 is a number, and which refuses a key that is given twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for n, key in enumerate(keys):
            if key.value in [earlier.value for earlier in keys[:n]]:
                what = f"the key {key.value!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, what, key.start_mark)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), [*"-+0123456789"]
)


def parse(text: str | bytes, what: str) -> Any:
    """Return the plain values of a YAML text; `what` names it in messages."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # 2020-99-99 is a ValueError
        raise ConfigError(f"{what} is not YAML: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    words = [getattr(error, "context", None), getattr(error, "problem", None)]
    what = ", ".join(word for word in words if word)
    return f"{what} (line {mark.line + 1}, column {mark.column + 1})."


def set_value(fields: Any, change: str) -> None:
    """Replace one value, as in "training.steps=100", creating its sections if needed."""
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
    fields[last] = parse(value, f"The value of {change!r}")


def to_plain(value: Any) -> Any:
    """Turn a recipe into values that JSON and YAML can write; policies include their `kind`."""
    if dataclasses.is_dataclass(value):
        plain = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        is_policy = callable(getattr(value, "compile", None))
        return ({"kind": kind_of(type(value))} if is_policy else {}) | plain
    if isinstance(value, Mapping):
        return {name: to_plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def from_plain(cls: type, value: Any, where: str = "") -> Any:
    """Turn plain YAML into a dataclass; `where` is its path, for messages.

    Pydantic reads it as JSON, in which a list may become a tuple, and a text a path.
    """
    # A dictionary of one item, because a dataclass can be given no config from outside.
    adapter = TypeAdapter(dict[str, cls], config=_STRICT)  # type: ignore[valid-type]
    try:
        return adapter.validate_json(to_json({where: value}, inf_nan_mode="constants"))[where]
    except ValidationError as error:
        raise ConfigError(_sentence(cls, error.errors(), where)) from error
    except ValueError as error:  # a list that contains itself, half of a surrogate pair
        raise ConfigError(f"The recipe cannot be read: {_one_line(error)}") from error


def _sentence(cls: type, errors: Sequence[Any], path: str) -> str:
    """Return one sentence about the first unknown setting, wrong value or missing setting."""
    order = {_UNKNOWN: 0, "missing": 2}
    first = min(errors, key=lambda error: order.get(error["type"], 1))
    kind, loc = first["type"], first["loc"][1:]
    path, section = _find(cls, loc, path)
    match kind:
        case "value_error":  # the dataclass's own
            message = str(first["ctx"]["error"])
            return f"{path}: {message}" if path else message
        case "missing":
            return f"{path} is missing."
        case "unexpected_keyword_argument":
            hints = get_type_hints(section)
            inner = [name for name in hints if loc[-1] in _settings(hints[name])]
            parent = path.removesuffix(loc[-1])
            advice = did_you_mean(loc[-1], hints)
            if inner:
                advice = f"Did you mean `{parent}{inner[0]}.{loc[-1]}`?"
            return f"`{path}` is not a setting. {advice}"
    # A Literal's choices are pydantic's, and so is the whole sentence about what is not known here.
    context = {"expected": first["msg"]} | first.get("ctx", {})
    allowed = _WORDS.get(kind, "{expected}").format_map(context)
    value = repr(first["input"])
    value = value if len(value) <= 80 else f"{value[:77]}..."
    return f"{path or 'A recipe'} is {value}; it should be {allowed}."


def _find(hint: Any, loc: Sequence[Any], path: str) -> tuple[str, Any]:
    """Return the path of a setting as YAML writes it, and the dataclass that it belongs to."""
    section = None
    for part in loc:
        classes = _classes(hint)
        if isinstance(part, int):
            path += f"[{part}]"
            hint = get_args(hint)[0]
        elif len(classes) > 1:  # the kind of a policy, which is no part of the path
            hint = policies_by_kind(hint).get(part)
        else:
            path = f"{path}.{part}" if path else part
            section = classes[0] if classes else None
            hint = get_type_hints(section).get(part) if classes else get_args(hint)[1]
    return path, section


def _classes(hint: Any) -> list[Any]:
    """Return the dataclass of a section, those of a union of policies, or nothing."""
    return [cls for cls in (hint, *get_args(hint)) if dataclasses.is_dataclass(cls)]


def _settings(hint: Any) -> set[str]:
    return {field.name for cls in _classes(hint) for field in dataclasses.fields(cls)}
