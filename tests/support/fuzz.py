"""Random requests against an engine, every action judged by rules written down a second time.

The judge knows edits, not masks: what the executor did to the tokens must lie inside a range,
within the budgets. Short in CI; at length: `just fuzz hf 1000000`, in vLLM's environment `just fuzz
vllm 1000000`. `break_mask` makes the mask of engine hf wrong: the tests see that the judge says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from reviser.core.actions import OPERATORS, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.engines.base import Act, DecodeConfig, Engine, Request, Step
from reviser.errors import InvalidAction
from support import small_tokenizers

AT_ONCE = 64
CONTEXT = 160
"""Ids a model reads: so few that some requests end there."""
PATIENCE = 60
"""Steps without an answer after which requests count as lost."""
CHOSEN = [
    Kind.INSERT,
    Kind.MOVE,
    Kind.MARK,
    Kind.TO_MARK,
    Kind.FIND,
    Kind.FIND_END,
    Kind.STOP,
    Kind.NUMBER_END,
]
CHOSEN += [Kind[name.upper()] for name in OPERATORS]


class Illegal(AssertionError):
    """An action that the rules do not allow."""


class Judge:
    """Follows one request and objects to the first thing that must not happen."""

    def __init__(self, vocab: ActionVocab, request: Request, context: int) -> None:
        self.vocab = vocab
        self.context = context
        self.request = request
        self.canvas = Canvas.replay(vocab, request.history)
        self.editable = [list(pair) for pair in request.editable]
        self.locked = self._outside()
        self.edits = self.actions = self.moves = 0
        self.ended: str | None = None
        if (len(self.canvas), self.canvas.cursor) != (request.length, request.cursor):
            raise Illegal("the request does not tell the state of its canvas")

    def take(self, step: Step) -> None:
        """Apply a step of the engine."""
        config, vocab, action = self.request.config, self.vocab, step.action
        if self.ended is not None:
            raise Illegal(f"an action after the end ({self.ended})")
        if not 0 <= action < vocab.size or vocab.kind(action) not in CHOSEN:
            raise Illegal(f"id {action} may never be chosen")
        if not step.logprob <= 0:
            raise Illegal(f"log-probability {step.logprob}")
        if not self.canvas.is_spelling:
            self.moves = self.moves + 1 if vocab.is_move[action] else 0
        if config.max_moves is not None and self.moves > config.max_moves:
            raise Illegal(f"{self.moves} moves in a row, at most {config.max_moves}")
        try:
            edit = self.canvas.apply(action)
        except InvalidAction as error:
            raise Illegal(str(error)) from error
        if edit.changes_text:
            self.edits += 1
            first, last = edit.position, edit.position + len(edit.removed)
            pair = next((g for g in self.editable if g[0] <= first and last <= g[1]), None)
            if pair is None:
                raise Illegal(f"an edit at {first}..{last}, ranges {self.editable}")
            grown = len(edit.inserted) - len(edit.removed)
            for other in self.editable[self.editable.index(pair) + 1 :]:
                other[0] += grown
                other[1] += grown
            pair[1] += grown
            if grown > 0 and config.max_length is not None and len(self.canvas) > config.max_length:
                raise Illegal(f"{len(self.canvas)} tokens, at most {config.max_length}")
        elif edit.cursor != edit.cursor_before and not (
            self.editable[0][0] <= edit.cursor <= self.editable[-1][1]
        ):
            raise Illegal(f"the cursor at {edit.cursor}, ranges {self.editable}")
        if config.max_edits is not None and self.edits > config.max_edits:
            raise Illegal(f"{self.edits} edits, at most {config.max_edits}")
        self.actions += 1
        self.ended = step.ended
        self._check_end(action)

    def _check_end(self, action: int) -> None:
        reason = self.ended
        if (reason == "stop") != (self.canvas.is_finished and action == self.vocab.stop):
            raise Illegal(f"ended by {reason!r} where STOP was {self.canvas.is_finished}")
        if reason == "max_actions" and self.actions != self.request.config.max_actions:
            raise Illegal(f"{self.actions} actions of {self.request.config.max_actions}")
        left = self.context - len(self.request.history) - self.actions
        if (reason == "context" and left > 0) or (reason is None and left <= 0):
            raise Illegal(f"ended by {reason!r} with room for {left} more")
        if reason is None and self.actions >= self.request.config.max_actions:
            raise Illegal("more actions than asked for")
        if self._outside() != self.locked and reason is not None:
            raise Illegal("locked tokens changed")

    def _outside(self) -> list[list[int]]:
        tokens = self.canvas.tokens()
        edges = [0, *(bound for pair in self.editable for bound in pair), len(tokens)]
        return [tokens[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]


def random_request(
    rng: Random, vocab: ActionVocab, seed: int, context: int, *, cut: bool = True
) -> Request:
    """A continuation, a text with ranges or one to revise in parts, with budgets now and then."""
    tokens = [i for i in range(vocab.tokens) if vocab.kind(i) is Kind.INSERT]
    config = DecodeConfig(
        temperature=rng.choice([1.5, 1.5, 1.5, 0.7, 0.0]),
        top_k=rng.choice([0, 0, 0, 20, 1000]) * cut,
        top_p=rng.choice([1.0, 1.0, 1.0, 0.9]) if cut else 1.0,
        min_p=rng.choice([0.0, 0.0, 0.0, 0.05]),
        seed=seed,
        max_actions=rng.choice([rng.randint(1, 40), rng.randint(40, 150)]),
        stop_bias=rng.choice([0.0, -3.0, -6.0]),
        move_bias=rng.choice([0.0, 0.0, -1.0, 2.0]),
        max_edits=rng.choice([None, None, None, 0, rng.randint(1, 30)]),
        max_moves=rng.choice([None, None, None, 0, rng.randint(1, 4)]),
    )
    prefix = rng.choices(tokens, k=rng.randint(0, 40))
    count = rng.choice([1, 1, 2, 3, 5])
    parts = [rng.choices(tokens, k=rng.randint(1, 8)) for _ in range(count)]
    if rng.random() < 0.5:  # a range at the end of the text
        parts[-1] = []
    later = [token for part in parts for token in part]
    start, length = len(prefix), len(prefix) + len(later)
    places = [start]
    for part in parts[:-1]:
        places.append(places[-1] + len(part))
    back = vocab.split_move(-len(later), cursor=length, length=length) if later else ()
    history = (*vocab.prefix_actions(prefix), *later, *(vocab.move_id(delta) for delta in back))
    if vocab.mark is not None and vocab.back is not None and rng.random() < 0.5:
        marked = [i for part in parts for i in (vocab.mark, *part)]
        history = (*vocab.prefix_actions(prefix), *marked, vocab.back)
    editable = [(place, place) for place in places]
    if len(later) > 3 and rng.random() < 0.4:  # stretches that may change, locked text between
        bounds = sorted(rng.sample(range(start + 1, length + 1), 2 * rng.randint(1, 2) - 1))
        editable = [*zip([start, *bounds[1::2]], bounds[::2], strict=True)]
    limit = rng.choice([None, None, length - 1, length, length + rng.randint(1, 30)])
    assert len(history) < context
    return Request(
        history=history,
        length=length,
        cursor=start,
        editable=tuple(editable),
        config=replace(config, max_length=None if limit is None else max(0, limit)),
    )


@dataclass
class Report:
    """What a fuzz saw."""

    actions: int = 0
    requests: int = 0
    cancelled: int = 0
    lost: int = 0
    illegal: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    first: str = ""


def fuzz(
    engine: Engine,
    *,
    actions: int,
    seed: int,
    context: int,
    at_once: int = AT_ONCE,
    cut: bool = True,
) -> Report:
    """Keep an engine full of random requests until it took so many actions; then let it end."""
    rng, report = Random(seed), Report()
    judges: dict[int, Judge] = {}
    silent = 0
    while silent < PATIENCE:
        while report.actions < actions and len(judges) < at_once:
            request = random_request(rng, engine.vocab, seed + report.requests, context, cut=cut)
            judges[engine.add(Act(request))] = Judge(engine.vocab, request, context)
            report.requests += 1
        if not judges:
            break
        answers = engine.step(1.0)
        silent = 0 if answers else silent + 1
        dropped: set[int] = set()  # while there were answers to them in hand
        for number, step in answers:
            if number in dropped:
                continue
            judge = judges.get(number)
            report.actions += 1
            try:
                if not isinstance(step, Step):
                    raise Illegal(f"an error: {step}")
                is_id = 0 <= step.action < engine.vocab.size
                report.kinds[engine.vocab.kind(step.action).name if is_id else "PADDING"] += 1
                if judge is None:
                    raise Illegal("a step of a request that is no longer there")
                judge.take(step)
            except Illegal as error:
                report.illegal += 1
                report.first = report.first or str(error)
                engine.cancel(number)
                dropped.add(number)
                judges.pop(number, None)
                continue
            if step.ended is not None:
                report.ended[step.ended] += 1
                del judges[number]
            elif rng.random() < 0.001:
                engine.cancel(number)
                dropped.add(number)
                del judges[number]
                report.cancelled += 1
    report.lost = len(judges)
    return report


def folder_of_a_fresh_model(
    folder: Path,
    *,
    context: int = CONTEXT,
    operators: bool = True,
    searches: bool = True,
    tokenizer: Any = None,
) -> Path:
    """A tiny trunk with random weights, as likely to move as to write: its tokens are few."""
    import torch

    from reviser.models import trunks

    tokenizer = tokenizer or small_tokenizers.few_tokens()
    chosen = OPERATORS if operators else ()
    vocab = ActionVocab.from_tokenizer(
        tokenizer,
        operators=chosen,
        max_move=16,
        marks=operators,
        search=operators and searches,
        reserved=5,
    )
    config = trunks.TrunkConfig(
        architecture="llama", layers=2, width=64, heads=2, mlp_width=96, context=context
    )
    model = trunks.build(config, vocab, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    trunks.save(model, tokenizer, vocab, folder)
    return folder


def break_mask(how: str) -> None:
    """Leave the mask out, or give each row its neighbour's.

    For a model without searches: with them the mask keeps canvases, which refuse before the judge.
    """
    from reviser.engines.logits import LogitsMask

    right = LogitsMask.plan

    def wrong(self: Any, rows: Any, configs: Any) -> Any:
        if how == "mask":
            plan = right(self, rows, configs)
            plan.allowed[:] = True
            return plan
        return right(self, rows.view([*range(1, len(rows)), 0]), configs)

    LogitsMask.plan = wrong  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["hf", "vllm"])
    parser.add_argument("actions", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="no operators beyond insert and move")
    parser.add_argument("--options", type=json.loads, default={}, help="of the engine, as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = folder_of_a_fresh_model(Path(name), operators=not given.plain)
        engine: Any
        if given.engine == "hf":
            from reviser.engines.hf import HFEngine

            engine, _ = HFEngine.load(folder, **given.options)
        else:
            from reviser.engines.vllm_server import VLLMServer
            from support.vllm_runs import preemptions

            options = {"disable_log_stats": None, **given.options}  # which count preemptions
            engine, _ = VLLMServer.load(folder, **options)
        start = time.monotonic()
        cut = not os.environ.get("TRITON_INTERPRET")  # which has no top-k
        report = fuzz(engine, actions=given.actions, seed=given.seed, context=CONTEXT, cut=cut)
        seconds = time.monotonic() - start
        if given.engine == "vllm":
            print(f"{preemptions(engine.url):,} preemptions")
        engine.close()
    print(f"{given.engine}: {report.actions:,} actions of {report.requests:,} requests,"
          f" {report.cancelled:,} cancelled, {report.lost} lost, {report.illegal} illegal"
          f" {report.first!r}, {report.actions / seconds:,.0f} a second")  # fmt: skip
    print(dict(report.kinds), dict(report.ended))
    sys.exit(bool(report.illegal or report.lost))


if __name__ == "__main__":
    main()
