"""Locked text in hostile texts: whatever an engine does within the mask, it is not changed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from reviser.engines.base import DecodeConfig
from reviser.errors import ReviserError
from reviser.writing.rollout import Revision, Rollout
from reviser.writing.tasks import Continue, Infill, Revise, Task
from support.serving import reviser

PIECES = [
    "a", "b", "ana", "aa", "e\u0301", "\u0301", "é", " ", "  ", "\n", "\r\n", "\t", "\0", "😀",
    "👩\u200d🚀", "🇩🇪", "\u202e", "\ufeff", "\ufffd", "ʒ", "你好", "안", "สวัส", "{}", "<|stop|>",
    "<|endoftext|>", "ﬁ", "ß", "\u2028", ".", "!", "The cat", " sat", "\U0010ffff", "\uffff", "ᾳ",
    "İ",
]  # fmt: skip


def text(rng: Random, most: int) -> str:
    return "".join(rng.choices(PIECES, k=rng.randint(0, most)))


def span(rng: Random, length: int) -> tuple[int, int]:
    start, end = sorted((rng.randint(0, length), rng.randint(0, length)))
    return start, end


def task(rng: Random) -> Task:
    kind = rng.random()
    if kind < 0.1:
        return Continue(text(rng, 12))
    if kind < 0.4:
        whole = text(rng, 12)
        if rng.random() < 0.5:
            return Infill(whole + "{}" + text(rng, 8))
        bounds = sorted(rng.randint(0, len(whole)) for _ in range(2 * rng.randint(1, 4)))
        return Infill(whole, list(zip(bounds[::2], bounds[1::2], strict=True)))
    draft = text(rng, 14)
    locked: list[Any] = []
    for _ in range(rng.randint(0, 4) if draft else 0):
        start, end = span(rng, len(draft))
        end = min(end, start + rng.choice([1, 2, 3, 50]))
        locked.append(draft[start:end] if start < end and rng.random() < 0.6 else (start, end))
    window = rng.choice([192, 192, 8, 3])
    minimum = rng.choice([0.0, 0.5, None])
    return Revise(
        draft, locked=locked, window=window, context=rng.choice([0, 2, 9]),
        min_edit_probability=minimum,
    )  # fmt: skip


def violations(asked: Task, result: Rollout | Revision) -> Iterator[str]:
    rollouts = result.rollouts if isinstance(result, Revision) else [result]
    for rollout in rollouts:
        for proof in rollout.locked:
            if proof.before != proof.after:
                yield "a proof does not hold"
    if isinstance(asked, Continue):
        if not result.text.startswith(asked.prompt):
            yield "the prompt has changed"
    elif isinstance(asked, Infill):
        first, *between, last = asked.locked
        at = len(first)
        if not result.text.startswith(first) or not result.text[at:].endswith(last):
            yield "an end has changed"
        inside = result.text[at : len(result.text) - len(last)]
        at = 0
        for part in between:
            at = inside.find(part, at)
            if at < 0:
                yield "a part between gaps has changed"
                break
            at += len(part)
    elif isinstance(result, Revision):
        rebuilt, at = "", 0
        for change in result.changes:
            rebuilt, at = rebuilt + asked.draft[at : change.start] + change.after, change.end
            for start, end in occurrences(asked):  # an empty span locks nothing
                if change.start < end and start < change.end:
                    yield f"{change} overlaps {start}..{end}"
                if change.start == change.end and start < change.start < end:
                    yield f"{change} is inside {start}..{end}"
        if rebuilt + asked.draft[at:] != result.text:
            yield "the changes do not give the text"


def occurrences(asked: Revise) -> Iterator[tuple[int, int]]:
    """Every place that is locked, found the slow way."""
    for lock in asked.locked:
        if isinstance(lock, str):
            for start in range(len(asked.draft)):
                if asked.draft.startswith(lock, start):
                    yield start, start + len(lock)
        elif lock[0] < lock[1]:
            yield lock


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, 100), pytest.param(1, 1000, marks=pytest.mark.full)],
)
def test_locked_text_is_never_changed(seed: int, count: int) -> None:
    rng, model = Random(seed), reviser()
    asked: list[Task] = []

    def tasks() -> Iterator[Task]:
        while len(asked) < count:
            asked.append(task(rng))
            yield asked[-1]

    config = DecodeConfig(max_actions=15, stop_bias=-1.0)
    failed, changed = 0, 0
    for n, result in enumerate(model.run_many(tasks(), config, on_error="return")):
        if isinstance(result, ReviserError):
            failed += 1
            continue
        assert list(violations(asked[n], result)) == [], asked[n]
        changed += result.text != (getattr(asked[n], "draft", None))
    assert failed < 0.02 * count
    assert changed > 0.6 * count
