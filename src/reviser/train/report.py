"""What a run tells on the way: log.jsonl, samples.jsonl, and a bar in the terminal."""

from __future__ import annotations

import json
import os
import time
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

SILENCE = 60.0
"""Seconds between two lines where no bar is shown."""


class JsonLines(TrainerCallback):
    """Appends every log to a file, one JSON object a line, in the main process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Log before every checkpoint: a restart finds the counts, and no broken loss is saved."""
        control.should_log |= control.should_save

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Write one line, without the Trainer's counts of what it takes for samples and epochs."""
        logs = given["logs"]
        if state.is_world_process_zero and "train_runtime" not in logs:
            kept = {name: value for name, value in logs.items() if name != "epoch"}
            append_line(self._path, {"step": state.global_step, **kept})


class TerminalBar(TrainerCallback):
    """Steps, loss and time left on standard error; without a terminal, a line now and then."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        self._console = console
        self._said = -SILENCE
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
        """Move it."""
        self._progress.update(self._task, completed=state.global_step)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Show the newest loss; without a terminal, now and then."""
        logs = given["logs"]
        if "loss" in logs:
            figures = f"{logs['loss']:.3f} nats per id, {logs['ids_per_second']:,.0f} ids/s"
            self._progress.update(self._task, figures=figures)
            now = time.monotonic()
            if not self._console.is_terminal and now - self._said > SILENCE:
                self._said = now
                self.say(f"step {state.global_step} of {state.max_steps}: {figures}")

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Print the held-out figures above the bar."""
        metrics: dict[str, float] = given["metrics"] if state.is_world_process_zero else {}
        for key in (key for key in metrics if key.endswith("_nll_95")):
            name = key.removesuffix("_nll_95")
            parts = {part: metrics[f"{name}_{part}_nll"] for part in GROUPS}
            shown = ", ".join(f"{part} {nll:.3f}" for part, nll in parts.items() if nll)
            line = f"{metrics[f'{name}_nll']:.3f} +- {metrics[key]:.3f} nats per text token"
            cut = metrics[f"{name}_cut"]
            line += f" ({shown})" + f"; {cut:.0%} of the texts cut to fit the context" * (cut > 0)
            self.say(f"step {state.global_step}, {name.removeprefix('eval_')}: {line}")

    def say(self, line: str) -> None:
        """Print a line above the bar, in the main process."""
        if os.environ.get("RANK", "0") == "0":
            self._console.print(line, soft_wrap=True)

    def stop(self) -> None:
        """Leave the bar as it is, and the terminal as it was."""
        self._progress.stop()


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Add one JSON object to a file of lines."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def cut_after(path: Path, step: int, *, last: int) -> dict[str, Any]:
    """Drop what a restart at a step will tell again; the last line left with counts.

    That is everything after the step, and what the end of a run tells of its last step.
    """
    if not path.is_file():
        return {}
    kept = []
    # A text may hold what `splitlines` takes for the end of a line, or end within a character.
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            record = json.loads(line)
        except ValueError:  # a machine that died may leave what was never written
            break
        if record["step"] <= step and (record["step"] < last or "ids_seen" in record):
            kept.append(record)
    write_whole(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in kept))
    return next((r for r in reversed(kept) if "ids_seen" in r), {})
