"""Golden files: what the shipped models, commands and server do today, kept in tests/golden.

python -m support.golden [GROUP ...] [--write]

Each group is a function that does real work and returns JSON; its file has what it returned when
it was last written. Numbers may differ by `TOLERANCE`, everything else is equal. A change that is
meant to alter behaviour writes the files again in the same commit, and the commit says why. Models
compute in float32, because results in bfloat16 depend on the processor and on the batch.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "golden"
TOLERANCE = 2e-3
FLOAT32 = 'dtype="float32"'
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
"""Sums of several threads are rounded in another order."""
BEGINNINGS = ("Ben had a red ball.", "Once upon a time, there was a little dog",
              "Tom and his mom went to the", "One day, Lily found a big box.", "")  # fmt: skip
GAPS = (
    "Ben went to the park.{} Then he ran home.",
    "Lily saw a {} in the garden. It was {} and she laughed.",
    "{} They were very tired. They went to bed.",
    "Tom took his red ball to the park.{} Tom was sad. His mom got him a new ball.",
    "Once upon a time, there was a cat.{}",
)


def changes_of(revision: Any) -> dict[str, Any]:
    """Return what a revision changed, and how sure the model was."""
    rows = [
        [each.start, each.end, each.after, each.source, each.confidence, each.gain]
        for each in revision.changes
    ]
    return {"text": revision.text, "actions": revision.actions, "changes": rows}


def revised(model: Any) -> list[dict[str, Any]]:
    """Revise the 40 drafts."""
    from reviser.markup import locked_spans

    found = []
    for options in json.loads((FOLDER / "drafts.json").read_text("utf-8")):
        locked = list(options.pop("locked", []))
        if markup := options.pop("markup", None):
            locked += locked_spans(options["draft"], markup)
        locked = [each if isinstance(each, str) else tuple(each) for each in locked]
        found.append(changes_of(model.revise(locked=locked, **options)))
    return found


def opened(name: str) -> Any:
    """Open a shipped model."""
    import reviser

    return reviser.load(ROOT / "models" / name, dtype="float32")


def save_editor(folder: str | Path) -> None:
    """Save an editor that acts: random weights, with every kind of action."""
    import torch

    from reviser.core.actions import ActionVocab
    from reviser.models import trunks
    from support import small_tokenizers

    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(
        tokenizer, operators=("delete", "replace", "span_delete", "swap"), max_move=16, marks=True,
        search=True,
    )  # fmt: skip
    config = trunks.TrunkConfig(
        architecture="llama", layers=2, width=64, heads=2, mlp_width=96, context=512
    )
    trunk = trunks.build(config, vocab, seed=1)
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.mul_(3)  # larger weights, so that the actions vary
    trunks.save(trunk, tokenizer, vocab, folder)
    Path(folder, "editing.json").write_text('{"edit_probabilities": true}')


def acting_editor() -> Any:
    """Return how an editor that acts revises."""
    import reviser

    found = []
    with tempfile.TemporaryDirectory() as folder:
        save_editor(folder)
        with reviser.load(folder, dtype="float32") as model:
            for n, least in enumerate([0.0, 0.98] * 6):
                revision = model.revise(
                    " ".join(BEGINNINGS[: 1 + n % 4]), locked=["Ben"], window=48, context=12,
                    instruction="Make it short." * (n % 3), min_edit_probability=least,
                    temperature=0.9 * (n % 2), seed=11, max_actions=40,
                )  # fmt: skip
                histories = [each.trajectory.to_dict() for each in revision.rollouts]
                found.append(changes_of(revision) | {"rollouts": histories})
    return found


def writer() -> Any:
    """Return 10 texts and 5 infills of models/stories-revise, with their streamed edits."""
    from reviser import Continue, Infill

    def write(task: Any, **settings: Any) -> dict[str, Any]:
        stream = model.stream(task, **settings)
        edits = [[each.offset, each.removed, each.inserted] for each in stream]
        rollout = stream.rollout()
        return {"text": rollout.text, "stop": rollout.stop_reason, "logprob": sum(rollout.logprobs),
                "statistics": vars(rollout.statistics), "stream": edits,
                "actions": list(rollout.trajectory.history(model.engine.vocab))}  # fmt: skip

    with opened("stories-revise") as model:
        texts = [
            write(Continue(BEGINNINGS[n % 5]), seed=n, temperature=0.9 * (n % 4 > 0),
                  max_actions=96, unit=("char", "utf16")[n % 2])
            for n in range(10)
        ]  # fmt: skip
        infills = [write(Infill(GAPS[n % 5]), seed=n, max_actions=64) for n in range(5)]
    return {"texts": texts, "infills": infills}


def training() -> Any:
    """Return the losses of 10 steps of the smoke recipe."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        words = ["train", "recipes/smoke.yaml", "-o", str(run)]
        for setting in ("steps=10", "log_every=2", "evaluate_every=10"):
            words += ["--set", f"training.{setting}"]
        command = [sys.executable, "-m", "reviser", *words]
        subprocess.run(command, cwd=ROOT, env=ONE_THREAD, check=True, capture_output=True)
        rows = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    kept = ("loss", "nll")
    return [{k: v for k, v in row.items() if any(part in k for part in kept)} for row in rows]


