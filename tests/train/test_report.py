"""Reports of a run: complete lines, truncated at a restart, and figures a person can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from transformers import TrainerControl, TrainerState, TrainingArguments

from reviser.train.report import TerminalBar, append_line, truncate_log

texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["\x85", "a\u2028b\r"])


def counted(step: int) -> dict[str, Any]:
    return {"step": step, "loss": 1.5, "ids_seen": 10 * step}


@given(
    records=st.lists(st.tuples(st.integers(0, 9), texts), max_size=12),
    checkpoint=st.integers(0, 9),
    torn=st.binary(max_size=6).map(lambda cut: cut.replace(b"\n", b"")),
)
def test_a_restart_finds_the_lines_up_to_its_checkpoint_whatever_they_hold(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[int, str]],
    checkpoint: int,
    torn: bytes,
) -> None:
    path = tmp_path_factory.getbasetemp() / "samples.jsonl"
    path.unlink(missing_ok=True)
    lines = [{"step": step, "text": text} for step, text in records]
    for line in lines:
        append_line(path, line)
    with path.open("ab") as file:
        file.write(torn)  # what a kill left of a line
    assert truncate_log(path, checkpoint, last=100) == {}
    kept = [line for line in lines if line["step"] <= checkpoint]
    assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == kept
    assert [p.name for p in path.parent.glob("samples*")] == ["samples.jsonl"]


def test_a_restart_goes_on_with_the_counts_of_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for line in (counted(4), counted(6), {"step": 6, "eval_nll": 1.0}, counted(8)):
        append_line(path, line)
    assert truncate_log(path, 6, last=12) == counted(6)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [counted(4), counted(6), {"step": 6, "eval_nll": 1.0}]
    assert truncate_log(path, 0, last=12) == {}
    assert path.read_text() == ""
    assert truncate_log(tmp_path / "missing.jsonl", 4, last=8) == {}


def test_a_finished_run_logs_its_last_evaluation_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    told = [counted(6), {"step": 6, "eval_nll": 2.0}, counted(8)]
    for line in (*told, {"step": 8, "eval_nll": 1.0}):
        append_line(path, line)
    assert truncate_log(path, 8, last=8) == counted(8)
    assert [json.loads(line) for line in path.read_text().splitlines()] == told


@pytest.fixture
def arguments(tmp_path: Path) -> TrainingArguments:
    return TrainingArguments(output_dir=str(tmp_path / "checkpoints"), use_cpu=True)


def state(step: int, **fields: Any) -> TrainerState:
    return TrainerState(global_step=step, max_steps=12, **fields)


def test_without_a_terminal_there_is_a_line_per_log_and_evaluation(
    arguments: TrainingArguments, capsys: pytest.CaptureFixture[str]
) -> None:
    bar, control = TerminalBar(), TrainerControl()
    metrics = {}
    for name, nll in {"own": 2.0, "append": 1.0}.items():
        groups = {"insert": nll - 0.5, "move": 0.5, "stop": 0.0, "operator": 0.0}
        metrics |= {f"eval_{name}_{group}_nll": part for group, part in groups.items()}
        metrics |= {f"eval_{name}_nll": nll, f"eval_{name}_nll_95": 0.25}
        metrics[f"eval_{name}_cut"] = 0.125 if name == "append" else 0.0
    bar.on_train_begin(arguments, state(0), control)
    bar.on_step_end(arguments, state(1), control)
    for step in (1, 2):
        bar.on_log(arguments, state(step), control, logs={"loss": 1.0, "ids_per_second": 12.0})
    bar.on_evaluate(arguments, state(5, is_world_process_zero=False), control, metrics=metrics)
    bar.on_evaluate(arguments, state(5), control, metrics=metrics)
    bar.stop()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "step 1 of 12: 1.000 nats per id, 12 ids/s",
        "step 2 of 12: 1.000 nats per id, 12 ids/s",
        "step 5, own: 2.000 +- 0.250 nats per text token (insert 1.500, move 0.500)",
        "step 5, append: 1.000 +- 0.250 nats per text token (insert 0.500, move 0.500);"
        " 12% of the texts cut to fit the context",
    ]
