"""Sections on the origin of the numbers: settings, training, sample texts, versions, hashes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reviser.lab.evals import paper
from reviser.lab.evals.intervals import REPEATS
from reviser.lab.evals.report.format import (
    NOTHING,
    UNKNOWN,
    Record,
    estimates,
    features_name,
    flat,
    interval,
    judge_name,
    large,
    make_table,
    policy_name,
    say,
    sides_name,
    system_name,
    systems_of,
    whole,
)
from reviser.lab.evals.report.page import (
    Block,
    Heading,
    Span,
    Table,
    Texts,
    Words,
    words,
)

ROWS = {
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


def differences(record: Record) -> Iterator[Block]:
    """Compare our settings with the paper's."""
    yield Heading("What differs from the paper")
    yield say(
        "The paper's numbers are next to the ones measured here. They were made in another"
        " setting, and compare only as far as this table allows."
    )
    columns = {system["name"]: _setting(record, system) for system in systems_of(record)}
    if len({json.dumps(each, sort_keys=True) for each in columns.values()}) == 1:
        columns = {"this evaluation": next(iter(columns.values()))}
    columns |= {f"paper, {size}": asdict(each) for size, each in paper.SETTING.items()}
    yield make_table(
        "Settings",
        ["", *columns],
        [
            [words(label), *(words(each[name]) for each in columns.values())]
            for name, label in ROWS.items()
        ],
        prose=True,
    )


def _setting(record: Record, system: Record) -> dict[str, str]:
    """Return what the record says about each row of the table."""
    model, protocol = system["model"], record.get("protocol") or {}
    training = model and model["training"]
    recipe = training["recipe"] if training else None
    found = dict.fromkeys(ROWS, UNKNOWN)
    found["texts"] = f"{whole(system['samples'])}: {whole(system['prompts'])} prompts"
    if record.get("data"):
        found["documents"] = str(record["data"])
    if "min_tokens" in protocol:
        bounds = f"documents of {protocol['min_tokens']} to {protocol['max_tokens']} tokens"
        known = found["documents"]
        found["documents"] = bounds if known == UNKNOWN else f"{known}, {bounds}"
        prefix, total = protocol["prefix_tokens"], protocol["total_tokens"]
        found["lengths"] = f"prefix of {prefix} tokens, {total} tokens in all"
        seeds = protocol["seeds"]
        if system["samples"] == len(seeds) * protocol["prompts"]:
            found["texts"] = (
                f"{whole(system['samples'])}: {whole(protocol['prompts'])} prompts for each of"
                f" {len(seeds)} seeds ({', '.join(map(str, seeds))}), of which"
                f" {whole(system['prompts'])} differ"
            )
    if model:
        found["trunk"] = _trunk(model, recipe)
    if recipe:
        found |= _trained(recipe, training["seen"])
    if system["engine"]:
        found["decoding"] = _decoding(system["decoding"])
    scorers = [each["scorer"]["model"] for each in system["perplexity"]]
    found["scorer"] = "; ".join(scorers) or "none was asked"
    features = [each["features"] for each in system["mauve"]]
    found["mauve"] = "; ".join(features_name(each) for each in features) or "not measured"
    matches = [c["arena"] for c in record["comparisons"] if c["arena"]]
    judges = dict.fromkeys(f"{judge_name(m['judge'])}, {sides_name(m)}" for m in matches)
    found["judge"] = "; ".join(judges) or "none was asked"
    return found


def _trunk(model: Record, recipe: Record | None) -> str:
    size, trunk = f"{large(model['parameters'])} parameters", recipe and recipe["trunk"]
    if trunk and {"layers", "width", "heads"} <= trunk.keys():
        return f"{size}: {trunk['layers']} layers, width {trunk['width']}, {trunk['heads']} heads"
    return f"{size}: {model['architecture']}"


def _trained(recipe: Record, seen: Record) -> dict[str, str]:
    data = recipe["data"]
    sources = data["text"] or [data["shards"]]
    found = {
        "training_data": ", ".join(Path(str(source)).name for source in sources),
        "policy": policy_name(recipe["policy"]),
        "trained_on": f"{large(seen['ids'])} edit-history tokens, of which"
        f" {large(seen['text_tokens'])} of text",
    }
    if recipe["base"]:
        found["training_data"] += f"; before that, what {flat(recipe['base'])} was trained on"
    return found


def _decoding(config: Record | None) -> str:
    if config is None:
        return "not the same for all texts"
    parts = [f"temperature {config['temperature']:g}"]
    parts.append(f"top-k {config['top_k']}" if config["top_k"] else "no top-k")
    parts.append(f"top-p {config['top_p']:g}" if config["top_p"] < 1 else "no top-p")
    parts.append(f"at most {config['max_actions']} actions")
    if config["max_length"] is not None:
        parts.append(f"texts of at most {config['max_length']} tokens")
    usual = {"min_p": 0.0, "max_edits": None, "max_moves": None, "stop_bias": 0.0, "move_bias": 0.0}
    found = usual | config  # a record may be older than a setting
    parts += [f"{name} {found[name]}" for name, value in usual.items() if found[name] != value]
    return ", ".join(parts)


# -- training --------------------------------------------------------------------------------------