EDITOR = f"-m editor --engine-option {FLOAT32} --max-actions 12"
WRITER = f"-m models/stories-revise --engine-option {FLOAT32}"
WRONG = "Tom went too the zoo. The lion was verry happy.\n"
COMMANDS: list[tuple[str, str]] = [  # words after `reviser`, standard input
    (f"revise {EDITOR}", WRONG),
    (f"revise {EDITOR}", ""),
    (f"revise {EDITOR} --format criticmarkup", WRONG),
    (f"revise {EDITOR} --format diff letter.txt", ""),
    (f"revise {EDITOR} --format lsp letter.txt", ""),
    (f"revise {EDITOR} --lock verry --lock zoo", WRONG),
    (f"revise {EDITOR} page.md", ""),
    (f"revise {EDITOR} --markup none page.md", ""),
    (f"revise {EDITOR} --check letter.txt right.txt", ""),
    (f"revise {EDITOR} --check right.txt", ""),
    (f"revise {EDITOR} --in-place letter.txt page.md", ""),
    ("revise -m editor missing.txt", ""),
    ("revise letter.txt", ""),
    ("revise -m models/stories-revise letter.txt", ""),
    ("revise -m models/storys-revise letter.txt", ""),
    (f"revise {EDITOR} --input drafts.jsonl --output out.jsonl", ""),
    (f"generate Ben {WRITER} --seed 3 --max-actions 40", ""),
    (f"generate {WRITER} --temperature 0 --max-actions 30", "One day, a cat"),
    ("generate Ben -m models/stories-revise --temperature -1", ""),
    ("generate Ben -m models/stories-revise --temprature 1", ""),
    (f"infill Tom{{}}happy. {WRITER} --seed 2 --max-actions 30", ""),
    ("infill Tom. -m models/stories-revise", ""),
    ("replay missing.json -o page.html", ""),
    ("info editor", ""),
    ("data corrupt right.txt --split line -o pairs.jsonl", ""),
    ("train recipes/smoke.yaml -o run --set training.stps=3", ""),
    ("convert missing.pt -o model --tokenizer models/stories-revise", ""),
    ("nonsense", ""),
]
FILES = {
    "letter.txt": WRONG,
    "right.txt": "The sun was bright. The bird sang.\n",
    "page.md": "# A stroy\n\nTom went too the `zoo`. The lion was verry happy.\n",
    "drafts.jsonl": '{"draft": "The lion was verry happy."}\n{"draft": 3}\n{"draft": "Hi."}\n',
}


def commands() -> Any:
    """Return exit status, output and written files of 30 command lines."""
    from click.testing import CliRunner

    from reviser.cli import main

    found = []
    for line, given in COMMANDS:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            for name, text in FILES.items():
                Path(name).write_text(text, encoding="utf-8")
            for name in ("models", "recipes"):
                Path(name).symlink_to(ROOT / name)
            save_editor("editor")
            result = CliRunner().invoke(main, line.split(), input=given)
            written = {
                path.name: path.read_text("utf-8") for path in sorted(Path().glob("*.*"))
                if path.suffix in (".txt", ".md", ".jsonl")
            }  # fmt: skip
        output = {k: v for k, v in written.items() if v != FILES.get(k)}
        for name, text in output.items():
            if name == "out.jsonl":
                output[name] = [_revision(json.loads(row)) for row in text.splitlines()]
        row = {"command": line, "status": result.exit_code, "stdout": result.stdout,
               "stderr": _without_times(result.stderr), "files": output}  # fmt: skip
        found.append(row)
    return found


def _revision(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k in ("text", "changes", "error", "line")}


def _without_times(text: str) -> str:
    return re.sub(r"[\d.]+ s\b", "N s", text)


REQUESTS: dict[str, list[tuple[str, str, Any]]] = {
    "stories-revise": [
        ("GET", "/health", None),
        ("GET", "/ready", None),
        ("GET", "/v1/models", None),
        ("GET", "/nothing", None),
        ("GET", "/v1/generate", None),
        ("POST", "/v1/generate", {"prompt": BEGINNINGS[0], "seed": 1, "max_actions": 40}),
        ("POST", "/v1/generate", {"prompt": "Ben", "max_actions": 12, "stream": True}),
        ("POST", "/v1/generate", {"prompt": "Ben", "temperature": -1}),
        ("POST", "/v1/generate", {"prompt": "Ben", "temprature": 1}),
        ("POST", "/v1/generate", {"prompt": 5}),
        ("POST", "/v1/infill", {"text": GAPS[0], "seed": 4, "max_actions": 40}),
        ("POST", "/v1/infill", {"text": "No gap."}),
        ("POST", "/v1/infill", {"text": GAPS[1], "seed": 2, "max_actions": 30, "stream": True}),
        ("POST", "/v1/revise", {"draft": "Tom."}),
        ("POST", "/v1/completions", {"prompt": "Ben had", "max_tokens": 20, "seed": 1}),
    ],
    "editor": [
        ("POST", "/v1/revise", {"draft": WRONG, "max_actions": 12}),
        ("POST", "/v1/revise", {"draft": WRONG, "locked": ["verry"], "max_actions": 12}),
        ("POST", "/v1/revise", {"draft": WRONG, "stream": True, "max_actions": 12}),
        ("POST", "/v1/revise", {"draft": WRONG, "locked": [[9, 3]]}),
    ],
}


