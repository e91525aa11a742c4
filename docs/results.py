"""Writes results.md and its figures from the result files that are committed.

python docs/results.py

Knows no model: `benchmarks/world.py`, `infill.py` and `diffusion.py` made the files.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from reviser.evals.intervals import student

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "world"
TWIN = "append"
BEST = ("late-1-marks", "half-late-marks", "late-1-hops", "annealed-late-marks")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#8c6d00", "#555555", "#56b4e9", "#cc3311")

Run = dict[str, Any]


def load(budget: str) -> dict[str, list[Run]]:
    """The runs of each arm, by seed."""
    arms: dict[str, list[Run]] = defaultdict(list)
    for path in sorted((RESULTS / budget).glob("*.json")):
        run = json.loads(path.read_text("utf-8"))
        arms[run["arm"]].append(run)
    return {arm: sorted(runs, key=lambda run: run["seed"]) for arm, runs in arms.items()}


# -- figures in words ------------------------------------------------------------------------------


def estimate(part: dict[str, Any] | None, digits: int = 2) -> str:
    """A value with its interval."""
    if part is None:
        return "-"
    low, high = part["low"], part["high"]
    value = f"{part['value']:.{digits}f}"
    if low is None or high is None or low == high:
        return value
    return f"{value} [{low:.{digits}f}, {high:.{digits}f}]"


def over_seeds(values: list[float], digits: int = 2) -> str:
    """A mean with Student's 95 % interval over seeds; of one seed, the value alone."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    half = student(len(values) - 1) * spread / math.sqrt(len(values))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def table(rows: list[list[str]], head: list[str]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


# -- sections --------------------------------------------------------------------------------------


def dig(run: Run, path: Sequence[str]) -> Any:
    """What stands at a place of a record; None if nothing does."""
    value: Any = run
    for name in path:
        if not value:
            return None
        value = value[int(name)] if isinstance(value, list) else value.get(name)
    return value


def of(runs: list[Run], *path: str) -> list[float]:
    """One figure of every run; none if a run lacks it."""
    found = [dig(run, path) for run in runs]
    return [] if None in found else found


def cell(runs: list[Run], *path: str, digits: int = 2) -> str:
    """One figure, over seeds if there are several; with its own interval if there is one."""
    values = of(runs, *path)
    if not values:
        return "-"
    if len(runs) == 1 and path[-1] == "value":
        return estimate(dig(runs[0], path[:-1]), digits)
    return over_seeds(values, digits)


def scores(arms: dict[str, list[Run]]) -> str:
    """What the held-out text costs under each arm's own policy, and what of it is order."""
    base = of(arms[TWIN], "held_out", "nll")
    rows = []
    for arm, runs in sorted(arms.items(), key=lambda item: of(item[1], "held_out", "nll")[0]):
        nll = of(runs, "held_out", "nll")
        tax = [bits * math.log(2) for bits in of(runs, "policy", "order_tax", "value")]
        bound = "≤ " if runs[0]["policy"]["order_tax"]["kind"] == "at most" else ""
        kind, move = of(runs, "parts", "kind"), of(runs, "parts", "move")
        order = [a + b for a, b in zip(kind, move, strict=True)]
        above = [a - b for a, b in zip(order, tax, strict=False)]
        rows.append(
            [
                arm,
                f"{runs[0]['held_out']['nll']:.3f} ± {runs[0]['held_out']['nll_95']:.3f}"
                if len(runs) == 1
                else over_seeds(nll, 3),
                f"{sum(nll) / len(nll) - sum(base) / len(base):+.3f}",
                cell(runs, "parts", "text", digits=3),
                over_seeds(order, 3) if order else "-",
                bound + over_seeds(tax, 3),
                over_seeds(above, 3) if above else "-",
                cell(runs, "held_out", "stop_nll", digits=3),
                cell(runs, "policy", "actions_per_token", "value", digits=3).split(" [")[0],
            ]
        )
    head = ["arm", "nats per token", "above append", "which token", "order", "order tax"]
    return table(rows, [*head, "order above the tax", "stop", "actions per token"])


