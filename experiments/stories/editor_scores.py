"""Calibrate the story editor on held-out stories, and measure it on others.

    python -m experiments.stories.editor_scores calibrate RUN RUN/held-out.jsonl
    python -m experiments.stories.editor_scores measure models/stories-edit RUN/held-out.jsonl
    python -m experiments.stories.editor_scores show models/stories-edit RUN/held-out.jsonl

The first half of the held-out stories is for `calibrate`, which writes RUN/editing.json: the
weights of a change's confidence, and the least confidence of the changes that are kept. The second
half is for `measure`, which revises each story twice, with mistakes and without any, with the
settings that `reviser revise` has. It writes `results/editor.json`, from which the model card and
docs/models.md are made. `show` prints some revisions.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import reviser
from experiments.revise.gec_sets import tokenize
from reviser.data.corrupt import Corruption, corrupted
from reviser.data.pairs import Pair
from reviser.files import write_json
from reviser.lab.evals import intervals, revision
from reviser.models.editing import Editing
from reviser.models.wordlists import Source
from reviser.proofread.keep import most_confident
from reviser.writing.changes import Change
from reviser.writing.tasks import Revise

RESULT = Path(__file__).parent / "results" / "editor.json"
RATE = 5.0
"""Mistakes per 100 words, the default of `reviser data corrupt`."""
SEED = 11
EXAMPLE = "Tom and Sue went too the zoo. They wanted see the big lion. The lion was verry happy."
HARD = (
    "Once upon a time there was a boy name Tim. He have a big red ball. One day his freinds came to"
    " the park. They stoped at the tree. Tim gived them his ball. They was very happy."
)
"""A story by a person, with six mistakes."""
THRESHOLD = 0.04
"""The least edit probability of a word that may change; the confidence decides after that."""
MAX_GAIN = 30.0
"""Nats of a gain that count. A misspelled word is so unlikely that its correction often gains 20 or
more, and then it is right, whatever the edit probability."""
SOURCES: tuple[Source, ...] = ("spelling", "list")
SLACK = 0.025
"""F0.5 that is given up for a higher precision: the highest limit within it is the default."""
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def pairs_of(path: Path, half: int, first: int | None = None) -> list[Pair]:
    """Return stories of one half with mistakes, and the same stories without any."""
    texts = [json.loads(line)["text"] for line in path.open(encoding="utf-8")]
    texts = texts[half::2][:first]
    wrong = corrupted(texts, Corruption(rate=RATE, unchanged=0.0), SEED + half)
    return [*wrong, *(Pair(before=text, after=text) for text in texts)]


def is_right(pair: Pair, change: Change) -> bool:
    """Return whether a change makes edits that the correction makes, and no other."""
    made = pair.before[: change.start] + change.after + pair.before[change.end :]
    source = tokenize(pair.before)
    done = {*revision.edits_between(source, tokenize(made))}
    return bool(done) and done <= {*revision.edits_between(source, tokenize(pair.after))}


def logistic(features: np.ndarray, right: np.ndarray) -> tuple[float, ...]:
    """Return the weights of a logistic regression by Newton's method."""
    x = np.column_stack([np.ones(len(right)), features])
    weights = np.zeros(x.shape[1])
    for _ in range(60):
        share = 1 / (1 + np.exp(-x @ weights))
        curvature = (x * (share * (1 - share))[:, None]).T @ x + 0.1 * np.eye(x.shape[1])
        weights += np.linalg.solve(curvature, x.T @ (right - share) - 0.1 * weights)
    return tuple(round(float(each), 4) for each in weights)


def best_of(source: Source, found: Sequence[tuple[int, Change, bool]]) -> list[tuple[Change, bool]]:
    """Return the most likely suggestion for each position: the others do not matter."""
    best: dict[tuple[int, int, int], tuple[Change, bool]] = {}
    for n, change, right in found:
        key = n, change.start, change.end
        if change.source == source and (key not in best or score(change) > score(best[key][0])):
            best[key] = change, right
    return list(best.values())


def score(change: Change) -> float:
    """Return the log-odds of a suggestion against others for the same position."""
    assert change.gain is not None
    return change.logprob + change.gain


