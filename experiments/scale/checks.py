"""What `scale.py` takes from this machine, and its predictions against runs it has not seen.

Each part calibrates on small runs, predicts two or more larger ones, does them and prints
prediction, measurement and their ratio. Processor seconds of one core wherever they mean anything,
since the machine is shared; requests under Poisson arrivals take wall time, and are calibrated anew
right before.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scale

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "models" / "stories-revise"

Values = Sequence[float]


def middle(values: Values) -> dict[str, float]:
    """The median and the range."""
    return {"value": statistics.median(values), "low": min(values), "high": max(values)}


def seconds_of(work: Callable[[], Any]) -> float:
    """Processor seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


class Record:
    """What a part of the check found, printed as it comes and kept as json."""

    def __init__(self, name: str) -> None:
        self.path = scale.RECORD / f"{name}.json"
        self.rows: list[dict[str, Any]] = []
        self.rates: dict[str, Any] = {}
        self.calibration: dict[str, Any] = {}

    def compare(self, what: str, size: str, unit: str, predicted: Values, found: Values) -> None:
        """One line: what was said beforehand, and what came."""
        ratios = [a / b for a, b in zip(found, predicted, strict=True)]
        row = {"what": what, "size": size, "unit": unit, "predicted": middle(predicted)}
        row |= {"measured": middle(found), "ratio": middle(ratios), "runs": len(ratios)}
        self.rows.append(row)
        told = row["ratio"]
        print(
            f"{what:34s} {size:26s} predicted {row['predicted']['value']:12.5g} measured"
            f" {row['measured']['value']:12.5g} {unit:14s} ratio {told['value']:.3f}"
            f" [{told['low']:.3f}, {told['high']:.3f}]",
            flush=True,
        )

    def rate(self, name: str, values: Values) -> float:
        """A rate that the model takes."""
        self.rates[name] = middle(values)
        print(f"{name:34s} {self.rates[name]['value']:.5g}", flush=True)
        return float(self.rates[name]["value"])

    def save(self) -> None:
        """Keep it, and the rates with those of the other parts."""
        from reviser.provenance import made_with

        made = made_with("numpy", "torch", "transformers") | {"load": os.getloadavg()[0]}
        scale.RECORD.mkdir(parents=True, exist_ok=True)
        content = {"rows": self.rows, "calibration": self.calibration, "made": made}
        self.path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        path = scale.RECORD / "rates.json"
        known = json.loads(path.read_text("utf-8"))["rates"] if path.is_file() else {}
        path.write_text(json.dumps({"rates": known | self.rates}, indent=1) + "\n", "utf-8")


# -- the core: sampler, loader, mask --------------------------------------------------------------


def check_core(rounds: int) -> None:
    record = Record("core")
    check_sampler(record, rounds)
    check_loader(record)
    check_mask(record, rounds)
    record.save()


def check_sampler(record: Record, rounds: int) -> None:
    """Ids a second that a process makes when it needs every n-th micro-batch."""
    from bench_train import batches

    def used(stride: int, first: int, count: int) -> float:
        source = batches("paper", 32)
        source[0]
        ids = 0

        def work() -> None:
            nonlocal ids
            for n in range(count):
                ids += source[(first + n) * stride]["counts"]["ids"]

        return ids / took if (took := seconds_of(work)) else 0.0

    alone = [used(1, 160 * (n + 1), 160) for n in range(rounds)]
    rate = record.rate("sampler", alone)
    for stride in (4, 16):
        found = [used(stride, 160 * (n + 1), 24) for n in range(rounds)]
        said = rate / scale.oversampling(stride, scale.Corpus().group)
        record.compare("sampler", f"each {stride}th micro-batch", "ids/s", [said] * rounds, found)


def check_loader(record: Record) -> None:
    """Memory of opening shards, by documents."""
    from reviser.data.dataset import WindowConfig, Windows
    from reviser.data.shards import TokenShards

    def opened(documents: int) -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as name:
            write_shards(Path(name), documents)
            tracemalloc.start()
            shards = TokenShards.open(name)
            windows = Windows(shards, WindowConfig(size=16, prefix=(0, 4)))
            kept, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert len(windows) >= documents * 0.9
        return kept, peak

    opened(1000)  # what is imported on the way
    kept, peak = (each / 100_000 for each in opened(100_000))
    record.rate("document_bytes", [kept])
    record.rate("document_peak", [peak])
    for documents in (400_000, 1_600_000):
        found = opened(documents)
        size = f"{documents:,} documents"
        for what, each, rate in zip(
            ("loader memory", "loader memory, peak"), found, (kept, peak), strict=True
        ):
            record.compare(what, size, "bytes", [rate * documents], [each])


