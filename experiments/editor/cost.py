"""Measure the language server: from a keystroke to its diagnostics, the first check, and memory.

    python -m experiments.editor.cost model MODEL
    python -m experiments.editor.cost table

`model` starts a real server for each file and talks to it over standard input and output with a
real language client; `table` prints the results for the guide. Run it from the root of the
repository, with `tests` in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil

from reviser.lsp.documents import Positions
from reviser.markup import locked_spans
from support.language_client import Editor, editing

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
PAGES = ("docs/design/*.md", "docs/guides/*.md", "docs/*.md", "docs/reference/*.md", "README.md")
END = "This is teh end."
"""The last paragraph, whose diagnostic shows that the first check is over."""


def document(words: int, mistakes: int) -> str:
    """Return Markdown of a number of words: pages of this repository, with some typing mistakes."""
    names = [name for pattern in PAGES for name in sorted(ROOT.glob(pattern))]
    blocks = "\n\n".join(name.read_text("utf-8") for name in names).split("\n\n")
    lengths = accumulate(len(block.split()) for block in blocks)
    kept = [block for block, length in zip(blocks, lengths, strict=True) if length <= words]
    text = "\n\n".join(kept)
    if text.count("```") % 2:  # cut inside of a block of code
        text += "\n```"
    places = [n for n in range(len(text)) if text.startswith(" the ", n)]
    step = max(1, len(places) // max(1, mistakes))
    for place in places[::step][:mistakes]:
        text = text[:place] + " teh " + text[place + 5 :]
    return f"{text}\n\n{END}\n"


def targets(text: str, rng: random.Random) -> list[int]:
    """Return offsets of the word "the" in paragraphs of usual size, in random order."""
    found, at = [], 0
    locked = {n for span in locked_spans(text, "markdown") for n in range(*span)}
    for block in text.split("\n\n"):
        place = at + block.find(" the ") + 1
        if 150 < len(block) < 600 and " the " in block and not {place, place + 2} & locked:
            found.append(place)
        at += len(block) + 2
    rng.shuffle(found)
    return found


async def opened(editor: Editor, text: str, limit: float) -> tuple[float, float, float | None]:
    """Return the seconds until the server is ready, its processor time, and the first check.

    The first check is the time until the last paragraph of a text has its diagnostic, or None if
    that takes longer than the limit.
    """
    ready = await _opened(editor, "This is teh start.\n", 600)
    assert ready is not None
    spent = processor(editor)
    editor.uri = editor.uri.replace(".md", "-whole.md")
    editor.diagnostics = []
    return ready, spent, await _opened(editor, text, limit)


async def _opened(editor: Editor, text: str, limit: float) -> float | None:
    start = time.perf_counter()
    await editor.open(text)
    last = text.count("\n") - 1
    try:
        await editor.until(
            lambda it: any(each.range.start.line == last for each in it.diagnostics), limit
        )
    except TimeoutError:
        return None
    return time.perf_counter() - start


async def typed(
    editor: Editor, offset: int, wrong: str, seconds: float = 60
) -> tuple[float, float] | None:
    """Make a typing mistake; return the seconds until known and new suggestions are shown.

    The mistake replaces the word "the" and is undone afterwards. None if the model suggests nothing
    there.
    """
    position = Positions(editor.text).range(offset, offset + 3).start
    start = time.perf_counter()
    editor.change(offset, offset + 3, wrong)
    version = editor.version
    await editor.until(lambda it: it.shown_version == version, seconds)
    known = time.perf_counter() - start
    try:
        await editor.until(
            lambda it: any(each.range.start == position for each in it.diagnostics), seconds
        )
    except TimeoutError:
        return None
    finally:
        new = time.perf_counter() - start
        editor.change(offset, offset + len(wrong), "the")
        version = editor.version
        await editor.until(lambda it: it.shown_version == version, seconds)
    return known, new


def process(editor: Editor) -> psutil.Process:
    """Return a server's process."""
    assert editor.client._server is not None
    return psutil.Process(editor.client._server.pid)


def memory(editor: Editor) -> int:
    """Return the memory of a server's process, in bytes."""
    return process(editor).memory_info().rss


def processor(editor: Editor) -> float:
    """Return the processor time of a server, in seconds; other load does not change it."""
    times = process(editor).cpu_times()
    return times.user + times.system


def summary(seconds: list[float]) -> dict[str, float]:
    """Return the distribution of times, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {
        "p50_ms": round(1000 * statistics.median(seconds), 2),
        "p95_ms": round(1000 * cuts[-1], 2),
        "least_ms": round(1000 * min(seconds), 2),
        "count": len(seconds),
    }


async def with_model(
    model: str, sizes: list[int], keystrokes: int, limit: float
) -> list[dict[str, Any]]:
    """Measure a real model, one file after the other.

    A first check that takes longer than the limit continues while keystrokes are measured.
    """
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".reviser.toml").write_text("delay = 0.0\n")
        for words in sizes:
            text = document(words, words // 250)
            file = folder / f"{words}.md"
            async with editing(
                file, "reviser", "lsp", "--judge", str(Path(model).absolute())
            ) as editor:
                loading, before, first = await opened(editor, text, limit)
                spent = processor(editor)
                # A check goes from the start to the end, so the last suggestion shows how far.
                last = max((each.range.end.line for each in editor.diagnostics), default=0)
                checked = len(" ".join(text.split("\n")[: last + 1]).split())
                row: dict[str, Any] = {
                    "words": words, "characters": len(text),
                    "suggestions": len(editor.diagnostics), "loading_s": round(loading, 1),
                    "first_check_s": first and round(first, 1), "limit_s": limit,
                    "words_checked": checked, "processor_s": round(spent - before, 1),
                    "memory_mb": round(memory(editor) / 1e6),
                }  # fmt: skip
                print(row, flush=True)
                places = targets(text, random.Random(words))[:keystrokes]
                found = []
                for place in places:
                    found.append(await typed(editor, place, "teh"))
                    print(found[-1], flush=True)
                row["not_suggested"] = found.count(None)
                times = [each for each in found if each is not None]
                row["known"] = summary([known for known, _ in times])
                row["checked"] = summary([new for _, new in times])
                row["memory_after_mb"] = round(memory(editor) / 1e6)
                rows.append(row)
    return rows


def table() -> str:
    """Return the results as the editor guide has them."""
    model = json.loads((RESULTS / "model.json").read_text("utf-8"))
    rows = ["| words | keystrokes | p50 | p95 | memory |", "|--:|--:|--:|--:|--:|"]
    for row in model["files"]:
        times = row["checked"]
        cells = [f"{row['words']:,}", str(times["count"])]
        cells += [f"{times[key] / 1000:.1f} s" for key in ("p50_ms", "p95_ms")]
        rows.append(f"| {' | '.join([*cells, format(row['memory_after_mb'], ',') + ' MB'])} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Measure the language server.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("model", help="a real model")
    run.add_argument("model")
    run.add_argument("--words", type=int, nargs="+", default=[500, 5_000])
    run.add_argument("--keystrokes", type=int, default=40)
    run.add_argument("--limit", type=float, default=36_000, help="seconds for the first check")
    commands.add_parser("table", help="print the results as the guide has them")
    given = parser.parse_args()
    if given.command == "table":
        print(table(), end="")
        return
    found = {
        "model": given.model,
        "files": asyncio.run(with_model(given.model, given.words, given.keystrokes, given.limit)),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{given.command}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
