"""Trees of tree-sitter, parsed within a budget, for texts that anybody may have written.

The grammars can read the same text again and again. How often is counted, and not measured in
seconds, so a text has the same locks on any machine.
"""

from __future__ import annotations

import re

from tree_sitter import Language, Parser, Tree

from reviser.markup.spans import Unreadable

_CHUNK = 256
"""Bytes that a parser reads at once."""
_READS, _MORE_READS = 20, 200
"""Reads for each chunk of a text, and more for any text. Usual documents need less than four."""

_NESTING = re.compile(r"^(?:[ \t]|>|(?:[-+*]|[0-9#]{1,9}[.)])(?=[ \t]|$))*", re.MULTILINE)
"""Indentation and the marks of quotes and lists, which open blocks inside each other."""
_DEEPEST = 90
"""Columns of that in a line. The grammars have room for about 100 and 250 open blocks and do not
check it: with more, they write over other memory, or never end."""


def shallow(text: str) -> str:
    r"""Return a text of the same length whose lines are blank if they are nested too deep.

    >>> shallow("a\n" + 100 * ">" + "b").split("\n") == ["a", 101 * " "]
    True
    """
    deep = [
        match.start()
        for match in _NESTING.finditer(text)
        if len(match[0]) * 8 > _DEEPEST and len(match[0].expandtabs()) > _DEEPEST
    ]
    if not deep:
        return text
    parts, at = list[str](), 0
    for start in deep:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        parts += [text[at:start], " " * (end - start)]
        at = end
    return "".join([*parts, text[at:]])


def parse(language: Language, data: bytes) -> Tree:
    """Return the tree of a text, or raise Unreadable."""
    left = _MORE_READS + _READS * len(data) // _CHUNK

    def read(offset: int, _: object) -> bytes:
        nonlocal left
        left -= 1
        # A parser cannot be stopped, but it returns soon if the text seems to end.
        return data[offset : offset + _CHUNK] if left >= 0 else b""

    # Threads cannot share a parser that calls Python. A new one takes microseconds.
    tree = Parser(language).parse(read)
    if left < 0:
        raise Unreadable
    return tree
