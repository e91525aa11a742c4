"""Documents that try to break or stall the parsers: `python -m support.hostile_documents 5000`.

Each is drawn from a seed: one or several pieces of markup repeated thousands of times, pieces in
any order, nested blocks, or a real document with changes. `attempt` finds its locked spans, checks
them, and returns how much processor time that took.
"""

from __future__ import annotations

import gc
import logging
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from reviser.markup import Format, locked_spans, prose, segment_starts
from reviser.markup.spans import complement, joined

ROOT = Path(__file__).parents[2]
PIECES: dict[str, list[str]] = {
    "any": [
        "a", "a ", "word ", " ", "\t", "\n", "\n\n", "\r", "\r\n", "\x00", "\x01", "\x0c",
        "\x7f", "\u200b", "\u2028", "\ud800", "é", "😀", "中", ":", "::", "http://a.b/", "http://",
        "//", "://", "@", "a@b.c ", "a@", "mailto:", "(", "((", ")", "-", ".", "!", "\"", "'",
        "\\",
    ],
    "markdown": [
        "*a ", "_a ", "**a*", "*", "**", "***", "_", "~", "~~a ", "[", "[a](", "](", "![", "[a]",
        "[^a]", "[a]: b\n", "[a](b) ", "[a](<", "<", "<a ", "<a>", "</a>", "<!--", "-->", "<?",
        "`", "``", "`a", "```\n", "~~~\n", "$", "$$", "{", "{:", "{ a", "}", "&", "&amp;", "> ",
        ">", "- ", "- a\n", "* ", "1. ", "1. a\n", "   - a\n", "# ", "a\n=\n", "---\n", "+++\n",
        "|", "| a | b |\n", "|-|\n", "<div>\n", "<script>\n", "!!! a\n", "    a\n", "- [ ] a\n",
        "> - ",
    ],
    "rst": [
        ".. ", ".. note::\n\n   a\n\n", ".. note:: a\n\n   ", ".. a::\n", ".. _a: b\n",
        "a::\n\n", "*a ", "**a", "``", "``a", "`a`_ ", "`<a>`_", "`", "a_ ", "|a| ", "|",
        "[1]_ ", "[a", ":a:`", ":a: b\n", ":", "- a\n", "1. ", "(a) ", "#. ", "a\n=\n",
        "=== ===\n", "+-+\n", "| a\n", ">>> a\n", "   a\n", "__ a\n", "--a\n", "_`a` ",
    ],
    "latex": [
        "{", "}", "{a", "\\", "\\a", "\\a{", "\\a{b}", "\\a[", "[", "]", "\\begin{x}",
        "\\end{x}", "\\begin{", "\\begin{verbatim}", "\\begin{document}", "\\verb|", "$", "$a$",
        "$$", "\\(", "\\[", "\\)", "%", "%a\n", "&", "#", "~", "^", "\\item ", "\\section{",
        "\\emph{", "\\frac{", "\\frac", "\\sqrt[", "\\\\", "\\newcommand{", "\\left(",
    ],
    "code": [
        "# a\n", "# *a ", "# ", "#", "\"\"\"", "'''", "\"\"\"a\"\"\"\n", "\"a\n", "f\"{", "f'{a",
        "r\"", "\\N{", "\\u", "\\\n", "(", "[", "{", "}", "def f():\n", "class A:\n", "@", "0x",
        ">>> a\n", "x#a\n", "import a\n", "match a:\n", "/*", "*/", "/**", "// a\n", "<!--",
        "${", "`", "<<A\n", "=begin\n", "0", "1_", "%(a)", "{a!r",
    ],
}  # fmt: skip
NAMES: dict[Format, list[str]] = {
    "text": ["a.txt"],
    "markdown": ["a.md"],
    "rst": ["a.rst"],
    "latex": ["a.tex"],
    "code": ["a.py", "a.py", "a.c", "a.js", "a.html", "a.rs", "a.rb", "a.go", "a.sh", "a.java"],
}
SOURCES: dict[Format, list[str]] = {
    "text": ["LICENSE", "docs/concepts.md"],
    "markdown": ["README.md", "CHANGELOG.md", "docs/guides/revise.md", "docs/concepts.md"],
    "rst": [],
    "latex": [],
    "code": [
        "src/reviser/writing/prompts.py",
        "src/reviser/markup/code.py",
        "src/reviser/serve/assets/client.js",
    ],
}
RST = (
    "Title\n=====\n\nSome *emph* and ``code``, :ref:`label`, http://a.b/c.\n\n- bullet\n\n"
    ".. note:: Take care.\n\n   A body with ``code``\n   goes on.\n\n.. code-block:: python\n\n"
    "   x = 1\n\nEnds with::\n\n    literal\n\n:param x: the thing\n\n>>> 1 + 1\n2\n\n"
    "=====  =====\nA      B\n=====  =====\n\n"
)
LATEX = (
    "\\documentclass{article}\n% a comment\n\\begin{document}\n\\section{My title}\nText"
    " \\emph{word} and $x+y$, \\[ a \\] see \\ref{sec:a}. \\href{http://x}{a link}.\n"
    "\\begin{itemize}\n\\item one\n\\end{itemize}\n\\begin{lstlisting}\ncode { here\n"
    "\\end{lstlisting}\nLast \\verb|x y| words.\n\\end{document}\n"
)
SECONDS_PER_KB, MORE_SECONDS = 0.15, 2.0
"""Processor time that no document may exceed, even on a slow machine."""


