"""URLs and e-mail addresses in text, found by linkify-it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from linkify_it import LinkifyIt

from reviser.markup.spans import Span

_WORD = re.compile(r"\S+")
_LONGEST = 2000
"""Characters of a word with a link; a longer one is locked whole. Finding takes their square."""


@cache
def _finder() -> Any:
    # Without a scheme, "the end.It began" would be a link to a host under .it.
    return LinkifyIt(options={"fuzzy_link": False, "fuzzy_email": True, "fuzzy_ip": False})


def link_spans(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the URLs and e-mail addresses inside spans of a text."""
    found = []
    for start, end in spans:
        for each in _WORD.finditer(text, start, end):
            word, at = each[0], each.start()
            # The finder is slow, and most words have no link: each has one of these.
            if not (":" in word[:-1] or "//" in word or "@" in word):
                continue
            if len(word) > _LONGEST:
                found.append(each.span())
                continue
            for match in _finder().match(word) or ():
                found.append((at + match.index, at + match.last_index))
    return found
