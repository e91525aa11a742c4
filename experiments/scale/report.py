"""Write docs/design/scale.md from the model and the record of checks in `results/`.

python -m experiments.scale.report
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from experiments import lines
from experiments.markdown import filled, table
from experiments.scale import inputs, model, page_text, serving
from experiments.scale.inputs import LLAMA_8B, PAPER_100M, PAPER_300M, RUNS, Rates, Service

PAGE = Path(__file__).parents[2] / "docs" / "design" / "scale.md"
MACHINE, STORAGE, CORPUS, SERVICE = (
    inputs.Accelerator(), inputs.Storage(), inputs.Corpus(), inputs.Service()
)  # fmt: skip
CHECKS = ("core", "data", "training", "serving")
MASK_NAMES = ("left to right, no mask", "plain mask", "marks", "marks and searches")


def short(value: float, unit: str = "") -> str:
    """Return a number with three digits and an SI prefix."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}{unit}"
    return f"{value:.3g} {unit}".strip()


def size(value: float) -> str:
    """Return a number of bytes in words."""
    return short(value, "B")


def span(seconds: float) -> str:
    """Return a time in its natural unit."""
    for length, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= length:
            return f"{seconds / length:.3g} {name}"
    if seconds < 1e-6:
        return "nothing"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


# -- sections ----------------------------------------------------------------------------------------


def trust_section() -> Iterator[str]:
    """Yield the section that compares predictions with measurements."""
    rows = []
    for part in CHECKS:
        path = inputs.RESULTS / f"{part}.json"
        if not path.is_file():
            continue
        for row in json.loads(path.read_text("utf-8"))["rows"]:
            ratio = row["ratio"]
            spread = f" [{ratio['low']:.2f}, {ratio['high']:.2f}]" if row["runs"] > 1 else ""
            cells = [row["what"], row["size"], *(figure(row, n) for n in ("predicted", "measured"))]
            rows.append([*cells, f"{ratio['value']:.3f}{spread}", str(row["runs"])])
    yield page_text.CHECKED
    yield table(["", "size", "predicted", "measured", "measured / predicted", "runs"], rows)
    yield filled(
        page_text.MISSES,
        bytes=[min(ratios("data", "shards")) - 1, max(ratios("data", "shards")) - 1],
        sampler=ratios("core", "sampler", "each 16th")[0] - 1,
        **{name: ratios("core", f"mask, {name}", "64 rows")[0] - 1 for name in ("search", "marks")},
    )


def ratios(part: str, what: str, size: str = "") -> list[float]:
    """Return measured over predicted, of the rows of a check with this name and size."""
    rows = [row for row in recorded(part)["rows"] if row["what"] == what]
    return [row["ratio"]["value"] for row in rows if row["size"].startswith(size)]


def figure(row: dict[str, Any], name: str) -> str:
    """Return a value of a row with its unit."""
    value, unit = row[name]["value"], row["unit"]
    if unit == "s":
        return span(value)
    if unit == "bytes":
        return size(value)
    return f"{value:,.0f} {unit}".strip()


def data_section(rates: Rates) -> Iterator[str]:
    """Yield the section on shards and storage."""
    plans = [model.data_plan(run, CORPUS, rates, MACHINE, STORAGE) for run in RUNS]
    rows = [
        ["ids read in training", *(short(run.ids) for run in RUNS)],
        ["tokens stored, each read once", *(short(t["tokens"]) for t in plans)],
        ["documents", *(short(t["documents"]) for t in plans)],
        ["text", *(size(t["text_bytes"]) for t in plans)],
        ["all shards", *(size(t["bytes"]) for t in plans)],
        ["shards, number and size", *(f"{t['shards']:.0f} of {size(t['shard_bytes'])}" for t in plans)],
        ["object storage per month", *(f"${t['store_dollars']:,.0f}" for t in plans)],
        ["tokenizing, cores like ours", *(f"{t['tokenize_core_hours']:,.0f} hours" for t in plans)],
        ["the same, one core per task", *(span(t["tokenize_days"] * 86400) for t in plans)],
        ["copied to a node", *(span(t["copy_hours"] * 3600) for t in plans)],
        ["share of a node's disks", *(f"{t['fits_disk']:.2g}" for t in plans)],
        ["loader memory of one training process", *(size(t["loader_bytes"]) for t in plans)],
        ["share of the host memory per device", *(f"{t['loader_share']:.2g}" for t in plans)],
    ]  # fmt: skip
    yield page_text.DATA
    yield table(["", *(run.name for run in RUNS)], rows)
    yield page_text.DATA_AFTER
    yield loader_table()
    yield page_text.DATA_END


