"""From rates measured here to the paper's run, to 10T tokens and to 1,000 requests a second.

A model on paper: every input is a field with its unit and where it comes from, every output a
function of them. It knows no torch and no model; `scale_runs.py` measures what it takes from here
and checks it against runs that are not those it was calibrated on.

    python benchmarks/scale.py                                    # every table
    python benchmarks/scale.py check --text TEXT --tokenizer GPT2 # measure, predict, run, compare
    python docs/scale_results.py                                  # docs/design/scale.md
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

RECORD = Path(__file__).parents[1] / "results" / "scale"
Floats = npt.NDArray[np.float64]

DAY = 86400.0


def given(value: Any, unit: str, source: str) -> Any:
    """A field: what we take it to be, in which unit, and on whose word."""
    return field(default=value, metadata={"unit": unit, "source": source})


def measured(unit: str, source: str) -> Any:
    """A field that a record has."""
    return field(metadata={"unit": unit, "source": source})


# -- inputs ---------------------------------------------------------------------------------------

LLAMA3 = "Llama 3 report, arXiv 2407.21783, section 3.3"
NODE = "Azure ND96isr H100 v5, a node of eight, divided by eight"
SWEEP = "vLLM 0.21, Llama 3.1 8B, H100 (yobitelcomm.github.io/bench, concurrency sweep)"
CHECK = "`scale.py check`, processor seconds of one core"


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One device and its share of the machine around it."""

    flops: float = given(989e12, "FLOP/s, bf16 dense", "NVIDIA, H100 SXM data sheet")
    mfu: float = given(0.40, "share of these in training", f"{LLAMA3}: 0.38 to 0.43")
    memory: float = given(80e9, "bytes", "NVIDIA, H100 SXM data sheet")
    bandwidth: float = given(3.35e12, "bytes/s", "NVIDIA, H100 SXM data sheet")
    cores: float = given(12, "processor cores", NODE)
    host_memory: float = given(250e9, "bytes", NODE)
    disk: float = given(3.5e12, "bytes, NVMe", NODE)
    failure_hours: float = given(
        54 * 24 * 16384 / 419, "hours between failures", f"{LLAMA3}: 419 in 54 days on 16,384"
    )
    link: float = given(50e9, "bytes/s between nodes, a device", NODE)
    start: float = given(300.0, "s until all processes run again", "assumed")
    price: float = given(2.5, "dollars/hour", "on demand, 2.0 to 5.0 by provider in 2026")


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where shards and checkpoints are kept."""

    price: float = given(0.023, "dollars/GB/month", "Amazon S3 Standard, first 50 TB")
    node_read: float = given(5e9, "bytes/s into a node", "assumed: half of a 100 Gbit/s link")
    write: float = given(2e9, "bytes/s out of a node", "assumed: a shared file system")
    write_all: float = given(50e9, "bytes/s out of all nodes", "assumed: the same")
    random_reads: float = given(500e3, "reads/s of a node's disks", "assumed: NVMe, 4 KiB")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The text."""

    tokens_per_document: float = given(
        670, "tokens", "FineWeb's 10BT sample: 14.9 million rows for 10 billion tokens"
    )
    most_tasks: int = given(256, "shards", "`MOST_TASKS` in `reviser/data/pipeline.py`")
    group: int = given(16, "micro-batches", "`GROUP` in `reviser/data/dataset.py`")


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What was measured here; see the record in `results/scale`."""

    tokenize: float = measured("bytes of text/s", CHECK)
    bytes_per_token: float = measured("bytes", "`scale.py check`, GPT-2's tokenizer, Wikipedia")
    sampler: float = measured("ids/s, policy `paper`", CHECK)
    document_bytes: float = measured("bytes kept per document", "`scale.py check`, tracemalloc")
    document_peak: float = measured("bytes per document while opening", "the same")
    mask_step: float = measured("s per step, plain mask", CHECK)
    mask_row: float = measured("s per row and step, plain mask", CHECK)
    marks_step: float = measured("s per step, marks", CHECK)
    marks_row: float = measured("s per row and step, marks", CHECK)
    search_step: float = measured("s per step, searches", CHECK)
    search_row: float = measured("s per row and step, searches", CHECK)
    boundary_bytes: float = measured("bytes per row of the mask", "`scale.py check`, tracemalloc")
    canvas_bytes: float = measured("bytes per token of a search's canvas", "the same")

    @classmethod
    def load(cls) -> Rates:
        """From the record."""
        told = json.loads((RECORD / "rates.json").read_text("utf-8"))["rates"]
        return cls(**{each.name: told[each.name]["value"] for each in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class Trunk:
    """The shape of a causal LM."""

    name: str
    layers: int
    width: int
    mlp_width: int
    rows: int
    """Of the embedding."""
    kv_width: int
    gated: bool = False
    """Three maps in the MLP and no biases, as in Llama; otherwise two, as in GPT-NeoX."""
    tied: bool = True

    @property
    def layer_parameters(self) -> int:
        """Of one layer."""
        d, m = self.width, self.mlp_width
        attention = 2 * d * d + 2 * d * self.kv_width
        rest = 2 * d if self.gated else m + d + 4 * d  # norms; biases of the MLP
        return attention + (3 if self.gated else 2) * d * m + rest

    @property
    def parameters(self) -> int:
        """All, as torch counts them."""
        tables = (1 if self.tied else 2) * self.rows * self.width
        return tables + self.layers * self.layer_parameters + self.width * (1 if self.gated else 2)

    @property
    def flops_per_id(self) -> float:
        """Of a training step, forward and backward, attention over short contexts left out."""
        return 6.0 * (self.layers * self.layer_parameters + self.rows * self.width)

    def kv_bytes(self, width: int = 2) -> int:
        """Keys and values of one id."""
        return 2 * self.layers * self.kv_width * width


PAPER_100M = Trunk(
    name="paper 100M", layers=24, width=512, mlp_width=2048, rows=50304, kv_width=512
)
PAPER_300M = Trunk(
    name="paper 300M", layers=26, width=896, mlp_width=3584, rows=50304, kv_width=896
)
LLAMA_8B = Trunk(
    name="Llama 8B", layers=32, width=4096, mlp_width=14336, rows=128320, kv_width=1024,
    gated=True, tied=False,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training run."""

    name: str
    trunk: Trunk
    ids: float
    """Read in training, moves included."""
    actions_per_token: float
    """Of the policy: 1.30 for `paper`, 1.02 for `late-1` with marks (`reviser policies`)."""
    accelerators: int
    window: int
    """Tokens of an example; the paper's are 180."""
    context: int
    micro_batch: int
    sharded: bool
    """FSDP, or a copy on each device."""
    recomputed: bool = False
    """Whether layers keep their input only and are computed again, for a third more work."""
    workers: int = 2
    """Loader processes beside each device."""
    mfu: float | None = None
    """If not the accelerator's: small trunks in short contexts reach less."""

    def ids_per_second(self, machine: Accelerator) -> float:
        """Of one device."""
        flops = self.trunk.flops_per_id * (4 / 3 if self.recomputed else 1)
        return machine.flops * (self.mfu or machine.mfu) / flops


