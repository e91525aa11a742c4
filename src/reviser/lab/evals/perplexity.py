"""evalPPL: how well a causal LM predicts a system's continuation of a prompt.

This module uses one scorer at a time and reports its name and the hash of its weights. The scorer's
own tokenizer reads the whole text, so no system gains or loses by its tokens.
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
from reviser.lab.evals import intervals
from reviser.lab.evals.intervals import Estimate
from reviser.lab.evals.texts import Sample
from reviser.models import hub, info, trunks

TOKENIZATION = (
    "Prompt and continuation are tokenized as one text; a token counts if it holds any of the"
    " continuation, so one that spans the boundary counts whole."
)


@dataclass(frozen=True, slots=True)
class Score:
    """The cost of one continuation under the scorer."""

    nll: float
    """Negative log-likelihood of the continuation's tokens, in nats, given everything before them.
    """
    tokens: int
    characters: int
    longer: bool
    """True if the text exceeds the scorer's context, so that tokens saw only part of it."""


@dataclass(frozen=True, kw_only=True)
class PerplexityReport:
    """evalPPL of one set of samples under one scorer."""

    perplexity: Estimate
    """exp(sum of NLL / sum of tokens)."""
    bits_per_character: Estimate
    """The same sum per character, which is comparable between scorers."""
    scores: tuple[Score, ...]
    """Scores in the order of the samples."""
    empty: int
    """Number of empty continuations, which are left out of the estimates."""
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
        """The description of the scorer in a record."""

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        begin: Sequence[int] | None = None,
        device: str = "cpu",
        **options: Any,
    ) -> Scorer:
        """Open a model folder, or a model from the hub.

        `begin` holds the ids put before every text: by default the bos token of the model's config,
        if any. A reviser model that only appends is a scorer too; its texts begin like an empty
        prefix. Options go to `from_pretrained`.
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
        """Score each continuation, in batches of up to `batch_tokens` tokens.

        A text longer than the context is read in windows that overlap by half, so every token has
        at least half a context before it. A text that fits is read once, exactly.
        """
        read = [self._read(sample) for sample in samples]
        rows = [(n, row) for n, whole in enumerate(read) for row in whole]
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
                longer=bool(whole)
                and whole[-1].start + len(whole[-1].tokens) > (self._context or math.inf),
            )
            for n, whole in enumerate(read)
        ]

    def _read(self, sample: Sample) -> list[_Row]:
        """Return the windows of the text to read."""
        if not sample.continuation:
            return []
        boundary = len(sample.prompt)
        encoding = self._tokenizer.encode(sample.text, add_special_tokens=False)
        offsets = encoding.offsets
        within = (n for n, (_, end) in enumerate(offsets) if end > boundary)
        # An empty prompt has no tokens, even if the tokenizer puts one of no width first.
        first = next(within, len(offsets)) if boundary else 0
        if first == len(offsets):  # the tokenizer drops what was written, as white space
            return []
        tokens = [*self._begin, *encoding.ids]
        first += len(self._begin)
        if first == 0:
            raise DataError(
                f"The continuation of prompt {sample.id!r} has nothing before it to predict its"
                " first token from: give the scorer a begin token."
            )
        return list(self._windows(tokens, first))

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
        """Return the cost of each row's tokens, from the first that counts."""
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
    """Index of the first token that counts; at least 1."""
    start: int = 0
    """Offset of the row in the text."""


def _batches(
    rows: Sequence[tuple[int, _Row]], batch_tokens: int
) -> Iterator[Sequence[tuple[int, _Row]]]:
    """Yield batches of rows with at most this many tokens, padding included."""
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
) -> PerplexityReport:
    """Measure perplexity and bits per character, with intervals clustered by prompt."""
    scores = scorer.score(samples, batch_tokens=batch_tokens, progress=progress)
    if not any(score.tokens for score in scores):
        raise DataError(
            "Every continuation is empty, so there is nothing to measure perplexity on."
        )
    clusters = [sample.id for sample in samples]
    nll = [score.nll for score in scores]
    tokens = [score.tokens for score in scores]
    characters = [score.characters for score in scores]
    per_character = intervals.ratio_of_means(nll, characters, clusters).within(0, math.inf)
    return PerplexityReport(
        perplexity=intervals.perplexity(nll, tokens, clusters),
        bits_per_character=per_character.map(lambda nats: nats / math.log(2)),
        scores=tuple(scores),
        empty=sum(not sample.continuation for sample in samples),
        longer=sum(score.longer for score in scores),
        scorer=scorer.about,
    )


def check_scorer(folder: Path) -> None:
    """Raise an error for a model that does not write from left to right."""
    if not (folder / FILE_NAME).is_file():
        return
    training = info.describe(folder)["training"]
    if training is None or training["recipe"]["policy"]["kind"] != "append":
        raise ConfigError(
            f"{str(folder)!r} writes by editing, so its probabilities are of edits, not of texts."
            " Only a Reviser model that was trained to append can be a scorer."
        )
