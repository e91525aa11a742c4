"""Write docs/solving.md from the files that `run.py` left in `results/`.

python -m experiments.solve.report
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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


def over_seeds(found: list[Record]) -> str:
    """Return the mean share that is solved over seeds with its interval, by Student's t."""
    if len(found) == 1:
        return f"{exact(found[0]):.2f} (one seed)"
    return estimate(solved_by(found))


def solved_by(found: list[Record]) -> dict[str, Any]:
    """Return the mean share that is solved over seeds, with its interval."""
    over = mean([exact(record) for record in found]).to_dict()
    low, high = over["low"] or 0.0, over["high"] or 1.0
    return over | {"low": max(0.0, low), "high": min(1.0, high)}


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


GROUPS = (mazes.BACK, mazes.DIRECT)


def row(found: list[Record], shares: list[list[float]]) -> list[str]:
    """Return the row of an arm: what it solves, shares of kinds of problems, and its cost."""
    name = NAMES[found[0]["task"]][found[0]["arm"]]
    costs = [
        [record["scores"]["ids_written"] for record in found],
        [record["scores"]["ids_read"] for record in found],
        [record["cpu_seconds"] / 60 for record in found],
    ]
    parts = [f"{sum(each) / len(each):.2f}" for each in shares]
    return [name, over_seeds(found), *parts, *(f"{sum(each) / len(each):.0f}" for each in costs)]


HEAD = ["ids written", "ids read", "CPU minutes"]


def leads(arms: Arms, best: str) -> str:
    """Return by how much an arm leads each other one."""
    names = NAMES[arms[best][0]["task"]]
    return "; ".join(f"{names[arm]} by {lead(arms, best, arm)}" for arm in arms if arm != best)


def maze_section(arms: Arms) -> Iterator[str]:
    """Yield the section on mazes."""
    first = arms["touch"][0]
    yield filled(
        page_text.MAZES,
        parameters=first["parameters"],
        ids=first["ids"] / 1e6,
        count=TESTED,
        trials=len(first["trials"]),
        chosen=tried(arms),
    )
    rows = [
        row(found, [[of_group(record, name) for record in found] for name in GROUPS])
        for found in arms.values()
    ]
    direct = sum(mazes.group(index) == mazes.DIRECT for index in range(TESTED)) / TESTED
    rows.append(["guessing", f"{direct:.2f}", "0.00", "1.00", "", "", ""])
    yield table(["", "solved", *GROUPS, *HEAD], rows)
    yield filled(page_text.AFTER_MAZES, leads=leads(arms, "touch"))
    yield curve(arms)


def curve(arms: Arms) -> str:
    """Return the table of what is solved while a model trains."""
    parts = [0.25, 0.5, 0.75, 1.0]
    rows = []
    for arm, found in arms.items():
        shares = [[at(record, part) for record in found] for part in parts]
        rows.append([NAMES[found[0]["task"]][arm], *(f"{sum(e) / len(e):.2f}" for e in shares)])
    return table(["", *(f"{part:.0%}".replace("%", " %") for part in parts)], rows)


def at(record: Record, part: float) -> float:
    """Return what was solved at the evaluation nearest to a part of the training."""
    _, share = min(record["curve"], key=lambda point: abs(point[0] - part * record["steps"]))
    return float(share)


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
    rows = [
        row(found, [[of_size(record, size) for record in found] for size in sizes])
        for found in arms.values()
    ]
    yield table(["", "solved", *sizes, *HEAD], rows)
    absent = [name for arm, name in NAMES["arithmetic"].items() if arm not in arms]
    if absent:
        yield f"Not measured yet: {', '.join(absent)}.\n"
    yield filled(page_text.AFTER_ARITHMETIC, leads=leads(arms, "refresh"))


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


def summary() -> dict[str, Any]:
    """Return what the README quotes."""
    arms = {task: records(task) for task in NAMES}
    return {
        task: {arm: solved_by(found) for arm, found in by_arm.items()}
        for task, by_arm in arms.items()
    }


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    (RESULTS / "summary.json").write_text(json.dumps(summary(), indent=1) + "\n", "utf-8")
