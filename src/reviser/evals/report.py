"""The page of an evaluation: what was measured, beside what the paper prints, and how it was made.

A pure function of the record: the same one gives the same bytes, here and anywhere. Renders
nothing (see `page`), measures nothing and imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from reviser.errors import DataError
from reviser.evals import flops, paper, plots
from reviser.evals.page import (
    Block,
    Figure,
    Heading,
    Page,
    Paragraph,
    Span,
    Table,
    Texts,
    Words,
    titles,
    words,
)
from reviser.evals.plots import Bars, Dot
from reviser.evals.shown import (
    NOTHING,
    Found,
    estimate,
    estimates,
    interval,
    large,
    number,
    printed,
    whole,
)

FORMAT = 1
"""Of the records that are read."""
REFERENCE = "reference"
"""What a record calls the documents themselves."""
UNKNOWN = "not known"

Record = dict[str, Any]
Systems = Sequence[Record]


def build(record: Any) -> Page:
    """The page of a record that `evaluation.evaluate` made."""
    if not isinstance(record, dict) or "format" not in record:
        raise DataError(
            "This is no record of an evaluation: it has no format. Give the file that reviser"
            " evaluate wrote."
        )
    if record["format"] != FORMAT:
        raise DataError(
            f"The record has format {record['format']!r}, and this version reads {FORMAT}: make the"
            " record anew, or use the version that made it."
        )
    try:
        names = [system["name"] for system in _ours(record)]
        blocks = [block for section in SECTIONS for block in section(record)]
        return Page(title=f"Evaluation of {_listed(names)}", blocks=tuple(blocks))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The record is not whole ({error!r}): make it anew with reviser evaluate."
        ) from error


def to_json(record: Any) -> str:
    """The record with the paper's figures beside it, for programs."""
    build(record)  # refuses what is no record
    published = {
        "perplexity": {s: _named(each) for s, each in paper.PERPLEXITY.items()},
        "mauve": _named(paper.MAUVE),
        "win_rate_of_reviser": {size: _named(each) for size, each in paper.ARENA.items()},
        "trajectories": paper.TRAJECTORIES,
        "setting": {size: asdict(setting) for size, setting in paper.SETTING.items()},
    }
    content = _finite({**record, "paper": published})
    return json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _named(figures: dict[paper.Model, float]) -> dict[str, float]:
    return {str(model): value for model, value in figures.items()}


def _finite(content: Any) -> Any:
    """The same with null for what JSON cannot hold."""
    if isinstance(content, dict):
        return {str(name): _finite(part) for name, part in content.items()}
    if isinstance(content, list):
        return [_finite(part) for part in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _ours(record: Record) -> Systems:
    return [system for system in record["systems"] if system["name"] != REFERENCE]


def _table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[Words]], **more: Any
) -> Table:
    """A table whose note also says how its intervals were made."""
    made = titles(rows)
    note = (*more.pop("note", ()), *([Span(f"Intervals: {'; '.join(made)}.")] if made else []))
    return Table(
        caption=caption,
        header=tuple(header),
        rows=tuple(tuple(row) for row in rows),
        note=note,
        **more,
    )


def _say(*parts: str | Span) -> Paragraph:
    return Paragraph(words(*parts))


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# -- in short -------------------------------------------------------------------------------------


def _summary(record: Record) -> Iterator[Block]:
    ours = _ours(record)
    first = ours[0]
    same = "continued" if len(ours) == 1 else "continued the same"
    texts = {system["samples"] for system in ours}
    each = f"{whole(texts.pop())} texts" + (" each" if len(ours) > 1 else "")
    parts: list[str | Span] = [
        f"{_listed([system['name'] for system in ours])} {same} {whole(first['prompts'])} prompts,"
        f" {each}. Brackets hold 95 % intervals; the number of prompts is what they count."
    ]
    for comparison in record["comparisons"]:
        parts += _compared(record, comparison)
    if not record["comparisons"]:
        for system in ours:
            for found in system["perplexity"]:
                value = estimate(found["perplexity"])
                parts += [f" Under {found['scorer']['model']}, evalPPL is ", *value, "."]
    for system in ours:
        parts += _spent(system)
    yield Paragraph(words(*parts))


