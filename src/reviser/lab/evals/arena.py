"""Pairwise comparison of two systems by a judge: win rates, and how far to trust the judge.

This module knows questions and verdicts. The caller passes the judge (see `judges`). Every reply is
saved to a journal immediately, so a restart asks only what is still open. To balance the sides,
each pair is shown in both orders, or in one random order as in the paper. This module does not
import torch.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from reviser.errors import ConfigError, DataError
from reviser.files import lock
from reviser.lab.evals import intervals
from reviser.lab.evals.intervals import Estimate
from reviser.lab.evals.texts import Sample
from reviser.provenance import digest

Order = Literal["both", "random"]
Verdict = Literal["A", "B", "tie", "invalid"]
SamplePair = tuple[Sample, Sample]
"""The samples of two systems for the same prompt."""

_VERDICT = re.compile(r"\[\[\s*(A|B|C|tie)\s*\]\]", re.IGNORECASE)
_WORTH = {"A": 1.0, "tie": 0.5, "B": 0.0}


@dataclass(frozen=True, kw_only=True)
class Question:
    """The question which of two continuations is better, without the names of the systems."""

    prompt: str
    a: str
    b: str

    @property
    def key(self) -> str:
        """The name of this question in files."""
        return digest([self.prompt, self.a, self.b])


class Judge(Protocol):
    """A model, person or file that answers questions.

    A reply ends with [[A]], [[B]], or [[C]] for a tie.
    """

    about: dict[str, Any]
    """A description of everything that the replies depend on; it keeps the replies of judges apart.
    """

    def replies(self, questions: Sequence[Question]) -> Iterator[tuple[Question, str]]:
        """Yield each question with its reply as soon as it arrives, in any order."""
        ...


@dataclass(frozen=True, kw_only=True)
class Match:
    """The outcome of a comparison of two systems."""

    systems: tuple[str, str]
    win_rate: Estimate
    """Win rate of the first system; a tie is half a win. Two orders of a pair are averaged."""
    wins: int
    """Verdicts for the first system. This and the next counts are verdicts: one or two per pair."""
    losses: int
    ties: int
    invalid: int
    """Replies without a verdict. The rates leave out the whole pair, its other order included."""
    shown_first: Estimate | None
    """Share of verdicts for the text shown as A. The sides are balanced, so a fair judge has 1/2.
    """
    consistent: Estimate | None
    """Share of pairs with the same winner in both orders, or ties in both."""
    judge: dict[str, Any]
    order: Order

    @property
    def is_biased(self) -> bool:
        """True if the judge prefers a side: the interval of `shown_first` leaves out 1/2."""
        first = self.shown_first
        return first is not None and not first.low <= 0.5 <= first.high


def pair_up(ours: Iterable[Sample], theirs: Iterable[Sample]) -> list[SamplePair]:
    """Pair the samples of two systems by prompt: the first with the first, and so on."""
    found = [_numbered(ours), _numbered(theirs)]
    alone = [len(found[0].keys() - found[1].keys()), len(found[1].keys() - found[0].keys())]
    if any(alone) or not found[0]:
        raise DataError(
            f"{alone[0]} of the {len(found[0])} samples of the first and {alone[1]} of the"
            f" {len(found[1])} of the second have no counterpart with the same prompt id. Give both"
            " the same prompts, equally often; a line without an id has its number as id."
        )
    pairs = [(sample, found[1][key]) for key, sample in found[0].items()]
    for a, b in pairs:
        if a.prompt != b.prompt:
            raise DataError(f"Prompt {a.id!r} is not the same text for {a.system} and {b.system}.")
    return pairs


def _numbered(samples: Iterable[Sample]) -> dict[tuple[str, int], Sample]:
    """Index samples by their prompt and the number of earlier samples of that prompt."""
    counts: Counter[str] = Counter()
    found = {}
    for sample in samples:
        found[sample.id, counts[sample.id]] = sample
        counts[sample.id] += 1
    return found


def read_verdict(reply: str) -> Verdict:
    """Return the verdict of a reply: its last mark counts.

    >>> read_verdict("[[A]] is short, so [[b]]"), read_verdict("[[C]]"), read_verdict("A")
    ('B', 'tie', 'invalid')
    """
    marks = _VERDICT.findall(reply)
    if not marks:
        return "invalid"
    mark = marks[-1].upper()
    return "A" if mark == "A" else "B" if mark == "B" else "tie"


def questions_of(
    pairs: Sequence[SamplePair], *, order: Order = "both", seed: int = 0
) -> list[list[tuple[Question, bool]]]:
    """Return the one or two questions of each pair; True marks those with the sides swapped."""
    if order not in get_args(Order):
        raise ConfigError(f"order is {order!r}; use one of {get_args(Order)}.")
    asked = []
    for ours, theirs in pairs:
        swaps = [False, True]
        texts = (ours.continuation, theirs.continuation)
        if order == "random":
            swaps = [int(digest([seed, ours.id, *texts]), 16) % 2 == 1]
        asked.append(
            [
                (Question(prompt=ours.prompt, a=texts[swap], b=texts[not swap]), swap)
                for swap in swaps
            ]
        )
    return asked


def play(
    pairs: Sequence[SamplePair],
    judge: Judge,
    *,
    order: Order = "both",
    seed: int = 0,
    journal: Path | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Match:
    """Ask the judge about every pair whose reply is not in the journal.

    `seed` draws the sides of a random order. `progress` is called with the number of answered
    questions and their total.
    """
    asked = questions_of(pairs, order=order, seed=seed)
    unique = {question.key: question for each in asked for question, _ in each}
    with Journal(journal, judge.about) as replies:
        open_questions = [question for key, question in unique.items() if key not in replies]
        done = len(unique) - len(open_questions)
        progress(done, len(unique))
        for question, reply in judge.replies(open_questions) if open_questions else ():
            replies.add(question, reply)
            done += 1
            progress(done, len(unique))
        missing = sum(key not in replies for key in unique)
        if missing:
            raise DataError(f"The judge left {missing} of {len(unique)} questions unanswered.")
        verdicts = {key: read_verdict(replies[key]) for key in unique}
        if {*verdicts.values()} == {"invalid"}:
            raise DataError(
                f"The judge gave no verdict on any of {len(pairs)} pairs: its replies must end in"
                f" [[A]] or [[B]], and the first is {replies[next(iter(unique))][:80]!r}."
            )
    return _match(pairs, asked, verdicts, judge, order)


def _match(
    pairs: Sequence[SamplePair],
    asked: Sequence[Sequence[tuple[Question, bool]]],
    verdicts: dict[str, Verdict],
    judge: Judge,
    order: Order,
) -> Match:
    counts: Counter[str] = Counter()
    scores: list[tuple[float, str]] = []
    agreements: list[tuple[bool, str]] = []
    first: list[tuple[bool, str]] = []
    for (ours, _), each in zip(pairs, asked, strict=True):
        worths, sides = [], []
        for question, swapped in each:
            verdict = verdicts[question.key]
            if verdict == "invalid":
                counts["invalid"] += 1
                continue
            worth = 1 - _WORTH[verdict] if swapped else _WORTH[verdict]
            counts[{1.0: "wins", 0.5: "ties", 0.0: "losses"}[worth]] += 1
            worths.append(worth)
            if verdict != "tie":
                sides.append((verdict == "A", ours.id))
        if len(worths) == len(each):
            scores.append((sum(worths) / len(worths), ours.id))
            agreements.append((worths[0] == worths[-1], ours.id))
            first += sides
    if not scores:
        raise DataError(f"The judge gave no verdict on both orders of any of {len(pairs)} pairs.")
    return Match(
        systems=(pairs[0][0].system, pairs[0][1].system),
        win_rate=_rate(scores),
        wins=counts["wins"],
        losses=counts["losses"],
        ties=counts["ties"],
        invalid=counts["invalid"],
        shown_first=_rate(first) if first else None,
        consistent=_rate(agreements) if order == "both" else None,
        judge=judge.about,
        order=order,
    )


def _rate(outcomes: Sequence[tuple[float, str]]) -> Estimate:
    """Return the mean of outcomes from 0 to 1, clustered by prompt."""
    values, clusters = zip(*outcomes, strict=True)
    if all(value in (0, 1) for value in values):
        return intervals.share(values, clusters)
    if len({*values}) == 1:  # equal values have no spread, but still an error
        n = len({*clusters})
        return replace(intervals.proportion(round(values[0] * n), n), value=values[0])
    return intervals.mean(values, clusters).within(0, 1)


class Journal:
    """The replies of one judge, each appended to a file as a JSON line when it arrives.

    Several judges may share a file, but only one process writes it at a time. The next start drops
    a line that a kill cut off.
    """

    def __init__(self, path: Path | None, about: dict[str, Any]) -> None:
        self._path = path
        self._judge = digest(about)
        self._replies: dict[str, str] = {}
        self._opened = ExitStack()

    def __enter__(self) -> Journal:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as opened:
                refusal = f"Another process is writing the journal {str(self._path)!r}."
                opened.enter_context(lock(self._path.with_suffix(".lock"), refusal))
                self._file = opened.enter_context(self._path.open("a+b", buffering=0))
                self._read(self._path)
                self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def __contains__(self, question: str) -> bool:
        return question in self._replies

    def __getitem__(self, question: str) -> str:
        return self._replies[question]

    def add(self, question: Question, reply: str) -> None:
        """Save a reply to disk before the next question is asked."""
        if self._path is not None:
            record = {"judge": self._judge, "question": question.key, "reply": reply}
            self._file.write(json.dumps(record).encode() + b"\n")
            os.fsync(self._file.fileno())
        self._replies[question.key] = reply

    def _read(self, path: Path) -> None:
        self._file.seek(0)
        *lines, rest = self._file.read().split(b"\n")
        if _is_whole(rest):  # only its line end is missing
            self._file.write(b"\n")
            lines.append(rest)
        elif rest:
            self._file.truncate(self._file.tell() - len(rest))
        for n, line in enumerate(lines, start=1):
            try:
                judge, question, reply = _parsed(line)
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f"Line {n} of the journal {str(path)!r} is not a saved reply: remove it, or"
                    " name another file."
                ) from error
            if judge == self._judge:
                self._replies[question] = reply


def _parsed(line: bytes) -> tuple[str, str, str]:
    record = json.loads(line)
    return record["judge"], record["question"], record["reply"]


def _is_whole(line: bytes) -> bool:
    try:
        _parsed(line)
    except (ValueError, KeyError, TypeError):
        return False
    return True
