"""The text that people read, and the words that it avoids: `python -m support.prose` lists them.

`passages` yields the prose of pages, docstrings, comments and messages, without code. `AVOID` maps
patterns to better words. The list is short on purpose: each pattern is a habit of this project's
early text that made readers stop.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = ("*.md", "docs/**/*.md", "models/*/README.md", "experiments/**/*.md")
SOURCES = ("src/**/*.py", "docs/*.py", "experiments/**/*.py")
NOTEBOOKS = ("docs/notebooks/*.ipynb",)
RECIPES = ("recipes/*.yaml", "mkdocs.yml", "justfile")

AVOID = {
    r"anew": "again, from scratch",
    r"(?:stays?|left|kept|used|calls it|written) as (?:it is|they are)|what is what": "unchanged",
    r"behind(?! (?:nginx|a (?:URL|proxy)|X))": "after",
    r"(?<!/)beside(?!/)": "next to",
    r"whoever|whomever": "the caller, the client, a process",
    r"(?:go|goes|going|went) on": "continue",
    r"hold(?:s|ing)? up(?! to)": "delay",
    r"in the mean(?!time)": "on average",
    r"(?<!there )is no (?!longer|more|less|better|faster|way|need)\w+": "is not a ...",
    r"learnt": "learned",
    r"lessons?": "training example",
    r"likeliest": "most likely",
    r"mend(?:s|ed|ing)?": "fix",
    r"moving pictures?": "GIF",
    r"rooms?(?! for)|doors?": "module, package, entry point",
    r"shall|thereby|wherein": "plain words",
    r"stands? (?:beside|under|there|here|where)": "is",
    r"the most (?:actions|tokens|ids)": "the action limit",
    r"to the (?:byte|letter)": "exactly",
    r"told|untold": "printed, reported, logged",
    r"twins?": "baseline",
    r"(?:actions|edits|ids|requests|steps|tokens|times) an? (?:line|second|step|token)": "per",
    r"w(?:rite|rites|riting|rote|ritten) on(?! (?:the|a|an|disk|one|it))": "continue",
}
ANY = re.compile(rf"\b(?:{'|'.join(AVOID)})\b", re.IGNORECASE)
PATTERNS = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): hint for words, hint in AVOID.items()}

_FENCE = r"^( *)```.*?^\1```|<!--.*?-->"
_BLOCK = re.compile(_FENCE, re.DOTALL | re.MULTILINE)
_CODE = re.compile(rf"{_FENCE}|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
_PROMPT = r"^ *(?:>>>|\.\.\.).*(?:\n *[^ \n>].*)*"
_DOCTEST = re.compile(_PROMPT, re.MULTILINE)
_IN_DOCSTRING = re.compile(rf"{_PROMPT}|``?[^`]*``?", re.MULTILINE)


class Passage(NamedTuple):
    """Some prose, and where it is."""

    path: Path
    line: int
    text: str

    @property
    def faults(self) -> list[str]:
        """Each phrase to avoid, with its replacement."""
        if not ANY.search(self.text):
            return []
        return [
            f"{self.path.relative_to(ROOT)}:{self.line}: {found[0]!r}: write {hint}"
            for pattern, hint in PATTERNS.items()
            for found in pattern.finditer(self.text)
        ]


def passages(*, with_code: bool = False) -> Iterator[Passage]:
    """Yield all prose: paragraphs of pages, docstrings, comments and messages.

    By default, code inside a sentence is replaced by X.
    """
    for path in files(*PAGES):
        yield from _of_page(path, path.read_text("utf-8"), _BLOCK if with_code else _CODE)
    for path in files(*NOTEBOOKS):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                text = "".join(cell["source"])
                yield from _of_page(path, text, _BLOCK if with_code else _CODE)
    for path in files(*SOURCES):
        yield from _of_source(path, _DOCTEST if with_code else _IN_DOCSTRING)
    for path in files(*RECIPES):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if found := re.search(r"#\s+(.*)", line):
                yield Passage(path, number, found[1])


def without_code(text: str) -> str:
    """Return Markdown without its code and link targets."""
    return _CODE.sub("", text)


def files(*patterns: str) -> list[Path]:
    """Return the files of some patterns, in order."""
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})


def _of_page(path: Path, text: str, code: re.Pattern[str]) -> Iterator[Passage]:
    """Yield the lines of a page, with code replaced by a placeholder."""
    text = code.sub(lambda found: "X" + "\n" * found[0].count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield Passage(path, number, line)


def _of_source(path: Path, code: re.Pattern[str]) -> Iterator[Passage]:
    """Yield the docstrings, comments and messages of a module."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in joined for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) not in parts and (words := _string(node)):
            prose = code.sub("X", words)
            if len(re.findall(r"[a-z]{2,}", prose)) > 1:
                yield Passage(path, node.lineno, " ".join(prose.split()))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(path, token.start[0], token.string.lstrip("# "))


def _string(node: ast.AST) -> str:
    """Return the text of a string or an f-string, with `...` for its values."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_string(part) or "..." for part in node.values)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else ""


if __name__ == "__main__":
    for passage in passages():
        print(*passage.faults, sep="\n", end="\n" if passage.faults else "")