def _compared(record: Record, comparison: Record) -> Iterator[str | Span]:
    """What one system is against another, and whether the texts tell them apart."""
    a, b = comparison["systems"]
    by_name = {system["name"]: system for system in record["systems"]}
    for found in comparison["perplexity_ratio"]:
        scorer, ratio = found["scorer"], found["ratio"]
        sides = [_under(by_name[name], scorer) for name in (a, b)]
        yield f" Under {scorer}, evalPPL is "
        yield from estimate(sides[0])
        yield f" for {a} and "
        yield from estimate(sides[1])
        yield f" for {b}; their ratio is "
        yield from estimate(ratio, apart_from=1)
        if _holds(ratio, 1):
            yield ", an interval that includes 1: these texts do not tell the two apart."
        else:
            higher = a if ratio["value"] > 1 else b
            yield f", an interval that leaves out 1: that of {higher} is higher."
    if match := comparison["arena"]:
        yield f" The judge prefers {a} to {b} in "
        yield from estimate(match["win_rate"], percent=True, apart_from=0.5)
        yield " of the pairs, an interval that "
        yield "includes one half" if _holds(match["win_rate"], 0.5) else "leaves out one half"
        yield (
            "; but it prefers a side, so this is not to be relied on."
            if match["is_biased"]
            else "."
        )


def _under(system: Record, scorer: str) -> Found | None:
    found = [each for each in system["perplexity"] if each["scorer"]["model"] == scorer]
    return found[0]["perplexity"] if found else None


def _spent(system: Record) -> Iterator[str | Span]:
    if system["trajectories"] and (actions := system["trajectories"]["actions_per_token"]):
        yield f" {system['name']} took "
        yield from estimate(actions)
        yield " actions for each token"
        if system["cost"]:
            yield " and "
            yield from estimate(system["cost"]["measured"], apart_from=1)
            yield " times the operations of writing as many tokens left to right"
        yield "."


def _holds(found: Found, value: float) -> bool:
    """Whether an interval includes a value."""
    low, high = found["low"], found["high"]
    return (low is None or low <= value) and (high is None or value <= high)


# -- what differs from the paper ------------------------------------------------------------------

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


def _differences(record: Record) -> Iterator[Block]:
    yield Heading("What differs from the paper")
    yield _say(
        "The paper's numbers stand beside ours throughout. They were made in another setting, and"
        " compare with ours only as far as this table allows."
    )
    columns = {system["name"]: _setting(record, system) for system in _ours(record)}
    if len({json.dumps(each, sort_keys=True) for each in columns.values()}) == 1:
        columns = {"this evaluation": next(iter(columns.values()))}
    columns |= {f"paper, {size}": asdict(each) for size, each in paper.SETTING.items()}
    yield _table(
        "Settings",
        ["", *columns],
        [
            [words(shown), *(words(each[name]) for each in columns.values())]
            for name, shown in ROWS.items()
        ],
        prose=True,
    )


def _setting(record: Record, system: Record) -> dict[str, str]:
    """What the record says of each row of the table."""
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
    if model:
        found["trunk"] = _trunk(model, recipe)
    if recipe:
        found |= _trained(recipe, training["seen"])
    if system["engine"]:
        found["decoding"] = _decoding(system["decoding"])
    scorers = [each["scorer"]["model"] for each in system["perplexity"]]
    found["scorer"] = "; ".join(scorers) or "none was asked"
    features = [each["features"] for each in system["mauve"]]
    found["mauve"] = "; ".join(_features(each) for each in features) or "not measured"
    matches = [c["arena"] for c in record["comparisons"] if c["arena"]]
    judges = dict.fromkeys(f"{_judge(m['judge'])}, {_sides(m)}" for m in matches)
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
        "training_data": ", ".join(map(str, sources)),
        "policy": _policy(recipe["policy"]),
        "trained_on": f"{large(seen['ids'])} edit-history tokens, of which"
        f" {large(seen['text_tokens'])} of text",
    }
    if recipe["base"]:
        found["training_data"] += f"; before that, what {_flat(recipe['base'])} was trained on"
    return found