OF_A_RUN = "1.96 standard errors, as the run reports"


def training(record: Record) -> Iterator[Block]:
    """Describe what each model was trained on, and how well it predicts."""
    yield Heading("Training")
    systems = [s for s in record["systems"] if s["model"] and s["model"]["training"]]
    if not systems:
        yield say("The record holds no system that was trained here.")
        return
    columns = [_run(system["model"]["training"]) for system in systems]
    names = dict.fromkeys(name for column in columns for name in column)
    yield make_table(
        "Runs",
        ["", *(system["name"] for system in systems)],
        [
            [words(name), *(column.get(name, words(NOTHING)) for column in columns)]
            for name in names
        ],
        note=words("NLL is in nats per text token. "),
        prose=True,
    )


def _run(training: Record) -> dict[str, Words]:
    recipe, seen, metrics = training["recipe"], training["seen"], training["metrics"]
    found = {
        "Order of writing": words(policy_name(recipe["policy"])),
        "Steps": words(whole(recipe["training"]["steps"])),
        "Examples seen": words(whole(seen["examples"])),
        "Edit-history tokens seen": words(whole(seen["ids"])),
        "Text tokens seen": words(whole(seen["text_tokens"])),
    }
    for name, value in metrics.items():
        kind = name.removeprefix("eval_").replace("_", " ")
        if not name.startswith("eval_") or name.endswith("_95"):
            continue
        half = metrics.get(f"{name}_95")
        cell = words(whole(int(value)) if name.endswith("_tokens") else f"{value:.3f}")
        if half is not None:
            ends = {"value": value, "low": value - half, "high": value + half}
            cell = (Span(interval(ends), title=OF_A_RUN, kind="number"),)
        found[kind[:1].upper() + kind[1:].replace("nll", "NLL")] = cell
    found["Commit"] = words(training["commit"] or UNKNOWN)
    return found


# -- texts and versions ----------------------------------------------------------------------------


def examples(record: Record) -> Iterator[Block]:
    """Show some texts of every system, by prompt."""
    yield Heading("Texts")
    yield say("The first texts of each system, not chosen. They say what a model made up.")
    prompts: dict[str, list[tuple[str, str]]] = {}
    for system in record["systems"]:
        for example in system["examples"]:
            written = (system_name(system), example["continuation"])
            prompts.setdefault(example["prompt"], []).append(written)
    for prompt, texts in prompts.items():
        yield Texts(prompt=prompt, written=tuple(texts))


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


def provenance(record: Record) -> Iterator[Block]:
    """List versions, hashes and settings, and how intervals are made."""
    yield Heading("Where this comes from")
    made = record["made_with"]
    rows = [(name, str(version)) for name, version in made["versions"].items()]
    rows += [("Python", str(made["python"])), ("Machine", str(made["machine"]))]
    rows += [("Commit", str(made["commit"] or UNKNOWN))]
    yield _facts("Made with", rows)
    for system in record["systems"]:
        yield _facts(f"System: {system_name(system)}", _origin(system))
    for title, about in _models(record):
        yield _facts(title, [(name, _setting_text(name, value)) for name, value in about.items()])
    counts = Counter(found["method"] for found in estimates(record))
    yield make_table(
        "How the intervals are made",
        ["Method", "What it does", "Estimates"],
        [
            [words(name), words(METHODS.get(name, UNKNOWN)), words(whole(count))]
            for name, count in sorted(counts.items())
        ],
        prose=True,
        note=words("All are meant to hold the true value 95 times of 100."),
    )


def _facts(caption: str, rows: Sequence[tuple[str, str]]) -> Table:
    return make_table(caption, ["", "Value"], [[words(a), words(b)] for a, b in rows], prose=True)


def _origin(system: Record) -> list[tuple[str, str]]:
    found = [
        ("Texts", whole(system["samples"])),
        ("Prompts", whole(system["prompts"])),
        ("Empty continuations", whole(system["empty"])),
        ("SHA-256 of the texts", system["texts"]),
    ]
    if model := system["model"]:
        names = ("architecture", "parameters", "dtypes", "context", "tokenizer")
        found += [(f"Model's {name}", flat(model[name])) for name in names]
    if system["engine"]:
        found.append(("Engine", str(system["engine"])))
        found.append(("Decoding", flat(system["decoding"] or "not the same for all texts")))
        found.append(("Stop reasons", flat(system["stopped"])))
    return found


def _models(record: Record) -> Iterator[tuple[str, Record]]:
    """Yield each scorer, kind of features and judge once, with its description."""
    seen: list[tuple[str, Record]] = []
    for system in record["systems"]:
        seen += [(f"Scorer: {e['scorer']['model']}", e["scorer"]) for e in system["perplexity"]]
        seen += [(f"Features: {e['features']['model']}", e["features"]) for e in system["mauve"]]
    for comparison in record["comparisons"]:
        if match := comparison["arena"]:
            seen.append((f"Judge: {judge_name(match['judge'])}", match["judge"]))
    for n, each in enumerate(seen):
        if each not in seen[:n]:
            yield each


def _setting_text(name: str, value: Any) -> str:
    if name == "template":
        return f"SHA-256 {hashlib.sha256(str(value).encode()).hexdigest()}"
    return flat(value) or "none"
