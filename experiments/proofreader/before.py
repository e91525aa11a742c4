"""Proofread with version 0.2.0: a process for `rivals.py`, which sets the path to its code.

    PYTHONPATH=CHECKOUT/src python before.py CHECKOUT base

Each line of standard input is a JSON list: a text, and its spans that may not change. Each line of
output is the list of changes: start, end, new text.
"""

import json
import sys

import torch

import reviser


def main() -> None:
    """Run the command."""
    checkout, base = sys.argv[1:]
    torch.set_num_threads(1)
    model = reviser.load(f"{checkout}/models/proofreader", base=base)
    for line in sys.stdin:
        text, locked = json.loads(line)
        found = model.revise(text, locked=[tuple(span) for span in locked]).changes.changes
        print(json.dumps([[each.start, each.end, each.after] for each in found]), flush=True)


if __name__ == "__main__":
    main()
