"""Scores of a text and of its branches by vLLM, each read as a prompt of its own.

vLLM reports the log-probability of each id of a prompt, and of the likeliest ones beside it. It
keeps nothing of a prompt that it is asked this about, so a branch costs as much as its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Any, TypeAlias

from reviser.engines.base import Branch, Score, Scores
from reviser.engines.vllm_client import AS_IDS, VLLMClient
from reviser.errors import EngineError

REPORTED_IDS = 20
"""Ids that are reported at each position of a text: vLLM's default limit (`--max-logprobs`)."""

Table: TypeAlias = list[dict[int, float]]
"""Log-probabilities by position and id."""


async def score(client: VLLMClient, model: str, question: Score, stop: int | None) -> Scores:
    """Return the log-probabilities that are asked for; those of STOP if the model has it.

    Where STOP is not reported, twenty other ids are likelier, and an edit is certain. How likely
    all control ids are together is not known.
    """
    history, start = question.history, question.start

    async def read(prompts: Sequence[Sequence[int]], count: int) -> list[Table]:
        if not prompts:
            return []
        asked = {
            "model": model,
            "prompt": [list(prompt) for prompt in prompts],
            "temperature": 0.0,
            # vLLM chooses at least one action. It is STOP, which is always reported then: the mask
            # allows STOP after every text, and after a history that cannot be nothing else.
            "max_tokens": 1,
            "ignore_eos": True,
            "logprobs": count,
            "prompt_logprobs": count,
            **AS_IDS,
        }
        if stop is not None:
            asked["allowed_token_ids"] = [stop]
        choices = await client.complete(asked)
        if len(choices) != len(prompts):
            raise EngineError(f"The server at {client.url} did not read every text.")
        return [_table(choice) for choice in choices]

    async def read_branches(branches: Sequence[Branch]) -> dict[Branch, Scores]:
        tables = await read([(*history[:cut], *ids) for cut, ids in branches], 0)
        pairs = zip(branches, tables, strict=True)
        return {branch: _scores_of(branch, table) for branch, table in pairs}

    several = [branch for branch in question.branches if len(branch.ids) > 1]
    [text], found = await asyncio.gather(
        read([history], REPORTED_IDS), read_branches(list(dict.fromkeys(several)))
    )
    missing = []
    for branch in dict.fromkeys(question.branches):
        if len(branch.ids) == 1 and branch.ids[0] in text[branch.cut]:
            found[branch] = _scores_of(branch, text)
        elif len(branch.ids) == 1:
            missing.append(branch)
    found |= await read_branches(missing)
    return Scores(
        tuple(text[n][history[n]] for n in range(start, len(history))),
        ()
        if stop is None
        else tuple(text[n].get(stop, -inf) for n in range(start, len(history) + 1)),
        branches=tuple(found[branch] for branch in question.branches),
    )


def _scores_of(branch: Branch, table: Table) -> Scores:
    return Scores(tuple(table[branch.cut + n][each] for n, each in enumerate(branch.ids)))


def _table(choice: dict[str, Any]) -> Table:
    """Return what vLLM says about one prompt, the position after its last id included."""
    table = [
        {int(each): entry["logprob"] for each, entry in (entries or {}).items()}
        for entries in choice["prompt_logprobs"]
    ]
    (after,) = choice["logprobs"]["top_logprobs"]
    prefix = "token_id:"
    return [*table, {int(name.removeprefix(prefix)): logprob for name, logprob in after.items()}]