def _flat(content: Any) -> str:
    """A setting of any kind on one line."""
    if isinstance(content, dict):
        return ", ".join(f"{name} {_flat(part)}" for name, part in content.items())
    return ", ".join(map(_flat, content)) if isinstance(content, list) else str(content)


def _policy(policy: Any) -> str:
    return _flat(policy).removeprefix("kind ")


def _decoding(config: Record | None) -> str:
    if config is None:
        return "not the same for all texts"
    parts = [f"temperature {config['temperature']:g}"]
    parts.append(f"top-k {config['top_k']}" if config["top_k"] else "no top-k")
    parts.append(f"top-p {config['top_p']:g}" if config["top_p"] < 1 else "no top-p")
    parts.append(f"at most {config['max_actions']} actions")
    usual = {"min_p": 0.0, "max_length": None, "max_edits": None, "stop_bias": 0.0}
    parts += [f"{name} {config[name]}" for name, value in usual.items() if config[name] != value]
    return ", ".join(parts)


def _features(about: Record) -> str:
    return f"{about['model']}, {about['features']}, {about['max_tokens']} tokens"


def _judge(about: Record) -> str:
    return str(about.get("model") or about.get("path") or about["judge"])


def _sides(match: Record) -> str:
    return "both sides" if match["order"] == "both" else "sides at random"


# -- how likely the texts are ---------------------------------------------------------------------


def _perplexity(record: Record) -> Iterator[Block]:
    yield Heading("evalPPL")
    scorers = dict.fromkeys(
        each["scorer"]["model"] for system in record["systems"] for each in system["perplexity"]
    )
    if not scorers:
        yield _say("No scorer was asked. Name one with ", Span("--scorer", kind="code"), ".")
    for scorer in scorers:
        yield from _scored(record, scorer)
    if any(comparison["perplexity_ratio"] for comparison in record["comparisons"]):
        yield from _ratios(record)
    models = list(next(iter(paper.PERPLEXITY.values())))
    yield _table(
        "evalPPL in the paper",
        ["Model", *(f"paper, {scorer}" for scorer in paper.PERPLEXITY)],
        [
            [words(str(model)), *(words(printed(by[model])) for by in paper.PERPLEXITY.values())]
            for model in models
        ],
        note=words(
            "As printed, without intervals. Perplexities compare only under one scorer and on texts"
            " that continue the same prompts."
        ),
    )


def _scored(record: Record, scorer: str) -> Iterator[Block]:
    found = [
        (system, each)
        for system in record["systems"]
        for each in system["perplexity"]
        if each["scorer"]["model"] == scorer
    ]
    rows = [
        [
            words(_system(system)),
            estimate(each["perplexity"]),
            estimate(each["bits_per_character"]),
            words(whole(system["samples"])),
            words(whole(each["empty"])),
            words(whole(each["longer"])),
        ]
        for system, each in found
    ]
    header = ["System", "evalPPL", "Bits per character", "Texts", "Empty", "Longer than context"]
    yield _table(
        f"evalPPL under {scorer}, lower is likelier",
        header,
        rows,
        note=words("Empty continuations count for nothing. "),
    )
    yield Figure(
        svg=plots.dots(
            [
                Dot(
                    label=_system(system),
                    value=each["perplexity"]["value"],
                    ends=_ends(each["perplexity"]),
                    text=interval(each["perplexity"]),
                    series=n,
                )
                for n, (system, each) in enumerate(found)
            ],
            title=f"evalPPL under {scorer}",
            axis="evalPPL, on a log axis",
            log=True,
        ),
        caption=f"evalPPL under {scorer} with 95 % intervals.",
    )


