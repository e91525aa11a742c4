"""evalPPL: how well a causal LM predicts what a system wrote, given the prompt.

Knows one scorer at a time, and reports it by name and by the hash of its weights. Whole texts are
read as the scorer's tokenizer reads them, so no system gains or loses by its own tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from reviser.core.actions import FILE_NAME, ActionVocab
from reviser.core.codec import Codec
from reviser.errors import ConfigError, DataError
from reviser.evals import intervals
from reviser.evals.intervals import Estimate
from reviser.evals.texts import Sample
from reviser.models import hub, info, trunks

TOKENIZATION = (
    "Prompt and continuation are tokenized as one text; a token counts if it holds any of the"
    " continuation, so one that spans the boundary counts whole."
)


@dataclass(frozen=True, slots=True)
class Score:
    """What a continuation costs under the scorer."""

    nll: float
    """In nats, of the continuation's tokens given all before them."""
    tokens: int
    characters: int
    joined: bool
    """Whether the first of the tokens begins in the prompt."""
    longer: bool
    """Whether the text exceeds the scorer's context, so that tokens saw only part of it."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """evalPPL of one set of samples under one scorer."""

    perplexity: Estimate
    """exp(sum of NLL / sum of tokens)."""
    bits_per_character: Estimate
    """The same sum by characters: comparable between scorers."""
    scores: tuple[Score, ...]
    """In the order of the samples."""
    empty: int
    """Continuations without a character, which count for nothing above."""
    joined: int
    longer: int
    scorer: dict[str, Any]


class Scorer:
    """A causal LM with its tokenizer."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        *,
        begin: Sequence[int] = (),
        about: dict[str, Any] | None = None,
    ) -> None:
        self._model = model.train(False)
        self._tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # a text that spells one gets its letters
        tokenizer.post_processor = None  # it may trim the spaces from the offsets
        self._begin = list(begin)
        self._context: int | None = getattr(model.config, "max_position_embeddings", None)
        self.about = {
            **(about or {}),
            "dtype": str(model.dtype).removeprefix("torch."),
            "begin": self._begin,
            "context": self._context,
            "tokenization": TOKENIZATION,
        }
        """What a report has to say of the scorer."""

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        begin: Sequence[int] | None = None,
        device: str = "cpu",
        **options: Any,
    ) -> Scorer:
        """Open a model folder, or a model of that name from the hub.

        `begin` are the ids put before every text: by default the one that the model's config calls
        bos, if any. A model of ours that only appends is a scorer too; its texts begin as an empty
        prefix does. Options go to `from_pretrained`.
        """
        folder = trunks.find(name)
        check_scorer(folder)
        model, tokenizer = trunks.load_base(folder, **options)
        if begin is None and (folder / FILE_NAME).is_file():
            begin = ActionVocab.load(folder).prefix_actions(())
        elif begin is None:
            first = model.config.bos_token_id
            begin = [] if first is None else [first]
        about = {
            "model": str(name),
            **hub.identity(folder),
            "tokenizer": Codec(tokenizer).fingerprint,
        }
        return cls(model.to(device), tokenizer, begin=begin, about=about)  # type: ignore[arg-type]

    @torch.inference_mode()
    def score(
        self,
        samples: Sequence[Sample],
        *,
        batch_tokens: int = 4096,
        progress: Callable[[int, int], None] = lambda *_: None,
    ) -> list[Score]:
        """The cost of each continuation; a batch has as many rows as make up `batch_tokens`.

        A text longer than the context is read in windows that overlap by half, so every token has
        at least half a context before it; one that fits is read once, exactly.
        """
        read = [self._read(sample) for sample in samples]
        rows = [(n, row) for n, (_, whole) in enumerate(read) for row in whole]
        rows.sort(key=lambda numbered: len(numbered[1].tokens))
        nll = [0.0] * len(samples)
        done = 0
        for batch in _batches(rows, batch_tokens):
            for (n, _), value in zip(batch, self._nll([row for _, row in batch]), strict=True):
                nll[n] += value
            done += len(batch)
            progress(done, len(rows))
        return [
            Score(
                nll=nll[n],
                tokens=sum(len(row.tokens) - row.first for row in whole),
                characters=len(samples[n].continuation),
                joined=joined,
                longer=bool(whole)
                and whole[-1].start + len(whole[-1].tokens) > (self._context or math.inf),
            )
            for n, (joined, whole) in enumerate(read)
        ]

    def _read(self, sample: Sample) -> tuple[bool, list[_Row]]:
        """Whether a token spans the boundary, and the windows of the text, if any is to be read."""
        if not sample.continuation:
            return False, []
        boundary = len(sample.prompt)
        encoding = self._tokenizer.encode(sample.text, add_special_tokens=False)
        offsets = encoding.offsets
        within = (n for n, (_, end) in enumerate(offsets) if end > boundary)
        # An empty prompt has no tokens, even if the tokenizer puts one of no width first.
        first = next(within, len(offsets)) if boundary else 0
        if first == len(offsets):  # the tokenizer drops what was written, as white space
            return False, []
        joined = offsets[first][0] < boundary
        tokens = [*self._begin, *encoding.ids]
        first += len(self._begin)
        if first == 0:
            raise DataError(
                f"The continuation of prompt {sample.id!r} has nothing before it to predict its"
                " first token from: give the scorer a begin token."
            )
        return joined, list(self._windows(tokens, first))

    def _windows(self, tokens: list[int], first: int) -> Iterator[_Row]:
        size = self._context or len(tokens)
        if size < 2:
            raise ConfigError(f"The scorer reads {size} token at a time; it must read 2 or more.")
        while first < len(tokens):
            # What counts has half a window before it, or all that there is; the last window is
            # full.
            start = max(0, min(first - size // 2, len(tokens) - size))
            window = tokens[start : start + size]
            yield _Row(window, first - start, start)
            first = start + len(window)

    def _nll(self, rows: Sequence[_Row]) -> list[float]:
        """The cost of each row's tokens from its first that counts."""
        longest = max(len(row.tokens) for row in rows)
        tokens_BT = torch.zeros((len(rows), longest), dtype=torch.long)
        mask_BT = torch.zeros_like(tokens_BT)
        for n, row in enumerate(rows):
            tokens_BT[n, : len(row.tokens)] = torch.tensor(row.tokens)
            mask_BT[n, : len(row.tokens)] = 1
        device = self._model.device
        logits_BTV = self._model(
            input_ids=tokens_BT.to(device), attention_mask=mask_BT.to(device), use_cache=False
        ).logits
        costs = []
        for n, row in enumerate(rows):
            end = len(row.tokens)
            counted_KV = logits_BTV[n, row.first - 1 : end - 1].float()
            target_K = tokens_BT[n, row.first : end].to(device)
            cost_K = torch.nn.functional.cross_entropy(counted_KV, target_K, reduction="none")
            costs.append(cost_K.double().sum().item())
        return costs


@dataclass(frozen=True, slots=True)
class _Row:
    tokens: list[int]
    first: int
    """The first token that counts; at least 1."""
    start: int = 0
    """Where in the text the row begins."""


def _batches(
    rows: Sequence[tuple[int, _Row]], batch_tokens: int
) -> Iterator[Sequence[tuple[int, _Row]]]:
    """Runs of rows that hold at most so many tokens with their padding; a long row goes alone."""
    start = 0
    for end in range(1, len(rows) + 1):
        is_last = end == len(rows)
        if is_last or (end + 1 - start) * len(rows[end][1].tokens) > batch_tokens:
            yield rows[start:end]
            start = end


def evaluate(
    scorer: Scorer,
    samples: Sequence[Sample],
    *,
    batch_tokens: int = 4096,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Report:
    """Perplexity and bits per character, with intervals that know which samples share a prompt."""
    scores = scorer.score(samples, batch_tokens=batch_tokens, progress=progress)
    if not any(score.tokens for score in scores):
        raise DataError("Every continuation is empty, so there is no perplexity of them.")
    clusters = [sample.id for sample in samples]
    nll = [score.nll for score in scores]
    tokens = [score.tokens for score in scores]
    characters = [score.characters for score in scores]
    per_character = intervals.ratio_of_means(nll, characters, clusters)
    return Report(
        perplexity=intervals.perplexity(nll, tokens, clusters),
        bits_per_character=per_character.map(lambda nats: nats / math.log(2)),
        scores=tuple(scores),
        empty=sum(not sample.continuation for sample in samples),
        joined=sum(score.joined for score in scores),
        longer=sum(score.longer for score in scores),
        scorer=scorer.about,
    )


def check_scorer(folder: Path) -> None:
    """Refuse a model that writes in another order than from left to right."""
    if not (folder / FILE_NAME).is_file():
        return
    training = info.describe(folder)["training"]
    if training is None or training["recipe"]["policy"]["kind"] != "append":
        raise ConfigError(
            f"{str(folder)!r} writes by editing, so its probabilities are of edits, not of texts."
            " Of such models only one that was trained to append is a scorer."
        )
