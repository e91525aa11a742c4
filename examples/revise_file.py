"""Correct a file: python examples/revise_file.py FILE MODEL.

Prints a diff of all changes, and writes FILE.revised with those that the model is sure of. MODEL
must be trained to edit; see recipes/revise.yaml.
"""

import sys
from pathlib import Path

import reviser


def main(file: str, model: str) -> None:
    draft = Path(file).read_text("utf-8")
    with reviser.load(model) as editor:
        changes = editor.revise(draft).changes
    print(changes.unified(file), end="")
    sure = changes.only(lambda change: change.logprob > -3)
    Path(f"{file}.revised").write_text(sure.text, "utf-8")
    print(f"kept {len(sure)} of {len(changes)} changes")


if __name__ == "__main__":
    main(*sys.argv[1:])
