"""The inputs of the scale model: every number with its unit and source.

Nothing is computed here but sizes of a trunk and the speed of a device.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def given(value: Any, unit: str, source: str) -> Any:
    """Return a field with its value, unit and source."""
    return field(default=value, metadata={"unit": unit, "source": source})


def measured(unit: str, source: str) -> Any:
    """Return a field whose value is in the record of the checks."""
    return field(metadata={"unit": unit, "source": source})


LLAMA3 = "Llama 3 report, arXiv 2407.21783, section 3.3"
NODE = "Azure ND96isr H100 v5, a node of eight, divided by eight"
SWEEP = "vLLM 0.21, Llama 3.1 8B, H100 (yobitelcomm.github.io/bench, concurrency sweep)"
CHECK = "`experiments.scale.run check`, processor seconds of one core"


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One device and its share of its node."""

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
    """The store of shards and checkpoints."""

    price: float = given(0.023, "dollars/GB/month", "Amazon S3 Standard, first 50 TB")
    node_read: float = given(5e9, "bytes/s into a node", "assumed: half of a 100 Gbit/s link")
    write: float = given(2e9, "bytes/s out of a node", "assumed: a shared file system")
    write_all: float = given(50e9, "bytes/s out of all nodes", "assumed: the same")
    random_reads: float = given(500e3, "reads/s of a node's disks", "assumed: NVMe, 4 KiB")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The text and how it is split."""

    tokens_per_document: float = given(
        670, "tokens", "FineWeb's 10BT sample: 14.9 million rows for 10 billion tokens"
    )
    usual_tasks: int = given(256, "shards", "`USUAL_TASKS` in `reviser/data/pipeline.py`")
    task_bytes: int = given(2**30, "bytes of text", "`MOST_TASK_BYTES` in the same file")
    most_blocks: int = given(2**22, "blocks", "`MOST_BLOCKS` in `reviser/data/windows.py`")
    group: int = given(16, "micro-batches", "`GROUP` in `reviser/data/dataset.py`")


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The rates measured on our machine; see `experiments/scale/results`."""

    tokenize: float = measured("bytes of text/s", CHECK)
    bytes_per_token: float = measured("bytes", "the same, GPT-2's tokenizer, Wikipedia")
    sampler: float = measured("ids/s, policy `paper`", CHECK)
    document_bytes: float = measured(
        "bytes kept per document", "`experiments.scale.run check`, tracemalloc"
    )
    mask_step: float = measured("s per step, plain mask", CHECK)
    mask_row: float = measured("s per row and step, plain mask", CHECK)
    marks_step: float = measured("s per step, marks", CHECK)
    marks_row: float = measured("s per row and step, marks", CHECK)
    search_step: float = measured("s per step, searches", CHECK)
    search_row: float = measured("s per row and step, searches", CHECK)
    boundary_bytes: float = measured(
        "bytes per row of the mask", "`experiments.scale.run check`, tracemalloc"
    )
    canvas_bytes: float = measured("bytes per token of a search's canvas", "the same")

    @classmethod
    def load(cls) -> Rates:
        """Read the rates from the record."""
        kept = json.loads((RESULTS / "rates.json").read_text("utf-8"))["rates"]
        return cls(**{each.name: kept[each.name]["value"] for each in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class Trunk:
    """The shape of a causal LM."""

    name: str
    layers: int
    width: int
    mlp_width: int
    rows: int
    """Rows of the embedding."""
    kv_width: int
    gated: bool = False
    """Whether the MLP has three matrices and no biases, as in Llama, or two, as in GPT-NeoX."""
    tied: bool = True

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer."""
        d, m = self.width, self.mlp_width
        attention = 2 * d * d + 2 * d * self.kv_width
        rest = 2 * d if self.gated else m + d + 4 * d  # norms; biases of the MLP
        return attention + (3 if self.gated else 2) * d * m + rest

    @property
    def parameters(self) -> int:
        """All parameters, as torch counts them."""
        tables = (1 if self.tied else 2) * self.rows * self.width
        return tables + self.layers * self.layer_parameters + self.width * (1 if self.gated else 2)

    @property
    def flops_per_id(self) -> float:
        """Training FLOPs per id, forward and backward, without attention over short contexts."""
        return 6.0 * (self.layers * self.layer_parameters + self.rows * self.width)

    def kv_bytes(self, width: int = 2) -> int:
        """Return the bytes of the keys and values of one id."""
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
    """Ids read in training, moves included."""
    actions_per_token: float
    """Actions per token of the policy: 1.30 for `paper`, 1.02 for `late-1` with marks."""
    accelerators: int
    window: int
    """Tokens of an example; 180 in the paper."""
    context: int
    micro_batch: int
    sharded: bool
    """Whether FSDP shards the weights, or each device has a copy."""
    recomputed: bool = False
    """Whether activations are recomputed from the input of each layer, for a third more work."""
    workers: int = 2
    """Loader processes per device."""
    mfu: float | None = None
    """MFU if it differs from the accelerator's: small trunks in short contexts reach less."""

    def ids_per_second(self, machine: Accelerator) -> float:
        """Return the ids per second of one device."""
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
    """The requests of a service, and the decoding rate of its engine."""

    requests: float = given(10_000, "requests/s", "assumed")
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
"""Published steps that are not inputs: device, its bytes/s, rows, seconds, source."""
