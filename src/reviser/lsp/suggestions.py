"""Suggestions as an editor shows them: diagnostics, and the actions that accept or reject them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lsprotocol import types

from reviser.lsp.documents import Positions
from reviser.markup.spans import Span
from reviser.proofread.shown import reason_of, title_of, whole_words, word_of
from reviser.writing.changes import Change

NAME = "reviser"
ADD_WORD, IGNORE_RULE = "reviser.addWord", "reviser.ignoreRule"
FIX_ALL = "source.fixAll.reviser"
MOST_REPLACEMENTS = 5
"""Replacements of a text that are offered."""


def actions_for(
    uri: str,
    changes: Sequence[Change],
    positions: Positions,
    span: Span,
    only: Sequence[Any] | None,
    others: Callable[[Change], list[str]],
) -> list[types.CodeAction]:
    """Return the quick fixes for a span of a document, and one that accepts all suggestions.

    `others` returns the replacements of a change, its own first.
    """
    start, end = span
    found: list[types.CodeAction] = []

    def edit_of(changes: Sequence[Change]) -> types.WorkspaceEdit:
        edits = [
            types.TextEdit(positions.range(each.start, each.end), each.after) for each in changes
        ]
        return types.WorkspaceEdit(changes={uri: edits})

    if is_wanted(only, types.CodeActionKind.QuickFix):
        for change in changes:
            whole = whole_words(positions.text, change)
            if not (whole.start <= end and start <= whole.end):
                continue
            diagnostic = diagnostic_of(positions, change)
            for after in others(change)[:MOST_REPLACEMENTS]:
                fix = replace(change, after=after)
                found.append(
                    types.CodeAction(
                        title=title_of(positions.text, fix),
                        kind=types.CodeActionKind.QuickFix,
                        diagnostics=[diagnostic],
                        is_preferred=after == change.after,
                        edit=edit_of([fix]),
                    )
                )
            found += keeping_actions(uri, positions.text, change, diagnostic)
    if changes and is_wanted(only, FIX_ALL):
        title = "Reviser: accept all suggestions"
        found.append(types.CodeAction(title=title, kind=FIX_ALL,
                                      edit=edit_of(changes)))  # fmt: skip
    return found


def diagnostic_of(positions: Positions, change: Change) -> types.Diagnostic:
    """Return a suggestion as a diagnostic, whose severity follows its confidence."""
    confidence = change.confidence or 0.0
    whole = whole_words(positions.text, change)
    severity = types.DiagnosticSeverity.Hint
    if confidence >= 0.5:
        severity = types.DiagnosticSeverity.Information
    if confidence >= 0.8:
        severity = types.DiagnosticSeverity.Warning
    return types.Diagnostic(
        range=positions.range(whole.start, whole.end),
        message=f"{title_of(positions.text, change)}\n{reason_of(change)}".strip(),
        severity=severity,
        code=change.rule or None,
        source=NAME,
    )


def keeping_actions(
    uri: str, text: str, change: Change, diagnostic: types.Diagnostic
) -> list[types.CodeAction]:
    """Return the quick fixes that keep the text: by the dictionary, or by ignoring the rule."""
    found = []
    if word := word_of(text, change):
        found.append((f"Add “{word}” to the dictionary", ADD_WORD, word))
    if change.rule:
        found.append((f"Ignore the rule “{change.rule}” here", IGNORE_RULE, change.rule))
    return [
        types.CodeAction(
            title=title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            command=types.Command(title=title, command=name, arguments=[uri, argument]),
        )
        for title, name, argument in found
    ]


def is_wanted(only: Sequence[Any] | None, kind: str) -> bool:
    """Return whether a client asks for actions of a kind, or of a wider one."""
    wanted = [str(getattr(each, "value", each)) for each in only or ()]
    own = str(getattr(kind, "value", kind))
    return not wanted or any(own == each or own.startswith(f"{each}.") for each in wanted)
