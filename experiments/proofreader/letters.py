"""Score the proofreader on texts whose mistakes are marked in place, as {wrong=>right|TYPE}.

    python letters.py texts/marked texts/clean base

The texts in `texts` were written by somebody who had seen neither the rules nor the lists. They
were scored once, after the last change, and are a development set from now on.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import reviser
from reviser.markup import chosen_spans

MARK = re.compile(r"\{([^{}]*?)=>([^{}|]*)(?:\|([^{}]*))?\}")


class Change(Protocol):
    """Characters `start` to `end` of a draft become `after`."""

    @property
    def start(self) -> int: ...  # noqa: D102
    @property
    def end(self) -> int: ...  # noqa: D102
    @property
    def after(self) -> str: ...  # noqa: D102


class Gold(NamedTuple):
    """A mistake, and what is right; `kind` is its type."""

    start: int
    end: int
    after: str
    kind: str


class Letter(NamedTuple):
    """A text with marked mistakes."""

    name: str
    draft: str
    mistakes: list[Gold]


def read(path: Path) -> Letter:
    """Read a marked text."""
    marked, parts, mistakes, done, size = path.read_text("utf-8"), [], [], 0, 0
    for match in MARK.finditer(marked):
        wrong, right, kind = match.groups()
        parts += [marked[done : match.start()], wrong]
        size += match.start() - done
        mistakes.append(Gold(size, size + len(wrong), right, kind or ""))
        size, done = size + len(wrong), match.end()
    return Letter(path.stem, "".join([*parts, marked[done:]]), mistakes)


def letters(folder: Path) -> list[Letter]:
    """Read all marked texts of a folder."""
    return [read(path) for path in sorted(folder.iterdir()) if path.is_file()]


def verdicts(letter: Letter, changes: Sequence[Change]) -> list[tuple[str, str, str, str]]:
    """Return (verdict, type, before, after) of each mistake, and of changes that are at none.

    A mistake is right if the text around it is the right one, whatever made it so.
    """
    draft, found, used = letter.draft, [], set()
    for gold in letter.mistakes:
        near = [c for c in changes if c.start <= gold.end and gold.start <= c.end]
        used |= {id(c) for c in near}
        low = min([gold.start, *(c.start for c in near)])
        high = max([gold.end, *(c.end for c in near)])
        golds = [g for g in letter.mistakes if (g.start < high and low < g.end) or g == gold]
        low, high = min(low, *(g.start for g in golds)) if golds else low, high
        high = max([high, *(g.end for g in golds)])
        others = [c for c in changes if (c.start < high and low < c.end) or c in near]
        made, wanted = _applied(draft, low, high, others), _applied(draft, low, high, golds)
        verdict = "missed" if not near else "right" if made.split() == wanted.split() else "wrong"
        found.append((verdict, gold.kind, draft[gold.start : gold.end], gold.after))
    found += [("false", "", draft[c.start : c.end], c.after) for c in changes if id(c) not in used]
    return found


def _applied(draft: str, low: int, high: int, edits: Sequence[Change | Gold]) -> str:
    parts, done = [], low
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        parts += [draft[done : edit.start], edit.after]
        done = edit.end
    return "".join([*parts, draft[done:high]])


def count(rows: Sequence[tuple[str, str, str, str]]) -> Counter[str]:
    """Return how often each verdict was given."""
    return Counter(verdict for verdict, *_ in rows)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("marked", type=Path)
    parser.add_argument("clean", type=Path)
    parser.add_argument("judge", type=Path)
    given = parser.parse_args()
    total: Counter[str] = Counter()
    with reviser.proofreader(given.judge) as model:
        started, words = time.process_time(), 0
        for letter, path in zip(letters(given.marked), sorted(given.marked.iterdir()), strict=True):
            locked = chosen_spans(letter.draft, "auto", path)
            total += count(verdicts(letter, model.revise(letter.draft, locked=locked).changes))
            words += len(letter.draft.split())
        seconds = 1000 * (time.process_time() - started) / words
        print(f"{dict(total)} in {words} words, {seconds:.1f} CPU s per 1,000 words")
        alarms = words = 0
        for path in sorted(given.clean.iterdir()):
            text = path.read_text("utf-8")
            locked = chosen_spans(text, "auto", path)
            alarms += len(model.revise(text, locked=locked).changes)
            words += len(text.split())
        print(f"{alarms} false alarms in {words} clean words")


if __name__ == "__main__":
    main()
