"""Write docs/proofreading-results.md and its figures from the files in `results/`.

python page.py

The figures need matplotlib.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reviser.lab.evals import intervals

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[2] / "docs"
MODEL = Path(__file__).parents[2] / "models" / "proofreader"
OURS = "proofreader"
RULES = ("codespell", "typos", "hunspell", "harper", "quire", "languagetool")
ORDER = ("left alone", *RULES, "lists", "blocks", "rewriter", OURS)
TEST_SETS = ("jfleg-test", "bea19-dev", "conll14", "fce-test", "cweb-g-test")

HEAD = """\
# Results: proofreading

What does a proofreader find, what does it break, and what does it cost? This page compares
`models/proofreader` with what people use today, and with a baseline of the same base model that
writes the whole text again. `experiments/proofreader/README.md` says how each number was
measured, and `python page.py` in that folder writes this page.

In short: at its default limit, the proofreader is right more often than the baseline that rewrites,
and leaves correct text alone much more often, but it finds fewer mistakes, so F0.5 is about the
same. Next to the baseline with n-gram speculation, it needs less time on clean prose, about as much
on long drafts with few mistakes, and more on short sentences with many mistakes and on
documentation. Checkers with rules need a small part of that time; of these, only codespell, typos
and quire leave correct text alone as often.
"""
QUALITY = """\
## Quality

ERRANT's precision / recall / **F0.5** in per cent, with a 95 % interval of F0.5 over sentences.
*n* is the number of sentences; smaller samples are part of larger ones. A dash means not measured.
False alarms are changes per 1,000 words of text that is taken to be right. Seconds are CPU seconds
per 1,000 words, on one core of a busy machine. "Held-out units" are texts of one to four sentences
that were kept out of training; "docs" are the plain paragraphs of this repository's documentation.
Neither was checked by hand.

- *hunspell*: the first suggestion of a spelling dictionary.
- *quire*: rules and an edit tagger made from DistilBERT.
- *languagetool*: LanguageTool 2.2 of 2013. Do not take its scores for those of today's version.
- *lists*: word lists whose suggestions the untrained base model accepts by likelihood.
- *blocks*: the untrained base model is asked for search-and-replace blocks, with three examples.
  The code of these two is in the history, up to commit 9f7eb79.
- *rewriter*: a baseline from the same base model that writes the whole text again, with n-gram
  speculation, which changes its time and not its text.
- We looked at sentences of BEA-19 dev during development, so our score there is slightly too high.
- On CoNLL-14, FCE and CWEB, the proofreader was measured on half as many sentences and with a
  slightly earlier version of the code.
"""
CURVE = """\
## Precision and recall

A change has a confidence, and the proofreader makes those of at least {default}. The table
shows precision / recall / **F0.5** on the {sentences} sentences of each set, and the
changes per 1,000 words of correct text, for other limits and for the rewriter.
"""
CURVE_END = """\
With a limit of {near}, where its false alarms are closest to the rewriter's, the proofreader is
about as good as the rewriter. Its advantage is the limit, which trades recall for precision; the
rewriter has no such setting here.

The confidence was calibrated on mistakes that a program made; on real sentences, a high one can be
too high. `--precision` chooses a limit by that calibration.
"""
LONG = """\
## Long drafts with few mistakes

