"""Count what one sentence passes through: functions, files and calls, in each thread.

    python -m experiments.speed.one_sentence JUDGE

The proofreader is opened and used once before, so that only the work for the sentence counts.
Functions are those of the library, with and without comprehensions. PYTHONPATH names another
version's `src`.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import reviser

SENTENCE = "I dont know where he is. Its a nice day, but he are gone."
LIBRARY = str(Path(reviser.__file__).parent)


def main(name: str) -> None:
    """Print a line for each thread."""
    calls: dict[str, Counter[tuple[str, str, int]]] = defaultdict(Counter)

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(LIBRARY):
            place = code.co_filename, code.co_qualname, code.co_firstlineno
            calls[threading.current_thread().name][place] += 1

    threading.setprofile(count)  # the engine's thread starts with the first question
    with reviser.proofreader(name) as model:
        model.revise("Hello there.")
        calls.clear()
        sys.setprofile(count)
        model.revise(SENTENCE)
        sys.setprofile(None)
    for thread, places in calls.items():
        files = {file for file, _, _ in places}
        named = sum(not name.endswith(">") for _, name, _ in places)
        print(
            f"{thread}: {len(places)} functions ({named} with a name) in {len(files)} files,"
            f" {places.total():,} calls"
        )


if __name__ == "__main__":
    main(sys.argv[1])
