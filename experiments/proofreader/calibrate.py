"""Measure how often a proofreader's changes are right, and write its `editing.json`.

    python calibrate.py run/adapter base units -o proofreader

Held-out units get mistakes, and the model revises them through the package. A change is right if
it brings the text closer to the original by all of its letters. Three logistic regressions turn
the log-probability and the gain of a change into a confidence: one for the model's own changes, one
for spellings and one for other words that the lists suggest. The folder that is written holds the
adapter, the word lists and the tokenizer: it is `models/proofreader`.
"""

import argparse
import json
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import get_args

import lemminflect
import numpy as np
import torch
from examples import DELAY, draft_of
from rapidfuzz.distance import Levenshtein
from scoring import spread

import reviser
from reviser.data.english import ARTICLES, CONFUSED, PREPOSITIONS
from reviser.models.editing import Editing
from reviser.models.wordlists import LISTS, WORDS, Source
from reviser.proofread.keep import most_confident
from reviser.writing.changes import Change
from reviser.writing.tasks import Revise

THRESHOLD = 0.1
FREQUENT = 40_000
"""Words of the list whose other forms are suggested: the most frequent ones."""
INSERTED = ("a", "an", "the", "to", "of", ",", ".")
EXTRA = ("a", "an", "the", "to", "of", "in", "for", "on", "at", "is", "are", "it", "that", ",")
CONFIDENCES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
COPIED = ("action_vocab.json", "adapter_config.json", "adapter_model.safetensors",
          "control_rows.safetensors")  # fmt: skip
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def is_right(draft: str, original: str, change: Change) -> bool:
    """Return whether a change brings the draft closer to the original by all of its letters."""
    made = draft[: change.start] + change.after + draft[change.end :]
    moved = Levenshtein.distance(change.before, change.after)
    return Levenshtein.distance(made, original) == Levenshtein.distance(draft, original) - moved


