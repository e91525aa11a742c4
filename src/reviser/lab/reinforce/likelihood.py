"""Log-probabilities of rollouts under the masked distribution that the engine samples from.

The mask of every step is found by replaying the actions through `ActionMask`, all rollouts at a
time; then all steps are masked together. TRL's own log-probabilities are of all ids, legal or not,
so the ratio of two policies would also count what neither of them could do.

Shapes: B rollouts, T steps, N steps of all rollouts, A ids of the vocabulary, K types of actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from reviser.core.actions import MOVES, ActionVocab, Kind
from reviser.core.mask import ActionMask
from reviser.engines.base import Request
from reviser.engines.logits import LogitsMask, MaskPlan
from reviser.train.trainer import GROUPS


class Steps(NamedTuple):
    """The mask of every step of some rollouts, in the order of the steps."""

    plan: MaskPlan
    rows: torch.Tensor
    """The rollout of each step."""
    times: torch.Tensor
    """The number of each step in its rollout."""
    begins: npt.NDArray[np.bool_]
    """True where an action begins; False where ids complete one."""


def masked_steps(
    mask: LogitsMask, requests: Sequence[Request], actions: Sequence[Sequence[int]]
) -> Steps:
    """Replay rollouts and return what was allowed at each of their steps."""
    action_mask = ActionMask(mask.vocab, len(requests))
    for n, request in enumerate(requests):
        request.enter(action_mask, n)
    plans: list[MaskPlan] = []
    rows: list[int] = []
    times: list[int] = []
    begins = []
    found = [torch.empty((2, 0), dtype=torch.long, device=mask.controls.device)]
    for time in range(max(map(len, actions))):
        alive = [n for n, ids in enumerate(actions) if len(ids) > time]
        view = action_mask.view(alive)
        plan = mask.plan(view, [requests[n].config for n in alive])
        # Rows of a plan count from its first step; those of all steps from the first of all.
        row, token = plan.searched
        found.append(torch.stack([row + len(rows), token]))
        plans.append(plan)
        begins.append(~view.is_spelling)
        rows += alive
        times += [time] * len(alive)
        action_mask.advance([actions[n][time] for n in alive], alive)
    row, token = torch.cat(found, 1)
    whole = MaskPlan(
        stop_bias=np.concatenate([plan.stop_bias for plan in plans]),
        move_bias=np.concatenate([plan.move_bias for plan in plans]),
        allowed=np.concatenate([plan.allowed for plan in plans]),
        searched=(row, token),
    )
    device = mask.controls.device
    where = torch.tensor(rows, device=device), torch.tensor(times, device=device)
    return Steps(whole, *where, np.concatenate(begins))


class Likelihood(NamedTuple):
    """What a policy thinks of rollouts; 0 where a rollout has no step."""

    logprobs: torch.Tensor
    """(B, T): of the ids that were chosen."""
    entropies: torch.Tensor
    """(B, T)."""
    types: torch.Tensor
    """(B, T, K): probability of each type of action, where an action begins."""


def likelihood(
    logits_BTA: torch.Tensor,
    actions_BT: torch.Tensor,
    steps: Steps,
    mask: LogitsMask,
    *,
    temperature: float,
) -> Likelihood:
    """Mask the logits and return log-probabilities, entropies and probabilities of types.

    `logits_BTA` are those that the ids at the same position were chosen by.
    """
    where = steps.rows, steps.times
    logits_NA = logits_BTA[where].float()
    mask.apply(logits_NA, steps.plan)
    logprobs_NA = torch.log_softmax(logits_NA / temperature, dim=-1)
    shares_NA = logprobs_NA.exp()
    # An illegal action has the log-probability -inf, which times its probability 0 is not 0.
    finite_NA = logprobs_NA.masked_fill(logits_NA.isneginf(), 0.0)
    entropy_N = -(shares_NA * finite_NA).sum(-1)
    chosen_N = logprobs_NA.gather(1, actions_BT[where][:, None])[:, 0]
    types_AK = types_of(mask.vocab, logits_NA.shape[1]).to(shares_NA)
    begins_N1 = torch.from_numpy(steps.begins)[:, None].to(shares_NA)
    types_NK = (shares_NA @ types_AK) * begins_N1
    shape = logits_BTA.shape[:2]

    def spread(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros((*shape, *values.shape[1:])).index_put(where, values)

    return Likelihood(spread(chosen_N), spread(entropy_N), spread(types_NK))


def types_of(vocab: ActionVocab, width: int) -> torch.Tensor:
    """Return a table (A, K) that is 1 for the type of each id that begins an action.

    The types are those of the held-out score, `GROUPS`. Searches are among the moves.
    """
    kinds = vocab.kinds
    found = [kinds == Kind.INSERT, np.isin(kinds, MOVES), kinds == Kind.STOP]
    types = np.select(found, range(len(found)), default=GROUPS.index("operator"))
    table = torch.zeros(width, len(GROUPS))
    table[torch.arange(len(types)), torch.from_numpy(types)] = 1.0
    return table


def type_divergence(
    types_BTK: torch.Tensor, reference_BTK: torch.Tensor, counted_BT: torch.Tensor
) -> torch.Tensor:
    """Return the KL divergence between the mean shares of types of a policy and of a reference.

    Only steps that count and begin an action have shares; both are of the same states.
    """
    policy_K, reference_K = (
        (each * counted_BT[..., None]).sum((0, 1)) for each in (types_BTK, reference_BTK)
    )
    policy_K, reference_K = (
        (each + 1e-6) / (each + 1e-6).sum() for each in (policy_K, reference_K)
    )
    return (policy_K * (policy_K / reference_K).log()).sum()
