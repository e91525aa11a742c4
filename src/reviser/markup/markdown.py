"""Markdown, read by tree-sitter: CommonMark with tables, front matter, math and strikethrough.

Text is what the grammar calls inline content, and table cells. Of that, these are locked: code,
links' targets, HTML, math, escapes, the marks of emphasis, and line breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

import tree_sitter_markdown
from tree_sitter import Language, Node, Tree

from reviser.markup import trees
from reviser.markup.spans import (
    ByteOffsets,
    Span,
    Unreadable,
    joined,
    line_breaks,
    plain_lines,
    subtract,
)

_LOCKED = {
    "backslash_escape", "code_span", "collapsed_reference_link", "email_autolink",
    "emphasis_delimiter", "entity_reference", "ERROR", "hard_line_break", "html_tag", "latex_block",
    "numeric_character_reference", "shortcut_link", "uri_autolink",
}  # fmt: skip
"""Nodes of inline content that are locked whole. The text of a shortcut link is also its target."""
_LINKS = {"full_reference_link", "image", "inline_link"}
"""Nodes of inline content of which only the text is editable."""
_LINK_TEXTS = {"image_description", "link_text"}
_BLOCK_MARKS = ("!!!", "???", ":::")
"""Starts of lines that extensions of Markdown read as marks of a block."""
_ATTRIBUTES = ("{:", "{ ", "{#", "{.")
"""Starts of attribute lists, as `{ width="480" }`, an extension of Markdown."""


_MARKS = b"$&*<[\\]_`~"
_MAX_MARKS = 1000
"""Marks in a block's inline content. Emphasis takes time and memory by the square of them."""


@cache
def _languages() -> tuple[Language, Language]:
    blocks, inline = tree_sitter_markdown.language(), tree_sitter_markdown.inline_language()
    return Language(blocks), Language(inline)


def editable_spans(text: str) -> list[Span]:
    """Return the spans of a Markdown document that are text."""
    plain = trees.shallow(plain_lines(text))
    offsets = ByteOffsets(plain)
    editable: list[Span] = []
    locked: list[Span] = []
    for node in _texts(_tree(offsets.data).root_node):
        low, high = node.start_byte, node.end_byte
        # A quote repeats its marks on each line. They are not inline content, so the second parser
        # gets blanks in their position.
        data = bytearray(offsets.data[low:high])
        for child in node.named_children:
            if child.type == "block_continuation":
                start, end = child.start_byte, child.end_byte
                data[start - low : end - low] = b" " * (end - start)
                locked.append((offsets.char(start), offsets.char(end)))
        editable.append((offsets.char(low), offsets.char(high)))
        for start, end in _inline_locks(bytes(data)):
            locked.append((offsets.char(low + start), offsets.char(low + end)))
    locked += _extensions(plain, editable, locked)
    return subtract(editable, [*locked, *_spaced_breaks(plain, editable, locked)])


def segment_starts(text: str) -> list[int]:
    """Return the offsets of blocks that start a new parse: top-level ones after a blank line.

    No list, quote, code or HTML is open there, so the text from there on is parsed by itself as in
    the document, and the text before it as well.
    """
    plain = trees.shallow(plain_lines(text))
    offsets = ByteOffsets(plain)
    root = _tree(offsets.data).root_node
    has_metadata = any(child.type.endswith("_metadata") for child in root.children[:1])
    if root.has_error or (plain.startswith(("---", "+++")) and not has_metadata):
        # A later line can close the front matter, which would change everything before it.
        return [0]
    found = {0}
    nodes = list(root.children)
    while nodes:
        node = nodes.pop()
        start = offsets.char(node.start_byte)
        if node.type == "section":
            nodes.extend(node.children)
        elif plain.endswith("\n", 0, start):
            before = plain.rfind("\n", 0, start - 1) + 1
            if not plain[before:start].strip(" \t\n"):
                found.add(start)
    return sorted(found)


@lru_cache(maxsize=1)  # the two functions above read the same text
def _tree(data: bytes) -> Tree:
    return trees.parse(_languages()[0], data)


@lru_cache(maxsize=20_000)  # an editor asks again after each change, and most text is the same
def _inline_locks(data: bytes) -> tuple[Span, ...]:
    """Return the byte spans of a block's inline content that are markup.

    A block that is too expensive is locked whole, so that the others do not depend on it.
    """
    whole = ((0, len(data)),)
    if len(data) - len(data.translate(None, _MARKS)) > _MAX_MARKS:
        return whole
    try:
        return tuple(_locked(trees.parse(_languages()[1], data).root_node))
    except Unreadable:
        return whole


def _texts(root: Node) -> Iterator[Node]:
    """Yield the blocks' inline content and the cells of tables."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type in ("inline", "pipe_table_cell"):
            yield node
        elif node.type != "ERROR":
            nodes.extend(node.children)


def _locked(root: Node) -> Iterator[Span]:
    """Yield the byte spans of inline content that are markup."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type in _LOCKED:
            yield node.start_byte, node.end_byte
        elif node.type in _LINKS:
            texts = [child for child in node.children if child.type in _LINK_TEXTS]
            whole = (node.start_byte, node.end_byte)
            yield from subtract([whole], [(each.start_byte, each.end_byte) for each in texts])
            nodes.extend(texts)
        else:
            nodes.extend(node.children)


def _spaced_breaks(text: str, editable: list[Span], locked: list[Span]) -> list[Span]:
    """Return the line breaks of blocks; a quote's mark after a break belongs to it."""
    breaks = line_breaks(text, editable)
    ends = dict(locked)
    return [(start, ends.get(end, end)) for start, end in breaks]


def _extensions(text: str, editable: list[Span], locked: list[Span]) -> list[Span]:
    """Return markup that the grammar does not know: footnotes' and admonitions' marks, attributes.

    These extensions have fixed starts, so plain comparisons find them.
    """
    found = []
    marks = dict(joined(locked))
    for start, end in editable:
        if text.startswith("[^", start) and start in marks and text.startswith(":", marks[start]):
            found.append((marks[start], marks[start] + 1))
        at = start
        while at < end:
            after = text.find("\n", at, end)
            after = end if after < 0 else after
            if text[at:after].lstrip().startswith(_BLOCK_MARKS):
                found.append((at, after))
            opening = text.find("{", at, after)
            while opening >= 0:
                closing = text.find("}", opening, after)
                if closing < 0:
                    break
                if text.startswith(_ATTRIBUTES, opening):
                    found.append((opening, closing + 1))
                opening = text.find("{", closing + 1, after)
            at = after + 1
    return found