def _ratios(record: Record) -> Iterator[Block]:
    rows, dots = [], []
    for comparison in record["comparisons"]:
        a, b = comparison["systems"]
        for each in comparison["perplexity_ratio"]:
            ratio = each["ratio"]
            verdict = "includes 1" if _holds(ratio, 1) else "leaves out 1"
            pair = f"{a} / {b}"
            shown = estimate(ratio, apart_from=1)
            rows.append([words(pair), words(each["scorer"]), shown, words(verdict)])
            text = interval(ratio, apart_from=1)
            dots.append(Dot(label=pair, value=ratio["value"], ends=_ends(ratio), text=text))
    for scorer, by_model in paper.PERPLEXITY.items():
        for size in paper.SIZES:
            ours, theirs = paper.REVISER[size], paper.BASELINE[size]
            value = by_model[ours] / by_model[theirs]
            label = f"paper: {ours.name} / {theirs}"
            rows.append([words(label), words(scorer), words(number(value)), words(NOTHING)])
            text = f"{number(value)} ({scorer})"
            dots.append(Dot(label=label, value=value, text=text, of_paper=True))
    yield _table(
        "Ratios of evalPPL, prompt by prompt",
        ["Systems", "Scorer", "Ratio", "Interval"],
        rows,
        note=words("The paper's are quotients of its printed values, which have no interval. "),
    )
    yield Figure(
        svg=plots.dots(
            dots,
            title="Ratios of evalPPL",
            axis="evalPPL of the first over that of the second, on a log axis",
            log=True,
            mark=(1.0, "equal"),
        ),
        caption="Ratios of evalPPL: ours with 95 % intervals (dots), the paper's (diamonds).",
    )


def _system(system: Record) -> str:
    return "the documents" if system["name"] == REFERENCE else str(system["name"])


def _ends(found: Found) -> plots.Ends:
    return found["low"], found["high"]


# -- how the texts are distributed ----------------------------------------------------------------


def _mauve(record: Record) -> Iterator[Block]:
    yield Heading("MAUVE and variety")
    rows, dots = [], []
    for n, system in enumerate(_ours(record)):
        for each in system["mauve"]:
            features = _features(each["features"])
            shown = [estimate(each["mauve"]), words(features), words(whole(each["clusters"]))]
            rows.append([words(system["name"]), *shown])
            dots.append(
                Dot(
                    label=system["name"],
                    value=each["mauve"]["value"],
                    ends=_ends(each["mauve"]),
                    text=interval(each["mauve"]),
                    series=n,
                )
            )
    if not rows:
        yield _say("MAUVE was not measured. Ask for it with ", Span("--mauve", kind="code"), ".")
    features = paper.SETTING["100M"].mauve
    for model, value in paper.MAUVE.items():
        cells = [words(printed(value)), words(features), words(UNKNOWN)]
        rows.append([words(f"paper: {model}"), *cells])
        dots.append(Dot(label=f"paper: {model}", value=value, text=printed(value), of_paper=True))
    yield _table(
        "MAUVE against the documents, 1 is alike",
        ["System", "MAUVE", "Features", "Clusters"],
        rows,
        note=words(
            "MAUVE moves with the number of texts and with the features: it compares between"
            " systems of one table, and with the paper's only in a setting like the paper's. "
        ),
    )
    if len(dots) > len(paper.MAUVE):
        figure = plots.dots(dots, title="MAUVE", axis="MAUVE, higher is more alike")
        yield Figure(svg=figure, caption="MAUVE: ours (dots), the paper's (diamonds).")


DIVERSITY = {
    "distinct_1": "Distinct words",
    "distinct_2": "Distinct pairs of words",
    "distinct_3": "Distinct triples of words",
    "self_bleu": "Self-BLEU, high is alike",
    "repetition_4": "Runs of 4 words that occurred before",
    "words": "Words of a text",
    "characters": "Characters of a text",
}
COUNTS = ("words", "characters")


def _diversity(record: Record) -> Iterator[Block]:
    systems = record["systems"]
    names = dict.fromkeys(name for system in systems for name in system["diversity"])
    rows = [[words("Texts"), *(words(whole(system["samples"])) for system in systems)]]
    for name in names:
        found = [system["diversity"].get(name) for system in systems]
        percent = name not in (*COUNTS, "self_bleu")
        cells = [estimate(each, percent=percent) for each in found]
        rows.append([words(DIVERSITY.get(name, name)), *cells])
    yield _table(
        "Variety and length of the continuations",
        ["", *map(_system, systems)],
        rows,
        note=words(
            "Shares of distinct words and self-BLEU move with the number and length of the texts:"
            " compare systems with as many texts of like length only. The paper prints none. "
        ),
    )