This is where an editor should be cheapest: {drafts} drafts of about 1,000 tokens of held-out text,
with 1 to {most} mistakes. Three systems take turns on each draft, on one thread: the proofreader,
the rewriter, and the rewriter with n-gram speculation, which guesses ten tokens from the draft at a
time. The rewriter comes from the same base and pairs, with as many training tokens ({ids}). It
writes windows of up to 160 tokens. None does well here: most changes are wrong. The rewriter finds
more of the mistakes, and breaks more.
"""


def tables(results: dict[str, Any]) -> str:
    """Return the results as Markdown tables."""

    def each(form: Callable[[dict[str, Any]], str], row: dict[str, Any], names: Any) -> str:
        return " | ".join(form(row[name]) if name in row else "-" for name in names)

    lines = [f"| | n | {' | '.join(TEST_SETS)} |", "|---|---|" + "---|" * len(TEST_SETS)]
    for name, row in results.items():
        if name == "left alone":  # nothing is found, so all its scores are 0
            continue
        sizes = {row[part]["sentences"] for part in TEST_SETS if part in row}
        count = " or ".join(map(str, sorted(sizes)))
        lines.append(f"| {name} | {count} | {each(_errant, row, TEST_SETS)} |")
    columns = ["JFLEG GLEU", "false alarms, held-out units", "false alarms, docs"]
    columns += ["seconds, units", "seconds, docs", "seconds, BEA-19"]
    lines += ["", f"| | {' | '.join(columns)} |", "|---|---|---|---|---|---|---|"]
    for name, row in results.items():
        gleu = each(lambda cell: _interval(cell["gleu"], 100), row, ["jfleg-test"])
        clean = each(lambda c: _interval(c["per_1000_words"]), row, ["clean units", "clean docs"])
        timed = ["clean units", "clean docs", "bea19-dev"]
        seconds = each(lambda c: _seconds(c["seconds_per_1000_words"]), row, timed)
        lines.append(f"| {name} | {gleu} | {clean} | {seconds} |")
    return "\n".join(lines)


def _errant(cell: dict[str, Any]) -> str:
    precision, recall = (f"{100 * cell[key]:.0f}" for key in ("precision", "recall"))
    return f"{precision} / {recall} / **{100 * cell['f05'][0]:.1f}** ({_range(cell['f05'], 100)})"


def _interval(found: list[float], scale: float = 1) -> str:
    return f"{scale * found[0]:.1f} ({_range(found, scale)})"


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _range(found: list[float], scale: float) -> str:
    return f"{scale * found[1]:.1f} to {scale * found[2]:.1f}"


def card(results: dict[str, Any]) -> str:
    """Return the model's card with the table of today's results."""
    names = {OURS: "this model", "languagetool": "LanguageTool 2.2 (2013)", "harper": "Harper"}
    lines = ["| | n | BEA-19 dev | JFLEG test | false alarms per 1,000 clean words |"]
    lines.append("|---|---|---|---|---|")
    for name in (OURS, "languagetool", "harper", "hunspell", "typos", "codespell"):
        row = results[name]
        cells = " | ".join(_errant(row[part]) for part in ("bea19-dev", "jfleg-test"))
        alarms = f"{row['clean units']['per_1000_words'][0]:.1f}"
        count = row["bea19-dev"]["sentences"]
        lines.append(f"| {names.get(name, name)} | {count} | {cells} | {alarms} |")
    text = (MODEL / "README.md").read_text(encoding="utf-8")
    old = text[text.index("| | n | BEA-19") :].split("\n\n")[0]
    return text.replace(old, "\n".join(lines))


def rows_by_system(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each system, in order of the drafts."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["system"], []).append(row)
    return found


FIGURES = {
    "jfleg": ("F0.5 on JFLEG test", "F0.5, per cent"),
    "bea19": ("F0.5 on BEA-19 dev", "F0.5, per cent"),
    "cost": ("CPU seconds for 1,000 words of clean text", "seconds, logarithmic"),
}
"""Title and axis of each figure."""


def points(results: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Return the value of each rival in each figure; those of F0.5 are followed by their ends."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in FIGURES}
    for rival, cells in results.items():
        if rival == "left alone":
            continue
        for name, part in (("jfleg", "jfleg-test"), ("bea19", "bea19-dev")):
            if part in cells:
                found[name][rival] = [100 * value for value in cells[part]["f05"]]
        if "clean units" in cells:
            found["cost"][rival] = [cells["clean units"]["seconds_per_1000_words"]]
    return found


def draw(path: Path, rows: dict[str, list[float]], title: str, axis: str) -> None:
    """Draw a row of dots with their intervals, ours in another colour."""
    import matplotlib as mpl

    # Text stays text, and equal figures are equal files.
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": title, "font.size": 9}
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 0.6 + 0.25 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for y, (rival, (value, *ends)) in enumerate(rows.items()):
        colour = "#d55e00" if rival == OURS else "#0072b2"
        if ends:
            axes.plot(ends, [y, y], color=colour)
        axes.plot(value, y, "o", color=colour)
        text = f"{value:.1f}" if ends else f"{value:.2g}"
        axes.text(1.01, y, text, va="center", transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    if "logarithmic" in axis:
        axes.set_xscale("log")
    axes.grid(axis="x", color="#d5d5d5", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None, "Title": title})


def long_drafts(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the table of long drafts and the ratios of times."""
    found = rows_by_system(rows)
    yield "| | changes | right | wrong | mistakes | forward passes | tokens read | CPU seconds |\n"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|\n"
    for name, some in found.items():
        total = {key: sum(row[key] for row in some) for key in some[0] if key != "system"}
        yield (
            f"| {name} | {total['made']} | {total['right']} | {total['made'] - total['right']}"
            f" | {total['mistakes']} | {total['forwards']:,} | {total['ids']:,}"
            f" | {total['seconds']:.0f} |\n"
        )
    yield "\n"
    for name in found:
        if name != OURS:
            pairs = list(zip(found[OURS], found[name], strict=True))
            seconds = intervals.mean([a["seconds"] / b["seconds"] for a, b in pairs])
            forwards, ids = (
                intervals.mean([a[key] / b[key] for a, b in pairs]).value
                for key in ("forwards", "ids")
            )
            yield (
                f"The proofreader needs {seconds.value:.2f} times the seconds of the {name}, as a"
                f" mean over drafts (95 % interval: {seconds.low:.2f} to {seconds.high:.2f}). It"
                f" makes {forwards:.2g} times its forward passes and reads {ids:.1f} times its"
                " tokens.\n\n"
            )


