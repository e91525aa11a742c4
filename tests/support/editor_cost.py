"""Measure the language server: seconds from a change to its diagnostics, by the document's length.

PYTHONPATH=src:tests:. python -m support.editor_cost [CHANGES]

The model is a stub, so that this is the cost of everything but the model: the client, the protocol,
the parser and the cache. One word of one paragraph changes each time.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from support.language_client import Editor, with_editor

SIZES = (500, 5_000, 50_000)
PARAGRAPH = 50
"""Words in a paragraph."""


def page(words: int) -> str:
    """Return a Markdown document with a heading, a list and code in each section."""
    blocks = []
    for n in range(words // PARAGRAPH):
        text = " ".join(f"word{n} and *some* `code` of [a link](http://a.b/{n})".split() * 5)
        mark = ("", "- ", "> ", "## ")[n % 4]
        blocks.append(f"{mark}{text} {n}.")
        if n % 5 == 0:
            blocks.append("```py\nx = 1\n```")
    return "\n\n".join([*blocks, "The last paragraph is fine.", ""])


def measure(words: int, changes: int, folder: Path) -> dict[str, float]:
    """Return the seconds of the first check, and of changes in the last paragraph."""
    found: dict[str, float] = {}
    log = folder / f"log{words}"

    async def work(editor: Editor) -> None:
        await editor.open("Start teh model.")
        await editor.until(lambda it: len(it.diagnostics) == 1)
        text = page(words) + "It is teh end.\n"
        start = time.perf_counter()
        editor.change(0, len(editor.text), text)
        await editor.until(lambda it: it.marked() == ["teh"] and it.text == text, 600)
        found["first check"] = time.perf_counter() - start
        log.write_text("")
        times = []
        for n in range(changes):
            start = time.perf_counter()
            if n % 2 == 0:
                at, wanted = len(editor.text) - 1, 2
                editor.change(at, at, f" See teh {n}.")
            else:
                at, wanted = editor.text.rindex(" See teh"), 1
                editor.change(at, len(editor.text) - 1, f" Now {n}.")
            await editor.until(lambda it, wanted=wanted: len(it.diagnostics) == wanted, 600)
            times.append(time.perf_counter() - start)
        times.sort()
        found["p50"] = times[len(times) // 2]
        found["p95"] = times[int(len(times) * 0.95)]
        found["read"] = float(len([json.loads(line) for line in log.read_text().splitlines()]))

    with_editor(work, folder / "page.md", seconds=1200, REVISER_TEST_LOG=str(log))
    return found


def main(changes: int = 20) -> None:
    """Print one row for each size, with ratios to the smallest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".reviser.toml").write_text("delay = 0\n")
        print("words  first check, s  change p50, ms  p95, ms  ratio  paragraphs read")
        base = 0.0
        for words in SIZES:
            found = measure(words, changes, folder)
            base = base or found["p50"]
            print(
                f"{words:>6}  {found['first check']:14.2f}  {1000 * found['p50']:14.1f}"
                f"  {1000 * found['p95']:7.1f}  {found['p50'] / base:5.1f}  {found['read']:15.0f}"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