def write_shards(folder: Path, documents: int) -> None:
    """A shard of short documents, as `reviser tokenize` leaves it."""
    from reviser.data.shards import Manifest, Shard

    length = 20
    np.zeros(documents * length, "<u2").tofile(folder / "one.ds")
    np.arange(length, (documents + 1) * length, length, "<u8").tofile(folder / "one.ds.index")
    shard = Shard(name="one.ds", tokens=documents * length, documents=documents, sha256="")
    manifest = Manifest(
        tokenizer="", vocabulary=9, dtype="<u2", shards=(shard,), skipped={}, damaged=(),
        sources=(), reader={}, versions={},
    )  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest.to_dict()), "utf-8")


def check_mask(record: Record, rounds: int) -> None:
    """Seconds of a step's mask by rows, and bytes of a row."""
    from reviser import ActionVocab, Boundary, Canvas

    def step(vocab: Any, rows: int) -> float:
        boundary = Boundary(vocab, rows)
        for row in range(rows):
            held = {} if vocab.find is None else {"canvas": Canvas(vocab, [5] * 512)}
            boundary.reset(row, length=512, gaps=[(256, 512)], **held)
        out, ids = boundary.fill_mask(), np.full(rows, 7)

        def work() -> None:
            for _ in range(10):
                boundary.fill_mask(out)
                boundary.advance(ids)

        return min(seconds_of(work) / 10 for _ in range(12))  # the rest is others' work

    options = {"mask": {}, "marks": {"marks": True}, "search": {"marks": True, "search": True}}
    for name, option in options.items():
        vocab = ActionVocab.build(50_257, **option)
        step(vocab, 4)
        few, many = ([step(vocab, n) for _ in range(rounds)] for n in (8, 512))
        rows = [(b - a) / 504 for a, b in zip(few, many, strict=True)]
        row = record.rate(f"{name}_row", rows)
        fixed = record.rate(f"{name}_step", [a - 8 * row for a in few])
        for count in (64, 256):
            found = [step(vocab, count) for _ in range(rounds)]
            said = fixed + row * count
            label = f"mask, {'plain' if name == 'mask' else name}"
            record.compare(label, f"{count} rows", "s", [said] * rounds, found)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    boundary = Boundary(ActionVocab.build(50_257, marks=True), 4096)
    after = tracemalloc.get_traced_memory()[0]
    record.rate("boundary_bytes", [(after - before) / len(boundary)])
    canvases = [Canvas(vocab, [5] * 4096) for _ in range(50)]
    last = tracemalloc.get_traced_memory()[0]
    record.rate("canvas_bytes", [(last - after) / (len(canvases) * 4096)])
    tracemalloc.stop()


# -- text to shards -------------------------------------------------------------------------------