def curve(found: dict[str, Any], rewriter: dict[str, Any]) -> str:
    """Return the table of precision, recall and false alarms at each minimum confidence."""
    names = [name for name in found if name in TEST_SETS]
    rows = ["| minimum confidence | " + " | ".join(names) + " | false alarms, held-out units |"]
    rows.append("|---|" + "---|" * (len(names) + 1))

    def row(label: str, cells: dict[str, Any]) -> str:
        alarms = _interval(cells["clean units"]["per_1000_words"])
        return f"| {label} | {' | '.join(_errant(cells[name]) for name in names)} | {alarms} |"

    for limit in found[names[0]]:
        cells = {name: some[limit] for name, some in found.items()}
        if all(cells[name]["made"] for name in names):
            rows.append(row(limit, cells))
    rows.append(row("rewriter", rewriter))
    return "\n".join(rows) + "\n"


def written() -> dict[Path, str]:
    """Return the page and the model's card by their paths."""
    results, economics, confidences = map(read, ("rivals", "economics", "curve"))
    results = {name: results[name] for name in ORDER}
    page = [HEAD, QUALITY, tables(results) + "\n"]
    for name, (title, _) in FIGURES.items():
        page.append(f"![{title}](img/proofreading-{name}.svg)\n")
    sentences = next(iter(confidences["jfleg-test"].values()))["sentences"]
    editing = json.loads((MODEL / "editing.json").read_text(encoding="utf-8"))
    page.append(CURVE.format(default=editing["min_confidence"], sentences=sentences))
    page.append(curve(confidences, results["rewriter"]))
    alarms = {n: cell["per_1000_words"][0] for n, cell in confidences["clean units"].items()}
    rewritten = results["rewriter"]["clean units"]["per_1000_words"][0]
    page.append(CURVE_END.format(near=min(alarms, key=lambda n: abs(alarms[n] - rewritten))))
    rows = economics["rows"]
    drafts, most = len(rows_by_system(rows)[OURS]), max(row["mistakes"] for row in rows)
    ids = f"{economics['rewriter_ids'] / 1e6:.2f} million"
    page.append(LONG.format(drafts=drafts, most=most, ids=ids))
    page.append("".join(long_drafts(rows)).rstrip() + "\n")
    return {DOCS / "proofreading-results.md": "\n".join(page), MODEL / "README.md": card(results)}


def read(name: str) -> dict[str, Any]:
    """Return the results in a file."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Run the command."""
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
    results = read("rivals")
    for name, rows in points({rival: results[rival] for rival in ORDER}).items():
        draw(DOCS / f"img/proofreading-{name}.svg", rows, *FIGURES[name])


if __name__ == "__main__":
    main()
