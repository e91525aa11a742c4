"""The share of a server that one API key may use: requests per second, and time for planning.

Without keys there is one anonymous client, which has no quota.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from aiolimiter import AsyncLimiter

from reviser.errors import RequestRefused
from reviser.serve.limits import Limits

BYTES_PER_REQUEST = 32_768
"""Bytes of a body that count as one more request: reading a large body takes time, too."""
PLANNING_SHARE = 0.25
"""Seconds of each second in which the requests of one key may be planned, one after the other."""

_Planned = TypeVar("_Planned")


class Quota:
    """The quota of one key."""

    def __init__(self, limits: Limits) -> None:
        self._requests = AsyncLimiter(limits.key_rate, 1.0)
        self._planning = AsyncLimiter(PLANNING_SHARE, 1.0)
        self._turn = asyncio.Lock()

    async def take(self, body_bytes: int) -> None:
        """Count a request with a body of this size, or refuse it."""
        rate = self._requests.max_rate
        cost = min(rate, 1 + body_bytes / BYTES_PER_REQUEST)
        if not self._requests.has_capacity(cost):
            raise RequestRefused(
                "This key sends requests faster than its rate allows. Try again later.", 429, 1
            )
        await self._requests.acquire(cost)  # there is capacity, so this does not wait

    async def plan(self, work: Callable[[], _Planned]) -> _Planned:
        """Run `work` in a thread, after other work of this key; then pay for its time by waiting.

        A thread that computes slows down the engine and the event loop, which share one
        interpreter with it. So a key that plans all the time has to wait for itself.
        """
        async with self._turn:
            began = time.monotonic()
            try:
                return await asyncio.to_thread(work)
            finally:
                await self._planning.acquire(min(PLANNING_SHARE, time.monotonic() - began))


class Quotas:
    """The quotas of all keys."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._quotas: dict[str, Quota] = {}

    def of(self, owner: str) -> Quota | None:
        """Return the quota of a key; None for clients without one."""
        if not owner:
            return None
        if owner not in self._quotas:
            self._quotas[owner] = Quota(self._limits)
        return self._quotas[owner]
