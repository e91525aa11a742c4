"""Trees of tree-sitter, parsed within a budget.

The grammars can read the same text again and again. How often is counted, and not measured in
seconds, so a text has the same locks on any machine.
"""

from __future__ import annotations

from tree_sitter import Language, Parser, Tree

from reviser.markup.spans import PastBudget

_CHUNK = 256
"""Bytes that a parser reads at once."""
_READS, _MORE_READS = 20, 200
"""Reads for each chunk of a text, and more for any text. Usual documents need less than four."""


def parse(language: Language, data: bytes) -> Tree:
    """Return the tree of a text, or raise PastBudget."""
    left = _MORE_READS + _READS * len(data) // _CHUNK

    def read(offset: int, _: object) -> bytes:
        nonlocal left
        left -= 1
        # A parser cannot be stopped, but it returns soon if the text seems to end.
        return data[offset : offset + _CHUNK] if left >= 0 else b""

    # Threads cannot share a parser that calls Python. A new one takes microseconds.
    tree = Parser(language).parse(read)
    if left < 0:
        raise PastBudget
    return tree
