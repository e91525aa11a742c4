"""The Transformers engine: many histories side by side, with a key-value cache.

Requests enter as rows become free and leave when they end. The core's mask says what may be chosen;
the caller applies the chosen action. Texts are scored between the steps (`scoring`).

Shapes: B rows, T ids of a history, A ids of the vocabulary, C columns of a mask.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, LogitsProcessor

from reviser.core.actions import ActionVocab
from reviser.core.mask import ActionMask
from reviser.engines.base import (
    Act,
    Answer,
    Question,
    Request,
    Score,
    Step,
    StopReason,
    Vocab,
    failure,
    vocab_of,
)
from reviser.engines.logits import LogitsMask, choose
from reviser.engines.scoring import Scorer, checked_cache
from reviser.errors import ConfigError, ReviserError
from reviser.models import hub, trunks

FAILED = -1
"""In place of an action: this request has failed."""
SCORED_IDS = 1024
"""Ids of texts that are scored between two steps, so that scoring holds up no writing. A text and
its branches are scored at once, however long they are."""


@dataclass
class _Row:
    """A running request."""

    number: int
    request: Request
    slot: int
    """Its row in the mask."""
    draws: np.random.Generator
    """The random numbers of its actions, so that neighbours change nothing."""
    last: int = -1
    """The newest action, which the trunk has not read yet."""
    actions: int = 0

    @property
    def ids(self) -> int:
        """Length of its history."""
        return len(self.request.history) + self.actions

    def draw(self) -> float | None:
        """Return the next random number; None, which no action can be chosen by, if it fails."""
        try:
            return self.draws.random()
        except Exception:  # noqa: BLE001 - a fault of this request alone
            return None


class HFEngine:
    """An engine that runs requests on a Transformers model, `rows` of them at a time."""

    def __init__(self, model: Any, vocab: Vocab, *, rows: int = 64) -> None:
        if type(rows) is not int or rows < 1:
            raise ConfigError(f"rows is {rows!r}; it must be a whole number, 1 or more.")
        self.vocab = vocab
        self._model = model.eval()
        self._device = next(model.parameters()).device
        self.context: int = getattr(model.config, "max_position_embeddings", None) or sys.maxsize
        """Length of the longest history that the model can read."""
        has_option = "logits_to_keep" in signature(model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if has_option else {}
        self._count = rows
        if isinstance(vocab, ActionVocab):
            self._mask = LogitsMask(vocab, self._device)
            self._action_mask = ActionMask(vocab, rows)
        self._free = deque(range(rows))
        self._waiting: deque[tuple[int, Request]] = deque()
        self._scores = deque[tuple[int, Score]]()
        self._known = deque[tuple[int, Score]]()  # about texts that were read lately
        self._scorer = Scorer(self._model, vocab)
        self._rows: list[_Row] = []
        self._cache: Any = None
        self._added = 0

    @classmethod
    def load(
        cls, name: str | Path, /, *, rows: int = 64, plain: bool = False, **options: Any
    ) -> tuple[HFEngine, Path]:
        """Open a model by folder or hub name; return the engine and the folder.

        With `plain`, the model may be one without actions, to score with.
        """
        folder = hub.find(name)
        model: Any
        vocab: Vocab
        if plain:
            vocab, model = vocab_of(folder), trunks.load_plain(folder, **options)
        else:
            model, vocab = trunks.load_folder(folder, **options)
        if "device_map" in options:  # Transformers has placed it
            return cls(model, vocab, rows=rows), folder
        rank = int(os.environ.get("LOCAL_RANK", "0"))  # several processes have a device each
        count = torch.cuda.device_count()
        device = torch.device(f"cuda:{rank % count}" if count else "cpu")
        return cls(torch.nn.Module.to(model, device), vocab, rows=rows), folder

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what runs the model, for provenance."""
        return {name: version(name) for name in ("reviser-lm", "torch", "transformers")}

    def add(self, question: Question) -> int:
        """Check a question and queue it; return its number."""
        question.check(self.vocab, self.context)
        self._added += 1
        if isinstance(question, Act):
            self._waiting.append((self._added, question.request))
        else:
            is_known = self._scorer.has_read(question.history)
            (self._known if is_known else self._scores).append((self._added, question))
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a question, answered or not; nothing more is said about it."""
        self._scores = deque(pair for pair in self._scores if pair[0] != number)
        self._known = deque(pair for pair in self._known if pair[0] != number)
        self._waiting = deque(pair for pair in self._waiting if pair[0] != number)
        self._keep([n for n, row in enumerate(self._rows) if row.number != number])

    def close(self) -> None:
        """Forget all questions, and what was read for them."""
        self._waiting.clear()
        self._scores.clear()
        self._known.clear()
        self._scorer.clear()
        self._clear()

    def step(self, wait: float = 0.0) -> list[Answer]:  # noqa: ARG002 - the work is done here
        """Score some texts, and choose one action for each running request, new ones included.

        A question that cannot be answered gets an error; the others are not affected. If this is
        interrupted, or the model itself fails, the running requests are lost.
        """
        try:
            with torch.no_grad():
                return [*self._score(), *self._act()]
        except BaseException:
            self._clear()
            raise

    def _score(self) -> list[Answer]:
        """Answer questions about texts: what was read lately first, then the oldest."""
        answers: list[Answer] = []
        left = SCORED_IDS
        while (queue := self._known or self._scores) and left > 0:
            number, question = queue.popleft()
            left -= len(question.history) + sum(len(ids) for _, ids in question.branches)
            try:
                answers.append(Answer(number, self._scorer.score(question)))
            except Exception as error:  # noqa: BLE001 - a fault of this question alone
                self._scorer.clear()  # it may have run out of memory
                answers.append(Answer(number, failure(error)))
        return answers

    def _clear(self) -> None:
        self._free = deque(range(self._count))
        self._rows, self._cache = [], None

    def _act(self) -> list[Answer]:
        answers: list[Answer] = []
        errors: dict[int, Exception] = {}
        parts = [self._go_on()] if self._rows else []
        if self._waiting and self._free:
            parts += self._enter(answers)
        if not parts:
            return answers
        raw_BA = torch.cat(parts).float()
        actions = self._chosen(raw_BA, errors)
        read_B = self._tensor([max(0, action) for action in actions])
        logprobs = (raw_BA.gather(1, read_B[:, None])[:, 0] - raw_BA.logsumexp(-1)).tolist()
        actions = self._advanced(actions, errors)
        kept = []
        for n, (row, action) in enumerate(zip(self._rows, actions, strict=True)):
            if action == FAILED:
                answers.append(Answer(row.number, failure(errors.get(n))))
                continue
            row.last, row.actions = action, row.actions + 1
            step = Step(action, logprobs[n], self._ended(row))
            answers.append(Answer(row.number, step))
            if step.ended is None:
                kept.append(n)
        self._keep(kept)
        return answers

    def _chosen(self, raw_BA: torch.Tensor, errors: dict[int, Exception]) -> list[int]:
        """Return an action for each row, `FAILED` where none can be chosen."""
        draws = [row.draw() for row in self._rows]

        def choose_in(at: list[int]) -> list[int]:
            rows = [self._rows[n] for n in at]
            configs = [row.request.config for row in rows]
            action_mask = self._action_mask.view([row.slot for row in rows])
            logits_BA = raw_BA[at]
            self._mask.apply(logits_BA, self._mask.plan(action_mask, configs))
            chosen: list[int] = choose(logits_BA, configs, [draws[n] for n in at]).tolist()
            return chosen

        return _per_row(choose_in, len(self._rows), errors)

    def _advanced(self, actions: list[int], errors: dict[int, Exception]) -> list[int]:
        """Advance the rows by their actions; return these, `FAILED` where that is impossible."""

        def advance(at: list[int]) -> list[int]:
            taken = [actions[n] for n in at]
            self._action_mask.advance(taken, [self._rows[n].slot for n in at])
            return taken

        return _per_row(advance, len(actions), errors)

    def _ended(self, row: _Row) -> StopReason | None:
        if row.last == self._action_mask.vocab.stop:  # never another action's argument
            return "stop"
        if row.actions == row.request.config.max_actions:
            return "max_actions"
        return "context" if row.ids >= self.context else None

    def _go_on(self) -> torch.Tensor:
        """Let the trunk read the newest action of every row; return the logits after it."""
        lengths_B = self._tensor([row.ids for row in self._rows])
        width = self._cache.get_seq_length() + 1
        positions_T = torch.arange(width, device=self._device)
        output = self._model(
            input_ids=self._tensor([[row.last] for row in self._rows]),
            position_ids=lengths_B[:, None] - 1,
            attention_mask=(positions_T >= width - lengths_B[:, None]).long(),
            past_key_values=self._cache,
            use_cache=True,
        )
        self._cache = output.past_key_values
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def _enter(self, answers: list[Answer]) -> list[torch.Tensor]:
        """Let waiting requests in and return the logits after their histories; none if all fail.

        A request that cannot enter adds an answer with its error.
        """
        count = min(len(self._waiting), len(self._free))
        rows = []
        for number, request in [self._waiting.popleft() for _ in range(count)]:
            slot = self._free.popleft()
            try:
                request.enter(self._action_mask, slot)
                draws = np.random.Generator(np.random.Philox(key=request.config.seed))
                rows.append(_Row(number, request, slot, draws))
            except Exception as error:  # noqa: BLE001 - a fault of this request alone
                self._free.append(slot)
                answers.append(Answer(number, failure(error)))
        return self._read_or_fail(rows, answers) if rows else []

    def _read_or_fail(self, entering: list[_Row], answers: list[Answer]) -> list[torch.Tensor]:
        """Return the logits after the histories of these rows, which then run; or of some of them.

        If they cannot be read together, for lack of memory for example, each is read alone. Nothing
        is lost by the rows that run already.
        """
        try:
            logits_BA, cache = self._read(entering)
        except ReviserError:  # this model cannot run here at all
            raise
        except Exception as error:  # noqa: BLE001 - given to the row that causes it
            if len(entering) > 1:
                return [part for row in entering for part in self._read_or_fail([row], answers)]
            self._free.append(entering[0].slot)
            answers.append(Answer(entering[0].number, failure(error)))
            return []
        self._cache = _joined(self._cache, cache)
        self._rows += entering
        return [logits_BA]

    def _read(self, entering: list[_Row]) -> tuple[torch.Tensor, DynamicCache]:
        """Let the trunk read histories, padded on the left; return the logits after them."""
        histories = [row.request.history for row in entering]
        width = max(map(len, histories))
        ids_BT = torch.full(
            (len(histories), width), self._action_mask.vocab.stop, device=self._device
        )
        for n, history in enumerate(histories):
            ids_BT[n, width - len(history) :] = self._tensor(list(history))
        lengths_B = self._tensor([len(history) for history in histories])
        positions_T = torch.arange(width, device=self._device)
        is_real_BT = positions_T >= width - lengths_B[:, None]
        output = self._model(
            input_ids=ids_BT,
            position_ids=(is_real_BT.cumsum(1) - 1).clamp(min=0),
            attention_mask=is_real_BT.long(),
            past_key_values=DynamicCache(),  # keeps everything, also for layers with a window
            use_cache=True,
            **self._last_only,
        )
        cache = checked_cache(self._model, getattr(output, "past_key_values", None))
        return output.logits[:, -1], cache

    def _keep(self, kept: list[int]) -> None:
        """Remove all rows but these, and cut off padding that no row needs any more."""
        if len(kept) == len(self._rows):
            return
        rows = [self._rows[n] for n in kept]
        # The newest action of a row is not in the cache yet.
        width = max((row.ids for row in rows), default=1) - 1
        tables = []
        for layer in self._cache.layers if rows else ():
            both = layer.keys, layer.values
            tables.append([table[kept, :, table.shape[2] - width :] for table in both])
        # From here on nothing can fail: there may have been no memory for the tables.
        for layer, (keys, values) in zip(self._cache.layers, tables, strict=False):
            layer.keys, layer.values = keys, values
        left = set(kept)
        self._free.extend(row.slot for n, row in enumerate(self._rows) if n not in left)
        self._rows, self._cache = rows, self._cache if rows else None

    def _tensor(self, values: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(values, device=self._device)


def _per_row(
    compute: Callable[[list[int]], list[int]], count: int, errors: dict[int, Exception]
) -> list[int]:
    """Return an action for each row; where there is none, `FAILED`, with the error in `errors`.

    All rows are computed together. If that raises, one of them is the cause and nothing says which,
    so each is computed alone. Rows share nothing, so the others get the action they would have had.
    """
    try:
        return compute(list(range(count)))
    except Exception:  # noqa: BLE001 - computed again below, where the error has a row

        def alone(n: int) -> int:
            try:
                return compute([n])[0]
            except Exception as error:  # noqa: BLE001 - a fault of this row alone
                errors.setdefault(n, error)
                return FAILED

        return [alone(n) for n in range(count)]


def _joined(cache: Any, other: Any) -> Any:
    """Return one cache with the rows of both, the narrower padded on the left.

        the  cat  sat    runs already; its newest action, "on", is read next
        pad  a    dog    enters: its history has just been read

    Rows end together on the right, so the next position is the same column for all; a mask tells
    each row how much of the left is padding.
    """
    if cache is None:
        return other
    width = max(cache.get_seq_length(), other.get_seq_length())

    def wide(table: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(table, (0, 0, width - table.shape[2], 0))

    for layer, new in zip(cache.layers, other.layers, strict=True):
        layer.keys = torch.cat([wide(layer.keys), wide(new.keys)])
        layer.values = torch.cat([wide(layer.values), wide(new.values)])
    return cache


@dataclass
class MaskProcessor(LogitsProcessor):
    """The mask for `model.generate()`: one per call, with the requests of its rows.

    Left-pad the histories, and use STOP as end and padding token. It follows each row's actions
    by the ids it is shown, so beams, which swap rows, are refused.
    """

    vocab: ActionVocab
    requests: Sequence[Request]

    def __post_init__(self) -> None:
        self._action_mask = ActionMask(self.vocab, len(self.requests))
        for n, request in enumerate(self.requests):
            request.enter(self._action_mask, n)
        self._history: torch.Tensor | None = None
        self._mask: LogitsMask | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Mask what is not allowed next."""
        if len(input_ids) != len(self.requests):
            raise ConfigError(
                f"{len(self.requests)} requests but {len(input_ids)} rows: the mask follows one"
                " history per request, without beams or several sequences for one."
            )
        if self._history is None:
            for ids, request in zip(input_ids.tolist(), self.requests, strict=True):
                if tuple(ids[len(ids) - len(request.history) :]) != request.history:
                    raise ConfigError("A row does not end with the history of its request.")
        elif not torch.equal(input_ids[:, :-1], self._history):
            raise ConfigError(
                "The rows are not those of the step before: use one MaskProcessor for each call,"
                " and no beams."
            )
        else:
            self._action_mask.advance(input_ids[:, -1].tolist())
        self._history = input_ids.clone()
        if self._mask is None:
            self._mask = LogitsMask(self.vocab, scores.device)
        scores = scores.clone()
        configs = [request.config for request in self.requests]
        self._mask.apply(scores, self._mask.plan(self._action_mask, configs))
        return scores
