"""Write docs/solving.md from the files that `run.py` left in `results/`.

python -m experiments.solve.report
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.markdown import estimate, filled, table
from experiments.solve import mazes, page_text
from experiments.solve.score import TESTED, share

PAGE = Path(__file__).parents[2] / "docs" / "solving.md"
RESULTS = Path(__file__).parent / "results"
LONGEST = 177
"""Ids of the longest history in the file that the editor trains on, from its index."""
NAMES = {"touch": "touch", "revise": "revise", "cot": "search as text", "ltr": "left to right"}
"""The arms of mazes, by the names on the page."""


def records(task: str) -> list[dict[str, Any]]:
    """Return the records of a task, in the order of the arms on the page."""
    found = [json.loads(path.read_text("utf-8")) for path in RESULTS.glob(f"{task}-*-[0-9].json")]
    return sorted(found, key=lambda record: ([*NAMES].index(record["arm"]), record["seed"]))


def maze_section(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the section on mazes."""
    first = found[0]
    trials = len(first["trials"])
    absent = [name for arm, name in NAMES.items() if arm not in {each["arm"] for each in found}]
    missing = f"Not measured yet: {', '.join(absent)}.\n\n" if absent else ""
    yield filled(
        page_text.MAZES,
        parameters=first["parameters"],
        ids=first["ids"] / 1e6,
        batch=first["batch"],
        rate=first["rate"],
        count=TESTED,
        missing=missing,
        tuned=f"the rate is the best of {trials} for each arm." if trials else "no arm was tuned.",
    )
    head = ["", "seed", "solved", "needs a step back", "does not", "ids written", "CPU minutes"]
    rows = []
    for record in found:
        scores = record["scores"]
        parts = [scores[name] for name in ("exact", "with_back", "without_back")]
        rows.append(
            [
                NAMES[record["arm"]],
                str(record["seed"]),
                *(estimate(part, 3) for part in parts),
                f"{scores['ids_written']:.1f}",
                f"{record['cpu_seconds'] / 60:.1f}",
            ]
        )
    guessed = share([not mazes.needs_back(index) for index in range(TESTED)])
    rows.append(["guessing", "", estimate(guessed, 3), "0.000", "1.000", "", ""])
    yield table(head, rows)
    yield page_text.AFTER


def refresh_section(found: dict[str, Any]) -> Iterator[str]:
    """Yield the section on seeing the text again."""
    yield filled(page_text.REFRESH, context=found["context"], count=found["count"], longest=LONGEST)
    head = ["", "solved", "texts shown again, mean", "ids read"]
    rows = [
        [row["name"], estimate(row["exact"], 3), f"{row['times']:.2f}", f"{row['ids_read']:.1f}"]
        for row in found["rows"]
    ]
    yield table(head, rows)


def page() -> str:
    """Return the page."""
    parts = [page_text.INTRODUCTION, *maze_section(records("mazes"))]
    refreshed = RESULTS / "refresh.json"
    if refreshed.exists():
        parts += refresh_section(json.loads(refreshed.read_text("utf-8")))
    return "\n".join([*parts, page_text.LIMITS])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
