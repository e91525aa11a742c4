"""Sections on the quality of the texts: evalPPL, MAUVE, diversity, and the judge's preferences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reviser.lab.evals import paper, plots
from reviser.lab.evals.plots import Dot
from reviser.lab.evals.report.format import (
    NOTHING,
    Record,
    dot_of,
    estimate,
    features_name,
    includes,
    judge_name,
    make_table,
    number,
    printed,
    say,
    sides_name,
    system_name,
    systems_of,
    whole,
)
from reviser.lab.evals.report.page import (
    Block,
    Figure,
    Heading,
    Span,
    words,
)

# -- evalPPL ---------------------------------------------------------------------------------------


def perplexity(record: Record) -> Iterator[Block]:
    """Show evalPPL and bits per character by scorer, and ratios."""
    yield Heading("evalPPL")
    scorers = dict.fromkeys(
        each["scorer"]["model"] for system in record["systems"] for each in system["perplexity"]
    )
    if not scorers:
        yield say("No scorer was asked. Name one with ", Span("--scorer", kind="code"), ".")
    for scorer in scorers:
        yield from _scored(record, scorer)
    if any(comparison["perplexity_ratio"] for comparison in record["comparisons"]):
        yield from _ratios(record)
    models = list(next(iter(paper.PERPLEXITY.values())))
    yield make_table(
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
            words(system_name(system)),
            estimate(each["perplexity"]),
            estimate(each["bits_per_character"]),
            words(whole(system["samples"])),
            words(whole(each["empty"])),
            words(whole(each["longer"])),
        ]
        for system, each in found
    ]
    header = ["System", "evalPPL", "Bits per character", "Texts", "Empty", "Longer than context"]
    yield make_table(
        f"evalPPL under {scorer}, lower is likelier",
        header,
        rows,
        note=words("Empty continuations count for nothing. "),
    )
    yield from _own_texts(found, scorer)
    yield Figure(
        svg=plots.dots(
            [
                dot_of(system_name(system), each["perplexity"], series=n)
                for n, (system, each) in enumerate(found)
            ],
            title=f"evalPPL under {scorer}",
            axis="evalPPL, on a log axis",
            log=True,
        ),
        caption=f"evalPPL under {scorer} with 95 % intervals.",
    )


def _own_texts(found: Sequence[tuple[Record, Record]], scorer: str) -> Iterator[Block]:
    """Warn if the scorer wrote some of the texts itself."""
    for system, each in found:
        if system["model"] and system["model"].get("weights") == each["scorer"].get("weights"):
            yield say(
                Span(f"{scorer} wrote the texts of {system['name']} itself.", kind="strong"),
                " It finds its own texts likely, regardless of their quality.",
            )


def _ratios(record: Record) -> Iterator[Block]:
    rows, dots = [], []
    for comparison in record["comparisons"]:
        a, b = comparison["systems"]
        for each in comparison["perplexity_ratio"]:
            scorer, ratio = each["scorer"], each["ratio"]
            verdict = "includes 1" if includes(ratio, 1) else "leaves out 1"
            pair = f"{a} / {b}"
            cell = estimate(ratio, apart_from=1)
            rows.append([words(pair), words(scorer), cell, words(verdict)])
            label = pair if len(comparison["perplexity_ratio"]) == 1 else f"{pair}, {scorer}"
            dots.append(dot_of(label, ratio, apart_from=1))
    for scorer, by_model in paper.PERPLEXITY.items():
        for size in paper.SIZES:
            ours, theirs = paper.REVISER[size], paper.BASELINE[size]
            value = by_model[ours] / by_model[theirs]
            pair = f"paper: {ours} / {theirs}"
            rows.append([words(pair), words(scorer), words(number(value)), words(NOTHING)])
            label = f"paper, {size}, {scorer}"
            dots.append(Dot(label=label, value=value, text=number(value), of_paper=True))
    yield make_table(
        "Ratios of evalPPL on the same prompts",
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
        caption="Ratios of evalPPL: measured here, with 95 % intervals (dots), and the paper's"
        " (diamonds).",
    )


# -- MAUVE and variety -----------------------------------------------------------------------------

FEWEST_CLUSTERS = 10
"""Minimum number of clusters for a meaningful value of MAUVE."""


def mauve(record: Record) -> Iterator[Block]:
    """Show our MAUVE and the paper's."""
    yield Heading("MAUVE and variety")
    measured = [
        (n, system["name"], each)
        for n, system in enumerate(systems_of(record))
        for each in system["mauve"]
    ]
    few = any(each["clusters"] < FEWEST_CLUSTERS for _, _, each in measured)
    if measured:
        yield make_table(
            "MAUVE against the documents, 1 is alike",
            ["System", "MAUVE", "Features", "Clusters"],
            [
                [
                    words(name),
                    estimate(each["mauve"]),
                    words(features_name(each["features"])),
                    words(whole(each["clusters"])),
                ]
                for _, name, each in measured
            ],
            note=words(
                f"Fewer than {FEWEST_CLUSTERS} clusters tell little: too few texts. " if few else ""
            ),
        )
        dots = [dot_of(name, each["mauve"], series=n) for n, name, each in measured]
        dots += [
            Dot(label=f"paper: {model}", value=value, text=printed(value), of_paper=True)
            for model, value in paper.MAUVE.items()
        ]
        figure = plots.dots(dots, title="MAUVE", axis="MAUVE, higher is more alike")
        yield Figure(svg=figure, caption="MAUVE: measured here (dots), the paper's (diamonds).")
    else:
        yield say("MAUVE was not measured. Ask for it with ", Span("--mauve", kind="code"), ".")
    yield make_table(
        "MAUVE in the paper",
        ["Model", "MAUVE"],
        [[words(str(model)), words(printed(value))] for model, value in paper.MAUVE.items()],
        note=words(
            f"As printed, without intervals: {paper.SETTING['100M'].mauve}. MAUVE moves with the"
            " number of texts and with the features, so it compares within a table, and with the"
            " paper's only in a setting like the paper's."
        ),
    )


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