# -- what a judge prefers -------------------------------------------------------------------------


def _arena(record: Record) -> Iterator[Block]:
    yield Heading("Arena")
    matches = [(c["systems"], c["arena"]) for c in record["comparisons"] if c["arena"]]
    if not matches:
        yield _say(
            "No judge was asked" if record["comparisons"] else "There is no system to compare with",
            ". To have pairs of texts judged, give two systems or more and ",
            Span("--judge", kind="code"),
            ".",
        )
    for (a, b), match in matches:
        yield from _match(a, b, match)
    rows, dots = [], []
    for (a, b), match in matches:
        text = interval(match["win_rate"], percent=True, apart_from=0.5)
        rate = match["win_rate"]
        dots.append(Dot(label=f"{a} / {b}", value=rate["value"], ends=_ends(rate), text=text))
    for size, rates in paper.ARENA.items():
        for model, value in rates.items():
            share = printed(value, percent=True)
            rows.append([words(str(paper.REVISER[size])), words(str(model)), words(share)])
            label = f"paper: {size} / {model}"
            dots.append(Dot(label=label, value=value, text=share, of_paper=True))
    if matches:
        figure = plots.dots(
            dots,
            title="Win rates",
            axis="share of the pairs that the first wins",
            mark=(0.5, "one half"),
        )
        yield Figure(svg=figure, caption="Win rates: ours (dots), the paper's (diamonds).")
    setting = paper.SETTING["100M"]
    yield _table(
        "Win rates in the paper",
        ["Model", "Against", "Wins"],
        rows,
        note=words(f"As printed, without intervals. Judge: {setting.judge}."),
    )


def _match(a: str, b: str, match: Record) -> Iterator[Block]:
    asked = match["wins"] + match["losses"] + match["ties"] + match["invalid"]
    first, consistent = match["shown_first"], match["consistent"]
    rows = [
        [
            words(f"{a} wins, a tie as half"),
            estimate(match["win_rate"], percent=True, apart_from=0.5),
        ],
        [words(f"Verdicts for {a}"), words(whole(match["wins"]))],
        [words(f"Verdicts for {b}"), words(whole(match["losses"]))],
        [words("Ties"), words(whole(match["ties"]))],
        [words("Replies without a verdict"), words(f"{whole(match['invalid'])} of {whole(asked)}")],
        [words("What was shown first won"), estimate(first, percent=True, apart_from=0.5)],
        [words("Same winner in both orders"), estimate(consistent, percent=True)],
    ]
    judge = f"Judge: {_judge(match['judge'])}, {_sides(match)}. "
    yield _table(f"{a} against {b}", ["", "Value"], rows, note=words(judge))
    if match["is_biased"]:
        yield _say(
            Span("The judge prefers a side.", kind="strong"),
            " What was shown first won in ",
            *estimate(first, percent=True, apart_from=0.5),
            " of the verdicts, where a fair judge has one half. Read this win rate with care.",
        )


# -- how the models write -------------------------------------------------------------------------

PAPERS = {
    "actions_per_token": "Actions per token",
    "insert_fraction": "Inserts among actions",
    "move_fraction": "Moves among actions",
    "move_distance": "Mean size of a move",
    "move_sizes": "Moves of size",
    "backward_fraction": "Backward moves",
    "insert_position": "Where inserts go, 0 start to 1 end",
    "end_append_fraction": "Inserts at the end",
    "inner_insert_fraction": "Inserts elsewhere",
    "revised": "Texts with a backward revision",
}
"""The rows of the paper's table, in its order."""
OURS = {
    "travel_per_token": "Cursor travel per token",
    "detour_fraction": "Moves that a shorter way would save",
    "trailing_fraction": "Moves after the last edit",
    "needed_actions_per_token": "Actions per token without those two",
}
PLAIN = ("actions_per_token", "move_distance", "insert_position", "travel_per_token")
"""Rows that are no shares."""


