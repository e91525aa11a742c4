"""Writes revise-results.md from what `benchmarks/revise/run.py` left in results/revise.

python docs/revise_results.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "revise"

INTRODUCTION = """\
# Editing: results

Made by `python docs/revise_results.py` from the files in `results/revise`. How an editor is trained and used is in [guides/revise.md](guides/revise.md).

An editor and its twin, which writes the whole text anew, from the same base, pairs and number of ids read in training. The base is the story model `models/stories-append` without its actions ({parameters:.1f} million parameters); the pairs are pieces of stories of one to four sentences, sampled from stories15M, with mistakes put in by `reviser data corrupt` (six for a hundred words, three pieces in ten without any). Both read {ids:.1f} million ids in training ({editor_pairs:,} pairs and {rewriter_pairs:,}: a rewriter reads each text twice), in float32 on one core each. Decoding is greedy. The editor reaches places by searches and learned to note (`policy: {{kind: edits, address: search, noted: true}}`): it reads each draft first, and edits where a change was at least {notes:.0%} likely by its notes; that reading counts as a step, for each window that is then gone on with; in the others it is the only one.
"""

ARMS = """\
## How it is taught

Editors of the same base and pairs on the same {pairs:,} pieces, by how a place is reached (moves, searches, or whichever is shorter) and by what else is learned: to write a share of the pairs anew, or to note, at each token that is read, what the text before it needs. "Read first" is with these notes: what is not noted is locked.
"""

QUALITY = """\
## How good, how local, how many steps

{pairs:,} held-out pieces, no story of which was trained on. Edits are of words, the same place and the same correction; locality is the share of the bytes outside the reference's changes that are left as they were; steps are ids chosen. [..] is 95 % over pieces; it says nothing of other seeds.
"""

PARTS = """\
Where edits are lost: of the changes wanted, how many are made in the right place; of those, how many put the right words there; of the changes made, how many are in a place where none was wanted; and how many of the pieces that need no change get none.
"""

COST = """\
## What it costs

Drafts of stories with a known number of mistakes, one at a time, systems taking turns on each draft; both go in windows of {window} tokens, the editor with {context} more on either side. Ratios are the editor's to the rewriter's, the median over drafts and, in brackets, the least and the most. Seconds are those of the Transformers engine. "Mended" counts the drafts that became the clean text exactly, which hardly any do: what is compared is the cost of trying.
"""

BLOCKS = """\
The twin "blocks" writes search-and-replace blocks: for each change the fewest whole words that stand nowhere else in the draft, then what takes their place. It read {pairs:,} pairs in training. An output is malformed if it holds a block that cannot be done, because the words are not in the draft, are there more than once, overlap another block's or the form is broken; such blocks are left out, and the others done. An editor's actions and a rewriter's text cannot be malformed.
"""

SPECULATION = """\
## Against n-gram speculation

The same drafts on vLLM ({versions}), each {repeats} times, systems taking turns: the editor; the rewriter; and the rewriter with vLLM's n-gram speculation, which looks up the last {least} to {most} tokens in what was read and written and guesses that the text goes on as it did there, {ahead} tokens at a time. Windows of a draft run side by side, here as above. Steps are forwards of the model, of all windows together: with speculation one may give several tokens. The rewriter runs without the mask, since vLLM allows no logits processor beside speculation; the editor with it. All eager, in float32, on one core. Ratios are the editor's to that system's, the median over drafts and repeats and, in brackets, the least and the most; of seconds, and of seconds of the processor, which other work on the machine does not change as much.
"""

IDEAL = """\
## What it would cost without mistakes

Counted, not run: an editor that takes the shortest revision of each draft, and a rewriter that writes the clean text, with vLLM's n-gram speculation (2 to 4 tokens looked up, 16 guessed) and without; each reads the draft as a whole. The shortest revision takes {ids} ids for a mistake, [..] 95 % over texts. Rewriting takes an id for every token, so revising takes fewer unless there is a mistake in every {even:.0f} tokens or so. Medians over drafts:
"""

ROUTER = """\
## A router

Told before decoding, a draft is revised or rewritten by which will take fewer steps. What rewriting takes is known; what revising takes is fitted on {fitted_on} drafts to their length and to how sure the editor is, at its first step in each window, that there is something to do. On {drafts} drafts of other texts revising was no dearer for {better_revised}; the router had {revised} revised. Steps over those of the better choice for each draft, [..] 95 % over texts:
"""

PRECISION = """\
## Precision

