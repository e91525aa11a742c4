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
from statistics import fmean, median
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


def lines(arms: dict[str, list[Run]]) -> list[tuple[str, list[Run]]]:
    """What a table has a line for: an arm of three seeds or more; else each run by itself."""
    many = any(len(runs) > 1 for runs in arms.values())
    found: list[tuple[str, list[Run]]] = []
    for arm, runs in arms.items():
        if len(runs) > 2:
            found.append((f"{arm}, {len(runs)} seeds", runs))
        else:
            found += [(f"{arm}, seed {run['seed']}" if many else arm, [run]) for run in runs]
    return found


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
    base = {run["seed"]: run["held_out"]["nll"] for run in arms[TWIN]}
    rows = []
    for label, runs in sorted(lines(arms), key=lambda line: fmean(of(line[1], "held_out", "nll"))):
        nll = of(runs, "held_out", "nll")
        tax = [bits * math.log(2) for bits in of(runs, "policy", "order_tax", "value")]
        bound = "≤ " if runs[0]["policy"]["order_tax"]["kind"] == "at most" else ""
        kind, move = of(runs, "parts", "kind"), of(runs, "parts", "move")
        order = [a + b for a, b in zip(kind, move, strict=True)]
        above = [a - b for a, b in zip(order, tax, strict=False)]
        more = [run["held_out"]["nll"] - base[run["seed"]] for run in runs if run["seed"] in base]
        rows.append(
            [
                label,
                f"{nll[0]:.3f} ± {runs[0]['held_out']['nll_95']:.3f}"
                if len(runs) == 1
                else over_seeds(nll, 3),
                f"{fmean(more):+.3f}" if more else "-",
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
    for label, runs in sorted(lines(arms), key=lambda line: fmean(of(line[1], *ratio) or [1.0])):
        arm = runs[0]["arm"]
        if runs[0]["written"] is None:
            continue
        shown = of(runs, "written", "shown_per_token")
        rows.append(
            [
                label,
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


def walked(arms: dict[str, list[Run]]) -> str:
    """How each arm's cursor goes: the paper's trajectory statistics, the policy's moves beside."""
    names = ["move_fraction", "move_distance", "backward_fraction", "end_append_fraction"]
    names += ["insert_position", "travel_per_token", "needed_actions_per_token"]
    rows = []
    for label, runs in lines(arms):
        if runs[0]["written"] is None or "trajectories" not in runs[0]["written"]:
            continue
        digits = {"move_distance": 1, "travel_per_token": 2, "insert_position": 2}
        cells = [
            cell(runs, "written", "trajectories", name, "value", digits=digits.get(name, 3))
            for name in names
        ]
        rows.append([label, cell(runs, "policy", "move_fraction", "value", digits=3), *cells])
    head = ["arm", "moves, by the policy", "moves, as decoded", "mean distance", "backward"]
    head += ["inserts at the end", "place of inserts", "way per token", "actions needed per token"]
    return table(rows, head)


def against(arms: dict[str, dict[str, list[Run]]]) -> str:
    """The arms that come closest, at every budget, beside what was asked for."""
    rows = []
    for found in arms.values():
        twins = {run["seed"]: run for run in found.get(TWIN, [])}
        for label, runs in lines({arm: found[arm] for arm in BEST if arm in found}):
            paired = [run for run in runs if run["seed"] in twins]
            if not paired:
                continue
            variety = [dig(run, VARIETY) / dig(twins[run["seed"]], VARIETY) - 1 for run in paired]
            ids = fmean(of(runs, "seen", "ids"))
            rows.append(
                [
                    f"{label}, {ids / 1e6:.1f} million ids",
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
                *(estimate(told.get(part), 3) for part in ("fill", "after")),
                estimate(found["truth"].get(system), 3),
            ]
        )
    head = ["filled by", "characters", "the fill", "what follows", "the truth, to itself"]
    told = INFILLING.format(
        stories=found["stories"],
        twin=estimate(found["after_bits_above"]["twin"], 1),
        nothing=estimate(found["after_bits_above"]["nothing"], 1),
        truth=estimate(found["truth"]["bits_above_twin"], 1),
        actions=f"{found['actions']:.0f}",
    )
    return f"{told}\n{table(rows, head)}"


def gaps() -> str:
    """Where the difference to the twin is: which part of a story, and which of its sentences."""
    parts, snapped = RESULTS / "phases.json", RESULTS / "snapped.json"
    if not (parts.is_file() and snapped.is_file()):
        return ""
    found = json.loads(parts.read_text("utf-8"))
    rows = [
        [
            f"{run}, {part}",
            f"{told['tokens']:.0f}",
            estimate(told["nats_above"], 3),
            f"{told['share']:+.3f}",
        ]
        for run, record in found["runs"].items()
        for part, told in record.items()
    ]
    head = ["", "tokens a story", "nats a token above the twin", "of all tokens"]
    told = json.loads(snapped.read_text("utf-8"))
    value = {name: part["perplexity"] for name, part in told["texts"].items()}
    words = GAPS.format(
        stories=found["stories"],
        model=told["model"],
        rollouts=told["texts"]["as it is"]["rollouts"],
        ours=estimate(value["as it is"]),
        ours_open=estimate(value["without it"]),
        twin=estimate(value["twin as it is"]),
        twin_open=estimate(value["twin with a sentence taken out"]),
    )
    return f"{words}\n{table(rows, head)}"


def checks() -> str:
    """Another judge, and stories that the source did not write."""
    rows = []
    for path in sorted((RESULTS / "checks").glob("*.json")):
        found = json.loads(path.read_text("utf-8"))
        for prompts in ("world", "TinyStories"):
            for n, ratio in enumerate(found[prompts]["ratio"]):
                sides = found[prompts]["perplexity"]
                twins = sides[next(name for name in sides if name.startswith(TWIN))][n]
                ours = sides[next(name for name in sides if not name.startswith(TWIN))][n]
                rows.append(
                    [
                        f"{path.stem}, {prompts}, {ours['scorer']['model']}",
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
    drawn = []
    for arm, runs in arms.items():
        for run in runs if arm != TWIN else []:
            pairs = zip(run["curve"], twins.get(run["seed"], []), strict=False)
            points = [(ours["ids"], ours["nll"] - its["nll"]) for ours, its in pairs if ours["ids"]]
            if points:
                drawn.append((f"{arm}, seed {run['seed']}" if len(runs) > 1 else arm, points))
    if not drawn:
        return ""
    drawn.sort(key=lambda line: line[1][-1][1])
    most = max(x for _, points in drawn for x, _ in points)
    heights = [y for _, points in drawn for _, y in points]
    low = max((tick for tick in TICKS if tick <= min(heights)), default=min(heights))
    high = min((tick for tick in TICKS if tick >= max(heights)), default=max(heights))
    width, left, top, bottom, legend = 720, 52, 12, 40, 190
    height = max(300, top + bottom + 17 * len(drawn))
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
    labels = [down(points[-1][1]) for _, points in drawn]
    for n in range(len(labels) - 2, -1, -1):  # the best is lowest; labels above keep clear of it
        labels[n] = max(labels[n], labels[n + 1] + 15)
    over = max(0.0, labels[0] - (height - bottom))
    for n, ((arm, points), label) in enumerate(zip(drawn, labels, strict=True)):
        colour = COLOURS[n % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        )
        end = across(points[-1][0])
        y = max(label - over, top + 15.0 * (len(drawn) - 1 - n))
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
        "ended": f"{100 * world['ended']:.0f}",
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
        prompts = f"{found[TWIN][0]['written']['samples']:,}"
        others = {
            "diffusion": [
                json.loads(path.read_text("utf-8"))
                for path in sorted((RESULTS / "diffusion").glob(f"{budget}-*.json"))
            ]
        }
        parts.append(
            HEADINGS[budget].format(ids=f"{ids / 1e6:.1f} million ids")
            + f"![Nats per token above append against ids seen](results-{budget}.svg)\n\n"
            * bool(figure)
            + f"Held out:\n\n{scores(found)}\nWritten, {prompts} beginnings:\n\n"
            + written(found | {arm: runs for arm, runs in others.items() if runs})
            + f"\nWalked:\n\n{walked(found)}"
        )
    parts[1:1] = [f"{TARGET}\n{against(arms)}", COLUMNS]
    parts += [section() for section in (gaps, infilling, checks, decoding)]
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
                    [label, cell(arms[arm][:1], *path, digits=digits)]
                    for label, (path, digits) in FIGURES.items()
                    if of(arms[arm][:1], *path)
                ],
                ["", "these weights"],
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

Text sampled from [stories15M](https://github.com/karpathy/llama2.c) (MIT), itself trained on TinyStories: 101,120 stories at temperature 1 from its whole distribution; every seventh ends where the source's context of 256 does. `benchmarks/sample_corpus.py` draws them again. No text by a person was used.

## Training

`recipes/world.yaml`, {ids} million ids, one CPU core:

```sh
# WORLD holds the stories; how to sample them again is told on the results page
python benchmarks/world.py prepare WORLD --source STORIES15M
python benchmarks/world.py run {arm} --budget full --world WORLD --judge STORIES15M
```

## Figures

{prompts} held-out beginnings of 32 tokens, continued at temperature 0.9 with top-k 50; [..] is a 95 % interval over prompts. Another seed of the same training differs by more than that: [the results page](../../docs/results.md) has all of them, and how these were measured, in float32; here the weights are rounded to bfloat16.

{figures}
## Limits

A toy for trying the library and a fixed point for its tests. Names and things change in the middle of a story, and nothing it says is true. English, simple words, 256 tokens at most. What it writes about may be as sad as stories for children are; nobody looked for bias.
"""

INTRODUCTION = """\
# Results

Made by `python docs/results.py` from the files in `results/`; each names the recipe and seed it came from.

## The world

{stories} stories sampled from stories15M at temperature 1, from its whole distribution: {tokens} of its tokens, {own} of ours; {ended} % end by themselves, the rest where its context of 256 does. The judge is the source itself, so a text's perplexity under it is exact with respect to the distribution that every arm learns, as long as the text fits that context; the few longer ones are judged in windows. (Sampled in bf16, judged in float32: {divergence} nats per token apart.) Our tokens cost the source {nats} nats each, the floor under all scores below. Files, by SHA-256: {hashes}; drawn by

```sh
python benchmarks/sample_corpus.py STORIES15M -o WORLD/stories-0.jsonl --batches 395 --share 0/2
python benchmarks/sample_corpus.py STORIES15M -o WORLD/stories-1.jsonl --batches 364 --share 1/2
python benchmarks/sample_corpus.py STORIES15M -o WORLD/stories-2.jsonl --batches 411 --share 396/1
```

One trunk (GPT-NeoX, six layers of 256, {parameters} parameters), one byte-level BPE of 4,096, one recipe (`recipes/world.yaml`), one budget in training FLOPs per arm: an arm whose policy takes more actions sees less text. Arms differ in the policy, and those with marks or hops in a few action tokens.

{runs} runs took {hours} core-hours of training, one core each of a virtual machine with two (x86-64 with AMX, bfloat16, no GPU). The median run trained at {rate} TFLOP/s, {share} % of the {peak} that a core reaches on the trunk's largest product (`python benchmarks/world.py machine`): the rest goes to small operations, attention and the optimiser.
"""
HEADINGS = {
    "screen": "## Screening: a fifth of the budget, one seed\n\n{ids} each.\n\n",
    "full": "## Full budget\n\n{ids} each.\n\n",
}
TARGET = """\
## The target

A model that revises, as good as its autoregressive twin at equal training FLOPs, at the same price, and no duller. **Missed in one point**: at the full budget the Reviser's texts are at 1.13 and 1.16 times the twin's evalPPL, by seed, where 1.10 was asked for; price, revising and variety are as asked for. Two seeds were run, not the three that were planned.
"""
GAPS = """\
## Where the gap is

By parts of a story: {stories} held-out stories, taken apart as `late-1` does. Each token is scored by the model where it comes in the trajectory, and by the twin from left to right (`python benchmarks/phases.py WORLD full late-1-marks-0 half-late-marks-0 -o results/world/phases.json`). And by what it writes: the evalPPL of {rollouts} rollouts of {model} is {ours}, without the sentences written last {ours_open}; that of the twin's {twin}, with a sentence taken out of each at random {twin_open} (`python benchmarks/snapped.py RUN RUN/rollouts/prompts-1000/usual.jsonl --twin TWIN/rollouts/prompts-1000/usual.jsonl --judge STORIES15M --first 300 -o results/world/snapped.json`).
"""
INFILLING = """\
## Filling a gap

{stories} held-out stories with one to three sentences taken out, decoded as above. The Reviser sees both sides and ends by itself, after {actions} actions in the mean; the twin continues the left side and is cut after as many sentences as are missing. Bits per character under the source: of what was filled in, given the left side; and of what follows it, which is the same text for everyone. The last column is what the true sentences cost each model itself, given what it sees and that it inserts. What follows costs {twin} bits a story more behind the Reviser's fill than behind the twin's, and {nothing} more than behind nothing; the true sentences cost the Reviser {truth} bits more than the twin (`python benchmarks/infill.py WORLD RUN TWIN --judge STORIES15M -o results/world/infill.json`).
"""
CHECKS = """\
## Another judge, and real stories

300 beginnings each, of held-out stories of the world and of real TinyStories, continued as above and judged by the source and by SmolLM2-135M-Instruct (`python benchmarks/world.py check RUN --world WORLD --judge STORIES15M --second SMOLLM2 --real tiny_stories.txt.xz`).
"""
DECODING = """\
## Decoding

300 beginnings as above, continued with other settings; the twin is decoded with the same (`python benchmarks/world.py decode RUN --world WORLD --judge STORIES15M --settings '{"move_bias": 1}'`).
"""
COLUMNS = """\
## How to read the tables

Arms: `append` is the twin, left to right; `paper` is the paper's policy, of which `delete-0.9` moves less; `spans-N` writes spans of about N tokens in random order; `late-N` leaves N sentences out and writes them last (`short-` and `-words`: a few words instead). `-marks` goes back by marks, `-hops` by counting sentences, the others by counting tokens. `mixed-50` appends half of the texts; `annealed-`, `then-` and `half-` append at first and come to late spans step by step, after 60 %, and between 40 and 60 % of training. `+look-8` is shown eight tokens on either side after a move (`r0l8`: eight of the left only), `-slip-0.5` is led astray in half of the moves, to learn to put that right.

- **Held out**: text under each arm's own policy, in nats per text token; ± is 95 % over texts, or over seeds where a line has several. "Which token" is the text itself, given that a token is inserted. "Order" is the rest: whether to insert, move or stop, and which move. The order tax is what of that no model can learn away; what is above it is counting and choosing that this model has not learnt.
- **Written**: held-out beginnings of 32 tokens, continued at temperature 0.9 with top-k 50. evalPPL is per token of the source. "Revised" is the share of rollouts with a backward move and an insertion where it led. [..] is a 95 % interval over prompts and says nothing of other seeds; ± is one over seeds. "To the twin's" is to `append` of the same seed. [Ten rollouts](rollouts.html) of the shipped model, drawn by a seed, can be watched.
- **Walked**: how the cursor goes in these rollouts, the paper's trajectory statistics. "Moves" are shares of all actions, `back` included and `mark` not; a distance and the way are in tokens; the place of an insert goes from 0, the beginning of the text, to 1.
"""
LEARNT = """\
## What was learnt, and what failed

- **Random order is what costs the paper's policy most**, twice over. Of the 3.24 nats per token that `paper` is above `append`, 1.29 are the order itself, which no model can learn away, and 1.85 that the tokens are harder to tell out of order; 0.12 are counting and choosing. Left to right with one sentence left out and written last (`late-1`), the order costs 0.02.
- **Counting is next.** `late-1` means to go back to where a sentence starts and gets there 5 % of the time. Moves that count sentences (`hops`, in the history up to commit 9de04c3) land by construction; marks, which count nothing, are in the library now. That is the step from 1.29 to 1.09 at a fifth of the budget.
- **Then filling.** What remains at the full budget is in every part of a story (above): before the mark, though the model has seen nothing there that the twin has not; behind it, where a sentence is missing; and most per token in the sentence written last. That one should be the cheapest, for it is written with both sides in view; it is the dearest. What it puts in helps what follows a little, less than the true sentence by far. A model of this size has seen 58,000 such sentences, a tenth of its text.
- **The decoded mix of actions is the policy's**, or nearly, so there is little for a bias to close: 0.007 of the actions are moves by `late-1-marks` and as decoded, 0.131 and 0.140 with `delete-0.9`. `paper` has 0.231 and 0.279; what it makes too many are detours (1.40 actions per token where 1.30 would do), which moves written as the fewest do not have. A bias toward marks (`move_bias` 1, above) has more texts revised and costs quality.
- **Seeds differ by as much as arms.** Two seeds of `append` are 4 % apart in evalPPL, 5 % in distinct-2 and ten words in length, at the full budget; `late-1-marks` is 0.08 nats per token above its twin with one seed, 0.05 with the other. Differences of that size between single runs, here and in the screening, mean nothing.
- **When late spans are taught does not matter.** Appending for the first 40 % of training and late spans alone for the last 40 % (`half-late-marks`) ends where late spans throughout do. Mixtures that reach late spans only at the very end (`annealed-late-marks`, `then-late-marks`) revise fewer texts; that they write better is within what seeds differ by.
- **Between the paper's policy and late spans there is no bargain.** Fewer moves (`delete-0.9`) bring 43 times the twin's evalPPL down to 11; half append and half spans of 16 (`mixed-50`) is at 1.34 and revises 29 % of its texts.
- **Coming back sooner does not help**: the sentence written as soon as the next one is there, instead of at the end of the story, was at 1.118 [1.077, 1.166] at a fifth of the budget, at the same nats per token; it is not in the library.
- **Masked diffusion learns as slowly as `paper`.** On the same trunk and budget (places read, as the other arms' ids) its bound is 5.04 nats per text token. `append`, a likelihood, costs 2.96; the 6.21 of `paper` pay for the order too, and less the order tax they are a bound of 4.92. What it writes in 128 steps is hardly text yet. Its learning rate is the recipe's, not tuned for it.
- **Looking after a move does not pay.** Shown eight tokens on either side and taught to put slips right, `late-1` lands at a sentence half of the time, but sees 14 % less text than `append` for the same FLOPs and writes no better; with hops, which always land, looking only costs. Shown the left side last (`r0l8`) costs least. It stays in `benchmarks/grounding.py`.
- **Short gaps are worse than sentences**, at this budget: four tokens left out within a sentence (`short-1-marks`) break what is around them.

What cannot be made again from today's code: the arms with hops; `late-2` and `late-2-hops`, trained when late spans came in random order. Of each run, `commit` in its file says what it was made with; "dirty" is a tree with changes that were not committed then.

Planned and not run: `spans-8`, `paper-merged`, `delete-0.95`, `mixed-10`, `mixed-90`, `annealed`; the third seed at the full budget; other biases and caps in decoding. The machine with matrix units that all of this ran on was no longer to be had, and the sampled corpus went with it; the one that took its place reaches a twelfth of its peak (0.23 TFLOP/s on two cores, in float32, which is its best), so that the corpus alone would have taken hours and the runs days. All are arms of `benchmarks/world.py`, one command each.
"""


if __name__ == "__main__":
    for name, content in pages().items():
        (HERE / name).write_text(content, "utf-8")
    for name, content in cards().items():
        (HERE.parent / name).write_text(content, "utf-8")
