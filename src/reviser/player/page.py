"""A self-contained page that plays films: no network, no framework, no build.

This module joins the assets and embeds the films as data. Model output never becomes markup: here
it is escaped JSON in a block that is not executed, in the browser it becomes text nodes. The page's
policy allows only its own script and style, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from reviser.errors import DataError
from reviser.player.film import Film

TITLE = "Rollouts"
MODULES = ("edits.js", "pane.js", "playback.js")
"""The modules that play a film, each after those it imports."""

_MARKUP = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
"""Characters that JSON inside HTML must not hold, and lone surrogates, which UTF-8 cannot hold."""
_IMPORT = re.compile(r"^import .*\n", re.MULTILINE)
"""Import statements, left out because all modules become one script."""
_NAME = re.compile(r"\{\{(\w+)\}\}")


def to_html(films: Sequence[Film], *, title: str = TITLE, note: str = "") -> str:
    """Return the page; equal films give equal bytes."""
    if not films:
        raise DataError("There is nothing to play: give one rollout or more.")
    parts = {"title": escape(title), "note": escape(note), "view": asset("view.html")}
    return document(
        title=title,
        style=asset("player.css"),
        body=filled(asset("player.html"), parts),
        data={"films": [_columns(film) for film in films]},
        script="".join(_IMPORT.sub("", asset(name)) for name in (*MODULES, "player.js")),
    )


def document(*, title: str, style: str, body: str, data: Any, script: str) -> str:
    """Return a page in one file that loads nothing else.

    `body` is markup that goes into `main`; `data` becomes JSON in the element with the id data.
    """
    parts = {
        "policy": (
            f"default-src 'none'; script-src {_hashed(script)}; style-src {_hashed(style)};"
            " base-uri 'none'; form-action 'none'"
        ),
        "title": escape(title),
        "style": style,
        "body": body,
        "data": embedded(data),
        "script": script,
    }
    return filled(asset("page.html"), parts)


def asset(name: str) -> str:
    """Return the content of an asset."""
    return files("reviser.player").joinpath("assets", name).read_text("utf-8")


def filled(html: str, parts: Mapping[str, str]) -> str:
    """Fill each {{name}} of a page; inserted text is not searched again."""
    return _NAME.sub(lambda found: parts[found[1]], html)


def embedded(content: Any) -> str:
    """Return JSON that is safe inside a script element and parses to the same value."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _MARKUP.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _columns(film: Film) -> dict[str, Any]:
    """Return a film in columns, which are shorter than a record per step."""
    words = list(dict.fromkeys(step.action for step in film.steps))
    index = {word: n for n, word in enumerate(words)}
    return {
        "name": film.name,
        "text": film.text,
        "cursor": film.cursor,
        "words": words,
        "action": [index[step.action] for step in film.steps],
        "offset": [step.edit.offset for step in film.steps],
        "removed": [step.edit.removed for step in film.steps],
        "inserted": [step.edit.inserted for step in film.steps],
        "cursors": [step.edit.cursor for step in film.steps],
        "logprob": _rounded(step.logprob for step in film.steps),
        "given": [n for n, step in enumerate(film.steps) if step.in_preamble],
        "found": {str(n): step.found for n, step in enumerate(film.steps) if step.found},
        "facts": film.facts,
    }


def _rounded(values: Iterable[float | None]) -> list[float | None]:
    return [None if x is None or not math.isfinite(x) else round(x, 3) for x in values]


def _hashed(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"
