"""Write docs/proofreading-results.md from the results in `results/rivals.json`.

python page.py
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "docs" / "proofreading-results.md"
TEST_SETS = ("jfleg-test", "bea19-dev", "conll14", "fce-test", "cweb-g-test")

HEAD = """\
# Results: proofreading

What does a proofreader find, what does it break, and what does it cost? This page compares
`reviser proofread` with what people use today. `experiments/proofreader/README.md` says how each
number was measured, and `python page.py` in that folder writes this page.

FIGURES-41: The proofreader of 0.3.0 has no row yet, because it is measured again in 0.3.0. The
row *reviser 0.2.0* is the proofreader before it, an adapter that has been
[removed](design/decisions/proofreader-adapter.md).

## Quality

ERRANT's precision / recall / **F0.5** in per cent, with a 95 % interval of F0.5 over sentences.
*n* is the number of sentences; smaller samples are part of larger ones. A dash means not
measured. False alarms are changes per 1,000 words of text that is taken to be right. Seconds are
CPU seconds per 1,000 words, on one core of a busy machine. "Held-out units" are texts of one to
four sentences that were kept out of training; "docs" are the plain paragraphs of this
repository's documentation. Neither was checked by hand.

- *hunspell*: the first suggestion of a spelling dictionary.
- *quire*: rules and an edit tagger made from DistilBERT.
- *languagetool*: LanguageTool 2.2 of 2013. Do not take its scores for those of today's version.
- *reviser 0.2.0*: its developers looked at sentences of BEA-19 dev, so its score there is
  slightly too high. On CoNLL-14, FCE and CWEB, it was measured on half as many sentences and with
  a slightly earlier version of the code.
"""


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    return f"{HEAD}\n{tables(results)}\n"


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


def read() -> dict[str, Any]:
    """Return the results of all rivals."""
    found: dict[str, Any] = json.loads((RESULTS / "rivals.json").read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
