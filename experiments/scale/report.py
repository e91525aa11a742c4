"""Writes design/scale.md from the model in `benchmarks/scale.py` and the record in results/scale.

python docs/scale_results.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))

import scale  # noqa: E402

MACHINE, STORAGE, CORPUS, SERVICE = (
    scale.Accelerator(), scale.Storage(), scale.Corpus(), scale.Service()
)  # fmt: skip
PARTS = ("core", "data", "training", "serving")


def table(head: list[str], rows: list[list[str]]) -> str:
    """As Markdown has it."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def words(head: list[str], rows: list[list[str]]) -> str:
    """A table without figures."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *rows])


def short(value: float, unit: str = "") -> str:
    """Three digits and a prefix."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}{unit}"
    return f"{value:.3g} {unit}".strip()


def size(value: float) -> str:
    """Bytes."""
    return short(value, "B")


def span(seconds: float) -> str:
    """A time as people say it."""
    for length, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= length:
            return f"{seconds / length:.3g} {name}"
    if seconds < 1e-6:
        return "nothing"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


# -- parts ----------------------------------------------------------------------------------------


def trust() -> Iterator[str]:
    """Predictions and what came."""
    rows = []
    for part in PARTS:
        path = scale.RECORD / f"{part}.json"
        if not path.is_file():
            continue
        for row in json.loads(path.read_text("utf-8"))["rows"]:
            ratio = row["ratio"]
            spread = f" [{ratio['low']:.2f}, {ratio['high']:.2f}]" if row["runs"] > 1 else ""
            cells = [row["what"], row["size"], *(figure(row, n) for n in ("predicted", "measured"))]
            rows.append([*cells, f"{ratio['value']:.3f}{spread}", str(row["runs"])])
    yield CHECKED
    yield table(["", "size", "predicted", "measured", "measured to predicted", "runs"], rows)
    yield MISSES


def figure(row: dict[str, Any], name: str) -> str:
    """A value with its unit."""
    value, unit = row[name]["value"], row["unit"]
    if unit == "s":
        return span(value)
    if unit == "bytes":
        return size(value)
    return f"{value:,.0f} {unit}".strip()


def data(rates: scale.Rates) -> Iterator[str]:
    """Shards and storage."""
    told = [scale.data_plan(run, CORPUS, rates, MACHINE, STORAGE) for run in scale.RUNS]
    rows = [
        ["ids read in training", *(short(run.ids) for run in scale.RUNS)],
        ["tokens stored, each read once", *(short(t["tokens"]) for t in told)],
        ["documents", *(short(t["documents"]) for t in told)],
        ["text", *(size(t["text_bytes"]) for t in told)],
        ["shards in all", *(size(t["bytes"]) for t in told)],
        ["shards, number and size", *(f"{t['shards']:.0f} of {size(t['shard_bytes'])}" for t in told)],
        ["object storage, a month", *(f"${t['store_dollars']:,.0f}" for t in told)],
        ["tokenizing, cores like this one", *(f"{t['tokenize_core_hours']:,.0f} hours" for t in told)],
        ["the same, one core per task", *(span(t["tokenize_days"] * 86400) for t in told)],
        ["copied to a node", *(span(t["copy_hours"] * 3600) for t in told)],
        ["share of a node's disks", *(f"{t['fits_disk']:.2g}" for t in told)],
        ["memory of one training process' loader", *(size(t["loader_bytes"]) for t in told)],
        ["the same while it opens", *(size(t["opening_bytes"]) for t in told)],
        ["share of the host memory per device", *(f"{t['loader_share']:.2g}" for t in told)],
    ]  # fmt: skip
    yield DATA
    yield table(["", *(run.name for run in scale.RUNS)], rows)
    yield DATA_AFTER.format(task=span(told[1]["tokenize_days"] * 86400))


