"""Write docs/solving.md from the files that `run.py` left in `results/`.

python -m experiments.solve.report
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from experiments.markdown import estimate, filled, table
from experiments.solve import arithmetic, mazes, page_text
from experiments.solve.score import TESTED, groups
from reviser.lab.evals.intervals import mean

PAGE = Path(__file__).parents[2] / "docs" / "solving.md"
RESULTS = Path(__file__).parent / "results"
NAMES = {
    "mazes": {
        "touch": "touch",
        "revise": "revise",
        "cot": "search as text",
        "ltr": "left to right",
    },
    "arithmetic": {
        "refresh": "refresh",
        "edit": "history only",
        "cot": "expressions as text",
        "steps": "steps as text",
        "ltr": "left to right",
    },
}
"""The arms of each task, by their names on the page."""
Record: TypeAlias = dict[str, Any]
Arms: TypeAlias = dict[str, list[Record]]
SIZES = {"2 to 4": (2, 4), "5 to 6": (5, 6), "7 to 8": (7, 8)}
"""Operations of the problems of arithmetic that are scored together."""


def records(task: str) -> Arms:
    """Return the records of a task by arm, one for each seed, in the order of the page."""
    found: Arms = {}
    for arm in NAMES[task]:
        paths = sorted(RESULTS.glob(f"{task}-{arm}-[0-9].json"))
        if paths:
            found[arm] = [json.loads(path.read_text("utf-8")) for path in paths]
    return found


def over_seeds(found: list[Record], value: Callable[[Record], float], digits: int = 2) -> str:
    """Return the mean over seeds with its interval, by Student's t."""
    values = [value(record) for record in found]
    if len(values) == 1:
        return f"{values[0]:.{digits}f} (one seed)"
    return estimate(mean(values).to_dict(), digits)


def exact(record: Record) -> float:
    """Return the share of the test problems that is solved."""
    share: float = record["scores"]["exact"]["value"]
    return share


def of_group(record: Record, name: str) -> float:
    """Return the share of the mazes of a group that is solved."""
    solved = [each == "1" for each in record["scores"]["solved"]]
    share: float = groups(mazes, solved)[name]["value"]
    return share


def of_size(record: Record, size: str) -> float:
    """Return the share of the problems of arithmetic of a size that is solved."""
    if size in record["sets"]:
        further: float = record["sets"][size]["value"]
        return further
    low, high = SIZES[size]
    parts = [
        share for name, share in record["scores"]["groups"].items() if low <= int(name) <= high
    ]
    return sum(part["solved"] for part in parts) / sum(part["of"] for part in parts)


def lead(arms: Arms, best: str, other: str) -> str:
    """Return by how much one arm leads another, over the seeds that both have."""
    pairs = zip(arms[best], arms[other], strict=False)
    return estimate(mean([exact(a) - exact(b) for a, b in pairs]).to_dict())


def tried(arms: Arms) -> str:
    """Return the rate and the batch of each arm, as chosen among the trials."""
    names = NAMES[next(iter(arms.values()))[0]["task"]]
    chosen = (
        f"{names[arm]} {found[0]['rate']:g} in batches of {found[0]['batch']}"
        for arm, found in arms.items()
    )
    return "; ".join(chosen)


def maze_section(arms: Arms) -> Iterator[str]:
    """Yield the section on mazes."""
    first = arms["touch"][0]
    yield filled(
        page_text.MAZES,
        parameters=first["parameters"],
        ids=first["ids"] / 1e6,
        count=TESTED,
        trials=len(first["trials"]),
        trial_ids=1.0,
        chosen=tried(arms),
    )
    head = ["", "solved", mazes.BACK, mazes.DIRECT, "ids written", "CPU minutes"]
    rows = [
        [
            NAMES["mazes"][arm],
            over_seeds(found, exact),
            *(f"{mean_of(found, lambda each, n=name: of_group(each, n)):.2f}" for name in GROUPS),
            f"{mean_of(found, lambda each: each['scores']['ids_written']):.1f}",
            f"{mean_of(found, lambda each: each['cpu_seconds'] / 60):.1f}",
        ]
        for arm, found in arms.items()
    ]
    direct = sum(mazes.group(index) == mazes.DIRECT for index in range(TESTED)) / TESTED
    rows.append(["guessing", f"{direct:.2f}", "0.00", "1.00", "", ""])
    yield table(head, rows)
    leads = {arm: lead(arms, "touch", arm) for arm in arms if arm != "touch"}
    said = "; ".join(f"{NAMES['mazes'][arm]} by {value}" for arm, value in leads.items())
    yield filled(page_text.AFTER_MAZES, leads=said)
    yield curve(arms)


