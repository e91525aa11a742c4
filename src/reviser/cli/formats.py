"""The formats of changes: one result for each file, or one report of all files for a CI system."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from reviser.cli.output import print_text
from reviser.proofread.shown import reason_of, title_of
from reviser.writing.changes import Change, Changes
from reviser.writing.positions import Positions
from reviser.writing.rollout import Revision

REPORTS = ("rdjson", "sarif")
"""Formats of one report for all files."""


def print_revision(form: str, revision: Revision, changes: Changes, name: str) -> None:
    """Print the revision of a draft; the changes are those of its whole file."""
    if form == "lsp":  # without the file's byte order mark, which editors do not count
        print_text(json.dumps(revision.changes.lsp(), ensure_ascii=False) + "\n")
    elif form == "diff":
        print_text(changes.unified(name))
    elif form == "criticmarkup":
        print_text(changes.criticmarkup())
    elif form == "json":
        saved = {"file": name, **replace(revision, changes=changes).to_dict()}
        print_text(json.dumps(saved, ensure_ascii=False) + "\n")
    else:
        print_text(changes.text, changes)


def print_report(form: str, files: Sequence[tuple[str, Changes]]) -> None:
    """Print the changes of all files in one report."""
    found = rdjson_of(files) if form == "rdjson" else sarif_of(files)
    print_text(json.dumps(found, ensure_ascii=False) + "\n")


def sarif_of(files: Sequence[tuple[str, Changes]]) -> dict[str, Any]:
    """Return the changes in SARIF, the format of code scanning."""
    from reviser import __version__

    driver = {"name": "reviser", "version": __version__}
    results = [
        _sarif(name, changes.draft, Positions(changes.draft, "utf-32"), each)
        for name, changes in files
        for each in changes
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
            "runs": [run]}  # fmt: skip


def _sarif(name: str, text: str, positions: Positions, change: Change) -> dict[str, Any]:
    start, end = positions.position(change.start), positions.position(change.end)
    region = {
        "startLine": start.line + 1, "startColumn": start.character + 1,
        "endLine": end.line + 1, "endColumn": end.character + 1,
    }  # fmt: skip
    place = {"uri": name}
    edit = {"deletedRegion": region, "insertedContent": {"text": change.after}}
    message = ". ".join(filter(None, (title_of(text, change), reason_of(change))))
    return {
        "ruleId": change.rule or change.source,
        "level": "note",
        "message": {"text": message},
        "locations": [{"physicalLocation": {"artifactLocation": place, "region": region}}],
        "fixes": [{"artifactChanges": [{"artifactLocation": place, "replacements": [edit]}]}],
    }


def rdjson_of(files: Sequence[tuple[str, Changes]]) -> dict[str, Any]:
    """Return the changes in the Reviewdog Diagnostic Format, as suggestions for whole lines.

    Reviewdog posts them on pull requests and knows which it has posted. The format also has
    columns, but GitLab's suggestions, and those of several changes on a line, need whole lines.
    """
    found = [each for name, changes in files for each in _diagnostics(name, changes)]
    return {"source": {"name": "reviser"}, "severity": "INFO", "diagnostics": found}


def _diagnostics(name: str, changes: Changes) -> Iterator[dict[str, Any]]:
    starts = [0]
    for line in changes.draft.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for first, last, group in _groups(changes):
        start, end = starts[first - 1], starts[last] - 1
        moved = (replace(each, start=each.start - start, end=each.end - start) for each in group)
        own = Changes(draft=changes.draft[start:end], changes=tuple(moved))
        text = own.text.replace("\r\n", "\n").removesuffix("\r")
        lines = {"start": {"line": first}, "end": {"line": last}}  # the last one is included
        yield {
            "message": "; ".join(map(_message, group)),
            "location": {"path": name, "range": lines},
            "suggestions": [{"range": lines, "text": text}],
        }


def _groups(changes: Changes) -> Iterator[tuple[int, int, list[Change]]]:
    """Yield the first and the last line of changes that share lines, and the changes."""
    group: list[Change] = []
    low = high = 0
    for change in changes:
        first = changes.draft.count("\n", 0, change.start) + 1
        if group and first > high:
            yield low, high, group
            group = []
        low = first if not group else low
        # The line at the end counts, even if the change ends at its start: a removed line break
        # joins it with the line before.
        high = changes.draft.count("\n", 0, change.end) + 1
        group.append(change)
    if group:
        yield low, high, group


def _message(change: Change) -> str:
    sure = "" if change.confidence is None else f" (confidence {change.confidence:.0%})"
    reason = f": {change.message}" if change.message else ""
    return f'"{change.before}" -> "{change.after}"{reason}{sure}'