RUNS = (
    Run(
        name="paper", trunk=PAPER_300M, ids=30e9, actions_per_token=1.30, accelerators=8,
        window=180, context=512, micro_batch=16, sharded=False, mfu=0.25,
    ),
    Run(
        name="10T", trunk=LLAMA_8B, ids=10e12, actions_per_token=1.02, accelerators=1024,
        window=3600, context=4096, micro_batch=4, sharded=True, recomputed=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Service:
    """Requests, and the decode rate of the engine below."""

    requests: float = given(1000, "requests/s", "assumed")
    prompt: int = given(256, "tokens", "assumed")
    text: int = given(256, "tokens written", "assumed")
    actions_per_token: float = given(1.02, "actions per token", "docs/results.md, late-1-marks")
    slots: int = given(256, "requests at a time", "`max_num_seqs` of vLLM")
    bandwidth_share: float = given(
        4.79 / 6.48, "share of the bandwidth", f"{SWEEP}: 6.48 ms a step, 1 at a time"
    )
    tokens_per_second: float = given(
        12500, "tokens/s, full", "vLLM, Llama 3.1 8B bf16, H100 (morphllm.com/vllm-benchmarks)"
    )
    host_speed: float = given(2.0, "times this machine's core", "assumed: a 2023 server at 3.5 GHz")
    weight_memory: float = given(0.9, "share of device memory used", "vLLM's default")


PUBLISHED = (
    ("H100, 4 at a time", 3.35e12, 4, 6.59e-3, SWEEP),
    ("H100, 16 at a time", 3.35e12, 16, 10.94e-3, SWEEP),
    (
        "A100 40 GB, 1 at a time", 1.555e12, 1, 1 / 75,
        "vLLM 0.23, Llama 3.1 8B (johnmusgrave.com, throughput-latency sweep)",
    ),
)  # fmt: skip
"""Steps that others timed and that went into nothing here: device, its bytes/s, rows, seconds."""


# -- data -----------------------------------------------------------------------------------------


def stored_bytes(tokens: float, documents: float, rows: int) -> float:
    """Of shards: two or four bytes a token, and eight a document."""
    return tokens * (2 if rows <= 2**16 else 4) + 8 * documents


def data_plan(run: Run, corpus: Corpus, rates: Rates, machine: Accelerator,
              storage: Storage) -> dict[str, float]:  # fmt: skip
    """Shards, storage, tokenizing and loading of a run's text, seen once."""
    tokens = run.ids / run.actions_per_token
    documents = tokens / corpus.tokens_per_document
    size = stored_bytes(tokens, documents, run.trunk.rows)
    core_seconds = tokens * rates.bytes_per_token / rates.tokenize
    return {
        "tokens": tokens,
        "documents": documents,
        "bytes": size,
        "text_bytes": tokens * rates.bytes_per_token,
        "shards": corpus.most_tasks,
        "shard_bytes": size / corpus.most_tasks,
        "store_dollars": size / 1e9 * storage.price,
        "tokenize_core_hours": core_seconds / 3600,
        "tokenize_days": core_seconds / corpus.most_tasks / DAY,
        "copy_hours": size / storage.node_read / 3600,
        "fits_disk": size / (8 * machine.disk),
        "loader_bytes": documents * rates.document_bytes,
        "opening_bytes": documents * rates.document_peak,
        "loader_share": documents * rates.document_bytes / machine.host_memory,
    }


def oversampling(processes: int, group: int) -> int:
    """How often an example is sampled: who needs one micro-batch makes its whole group."""
    return min(processes, group)


def loading(run: Run, corpus: Corpus, rates: Rates, machine: Accelerator,
            storage: Storage) -> dict[str, float]:  # fmt: skip
    """What the loaders of one device must do to keep it busy."""
    ids = run.ids_per_second(machine)
    times = oversampling(run.accelerators * run.workers, corpus.group)
    reads = ids / (run.window * run.actions_per_token) * times
    return {
        "ids": ids,
        "times": times,
        "cores": ids * times / rates.sampler,
        "core_share": ids * times / rates.sampler / machine.cores,
        "reads": 8 * reads,
        "read_share": 8 * reads / storage.random_reads,
    }


# -- training -------------------------------------------------------------------------------------

ACTIVATIONS = 34
"""Bytes per id, layer and unit of width that a backward pass needs with fused attention
(Korthikanti et al., arXiv 2205.05198, equation 2 without its attention term)."""
ADAM = 16
"""Bytes per parameter: weight, gradient and two moments, in float32."""
SAVED = 12
"""Bytes per parameter in a checkpoint: all of these but the gradient."""
LOGITS = 10
"""Bytes per logit: bf16, its float32 copy for the loss, and that one's gradient."""


def device_memory(run: Run) -> dict[str, float]:
    """Of one device, by what holds it."""
    trunk, ids = run.trunk, run.context * run.micro_batch
    share = run.accelerators if run.sharded else 1
    tables = trunk.rows * trunk.width
    layers = 2 * trunk.layers if run.recomputed else ACTIVATIONS * trunk.layers
    again = ACTIVATIONS if run.recomputed else 0
    parts = {
        "state": ADAM * trunk.parameters / share,
        "gathered": 2.0 * 2 * max(trunk.layer_parameters, tables) if run.sharded else 0.0,
        "activations": float(ids * trunk.width * (layers + again)),
        "logits": float(LOGITS * ids * trunk.rows),
    }
    return parts | {"all": sum(parts.values())}


def communication(run: Run, machine: Accelerator) -> float:
    """Seconds of a step's messages to those of its work; above 1 no overlap can hide them.

    At each micro-batch FSDP gathers weights twice, in bf16, and adds up gradients in float32.
    """
    work = run.context * run.micro_batch / run.ids_per_second(machine)
    moved = (2 * 2 + 4 if run.sharded else 2 * 4) * run.trunk.parameters
    nodes = run.accelerators > 8
    return moved / (machine.link if nodes else NVLINK) / work


NVLINK = 450e9
"""Bytes a second, each way, between the devices of a node (NVIDIA, H100 SXM data sheet)."""


def young_daly(save: float, failure: float) -> float:
    """Seconds between checkpoints that lose least: Young's first order, with Daly's correction."""
    if save >= 2 * failure:
        return failure
    part = save / (2 * failure)
    return math.sqrt(2 * save * failure) * (1 + math.sqrt(part) / 3 + part / 9) - save


def expected_seconds(work: float, every: float, save: float, restart: float,
                     failure: float) -> float:  # fmt: skip
    """Of a run with failures at random, by Daly's formula: exact for exponential times."""
    return (
        failure
        * math.exp(restart / failure)
        * math.expm1((every + save) / failure)
        * (work / every)
    )


def simulated_seconds(work: float, every: float, save: float, restart: float, failure: float,
                      rng: np.random.Generator) -> float:  # fmt: skip
    """The same by playing it: work, save, fail, start again."""
    clock = done = 0.0
    left = rng.exponential(failure)
    while done < work:
        piece = min(every, work - done) + save
        if left >= piece:
            clock, left, done = clock + piece, left - piece, done + piece - save
            continue
        clock, left = clock + left, rng.exponential(failure)
        while left < restart:  # failing while it starts
            clock, left = clock + left, rng.exponential(failure)
        clock, left = clock + restart, left - restart
    return clock


def training(run: Run, machine: Accelerator, storage: Storage,
             every: float | None = None) -> dict[str, float]:  # fmt: skip
    """Time, checkpoints and failures of a run, saved at the best interval or another."""
    work = run.ids / (run.accelerators * run.ids_per_second(machine))
    saved = float(SAVED * run.trunk.parameters)
    nodes = max(1, run.accelerators // 8) if run.sharded else 1  # of copies, one process writes
    save = saved / min(storage.write * nodes, storage.write_all)
    restart = machine.start + saved / (storage.node_read * nodes)
    failure = machine.failure_hours * 3600 / run.accelerators
    best = young_daly(save, failure)
    interval = every or best
    total = expected_seconds(work, interval, save, restart, failure)
    return {
        "days": work / DAY,
        "checkpoint_bytes": saved,
        "save": save,
        "failure_hours": failure / 3600,
        "failures": total / failure,
        "every": best,
        "restart": restart,
        "lost": total / work - 1,
        "dollars": total / 3600 * machine.price * run.accelerators,
    }


# -- serving --------------------------------------------------------------------------------------

MASKS = ("none", "plain", "marks", "search")
"""What a vocabulary asks of the mask; `none` is an autoregressive model without one."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Seconds of a decoding step with so many rows."""

    fixed: float
    row: float

    def __call__(self, rows: int) -> float:
        """One step."""
        return self.fixed + self.row * rows


def engine(trunk: Trunk, service: Service, machine: Accelerator, rates: Rates, mask: str,
           actions_per_token: float | None = None,
           overlap_lost: float = 0.0) -> Engine:  # fmt: skip
    """A device with vLLM: weights once a step, keys and values and a fixed cost per row.

    The cost per row is what is left of the published rate of the 8B trunk. The mask runs on the
    host, before the step can end, so it is added in full. `overlap_lost` is the share of vLLM's
    own work per row that the mask's wait for the device brings out of hiding.
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
    """Requests a second with every slot taken."""
    return slots / step(slots) / actions


def memory_per_request(trunk: Trunk, service: Service, rates: Rates, mask: str,
                       actions_per_token: float | None = None) -> dict[str, float]:  # fmt: skip
    """On the device and beside it."""
    ratio = actions_per_token or service.actions_per_token
    text, history = service.prompt + service.text, service.prompt + ratio * service.text
    return {
        "kv_text": text * trunk.kv_bytes(),
        "kv_history": history * trunk.kv_bytes(),
        "boundary": rates.boundary_bytes,
        "canvas": text * rates.canvas_bytes if mask == "search" else 0.0,
    }


def slots_that_fit(trunk: Trunk, service: Service, machine: Accelerator, ratio: float) -> int:
    """Requests whose history the device can hold."""
    free = machine.memory * service.weight_memory - 2 * trunk.parameters
    return int(free / ((service.prompt + ratio * service.text) * trunk.kv_bytes()))


def simulate(arrivals: Floats, actions: Sequence[int], step: Callable[[int], float], slots: int,
             enter: float = 0.0) -> Floats:  # fmt: skip
    """Seconds each request takes at a server that decodes up to `slots` of them side by side.

    Requests enter between steps, in order; `enter` is what a step takes longer in which some do. A
    step takes as long as its rows make it, and every row gets one action.
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
    """When requests come."""
    return np.cumsum(rng.exponential(1 / rate, count))


def waiting(rate: float, service: float, servers: int) -> float:
    """Mean seconds in the queue of M/M/c, by Erlang's formula; `service` is the mean time."""
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
    """Latencies at one replica; texts are of half to one and a half times the mean length."""
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
    """Replicas that carry the service at a share of their capacity, and what they cost."""
    ratio = actions_per_token or (1.0 if mask == "none" else service.actions_per_token)
    actions = ratio * service.text
    slots = min(service.slots, slots_that_fit(trunk, service, machine, ratio))
    step = engine(trunk, service, machine, rates, mask, ratio, overlap_lost)
    most = capacity(step, slots, actions)
    count = math.ceil(service.requests / (most * load))
    told = replica(service.requests / count, step, replace(service, slots=slots), actions)
    return {
        "slots": slots,
        "step": step(slots),
        "price": 1 / most,
        "capacity": most,
        "replicas": count,
        "dollars_hour": count * machine.price,
        "dollars_million": count * machine.price / 3600 / service.requests * 1e6,
        "actions": service.requests / count * actions,
        **told,
    }


# -- the command ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command")
    check = commands.add_parser("check", help="Measure, predict, run, compare.")
    check.add_argument("--text", type=Path, required=True, help="Plain text, 8 MB or more.")
    check.add_argument("--tokenizer", type=Path, required=True, help="A tokenizer's folder.")
    check.add_argument("--rounds", type=int, default=3)
    check.add_argument("--only", nargs="*", help="core, data, training, serving")
    given = parser.parse_args()
    if given.command == "check":
        from scale_runs import check_all

        check_all(given.text, given.tokenizer, given.rounds, given.only)
        return
    machine, storage, corpus, service = Accelerator(), Storage(), Corpus(), Service()
    rates = Rates.load()
    for run in RUNS:
        told = data_plan(run, corpus, rates, machine, storage)
        told |= loading(run, corpus, rates, machine, storage)
        told |= training(run, machine, storage) | device_memory(run)
        print(run.name, json.dumps(told, indent=1))
    for trunk in (PAPER_300M, LLAMA_8B):
        for mask in MASKS:
            print(trunk.name, mask, json.dumps(fleet(trunk, service, machine, rates, mask)))


if __name__ == "__main__":
    main()
