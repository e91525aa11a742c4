"""Suggestions as an editor shows them: diagnostics, and the actions that accept or reject them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lsprotocol import types

from reviser.lsp.checker import confidence_of
from reviser.lsp.documents import Positions
from reviser.markup.spans import Span
from reviser.writing.changes import Change

NAME = "reviser"
ADD_WORD, IGNORE = "reviser.addWord", "reviser.ignore"
FIX_ALL = "source.fixAll.reviser"


def actions_for(
    uri: str,
    changes: Sequence[Change],
    positions: Positions,
    span: Span,
    only: Sequence[Any] | None,
) -> list[types.CodeAction]:
    """Return the quick fixes for a span of a document, and one that accepts all suggestions."""
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
            if whole.start <= end and start <= whole.end:
                diagnostic = diagnostic_of(positions, change)
                found.append(
                    types.CodeAction(
                        title=title_of(positions.text, change),
                        kind=types.CodeActionKind.QuickFix,
                        diagnostics=[diagnostic],
                        is_preferred=True,
                        edit=edit_of([change]),
                    )
                )
                found += keeping_actions(uri, positions.text, change, diagnostic)
    if changes and is_wanted(only, FIX_ALL):
        title = "Reviser: accept all suggestions"
        found.append(types.CodeAction(title=title, kind=FIX_ALL,
                                      edit=edit_of(changes)))  # fmt: skip
    return found


def whole_words(text: str, change: Change) -> Change:
    """Return a change as people read it: from “teh” to “the”, not from “eh” to “he”.

    It is shown and never applied, because the rest of a word may be locked.
    """
    start, end = change.start, change.end
    ends = [each for each in (change.before, change.after) if each]
    if not change.before or any(each[0].isalnum() for each in ends):
        while start and text[start - 1].isalnum():
            start -= 1
    if not change.before or any(each[-1].isalnum() for each in ends):
        while end < len(text) and text[end].isalnum():
            end += 1
    after = text[start : change.start] + change.after + text[change.end : end]
    return replace(change, start=start, end=end, before=text[start:end], after=after)


def shown(text: str, change: Change) -> str:
    """Return a suggestion as the ignore list writes it."""
    whole = whole_words(text, change)
    return f"{whole.before.strip()} -> {whole.after.strip()}"


def title_of(text: str, change: Change) -> str:
    """Return what a suggestion does, in words."""
    whole = whole_words(text, change)
    before, after = whole.before.strip(), whole.after.strip()
    if before and after:
        return f"Replace “{before}” with “{after}”"
    return f"Insert “{after}”" if after else f"Delete “{before or whole.before}”"


def diagnostic_of(positions: Positions, change: Change) -> types.Diagnostic:
    """Return a suggestion as a diagnostic, whose severity follows the model's confidence."""
    confidence = confidence_of(change)
    whole = whole_words(positions.text, change)
    severity = types.DiagnosticSeverity.Hint
    if confidence >= 0.5:
        severity = types.DiagnosticSeverity.Information
    if confidence >= 0.8:
        severity = types.DiagnosticSeverity.Warning
    return types.Diagnostic(
        range=positions.range(whole.start, whole.end),
        message=f"{title_of(positions.text, change)} ({confidence:.0%})",
        severity=severity,
        source=NAME,
    )


def keeping_actions(
    uri: str, text: str, change: Change, diagnostic: types.Diagnostic
) -> list[types.CodeAction]:
    """Return the quick fixes that keep the text: never change the word, ignore the suggestion."""
    found = []
    word = whole_words(text, change).before.strip()
    if word and not any(char.isspace() for char in word):
        found.append((f"Never change “{word}”", ADD_WORD, word))
    found.append(("Ignore this suggestion", IGNORE, shown(text, change)))
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