def _real(language: Format) -> list[str]:
    texts = [
        path.read_text("utf-8") for name in SOURCES[language] if (path := ROOT / name).exists()
    ]
    return texts or [RST * 5 if language == "rst" else LATEX * 3]


def document(rng: Random, size: int = 20_000) -> tuple[str, Format, str]:
    """Return a text of about `size` characters at most, its format and a file name."""
    language = rng.choice([*NAMES])
    name = rng.choice(NAMES[language])
    pieces = PIECES["any"] + 3 * PIECES.get(language, PIECES["markdown"])
    size = rng.choice((100, 1000, size // 4, size))
    make = rng.choice((_repeated, _repeated, _mixed, _nested, _changed, _changed))
    text = make(rng, pieces, size, language)
    if language == "code" and rng.random() < 0.5:  # the text of comments is read as Markdown
        inner = make(rng, PIECES["markdown"] + PIECES["rst"], size, "markdown")
        text = f'"""{inner}"""\n' if rng.random() < 0.5 else "# " + inner.replace("\n", "\n# ")
    return text, language, name


def _repeated(rng: Random, pieces: list[str], size: int, _: Format) -> str:
    """Return one piece, or a few, repeated, with something before and after."""
    unit = "".join(rng.choices(pieces, k=rng.choice((1, 1, 1, 2, 3, 5))))
    before, after = rng.choices(["", "", "a ", rng.choice(pieces)], k=2)
    return before + unit * max(1, size // len(unit)) + after


def _mixed(rng: Random, pieces: list[str], size: int, _: Format) -> str:
    some = rng.sample(pieces, k=rng.randint(2, 12))
    return "".join(rng.choices(some, k=size // 3))


def _nested(rng: Random, pieces: list[str], size: int, _: Format) -> str:
    """Return lines, each further inside than the one before."""
    piece, step = rng.choice(pieces).rstrip("\n"), rng.choice((" ", "  ", "   ", "\t", "> ", "- "))
    gap = rng.choice(("\n", "\n\n", "\n\n\n"))
    depth = int((2 * size / len(step)) ** 0.5)
    return gap.join(step * n + piece for n in range(depth))


def _changed(rng: Random, pieces: list[str], size: int, language: Format) -> str:
    """Return a part of a real document with pieces inserted, and parts removed or repeated."""
    text = rng.choice(_real(language))
    start = rng.choice((0, rng.randrange(len(text))))
    text = text[start : start + size]
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((1, 10, 300)))
        new = rng.choice(("", text[at:end] * rng.choice((2, 20)), rng.choice(pieces),
                          rng.choice(pieces) * rng.choice((10, 500))))  # fmt: skip
        text = text[:at] + new + text[rng.choice((at, end)) :]
    if rng.random() < 0.2:
        text = text.replace("\n", rng.choice(("\r\n", "\r", " ")))
    return text[: 2 * size]


# -- attempts ---------------------------------------------------------------------------------


def attempt(text: str, language: Format, name: str) -> float:
    """Find and check the locked spans of a document; return the seconds of processor time."""
    started = time.process_time()
    spans = locked_spans(text, language, name)
    starts = segment_starts(text, language)
    seconds = time.process_time() - started
    assert all(0 <= start < end <= len(text) for start, end in spans), "within the text"
    assert all(one[1] < two[0] for one, two in pairwise(spans)), "in order and apart"
    assert starts[0] == 0, starts
    assert all(one < two for one, two in pairwise(starts)), starts
    assert starts[-1] <= len(text), starts
    # What is used instead of a parser has to take any text.
    editable = joined(prose.editable_spans(text))
    assert complement(complement(editable, len(text)), len(text)) == editable
    assert seconds < MORE_SECONDS + SECONDS_PER_KB * len(text) / 1000, f"{seconds:.1f} s"
    return seconds


_watching: list[list[str]] = []
"""Where the hook below writes, while `watched` is active: a hook cannot be removed."""


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in ("exec", "compile"):
        # Importing a lexer runs code as well, but that is in a file of an installed package.
        source = getattr(arguments[0], "co_filename", arguments[-1])
        if Path(str(source)).is_file() or str(source).startswith("<frozen"):
            return
    elif event == "open":
        mode = str(arguments[1] or "r")
        if not {*"wax+"} & {*mode} or "__pycache__" in str(arguments[0]):
            return
    elif not event.startswith(("subprocess", "os.system", "os.exec", "os.spawn", "os.posix_spawn",
                               "socket", "ctypes", "pickle", "shutil", "os.remove",
                               "os.rename")):  # fmt: skip
        return
    _watching[-1].append(f"{event} {str(arguments)[:200]}")


@contextmanager
def watched() -> Iterator[list[str]]:
    """Yield a list that gets what is executed, written or sent meanwhile."""
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    _watching.append([])
    try:
        yield _watching[-1]
    finally:
        _watching.pop()


_hooked: list[bool] = []


def main(count: int, seed: int = 0, size: int = 20_000) -> int:
    """Attempt as many documents as asked; print every fault, the worst time and the memory."""
    logging.getLogger("reviser.markup").setLevel(logging.ERROR)
    faults, rates = 0, list[tuple[float, float, int, int, str]]()
    for each in NAMES.values():
        for name in each:
            attempt("a\n", next(key for key, names in NAMES.items() if name in names), name)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    executed = list[str]()
    for n in range(seed, seed + count):
        text, language, name = document(Random(n), size)
        try:
            with watched() as events:
                seconds = attempt(text, language, name)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            faults += 1
            last = "".join(traceback.format_exception(error)[-3:])
            print(f"-- {n} {name} {len(text)} {text[:60]!r}", last)
        else:
            # The time of a short text is that of the first call, not of its characters.
            rate = 1000 * seconds / max(2.0, len(text) / 1000)
            rates.append((rate, seconds, n, len(text), name))
        executed += events
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    for event in executed:
        print("executed:", event)
    rates.sort(reverse=True)
    for rate, seconds, n, length, name in rates[:5]:
        print(f"  {rate:.1f} ms per kB: seed {n}, {name}, {length:,} characters, {seconds:.2f} s")
    middle = rates[len(rates) // 2][0] if rates else 0
    print(f"{count} documents: {faults} faults, {len(executed)} executions; worst"
          f" {rates[0][0] if rates else 0:.1f} ms of processor time per kB, median {middle:.1f};"
          f" memory grew by {grown} MB at most")  # fmt: skip
    return min(faults + len(executed), 1)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
