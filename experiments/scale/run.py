"""Predict data, training and serving at the paper's size, at 10T tokens and 1,000 requests/s.

    python -m experiments.scale.run                                      # print every prediction
    python -m experiments.scale.run check --text TEXT --tokenizer GPT2   # measure and compare
    python -m experiments.scale.report                                   # write the page

`check` measures the rates of this machine, predicts runs of two or more sizes, does them and prints
prediction, measurement and their ratio. It counts processor seconds of one core where possible,
because the machine may be shared; latencies of requests are wall time, calibrated right before.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from experiments.scale.inputs import (
    LLAMA_8B,
    PAPER_300M,
    RUNS,
    Accelerator,
    Corpus,
    Rates,
    Service,
    Storage,
)
from experiments.scale.model import data_plan, device_memory, loading, training
from experiments.scale.serving import MASKS, fleet


def predict() -> None:
    """Print every prediction."""
    machine, storage, corpus, service = Accelerator(), Storage(), Corpus(), Service()
    rates = Rates.load()
    for run in RUNS:
        found = data_plan(run, corpus, rates, machine, storage)
        found |= loading(run, corpus, rates, machine, storage)
        found |= training(run, machine, storage) | device_memory(run)
        print(run.name, json.dumps(found, indent=1))
    for trunk in (PAPER_300M, LLAMA_8B):
        for mask in MASKS:
            print(trunk.name, mask, json.dumps(fleet(trunk, service, machine, rates, mask)))


def check(text: Path, tokenizer: Path, rounds: int, only: Sequence[str] | None) -> None:
    """Measure, predict, run and compare; only what a check needs is imported."""
    chosen = only or ("core", "data", "training", "serving")
    if "core" in chosen:
        from experiments.scale.check_core import check_core

        check_core(rounds)
    if "data" in chosen:
        from experiments.scale.check_data import check_data

        check_data(text, tokenizer, rounds)
    if "training" in chosen:
        from experiments.scale.check_training import check_training

        check_training()
    if "serving" in chosen:
        from experiments.scale.check_serving import check_serving

        check_serving(rounds)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    checking = commands.add_parser("check", help="Measure, predict, run and compare.")
    checking.add_argument("--text", type=Path, required=True, help="Plain text, 8 MB or more.")
    checking.add_argument("--tokenizer", type=Path, required=True, help="A tokenizer's folder.")
    checking.add_argument("--rounds", type=int, default=3)
    checking.add_argument("--only", nargs="*", help="core, data, training, serving")
    given = parser.parse_args(words)
    if given.command == "check":
        check(given.text, given.tokenizer, given.rounds, given.only)
    else:
        predict()


if __name__ == "__main__":
    main()
