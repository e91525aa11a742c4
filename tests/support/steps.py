"""Run `just` targets side by side and report the time of each: `python -m support.steps A B ... Z`.

The last target, the main pytest run, writes as it goes. Those before it run one after the other at
the same time, and each writes when it is done. Every target runs, whatever becomes of the others.
The times follow at the end, and after them the summary line of the main run, which is held back.
`REVISER_STEPS` may name steps that ran before, for instance `install=93`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

SUMMARY = re.compile(r"=+ .*\b(?:passed|failed|errors?|no tests ran|deselected)\b.* in [\d.]+s")


class Result(NamedTuple):
    """How one target went."""

    target: str
    seconds: float
    status: int


def output_of(target: str, results: list[Result]) -> Iterator[str]:
    """Run a target and yield the lines that it writes; its result is appended to a list."""
    began = time.monotonic()
    with subprocess.Popen(
        ["just", *shlex.split(target)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield from process.stdout
    results.append(Result(target, time.monotonic() - began, process.returncode))


def write(*lines: str) -> None:
    """Write whole lines at once, so that two threads do not mix theirs."""
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


def run_in_background(targets: list[str], results: list[Result]) -> threading.Thread:
    """Run targets one after the other in a thread."""

    def run() -> None:
        for target in targets:
            lines = list(output_of(target, results))
            _, seconds, status = results[-1]
            outcome = f"failed with status {status}" if status else "passed"
            write(f"--- {target}: {outcome} after {seconds:.0f} s\n", *lines)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def table(results: list[Result]) -> Iterator[str]:
    """Yield the time of each step."""
    yield "--- time of each step (those before the last ran at the same time as it)\n"
    for target, seconds, status in results:
        yield f"{seconds:7.0f} s  {target}{f'  FAILED with status {status}' if status else ''}\n"


def main(targets: list[str]) -> int:
    """Run the targets; return 0 if all of them passed."""
    before = [pair.partition("=") for pair in os.environ.get("REVISER_STEPS", "").split()]
    results = [Result(name, float(seconds), 0) for name, _, seconds in before]
    began = time.monotonic()
    background = run_in_background(targets[:-1], results)
    summary, last = "", []
    for line in output_of(targets[-1], last):
        if SUMMARY.match(line):
            summary = line
        else:
            write(line)
    background.join()
    results += last
    total = sum(float(seconds) for _, _, seconds in before) + time.monotonic() - began
    write(*table(results), f"{total:7.0f} s  in all\n", summary)
    return int(any(result.status for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
