"""The tables of the results page, each from the records of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.markdown import estimate, table
from reviser.lab.evals.intervals import student

RESULTS = Path(__file__).parent / "results"
BASELINE = "append"
DISTINCT_2 = ("written", "diversity", "distinct_2", "value")

Run = dict[str, Any]
"""The record of one run, as `run.py` keeps it."""


# -- cells ----------------------------------------------------------------------------------------


def over_seeds(values: list[float], digits: int = 2) -> str:
    """Return a mean with Student's 95 % interval over seeds, or a single value alone."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    half = student(len(values) - 1) * spread / math.sqrt(len(values))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def dig(run: Run, path: Sequence[str]) -> Any:
    """Return the value at a path of keys in a record, or None if there is none."""
    value: Any = run
    for name in path:
        if not value:
            return None
        value = value[int(name)] if isinstance(value, list) else value.get(name)
    return value


def figures(runs: list[Run], *path: str) -> list[float]:
    """Return one figure of every run, or nothing if a run lacks it."""
    found = [dig(run, path) for run in runs]
    return [] if None in found else found


def cell(runs: list[Run], *path: str, digits: int = 2) -> str:
    """Return one figure: over seeds if there are several, else with its own interval if any."""
    values = figures(runs, *path)
    if not values:
        return "-"
    if len(runs) == 1 and path[-1] == "value":
        return estimate(dig(runs[0], path[:-1]), digits)
    return over_seeds(values, digits)


def mean(runs: list[Run], *path: str, digits: int) -> str:
    """Return one figure without an interval, if the table needs none."""
    values = figures(runs, *path)
    return f"{fmean(values):.{digits}f}" if values else "-"


def rows_of(arms: dict[str, list[Run]]) -> list[tuple[str, list[Run]]]:
    """Return the runs of each table row: all seeds of an arm with three or more, else one run."""
    many = any(len(runs) > 1 for runs in arms.values())
    found: list[tuple[str, list[Run]]] = []
    for arm, runs in arms.items():
        if len(runs) > 2:
            found.append((f"{arm}, {len(runs)} seeds", runs))
        else:
            found += [(f"{arm}, seed {run['seed']}" if many else arm, [run]) for run in runs]
    return found


# -- arms -----------------------------------------------------------------------------------------


def scores(arms: dict[str, list[Run]]) -> str:
    """Return the held-out score of each arm under its own policy, and its order part."""
    base = {run["seed"]: run["held_out"]["nll"] for run in arms[BASELINE]}
    rows = []
    for label, runs in sorted(rows_of(arms), key=lambda r: fmean(figures(r[1], "held_out", "nll"))):
        nll = figures(runs, "held_out", "nll")
        tax = [bits * math.log(2) for bits in figures(runs, "policy", "order_tax", "value")]
        bound = "≤ " if runs[0]["policy"]["order_tax"]["kind"] == "at most" else ""
        more = [run["held_out"]["nll"] - base[run["seed"]] for run in runs if run["seed"] in base]
        rows.append(
            [
                label,
                f"{nll[0]:.3f} ± {runs[0]['held_out']['nll_95']:.3f}"
                if len(runs) == 1
                else over_seeds(nll, 3),
                f"{fmean(more):+.3f}" if more else "-",
                cell(runs, "parts", "text", digits=3),
                bound + over_seeds(tax, 3),
            ]
        )
    head = ["arm", "nats per token", "above append", "which token", "order tax"]
    return table(head, rows)


def written(arms: dict[str, list[Run]]) -> str:
    """Return the measures of the texts that each arm writes."""
    rows = []
    ratio = ("written", "ratio_to_baseline", "value")
    for label, runs in sorted(rows_of(arms), key=lambda r: fmean(figures(r[1], *ratio) or [1.0])):
        rows.append(
            [
                label,
                mean(runs, "written", "perplexity", "0", "perplexity", "value", digits=2),
                "1" if runs[0]["arm"] == BASELINE else cell(runs, *ratio, digits=3),
                mean(runs, "written", "trajectories", "actions_per_token", "value", digits=3),
                cell(runs, "written", "trajectories", "revised", "value", digits=3),
                mean(runs, *DISTINCT_2, digits=3),
                cell(runs, "written", "mauve", "0", "mauve", "value", digits=2),
            ]
        )
    head = ["arm", "evalPPL", "vs. baseline", "actions per token", "revised", "distinct-2"]
    return table([*head, "MAUVE"], rows)


# -- other experiments ----------------------------------------------------------------------------


def infilling(found: dict[str, Any]) -> str:
    """Return the table of filled gaps."""
    names = {
        "reviser": found["model"],
        "baseline": found["baseline"],
        "truth": "the true sentences",
        "nothing": "nothing",
    }
    rows = [
        [
            name,
            f"{found['systems'][system]['characters']:.0f}",
            *(estimate(found["systems"][system].get(part), 3) for part in ("fill", "after")),
            estimate(found["truth"].get(system), 3),
        ]
        for system, name in names.items()
    ]
    head = ["filled by", "characters", "the fill", "the text after it"]
    return table([*head, "the true sentences, under this model"], rows)


def checks() -> str:
    """Return the table of other judges and real stories."""
    rows = []
    for path in sorted((RESULTS / "checks").glob("*.json")):
        found = json.loads(path.read_text("utf-8"))
        for prompts in ("world", "TinyStories"):
            for n, ratio in enumerate(found[prompts]["ratio"]):
                sides = found[prompts]["perplexity"]
                theirs = sides[next(name for name in sides if name.startswith(BASELINE))][n]
                ours = sides[next(name for name in sides if not name.startswith(BASELINE))][n]
                rows.append(
                    [
                        f"{path.stem}, {prompts}, {ours['scorer']['model']}",
                        estimate(ours["bits_per_character"], 3),
                        estimate(theirs["bits_per_character"], 3),
                        estimate(ratio["ratio"], 3),
                    ]
                )
    head = ["run, prompts from, judge", "bits per character", "the baseline's", "evalPPL, ratio"]
    return table(head, rows)
