"""The frozen base model compares a text with and without edits."""

from pathlib import Path

import torch
from examples import open_tokenizer
from model import Proofreader

RIGHT = 6
"""Tokens after an edit over which the texts are compared."""


class Reader:
    """A base model and its tokenizer."""

    def __init__(self, base: Path, *, frozen: int = 20) -> None:
        self.vocab, self.codec, self.newline = open_tokenizer(base)
        self.model = Proofreader(base, self.vocab, newline=self.newline, frozen=frozen)

    @torch.no_grad()
    def verify(self, text: str, edits: list[tuple[int, int, str]]) -> list[float]:
        """Return the log-likelihood ratio of each edit by the base model, in nats."""
        if not edits:
            return []
        old = self._ids(text)
        news = [self._ids(text[:low] + new + text[high:]) for low, high, new in edits]
        length = max(map(len, [old, *news]))
        batch = torch.zeros(1 + len(news), length, dtype=torch.long)
        for row, ids in enumerate([old, *news]):
            batch[row, : len(ids)] = torch.tensor(ids)
        output = self.model.base_output(batch)
        found = []
        for row, new in enumerate(news, start=1):
            shortest = min(len(old), len(new))
            same = next((n for n in range(shortest) if old[n] != new[n]), shortest)
            tail = next(
                (n for n in range(shortest - same) if old[-1 - n] != new[-1 - n]), shortest - same
            )
            likelihoods = []
            for at, ids in ((0, old), (row, new)):
                end = min(len(ids), len(ids) - tail + RIGHT)
                logits = output[at, same - 1 : end - 1] @ self.model.table.T
                scores = logits.log_softmax(-1).gather(-1, batch[at, same:end, None])
                likelihoods.append(float(scores.sum()))
            found.append(likelihoods[1] - likelihoods[0])
        return found

    def _ids(self, text: str) -> list[int]:
        """Return the ids that the base model scores: a line break after the text judges its end."""
        assert self.vocab.begin is not None
        return [self.vocab.begin, *self.codec.encode(text), self.newline]
