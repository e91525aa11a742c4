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
from reviser.evals import intervals, revision
from reviser.files import write_json
from reviser.models.editing import MOST_GAIN, Editing
from reviser.writing.changes import Change
from reviser.writing.tasks import Revise

RESULT = Path(__file__).parent / "results" / "editor.json"
RATE = 5.0
"""Mistakes per 100 words, the default of `reviser data corrupt`."""
SEED = 11
THRESHOLD = 0.1
"""The least edit probability of a word that may change; the confidence decides after that."""
LEASTS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PRECISION = 0.8
"""The precision, on the stories for calibration, that changes have by default."""


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


def calibrate(folder: Path, pairs: Sequence[Pair]) -> None:
    """Write `editing.json` with a confidence, from what the model suggests for some pairs."""
    saved = Editing.load(folder)
    assert saved is not None
    editing = replace(saved, threshold=THRESHOLD, confidence=(0.0, 0.0, 0.0), min_confidence=0.0)
    editing.save(folder)
    wanted = 0
    rows: list[tuple[Change, bool]] = []
    with reviser.load(folder) as model:
        for pair in pairs:
            changes = model.revise(pair.before).changes.changes
            rows += [(change, is_right(pair, change)) for change in changes]
            source, target = tokenize(pair.before), tokenize(pair.after)
            wanted += len(revision.edits_between(source, target))
    features = np.array(
        [[each.logprob, np.clip(each.gain or 0.0, -MOST_GAIN, MOST_GAIN)] for each, _ in rows]
    )
    right = np.array([found for _, found in rows], float)
    editing = replace(editing, confidence=logistic(features, right))
    confidences = np.array([editing.confidence_of(*map(float, row)) for row in features])
    table = []
    for least in LEASTS:
        kept = right[confidences >= least]
        if len(kept):
            table.append((least, round(float(kept.mean()), 3)))
            print(
                least, f"precision {kept.mean():.3f}, recall {kept.sum() / wanted:.3f}", len(kept)
            )
    enough = [least for least, precision in table if precision >= PRECISION]
    editing = replace(editing, calibration=tuple(table), min_confidence=min(enough, default=0.9))
    editing.save(folder)
    print(f"{len(rows)} changes, {int(right.sum())} right, {wanted} wanted;", editing)


def measure(folder: Path, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the scores of the editor with its own settings."""
    began = time.process_time()
    with reviser.load(folder) as model:
        made = [each.text for each in model.revise_many([pair.before for pair in pairs])]
    seconds = time.process_time() - began
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
            print(model.run(Revise(pair.before)).changes.critic(), end="\n\n")


if __name__ == "__main__":
    main()