def check_data(text: Path, tokenizer: Path, rounds: int) -> None:
    from reviser.data.shards import tokenize

    record = Record("data")
    whole = text.read_bytes()

    def run(first: int, size: int) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as name:
            source = Path(name, "text.txt")
            piece = whole[first : first + size]
            piece = piece[piece.index(b"\n\n") + 2 : piece.rindex(b"\n\n")]
            source.write_bytes(piece)
            made = []
            took = seconds_of(
                lambda: made.append(tokenize([source], Path(name, "shards"), tokenizer, workers=1))
            )
            files = [Path(name, "shards", shard.name) for shard in made[0].shards]
            stored = sum(f.stat().st_size + Path(f"{f}.index").stat().st_size for f in files)
            return {
                "bytes": len(piece), "seconds": took, "tokens": made[0].tokens,
                "documents": made[0].documents, "stored": stored,
            }  # fmt: skip

    half = 1 << 19
    run(0, half // 4)  # imports
    small = [run(0, half) for _ in range(rounds)]
    large = [run(half, 3 * half) for _ in range(rounds)]
    fast = [
        (b["bytes"] - a["bytes"]) / (b["seconds"] - a["seconds"])
        for a, b in zip(small, large, strict=True)
    ]
    rate = record.rate("tokenize", fast)
    each = record.rate("bytes_per_token", [r["bytes"] / r["tokens"] for r in (small[0], large[0])])
    start = statistics.median(r["seconds"] - r["bytes"] / rate for r in small)
    per_document = large[0]["bytes"] / large[0]["documents"]
    record.calibration = {"start": start, "bytes_per_document": per_document, "text": text.name}
    for size in (4, 8):
        found = [run(4 * half, size * half) for _ in range(rounds)]
        name = f"{size // 2} MiB of text"
        said = start + found[0]["bytes"] / rate
        record.compare("tokenize", name, "s", [said] * rounds, [r["seconds"] for r in found])
        tokens, documents = found[0]["bytes"] / each, found[0]["bytes"] / per_document
        stored = scale.stored_bytes(tokens, documents, 50_257)
        record.compare("shards", name, "bytes", [stored], [found[0]["stored"]])
        exact = scale.stored_bytes(found[0]["tokens"], found[0]["documents"], 50_257)
        record.compare("shards, tokens known", name, "bytes", [exact], [found[0]["stored"]])
    record.save()


# -- training -------------------------------------------------------------------------------------

CONTEXT, MICRO = 224, 8


def trunk_of(layers: int, width: int, rows: int) -> scale.Trunk:
    return scale.Trunk(
        name=f"{layers} x {width}", layers=layers, width=width, mlp_width=4 * width, rows=rows,
        kv_width=width,
    )  # fmt: skip


def train_once(folder: Path, layers: int, width: int, out: Any) -> None:
    """`reviser train` of a few steps, in a process of its own, timed by the processor's clock."""
    import torch

    import reviser.train.trainer as trainer
    from reviser.train.recipe import load_recipe
    from reviser.train.run import train

    torch.set_num_threads(1)
    trainer.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    output = folder / f"run-{layers}-{width}"
    changes = [f"trunk.layers={layers}", f"trunk.width={width}", f"trunk.mlp_width={4 * width}"]
    train(load_recipe(folder / "recipe.yaml", [*changes, f"trunk.heads={width // 32}"]), output)
    lines = [json.loads(line) for line in (output / "log.jsonl").read_text("utf-8").splitlines()]
    logs = [line for line in lines if "ids_per_second" in line]
    [saved] = (output / "checkpoints").glob("checkpoint-*")
    out.put(
        {
            "parameters": json.loads((output / "run.json").read_text("utf-8"))["parameters"],
            "speeds": [line["ids_per_second"] for line in logs[1:]],
            "padding": statistics.median(line["padding"] for line in logs),
            "memory": logs[-1]["peak_memory_gb"] * 2**30,
            "checkpoint": sum(f.stat().st_size for f in saved.iterdir()),
        }
    )


SMALL = ((2, 64), (6, 96), (2, 192), (4, 128))
"""Trunks that are calibrated on, layers and width."""
CHECKED = ((3, 160), (4, 256))


def check_training() -> None:
    import yaml

    import reviser.train.run  # noqa: F401  # before the fork
    from reviser.core.actions import ActionVocab
    from reviser.data.shards import tokenize
    from reviser.data.tokenizer import train_bpe
    from reviser.models import rows_for

    text = ROOT / "recipes" / "smoke.txt"
    context = multiprocessing.get_context("fork")  # what is imported is shared
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tokenizer").mkdir()
        bpe = train_bpe([str(text)], 512, split="blank", text_key="text")
        bpe.save(str(folder / "tokenizer" / "tokenizer.json"))
        tokenize([text], folder / "shards", folder / "tokenizer", workers=1)
        rows = rows_for(ActionVocab.from_tokenizer(bpe, max_move=64).size)
        (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE), "utf-8")

        def run(layers: int, width: int) -> dict[str, Any]:
            out: Any = context.Queue()
            process = context.Process(target=train_once, args=(folder, layers, width, out))
            process.start()
            told: dict[str, Any] = out.get(timeout=1200)
            process.join()
            return told

        compare_training({size: run(*size) for size in (*SMALL, *CHECKED)}, rows)


RECIPE = {
    "trunk": {"context": CONTEXT, "dropout": 0.0},
    "vocab": {"max_move": 64},
    "policy": "paper",
    "data": {
        "shards": "shards", "tokenizer": "tokenizer",
        "windows": {"size": 136, "prefix": [0, 24], "held_out": 0.05},
    },
    "training": {
        "steps": 14, "batch": MICRO, "micro_batch": MICRO, "precision": "fp32", "warmup": 2,
        "log_every": 2, "evaluate_every": 14, "save_every": 14, "reporters": [],
    },
    "evaluation": {"examples": 8, "prompts": [""], "max_actions": 1},
}  # fmt: skip