def _trajectories(record: Record) -> Iterator[Block]:
    yield Heading("How the models write")
    systems = [system for system in record["systems"] if system["trajectories"]]
    if not systems:
        yield _say(
            "No system's texts came with their edits, so only the paper's statistics are here. Give"
            " rollouts, as ",
            Span("reviser generate", kind="code"),
            " writes them.",
        )
    rows = []
    for name, shown in (PAPERS | OURS).items():
        if name == "move_sizes":
            sizes = list(paper.TRAJECTORIES["100M"][name])
            rows += [_statistic(systems, name, f"{shown} {size}", size) for size in sizes]
        else:
            rows.append(_statistic(systems, name, shown))
    yield _table(
        "Trajectory statistics",
        ["", *(s["name"] for s in systems), *(f"paper, {size}" for size in paper.SIZES)],
        rows,
        note=words(
            "Shares are of all actions, moves or inserts of all texts together. The last"
            f" {len(OURS)} rows are ours; the paper does not print them. "
        ),
    )
    for system in systems:
        if system["order_map"]:
            yield _order(system)
    if any(system["trajectories"]["move_sizes"] for system in systems):
        yield _move_sizes(systems)


def _statistic(systems: Systems, name: str, shown: str, size: int | None = None) -> list[Words]:
    percent = name not in PLAIN and name != "needed_actions_per_token"
    cells = [words(shown)]
    for system in systems:
        found = system["trajectories"][name]
        cells.append(estimate(found if size is None else found.get(str(size)), percent=percent))
    for by_name in paper.TRAJECTORIES.values():
        value = by_name.get(name)
        value = value[size] if size is not None and value else value
        cells.append(words(NOTHING if value is None else printed(value, percent=percent)))
    return cells


def _order(system: Record) -> Figure:
    shares, name = system["order_map"], system["name"]
    return Figure(
        svg=plots.heat_map(
            shares,
            title=f"In which order {name} writes",
            x="place in what was written",
            y="when",
            diagonal="left to right",
        ),
        caption=f"In which order {name} writes: the share of all tokens at each place and time.",
        numbers=_fifths(f"Order of writing of {name}, in fifths", shares),
    )