@contextmanager
def served(name: str) -> Iterator[Any]:
    """Run `reviser serve` with a shipped model, or the random editor, and yield a client."""
    import httpx2

    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as folder:
        model = f"models/{name}"
        if name == "editor":
            model = f"{folder}/editor"
            save_editor(model)
        words = ["serve", model, "--port", "0", "--engine-option", FLOAT32]
        command = [sys.executable, "-m", "reviser", *words]
        process = subprocess.Popen(command, cwd=ROOT, env=ONE_THREAD, stderr=log)
        try:
            until, text = time.monotonic() + 120, ""
            while '"state": "ready"' not in text:
                assert process.poll() is None, text
                assert time.monotonic() < until, text
                time.sleep(0.1)
                log.seek(0)
                text = log.read().decode()
            [url] = re.findall(r"http://127.0.0.1:\d+", text)
            with httpx2.Client(base_url=url, timeout=60) as client:
                yield client
        finally:
            process.terminate()
            process.wait(30)


def http() -> Any:
    """Return the answers to 20 requests."""
    found = []
    for name, requests in REQUESTS.items():
        with served(name) as client:
            for method, path, body in requests:
                answer = client.request(method, path, **({} if body is None else {"json": body}))
                row: dict[str, Any] = {"request": f"{method} {path}", "body": body,
                                       "status": answer.status_code}  # fmt: skip
                row["type"] = answer.headers["content-type"]
                streamed = row["type"].startswith("text/event-stream")
                row["answer"] = (
                    [_event(part) for part in answer.text.split("\n\n")] if streamed
                    else _known(answer.json())
                )  # fmt: skip
                found.append(row)
    return found


def _event(text: str) -> Any:
    """Return a server-sent event, with its data as JSON."""
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    data = fields.get("data", "")
    return fields | {"data": _known(json.loads(data)) if data.startswith("{") else data}


def _known(value: Any) -> Any:
    """Return an answer without what differs each time: numbers, times and versions."""
    if isinstance(value, dict):
        hidden = ("id", "created", "versions", "provenance")
        return {k: _known(v) for k, v in value.items() if k not in hidden}
    return [_known(each) for each in value] if isinstance(value, list) else value


GROUPS: dict[str, Callable[[], Any]] = {
    "acting-editor": acting_editor,
    "writer": writer,
    "commands": commands,
    "http": http,
    "training": training,
}


def differences(wanted: Any, got: Any, place: str = "") -> Iterator[str]:
    """Yield each place where two values differ, with both."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in {**wanted, **got}:
            yield from differences(wanted.get(key), got.get(key), f"{place}/{key}")
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for n, (a, b) in enumerate(zip(wanted, got, strict=True)):
            yield from differences(a, b, f"{place}/{n}")
    elif isinstance(wanted, float) and isinstance(got, float | int):
        if not math.isclose(wanted, got, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield f"{place}: {wanted} became {got}"
    elif wanted != got:
        yield f"{place}: {wanted!r} became {got!r}"


def check(group: str) -> list[str]:
    """Run a group and return how it differs from its file."""
    got = json.loads(json.dumps(GROUPS[group]()))
    return list(differences(json.loads((FOLDER / f"{group}.json").read_text("utf-8")), got))


def write(group: str) -> None:
    """Run a group and write its file, one item per line, with numbers rounded."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return round(value, 5)
        if isinstance(value, dict):
            return {key: rounded(each) for key, each in value.items()}
        return [rounded(each) for each in value] if isinstance(value, list) else value

    found = rounded(json.loads(json.dumps(GROUPS[group]())))

    def lines(rows: list[Any]) -> str:
        return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"

    text = (
        lines(found)
        if isinstance(found, list)
        else (
            "{\n"
            + ",\n".join(f"{json.dumps(k)}: {lines(rows)}" for k, rows in found.items())
            + "\n}"
        )
    )
    (FOLDER / f"{group}.json").write_text(text + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Check or write groups; return 0 if none differs."""
    import torch

    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    torch.set_num_threads(1)
    is_writing = "--write" in arguments
    total = 0
    for group in [each for each in arguments if each != "--write"] or list(GROUPS):
        began = time.process_time()
        found: list[str] = []
        if is_writing:
            write(group)
        else:
            found = check(group)
        seconds = time.process_time() - began
        outcome = "written" if is_writing else f"{len(found)} differences"
        print(f"{group}: {outcome} ({seconds:.0f} s)", *found[:20], sep="\n  ", flush=True)
        total += len(found)
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