def written(arms: dict[str, list[Run]]) -> str:
    """What each arm writes."""
    rows = []
    ratio = ("written", "ratio_to_twin", "value")
    for arm, runs in sorted(arms.items(), key=lambda item: (of(item[1], *ratio) or [1.0])[0]):
        if runs[0]["written"] is None:
            continue
        shown = of(runs, "written", "shown_per_token")
        rows.append(
            [
                arm,
                cell(runs, "written", "perplexity", "0", "perplexity", "value"),
                "1" if arm == TWIN else cell(runs, *ratio, digits=3),
                cell(runs, "written", "perplexity", "0", "bits_per_character", "value", digits=3),
                cell(runs, "written", "trajectories", "actions_per_token", "value", digits=3)
                + (f" (+{sum(shown) / len(shown):.2f} shown)" if any(shown) else ""),
                cell(runs, "written", "trajectories", "revised", "value", digits=3),
                cell(runs, "written", "landings", "sentence", "value", digits=2),
                cell(runs, "written", "diversity", "distinct_2", "value", digits=3),
                cell(runs, "written", "diversity", "repetition_4", "value", digits=4),
                cell(runs, "written", "diversity", "words", "value", digits=0),
                cell(runs, "written", "mauve", "0", "mauve", "value", digits=2),
            ]
        )
    head = ["arm", "evalPPL", "to the twin's", "bits per character", "actions per token"]
    head += ["revised", "lands at a sentence", "distinct-2", "repetition", "words", "MAUVE"]
    return table(rows, head)


def against(arms: dict[str, dict[str, list[Run]]]) -> str:
    """The best arm that revises, at every budget, beside what was asked for."""
    rows = []
    for found in arms.values():
        for arm in BEST:
            if arm not in found or TWIN not in found:
                continue
            runs = found[arm]
            twins = {run["seed"]: run for run in found[TWIN]}
            variety = [
                dig(run, VARIETY) / dig(twins[run["seed"]], VARIETY) - 1
                for run in runs
                if run["seed"] in twins
            ]
            ids = sum(run["seen"]["ids"] for run in runs) / len(runs)
            rows.append(
                [
                    f"{arm}, {ids / 1e6:.1f} million ids, {len(runs)} seed" + "s" * (len(runs) > 1),
                    cell(runs, "written", "ratio_to_twin", "value", digits=3),
                    cell(runs, "written", "trajectories", "actions_per_token", "value", digits=3),
                    cell(runs, "written", "trajectories", "revised", "value", digits=3),
                    over_seeds([100 * share for share in variety], 1) + " %",
                ]
            )
    wanted = ["asked for", "at most 1.10", "at most 1.15", "at least 0.90", "within 5 %"]
    head = ["", "evalPPL to the twin's", "actions per token", "revised", "distinct-2 to the twin's"]
    return table([wanted, *rows], head)


VARIETY = ("written", "diversity", "distinct_2", "value")


def infilling() -> str:
    """One to three sentences taken out of a story and written again."""
    path = RESULTS / "infill.json"
    if not path.is_file():
        return ""
    found = json.loads(path.read_text("utf-8"))
    names = {"reviser": found["model"], "twin": found["twin"], "truth": "the true sentences"}
    rows = []
    for system, name in (names | {"nothing": "nothing"}).items():
        told = found["systems"][system]
        rows.append(
            [
                name,
                f"{told['characters']:.0f}",
                *(estimate(told.get(part), 3) for part in ("fill", "after", "both")),
                estimate(found["truth"].get(system), 3),
            ]
        )
    head = ["filled by", "characters", "the fill", "what follows", "both", "the truth, to itself"]
    told = INFILLING.format(
        stories=found["stories"],
        after=estimate(found["bits_above_twin"]["after"], 1),
        truth=estimate(found["truth"]["bits_above_twin"], 1),
        actions=f"{found['actions']:.0f}",
    )
    return f"{told}\n{table(rows, head)}"


def checks() -> str:
    """Another judge, and stories that the source did not write."""
    rows = []
    for path in sorted((RESULTS / "checks").glob("*.json")):
        found = json.loads(path.read_text("utf-8"))
        for prompts in ("world", "TinyStories"):
            for n, ratio in enumerate(found[prompts]["ratio"]):
                ours, twins = (side[n] for side in found[prompts]["perplexity"].values())
                rows.append(
                    [
                        f"{path.stem}, {prompts}, {ours['scorer']}",
                        estimate(ours["bits_per_character"], 3),
                        estimate(twins["bits_per_character"], 3),
                        estimate(ratio["ratio"], 3),
                    ]
                )
    head = ["run, beginnings from, judge", "bits per character", "the twin's", "evalPPL, ratio"]
    return f"{CHECKS}\n{table(rows, head)}" if rows else ""


