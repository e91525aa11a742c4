"""Records of predictions and measurements, shared by the checks."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from experiments.scale.inputs import RESULTS
from reviser.provenance import made_with

Values = Sequence[float]


def middle(values: Values) -> dict[str, float]:
    """Return the median and the range."""
    return {"value": statistics.median(values), "low": min(values), "high": max(values)}


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the processor seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


class Record:
    """The findings of one check, printed as they come and kept as JSON."""

    def __init__(self, name: str) -> None:
        self.path = RESULTS / f"{name}.json"
        self.rows: list[dict[str, Any]] = []
        self.rates: dict[str, Any] = {}
        self.calibration: dict[str, Any] = {}

    def compare(self, what: str, size: str, unit: str, predicted: Values, found: Values) -> None:
        """Add and print one row: the prediction, the measurement and their ratio."""
        ratios = [a / b for a, b in zip(found, predicted, strict=True)]
        row = {"what": what, "size": size, "unit": unit, "predicted": middle(predicted)}
        row |= {"measured": middle(found), "ratio": middle(ratios), "runs": len(ratios)}
        self.rows.append(row)
        ratio = row["ratio"]
        print(
            f"{what:34s} {size:26s} predicted {row['predicted']['value']:12.5g} measured"
            f" {row['measured']['value']:12.5g} {unit:14s} ratio {ratio['value']:.3f}"
            f" [{ratio['low']:.3f}, {ratio['high']:.3f}]",
            flush=True,
        )

    def rate(self, name: str, values: Values) -> float:
        """Add, print and return a measured rate, which is an input of the model."""
        self.rates[name] = middle(values)
        print(f"{name:34s} {self.rates[name]['value']:.5g}", flush=True)
        return float(self.rates[name]["value"])

    def save(self) -> None:
        """Write the findings, and add the rates to those of the other checks."""
        made = made_with("numpy", "torch", "transformers") | {"load": os.getloadavg()[0]}
        RESULTS.mkdir(parents=True, exist_ok=True)
        content = {"rows": self.rows, "calibration": self.calibration, "made": made}
        self.path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        path = RESULTS / "rates.json"
        known = json.loads(path.read_text("utf-8"))["rates"] if path.is_file() else {}
        path.write_text(json.dumps({"rates": known | self.rates}, indent=1) + "\n", "utf-8")
