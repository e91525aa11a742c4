"""Compare the types of drawn mistakes with those of people, as ERRANT names them.

    python error_types.py units downloads/gec_datasets-0.1.0/test-dir

The drawn side is each draft of the held-out units with mistakes, corrected to its clean text. The
human side is BEA-19 dev, learners (A, B, C) and native writers (N), read when this runs.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
from examples import draft_of
from scoring import annotator, read_m2


def drawn_types(units: Path, count: int) -> Counter[str]:
    """Count ERRANT's types of the mistakes in drafts drawn from held-out units."""
    language, scorer = annotator()
    found: Counter[str] = Counter()
    lines = (units / "held_out.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    for index, line in enumerate(lines):
        unit = json.loads(line)
        draft = draft_of(unit, np.random.default_rng((0, 0, index)))
        if draft == unit["text"]:
            found["clean"] += 1
            continue
        found["wrong"] += 1
        docs = (
            " ".join(t.text for t in language.tokenizer(text)) for text in (draft, unit["text"])
        )
        found.update(edit.type for edit in scorer.annotate(*map(scorer.parse, docs)))
    return found


def human_types(folder: Path, levels: str) -> Counter[str]:
    """Count the types of BEA-19 dev for some levels."""
    found: Counter[str] = Counter()
    for level in levels:
        path = folder / f"bea19-dev/wi+locness/m2/{level}.dev.gold.bea19.m2"
        for _, edits in read_m2(path):
            found["wrong" if edits else "clean"] += 1
            found.update(kind for _, _, kind, _ in edits)
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=Path)
    parser.add_argument("tests", type=Path)
    parser.add_argument("--count", type=int, default=600)
    given = parser.parse_args()
    columns = [
        human_types(given.tests, "ABC"),
        human_types(given.tests, "N"),
        drawn_types(given.units, given.count),
    ]
    shares = []
    for column in columns:
        texts = column.pop("clean"), column.pop("wrong")
        total = sum(column.values())
        merged: Counter[str] = Counter()
        for kind, n in column.items():
            merged[kind.split(":", 1)[1]] += n
        shares.append({kind: 100 * n / total for kind, n in merged.items()})
        print(f"{total} edits, {100 * texts[0] / sum(texts):.0f} % of texts clean")
    print(f"{'type':14} learners  native   drawn")
    for kind in sorted(shares[0] | shares[1] | shares[2], key=lambda k: -shares[0].get(k, 0)):
        print(f"{kind:14}", *(f"{share.get(kind, 0):8.1f}" for share in shares))


if __name__ == "__main__":
    main()