def compare_training(runs: dict[tuple[int, int], dict[str, Any]], rows: int) -> None:
    """What the small trunks say of the others."""
    record = Record("training")
    fit = TrainingFit([(trunk_of(*size, rows), runs[size]) for size in SMALL])
    for size in CHECKED:
        trunk, told = trunk_of(*size, rows), runs[size]
        label, speeds = f"{trunk.name}, {told['parameters'] / 1e6:.2f}M", told["speeds"]
        record.compare("parameters", label, "", [trunk.parameters], [told["parameters"]])
        record.compare("training", label, "ids/s", [fit.speed(trunk)] * len(speeds), speeds)
        record.compare("training memory", label, "bytes", [fit.memory(trunk)], [told["memory"]])
        record.compare("checkpoint", label, "bytes", [fit.checkpoint(trunk)], [told["checkpoint"]])
    kept = {trunk_of(*size, rows).name: told for size, told in runs.items()}
    record.calibration = {"fit": fit.to_dict(), "runs": kept}
    record.save()


class TrainingFit:
    """Time, memory and checkpoint of a step as sums of a few parts, fitted to small trunks."""

    def __init__(self, known: list[tuple[scale.Trunk, dict[str, Any]]]) -> None:
        self._padding = statistics.median(told["padding"] for _, told in known)
        times = [1 / statistics.median(told["speeds"]) for _, told in known]
        self._times = least_squares([self._work(trunk) for trunk, _ in known], times)
        rest = [told["memory"] - self._held(trunk) for trunk, told in known]
        places = [[1.0, float(trunk.layers * trunk.width)] for trunk, _ in known]
        self._places = least_squares(places, rest)
        self._besides = statistics.median(
            told["checkpoint"] - scale.SAVED * trunk.parameters for trunk, told in known
        )

    def _work(self, trunk: scale.Trunk) -> list[float]:
        """Per id: products, passes over activations, and the optimizer's over the weights."""
        per_step = MICRO * 170.0
        return [trunk.flops_per_id, float(trunk.layers * trunk.width), trunk.parameters / per_step]

    def _held(self, trunk: scale.Trunk) -> float:
        return scale.ADAM * trunk.parameters

    def speed(self, trunk: scale.Trunk) -> float:
        """Ids a second."""
        return 1 / float(np.dot(self._work(trunk), self._times))

    def memory(self, trunk: scale.Trunk) -> float:
        """Most bytes resident."""
        base, slope = self._places
        return self._held(trunk) + base + slope * trunk.layers * trunk.width

    def checkpoint(self, trunk: scale.Trunk) -> float:
        """Bytes on disk."""
        return scale.SAVED * trunk.parameters + self._besides

    def to_dict(self) -> dict[str, Any]:
        """What was fitted."""
        return {
            "seconds": dict(zip(("flop", "activation", "weight"), self._times, strict=True)),
            "memory": dict(zip(("base", "layer_width"), self._places, strict=True)),
            "checkpoint_besides": self._besides,
        }


def least_squares(rows: list[list[float]], goals: list[float]) -> list[float]:
    """Relative least squares with no factor below 0."""
    weights = 1 / np.array(goals)
    a, b = np.array(rows) * weights[:, None], np.ones(len(goals))
    columns = a.shape[1]
    best: tuple[float, list[float]] = (np.inf, [0.0] * columns)
    for chosen in range(1, 1 << columns):
        names = [n for n in range(columns) if chosen >> n & 1]
        found = np.linalg.lstsq(a[:, names], b, rcond=None)[0]
        error = float(np.square(a[:, names] @ found - b).sum())
        if found.min() >= 0 and error < best[0]:
            whole = [0.0] * columns
            for n, value in zip(names, found.tolist(), strict=True):
                whole[n] = value
            best = error, whole
    return best[1]


# -- serving --------------------------------------------------------------------------------------

SLOTS, ACTIONS, REQUESTS = 8, 12, 24


