"""Measure how often changes of each confidence are right, on text that people wrote.

    python -m experiments.proofreader.calibrate TESTS base -o src/reviser/proofread/data/judge.json

The text is W&I+LOCNESS train, which nothing was fitted on. It is only measured, never kept: the
result is the share of changes that the annotator made, too, among those that reach a confidence.
The annotator often changes more around a mistake, so the true share is higher.
"""

import argparse
import json
from pathlib import Path

import reviser
from experiments.proofreader.rules_report import edit_of, wanted
from experiments.proofreader.scoring import with_edits

LIMITS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path)
    parser.add_argument("judge")
    parser.add_argument("--first", type=int, default=400, help="sentences")
    parser.add_argument("-o", "--output", type=Path, help="the judge to write the curve into")
    given = parser.parse_args()
    path = given.tests / "wi_locness-train/wi+locness/m2/ABC.train.gold.bea19.m2"
    found: list[tuple[float, bool]] = []
    with reviser.proofreader(given.judge) as model:
        for draft in with_edits(path, given.first):
            (edits,) = wanted(draft)
            for change in model.revise(draft.text, min_confidence=LIMITS[0]).changes:
                start, end = change.start, change.end
                made = draft.text[:start] + change.after + draft.text[end:]
                found.append((change.confidence or 0.0, edit_of(draft.text, made) in edits))
    curve = []
    for limit in LIMITS:
        above = [right for confidence, right in found if confidence >= limit]
        share = round(sum(above) / max(1, len(above)), 3)
        curve.append([limit, share])
        print(f"{limit:.1f}  {share:.3f}  {len(above)}")
    if given.output:
        saved = json.loads(given.output.read_text("utf-8"))
        saved["calibration"] = curve
        given.output.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
