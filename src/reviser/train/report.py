"""Progress reports of a run: log.jsonl, samples.jsonl, and a bar in the terminal."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from reviser.files import write_whole
from reviser.train.trainer import GROUPS


class LogWriter(TrainerCallback):
    """Callback that appends every log to a file, one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Log before every checkpoint, so that a restart has the counts and no NaN is saved."""
        control.should_log |= control.should_save

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Write one line, without the Trainer's epoch, which counts micro-batches as samples."""
        logs = given["logs"]
        if state.is_world_process_zero and "train_runtime" not in logs:
            kept = {name: value for name, value in logs.items() if name != "epoch"}
            append_line(self._path, {"step": state.global_step, **kept})


class TerminalBar(TrainerCallback):
    """Steps, loss and time left on standard error; without a terminal, a line per log."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        self._console = console
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("training", figures="")

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Show the bar."""
        if state.is_world_process_zero:
            self._progress.update(self._task, total=state.max_steps, completed=state.global_step)
            self._progress.start()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Advance the bar."""
        self._progress.update(self._task, completed=state.global_step)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Show the newest loss or reward; without a terminal, print a line."""
        logs = given["logs"]
        if "loss" in logs:
            first = f"reward {logs['reward']:.3f}" if "reward" in logs else None
            first = first or f"{logs['loss']:.3f} nats per id"
            figures = f"{first}, {logs['ids_per_second']:,.0f} ids/s"
            self._progress.update(self._task, figures=figures)
            if not self._console.is_terminal:
                self.print(f"step {state.global_step} of {state.max_steps}: {figures}")

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Print the held-out figures above the bar."""
        metrics: dict[str, float] = given["metrics"] if state.is_world_process_zero else {}
        for key in (key for key in metrics if key.endswith("_nll_95")):
            name = key.removesuffix("_nll_95")
            parts = {part: metrics[f"{name}_{part}_nll"] for part in GROUPS}
            by_group = ", ".join(f"{part} {nll:.3f}" for part, nll in parts.items() if nll)
            line = f"{metrics[f'{name}_nll']:.3f} +- {metrics[key]:.3f} nats per text token"
            cut = metrics[f"{name}_cut"]
            line += f" ({by_group})"
            line += f"; {cut:.0%} of the texts cut to fit the context" * (cut > 0)
            self.print(f"step {state.global_step}, {name.removeprefix('eval_')}: {line}")
        if "eval_solved" in metrics:
            line = f"{metrics['eval_solved']:.1%} of the held-out prompts solved (95 % interval"
            line += f" {metrics['eval_solved_low']:.1%} to {metrics['eval_solved_high']:.1%})"
            self.print(f"step {state.global_step}: {line}")
        if "eval_reward" in metrics:
            line = f"reward {metrics['eval_reward']:.3f}"
            self.print(f"step {state.global_step}, held_out: {line}")

    def print(self, line: str) -> None:
        """Print a line above the bar, in the main process."""
        if os.environ.get("RANK", "0") == "0":
            self._console.print(line, soft_wrap=True)

    def stop(self) -> None:
        """Stop updating the bar and restore the terminal."""
        self._progress.stop()


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Add one JSON object to a file of lines."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def truncate_log(path: Path, step: int, *, last: int) -> dict[str, Any]:
    """Drop the lines that a restart at a step will write again; return the last line with counts.

    These are all lines after the step, and the lines that the end of a run adds to its last step.
    """
    if not path.is_file():
        return {}
    kept = []
    # Not `splitlines`, which also splits at characters that a text may contain; and as bytes,
    # because the last line may end within a character.
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:  # a machine that crashed can leave garbage
            break
        if record["step"] <= step and (record["step"] < last or "ids_seen" in record):
            kept.append(record)
    write_whole(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in kept))
    return next((r for r in reversed(kept) if "ids_seen" in r), {})