def decoding() -> str:
    """What other settings write."""
    rows = []
    for path in sorted((RESULTS / "decoding").glob("*.json")):
        found = json.loads(path.read_text("utf-8"))
        rows.append(
            [
                found["run"],
                ", ".join(f"{name} {value:g}" for name, value in found["settings"].items()),
                estimate(found["perplexity"][0]["perplexity"]),
                estimate(found["ratio_to_twin"], 3),
                estimate(dig(found, ("trajectories", "actions_per_token")), 3),
                estimate(dig(found, ("trajectories", "revised")), 3),
                estimate(dig(found, ("trajectories", "move_fraction")), 4),
                estimate(dig(found, ("diversity", "distinct_2")), 3),
                estimate(dig(found, ("diversity", "words")), 0),
            ]
        )
    head = ["run", "settings", "evalPPL", "to the twin's with the same", "actions per token"]
    head += ["revised", "moves among actions", "distinct-2", "words"]
    return f"{DECODING}\n{table(rows, head)}" if rows else ""


# -- figures ---------------------------------------------------------------------------------------


TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


def curves(arms: dict[str, list[Run]]) -> str:
    """Held-out nats per text token above the twin's as training goes on, one line per run."""
    twins = {run["seed"]: run["curve"] for run in arms[TWIN]}
    lines = []
    for arm, runs in arms.items():
        for run in runs if arm != TWIN else []:
            pairs = zip(run["curve"], twins.get(run["seed"], []), strict=False)
            points = [(ours["ids"], ours["nll"] - its["nll"]) for ours, its in pairs if ours["ids"]]
            if points:
                lines.append((arm, points))
    if not lines:
        return ""
    lines.sort(key=lambda line: line[1][-1][1])
    most = max(x for _, points in lines for x, _ in points)
    heights = [y for _, points in lines for _, y in points]
    low = max((tick for tick in TICKS if tick <= min(heights)), default=min(heights))
    high = min((tick for tick in TICKS if tick >= max(heights)), default=max(heights))
    width, left, top, bottom, legend = 720, 52, 12, 40, 190
    height = max(300, top + bottom + 17 * len(lines))
    scale = (height - top - bottom) / math.log(high / low)

    def across(x: float) -> float:
        return left + (width - left - legend) * x / most

    def down(y: float) -> float:
        return top + scale * math.log(high / y)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        "<title>Held-out nats per text token above append, as training goes on</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for tick in TICKS:
        if low <= tick <= high:
            y = f"{down(tick):.1f}"
            parts.append(f'<path d="M{left} {y}H{width - legend}" stroke="#e2e2e2"/>')
            parts.append(f'<text x="{left - 6}" y="{y}" dy="4" text-anchor="end">+{tick:g}</text>')
    for share in (0.25, 0.5, 0.75, 1.0):
        words = f"{most * share / 1e6:.1f}M"
        parts.append(
            f'<text x="{across(most * share):.1f}" y="{height - 20}" text-anchor="middle">{words}'
            "</text>"
        )
    parts.append(f'<text x="{left}" y="{height - 4}">nats above append; ids seen</text>')
    labels = [down(points[-1][1]) for _, points in lines]
    for n in range(len(labels) - 2, -1, -1):  # the best is lowest; labels above keep clear of it
        labels[n] = max(labels[n], labels[n + 1] + 15)
    over = max(0.0, labels[0] - (height - bottom))
    for n, ((arm, points), label) in enumerate(zip(lines, labels, strict=True)):
        colour = COLOURS[n % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
        end = across(points[-1][0])
        y = max(label - over, top + 15.0 * (len(lines) - 1 - n))
        parts.append(
            f'<path d="M{end:.1f} {down(points[-1][1]):.1f}L{width - legend + 22} {y:.1f}"'
            f' stroke="{colour}" stroke-width="0.6"/>'
        )
        parts.append(
            f'<text x="{width - legend + 26}" y="{y:.1f}" dy="4" fill="{colour}">{arm}</text>'
        )
    parts.append("</svg>\n")
    return "\n".join(parts)


# -- the page --------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """The page and its figures by name, from what is there."""
    world = json.loads((RESULTS / "world.json").read_text("utf-8"))
    arms = {budget: load(budget) for budget in ("screen", "full")}
    runs = [run for found in arms.values() for one in found.values() for run in one]
    hours = sum(run["seconds"] for run in runs) / 3600
    peak = json.loads((RESULTS / "machine.json").read_text("utf-8"))["flops_per_second"]
    rate = median(world["training_flops"][run["budget"]] / run["seconds"] for run in runs)
    facts = {
        "stories": f"{world['stories']:,}",
        "tokens": f"{world['tokens'] / 1e6:.1f} million",
        "own": f"{world['own_tokens'] / 1e6:.1f} million",
        "nats": f"{world['source']['nats_float32'] * world['tokens'] / world['own_tokens']:.2f}",
        "divergence": f"{world['source']['divergence']:.4f}",
        "hashes": ", ".join(f"`{name}` {digest[:16]}" for name, digest in world["files"].items()),
        "parameters": f"{runs[0]['parameters'] / 1e6:.1f} million",
        "runs": str(len(runs)),
        "hours": f"{hours:.1f}",
        "rate": f"{rate / 1e12:.2f}",
        "peak": f"{peak / 1e12:.1f}",
        "share": f"{100 * rate / peak:.0f}",
    }
    parts, figures = [INTRODUCTION.format(**facts)], {}
    for budget, found in arms.items():
        if not found:
            continue
        if figure := curves(found):
            figures[f"results-{budget}.svg"] = figure
        ids = sum(run["seen"]["ids"] for run in found[TWIN]) / len(found[TWIN])
        seeds = max(len(one) for one in found.values())
        told = WRITTEN.format(prompts=f"{found[TWIN][0]['written']['samples']:,}")
        others = {
            "diffusion": [
                json.loads(path.read_text("utf-8"))
                for path in sorted((RESULTS / "diffusion").glob(f"{budget}-*.json"))
            ]
        }
        parts.append(
            HEADINGS[budget].format(ids=f"{ids / 1e6:.1f} million ids", seeds=seeds)
            + f"![Nats per token above append against ids seen](results-{budget}.svg)\n\n"
            * bool(figure)
            + f"{SCORES}\n{scores(found)}\n{told}\n"
            + written(found | {arm: runs for arm, runs in others.items() if runs})
        )
    parts.insert(1, f"{TARGET}\n{against(arms)}")
    parts += [section() for section in (infilling, checks, decoding)]
    return {"results.md": "\n".join([*filter(None, parts), LEARNT]), **figures}


def cards() -> dict[str, str]:
    """The cards of the models that are shipped, by path."""
    arms = load("full")
    return {
        f"models/{name}/README.md": CARD.format(
            name=name,
            what=WHAT[name],
            example=EXAMPLES[name],
            arm=arm,
            ids=f"{arms[arm][0]['seen']['ids'] / 1e6:.0f}",
            figures=table(
                [
                    [label, cell(arms[arm], *path, digits=digits)]
                    for label, (path, digits) in FIGURES.items()
                    if of(arms[arm], *path)
                ],
                ["", "seeds: " + ", ".join(str(run["seed"]) for run in arms[arm])],
            ),
            prompts=f"{arms[arm][0]['written']['samples']:,}",
        )
        for name, arm in SHIPPED.items()
        if arm in arms and (HERE.parent / "models" / name).is_dir()
    }


SHIPPED = {"stories-revise": "late-1-marks", "stories-append": TWIN}
FIGURES = {
    "held-out nats per text token": (("held_out", "nll"), 3),
    "evalPPL under the source": (("written", "perplexity", "0", "perplexity", "value"), 2),
    "to the twin's": (("written", "ratio_to_twin", "value"), 3),
    "bits per character": (("written", "perplexity", "0", "bits_per_character", "value"), 3),
    "actions per token": (("written", "trajectories", "actions_per_token", "value"), 3),
    "rollouts that revise": (("written", "trajectories", "revised", "value"), 3),
    "distinct-2": (("written", "diversity", "distinct_2", "value"), 3),
    "MAUVE": (("written", "mauve", "0", "mauve", "value"), 2),
}
WHAT = {
    "stories-revise": (
        "It writes a story from left to right and leaves something out, with a mark; then it goes"
        " back to the mark and writes that last. So it can also fill gaps in a story that exists."
        " Its autoregressive twin is [stories-append](../stories-append)."
    ),
    "stories-append": (
        "It writes from left to right: the autoregressive twin of"
        " [stories-revise](../stories-revise), with the same trunk, text and training FLOPs, to"
        " compare with."
    ),
}
EXAMPLES = {
    "stories-revise": (
        'reviser generate "Once upon a time, there was a little dog" -m models/stories-revise\n'
        'reviser infill "Tom took his red ball to the park.{} Tom was sad. His mom got him a new'
        ' ball." -m models/stories-revise'
    ),
    "stories-append": 'reviser generate "Once upon a time" -m models/stories-append',
}
CARD = """\
---
license: mit
language: en
library_name: reviser
pipeline_tag: text-generation
---

# {name}

A language model of 5.8 million parameters that tells stories for small children. {what}

```sh
{example}
```

An ordinary causal LM (GPT-NeoX, six layers of 256, context 384, bfloat16) over 4,096 tokens of byte-level BPE and some action tokens; `AutoModelForCausalLM` opens it, Reviser decodes it.

## Data

Text sampled from [stories15M](https://github.com/karpathy/llama2.c) (MIT), itself trained on TinyStories: 101,120 stories, temperature 1, nothing cut off; `benchmarks/sample_corpus.py` draws them again. No text by a person was used.

## Training

`recipes/world.yaml`, {ids} million ids, one CPU core:

```sh
# WORLD holds the stories; how to sample them again is told on the results page
python benchmarks/world.py prepare WORLD
python benchmarks/world.py run {arm} --budget full --world WORLD --judge STORIES15M
```

## Figures

{prompts} held-out beginnings of 32 tokens, continued at temperature 0.9 with top-k 50; the shipped weights are those of the first seed. Of one seed [..] is a 95 % interval over prompts, of several ± is one over seeds. [How these were measured](../../docs/results.md), in float32; here the weights are rounded to bfloat16.

{figures}
## Limits

A toy for trying the library and a fixed point for its tests. Names and things change in the middle of a story, and nothing it says is true. English, simple words, 256 tokens at most. What it writes about may be as sad as stories for children are; nobody looked for bias.
"""

INTRODUCTION = """\
# Results

Made by `python docs/results.py` from the files in `results/`; each names the recipe and seed it came from.

## The world

{stories} stories sampled from stories15M, untruncated and at temperature 1: {tokens} of its tokens, {own} of ours. The judge is the source itself, so a text's perplexity under it is exact with respect to the distribution that every arm learns. (Sampled in bf16, judged in float32: {divergence} nats per token apart.) Our tokens cost the source {nats} nats each, the floor under all scores below. Files, by SHA-256: {hashes}; drawn by

```sh
python benchmarks/sample_corpus.py STORIES15M -o WORLD/stories-0.jsonl --batches 395 --share 0/2
python benchmarks/sample_corpus.py STORIES15M -o WORLD/stories-1.jsonl --batches 364 --share 1/2
python benchmarks/sample_corpus.py STORIES15M -o WORLD/stories-2.jsonl --batches 411 --share 396/1
```

One trunk (GPT-NeoX, six layers of 256, {parameters} parameters), one byte-level BPE of 4,096, one recipe ([`recipes/world.yaml`](../recipes/world.yaml)), one budget in training FLOPs per arm: an arm whose policy takes more actions sees less text. Arms differ in the policy, and those with marks or hops in a few action tokens.

{runs} runs took {hours} core-hours of training, one core each of a virtual machine with two (x86-64 with AMX, bfloat16, no GPU). The median run trained at {rate} TFLOP/s, {share} % of the {peak} that a core reaches on the trunk's largest product (`python benchmarks/world.py machine`): the rest goes to small operations, attention and the optimiser.
"""
HEADINGS = {
    "screen": "## Screening: a fifth of the budget, one seed\n\n{ids} each.\n\n",
    "full": "## Full budget, {seeds} seeds\n\n{ids} each. ± is Student's 95 % interval over seeds.\n\n",
}
TARGET = """\
## The target

A model that revises, as good as its autoregressive twin at equal training FLOPs, at the same price, and no duller.
"""
INFILLING = """\
## Filling a gap

{stories} held-out stories with one to three sentences taken out. The Reviser sees both sides and ends by itself, after {actions} actions in the mean; the twin continues the left side and is cut after as many sentences as are missing. Bits per character under the source: of what was filled in, given the left side; of what follows it, which is the same text for everyone; of both. The last column is what the true sentences cost each model itself, given what it sees. What follows costs {after} bits a story more behind the Reviser's fill than behind the twin's, the true sentences cost the Reviser {truth} bits more than the twin (`python benchmarks/infill.py`).
"""
CHECKS = """\
## Another judge, and real stories

300 beginnings each, of held-out stories of the world and of real TinyStories, continued as above and judged by the source and by SmolLM2-135M-Instruct (`python benchmarks/world.py check`).
"""
DECODING = """\
## Decoding

300 beginnings as above, continued with other settings; the twin is decoded with the same (`python benchmarks/world.py decode`).
"""
SCORES = """\
Held-out text under each arm's own policy, in nats per text token; ± is 95 % over texts. "Which token" is the text itself, given that a token is inserted. "Order" is the rest: whether to insert, move or stop, and which move. The order tax is what of that no model can learn away; what is above it is counting and choosing that this model has not learnt.
"""
WRITTEN = """\
What it writes: {prompts} held-out beginnings of 32 tokens, continued at temperature 0.9 with top-k 50. evalPPL is per token of the source. "Revised" is the share of rollouts with a backward move and an insertion where it led. [..] is a 95 % interval over prompts.
"""
LEARNT = """\
## What is known so far

Work in progress: the screening is not complete, and the full budget has one seed.

- **Order is most of the paper's gap.** Its random walk costs 1.29 nats per token that no model can learn away, and at a fifth of the budget its texts are another world. Writing left to right with one sentence left out and written last costs 0.02.
- **Counting was the next.** `late-1` means to go back to where a sentence starts and gets there 5 % of the time: its landings are off by up to eight tokens either way. With the insertion put at the nearest sentence start (`benchmarks/snapped.py`, 143 rollouts), evalPPL is 24.9 instead of 29.3; the twin's, over all 300 prompts, is 23.4. Moves that count sentences (`hops`, in the history up to commit 9de04c3) land by construction; marks, which count nothing, are in the library now.
- **Then filling.** At the full budget `late-1-marks` is at 1.16, `late-1-hops` at 1.18; marks are also as varied and as long as the twin, where hops add a sentence that nobody left out. Where that comes from (`benchmarks/snapped.py --first 300`, evalPPL): the twin's texts 9.98, with a sentence taken out at random 10.69; those of `late-1-marks` 11.34, without the sentences written last 11.21. So of the 0.128 nats between 9.98 and 11.34, 0.047 are the text itself, and 0.081 that what is put into the gap closes it no better than nothing would. It does not use what stands to its right yet: true sentences cost it more than they cost the twin, who sees the left side alone. That a fifth of the budget came out closer (1.10 and 1.03) says that there was less to spoil.
- **Fewer late texts in training help the text, not the filling.** Appending at first and late spans more and more (`annealed-late-marks`) is at 1.01 at a fifth of the budget, with 77 % of the texts revised; with `move_bias` 1, 90 % and 1.10.
- `late-2` and `late-2-hops` were trained when late spans came in random order; today they are written left to right.
- **Looking after a move does not pay.** Shown eight tokens on either side and taught to put slips right, `late-1` lands at a sentence half of the time, but sees 14 % less text than `append` for the same FLOPs and writes no better; with hops, which always land, looking only costs. Shown the left side last (`r0l8`) costs least. It stays in `benchmarks/grounding.py`.
- **Short gaps are worse than sentences**, at this budget: four tokens left out within a sentence (`short-1-marks`) break what is around them.
"""


if __name__ == "__main__":
    for name, content in pages().items():
        (HERE / name).write_text(content, "utf-8")
    for name, content in cards().items():
        (HERE.parent / name).write_text(content, "utf-8")
