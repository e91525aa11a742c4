"""Find and correct mistakes in a text with a trained adapter.

    echo "She go to school yesterday" | python proofread.py base run/adapter

The model reads the draft once and gives each boundary between tokens a probability that an edit
ends there. Wherever it is high enough, the model is led to that boundary by a search and writes
the edit. The base model, which is the same weights with the adapters off, then compares the text
with and without the edit.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from examples import DELAY, Layout, open_tokenizer, search_tokens
from model import Cache, Proofreader

MAX_IDS = 12
"""Ids of the longest edit."""
RIGHT = 6
"""Tokens after an edit over which the base model compares the texts."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One edit of a draft: the characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str
    detection: float
    """Probability that an edit is needed here."""
    content: float
    """Probability of the edit's ids, given that one is made here."""
    ratio: float
    """Log-likelihood ratio of the text with the edit to the text without it."""


class Reader:
    """A model that suggests edits."""

    def __init__(
        self, base: Path, adapter: Path | None, *, delay: int = DELAY, frozen: int = 20
    ) -> None:
        self.vocab, self.codec, self.newline = open_tokenizer(base)
        self.model = Proofreader(base, self.vocab, newline=self.newline, frozen=frozen)
        if adapter is not None:
            self.model.load_adapter(adapter)
        self.layout = Layout(delay)
        vocab = self.vocab
        first = torch.zeros(vocab.size, dtype=torch.bool)
        first[: vocab.tokens] = True
        first[list(vocab.never_insert)] = False
        self._token = first.clone()  # what may follow REPLACE
        first[[vocab.find, vocab.stop]] = True
        self._more = first.clone()  # what may follow an inserted token
        first[[vocab.delete, vocab.replace]] = True
        self._first = first

    @torch.no_grad()
    def detect(self, tokens: list[int]) -> tuple[np.ndarray, Cache]:
        """Return the edit probability of each boundary of a draft, and the cache after it."""
        ids = torch.tensor([self.layout.shown(self.vocab, tokens)])
        output, cache = self.model.step(ids, None)
        logits = self.model.control_logits(output[0, self.layout.judged(len(tokens))])
        stays = logits.softmax(-1)[:, self.vocab.stop - self.vocab.tokens]
        return (1 - stays).numpy(), cache

    @torch.no_grad()
    def write(
        self, tokens: list[int], goal: int, cache: Cache, last: int
    ) -> tuple[int, list[int], float] | None:
        """Return where the edit that ends at a boundary starts, its tokens and its probability.

        None if the model makes no edit there. `last` is the id that the cache has not read yet.
        """
        vocab = self.vocab
        way = [vocab.find, *search_tokens(tokens, 0, goal), vocab.here] if goal else []
        ids, start, new, total = [last, *way], goal, [], 0.0
        allowed = self._first
        for _ in range(MAX_IDS):
            output, cache = self.model.step(torch.tensor([ids]), cache)
            scores = (
                self.model.logits(output[0, -1]).masked_fill(~allowed, -torch.inf).log_softmax(-1)
            )
            if not start and allowed is self._first:
                scores[[vocab.delete, vocab.replace]] = -torch.inf
            best = int(scores.argmax())
            total += float(scores[best])
            ids = [best]
            if best in (vocab.find, vocab.stop):
                return (start, new, float(np.exp(total))) if new or start < goal else None
            if best == vocab.delete:
                start -= 1
            elif best == vocab.replace:
                start, allowed = start - 1, self._token
            else:
                new.append(best)
                allowed = self._more
        return None

    def suggest(self, text: str, threshold: float, *, limit: int = 10) -> list[Suggestion]:
        """Return the suggestions for a text, best detected first."""
        tokens = self.codec.encode(text)
        probabilities, cache = self.detect(tokens)
        # Keep the last id, BACK, out of the cache: it is read together with the search.
        cache = [(k[:, :, :-1], v[:, :, :-1]) for k, v in cache]
        assert self.vocab.back is not None
        order = np.argsort(-probabilities, kind="stable")[:limit]
        places = self.codec.char_offsets(tokens)
        found = []
        for goal in (int(n) for n in order if probabilities[n] >= threshold):
            made = self.write(tokens, goal, cache, self.vocab.back)
            if made is None:
                continue
            start, new, content = made
            low, high = int(places[start]), int(places[goal])
            inserted = self.codec.decode(new)
            if min(low, high) < 0 or "\ufffd" in inserted or text[low:high] == inserted:
                continue
            found.append((low, high, inserted, float(probabilities[goal]), content))
        ratios = self.verify(text, [each[:3] for each in found])
        return [Suggestion(*each, ratio) for each, ratio in zip(found, ratios, strict=True)]

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


def choose(suggestions: list[Suggestion], *, detection: float, ratio: float) -> list[Suggestion]:
    """Return the suggestions that pass both thresholds and do not overlap, in order."""
    chosen: list[Suggestion] = []
    for each in sorted(suggestions, key=lambda s: -s.detection):
        if each.detection < detection or each.ratio < ratio:
            continue
        if all(each.end < other.start or other.end < each.start for other in chosen):
            chosen.append(each)
    return sorted(chosen, key=lambda s: s.start)


def corrected(text: str, suggestions: list[Suggestion]) -> str:
    """Return the text with suggestions applied."""
    for each in reversed(suggestions):
        text = text[: each.start] + each.text + text[each.end :]
    return text


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("--detection", type=float, default=0.5)
    parser.add_argument("--ratio", type=float, default=1.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    reader = Reader(given.base, given.adapter)
    for line in sys.stdin.read().splitlines():
        found = reader.suggest(line, min(0.2, given.detection))
        for each in found:
            old = line[each.start : each.end]
            print(f"  {each.start}: {old!r} -> {each.text!r}  detection {each.detection:.2f}"
                  f" content {each.content:.2f} ratio {each.ratio:+.1f}")  # fmt: skip
        print(corrected(line, choose(found, detection=given.detection, ratio=given.ratio)))


if __name__ == "__main__":
    main()
