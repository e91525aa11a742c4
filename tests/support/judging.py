"""A proofreader without weights: rules for a few words, and a judge that likes every edit.

`python -m support.judging` serves it to a language client. `REVISER_TEST_LOG` names a file that
gets every text that the judge reads, and `REVISER_TEST_SECONDS` is the duration of a reading.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import reviser.proofreading
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.engines.base import Answer, Question, Score, Scores
from reviser.model import Reviser
from reviser.proofread.flow import Proofreading
from reviser.proofread.judge import Judge, Logistic
from reviser.proofread.suggestion import Suggestion
from support import small_tokenizers

CODEC = Codec(small_tokenizers.byte_level())
RULES = (
    (r"\bteh\b", ("the", "ten"), "misspelling", "spelling", "It is spelt “the”.", False),
    (r"\ba(?= [aeiou])", ("an",), "a-an", "article", "“an” stands before a vowel.", True),
    (r"(?<=\bof )of ", ("",), "doubled", "repetition", "The word is there twice.", True),
)


def propose(text: str) -> Iterator[Suggestion]:
    """Suggest what the rules find."""
    for pattern, new, rule, category, message, sure in RULES:
        for found in re.finditer(pattern, text):
            yield Suggestion(*found.span(), new, rule, category, message, sure=sure)


class LikingEngine:
    """Finds every text likelier with an edit, and a little more so with the first edit."""

    context, versions = 4096, {"test": "1"}

    def __init__(self, vocab: ActionVocab) -> None:
        self.vocab = vocab
        self._asked: list[tuple[int, Score]] = []
        self._number = 0
        self._log = os.environ.get("REVISER_TEST_LOG")
        self._seconds = float(os.environ.get("REVISER_TEST_SECONDS", "0"))

    def add(self, question: Question) -> int:
        assert isinstance(question, Score)
        if self._log:
            with Path(self._log).open("a") as file:
                file.write(json.dumps(CODEC.decode(question.history[1:])) + "\n")
        self._number += 1
        self._asked.append((self._number, question))
        return self._number

    def cancel(self, number: int) -> None:
        self._asked = [each for each in self._asked if each[0] != number]

    def step(self, wait: float = 0.0) -> list[Answer]:  # noqa: ARG002
        time.sleep(self._seconds)
        asked, self._asked = self._asked, []
        return [Answer(number, _liked(question)) for number, question in asked]

    def close(self) -> None:
        self._asked = []


def _liked(question: Score) -> Scores:
    """Return scores in which every second branch, the one with the edit, is likely."""
    branches = (
        Scores(tuple(-0.001 * n if n % 2 else -9.0 for _ in branch.ids))
        for n, branch in enumerate(question.branches)
    )
    read = question.history[question.start :]
    return Scores(tuple(-1.0 for _ in read), branches=tuple(branches))


def reviser_of(*, has_judge: bool = True) -> Reviser:
    """Return the proofreader."""
    vocab = ActionVocab.from_tokenizer(small_tokenizers.byte_level())
    judge = Judge(verdict=Logistic(constant=2.0, weights={}), min_confidence=0.5)
    tools = Proofreading(proposers=[propose], judge=judge if has_judge else None, codec=CODEC,
                         begin=0, context=4096)  # fmt: skip
    engine: Any = LikingEngine(vocab)
    return Reviser(engine, CODEC, proofreading=tools)


def proofreader(judge: str | None = None, **_: Any) -> Reviser:
    """Open the proofreader, or fail as a missing folder would."""
    from reviser.errors import CheckpointError

    time.sleep(float(os.environ.get("REVISER_TEST_LOADING", "0")))
    if judge is not None and judge in ("missing", os.environ.get("REVISER_TEST_MISSING")):
        raise CheckpointError("There is no folder 'missing'.")
    return reviser_of(has_judge=judge is not None)


def installed() -> Callable[[], Any]:
    """Put the proofreader and its rules in place of the real ones; return what undoes it."""
    patch = mock.patch.multiple(
        reviser.proofreading, proofreader=proofreader, proposers=lambda *_: [propose]
    )
    patch.start()
    return patch.stop


if __name__ == "__main__":
    import sys

    from reviser.cli import main

    installed()
    main([*sys.argv[1:]] or ["lsp"], prog_name="reviser")