def pairs(units: Path, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield held-out texts with mistakes, and the originals."""
    rows = [json.loads(line) for line in (units / "held_out.jsonl").open(encoding="utf-8")]
    for n, unit in enumerate(spread(rows, count)):
        yield draft_of(unit, np.random.default_rng([seed, n])), unit["text"]


def logistic(features: np.ndarray, right: np.ndarray) -> tuple[float, ...]:
    """Return the weights of a logistic regression by Newton's method.

    The weight of the log-probability stays near 0.5: there are few spellings to learn it from.
    """
    x = np.column_stack([np.ones(len(right)), features])
    weights, prior = np.zeros(x.shape[1]), np.array([0.1, 10.0, 0.1])
    for _ in range(60):
        share = 1 / (1 + np.exp(-x @ weights))
        curvature = (x * (share * (1 - share))[:, None]).T @ x + np.diag(prior)
        pull = prior * (np.array([0.0, 0.5, 0.0]) - weights)
        weights += np.linalg.solve(curvature, x.T @ (right - share) + pull)
    return tuple(round(float(each), 4) for each in weights)


def replacements(words: Sequence[str]) -> dict[str, list[str]]:
    """Return what may replace a word: its other forms, and words that people confuse with it."""
    table: dict[str, dict[str, None]] = {}
    for word in words:
        forms = table.setdefault(word, {})
        for upos in ("NOUN", "VERB"):
            for lemma in lemminflect.getLemma(word, upos, lemmatize_oov=False):
                inflected = lemminflect.getAllInflections(lemma, upos).values()
                forms |= dict.fromkeys([lemma, *(form for some in inflected for form in some)])
    be = ("am", "is", "are", "was", "were", "be", "been")
    groups = (dict.fromkeys(be, be), CONFUSED, dict.fromkeys(ARTICLES, ARTICLES))
    for group in groups:
        for word, others in group.items():
            table.setdefault(word, {}).update(dict.fromkeys(others))
    for word, listed in PREPOSITIONS.items():
        table.setdefault(word, {}).update(dict.fromkeys(listed))
    found = {
        word: [new for new in some if new != word and re.fullmatch("[a-z]+('[a-z]+)?", new)]
        for word, some in table.items()
    }
    return {word: some for word, some in found.items() if some}


def best_of(source: Source, found: Sequence[tuple[int, Change, bool]]) -> list[tuple[Change, bool]]:
    """Return the suggestion with the highest gain for each position: the others do not matter."""
    best: dict[tuple[int, int, int], tuple[Change, bool]] = {}
    for n, change, right in found:
        key = n, change.start, change.end
        if change.source == source and (key not in best or change.gain > best[key][0].gain):
            best[key] = change, right
    return list(best.values())


def write_folder(adapter: Path, base: Path, output: Path, editing: Editing) -> None:
    """Write what is shipped: the adapter, the tokenizer, the word list and `editing.json`."""
    output.mkdir(parents=True, exist_ok=True)
    for folder, names in ((adapter, COPIED), (base, TOKENIZER)):
        for name in names:
            shutil.copyfile(folder / name, output / name)
    lines = (files("symspellpy") / "frequency_dictionary_en_82_765.txt").read_text("utf-8-sig")
    words = [line.split()[0] for line in lines.splitlines() if line.strip()]
    (output / WORDS).write_text("\n".join(words) + "\n", encoding="utf-8")
    lists = {"replace": replacements(words[:FREQUENT]), "insert": INSERTED, "delete": EXTRA}
    (output / LISTS).write_text(json.dumps(lists, separators=(",", ":")) + "\n", encoding="utf-8")
    editing.save(output)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("adapter", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("units", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--min-confidence", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    plain = Editing(
        edit_probabilities=True, threshold=THRESHOLD, label_delay=DELAY - 1, delimiters=DELAY,
        among_controls=True, writes_edits=False,
        suggestions=dict.fromkeys(("spelling", "list"), (0.0, 0.0, 1.0)),
    )  # fmt: skip
    write_folder(given.adapter, given.base, given.output, plain)
    model = reviser.load(given.output, base=given.base)
    found: list[tuple[int, Change, bool]] = []
    mistakes, words, began = 0, 0, time.monotonic()
    for n, (draft, original) in enumerate(pairs(given.units, given.count, given.seed)):
        suggestions = model.run(Revise(draft)).suggestions
        found += [(n, each, is_right(draft, original, each)) for each in suggestions]
        steps = Levenshtein.opcodes(draft.split(), original.split())
        mistakes += sum(step.tag != "equal" for step in steps)
        words += len(draft.split())
        if n % 20 == 19:
            print(n + 1, len(found), round(time.monotonic() - began), "s", flush=True)
    weights: dict[Source, tuple[float, ...]] = {}
    for source in get_args(Source):
        some = best_of(source, found)
        if not some:  # the model writes no changes of its own
            continue
        features = np.array([[each.logprob, plain.limited(each.gain)] for each, _ in some])
        weights[source] = logistic(features, np.array([right for _, right in some], float))
        print(source, len(some), sum(right for _, right in some), weights[source])
    editing = replace(
        plain,
        suggestions=weights,
        min_confidence=given.min_confidence,
    )
    chosen = []
    for n in range(given.count):
        rated = {
            replace(
                each, confidence=editing.confidence_of(each.logprob, each.gain, each.source)
            ): right
            for m, each, right in found
            if m == n
        }
        chosen += [(each.confidence, rated[each]) for each in most_confident([*rated], 0.0)]
    table = []
    for least in CONFIDENCES:
        kept = [right for confidence, right in chosen if confidence >= least]
        if kept:
            row = {"confidence": least, "precision": np.mean(kept), "recall": sum(kept) / mistakes}
            table.append({key: round(float(value), 3) for key, value in row.items()})
            print(table[-1], len(kept))
    calibration = tuple((row["confidence"], row["precision"]) for row in table)
    replace(editing, calibration=calibration).save(given.output)
    print(f"{mistakes} mistakes in {words} words, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
