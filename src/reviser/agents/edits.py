"""Edits as a client gets them, with hashes that prove that the rest of the text is unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from reviser.engines.base import StopReason
from reviser.errors import EngineError
from reviser.markup.spans import Span, complement
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Infill, Revise


class Edit(BaseModel):
    """A part of the text and its replacement; either may be empty."""

    start: int
    end: int
    line: Annotated[int, Field(description="Line of the start, counted from 1.")]
    before: Annotated[str, Field(description="The text from start to end.")]
    after: str
    confidence: Annotated[
        float | None,
        Field(description="Probability that the edit is right; null for a model without one."),
    ] = None
    rule: Annotated[str, Field(description="The rule that found a mistake, if one did.")] = ""
    category: Annotated[str, Field(description="The kind of mistake.")] = ""
    message: Annotated[str, Field(description="The reason, in a sentence.")] = ""


class Edits(BaseModel):
    """The result of a tool."""

    edits: Annotated[list[Edit], Field(description="From the left; apply them from the right.")]
    locked: Annotated[
        list[Span], Field(description="Positions of all locked text; no edit touches it.")
    ]
    text_sha256: Annotated[str, Field(description="Hash of the text that was given, as UTF-8.")]
    result_sha256: Annotated[str, Field(description="Hash of the text with all edits applied.")]
    unchanged_sha256: Annotated[
        str, Field(description="Hash of all text outside the edits, joined, in text and result.")
    ]
    is_complete: Annotated[
        bool, Field(description="False if a limit ended the model's work before it was done.")
    ]


def edits_of_revision(task: Revise, revision: Revision) -> Edits:
    """Return what a model changed in a draft."""
    names = ("confidence", "rule", "category", "message")
    edits = [
        _edit(
            task.draft,
            each.start,
            each.end,
            each.after,
            **{name: getattr(each, name) for name in names},
        )
        for each in revision.changes
    ]
    return _edits(task.draft, revision.text, edits, task.locked_spans, revision.stop_reason)


def edits_of_fills(task: Infill, rollout: Rollout) -> Edits:
    """Return what a model wrote into gaps."""
    fills = zip(task.gaps, task.fills(rollout.text), strict=True)
    edits = [_edit(task.text, start, end, fill) for (start, end), fill in fills]
    locked = complement(task.gaps, len(task.text))
    return _edits(task.text, rollout.text, edits, locked, rollout.stop_reason)


def _edits(
    text: str, result: str, edits: list[Edit], locked: Sequence[Span], stop_reason: StopReason
) -> Edits:
    return Edits(
        edits=edits,
        locked=list(locked),
        text_sha256=_sha256([text]),
        result_sha256=_sha256([result]),
        unchanged_sha256=_unchanged_sha256(text, result, edits),
        is_complete=stop_reason == "stop",
    )


def _edit(text: str, start: int, end: int, after: str, **reason: Any) -> Edit:
    line = text.count("\n", 0, start) + 1
    return Edit(start=start, end=end, line=line, before=text[start:end], after=after, **reason)


def _unchanged_sha256(text: str, result: str, edits: Iterable[Edit]) -> str:
    """Return the hash of the text outside the edits, read from both sides."""
    kept, kept_in_result, at, shift = list[str](), list[str](), 0, 0
    for edit in edits:
        kept.append(text[at : edit.start])
        kept_in_result.append(result[at + shift : edit.start + shift])
        at, shift = edit.end, shift + len(edit.after) - len(edit.before)
    found = _sha256([*kept, text[at:]])
    if found != _sha256([*kept_in_result, result[at + shift :]]):
        raise EngineError("The model changed text outside its edits, so no edits are returned.")
    return found


def _sha256(parts: Iterable[str]) -> str:
    return hashlib.sha256("".join(parts).encode()).hexdigest()
