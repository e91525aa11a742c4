"""Which parts of `just full` a change touches: `python -m support.affected`.

`just full` runs everything; once it has passed, `--record` writes a hash of the files that each
part covers into `.ci/full-run.json`, which is committed. A part is touched when its files have
another hash now. So no commit has to be named, and the answer is the same in a fresh, shallow or
rebased clone. What is touched runs in the gate, from the top of the table, as long as the expected
minutes stay within the cap; the rest is listed, with the advice to run `just full`.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RECORD = ROOT / ".ci" / "full-run.json"
CAP = 5.0
"""Minutes that touched parts may add to the gate."""


class Part(NamedTuple):
    """A part of `just full` that the gate leaves out."""

    target: str
    minutes: float
    """Expected, on one core of its own."""
    sources: tuple[str, ...]
    """Files and folders that it covers."""


def tests_of(name: str, minutes: float, *more: str) -> Part:
    """Return the part that tests one package at length."""
    own = (f"src/reviser/{name}", f"tests/{name}")
    return Part(f"test-full tests/{name}", minutes, (*own, *more))


PARTS = (
    Part("golden proofreader", 2, ("src/reviser/core", "src/reviser/engines", "src/reviser/markup",
                                   "src/reviser/models", "src/reviser/writing",
                                   "models/proofreader", "tests/golden",
                                   "tests/support/golden.py")),
    Part("coverage", 4, ("src/reviser/core", "src/reviser/trajectories", "tests/core",
                         "tests/trajectories", "tests/support/naive.py",
                         "tests/support/naive_policy.py")),
    tests_of("core", 3, "tests/support/slow_mask.py"),
    tests_of("writing", 8),
    tests_of("corpus", 4, "src/reviser/writing", "experiments/scale/corpus.py",
             "recipes/corpus_servers.py"),
    tests_of("train", 4),
    tests_of("serve", 3),
    tests_of("data", 2),
    tests_of("models", 1),
    tests_of("markup", 2),
    tests_of("engines", 1),
    tests_of("lab", 4, "src/reviser/train"),
    tests_of("player", 2),
    tests_of("cli", 1),
    Part("vscode-if-npm", 1, ("editors/vscode", "src/reviser/lsp")),
    tests_of("export", 8, "models/stories-revise"),
    Part("test-full tests/test_examples.py", 2, ("examples", "tests/test_examples.py")),
    Part("test-full tests/experiments", 2, ("experiments", "tests/experiments")),
    Part("test-full tests/test_docs.py tests/test_site.py", 2, ("docs", "mkdocs.yml", "README.md")),
    Part("test-full tests/test_notebooks.py", 4, ("docs/notebooks",)),
    Part("package", 3, ("pyproject.toml", "tests/support/package.py")),
    Part("test-core", 3, ("pyproject.toml", "src/reviser/core", "src/reviser/trajectories")),
    Part("test-vllm-all", 8, ("requirements/vllm-cpu.txt", "src/reviser/engines", "tests/engines",
                          "tests/support/vllm_runs.py")),
    Part("search", 10, ("src/reviser/core", "src/reviser/trajectories")),
)  # fmt: skip


def hash_of(sources: tuple[str, ...]) -> str:
    """Return a hash of the names and contents of all tracked files among the sources."""
    words = ["git", "ls-files", "-z", "--", *sources]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = hashlib.sha256()
    for name in sorted(filter(None, listed.split("\0"))):
        path = ROOT / name
        content = path.read_bytes() if path.is_file() else b""  # deleted, and not yet committed
        found.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def touched() -> list[Part]:
    """Return the parts whose files differ from those of the last full run that passed."""
    before = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {}
    return [part for part in PARTS if before.get(part.target) != hash_of(part.sources)]


def choose(parts: list[Part], cap: float = CAP) -> tuple[list[Part], list[Part]]:
    """Split touched parts into those that fit into the cap and those left for `just full`."""
    chosen: list[Part] = []
    left: list[Part] = []
    for part in parts:
        fits = sum(each.minutes for each in chosen) + part.minutes <= cap
        (chosen if fits else left).append(part)
    return chosen, left


def record() -> None:
    """Write what a full run has covered."""
    hashes = {part.target: hash_of(part.sources) for part in PARTS}
    RECORD.write_text(json.dumps(hashes, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the touched parts that fit, or record a full run; return 0 if all passed."""
    if arguments == ["--record"]:
        record()
        print(f"Commit {RECORD.relative_to(ROOT)}: it says what this full run has covered.")
        return 0
    if not RECORD.is_file():
        print("No full run is recorded yet, so nothing can be compared. Run `just full` once.")
        return 0
    chosen, left = choose(touched())
    status = 0
    for part in chosen:
        print(f"touched since the last full run: just {part.target}", flush=True)
        status |= subprocess.run(["just", *shlex.split(part.target)], cwd=ROOT).returncode
    for part in left:
        print(f"touched, but more than {CAP:.0f} minutes in all: just {part.target}")
    if left:
        print("Run `just full` before a release, and commit the record that it writes.")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
