"""reStructuredText, read by tree-sitter.

Text is what stands in paragraphs, titles, terms and the admonitions that docutils and Sphinx know.
The grammar has no tables, so a paragraph with a line of table marks is locked whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import tree_sitter_rst
from tree_sitter import Language, Node

from reviser.markup import trees
from reviser.markup.spans import (
    ByteOffsets,
    Excerpt,
    Span,
    line_breaks,
    plain_lines,
    subtract,
)

_TEXTS = {"line", "paragraph", "term", "title"}
_MARKS = {"emphasis": 1, "strong": 2}
"""Inline markup with text in it, and the length of its marks."""
_TEXT_DIRECTIVES = {
    "admonition", "attention", "caution", "danger", "deprecated", "epigraph", "error",
    "hint", "important", "note", "rubric", "seealso", "sidebar", "tip", "topic",
    "versionadded", "versionchanged", "warning",
}  # fmt: skip
_TABLE_MARKS = frozenset("=-+| ")


_DEEPEST = 10
"""Admonitions inside each other; those further inside are locked. Each is parsed by itself."""


@cache
def _language() -> Language:
    return Language(tree_sitter_rst.language())


def editable_spans(text: str, depth: int = 0) -> list[Span]:
    """Return the spans of a reStructuredText document that are text.

    `depth` is the number of admonitions around it.
    """
    plain = trees.shallow(plain_lines(text))
    offsets = ByteOffsets(plain)
    editable: list[Span] = []
    locked: list[Span] = []

    def span(node: Node) -> Span:
        return offsets.char(node.start_byte), offsets.char(node.end_byte)

    nodes = [trees.parse(_language(), offsets.data).root_node]
    while nodes:
        node = nodes.pop()
        if node.type == "ERROR":
            locked.append(span(node))
        elif node.type in _TEXTS:
            if not _has_table_marks(plain[slice(*span(node))]):
                editable.append(span(node))
            for child in node.children:
                if child.type in _MARKS:
                    (start, end), size = span(child), _MARKS[child.type]
                    locked += [(start, start + size), (end - size, end)]
                elif child.type != "text":
                    locked.append(span(child))
        elif node.type == "directive":
            if depth < _DEEPEST:
                editable += _content(plain, node, span, depth + 1)
        else:
            nodes.extend(node.children)
    return subtract(editable, [*locked, *line_breaks(plain, editable)])


def _has_table_marks(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    return any(len(line) > 2 and _TABLE_MARKS.issuperset(line) for line in lines)


def _content(text: str, directive: Node, span: Callable[[Node], Span], depth: int) -> list[Span]:
    """Return the editable spans of an admonition's content, which is a document of its own."""
    kinds = [text[slice(*span(child))] for child in directive.children if child.type == "type"]
    if not kinds or kinds[0] not in _TEXT_DIRECTIVES:
        return []
    found: list[Span] = []
    for body in directive.children:
        for child in body.children if body.type == "body" else ():
            if child.type == "content":
                start, end = span(child)
                inner = Excerpt(text, dedented(text, start, end))
                found += inner.back(editable_spans(inner.text, depth))
    return found


def dedented(text: str, start: int, end: int) -> list[Span]:
    """Return the lines of a block without the indentation that they share."""
    # The first line starts after its own indentation.
    lines, at = list[Span](), start
    while at < end:
        after = text.find("\n", at, end)
        after = end if after < 0 else after + 1
        lines.append((at, after))
        at = after
    depths = [
        len(text[a:b]) - len(text[a:b].lstrip()) for a, b in lines[1:] if not text[a:b].isspace()
    ]
    depth = min(depths, default=0)
    cut = [(min(a + depth, b) if not text[a:b].isspace() else b - 1, b) for a, b in lines[1:]]
    return [*lines[:1], *cut]
