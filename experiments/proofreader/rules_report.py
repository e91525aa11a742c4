"""Report for each rule: cases, how many annotators agree with, and alarms on clean text.

Learner corpora are the folder `test-dir` of the source package `gec-datasets`: the dev sets of
JFLEG, BEA-19, FCE and CWEB are read, and never kept. A suggestion counts as right if the text with
it equals the text with one edit of an annotator.

Usage: python -m experiments.proofreader.rules_report TEST_DIR CLEAN.txt... [--show RULE] [--all]
"""

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from experiments.proofreader.scoring import Draft, detokenize, with_edits, with_references
from reviser.proofread.rules import Rules
from reviser.proofread.suggestion import Suggestion

Edit = tuple[int, int, str]
MARK = re.compile(r"\{(.*?)=>(.*?)\|(\w+)\}")


def edit_of(text: str, revised: str) -> Edit:
    """Return the only difference between two texts, as short as possible."""
    start, end = 0, len(text)
    while start < min(end, len(revised)) and text[start] == revised[start]:
        start += 1
    last = len(revised)
    while min(end, last) > start and text[end - 1] == revised[last - 1]:
        end, last = end - 1, last - 1
    return start, end, revised[start:last]


def wanted(draft: Draft) -> list[set[Edit]]:
    """Return the edits of each annotator of a sentence."""
    found = []
    for annotation in draft.annotations:
        edits = set()
        for first, last, new in annotation:
            revised = detokenize([*draft.words[:first], *new.split(), *draft.words[last:]])[0]
            if revised != draft.text:
                edits.add(edit_of(draft.text, revised))
        found.append(edits)
    return found


def made(text: str, suggestion: Suggestion) -> list[Edit]:
    """Return the edits that a suggestion offers."""
    before, after = text[: suggestion.start], text[suggestion.end :]
    return [edit_of(text, before + new + after) for new in suggestion.replacements]


def letters(folder: Path) -> Iterator[tuple[str, list[set[Edit]]]]:
    """Yield texts with marked mistakes, and their edits."""
    for path in sorted(folder.glob("*.txt")):
        marked = path.read_text(encoding="utf-8")
        text = MARK.sub(r"\1", marked)
        edits = set()
        for match in MARK.finditer(marked):
            start = len(MARK.sub(r"\1", marked[: match.start()]))
            revised = text[:start] + match[2] + text[start + len(match[1]) :]
            edits.add(edit_of(text, revised))
        yield text, [edits]


def test_sets(tests: Path) -> dict[str, list[tuple[str, list[set[Edit]]]]]:
    """Return the texts of each dev set with the edits of each annotator."""
    every = 10**6
    sets = {
        "jfleg": with_references(tests / "jfleg-dev", every),
        "bea19": with_edits(tests / "bea19-dev/wi+locness/m2/ABCN.dev.gold.bea19.m2", every),
        "fce": with_edits(tests / "fce-dev/fce/m2/fce.dev.gold.bea19.m2", every),
        "wi-train": with_edits(
            tests / "wi_locness-train/wi+locness/m2/ABC.train.gold.bea19.m2", every
        ),
        "cweb-g": with_references(tests / "cweb-g-dev", every, tokenized=False),
        "cweb-s": with_references(tests / "cweb-s-dev", every, tokenized=False),
    }
    return {name: [(d.text, wanted(d)) for d in drafts] for name, drafts in sets.items()}


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", type=Path)
    parser.add_argument("clean", type=Path, nargs="*")
    parser.add_argument("--letters", type=Path)
    parser.add_argument("--cache", type=Path, help="where to keep the edits that ERRANT found")
    parser.add_argument("--words", type=int, default=200_000, help="of each clean text")
    parser.add_argument("--show", help="print the cases of a rule that no annotator agrees with")
    options = parser.parse_args()
    cache = options.cache
    if cache and cache.exists():
        saved = json.loads(cache.read_text(encoding="utf-8"))
        sets = {name: [(t, [set(map(tuple, e)) for e in some]) for t, some in rows]
                for name, rows in saved.items()}  # fmt: skip
    else:
        sets = test_sets(options.tests)
        if cache:
            cache.write_text(json.dumps(sets, default=list), encoding="utf-8")
    if options.letters:
        sets["letters"] = list(letters(options.letters))
    check = Rules()
    cases: Counter[tuple[str, bool]] = Counter()
    right, alarms = cases.copy(), cases.copy()
    for name, drafts in sets.items():
        words = gold = hits = unsure = 0
        for text, annotations in drafts:
            offered = set()
            words += len(text.split())
            for each in check(text):
                edits = set(made(text, each))
                offered |= edits
                unsure += not each.sure
                agrees = any(edits & some for some in annotations)
                cases[each.rule, each.sure] += 1
                right[each.rule, each.sure] += agrees
                if is_shown(options.show, each) and not agrees:
                    show("-", text, each)
            gold += sum(map(len, annotations))
            hits += sum(len(some & offered) for some in annotations)
        print(f"{name}: {words} words, {hits}/{gold} = {hits / gold:.1%} of edits suggested,"
              f" {100 * unsure / words:.1f} unsure suggestions per 100 words")  # fmt: skip
    for path in options.clean:
        words, started = 0, time.process_time()
        paragraphs = path.read_text(encoding="utf-8").split("\n\n")
        random.Random(0).shuffle(paragraphs)
        for text in paragraphs:
            words += len(text.split())
            for each in check(text):
                alarms[each.rule, each.sure] += 1
                if is_shown(options.show, each):
                    show("C", text, each)
            if words > options.words:
                break
        seconds = time.process_time() - started
        print(f"{path.name}: {words} clean words, {1e6 * seconds / words:.1f} ms per 1,000 words")
    print("| rule | sure | cases | right | alarms |\n|---|---|--:|--:|--:|")
    for rule, sure in sorted(cases | alarms, key=lambda key: (not key[1], -cases[key])):
        key = rule, sure
        print(
            f"| {rule} | {'sure' if sure else ''} | {cases[key]} | {right[key]} | {alarms[key]} |"
        )


def is_shown(rule: str | None, each: Suggestion) -> bool:
    """Return whether a case is printed: of one rule, or all that are sure."""
    return rule is not None and (each.rule == rule or (rule == "sure" and each.sure))


def show(mark: str, text: str, each: Suggestion) -> None:
    """Print a suggestion with the text around it."""
    before, after = text[max(0, each.start - 60) : each.start], text[each.end : each.end + 40]
    shown = f"{before}[{text[each.start : each.end]}=>{'|'.join(each.replacements)}]{after}"
    print(mark, each.rule, repr(shown))


if __name__ == "__main__":
    main()
