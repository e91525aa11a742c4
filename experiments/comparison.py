"""Write docs/comparison.md: this project next to others, with the figures that were measured here.

python -m experiments.comparison
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.markdown import table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "comparison.md"
RESULTS = ROOT / "experiments"
HEAD = """\
# Comparison

Who should use what? This page compares Reviser with other ways to write and to correct text with a program. `python -m experiments.comparison` writes it; its figures come from our result files, and where we have none, we say so.

| you want | use |
| --- | --- |
| the best text from a prompt | an ordinary large language model. Our models are small, and at equal size and training a left-to-right model wrote slightly better text ([results](results.md)). |
| known misspellings found in code and docs, in milliseconds | [typos](https://github.com/crate-ci/typos) or [codespell](https://github.com/codespell-project/codespell) |
| house style enforced (terms, headings, sentence length) | [vale](https://vale.sh) |
| grammar rules with explanations, in an editor | [Harper](https://writewithharper.com) or [LanguageTool](https://languagetool.org) |
| the highest grammar scores from a small model | an edit tagger that was trained on learner corpora, such as [GECToR](https://github.com/grammarly/gector). Check the licence of its training data. |
| a free rewrite, and you will read every word of it | a large language model that rewrites, or an agent with search-and-replace blocks such as [aider](https://aider.chat) |
| many tokens per forward pass | masked diffusion: LLaDA or Dream, for instance with [dLLM](https://github.com/ZHZisZZ/dllm) |
| to study insertion models and other orders of writing | xlm-core, or our [policies](guides/policy.md) |
| corrections that leave the rest alone, byte for byte, with proof | Reviser |
| a gap of any length filled, between texts that must not change | Reviser, or a left-to-right model that was trained to fill in the middle |
| your own causal LM turned into one that edits, on the engine you have | Reviser |

## Features

"""
COLUMNS = [
    "",
    "Reviser",
    "rewriting LLM",
    "search-and-replace agent",
    "edit tagger",
    "masked diffusion",
    "insertion model",
    "rules",
]
FEATURES = [
    ("writes from nothing", "yes", "yes", "yes", "no", "yes", "yes", "no"),
    (
        "cost of a small change in a long text",
        "read once, write the change",
        "write everything; less with speculation",
        "quote the place, write the change",
        "read once",
        "denoise the region",
        "insert; deletes if it has them",
        "read once",
    ),
    (
        "can other text change?",
        "no: the mask forbids it",
        "yes",
        "only inside blocks",
        "only where it tags",
        "not where tokens are fixed",
        "not where tokens are fixed",
        "only where a rule matches",
    ),
    (
        "output that cannot be applied",
        "impossible",
        "impossible",
        "possible",
        "impossible",
        "impossible",
        "impossible",
        "impossible",
    ),
    (
        "length of a gap",
        "free",
        "free, if trained for it",
        "free",
        "-",
        "usually fixed before",
        "free",
        "-",
    ),
    (
        "tokens per forward pass",
        "one",
        "one; several with speculation",
        "one",
        "all",
        "several",
        "one or several",
        "-",
    ),
    (
        "ordinary engines (Transformers, vLLM)",
        "yes, with a mask",
        "yes",
        "yes",
        "Transformers",
        "own samplers",
        "own samplers",
        "not needed",
    ),
    ("large trained models to download", "no", "many", "many", "some", "some", "few", "-"),
    ("explains a change", "type and confidence", "if asked", "if asked", "type", "no", "no", "yes"),
]
RULES = ("codespell", "typos", "hunspell", "harper", "quire", "languagetool")
SHOWN = {
    "proofreader": "**Reviser's proofreader**",
    "rewriter": "rewriter (SmolLM2)",
    "blocks": "blocks (SmolLM2, untrained)",
}
PROOFREADERS = (*RULES, "lists", "blocks", "rewriter", "proofreader")
MEASURED = """
These are general statements about each family, not about every program in it.

## Measured here: proofreading

The same scorer (ERRANT) for all, on 50 to 400 sentences of each set; smaller samples are part of larger ones. F0.5 in per cent with a 95 % interval; false alarms are changes per 1,000 words of correct text; seconds are CPU seconds per 1,000 words of correct text on one core. "rewriter" is a baseline that we trained from the same base model and pairs, on as many tokens; it runs with n-gram speculation. LanguageTool is version 2.2 of 2013, the newest one that we found in a package; do not take its scores for those of today's version. "quire" is rules and an edit tagger made from DistilBERT. "lists" are word lists whose suggestions the untrained base model accepts by likelihood; "blocks" are search-and-replace blocks that it writes when asked. A dash means not measured. [All figures](proofreading-results.md).

"""
EDITING = """
## Measured here: ways to edit

We trained three models of 5.8 million parameters from the same base and pairs: "editor" edits, "rewriter" writes the whole text again, and "blocks" writes search-and-replace blocks. "Left alone" changes nothing. The test set is 400 pieces of stories with mistakes that a program made. Locality is the share of the bytes that should stay and did. Steps are the tokens and actions that the model chose. Malformed is the share of outputs with a block that cannot be applied. [All figures](revise-results.md).

"""
TAIL = """
Masked diffusion on the trunk and budget of the story models on the results page was barely readable at a fifth of the full budget ([results](results.md)); its settings were not tuned. We have not measured a large language model, vale, GECToR, an agent or xlm-core.

## What Reviser does not have

No large trained model, no figures on GPUs, no languages other than English in the included models, and no explanations in words. Its proofreader finds one mistake in five on JFLEG and one in nine on BEA-19, and fewer on the three other sets that we measured.
"""


def read(name: str) -> Any:
    """Return the content of a result file."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def proofreading() -> str:
    """Return the table of proofreaders."""

    def interval(found: list[float], scale: float = 1) -> str:
        return f"{scale * found[0]:.1f} ({scale * found[1]:.1f} to {scale * found[2]:.1f})"

    results, rows = read("proofreader/results/rivals.json"), []
    for name in PROOFREADERS:
        cells = results[name]
        clean = cells.get("clean units")
        scores = [
            interval(cells[key]["f05"], 100) if key in cells else "-"
            for key in ("jfleg-test", "bea19-dev")
        ]
        alarms = interval(clean["per_1000_words"]) if clean else "-"
        seconds = f"{clean['seconds_per_1000_words']:.2g}" if clean else "-"
        shown = SHOWN.get(name, name)
        rows.append([shown, *scores, alarms, seconds])
    return table(["", "JFLEG test", "BEA-19 dev", "false alarms", "seconds"], rows)


def editing() -> str:
    """Return the table of ways to edit, from the report of that experiment."""
    from experiments.revise import report

    lines = report.page().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|  | GLEU"))
    chosen = ["", "GLEU", "precision", "recall", "F0.5", "locality", "steps, mean", "malformed"]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    head, rows = cells[0], []
    for row in cells[2:]:
        if len(row) != len(head):
            break
        rows.append([row[head.index(name)] or "0" for name in chosen])
    return table(chosen, rows)


def page() -> str:
    """Return the page."""
    features = table(COLUMNS, FEATURES, numbers=False)
    return HEAD + features + MEASURED + proofreading() + EDITING + editing() + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
