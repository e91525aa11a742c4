"""Sections of a report on the origin of its numbers: settings, training, versions, hashes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reviser.lab.evals import paper
from reviser.lab.evals.intervals import REPEATS
from reviser.lab.evals.page import NOTHING, Cell, Interval, code_block, escape, table
from reviser.lab.evals.texts import REFERENCE

Record = dict[str, Any]
UNKNOWN = "not known"


# -- names -----------------------------------------------------------------------------------------


def systems_of(record: Record) -> list[Record]:
    """Return the systems that were compared, without the documents."""
    return [system for system in record["systems"] if system["name"] != REFERENCE]


def listed(record: Record) -> str:
    """Return the names of the systems for a sentence."""
    names = [escape(system["name"]) for system in systems_of(record)]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def name_of(system: Record) -> str:
    """Return a system's name on the page."""
    return "the documents" if system["name"] == REFERENCE else str(system["name"])


def _flat(content: Any) -> str:
    """Format a setting of any kind on one line."""
    if isinstance(content, dict):
        return ", ".join(f"{name} {_flat(part)}" for name, part in content.items())
    return ", ".join(map(_flat, content)) if isinstance(content, list) else str(content)


def features_name(about: Record) -> str:
    """Describe the features of MAUVE."""
    return f"{about['model']}, {about['features']}, {about['max_tokens']} tokens"


def judge_name(about: Record) -> str:
    """Return the name of a judge."""
    return str(about.get("model") or about["judge"])


def sides_name(match: Record) -> str:
    """Describe in which order pairs were shown."""
    return "both sides" if match["order"] == "both" else "sides at random"


# -- the paper's setting ---------------------------------------------------------------------------

SETTINGS = {
    "training_data": "Training data",
    "trunk": "Model",
    "policy": "Order of writing in training",
    "trained_on": "Trained on",
    "documents": "Documents",
    "lengths": "Prefix and length",
    "texts": "Texts",
    "decoding": "Decoding",
    "scorer": "Scorer of evalPPL",
    "mauve": "MAUVE's features",
    "judge": "Judge",
}


def setting(_: Record) -> Iterator[str]:
    """Show the setting in which the paper's numbers were made."""
    columns = [asdict(each) for each in paper.SETTING.values()]
    rows = [[label, *(each[name] for each in columns)] for name, label in SETTINGS.items()]
    note = (
        "The paper's numbers are next to the ones measured here. They compare only as far as the"
        " settings of this evaluation, at the end of the page, are the same."
    )
    yield table("Settings of the paper", ["", *paper.SETTING], rows, note)


# -- where the numbers come from -------------------------------------------------------------------


def training(record: Record) -> Iterator[str]:
    """Describe what each model was trained on, and how well it predicts."""
    runs = {
        s["name"]: _run(s["model"]["training"])
        for s in record["systems"]
        if s["model"] and s["model"]["training"]
    }
    if not runs:
        yield "The record holds no system that was trained here."
        return
    names = dict.fromkeys(name for column in runs.values() for name in column)
    rows = [[name, *(column.get(name, NOTHING) for column in runs.values())] for name in names]
    yield table("Runs", ["", *runs], rows, "NLL is in nats per text token.")


def _run(training: Record) -> dict[str, Cell]:
    recipe, seen, metrics = training["recipe"], training["seen"], training["metrics"]
    sources = recipe["data"]["text"] or [recipe["data"]["shards"]]
    found: dict[str, Cell] = {
        "Training data": ", ".join(Path(str(source)).name for source in sources),
        "Started from": _flat(recipe["base"] or "random weights"),
        "Trunk": _flat(recipe["trunk"] or "that of the base"),
        "Order of writing": _flat(recipe["policy"]).removeprefix("kind "),
        "Steps": f"{recipe['training']['steps']:,}",
        "Examples seen": f"{seen['examples']:,}",
        "Edit-history tokens seen": f"{seen['ids']:,}",
        "Text tokens seen": f"{seen['text_tokens']:,}",
    }
    for name, value in metrics.items():
        if not name.startswith("eval_") or name.endswith("_95"):
            continue
        kind = name.removeprefix("eval_").replace("_", " ")
        label = kind[:1].upper() + kind[1:].replace("nll", "NLL")
        found[label] = f"{int(value):,}" if name.endswith("_tokens") else f"{value:.3f}"
        if (half := metrics.get(f"{name}_95")) is not None:
            ends = {"value": value, "low": value - half, "high": value + half}
            how = {"method": "1.96 standard errors, as the run reports"}
            found[label] = Interval(ends | how)
    found["Commit"] = training["commit"] or UNKNOWN
    return found


def examples(record: Record) -> Iterator[str]:
    """Show some texts of every system, by prompt."""
    yield "The first texts of each system, not chosen. They say what a model made up."
    prompts: dict[str, list[tuple[str, str]]] = {}
    for system in record["systems"]:
        for example in system["examples"]:
            written = (name_of(system), example["continuation"])
            prompts.setdefault(example["prompt"], []).append(written)
    for prompt, texts in prompts.items():
        for name, text in [("Prompt", prompt), *texts]:
            yield f"**{escape(name)}**\n\n{code_block(text)}"


METHODS = {
    "none": "some draws of prompts have no tokens at all",
    "bootstrap-t": f"{REPEATS} draws of whole prompts, each in its own standard errors",
    "Student's t": "mean and standard error over prompts, Student's tails",
    "BCa bootstrap": f"{REPEATS} draws of whole prompts, corrected for bias and skew",
    "jackknife": "each prompt left out in turn, Student's tails",
    "Wilson": "Wilson's score interval of a share",
    "Wilson, clustered": "Wilson's score interval, prompts counted for what they tell beyond one",
    "one value": "a single prompt, which tells nothing of the spread",
}


MEASURED = ("perplexity", "mauve", "diversity", "trajectories", "cost", "examples")
"""Parts of a system that other sections show."""


def provenance(record: Record) -> Iterator[str]:
    """List versions, hashes and settings, and how intervals are made."""
    systems = record["systems"]
    matches = [c["arena"] for c in record["comparisons"] if c["arena"]]
    origin = {
        "made_with": record["made_with"],
        "data": record.get("data", UNKNOWN),
        "protocol": record.get("protocol", UNKNOWN),
        "systems": [
            {name: _untrained(part) for name, part in system.items() if name not in MEASURED}
            for system in systems
        ],
        "scorers": _unique(each["scorer"] for s in systems for each in s["perplexity"]),
        "features": _unique(each["features"] for s in systems for each in s["mauve"]),
        "judges": _unique(match["judge"] for match in matches),
    }
    yield code_block(json.dumps(origin, indent=1), language="json")
    counts = Counter(_methods(record))
    yield table(
        "How the intervals are made",
        ["Method", "What it does", "Estimates"],
        [[name, METHODS.get(name, UNKNOWN), f"{n:,}"] for name, n in sorted(counts.items())],
        "All are meant to hold the true value 95 times of 100.",
    )


def _untrained(part: Any) -> Any:
    """Return a part of a system without its model's training, which has its own section."""
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name != "training"}


def _unique(found: Iterable[Record]) -> list[Record]:
    return list({json.dumps(each, sort_keys=True): each for each in found}.values())


def _methods(content: Any) -> Iterator[str]:
    """Yield the method of every estimate within a record."""
    if isinstance(content, dict) and content.keys() == {"value", "low", "high", "n", "method"}:
        yield content["method"]
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _methods(part)
