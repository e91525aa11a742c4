"""Data and training at scale, as functions of the inputs.

The functions know no torch and run no model.
"""

from __future__ import annotations

import math

import numpy as np

from experiments.scale.inputs import Accelerator, Corpus, Rates, Run, Storage

DAY = 86400.0

# -- data -----------------------------------------------------------------------------------------


def stored_bytes(tokens: float, documents: float, rows: int) -> float:
    """Return the bytes of shards: two or four per token, and eight per document."""
    return tokens * (2 if rows <= 2**16 else 4) + 8 * documents


def data_plan(run: Run, corpus: Corpus, rates: Rates, machine: Accelerator,
              storage: Storage) -> dict[str, float]:  # fmt: skip
    """Return shards, storage, tokenizing and loader memory of a run's text, read once."""
    tokens = run.ids / run.actions_per_token
    documents = tokens / corpus.tokens_per_document
    size = stored_bytes(tokens, documents, run.trunk.rows)
    core_seconds = tokens * rates.bytes_per_token / rates.tokenize
    loader = min(documents * rates.document_bytes, corpus.most_blocks * 8)
    tasks = max(corpus.usual_tasks, tokens * rates.bytes_per_token / corpus.task_bytes)
    return {
        "tokens": tokens,
        "documents": documents,
        "bytes": size,
        "text_bytes": tokens * rates.bytes_per_token,
        "shards": tasks,
        "shard_bytes": size / tasks,
        "store_dollars": size / 1e9 * storage.price,
        "tokenize_core_hours": core_seconds / 3600,
        "tokenize_days": core_seconds / tasks / DAY,
        "copy_hours": size / storage.node_read / 3600,
        "fits_disk": size / (8 * machine.disk),
        "loader_bytes": loader,
        "loader_share": loader / machine.host_memory,
    }


def oversampling(processes: int, group: int) -> int:
    """Return how often an example is sampled: each process makes the whole group it needs."""
    return min(processes, group)


def loading(run: Run, corpus: Corpus, rates: Rates, machine: Accelerator,
            storage: Storage) -> dict[str, float]:  # fmt: skip
    """Return what the loaders of one device must do to keep it busy."""
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
"""Bytes per parameter in a checkpoint: all of these except the gradient."""
LOGITS = 10
"""Bytes per logit: bf16, the float32 copy for the loss, and its gradient."""


def device_memory(run: Run) -> dict[str, float]:
    """Return the memory of one device by use."""
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
    """Return the communication time of a step over its compute time.

    Above 1, no overlap can hide it. At each micro-batch FSDP gathers the weights twice, in bf16,
    and reduces the gradients in float32.
    """
    work = run.context * run.micro_batch / run.ids_per_second(machine)
    moved = (2 * 2 + 4 if run.sharded else 2 * 4) * run.trunk.parameters
    nodes = run.accelerators > 8
    return moved / (machine.link if nodes else NVLINK) / work


NVLINK = 450e9
"""Bytes per second, each way, between the devices of a node (NVIDIA, H100 SXM data sheet)."""


def young_daly(save: float, failure: float) -> float:
    """Return the best seconds between checkpoints: Young's first order, Daly's correction."""
    if save >= 2 * failure:
        return failure
    part = save / (2 * failure)
    return math.sqrt(2 * save * failure) * (1 + math.sqrt(part) / 3 + part / 9) - save


def expected_seconds(work: float, every: float, save: float, restart: float,
                     failure: float) -> float:  # fmt: skip
    """Return the time of a run with random failures: Daly's formula, exact for exponentials."""
    return (
        failure
        * math.exp(restart / failure)
        * math.expm1((every + save) / failure)
        * (work / every)
    )


def simulated_seconds(work: float, every: float, save: float, restart: float, failure: float,
                      rng: np.random.Generator) -> float:  # fmt: skip
    """Return the time of one simulated run that works, saves, fails and restarts."""
    clock = done = 0.0
    left = rng.exponential(failure)
    while done < work:
        piece = min(every, work - done) + save
        if left >= piece:
            clock, left, done = clock + piece, left - piece, done + piece - save
            continue
        clock, left = clock + left, rng.exponential(failure)
        while left < restart:  # another failure during the restart
            clock, left = clock + left, rng.exponential(failure)
        clock, left = clock + restart, left - restart
    return clock


def training(run: Run, machine: Accelerator, storage: Storage,
             every: float | None = None) -> dict[str, float]:  # fmt: skip
    """Return time, checkpoints and failures of a run, saved at the best or another interval."""
    work = run.ids / (run.accelerators * run.ids_per_second(machine))
    saved = float(SAVED * run.trunk.parameters)
    nodes = max(1, run.accelerators // 8) if run.sharded else 1  # with copies, one process writes
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
