"""Train the adapter and the output rows of the control ids.

    python train.py units base -o run

The run goes through the training units in chunks. The first pass over a chunk computes the outputs
of the frozen layers and writes them to a cache on disk; the further passes read it. A checkpoint
is written every few minutes. To resume, start the same command again: the weights are then
exactly what they would have been without the interruption.

`run/log.jsonl` holds the losses and the speed, `run/curve.jsonl` the held-out measures, and
`run/adapter` the averaged weights in PEFT's format.
"""

import argparse
import hashlib
import json
import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from examples import (
    CONTENT,
    DETECTION,
    NONE,
    PARTS,
    Example,
    draft_of,
    encode,
    encode_rewriting,
    open_tokenizer,
)
from model import Proofreader
from torch import Tensor

from reviser.models.editing import Editing

ACTION_BIAS = 12.0
"""Nats that the actions get at the start of a run."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides the result of a run, besides its data."""

    seed: int = 0
    learns: str = "edits"
    """What the model writes: "edits", or for the baseline the whole text, "rewriting"."""
    longest: int = 256
    """Ids of the longest example; longer ones are left out."""
    delay: int = 3
    frozen: int = 20
    rank: int = 64
    alpha: float = 64.0
    chunk: int = 2048
    """Units that are cached together."""
    passes: int = 2
    """Passes over a chunk before the next one."""
    batch: int = 512
    """Ids in a batch, padding included."""
    learning_rate: float = 1e-3
    warmup: int = 30
    decay_from: int = 1_000_000
    """Step from which the learning rate falls linearly to zero, over `decay` steps."""
    decay: int = 400
    detection_weight: float = 1.0
    language_weight: float = 0.5
    """Weight of the divergence from the base model's next-token probabilities in drafts. Without
    it, training slowly spoils the likelihoods that verify suggestions."""
    average: float = 0.995
    """Decay of the moving average of the weights."""
    held_out: int = 300


class Units:
    """The units of a file, parsed when needed."""

    def __init__(self, path: Path) -> None:
        self.lines = path.read_bytes().splitlines()

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return json.loads(self.lines[index])


@dataclass(frozen=True)
class Batch:
    """Examples of about the same length, padded on the right."""

    ids: Tensor
    targets: Tensor
    parts: Tensor
    edits: Tensor
    sizes: list[int]
    seen: int
    """Ids without padding."""


def collate(examples: Sequence[Example]) -> Batch:
    """Pad examples to one length."""
    length = max(len(example.ids) for example in examples)
    ids, targets, parts, edits = (
        np.full((len(examples), length), fill, np.int64) for fill in (0, -1, NONE, 0)
    )
    for row, example in enumerate(examples):
        size = len(example.ids)
        ids[row, :size], targets[row, :size] = example.ids, example.targets
        parts[row, :size], edits[row, :size] = example.parts, example.edits
    return Batch(
        *(torch.from_numpy(array) for array in (ids, targets, parts, edits)),
        sizes=[example.size for example in examples],
        seen=sum(len(example.ids) for example in examples),
    )


def batches(examples: Sequence[Example], limit: int) -> list[Batch]:
    """Sort examples by length and cut them into batches of at most `limit` ids."""
    ordered = sorted(examples, key=lambda example: len(example.ids))
    found, part = [], []
    for example in ordered:
        if part and (len(part) + 1) * len(example.ids) > limit:
            found.append(collate(part))
            part = []
        part.append(example)
    return [*found, collate(part)]


