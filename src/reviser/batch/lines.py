"""One document of a batch: a line or a row that becomes a task with its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reviser.engines.settings import SETTINGS, DecodeConfig
from reviser.errors import DataError
from reviser.writing.tasks import REVISE_OPTIONS, Task, task_from_dict

MAX_LINE_BYTES = 1 << 20
"""Most bytes of a line. Tokenizing takes hundreds of bytes of memory for each."""

_TEXTS = {False: ("prompt", "infill"), True: ("draft", "before")}
_OTHERS = {False: ("spans",), True: ("instruction", "locked")}
"""Fields of a document besides its text, by whether it is to be revised; others are ignored."""


def used_fields(is_revision: bool, text_key: str | None) -> set[str]:
    """Return the fields of a document that are read."""
    texts = _TEXTS[is_revision] if text_key is None else (text_key,)
    return {*texts, *_OTHERS[is_revision], "id", "settings", *SETTINGS}


def parse_line(line: bytes | None) -> Any:
    """Return the JSON value of a line; None stands for a line that is too long."""
    if line is None:
        raise DataError(
            f"This line is longer than {MAX_LINE_BYTES:,} bytes, the limit of a batch. Split its"
            " text into several lines."
        )
    try:
        values = json.loads(line)
        json.dumps(values, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise DataError(f"This line is not JSON: {error}.") from error
    return values


def read_task(
    values: Any, n: int, settings: Mapping[str, Any], is_revision: bool, text_key: str | None
) -> tuple[Task, DecodeConfig]:
    """Return the task that the fields of document n describe, and its settings.

    The document adds n to the seed, unless its own settings have a seed. So neither the number of
    workers nor the split into chunks changes what is written.
    """
    names = _TEXTS[is_revision]
    if isinstance(values, dict) and text_key is not None:  # the usual names do not count then
        others = {name: value for name, value in values.items() if name not in names}
        values = others | ({names[0]: values[text_key]} if text_key in values else {})
    if not isinstance(values, dict) or sum(name in values for name in names) != 1:
        raise DataError(
            f"A line must be a JSON object, or a row, with either {names[0]!r} or {names[1]!r}."
        )
    text = values[names[0] if names[0] in values else names[1]]
    if isinstance(text, str) and len(text) > MAX_LINE_BYTES:  # a row; a line was bounded before
        raise DataError(
            f"This text has {len(text):,} characters; the limit is {MAX_LINE_BYTES:,}. Split it"
            " into several documents."
        )
    own = values.get("settings", {})
    if not isinstance(own, dict):
        raise DataError("The 'settings' of a line must be an object.")
    if misplaced := sorted(values.keys() & SETTINGS.keys()):
        raise DataError(f"Put {', '.join(misplaced)} of a line into its 'settings'.")
    chosen = {**settings, **own}
    used = (*names, *_OTHERS[is_revision])
    fields = {name: values[name] for name in used if values.get(name) is not None}
    if is_revision:  # the options of a revision may stand among the settings
        options = {name: chosen.pop(name) for name in REVISE_OPTIONS if name in chosen}
        fields = options | fields  # a line's own fields win
    task = task_from_dict(fields)
    config = DecodeConfig.of(chosen, task.default_config)
    return task, config if "seed" in own else config.with_seed_offset(n)