def recorded(name: str) -> dict[str, Any]:
    """Return the record in a result file."""
    found: dict[str, Any] = json.loads((inputs.RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def elsewhere(experiment: str, name: str) -> dict[str, Any]:
    """Return the record in a result file of another experiment."""
    path = inputs.RESULTS.parents[1] / experiment / "results" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def spread(part: dict[str, float], digits: int = 2) -> str:
    """Return a ratio with its range."""
    return f"{part['value']:.{digits}f} [{part['low']:.{digits}f}, {part['high']:.{digits}f}]"


def loader_table() -> str:
    """Return the memory and speed of a loader, before and after."""
    found, rows = recorded("loader"), []
    for row in found["rows"]:
        kept = [size(row[when]["kept"]["value"]) for when in ("before", "after")]
        rows.append([f"{row['documents']:,}", *kept, spread(row["speed_ratio"])])
    rows.append(
        ["ids of sampled examples per second", "", "", spread(found["ids_per_second"]["ratio"])]
    )
    head = ["documents", "memory before", "after", "windows per second, after / before"]
    return table(head, rows)


def mask_table() -> str:
    """Return the cost of a mask per row and step, before and after."""
    rows = [
        [f"{row['mask']}, {row['rows']:,} rows", *(f"{row[w]['value']:.2f}" for w in ("before", "after")),
         spread(row["ratio"], 1)]
        for row in recorded("masks")["rows"]
    ]  # fmt: skip
    return table(["", "before", "after", "ratio"], rows)


def server_table() -> str:
    """Return what serving costs over the bare engine."""
    names = {"server": "engine in its own process", "own_process=false": "in the server's"}
    rows = []
    for name, ways in recorded("server")["arms"].items():
        for way, found in ways.items():
            middle, low, high = found["of_bare"]
            (half, late) = found["whole_text"]
            rows.append([f"{names.get(name, name)}, {way}", f"{middle:.2f} [{low:.2f}, {high:.2f}]",
                         f"{half:.1f}, {late:.1f} s"])  # fmt: skip
    return table(["", "actions per second, to the bare engine's", "whole text, p50, p99"], rows)


def figures() -> dict[str, str]:
    """Return the growth curves by file name."""
    loader: dict[str, list[tuple[float, float]]] = {}
    for row in recorded("loader")["rows"]:
        for when in ("before", "after"):
            kept = row[when]["kept"]["value"]
            loader.setdefault(f"{when}", []).append((row["documents"], kept))
    masks: dict[str, list[tuple[float, float]]] = {}
    for when in ("after", "before"):
        for row in recorded("masks")["rows"]:
            if row["mask"] in ("plain", "marks, used", "searches, used"):
                name = f"{when}: {row['mask'].removesuffix(', used')}"
                masks.setdefault(name, []).append((row["rows"], row[when]["value"]))
    growth = recorded("growth")
    tokens = [(row["tokens"], row["seconds"]["value"]) for row in growth["tokens"]]
    work = [(row["processes"], row["seconds"]["value"]) for row in growth["processes"]]
    return {
        "scale-tokens.svg": lines.chart({"tokenize": tokens}, x="tokens", y="processor seconds"),
        "scale-processes.svg": lines.chart(
            {"a job over a corpus": work}, x="processes", y="processor seconds"
        ),
        "scale-loader.svg": lines.chart(loader, x="documents", y="bytes kept", log=True),
        "scale-masks.svg": lines.chart(
            masks, x="rows", y="microseconds per row and step", log=True, dashed="before"
        ),
    }


def corpus_table(found: dict[str, Any]) -> str:
    """Return the figures of a job on each scheduler."""
    rows = [
        [
            row["on"],
            f"{row['documents']:,}",
            str(row["kills"]),
            str(row["failed"]),
            row["sha256"][:12],
        ]
        for row in found["rows"]
    ]
    return table(["on", "documents, each once", "kills", "failed", "hash of all results"], rows)


def corpus_section(rates: Rates) -> Iterator[str]:
    """Yield the section on batches over a corpus."""
    yield page_text.CORPUS
    if (inputs.RESULTS / "corpus.json").is_file():
        yield corpus_table(recorded("corpus"))
    capacity = serving.fleet(LLAMA_8B, SERVICE, MACHINE, rates, "marks")["capacity"]
    rows = recorded("growth")["processes"]
    first, *_, last = [
        (row["processes"], row["seconds"]["value"]) for row in rows if row["processes"] > 1
    ]
    yield page_text.CORPUS_AFTER.format(
        start=(last[1] - first[1]) / (last[0] - first[0]),
        alone=rows[0]["seconds"]["value"],
        documents=rows[0]["documents"],
        capacity=capacity,
        text=SERVICE.text,
        days=1e9 / capacity / 86400,
    )


def loading_section(rates: Rates) -> Iterator[str]:
    """Yield the section on loading."""
    yield page_text.LOADING
    rows = []
    small = replace(RUNS[0], name="paper's 100M", trunk=PAPER_100M, context=256, micro_batch=64)
    one = replace(RUNS[0], name="paper, one device", accelerators=1)
    for run in (one, RUNS[0], small, RUNS[1]):
        found = model.loading(run, CORPUS, rates, MACHINE, STORAGE)
        rows.append(
            [run.name, short(found["ids"]), f"{found['times']:.0f}", f"{found['cores']:.2f}",
             f"{found['core_share']:.1%}", short(found["reads"]), f"{found['read_share']:.1%}"]
        )  # fmt: skip
    head = ["run", "ids/s per device", "times sampled", "cores per device", "share of its cores"]
    yield table([*head, "reads/s per node", "share of its disks"], rows)
    yield page_text.LOADING_AFTER


def training_section() -> Iterator[str]:
    """Yield the section on memory, checkpoints and failures."""
    yield page_text.TRAINING
    paper, large = RUNS
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
        parts = model.device_memory(run)
        cells = [size(parts[key]) for key in ("state", "gathered", "activations", "logits", "all")]
        rows.append([name, *cells, f"{model.communication(run, MACHINE):.2f}"])
    head = ["per device", "weights, gradients, moments", "gathered", "activations", "logits", "all"]
    yield table([*head, "communication to compute"], rows)
    yield page_text.FAILURES.format(start=MACHINE.start / 60)
    rows = []
    fragile = replace(MACHINE, failure_hours=MACHINE.failure_hours / 10)
    for run, machine, name in (
        (RUNS[0], MACHINE, RUNS[0].name),
        (RUNS[1], MACHINE, RUNS[1].name),
        (RUNS[1], fragile, "10T, ten times as many failures"),
        (replace(RUNS[1], accelerators=16384), MACHINE, "10T on 16,384"),
    ):
        found = model.training(run, machine, STORAGE)
        hourly = model.training(run, machine, STORAGE, every=3600.0)
        rows.append(
            [name, f"{run.accelerators:,}", span(found["days"] * 86400), size(found["checkpoint_bytes"]),
             span(found["save"]), span(found["restart"]), span(found["failure_hours"] * 3600), f"{found['failures']:.2g}",
             span(found["every"]), f"{found['lost']:.2%}", f"{hourly['lost']:.2%}", f"${found['dollars']:,.0f}"]
        )  # fmt: skip
    head = ["run", "devices", "work", "checkpoint", "time to save", "time to restart"]
    head += ["time between failures", "failures"]
    yield table([*head, "best interval", "time lost", "lost, saved hourly", "cost"], rows)
    wordy = replace(large, ids=large.ids * paper.actions_per_token / large.actions_per_token)
    days = [model.training(run, MACHINE, STORAGE)["days"] for run in (large, wordy)]
    yield page_text.TRAINING_AFTER.format(
        days=days, ratios=(large.actions_per_token, paper.actions_per_token)
    )


def serving_section(rates: Rates) -> Iterator[str]:
    """Yield the section on serving."""
    yield filled(
        page_text.SERVING,
        prompt=SERVICE.prompt,
        text=SERVICE.text,
        more=SERVICE.actions_per_token - 1,
    )
    rows = []
    for trunk in (PAPER_300M, LLAMA_8B):
        base = serving.fleet(trunk, SERVICE, MACHINE, rates, "none")
        for mask, name in zip(serving.MASKS, MASK_NAMES, strict=True):
            found = serving.fleet(trunk, SERVICE, MACHINE, rates, mask)
            rows.append(
                [f"{trunk.name}, {name}", span(found["step"]), f"{found['capacity']:.1f}",
                 f"{found['price'] / base['price']:.2f}", f"{found['replicas']}",
                 f"{found['p50']:.2f}, {found['p99']:.2f} s", f"${found['dollars_million']:.2f}"]
            )  # fmt: skip
    head = ["", "step, full batch", "requests/s per device", "price vs. left to right", "devices"]
    yield table([*head, "p50, p99", "cost of a million requests"], rows)
    rate = serving.fleet(LLAMA_8B, SERVICE, MACHINE, rates, "marks")["actions"]
    yield page_text.SERVING_AFTER
    yield mask_table()
    small = [
        elsewhere("stories", f"full/late-1-marks-{n}")["written"]["ratio_to_baseline"]["value"]
        for n in (0, 1)
    ]
    yield page_text.SERVING_END.format(
        actions=rate, actions_us=1e6 / rate, ratios=[min(small), max(small)]
    )
    yield page_text.SERVER.format(**recorded("server"))
    yield server_table()
    one, inside, three = recorded("server")["arms"].values()
    more = [three[how]["of_bare"][0] / one[how]["of_bare"][0] - 1 for how in ("stream", "JSON")]
    lost = 1 - inside["stream"]["of_bare"][0]
    yield filled(page_text.SERVER_END, more=more, lost=lost)
    yield page_text.OTHERS
    rows = []
    for name, bandwidth, count, seconds, source in inputs.PUBLISHED:
        machine = replace(MACHINE, bandwidth=bandwidth)
        said = serving.engine(LLAMA_8B, SERVICE, machine, rates, "none")(count)
        rows.append([name, span(said), span(seconds), f"{seconds / said:.2f}", source])
    yield table(["Llama 8B on", "predicted", "published", "ratio", "source"], rows, numbers=False)
    yield page_text.MEMORY
    rows = []
    for trunk in (PAPER_300M, LLAMA_8B):
        for ratio in (1.02, 1.5):
            found = serving.memory_per_request(trunk, SERVICE, rates, "search", ratio)
            fit = serving.slots_that_fit(trunk, SERVICE, MACHINE, ratio)
            rows.append(
                [f"{trunk.name}, {ratio}", size(found["kv_text"]), size(found["kv_history"]),
                 size(found["boundary"]), size(found["canvas"]), f"{fit:,}"]
            )  # fmt: skip
    head = ["trunk, actions per token", "keys and values of the text", "of the history"]
    yield table([*head, "row of the mask", "canvas, with searches", "requests that fit"], rows)
    yield page_text.QUEUES.format(slots=SERVICE.slots)
    rows = []
    step = serving.engine(LLAMA_8B, SERVICE, MACHINE, rates, "marks")
    actions = SERVICE.text * SERVICE.actions_per_token
    most = serving.capacity(step, SERVICE.slots, actions)
    for load in (0.5, 0.7, 0.8, 0.9, 0.95):
        found = serving.replica(load * most, step, SERVICE, actions)
        wait = serving.waiting(load * most, actions * step(SERVICE.slots), SERVICE.slots)
        count = -(-SERVICE.requests // (load * most))
        rows.append(
            [f"{load:.0%}", f"{count:.0f}", f"{found['p50']:.2f} s", f"{found['p99']:.2f} s", span(wait)]
        )  # fmt: skip
    head = ["load of a device", "devices", "p50", "p99"]
    yield table([*head, "wait by M/M/c"], rows)
    yield page_text.QUEUES_AFTER


def sensitivities_section(rates: Rates) -> Iterator[str]:
    """Yield the section on other assumptions."""
    trunk = LLAMA_8B
    base = serving.fleet(trunk, SERVICE, MACHINE, rates, "none")
    ours = {"mask": "marks"}

    def line(name: str, rates: Rates = rates, service: Service = SERVICE,
             **options: Any) -> list[str]:  # fmt: skip
        found = serving.fleet(trunk, service, MACHINE, rates, **(ours | options))
        left = serving.fleet(trunk, service, MACHINE, rates, "none")
        return [
            name,
            f"{found['price'] / left['price']:.2f}",
            str(found["replicas"]),
            f"{found['p99']:.2f} s",
        ]

    slow = replace(rates, marks_row=rates.marks_row * 2, marks_step=rates.marks_step * 2)
    rows = [
        ["left to right", "1.00", str(base["replicas"]), f"{base['p99']:.2f} s"],
        line("1.02 actions per token, marks (our model)"),
        line("1.15", actions_per_token=1.15),
        line("1.30 (`paper`)", actions_per_token=1.30),
        line("1.50", actions_per_token=1.50),
        line("1.02, a host core no faster than this machine's", slow),
        line("1.02, half of vLLM's host work no longer hidden", overlap_lost=0.5),
        line("1.02, all of it", overlap_lost=1.0),
        line("1.02, 64 at a time", service=replace(SERVICE, slots=64)),
        line(
            "1.02, vLLM at half its published rate",
            service=replace(SERVICE, tokens_per_second=6250),
        ),
    ]
    yield page_text.SENSITIVE
    yield table(["Llama 8B", "price vs. left to right", "devices", "p99"], rows)
    yield page_text.REVISING.format(gap=elsewhere("stories", "infill")["actions"])


def inputs_section(rates: Rates) -> Iterator[str]:
    """Yield the section on inputs."""
    yield page_text.INPUTS
    rows = []
    for given in (MACHINE, STORAGE, CORPUS, SERVICE, rates):
        for each in fields(given):
            value = getattr(given, each.name)
            name = f"`{type(given).__name__}.{each.name}`"
            rows.append([name, f"{value:.4g}", each.metadata["unit"], each.metadata["source"]])
    yield table(["input", "value", "unit", "source"], rows, numbers=False)
    yield page_text.RUNS_TEXT
    head = ["run", "trunk", "parameters", "devices", "actions per token", "window, context", "MFU"]
    rows = [
        [run.name, run.trunk.name, short(run.trunk.parameters), f"{run.accelerators:,}",
         f"{run.actions_per_token}", f"{run.window:,}, {run.context:,}", f"{run.mfu or MACHINE.mfu}"]
        for run in RUNS
    ]  # fmt: skip
    yield table(head, rows)


def page() -> str:
    """Return the page."""
    rates = Rates.load()
    parts = [
        page_text.INTRODUCTION.format(paper_ids=RUNS[0].ids / 1e9),
        *data_section(rates),
        *loading_section(rates),
        *training_section(),
        *corpus_section(rates),
        *serving_section(rates),
        *sensitivities_section(rates),
        page_text.NOT_NEEDED,
        *trust_section(),
        *inputs_section(rates),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    for name, figure_ in figures().items():
        (PAGE.parents[1] / "img" / name).write_text(figure_, "utf-8")