GROUPS = (mazes.BACK, mazes.DIRECT)


def mean_of(found: list[Record], value: Callable[[Record], float]) -> float:
    """Return the mean of a value over the seeds."""
    return sum(map(value, found)) / len(found)


def curve(arms: Arms) -> str:
    """Return the table of what is solved while a model trains, by thousands of steps."""
    rows = []
    for arm, found in arms.items():
        points = [dict(each["curve"]) for each in found]
        common = sorted(set.intersection(*(set(each) for each in points)))
        shares = [
            f"{step / common[-1]:.0%}: {sum(each[step] for each in points) / len(points):.2f}"
            for step in common
            if step % 1000 == 0
        ]
        rows.append([NAMES[found[0]["task"]][arm], ", ".join(shares).replace("%", " %")])
    return table(["", "share of the training: share solved"], rows, numbers=False)


def arithmetic_section(arms: Arms) -> Iterator[str]:
    """Yield the section on arithmetic."""
    first = arms["refresh"][0]
    yield filled(
        page_text.ARITHMETIC,
        low=arithmetic.OPERATIONS[0],
        high=arithmetic.OPERATIONS[1],
        ids=first["ids"] / 1e6,
        count=TESTED,
        trials=len(first["trials"]),
        chosen=tried(arms),
    )
    sizes = [*SIZES, *arithmetic.LONGER]
    head = ["", "solved", *sizes, "ids written", "ids read", "CPU minutes"]
    rows = [
        [
            NAMES["arithmetic"][arm],
            over_seeds(found, exact),
            *(f"{mean_of(found, lambda each, n=size: of_size(each, n)):.2f}" for size in sizes),
            f"{mean_of(found, lambda each: each['scores']['ids_written']):.1f}",
            f"{mean_of(found, lambda each: each['scores']['ids_read']):.1f}",
            f"{mean_of(found, lambda each: each['cpu_seconds'] / 60):.1f}",
        ]
        for arm, found in arms.items()
    ]
    yield table(head, rows)
    leads = {arm: lead(arms, "refresh", arm) for arm in arms if arm != "refresh"}
    said = "; ".join(f"{NAMES['arithmetic'][arm]} by {value}" for arm, value in leads.items())
    yield filled(page_text.AFTER_ARITHMETIC, leads=said)


def refresh_section(task: str, found: Record) -> Iterator[str]:
    """Yield the section on a context that is too short."""
    longest = max(row["longest"] for row in found["rows"][:1])
    size = mazes.SIZE if task == "mazes" else 8
    yield filled(
        page_text.REFRESH[task],
        context=found["context"],
        count=found["count"],
        longest=longest,
        size=size,
    )
    head = ["", "solved", "mazes with a refresh", "ids read"]
    rows = [
        [row["name"], estimate(row["exact"], 3), f"{row['is_again']:.2f}", f"{row['ids_read']:.1f}"]
        for row in found["rows"]
    ]
    yield table(head, rows)


def page() -> str:
    """Return the page."""
    model = json.loads((RESULTS / "model.json").read_text("utf-8"))
    solved = estimate(model["scores"]["exact"], 3)
    parts = [filled(page_text.INTRODUCTION, solved=solved, count=TESTED, rate=model["rate"])]
    parts += maze_section(records("mazes"))
    if found := records("arithmetic"):
        parts += arithmetic_section(found)
    for task in page_text.REFRESH:
        path = RESULTS / f"refresh-{task}.json"
        if path.exists():
            parts += refresh_section(task, json.loads(path.read_text("utf-8")))
    return "\n".join([*parts, page_text.LIMITS])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