class Trainer:
    """A training run and its state on disk."""

    def __init__(self, units: Path, base: Path, output: Path, settings: Settings) -> None:
        self.settings, self.output = settings, output
        output.mkdir(parents=True, exist_ok=True)
        self.vocab, self.codec, newline = open_tokenizer(base)
        self.units, self.held_out_units = (
            Units(units / name) for name in ("train.jsonl", "held_out.jsonl")
        )
        self.model = Proofreader(
            base,
            self.vocab,
            newline=newline,
            frozen=settings.frozen,
            rank=settings.rank,
            alpha=settings.alpha,
            seed=settings.seed,
        )
        # The output rows start 12 nats below the tokens, so they get a higher rate.
        groups = [
            {"params": list(self.model.lora.values()), "times": 1.0},
            {"params": [self.model.rows], "times": 3.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0)
        self.average = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        self.step = self.chunk = self.number = self.batch = self.seen = 0
        self.cached: set[int] = set()
        self.cached_digest = ""
        if not self._load():
            self._raise_controls()

    # -- data ---------------------------------------------------------------------------------

    def examples(self, units: Units, epoch: int, indices: Sequence[int]) -> Iterator[Example]:
        """Yield the examples of some units; each depends on the seed, the epoch and its index."""
        for index in indices:
            unit = units[int(index)]
            rng = np.random.default_rng((self.settings.seed, epoch, int(index)))
            draft = draft_of(unit, rng)
            make = encode if self.settings.learns == "edits" else encode_rewriting
            example = make(self.vocab, self.codec, draft, unit["text"], delay=self.settings.delay)
            if len(example.ids) <= self.settings.longest:
                yield example

    def open_chunk(self) -> list[Batch]:
        """Return the batches of the current chunk and open its cache."""
        settings = self.settings
        per_epoch = max(1, len(self.units) // settings.chunk)
        epoch, number = divmod(self.chunk, per_epoch)
        order = np.random.default_rng((settings.seed, epoch)).permutation(len(self.units))
        indices = order[number * settings.chunk : (number + 1) * settings.chunk]
        found = batches(list(self.examples(self.units, epoch, indices)), settings.batch)
        rows = sum(batch.ids.numel() for batch in found)
        # A cache of other ids must not be read, such as one that an older version of the code made.
        digest = hashlib.sha256(b"".join(batch.ids.numpy().tobytes() for batch in found))
        self.digest = digest.hexdigest()
        self.starts = np.cumsum([0, *(batch.ids.numel() for batch in found)])
        path = self.output / "cache.f16"
        shape = (rows, self.model.width)
        is_whole = path.is_file() and path.stat().st_size == 2 * rows * self.model.width
        if not is_whole or self.cached_digest != self.digest:
            self.cached = set()
        self.cache = np.memmap(path, np.float16, "r+" if is_whole else "w+", shape=shape)
        return found

    def lower(self, number: int, batch: Batch) -> Tensor:
        """Return what the adapted layers read, from the cache if it is there."""
        part = slice(int(self.starts[number]), int(self.starts[number + 1]))
        shape = (*batch.ids.shape, self.model.width)
        if number in self.cached:
            return torch.from_numpy(np.array(self.cache[part])).view(shape)
        hidden = self.model.lower(batch.ids)
        if self.settings.passes > 1:
            self.cache[part] = hidden.view(-1, self.model.width).numpy()
            self.cached.add(number)
        return hidden

    # -- steps --------------------------------------------------------------------------------

    def rate(self) -> float:
        """Return the learning rate of this step."""
        settings = self.settings
        warm = min(1.0, (self.step + 1) / settings.warmup)
        left = 1.0 - (self.step - settings.decay_from) / settings.decay
        return settings.learning_rate * min(warm, max(0.0, min(1.0, left)))

    def losses(self, hidden: Tensor, batch: Batch) -> dict[str, tuple[Tensor, int]]:
        """Return the summed loss and the number of targets of each part."""
        first = self.vocab.tokens
        is_detection = batch.parts == DETECTION
        is_action = batch.parts > DETECTION
        output = self.model.upper(hidden)
        found = {"language": self.divergence(hidden, output, batch)}
        logits = self.model.control_logits(output[is_detection])
        loss = F.cross_entropy(logits, batch.targets[is_detection] - first, reduction="sum")
        found["detection"] = (loss, int(is_detection.sum()))
        each = F.cross_entropy(
            self.model.logits(output[is_action]), batch.targets[is_action], reduction="none"
        )
        about = batch.parts[is_action]
        for name, part in PARTS.items():
            if part != DETECTION:
                found[name] = (each[about == part].sum(), int((about == part).sum()))
        return found

    def divergence(self, hidden: Tensor, output: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Return the summed divergence from the base model, and the number of positions.

        Every third row is compared, at every third token of its draft; which ones depends on the
        step alone.
        """
        turn = self.step % 3
        rows = torch.arange(turn % len(batch.ids), len(batch.ids), 3)
        # The draft's tokens begin after begin, delimiter and mark; the last one predicts none.
        ends = 2 + torch.tensor(batch.sizes)[rows]
        columns = torch.arange(2 + turn, batch.ids.shape[1], 3)
        row, column = (columns[None] < ends[:, None]).nonzero(as_tuple=True)
        if not len(row) or not self.settings.language_weight:
            return output.new_zeros(()), 0
        with torch.no_grad():
            base = self.model.upper(hidden[rows], adapted=False)
            expected = (base[row, columns[column]] @ self.model.table.T).log_softmax(-1)
        found = (output[rows[row], columns[column]] @ self.model.table.T).log_softmax(-1)
        return F.kl_div(found, expected, reduction="sum", log_target=True), len(row)

    def learn(self, number: int, batch: Batch) -> dict[str, tuple[float, int]]:
        """Take one step and return the losses."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["times"] * self.rate()
        losses = self.losses(self.lower(number, batch), batch)
        weights = {
            "detection": self.settings.detection_weight,
            "language": self.settings.language_weight,
        }
        count = sum(n for name, (_, n) in losses.items() if name != "language")
        loss = sum(weights.get(name, 1.0) * part for name, (part, _) in losses.items()) / count
        assert isinstance(loss, Tensor)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.seen += batch.seen
        decay = min(self.settings.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, value in self.model.named_parameters():
                self.average[name].lerp_(value, 1 - decay)
        return {name: (part.item(), n) for name, (part, n) in losses.items()}

    def run(self, *, steps: int, save_seconds: float, log_every: int, evaluate_every: int) -> None:
        """Train up to a number of steps; a signal to terminate ends the run after a checkpoint."""
        stopped = []
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
        saved = logged = time.monotonic()
        sums: dict[str, list[float]] = {}
        ids = 0
        found = self.open_chunk()
        while self.step < steps and not stopped:
            if self.batch == len(found):
                self.batch, self.number = 0, self.number + 1
                if self.number == self.settings.passes:
                    self.chunk, self.number, self.cached = self.chunk + 1, 0, set()
                    (self.output / "cache.f16").unlink()
                    found = self.open_chunk()
            key = (self.settings.seed, self.chunk, self.number)
            number = int(np.random.default_rng(key).permutation(len(found))[self.batch])
            for name, (loss, count) in self.learn(number, found[number]).items():
                total = sums.setdefault(name, [0.0, 0.0])
                total[0], total[1] = total[0] + loss, total[1] + count
            ids += found[number].seen
            self.batch += 1
            now = time.monotonic()
            if self.step % log_every == 0:
                self._write("log.jsonl", {
                    "step": self.step, "ids": self.seen, "chunk": self.chunk, "pass": self.number,
                    **{name: round(a / max(1, b), 4) for name, (a, b) in sums.items()},
                    "rate": self.rate(), "ids_per_second": round(ids / (now - logged), 1),
                    "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                })  # fmt: skip
                sums, ids, logged = {}, 0, now
            if self.step % evaluate_every == 0:
                self._write("curve.jsonl", {"step": self.step, "ids": self.seen, **self.evaluate()})
                self._save_adapter()
                logged += time.monotonic() - now
            if time.monotonic() - saved > save_seconds:
                self.save()
                saved = time.monotonic()
        self.save()
        self._save_adapter()

    def _save_adapter(self) -> None:
        """Write the averaged weights, and how the model gives edit probabilities."""
        folder, delay = self.output / "adapter", self.settings.delay
        self.model.save_adapter(folder, self.average)
        if self.settings.learns != "edits":
            return
        Editing(
            edit_probabilities=True,
            label_delay=delay - 1,  # the first of these tokens is read in any case
            delimiters=delay,
            among_controls=True,
        ).save(folder)

    # -- held-out measures --------------------------------------------------------------------

    @cached_property
    def held_out(self) -> list[tuple[Batch, Tensor]]:
        """The held-out batches and what the adapted layers read of them."""
        indices = range(min(self.settings.held_out, len(self.held_out_units)))
        found = batches(list(self.examples(self.held_out_units, 0, indices)), self.settings.batch)
        return [(batch, self.model.lower(batch.ids)) for batch in found]

    def evaluate(self) -> dict[str, float]:
        """Return the measures of the averaged weights on held-out units."""
        kept = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        self._put(self.average)
        scores, labels = [], []
        sums = {name: [0.0, 0] for name in PARTS}
        right = edits = 0
        stop = self.vocab.stop
        with torch.no_grad():
            for batch, hidden in self.held_out:
                output = self.model.upper(hidden)
                for part, name in ((part, name) for name, part in PARTS.items()):
                    chosen = batch.parts == part
                    if part == DETECTION:
                        logits = self.model.control_logits(output[chosen])
                        target = batch.targets[chosen] - self.vocab.tokens
                        scores.append(1 - logits.softmax(-1)[:, stop - self.vocab.tokens])
                        labels.append(target != stop - self.vocab.tokens)
                    else:
                        logits, target = self.model.logits(output[chosen]), batch.targets[chosen]
                    sums[name][0] += float(F.cross_entropy(logits, target, reduction="sum"))
                    sums[name][1] += len(target)
                    if part == CONTENT:
                        # An edit is right if every one of its ids is.
                        rows = chosen.nonzero()[:, 0] * 256 + batch.edits[chosen]
                        hit = logits.argmax(-1) == target
                        for edit in rows.unique():
                            edits += 1
                            right += bool(hit[rows == edit].all())
        self._put(kept)
        found = {}
        if self.settings.learns == "edits":
            found = detection_measures(torch.cat(scores).numpy(), torch.cat(labels).numpy())
        found["correction"] = right / max(1, edits)
        found |= {f"loss_{name}": a / max(1, b) for name, (a, b) in sums.items()}
        return {name: round(float(value), 4) for name, value in found.items()}

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, value in self.model.named_parameters():
            value.copy_(values[name])

    # -- checkpoints --------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint; a kill at any moment leaves the old one or the new one."""
        self.cache.flush()
        state = {
            "settings": asdict(self.settings),
            "model": {name: value.detach() for name, value in self.model.named_parameters()},
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
            "at": [self.step, self.chunk, self.number, self.batch, self.seen],
            "cached": sorted(self.cached),
            "digest": self.digest,
        }
        path = self.output / "checkpoint.pt"
        part = path.with_suffix(".part")
        with open(part, "wb") as file:  # noqa: PTH123
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)

    @torch.no_grad()
    def _raise_controls(self) -> None:
        """Start the actions at about the logits of likely tokens instead of average ones.

        Outputs share a large mean. A multiple of it in a row acts as a bias, which Llama lacks.
        Without it, every action starts 12 nats below the tokens, and the first steps only close
        that gap.
        """
        vocab = self.vocab
        found = batches(list(self.examples(self.units, 0, range(32))), self.settings.batch)
        outputs = [self.model.upper(self.model.lower(b.ids))[b.parts > DETECTION] for b in found]
        mean = torch.cat(outputs).mean(0)
        for action in (vocab.stop, vocab.find, vocab.here, vocab.delete, vocab.replace):
            assert action is not None
            self.model.rows[action - vocab.tokens] += ACTION_BIAS * mean / mean.square().sum()
        self.average["rows"].copy_(self.model.rows)

    def _load(self) -> bool:
        path = self.output / "checkpoint.pt"
        if not path.is_file():
            return False
        state = torch.load(path, weights_only=True)
        # The schedule may change between sessions; everything else must stay the same.
        free = {"decay_from", "decay", "learning_rate", "held_out", "passes", "language_weight"}
        new = asdict(self.settings)
        changed = {k for k, v in state["settings"].items() if k not in free and new[k] != v}
        if changed:
            raise SystemExit(
                f"{path} was made with other settings: {', '.join(sorted(changed))}. Pass the same"
                " ones, or choose another output folder."
            )
        self._put(state["model"])
        self.average = state["average"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.chunk, self.number, self.batch, self.seen = state["at"]
        self.cached, self.cached_digest = set(state["cached"]), state.get("digest", "")
        return True

    def _write(self, name: str, record: dict[str, Any]) -> None:
        line = json.dumps({**record, "time": int(time.time())})
        with open(self.output / name, "a", encoding="utf-8") as file:  # noqa: PTH123
            print(line, file=file)
        print(line, flush=True)


def detection_measures(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return average precision, the best F0.5 and the recall at precision 0.8.

    >>> measures = detection_measures(np.array([0.9, 0.8, 0.1]), np.array([1, 0, 1]))
    >>> round(measures["ap"], 3), round(measures["recall_at_80"], 3)
    (0.833, 0.5)
    """
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(labels[order])
    precision = hits / np.arange(1, len(order) + 1)
    recall = hits / max(1, hits[-1])
    ap = float((precision * labels[order]).sum() / max(1, hits[-1]))
    f = 1.25 * precision * recall / np.maximum(1e-9, 0.25 * precision + recall)
    good = recall[precision >= 0.8]
    return {
        "ap": ap,
        "f05": float(f.max()),
        "f05_threshold": float(scores[order][int(f.argmax())]),
        "recall_at_80": float(good.max()) if len(good) else 0.0,
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("units", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--save-seconds", type=float, default=300.0)
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--evaluate-every", type=int, default=200)
    for name, value in asdict(Settings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    given = vars(parser.parse_args())
    settings = Settings(**{name: given.pop(name) for name in asdict(Settings())})
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    trainer = Trainer(given.pop("units"), given.pop("base"), given.pop("output"), settings)
    trainer.run(**given)


if __name__ == "__main__":
    main()