def body(number: int, actions: int) -> dict[str, Any]:
    """A request of exactly so many actions."""
    return {
        "prompt": f"Ben had {number} cups", "seed": number, "max_actions": actions,
        "stop_bias": -1e9,
    }  # fmt: skip


async def closed(port: int, count: int, actions: int, at_a_time: int, way: str) -> float:
    """Mean seconds of a request when so many are always under way."""
    from bench_serve import load_up

    asked = [body(n, actions) for n in range(count)]
    took, answers = await load_up(port, asked, way, at_a_time)
    assert all(answer.status == 200 for answer in answers)
    return took * at_a_time / count


async def opened(port: int, arrivals: scale.Floats, lengths: list[int]) -> list[float]:
    """Seconds of each request when they come as they come."""
    from bench_serve import ask

    start = time.perf_counter()

    async def one(number: int) -> float:
        await asyncio.sleep(max(0.0, start + arrivals[number] - time.perf_counter()))
        due = start + arrivals[number]
        answer = await ask(port, body(number, lengths[number]), "JSON")
        assert answer.status == 200
        return time.perf_counter() - due

    return list(await asyncio.gather(*(one(n) for n in range(len(lengths)))))


@contextmanager
def server() -> Iterator[Any]:
    from bench_serve import served

    os.environ["OMP_NUM_THREADS"] = "1"
    option = f"rows={SLOTS}"
    with served(str(MODEL), f"--running={SLOTS}", "--engine-option", option) as found:
        asyncio.run(closed(found.port, 2 * SLOTS, 8, SLOTS, "stream"))
        yield found


def check_serving(rounds: int) -> None:
    record = Record("serving")
    said: dict[tuple[float, str], list[float]] = {}
    found: dict[tuple[float, str], list[float]] = {}
    with server() as at:
        fits = []
        for number in range(rounds):
            for load in (0.4, 0.8):
                fit = calibrate(at.port)
                fits.append(fit)
                rate = load * SLOTS / (ACTIONS * fit["step"](SLOTS) + SLOTS * fit["enter"])
                rng = np.random.default_rng(number)
                lengths = rng.integers(ACTIONS // 2, ACTIONS * 3 // 2 + 1, REQUESTS).tolist()
                arrivals = scale.poisson(rate, len(lengths), rng)
                guess = scale.simulate(arrivals, lengths, fit["step"], SLOTS, fit["enter"])
                took = asyncio.run(opened(at.port, arrivals, lengths))
                for name, cut in (("mean", None), ("p50", 50), ("p90", 90)):
                    for kept, values in ((said, guess), (found, took)):
                        value = np.mean(values) if cut is None else np.percentile(values, cut)
                        kept.setdefault((load, name), []).append(float(value))
                told = f"predicted {np.mean(guess):.3f} s, took {np.mean(took):.3f} s"
                print(f"load {load}, {rate:.2f} requests/s: {told}", flush=True)
            record.rows.clear()  # each round tells all so far: the machine may be wanted back
            for (load, name), values in found.items():
                size = f"load {load:.0%}, {SLOTS} at a time"
                record.compare(f"latency, {name}", size, "s", said[load, name], values)
            record.calibration |= {
                "step_1": middle([fit["step"](1) for fit in fits]),
                f"step_{SLOTS}": middle([fit["step"](SLOTS) for fit in fits]),
                "enter": middle([fit["enter"] for fit in fits]),
                "requests": REQUESTS,
            }
            record.save()


def calibrate(port: int) -> dict[str, Any]:
    """Seconds of a step, by rows, and of entering: from requests one by one and all at once."""
    short, long = (asyncio.run(closed(port, 3, n, 1, "JSON")) for n in (2, 22))
    alone = max(1e-6, (long - short) / 20)
    enter = max(0.0, short - 2 * alone)
    full = asyncio.run(closed(port, 2 * SLOTS, ACTIONS, SLOTS, "JSON"))
    step = max(alone, (full - enter) / ACTIONS)  # they enter together
    row = (step - alone) / (SLOTS - 1)
    return {"step": scale.Engine(fixed=alone - row, row=row), "enter": enter}


def check_all(text: Path, tokenizer: Path, rounds: int, only: Sequence[str] | None) -> None:
    parts = {
        "core": lambda: check_core(rounds),
        "data": lambda: check_data(text, tokenizer, rounds),
        "training": check_training,
        "serving": lambda: check_serving(rounds),
    }
    for name, part in parts.items():
        if not only or name in only:
            part()
