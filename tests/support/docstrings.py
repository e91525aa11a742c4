"""Docstrings that open with a fragment: `python -m support.docstrings FOLDER...` lists them.

A function's docstring starts with a verb. The docstring of a module, class, property or field says
what the thing is, so it may start with an article. None starts with a preposition or a question
word.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ARTICLES = (
    "a an the all any each every both one two three some no its it their his this that these those"
    " same such"
)
OPENERS = (
    "what which who whom whose whoever when where wherever why how whether if as so and or but than"
    " then of in on at to for with without by from into onto over under between through during"
    " about behind beside before after against among around inside outside upon within until since"
    " more most much many less least fewer few nothing something everything not never only"
    " also"
)
PROPERTIES = frozenset({"property", "cached_property", "setter"})


class Docstring(NamedTuple):
    """A docstring, where it is, and whether it belongs to a function."""

    path: Path
    line: int
    text: str
    is_function: bool

    @property
    def is_fragment(self) -> bool:
        """True if it opens with a word that it should not open with."""
        words = self.text.split()
        first = words[0].strip("`\"'.,:;()").lower() if words else ""
        return first in OPENERS.split() or (self.is_function and first in ARTICLES.split())


def docstrings(folder: Path) -> Iterator[Docstring]:
    """Yield every docstring below a folder, those of fields included."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if text := ast.get_docstring(node):
                    yield Docstring(path, node.body[0].lineno, text, _is_function(node))
                yield from _of_fields(path, node.body)


def _is_function(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    names = {getattr(each, "attr", getattr(each, "id", "")) for each in node.decorator_list}
    return not names & PROPERTIES


def _of_fields(path: Path, body: list[ast.stmt]) -> Iterator[Docstring]:
    """Yield the strings that stand right after an assignment."""
    for before, after in pairwise(body):
        if not isinstance(before, ast.Assign | ast.AnnAssign) or not isinstance(after, ast.Expr):
            continue
        if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            yield Docstring(path, after.lineno, after.value.value, is_function=False)


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        for each in docstrings(Path(folder)):
            if each.is_fragment:
                print(f"{each.path}:{each.line}: {each.text.splitlines()[0]}")
