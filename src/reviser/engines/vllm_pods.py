"""Several vLLM servers that run the same model: which one gets the next request.

Only one thread may use this, the one of `vllm_server`'s event loop. It knows neither HTTP nor vLLM.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

LEFT_OUT_SECONDS = 10.0
"""How long a server that failed gets no requests, as long as another one can take them."""


@dataclass(eq=False)
class Pod:
    """One server."""

    url: str
    model: str = ""
    """The model's name there; empty until the server has been checked."""
    running: int = 0
    """Requests that it runs for us."""
    left_out_until: float = 0.0
    failures: int = 0
    """How many times it was left out."""
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Pods:
    """Chooses the server with the fewest of our requests that works, as far as is known."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        left_out_seconds: float = LEFT_OUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.all = [Pod(url) for url in urls]
        self._seconds = left_out_seconds
        self._clock = clock

    def choose(self, tried: Collection[Pod] = ()) -> Pod | None:
        """Return the next server for a request that has failed on some; None if all were tried.

        A server that failed lately, or is being checked, is still better than none.
        """
        now = self._clock()

        def rank(pod: Pod) -> tuple[bool, int]:
            return pod.left_out_until > now or pod.checking.locked(), pod.running

        return min((pod for pod in self.all if pod not in tried), key=rank, default=None)

    @contextmanager
    def counted(self, pod: Pod) -> Iterator[None]:
        """Count a request as running on a server."""
        pod.running += 1
        try:
            yield
        finally:
            pod.running -= 1

    def leave_out(self, pod: Pod) -> None:
        """Send a server nothing for a while; it is checked again before it gets requests."""
        pod.failures += 1
        pod.left_out_until = self._clock() + self._seconds
        pod.model = ""