{what}, and what the editor's changes are then worth, on {pairs} other held-out pieces. `revise(precision=...)` takes the least that reached it there with thirty changes or more, from the model folder's `calibration.json`.
"""


def estimate(part: dict[str, Any], digits: int = 3) -> str:
    """A value and its interval."""
    low, high = part["low"], part["high"]
    return f"{part['value']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(head: list[str], rows: list[list[str]]) -> str:
    """As Markdown has it."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def quality(told: dict[str, Any]) -> Iterator[str]:
    """The tables of the held-out pieces."""
    yield QUALITY.format(pairs=told["pairs"])
    names = ("gleu", "edit_precision", "edit_recall", "edit_f", "sari", "exact_match", "locality")
    head = ["", "GLEU", "precision", "recall", "F0.5", "SARI", "exact", "locality"]
    head += ["steps, mean", "steps, median", "ended by itself", "malformed"]
    rows = [
        [
            name,
            *(estimate(scores[each]) for each in names),
            estimate(scores["steps"], 1),
            f"{scores['median_steps']:.0f}",
            estimate(scores["whole"]),
            estimate(scores["malformed"]) if name == "blocks" else "",
        ]
        for name, scores in told["systems"].items()
    ]
    yield table(head, rows)
    yield f"GLEU, the editor's less the rewriter's: {estimate(told['gleu_difference'])}.\n"
    if "blocks" in told["systems"]:
        yield BLOCKS.format(pairs=told["models"]["blocks"]["seen"]["examples"])
        faults = told["systems"]["blocks"]["faults"]
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(faults.items())) or "none"
        yield f"Blocks that could not be done: {kinds}.\n"
    yield PARTS
    head = ["", "changes wanted", "made", "place found", "right there", "elsewhere", "left alone"]
    parts = [(name, told["systems"][name]["parts"]) for name in told["models"]]
    shares = ("place_found", "content_right_there", "made_elsewhere", "left_alone_if_right")
    rows = [
        [name, f"{part['wanted']:,}", f"{part['made']:,}", *(f"{part[key]:.3f}" for key in shares)]
        for name, part in parts
    ]
    yield table(head, rows)


def arms(told: dict[str, Any]) -> Iterator[str]:
    """Editors among themselves."""
    yield ARMS.format(pairs=told["pairs"])
    head = ["", "GLEU", "F0.5", "locality", "steps, mean", "place found", "right there"]
    rows = [
        [
            name,
            *(estimate(scores[each]) for each in ("gleu", "edit_f", "locality")),
            estimate(scores["steps"], 1),
            *(f"{scores['parts'][key]:.3f}" for key in ("place_found", "content_right_there")),
            f"{scores['parts']['made_elsewhere']:.3f}",
        ]
        for name, scores in told["systems"].items()
    ]
    yield table([*head, "made elsewhere"], rows)


def cost(told: dict[str, Any]) -> Iterator[str]:
    """Steps and seconds by size and mistakes."""
    yield COST.format(window=told["window"], context=told["context"])
    rows = []
    for (size, mistakes), some in by_kind(told["rows"]):
        shown = [ratio(some, "rewriter", key) for key in ("steps", "seconds")]
        exact = [str(sum(row[name]["exact"] for row in some)) for name in NAMES]
        steps = [f"{median(row[name]['steps'] for row in some):.0f}" for name in NAMES]
        rows.append([f"{size:,}", str(mistakes), str(len(some)), *exact, *steps, *shown])
    head = ["tokens", "mistakes", "drafts", "mended, editor", "mended, rewriter"]
    head += ["steps, editor", "steps, rewriter"]
    yield table([*head, "steps, ratio", "seconds, ratio"], rows)


NAMES = ("editor", "rewriter")
ALL = (*NAMES, "n-gram")


def by_kind(
    rows: list[dict[str, Any]],
) -> list[tuple[tuple[int, int], list[dict[str, Any]]]]:
    """Rows of drafts of one size and number of mistakes, in order."""
    cells: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["size"], row["mistakes"]), []).append(row)
    return sorted(cells.items())