def diversity(record: Record) -> Iterator[Block]:
    """Show how diverse and how long the texts are."""
    systems = record["systems"]
    names = dict.fromkeys(name for system in systems for name in system["diversity"])
    rows = [[words("Texts"), *(words(whole(system["samples"])) for system in systems)]]
    for name in names:
        found = [system["diversity"].get(name) for system in systems]
        percent = name not in (*COUNTS, "self_bleu")
        cells = [estimate(each, percent=percent) for each in found]
        rows.append([words(DIVERSITY.get(name, name)), *cells])
    yield make_table(
        "Variety and length of the continuations",
        ["", *map(system_name, systems)],
        rows,
        note=words(
            "Shares of distinct words and self-BLEU move with the number and length of the texts:"
            " compare systems with as many texts of like length only. The paper prints none. "
        ),
    )


# -- arena -----------------------------------------------------------------------------------------


def arena(record: Record) -> Iterator[Block]:
    """Show which system the judge prefers, and whether the judge is fair."""
    yield Heading("Arena")
    matches = [(c["systems"], c["arena"]) for c in record["comparisons"] if c["arena"]]
    if not matches:
        yield say(
            "No judge was asked" if record["comparisons"] else "There is no system to compare with",
            ". To have pairs of texts judged, give two systems or more and ",
            Span("--judge", kind="code"),
            ".",
        )
    for (a, b), match in matches:
        yield from _match(a, b, match)
    rows, dots = [], []
    for (a, b), match in matches:
        dots.append(dot_of(f"{a} / {b}", match["win_rate"], percent=True, apart_from=0.5))
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
        yield Figure(svg=figure, caption="Win rates: measured here (dots), the paper's (diamonds).")
    setting = paper.SETTING["100M"]
    yield make_table(
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
    judge = f"Judge: {judge_name(match['judge'])}, {sides_name(match)}. "
    yield make_table(f"{a} against {b}", ["", "Value"], rows, note=words(judge))
    if match["is_biased"]:
        yield say(
            Span("The judge prefers a side.", kind="strong"),
            " What was shown first won in ",
            *estimate(first, percent=True, apart_from=0.5),
            " of the verdicts, where a fair judge has one half. Read this win rate with care.",
        )