def loading(rates: scale.Rates) -> Iterator[str]:
    """Sampler cores."""
    yield LOADING
    rows = []
    small = replace(
        scale.RUNS[0], name="paper's 100M", trunk=scale.PAPER_100M, context=256, micro_batch=64
    )
    one = replace(scale.RUNS[0], name="paper, one device", accelerators=1)
    for run in (one, scale.RUNS[0], small, scale.RUNS[1]):
        told = scale.loading(run, CORPUS, rates, MACHINE, STORAGE)
        rows.append(
            [run.name, short(told["ids"]), f"{told['times']:.0f}", f"{told['cores']:.2f}",
             f"{told['core_share']:.1%}", short(told["reads"]), f"{told['read_share']:.1%}"]
        )  # fmt: skip
    head = ["run", "ids/s a device", "sampled, times", "cores a device", "of its cores"]
    yield table([*head, "reads/s a node", "of its disks"], rows)
    yield LOADING_AFTER


def training() -> Iterator[str]:
    """Memory, checkpoints, failures."""
    yield TRAINING
    paper, large = scale.RUNS
    layouts = (
        ("paper, copies", paper),
        ("10T, FSDP, all kept", replace(large, recomputed=False)),
        ("10T, FSDP", large),
        ("the same, micro-batches of 1", replace(large, micro_batch=1)),
        ("10T's trunk on one node", replace(large, accelerators=8)),
        ("10T's trunk in copies", replace(large, sharded=False)),
    )
    rows = []
    for name, run in layouts:
        parts = scale.device_memory(run)
        cells = [size(parts[key]) for key in ("state", "gathered", "activations", "logits", "all")]
        rows.append([name, *cells, f"{scale.communication(run, MACHINE):.2f}"])
    head = ["a device", "weights, gradients, moments", "gathered", "activations", "logits", "all"]
    yield table([*head, "messages to work"], rows)
    yield FAILURES.format(start=MACHINE.start / 60)
    rows = []
    fragile = replace(MACHINE, failure_hours=MACHINE.failure_hours / 10)
    for run, machine, name in (
        (scale.RUNS[0], MACHINE, scale.RUNS[0].name),
        (scale.RUNS[1], MACHINE, scale.RUNS[1].name),
        (scale.RUNS[1], fragile, "10T, ten times as many failures"),
        (replace(scale.RUNS[1], accelerators=16384), MACHINE, "10T on 16,384"),
    ):
        told = scale.training(run, machine, STORAGE)
        hourly = scale.training(run, machine, STORAGE, every=3600.0)
        rows.append(
            [name, f"{run.accelerators:,}", span(told["days"] * 86400), size(told["checkpoint_bytes"]),
             span(told["save"]), span(told["restart"]), span(told["failure_hours"] * 3600), f"{told['failures']:.2g}",
             span(told["every"]), f"{told['lost']:.2%}", f"{hourly['lost']:.2%}", f"${told['dollars']:,.0f}"]
        )  # fmt: skip
    head = ["run", "devices", "work", "checkpoint", "to save it", "to start again"]
    head += ["a failure each", "failures"]
    yield table([*head, "best interval", "time lost", "lost, saved hourly", "cost"], rows)
    wordy = replace(large, ids=large.ids * paper.actions_per_token / large.actions_per_token)
    days = [scale.training(run, MACHINE, STORAGE)["days"] for run in (large, wordy)]
    yield TRAINING_AFTER.format(
        days=days, ratios=(large.actions_per_token, paper.actions_per_token)
    )


