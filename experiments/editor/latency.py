"""Measure the language server: from an edit to its diagnostics, the first check, and memory.

    python -m experiments.editor.latency
    python -m experiments.editor.latency --words 600 --one-paragraph

It starts a real `reviser lsp` for each document, talks to it over standard input and output with a
real language client, and makes edits of several kinds at random positions. Times do not include
the pause in typing that the server waits for. Run it from the root of the repository, with `tests`
in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Sequence
from itertools import islice
from pathlib import Path

import psutil
from lsprotocol import types

from experiments.proofreader.letters import read
from support.language_client import Editor, editing

TEXTS = Path(__file__).parents[1] / "proofreader" / "texts"
UNJUDGED = 1.0
"""Seconds without a sign of the judge after which a text is taken to be judged."""
KINDS = ("word", "typo", "sentence", "fix")
SENTENCES = (
    "We will look at it again next week.",
    "I dont think that this are enough.",
    "She told me about it in the morning, before the meeting.",
    "Please let us know weather you can come.",
    "It were much better then the last time.",
)
WORDS = ("really", "old", "the", "two", "their", "often")


def document(words: int, *, one_paragraph: bool) -> str:
    """Return a text with mistakes: marked texts, as they were before they were corrected."""
    texts = [read(path).draft for path in sorted((TEXTS / "marked").glob("*.txt"))]
    texts += [path.read_text("utf-8") for path in sorted((TEXTS / "clean").glob("*.txt"))]
    whole = "\n\n".join(texts)
    last = next(islice(re.finditer(r"\S+", whole), words - 1, None))
    text = whole[: last.end()]
    return " ".join(text.split()) if one_paragraph else text + "\n"


async def edit(editor: Editor, kind: str, rng: random.Random) -> None:
    """Make one edit; a fix is made by `apply`."""
    found = list(re.finditer(r"\b[a-z]{4,}\b", editor.text))
    word = rng.choice(found)
    if kind == "word":
        editor.change(word.start(), word.start(), f"{rng.choice(WORDS)} ")
    elif kind == "typo":
        swapped = {word[0][:n] + word[0][n + 1] + word[0][n] + word[0][n + 2 :]
                   for n in range(len(word[0]) - 1)} - {word[0]}  # fmt: skip
        editor.change(*word.span(), rng.choice(sorted(swapped)))
    else:
        ends = [each.end() for each in re.finditer(r"[a-z][.!?](?=\s)", editor.text)]
        at = rng.choice(ends)
        editor.change(at, at, f" {rng.choice(SENTENCES)}")


async def offered(editor: Editor, rng: random.Random) -> list[types.TextEdit]:
    """Return the edit of one of the suggestions that are shown, or none."""
    actions = await editor.actions([types.CodeActionKind.QuickFix])
    edits = [each.edit.changes[editor.uri] for each in actions
             if each.is_preferred and each.edit and each.edit.changes]  # fmt: skip
    return list(rng.choice(edits)) if edits else []


async def apply(editor: Editor, edits: list[types.TextEdit]) -> None:
    """Accept a suggestion."""
    editor.apply(edits)


async def checked(
    editor: Editor, change: Awaitable[None], *, seconds: float = UNJUDGED
) -> tuple[float, float]:
    """Make a change; return the seconds until what is sure is shown, and until all is judged.

    After the judge's last diagnostics, the server reports the end of its progress. If it begins
    none, the text was judged before.
    """
    editor.progress.clear()
    start = time.perf_counter()
    await change
    version = editor.version
    await editor.until(lambda it: it.shown_version == version, 600)
    sure = time.perf_counter() - start
    try:
        await editor.until(lambda it: bool(it.progress), seconds)
    except TimeoutError:
        return sure, sure
    await editor.until(lambda it: it.progress[-1]["kind"] == "end", 3600)
    return sure, time.perf_counter() - start


def processor(editor: Editor) -> float:
    """Return the processor time of a server, in seconds; other load changes it little."""
    times = process(editor).cpu_times()
    return float(times.user + times.system)


def process(editor: Editor) -> psutil.Process:
    """Return a server's process."""
    assert editor.client._server is not None
    return psutil.Process(editor.client._server.pid)


def middle_and_late(values: Sequence[float]) -> str:
    """Return the median and the 95th percentile of some times."""
    late = statistics.quantiles(values, n=20, method="inclusive")[-1]
    return f"{statistics.median(values):.2f} | {late:.2f}"


async def measured(words: int, edits: int, seed: int, *, one_paragraph: bool) -> str:
    """Return a row of the table, for a document of its own."""
    rng = random.Random(seed)
    text = document(words, one_paragraph=one_paragraph)
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / ".reviser.toml").write_text("delay = 0.0\n")
        async with editing(Path(name) / "text.txt", "reviser", "lsp") as editor:
            first = await checked(editor, editor.open(text), seconds=600)
            first_cpu = processor(editor)
            times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
            cpu = []
            for number in range(edits):
                kind = KINDS[number % len(KINDS)]
                fixes = await offered(editor, rng) if kind == "fix" else []
                before = processor(editor)
                kind = "typo" if kind == "fix" and not fixes else kind
                found = await checked(
                    editor, apply(editor, fixes) if fixes else edit(editor, kind, rng)
                )
                times[kind].append(found)
                cpu.append(processor(editor) - before)
            memory = process(editor).memory_info().rss
    for kind, some in times.items():
        if len(some) > 1:
            print(f"    {kind}: judged p50 | p95 {middle_and_late([each[1] for each in some])}")
    pairs = [each for some in times.values() for each in some]
    cells = [f"{words:,}{' in one paragraph' * one_paragraph}", f"{first[1]:.1f}",
             f"{first_cpu:.1f}", middle_and_late([each[0] for each in pairs]),
             middle_and_late([each[1] for each in pairs]), middle_and_late(cpu),
             f"{memory / 1e6:.0f}"]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Measure the language server.")
    parser.add_argument("--words", type=int, nargs="+", default=[150, 600, 2_000])
    parser.add_argument("--one-paragraph", action="store_true")
    parser.add_argument("--edits", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| words | first check, s | CPU s | sure p50 | p95 | judged p50 | p95 |"
          " CPU s of an edit p50 | p95 | MB |")  # fmt: skip
    for words in given.words:
        print(asyncio.run(measured(words, given.edits, given.seed,
                                   one_paragraph=given.one_paragraph)), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
