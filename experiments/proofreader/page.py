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

## Version 0.3.0

Rules and lists suggest, and SmolLM2-135M judges on ONNX Runtime in float32. *Right* means that the
text around a marked mistake is as it should be; *false* are changes where there is no mistake.
Intervals of 95 % are Wilson's. The second row is a blind test: ten texts with mistakes and ten
clean ones, in `experiments/proofreader/texts`, written by somebody who had not seen the rules, and
scored once. The rules, the lists and the least confidence were chosen with the first row in sight.

| texts | mistakes | right | wrong | false | alarms in clean texts |
|---|---|---|---|---|---|
| letters, seen by the developers | {letters[mistakes]} \
| {letters[right]} ({letters[share]} %, {letters[low]} to {letters[high]}) \
| {letters[wrong]} | {letters[false]} in {letters[words]} words \
| {letters[alarms]} in {letters[clean]} words |
| blind test | {blind[mistakes]} \
| {blind[right]} ({blind[share]} %, {blind[low]} to {blind[high]}) \
| {blind[wrong]} | {blind[false]} in {blind[words]:,} words \
| {blind[alarms]} in {blind[clean]:,} words |

Our target for the blind test was 52 % right. Most of what it misses are prepositions, commas, wrong
word forms and words in the wrong order. Other samples, also seen by the developers:

| texts | n | precision / recall / **F0.5** |
|---|---|---|
| JFLEG dev | {jfleg[n]} sentences | {jfleg[precision]} / {jfleg[recall]} / **{jfleg[f05]}** |
| BEA-19 dev | {bea19[n]} sentences | {bea19[precision]} / {bea19[recall]} / **{bea19[f05]}** |

| clean texts | words | false alarms |
|---|---|---|
| openstax | {openstax[words]:,} | {openstax[alarms]} |
| novels | {novels[words]:,} | {novels[alarms]} |
| these pages | {docs[words]:,} | {docs[alarms]} |

It took {seconds[0]} to {seconds[1]} CPU seconds per 1,000 words, with mistakes or without, on a
busy machine. Version 0.2.0 found {before[right]} of the {letters[mistakes]} mistakes and took
{before[seconds]}. With weights in int8 it took a third less, and F0.5 on the same sentences of
JFLEG was {int8[f05]} lower in one comparison, so float32 is the default.

The tables below are older. The row *reviser 0.2.0* is the proofreader before this one, an adapter
that has been [removed](design/decisions/proofreader-adapter.md); 0.3.0 was not measured on these
test sets yet.

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
    saved = json.loads((RESULTS / "texts.json").read_text(encoding="utf-8"))
    # Names of fields cannot have a hyphen.
    texts = {name.partition("-")[0]: values for name, values in saved.items()}
    return f"{HEAD.format(**texts)}\n{tables(results)}\n"


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
