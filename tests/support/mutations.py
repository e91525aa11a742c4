"""Break the library on purpose, and see that a test notices: `python -m support.mutations`.

Each entry of tests/mutations changes one place of the source and names the tests that must then
fail. Entries stand for tests that were deleted because these notice the same mistake. Arguments
select the entries whose file or test contains one of them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from support.paths import ROOT

SOURCE = ROOT / "src" / "reviser"
FAILED = 1
"""Status of pytest if tests failed; others mean that it could not run them."""


class Mutation(NamedTuple):
    """One change of the source, and what notices it."""

    file: str
    """Path below src/reviser."""
    old: str
    new: str
    test: str
    """Arguments for pytest: files or tests, and options such as -k."""

    def apply(self, folder: Path) -> None:
        """Change a copy of the source."""
        path = folder / self.file
        text = path.read_text("utf-8")
        times = text.count(self.old)
        assert times == 1, f"{self.file} has {self.old!r} {times} times"
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")

    def is_noticed(self) -> bool:
        """Return whether the test fails with the changed source."""
        with tempfile.TemporaryDirectory() as made:
            package = shutil.copytree(
                SOURCE, Path(made, "reviser"), ignore=shutil.ignore_patterns("__pycache__")
            )
            self.apply(package)
            paths = [made, str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
            command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider"]
            done = subprocess.run(
                [*command, *self.test.split()],
                cwd=ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                capture_output=True, text=True,
            )  # fmt: skip
        # A crash of Python has the status of failed tests, but no count of them.
        has_run = done.returncode in (0, FAILED) and re.search(
            r"\d+ (passed|failed|error)", done.stdout
        )
        assert has_run, f"{self.test}\n{done.stdout[-2000:]}{done.stderr}"
        return done.returncode == FAILED


def read() -> list[Mutation]:
    """Return all entries."""
    paths = sorted((ROOT / "tests" / "mutations").glob("*.toml"))
    tables = [tomllib.loads(path.read_text("utf-8")) for path in paths]
    return [Mutation(**fields) for table in tables for fields in table["mutation"]]


def main(chosen: list[str]) -> int:
    """Replay the entries; return how many were not noticed."""
    survivors = 0
    mutations = [
        each for each in read()
        if not chosen or any(word in each.file or word in each.test for word in chosen)
    ]  # fmt: skip
    for mutation in mutations:
        began = time.monotonic()
        noticed = mutation.is_noticed()
        survivors += not noticed
        outcome = "noticed " if noticed else "SURVIVED"
        seconds = time.monotonic() - began
        print(f"{outcome} {seconds:4.0f} s  {mutation.file}: {mutation.new!r}"[:150], flush=True)
    print(f"{len(mutations) - survivors} of {len(mutations)} mutations were noticed")
    return survivors


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