def _fifths(caption: str, shares: list[list[float]]) -> Table:
    """The map summed up to five by five."""
    parts, bins = 5, len(shares)
    sums = [[0.0] * parts for _ in range(parts)]
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            sums[i * parts // bins][j * parts // len(row)] += share
    names = ["first", "second", "third", "fourth", "last"]
    return _table(
        caption,
        ["Steps \\ place", *names],
        [
            [words(f"{name} fifth"), *(words(f"{100 * share:.1f} %") for share in row)]
            for name, row in zip(names, sums, strict=True)
        ],
    )


def _move_sizes(systems: Systems) -> Figure:
    printed_sizes = [
        {str(k): v for k, v in by["move_sizes"].items()} for by in paper.TRAJECTORIES.values()
    ]
    found = [system["trajectories"]["move_sizes"] for system in systems]
    sizes = sorted({int(size) for each in [*found, *printed_sizes] for size in each})
    keys = [str(size) for size in sizes]
    series = [
        Bars(
            label=system["name"],
            values=tuple(each[key]["value"] if key in each else 0.0 for key in keys),
            ends=tuple(_ends(each[key]) if key in each else None for key in keys),
            series=n,
        )
        for n, (system, each) in enumerate(zip(systems, found, strict=True))
        if each
    ]
    series += [
        Bars(
            label=f"paper, {size}",
            values=tuple(each.get(key) for key in keys),
            of_paper=True,
            series=n,
        )
        for n, (size, each) in enumerate(zip(paper.SIZES, printed_sizes, strict=True))
    ]
    rows = [
        [
            words(key),
            *(estimate(each.get(key), percent=True) for each in found),
            *(
                words(printed(each[key], percent=True) if key in each else NOTHING)
                for each in printed_sizes
            ),
        ]
        for key in keys
    ]
    header = ["Size", *(s["name"] for s in systems), *(f"paper, {size}" for size in paper.SIZES)]
    return Figure(
        svg=plots.bars(keys, series, title="Sizes of moves", x="size of a move, in tokens"),
        caption="Share of the moves that have each size; lines are 95 % intervals, outlined bars"
        " the paper's, which prints the four smallest sizes only.",
        numbers=_table("Sizes of moves", header, rows),
    )


# -- what it costs --------------------------------------------------------------------------------


def _cost(record: Record) -> Iterator[Block]:
    yield Heading("Cost")
    systems = [system for system in record["systems"] if system["cost"]]
    if systems:
        yield _table(
            "Operations over those of writing as many tokens left to right",
            [
                "System",
                "Measured",
                "As if nothing had been given",
                "By the paper's formula",
                "Trunk",
            ],
            [
                [
                    words(system["name"]),
                    estimate(system["cost"]["measured"], apart_from=1),
                    estimate(system["cost"]["without_given"], apart_from=1),
                    words(number(system["cost"]["analytic"])),
                    words(_sizes(system["cost"]["sizes"])),
                ]
                for system in systems
            ],
            note=words(
                "Multiply-accumulates of the dominant matrix products, both models with a cache and"
                " reading the same prompt. The formula is taken at the mean length and share of"
                " moves of these texts. "
            ),
        )
    else:
        yield _say("No system's cost is known: it is counted from rollouts.")
    yield from _methods(systems)


def _sizes(sizes: Record) -> str:
    return f"{sizes['L']} layers, width {sizes['d']}, {whole(sizes['V'])} rows of the head"


def _methods(systems: Systems) -> Iterator[Block]:
    table = flops.table()
    dots = [
        Dot(
            label=system["name"],
            value=system["cost"]["measured"]["value"],
            ends=_ends(system["cost"]["measured"]),
            text=interval(system["cost"]["measured"], apart_from=1),
            series=n,
        )
        for n, system in enumerate(systems)
    ]
    others = sorted((row for row in table if row.variant != "baseline"), key=lambda r: r.multiplier)
    dots += [
        Dot(
            label=f"{row.method}, {row.variant}",
            value=row.multiplier,
            text=number(row.multiplier),
            of_paper=True,
        )
        for row in others
    ]
    yield Figure(
        svg=plots.dots(
            dots,
            title="Cost of writing, by method",
            axis="times the operations of an autoregressive model of its size, on a log axis",
            log=True,
            mark=(1.0, "left to right"),
        ),
        caption="Ours measured on these texts (dots), other methods by the paper's formulas for 128"
        " tokens (diamonds).",
    )
    yield _table(
        "Cost of 128 tokens by the paper's formulas",
        ["Method", "Variant", "Operations, in billions", "Times its baseline"],
        [
            [
                words(row.method),
                words(row.variant),
                words(f"{row.flops / 1e9:,.2f}"),
                words(number(row.multiplier)),
            ]
            for row in table
        ],
        note=words("Computed here; a test holds each to the figure that the paper prints."),
    )


# -- how the models were trained ------------------------------------------------------------------


def _training(record: Record) -> Iterator[Block]:
    yield Heading("Training")
    systems = [s for s in record["systems"] if s["model"] and s["model"]["training"]]
    if not systems:
        yield _say("The record holds no system that was trained here.")
        return
    columns = [_run(system["model"]["training"]) for system in systems]
    names = dict.fromkeys(name for column in columns for name in column)
    yield _table(
        "Runs",
        ["", *(system["name"] for system in systems)],
        [
            [words(name), *(column.get(name, words(NOTHING)) for column in columns)]
            for name in names
        ],
        note=words("Held-out values are in nats per text token. "),
        prose=True,
    )


def _run(training: Record) -> dict[str, Words]:
    recipe, seen, metrics = training["recipe"], training["seen"], training["metrics"]
    found = {
        "Order of writing": words(_policy(recipe["policy"])),
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
        shown = words(whole(int(value)) if name.endswith("_tokens") else f"{value:.3f}")
        if half is not None:
            ends = {"value": value, "low": value - half, "high": value + half}
            shown = (Span(interval(ends), title="normal approximation of the run"),)
        found[kind[:1].upper() + kind[1:].replace("nll", "NLL")] = shown
    found["Commit"] = words(training["commit"] or UNKNOWN)
    return found


# -- what was written, and with what --------------------------------------------------------------


def _examples(record: Record) -> Iterator[Block]:
    yield Heading("Texts")
    yield _say("The first texts of each system, not chosen. What they say is theirs, not ours.")
    prompts: dict[str, list[tuple[str, str]]] = {}
    for system in record["systems"]:
        for example in system["examples"]:
            written = (_system(system), example["continuation"])
            prompts.setdefault(example["prompt"], []).append(written)
    for prompt, texts in prompts.items():
        yield Texts(prompt=prompt, written=tuple(texts))


METHODS = {
    "bootstrap-t": "2000 draws of whole prompts, each in its own standard errors",
    "Student's t": "mean and standard error over prompts, Student's tails",
    "BCa bootstrap": "2000 draws of whole prompts, corrected for bias and skew, Student's tails",
    "jackknife": "each prompt left out in turn, Student's tails",
    "Wilson": "Wilson's score interval of a share",
    "Wilson, clustered": "Wilson's score interval, prompts counted for what they tell beyond one",
    "one value": "a single prompt, which tells nothing of the spread",
}


def _provenance(record: Record) -> Iterator[Block]:
    yield Heading("Where this comes from")
    made = record["made_with"]
    rows = [(name, str(version)) for name, version in made["versions"].items()]
    rows += [("Python", str(made["python"])), ("Machine", str(made["machine"]))]
    rows += [("Commit", str(made["commit"] or UNKNOWN))]
    yield _facts("Made with", rows)
    for system in record["systems"]:
        yield _facts(f"System {_system(system)}", _origin(system))
    for title, about in _models(record):
        yield _facts(title, [(name, _setting_text(name, value)) for name, value in about.items()])
    counts = Counter(found["method"] for found in estimates(record))
    yield _table(
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
    return _table(caption, ["", "Value"], [[words(a), words(b)] for a, b in rows], prose=True)


def _origin(system: Record) -> list[tuple[str, str]]:
    found = [
        ("Texts", whole(system["samples"])),
        ("Prompts", whole(system["prompts"])),
        ("Empty continuations", whole(system["empty"])),
        ("SHA-256 of the texts", system["texts"]),
    ]
    if model := system["model"]:
        names = ("folder", "architecture", "parameters", "dtypes", "context", "tokenizer")
        found += [(f"Model's {name}", _flat(model[name])) for name in names]
    if system["engine"]:
        found.append(("Engine", str(system["engine"])))
        found.append(("Decoding", _flat(system["decoding"] or "not the same for all texts")))
        found.append(("Ended by", _flat(system["stopped"])))
    return found


def _models(record: Record) -> Iterator[tuple[str, Record]]:
    """Each scorer, kind of features and judge once, with what there is to say of it."""
    seen: list[tuple[str, Record]] = []
    for system in record["systems"]:
        seen += [(f"Scorer {e['scorer']['model']}", e["scorer"]) for e in system["perplexity"]]
        seen += [(f"Features of {e['features']['model']}", e["features"]) for e in system["mauve"]]
    for comparison in record["comparisons"]:
        if match := comparison["arena"]:
            seen.append((f"Judge {_judge(match['judge'])}", match["judge"]))
    for n, each in enumerate(seen):
        if each not in seen[:n]:
            yield each


def _setting_text(name: str, value: Any) -> str:
    if name == "template":
        return f"SHA-256 {hashlib.sha256(str(value).encode()).hexdigest()}"
    return _flat(value) or "none"


SECTIONS = (
    _summary,
    _differences,
    _perplexity,
    _mauve,
    _diversity,
    _arena,
    _trajectories,
    _cost,
    _training,
    _examples,
    _provenance,
)