def serving(rates: scale.Rates) -> Iterator[str]:
    """A thousand requests a second."""
    yield SERVING.format(prompt=SERVICE.prompt, text=SERVICE.text)
    rows = []
    for trunk in (scale.PAPER_300M, scale.LLAMA_8B):
        base = scale.fleet(trunk, SERVICE, MACHINE, rates, "none")
        for mask, name in zip(scale.MASKS, NAMES, strict=True):
            told = scale.fleet(trunk, SERVICE, MACHINE, rates, mask)
            rows.append(
                [f"{trunk.name}, {name}", span(told["step"]), f"{told['capacity']:.1f}",
                 f"{told['price'] / base['price']:.2f}", f"{told['replicas']}",
                 f"{told['p50']:.2f}, {told['p99']:.2f} s", f"${told['dollars_million']:.2f}"]
            )  # fmt: skip
    head = ["", "step, full", "requests/s a device", "price to left to right", "devices"]
    yield table([*head, "p50, p99", "a million requests"], rows)
    rate = scale.fleet(scale.LLAMA_8B, SERVICE, MACHINE, rates, "marks")["actions"]
    yield SERVING_AFTER.format(actions=rate, actions_us=1e6 / rate)
    yield OTHERS
    rows = []
    for name, bandwidth, count, seconds, source in scale.PUBLISHED:
        machine = replace(MACHINE, bandwidth=bandwidth)
        said = scale.engine(scale.LLAMA_8B, SERVICE, machine, rates, "none")(count)
        rows.append([name, span(said), span(seconds), f"{seconds / said:.2f}", source])
    yield words(["Llama 8B on", "predicted", "published", "ratio", "source"], rows)
    yield MEMORY
    rows = []
    for trunk in (scale.PAPER_300M, scale.LLAMA_8B):
        for ratio in (1.02, 1.5):
            told = scale.memory_per_request(trunk, SERVICE, rates, "search", ratio)
            fit = scale.slots_that_fit(trunk, SERVICE, MACHINE, ratio)
            rows.append(
                [f"{trunk.name}, {ratio}", size(told["kv_text"]), size(told["kv_history"]),
                 size(told["boundary"]), size(told["canvas"]), f"{fit:,}"]
            )  # fmt: skip
    head = ["trunk, actions per token", "keys and values of the text", "of the history"]
    yield table([*head, "row of the mask", "canvas, with searches", "requests that fit"], rows)
    yield QUEUES.format(slots=SERVICE.slots)
    rows = []
    step = scale.engine(scale.LLAMA_8B, SERVICE, MACHINE, rates, "marks")
    actions = SERVICE.text * SERVICE.actions_per_token
    most = scale.capacity(step, SERVICE.slots, actions)
    for load in (0.5, 0.7, 0.8, 0.9, 0.95):
        told = scale.replica(load * most, step, SERVICE, actions)
        wait = scale.waiting(load * most, actions * step(SERVICE.slots), SERVICE.slots)
        count = -(-SERVICE.requests // (load * most))
        rows.append(
            [f"{load:.0%}", f"{count:.0f}", f"{told['p50']:.2f} s", f"{told['p99']:.2f} s", span(wait)]
        )  # fmt: skip
    head = ["load of a device", "devices", "p50", "p99"]
    yield table([*head, "M/M/c says they wait"], rows)
    yield QUEUES_AFTER


NAMES = ("left to right, no mask", "plain mask", "marks", "marks and searches")


def sensitivities(rates: scale.Rates) -> Iterator[str]:
    """What if."""
    trunk = scale.LLAMA_8B
    base = scale.fleet(trunk, SERVICE, MACHINE, rates, "none")
    ours = {"mask": "marks"}

    def line(name: str, rates: scale.Rates = rates, service: scale.Service = SERVICE,
             **options: Any) -> list[str]:  # fmt: skip
        told = scale.fleet(trunk, service, MACHINE, rates, **(ours | options))
        left = scale.fleet(trunk, service, MACHINE, rates, "none")
        return [
            name,
            f"{told['price'] / left['price']:.2f}",
            str(told["replicas"]),
            f"{told['p99']:.2f} s",
        ]

    slow = replace(rates, marks_row=rates.marks_row * 2, marks_step=rates.marks_step * 2)
    vector = replace(rates, marks_row=rates.mask_row, marks_step=rates.mask_step)
    rows = [
        ["left to right", "1.00", str(base["replicas"]), f"{base['p99']:.2f} s"],
        line("1.02 actions per token, marks (our model)"),
        line("1.15", actions_per_token=1.15),
        line("1.30 (`paper`)", actions_per_token=1.30),
        line("1.50", actions_per_token=1.50),
        line("1.02, a host core no faster than this machine's", slow),
        line("1.02, marks followed by numpy as plain rows are", vector),
        line("1.02, half of vLLM's host work no longer hidden", overlap_lost=0.5),
        line("1.02, all of it", overlap_lost=1.0),
        line("1.02, 64 at a time", service=replace(SERVICE, slots=64)),
        line(
            "1.02, vLLM at half its published rate",
            service=replace(SERVICE, tokens_per_second=6250),
        ),
    ]
    yield SENSITIVE
    yield table(["Llama 8B", "price to left to right", "devices", "p99"], rows)
    yield REVISING


def inputs(rates: scale.Rates) -> Iterator[str]:
    """Every number that went in."""
    yield INPUTS
    rows = []
    for given in (MACHINE, STORAGE, CORPUS, SERVICE, rates):
        for each in fields(given):
            value = getattr(given, each.name)
            name = f"`{type(given).__name__}.{each.name}`"
            rows.append([name, f"{value:.4g}", each.metadata["unit"], each.metadata["source"]])
    yield words(["input", "value", "unit", "source"], rows)
    yield RUNS_TEXT
    head = ["run", "trunk", "parameters", "devices", "actions per token", "window, context", "MFU"]
    rows = [
        [run.name, run.trunk.name, short(run.trunk.parameters), f"{run.accelerators:,}",
         f"{run.actions_per_token}", f"{run.window:,}, {run.context:,}", f"{run.mfu or MACHINE.mfu}"]
        for run in scale.RUNS
    ]  # fmt: skip
    yield table(head, rows)


# -- words ----------------------------------------------------------------------------------------

INTRODUCTION = """\
# Scale

Made by `python docs/scale_results.py` from a model (`benchmarks/scale.py`) and a record of runs (`results/scale`). No accelerator was used: rates of our own code were measured on one shared machine with two cores, those of accelerators are published ones, and every input is in the last table with its unit and source. Read ratios; distrust absolute figures by a factor of two. Two sizes throughout: **paper**, its 300M trunk on 30 billion ids, and **10T**, an 8B trunk of Llama's shape on ten trillion.

- **The paper's size needs nothing new.** One node, one disk, a checkpoint every few hours, hours of training.
- **10T works, on paper, but for the loader and two settings.** Two things of ours stand in the way: memory per document in every process, and shards that every node must hold. Both are changes in two files of ours. Two settings that Accelerate and the Trainer have, layers computed again and sharding within a node, are missing from our recipes. Engines that exist carry the rest.
- **1,000 requests a second are a few dozen devices**, about {price:.2f} times what the same texts cost left to right, of which actions are 2 % and the mask on the host the rest. What a wait of the device for the host costs on a GPU has not been measured, and could cost more than all else of ours (below).
"""

SUMMARY_HEAD = ["part", "carried by", "paper", "10T, or 1,000 requests/s", "breaks first"]


def summary(rates: scale.Rates) -> list[list[str]]:
    """What an engineering lead wants to know."""
    small, large = (scale.data_plan(run, CORPUS, rates, MACHINE, STORAGE) for run in scale.RUNS)
    hours, days = (scale.training(run, MACHINE, STORAGE) for run in scale.RUNS)
    told = scale.fleet(scale.LLAMA_8B, SERVICE, MACHINE, rates, "marks")
    few = scale.fleet(scale.PAPER_300M, SERVICE, MACHINE, rates, "marks")
    cores = [scale.loading(run, CORPUS, rates, MACHINE, STORAGE)["cores"] for run in scale.RUNS]
    held = [scale.device_memory(run) for run in scale.RUNS]
    return [
        ["tokenizing", "datatrove on Slurm or Ray", f"{small['tokenize_core_hours']:,.0f} core hours",
         f"{large['tokenize_core_hours']:,.0f} core hours", f"256 tasks at most: a lost one is {span(large['tokenize_days'] * 86400)}"],
        ["shards", "any disk; an object store as origin", f"{size(small['bytes'])}, on each node",
         f"{size(large['bytes'])}, more than a node's disks", "every node maps every shard"],
        ["loading", "torch's DataLoader", f"{size(small['loader_bytes'])} a process",
         f"**{size(large['loader_bytes'])} a process**", "**16 bytes a document, per process**"],
        ["sampling", "our kernels, on host cores", f"{cores[0]:.2f} cores a device",
         f"{cores[1]:.2f} cores a device", "groups sampled by all who need one of them"],
        ["memory", "Accelerate with FSDP2", f"{size(held[0]['all'])} a device, copies",
         f"{size(held[1]['all'])} a device", "messages, unless micro-batches are large; then logits"],
        ["failures", "Trainer's checkpoints, a supervisor", f"{span(hours['days'] * 86400)}, {hours['failures']:.1g} failures",
         f"{days['days']:.0f} days, {days['failures']:.0f} failures, {days['lost']:.1%} lost",
         "the supervisor: we have none, and saving stops the run"],
        ["decoding", "vLLM", f"{few['capacity']:.0f} requests/s a device", f"{told['replicas']} devices", "the mask with marks, in Python per row"],
        ["HTTP", "`reviser serve`, one process a device", "one process", f"{told['actions']:,.0f} actions/s a process",
         "one Python process: small trunks first"],
        ["balancing", "nginx, Kubernetes", "none", f"{told['replicas']} replicas", "streams live in their process"],
    ]  # fmt: skip


CHECKED = """\
## How far to trust it

Each line was predicted from smaller runs that are not the one measured (`python benchmarks/scale.py check --text enwik8_prose.txt --tokenizer GPT2`), then done with the real code: `reviser tokenize`, `reviser train` in float32 with one thread, `reviser serve` with `models/stories-revise` under Poisson arrivals. Processor seconds of one core, since others used the machine meanwhile; latencies are wall time, calibrated anew before each run. [..] is the range over runs; for training, over intervals of one run.
"""

MISSES = """\
Bytes are exact once tokens and documents are known, and 4 to 5 % off when those are guessed from other text. Speeds are within a fifth; larger trunks are faster than the small ones say, since their products are. The plain mask is dearer between the sizes it was fitted to than on them, by a twentieth of a millisecond.

Latencies at 40 % of the capacity came about as predicted. **At 80 % they were twice as long, in both runs.** Two causes that these runs cannot tell apart: the server had a few hundredths of a core, a share that drifted; and in the calibration eight requests of equal length enter and leave together, while in the open they come one by one, each with a pass of its own and a copy of the engine's cache, so that the capacity was taken for too high. Take the simulator's latencies above 70 % for lower bounds until the same command has run on a quiet machine.
"""

DATA = """\
## Data

**Carried by** datatrove (tasks, restarts, Slurm, Ray) and any store that can be copied from. Shards are flat: two bytes a token up to 65,536 ids, four above, eight a document. A task writes one shard, and there are about 256 tasks at most.
"""

DATA_AFTER = """\
**Breaks first at 10T:** loader memory. `TokenShards.lengths` and the ends in `Windows` are eight bytes a document each, in every training process, and opening takes twice that for a moment. It grows with documents, not tokens: at 10T it is all of a host. The cure is to keep neither: cumulative windows per shard, and the rest from the mapped index. Loader workers are forked and share it; with a start method that spawns them, each has its own.

**Second:** an order computed over all windows wants all shards on every node, through `mmap`, so an object store must be copied down or mounted. The paper's shards are copied in seconds. 10T's are more than a node's disks: put them on a shared file system, or give each node some of the shards and permute within them, which changes `permute`'s range and nothing else.

**Third:** 256 tasks. Each of 10T's would write its shard in {task}, on a core like ours, and one that dies starts over. `MOST_TASKS` is one number; its reason, two open maps per shard, holds to some thousands.

**Users will not need it:** adapting a model you have takes millions to a few billion tokens, which one machine tokenizes in minutes to hours.
"""

LOADING = """\
## Loading

**Carried by** torch's DataLoader; trajectories are sampled on the fly. Who needs one micro-batch samples its group of sixteen, so sixteen loader processes or more sample everything sixteen times; that bounds it however many train. Reads are of single windows at random places.
"""

LOADING_AFTER = """\
**Breaks first:** small trunks. The smaller the model, the more ids a device eats, and the sixteen times hurts exactly there. Two workers a device carry any of these; where they do not, add workers, of which a host has a dozen. Workers that hand each other the fifteen they do not need would end it, and are not built. The reads are of a page each, and the paper's shards fit in a node's page cache, where they cost nothing; 10T's do not, and then the share of the disks counts.
"""

TRAINING = """\
## Training

**Carried by** Transformers' Trainer over Accelerate: copies (DDP) or FSDP2 shards. Our part is the batch and the score. Weights, gradients and both moments are float32; matrix products are bf16. 10T keeps one input per layer and computes the rest again, a third more work, or it would not fit ("all kept"); the Trainer has a setting for that, our recipes have not yet. "Messages to work" must stay below 1, or no overlap hides them.
"""

FAILURES = """\
A checkpoint is 12 bytes a parameter: weights and moments. FSDP2 writes its shards from all processes, copies are written by one. The interval is Young and Daly's; time lost is saving, work since the last checkpoint, and {start:.0f} minutes until all processes run again. Nothing is lost in data: an example is computed from its place, so a restart, also on another number of devices, reads no saved state and skips by counting.
"""

TRAINING_AFTER = """\
**Breaks first:** FSDP's messages, across nodes. At micro-batches of one context a thousand devices would wait for weights most of the time; at four they do not, and memory has room for them once layers are computed again. Sharding within a node and copies across nodes would end it; Accelerate can, our recipes cannot say so yet. At the paper's size nothing breaks.

**Then** failures. With one in two days an hour between checkpoints costs about what the best interval does; with one in a few hours it costs a tenth to a fifth of the run, so set `save_every`, which counts steps, by the best interval. Saving is synchronous (torch's asynchronous distributed checkpoints are not wired in), nobody starts the run again but your supervisor (`torchrun --max-restarts`, Slurm's requeue), and at the end one process gathers all weights, in host memory, to write the model folder. We have run FSDP on two CPU processes, never on a thousand of anything.

The policy costs what it says: at {ratios[1]:.2f} actions a token instead of {ratios[0]:.2f} the same text takes {days[1]:.1f} days instead of {days[0]:.1f}.

**Users will not need it:** the released sizes train on one device. FSDP starts to matter near 4 billion parameters, where 16 bytes each no longer fit beside activations in 80 GB.
"""

SERVING = """\
## Serving

**Carried by** vLLM (batching, paged keys and values, the GPU), `reviser serve` before it, and a load balancer before that. A request is {prompt} tokens given and {text} written. A step reads the weights once and each row's keys and values; what vLLM's published rate leaves unexplained is a cost per row, the same for us and for left to right. Ours on top: 2 % more actions, and the mask, computed on the host while the device waits. Devices run at 70 % of their capacity.
"""

SERVING_AFTER = """\
The price of equal output is the ratio of actions times that of steps. A plain mask is a few numpy operations for all rows. With marks, which our shipped model has, and with searches, each row is followed by a loop in Python: that, not the 2 %, is most of the difference, and it is a loop that could be one numpy operation.

Equal output is as many tokens, not as good ones: the texts of our small model are at 1.13 to 1.16 times the twin's perplexity ([results.md](../results.md)).

The 300M trunk is hardly cheaper than the 8B: at this size vLLM's host work is the step. Serve small trunks with fewer rows a device or several engines on one.

`reviser serve` is one Python process beside vLLM's. At 70 % it would hand on {actions:,.0f} actions a second, so it has {actions_us:.0f} microseconds of a core for each; what it takes was not measured for this page (`just bench-serve MODEL --engine vllm` does). If that is more, run several behind one vLLM server (`reviser serve --engine vllm --url ...`), or ask for whole answers instead of events.
"""

OTHERS = """\
Steps that others published and that went into nothing here:
"""

MEMORY = """\
What a request holds: keys and values are of the history, moves included, where an autoregressive model holds those of the text. Deleted tokens stay in it too.
"""

QUEUES = """\
One device with the 8B trunk and marks, {slots} requests at a time, texts of half to one and a half times the mean length, Poisson arrivals (a simulation step by step). M/M/c takes every slot for a server at full-batch speed.
"""

QUEUES_AFTER = """\
Nobody queues before nine tenths: with so many slots Erlang's wait is nothing, and latency grows because fuller steps are longer. So scale out by `reviser_completion_seconds` rather than by `reviser_waiting`, which stays 0 until it is late. Random splitting by the balancer is good enough; what matters is that the way back to a stream leads to the same replica ([deploy.md](../guides/deploy.md)).
"""

SENSITIVE = """\
## What if
"""

REVISING = """\
Actions per token multiply the price; little else does. The rows on vLLM's hidden host work are the largest unknown: the second runner's mask waits for the device once a step, and nobody has run it on a GPU ([engines.md](engines.md)). Measure that first, with `just bench-decode --vllm`, before any of this is built. A way around exists for vocabularies without marks, searches and spans: cursor and length are sums over the history that the device can take by itself.

**Where it is cheaper:** revising. An editor takes a tenth of the steps of a twin that writes anew, at a thousand tokens, and a third to a half of its seconds ([revise-results.md](../revise-results.md)); so a service that revises drafts needs that share of the devices. That editor mends half as much, so it is a price without a product yet. Filling a gap costs the gap: 17 actions in the mean where the twin continues to the end of the sentences.
"""

NOT_NEEDED = """\
## What to do, in order

1. Run vLLM's second runner on one GPU and measure the mask's share of a step. All serving figures stand on it.
2. Follow marks in numpy rather than row by row.
3. Before a corpus of a billion documents: lengths and ends out of every process' memory.
4. Before several nodes hold more shards than disks: shards by node.
5. Before 8B trunks on many nodes: layers computed again and sharding within a node, as settings of a recipe.
6. Nothing else here is worth building before somebody has the problem.
"""

INPUTS = """\
## Inputs
"""

RUNS_TEXT = """\
The MFU of the paper's size is assumed: small trunks in contexts of 512 reach less than large ones. It moves hours, dollars and cores a device in proportion, nothing else.
"""


def page() -> str:
    """All of it."""
    rates = scale.Rates.load()
    ours, theirs = (
        scale.fleet(scale.LLAMA_8B, SERVICE, MACHINE, rates, mask)["price"]
        for mask in ("marks", "none")
    )
    parts = [
        INTRODUCTION.format(price=ours / theirs),
        words(SUMMARY_HEAD, summary(rates)),
        *trust(),
        *data(rates),
    ]
    parts += [*loading(rates), *training(), *serving(rates), *sensitivities(rates), NOT_NEEDED]
    return "\n".join([*parts, *inputs(rates)])


if __name__ == "__main__":
    (HERE / "design" / "scale.md").write_text(page(), "utf-8")