def calibrate(folder: Path, pairs: Sequence[Pair]) -> None:
    """Write `editing.json` with confidences, from what is suggested for some pairs."""
    saved = Editing.load(folder)
    assert saved is not None
    # The model writes no edits of its own: at this budget most were wrong, and some put in a word
    # that the lists put in, too.
    options: dict[str, Any] = {"writes_edits": False, "min_confidence": 0.0}
    options["most_gain"] = MAX_GAIN
    weights = dict.fromkeys(SOURCES, (0.0, 0.0, 1.0))
    plain = replace(saved, threshold=THRESHOLD, suggestions=weights, **options)
    plain.save(folder)
    found: list[tuple[int, Change, bool]] = []
    wanted = 0
    with reviser.load(folder) as model:
        for n, pair in enumerate(pairs):
            suggestions = model.run(Revise(pair.before)).suggestions
            found += [(n, each, is_right(pair, each)) for each in suggestions]
            source, target = tokenize(pair.before), tokenize(pair.after)
            wanted += len(revision.edits_between(source, target))
    fitted: dict[Source, tuple[float, ...]] = {}
    for source in SOURCES:
        some = best_of(source, found)
        features = np.array([[each.logprob, plain.limited(each.gain or 0.0)] for each, _ in some])
        right = np.array([is_good for _, is_good in some], float)
        fitted[source] = logistic(features, right)
        print(source, len(some), "suggested,", int(right.sum()), "right;", fitted[source])
    editing = replace(plain, suggestions=fitted)
    chosen = []
    for n in range(len(pairs)):
        rated = {
            replace(
                each, confidence=editing.confidence_of(each.logprob, each.gain or 0.0, each.source)
            ): right
            for m, each, right in found
            if m == n
        }
        chosen += [(each.confidence or 0.0, rated[each]) for each in most_confident([*rated], 0.0)]
    table, scores = [], []
    for least in THRESHOLDS:
        kept = [right for confidence, right in chosen if confidence >= least]
        rows = np.array([[sum(kept), len(kept), wanted]])
        scores.append(revision.edit_f(rows))
        precision, recall = revision.edit_precision(rows), revision.edit_recall(rows)
        table.append((least, round(precision, 3)))
        print(least, f"{precision:.3f} {recall:.3f} {scores[-1]:.3f}", len(kept))
    good = [
        least
        for least, score in zip(THRESHOLDS, scores, strict=True)
        if score > max(scores) - SLACK
    ]
    least = max(good)
    replace(editing, calibration=tuple(table), min_confidence=least).save(folder)


def measure(folder: Path, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the scores of the editor with its own settings."""
    began = time.process_time()
    with reviser.load(folder) as model:
        made = [each.text for each in model.run_many(Revise(pair.before) for pair in pairs)]
        seconds = time.process_time() - began
        shown = [[each, model.revise(each).changes.criticmarkup()] for each in (EXAMPLE, HARD)]
    wrong = [n for n, pair in enumerate(pairs) if pair.before != pair.after]
    clean = [n for n, pair in enumerate(pairs) if pair.before == pair.after]
    sources = [tokenize(pair.before) for pair in pairs]
    texts, references = [tokenize(text) for text in made], [[tokenize(p.after)] for p in pairs]
    rows = revision.edit_rows(sources, texts, references)
    kept = [revision.locality(pairs[n].before, made[n], [pairs[n].after]) for n in wrong]
    words = [len(pairs[n].before.split()) for n in clean]
    alarms = [1000 * rows[n, 1] for n in clean]
    found = {
        "precision": intervals.bootstrap(revision.edit_precision, rows[wrong]),
        "recall": intervals.bootstrap(revision.edit_recall, rows[wrong]),
        "f05": intervals.bootstrap(revision.edit_f, rows[wrong]),
        "precision_all": intervals.bootstrap(revision.edit_precision, rows),
        "locality": intervals.ratio_of_means([k.bytes for k in kept], [k.of for k in kept]),
        "untouched": intervals.share([made[n] == pairs[n].before for n in clean]),
        "false_alarms": intervals.ratio_of_means(alarms, words),
    }
    counts = {"right": rows[wrong, 0], "made": rows[wrong, 1], "wanted": rows[wrong, 2]}
    return {
        "stories": len(clean),
        "rate": RATE,
        "example": shown[0],
        "hard_example": shown[1],
        "clean_words": sum(words),
        "edits": {name: int(column.sum()) for name, column in counts.items()},
        "false_alarm_count": int(rows[clean, 1].sum()),
        "seconds_per_1000_words": 1000 * seconds / sum(len(pair.before.split()) for pair in pairs),
        **{name: asdict(estimate) for name, estimate in found.items()},
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("calibrate", "measure", "show"))
    parser.add_argument("model", type=Path)
    parser.add_argument("stories", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=RESULT)
    parser.add_argument("--first", type=int, help="number of stories to use")
    given = parser.parse_args()
    if given.command == "calibrate":
        calibrate(given.model, pairs_of(given.stories, 0, given.first))
        return
    pairs = pairs_of(given.stories, 1, given.first)
    if given.command == "measure":
        found = measure(given.model, pairs)
        write_json(given.output, found)
        for name, value in found.items():
            shown = (
                value
                if not isinstance(value, dict) or "low" not in value
                else intervals.Estimate(**value)
            )
            print(f"{name}: {shown}")
        return
    with reviser.load(given.model) as model:
        for pair in pairs[: len(pairs) // 2]:
            print(model.run(Revise(pair.before)).changes.criticmarkup(), end="\n\n")


if __name__ == "__main__":
    main()
