"""Positions in characters, which Python counts, and in UTF-16 units, which JavaScript counts."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from reviser.core.codec import OffsetUnit
from reviser.errors import ConfigError
from reviser.writing.rollout import Revision


def from_utf16(text: str, parts: list[Any]) -> list[Any]:
    """Convert spans from UTF-16 units to characters; texts do not change."""
    offsets = _utf16_offsets(text)
    characters = {offset: n for n, offset in enumerate(offsets)}
    try:
        return [
            part if isinstance(part, str) else [characters[bound] for bound in part]
            for part in parts
        ]
    except KeyError as error:
        raise ConfigError(
            f"A span has the bound {error.args[0]}, which is outside the text's {offsets[-1]}"
            " UTF-16 units or within a character."
        ) from error


def revision_body(revision: Revision, unit: OffsetUnit) -> dict[str, Any]:
    """Return a revision as a JSON object, with positions in the client's unit."""
    body = revision.to_dict()
    if unit == "utf16":
        offsets = _utf16_offsets(revision.changes.draft)
        for change in body["changes"]:
            change |= {"start": offsets[change["start"]], "end": offsets[change["end"]]}
    return body


def _utf16_offsets(text: str) -> list[int]:
    """Return the start of each character, and the end of the last, in UTF-16 units."""
    return list(accumulate((1 + (ord(char) > 0xFFFF) for char in text), initial=0))
