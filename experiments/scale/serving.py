"""Serving at scale: decoding steps, queues and a fleet of devices, as functions of the inputs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from experiments.scale.inputs import LLAMA_8B, Accelerator, Rates, Service, Trunk

Floats = npt.NDArray[np.float64]

MASKS = ("none", "plain", "marks", "search")
"""Masks by the vocabulary's options; `none` is a left-to-right model without a mask."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The seconds of a decoding step, linear in the number of rows."""

    fixed: float
    row: float

    def __call__(self, rows: int) -> float:
        """Return the seconds of one step."""
        return self.fixed + self.row * rows


def engine(trunk: Trunk, service: Service, machine: Accelerator, rates: Rates, mask: str,
           actions_per_token: float | None = None,
           overlap_lost: float = 0.0) -> Engine:  # fmt: skip
    """Return the decoding step of a device with vLLM.

    A step reads the weights once, and keys and values per row, and has a fixed host cost per row:
    the part of the published rate of the 8B trunk that the reads do not explain. The mask runs on
    the host before the step can end, so it is added in full. `overlap_lost` is the share of vLLM's
    own host work that is no longer hidden because the mask waits for the device.
    """
    ratio = actions_per_token or (1.0 if mask == "none" else service.actions_per_token)
    rate = machine.bandwidth * service.bandwidth_share
    full = service.slots / service.tokens_per_second
    history = service.prompt + service.text / 2
    known = (2 * LLAMA_8B.parameters + service.slots * history * LLAMA_8B.kv_bytes()) / rate
    host = max(0.0, full - known) / service.slots
    ids = service.prompt + ratio * service.text / 2
    fixed = 2 * trunk.parameters / rate
    row = ids * trunk.kv_bytes() / rate + host
    if mask != "none":
        name = {"plain": "mask"}.get(mask, mask)
        fixed += getattr(rates, f"{name}_step") / service.host_speed
        row += getattr(rates, f"{name}_row") / service.host_speed + overlap_lost * host
    return Engine(fixed=fixed, row=row)


def capacity(step: Engine, slots: int, actions: float) -> float:
    """Return the requests per second with every slot in use."""
    return slots / step(slots) / actions


def memory_per_request(trunk: Trunk, service: Service, rates: Rates, mask: str,
                       actions_per_token: float | None = None) -> dict[str, float]:  # fmt: skip
    """Return the bytes of a request, on the device and on the host."""
    ratio = actions_per_token or service.actions_per_token
    text, history = service.prompt + service.text, service.prompt + ratio * service.text
    return {
        "kv_text": text * trunk.kv_bytes(),
        "kv_history": history * trunk.kv_bytes(),
        "boundary": rates.boundary_bytes,
        "canvas": text * rates.canvas_bytes if mask == "search" else 0.0,
    }


def slots_that_fit(trunk: Trunk, service: Service, machine: Accelerator, ratio: float) -> int:
    """Return the number of requests whose histories fit on the device."""
    free = machine.memory * service.weight_memory - 2 * trunk.parameters
    return int(free / ((service.prompt + ratio * service.text) * trunk.kv_bytes()))


def simulate(arrivals: Floats, actions: Sequence[int], step: Callable[[int], float], slots: int,
             enter: float = 0.0) -> Floats:  # fmt: skip
    """Return the seconds each request takes at a server that decodes up to `slots` at a time.

    Requests enter between steps, in order; a step in which some enter takes `enter` seconds longer.
    Every step gives each row one action.
    """
    clock, turn, first = 0.0, 0, 0
    running: list[tuple[int, int]] = []  # by the turn in which they end
    took = np.empty(len(arrivals))
    while first < len(arrivals) or running:
        if not running:
            clock = max(clock, float(arrivals[first]))
        newest = first
        while first < len(arrivals) and arrivals[first] <= clock and len(running) < slots:
            heapq.heappush(running, (turn + int(actions[first]), first))
            first += 1
        clock, turn = clock + enter * (first > newest) + step(len(running)), turn + 1
        while running and running[0][0] <= turn:
            _, number = heapq.heappop(running)
            took[number] = clock - arrivals[number]
    return took


def poisson(rate: float, count: int, rng: np.random.Generator) -> Floats:
    """Return the arrival times of requests."""
    return np.cumsum(rng.exponential(1 / rate, count))


def waiting(rate: float, service: float, servers: int) -> float:
    """Return the mean seconds in the queue of M/M/c; `service` is the mean service time."""
    load = rate * service
    if load >= servers:
        return math.inf
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = load * blocked / (n + load * blocked)
    must_wait = blocked / (1 - load / servers * (1 - blocked))
    return must_wait * service / (servers - load)


def replica(rate: float, step: Engine, service: Service, actions: float,
            count: int = 6000, seed: int = 0) -> dict[str, float]:  # fmt: skip
    """Return latencies at one replica; texts have half to one and a half the mean length."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(int(actions / 2), int(actions * 1.5) + 1, count)
    took = simulate(poisson(rate, count, rng), lengths.tolist(), step, service.slots)
    tail = took[count // 5 :]  # the beginning is quieter than the rest
    alone = actions * step(1)
    p50, p99 = np.percentile(tail, [50, 99])
    return {"p50": float(p50), "p99": float(p99), "alone": alone}


def fleet(trunk: Trunk, service: Service, machine: Accelerator, rates: Rates, mask: str,
          actions_per_token: float | None = None, load: float = 0.7,
          overlap_lost: float = 0.0) -> dict[str, float]:  # fmt: skip
    """Return the replicas that carry the service at `load` of their capacity, and their cost."""
    ratio = actions_per_token or (1.0 if mask == "none" else service.actions_per_token)
    actions = ratio * service.text
    slots = min(service.slots, slots_that_fit(trunk, service, machine, ratio))
    step = engine(trunk, service, machine, rates, mask, ratio, overlap_lost)
    most = capacity(step, slots, actions)
    count = math.ceil(service.requests / (most * load))
    latencies = replica(service.requests / count, step, replace(service, slots=slots), actions)
    return {
        "slots": slots,
        "step": step(slots),
        "price": 1 / most,
        "capacity": most,
        "replicas": count,
        "dollars_hour": count * machine.price,
        "dollars_million": count * machine.price / 3600 / service.requests * 1e6,
        "actions": service.requests / count * actions,
        **latencies,
    }