def ratio(rows: list[dict[str, Any]], name: str, key: str) -> str:
    """The editor's to another system's: the median, the least and the most."""
    found = [row["editor"][key] / max(row[name][key], 1e-9) for row in rows]
    return f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def speculation(told: dict[str, Any]) -> Iterator[str]:
    """Steps and seconds on vLLM."""
    lookup = told["lookup"]
    yield SPECULATION.format(
        versions=", ".join(f"{name} {version}" for name, version in told["versions"].items()),
        repeats=told["repeats"],
        least=lookup["prompt_lookup_min"],
        most=lookup["prompt_lookup_max"],
        ahead=lookup["num_speculative_tokens"],
    )
    rows = []
    for (size, mistakes), some in by_kind(told["rows"]):
        steps = [f"{median(row[name]['steps'] for row in some):.0f}" for name in ALL]
        shown = [
            ratio(some, name, key)
            for key in ("steps", "seconds", "processor")
            for name in ("rewriter", "n-gram")
        ]
        rows.append([f"{size:,}", str(mistakes), *steps, *shown])
    head = ["tokens", "mistakes", "steps, editor", "rewriter", "n-gram"]
    for what in ("steps", "seconds", "processor"):
        head += [f"{what}, to rewriter", "to n-gram"]
    yield table(head, rows)


def ideal(told: dict[str, Any]) -> Iterator[str]:
    """Steps without mistakes."""
    ids = told["ids_for_a_mistake"]
    yield IDEAL.format(ids=estimate(ids, 1), even=ids["value"])
    rows = [
        [f"{size:,}", str(mistakes), *(f"{median(row[name] for row in some):.0f}" for name in ALL)]
        for (size, mistakes), some in by_kind(told["rows"])
    ]
    yield table(["tokens", "mistakes", *ALL], rows)
    firsts: dict[int, int] = {}
    for (size, mistakes), some in by_kind(told["rows"]):
        editor, guessing = (median(row[name] for row in some) for name in ("editor", "n-gram"))
        if guessing <= editor:
            firsts.setdefault(size, mistakes)
    found = [f"{mistakes} in {size:,} tokens" for size, mistakes in firsts.items()]
    yield (
        "Fewest mistakes here with which a rewriter with speculation takes no more forwards than"
        f" the editor takes ids: {', '.join(found) or 'none'}.\n"
    )


def router(told: dict[str, Any]) -> Iterator[str]:
    """Which to choose, and what choosing is worth."""
    names = ("fitted_on", "drafts", "better_revised", "revised")
    yield ROUTER.format(**{name: told[name] for name in names})
    choices = [[name, estimate(part)] for name, part in told["over_the_best"].items()]
    yield table(["", "steps over the best"], choices)


def precision(told: dict[str, Any]) -> Iterator[str]:
    """The curve."""
    by = told.get("by", "move_bias")
    what = "How likely a change must be by the notes" if by == "notes" else "A bias against moves"
    yield PRECISION.format(pairs=told["pairs"], what=what)
    rows = [
        [f"{bias:g}", *(f"{value:.3f}" for value in scores), f"{made:.0f}"]
        for bias, *scores, made in told["curve"]
    ]
    yield table([by, "precision", "recall", "F0.5", "changes made"], rows)


def page() -> str:
    """All of it; what was not run is left out."""
    told = json.loads((RESULTS / "stories.json").read_text("utf-8"))
    editor, rewriter = (told["models"][name] for name in NAMES)
    parts = [
        INTRODUCTION.format(
            parameters=editor["parameters"] / 1e6,
            ids=editor["seen"]["ids"] / 1e6,
            editor_pairs=editor["seen"]["examples"],
            rewriter_pairs=rewriter["seen"]["examples"],
            notes=told["notes"],
        ),
        *quality(told),
        (RESULTS / "notes.md").read_text("utf-8"),
    ]
    makers = (arms, cost, speculation, ideal, router, precision)
    for name, make in ((make.__name__, make) for make in makers):
        if (RESULTS / f"{name}.json").is_file():
            parts += make(json.loads((RESULTS / f"{name}.json").read_text("utf-8")))
    return "\n".join(parts)


if __name__ == "__main__":
    (HERE / "revise-results.md").write_text(page(), "utf-8")
