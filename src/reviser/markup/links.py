"""URLs and e-mail addresses in text, found by linkify-it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from linkify_it import LinkifyIt

from reviser.markup.spans import Span


@cache
def _finder() -> Any:
    # Without a scheme, "the end.It began" would be a link to a host under .it.
    return LinkifyIt(options={"fuzzy_link": False, "fuzzy_email": True, "fuzzy_ip": False})


def link_spans(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the URLs and e-mail addresses inside spans of a text."""
    found = []
    for start, end in spans:
        part = text[start:end]
        # The finder is slow, and most text has no link: each has one of these.
        if ":" in part or "//" in part or "@" in part:
            for match in _finder().match(part) or ():
                found.append((start + match.index, start + match.last_index))
    return found
