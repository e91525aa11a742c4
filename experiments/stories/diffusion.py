"""Masked diffusion (MDLM, Sahoo et al. 2024) on a recipe's own trunk, text and training budget.

Positions of a text are masked, and the trunk, with attention in both directions, predicts the
tokens there. Tokenizer, windows, their order and the optimizer are the recipe's. `--ids` is the
number of positions that the trunk reads in training, padding included: give it the `ids_seen` of
another arm, and training costs the same.

    python -m experiments.stories.diffusion train recipes/story.yaml --ids 100000000 -o runs/mdlm

Generation starts with only masks after each prompt (a file of `reviser lab prompts`) and fills them
in a fixed number of steps. `reviser lab eval` reads the output; no engine of the package can use
such a model.

    python -m experiments.stories.diffusion write runs/mdlm prompts/123.jsonl -o mdlm.jsonl

Shapes: B texts, T positions of a text, N masked positions of all texts, D hidden, A rows of the
trunk.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.utils.data import Dataset
from transformers.trainer_utils import IntervalStrategy

from reviser import ActionVocab, Append, Codec, Kind
from reviser.data.dataset import MicroBatches, WindowStream
from reviser.errors import ConfigError, DataError, ReviserError
from reviser.files import write_json, write_whole
from reviser.lab.evals.texts import read_prompts
from reviser.models import trunks
from reviser.provenance import made_with
from reviser.train.arguments import training_arguments
from reviser.train.inputs import Inputs, held_out_set, make_missing, open_inputs, training_set
from reviser.train.recipe import Recipe, load_recipe
from reviser.train.report import LogWriter, TerminalBar, truncate_log
from reviser.train.resume import MarkComplete, check_claim, claim, last_checkpoint, step_of
from reviser.train.yaml_reader import to_plain

LEAST_TIME = 1e-3
"""The smallest time in training, as in MDLM's own runs: the loss weight is one over the time."""
DRAWS = 8
"""The number of times that each held-out window is masked."""
BOUNDS = (
    "Nats per text token: the continuous-time bound on minus the log-likelihood of the text, its"
    " STOP and the STOPs that pad it, together, over the number of text tokens. It bounds the text"
    " alone too, since a text is read up to its first STOP. `held_out` is of whole windows,"
    " `given_prefix` of what follows the prefixes after which other policies are scored."
)


def look_both_ways(model: Any, vocab: ActionVocab) -> None:
    """Switch to attention in both directions, and check that an unused row is left for MASK."""
    model.config.is_causal = False  # Transformers' own switch, saved with the model
    if model.get_input_embeddings().num_embeddings == vocab.size:
        raise ConfigError(f"All {vocab.size} rows are taken; change data.bpe to leave MASK one.")


def first_open(vocab: ActionVocab) -> int:
    """Return the first position that can be masked: a begin token never is."""
    return 0 if vocab.begin is None else 1


def close(vocab: ActionVocab, logits_NA: torch.Tensor) -> torch.Tensor:
    """Return float32 logits in which only text tokens and STOP are possible, so MASK is not."""
    is_open_A = torch.zeros(logits_NA.shape[-1], dtype=torch.bool, device=logits_NA.device)
    is_open_A[np.flatnonzero(vocab.kinds == Kind.INSERT)] = True
    is_open_A[vocab.stop] = True
    return logits_NA.float().masked_fill(~is_open_A, -torch.inf)


def weighted_loss(
    model: Any, vocab: ActionVocab, ids_BT: Any, masked_BT: Any, weights_B: Any
) -> torch.Tensor:
    """Return the weighted nats at the masked positions of each text."""
    logits_BTA = model(input_ids=ids_BT.masked_fill(masked_BT, vocab.size)).logits
    logits_NA, goals_N = close(vocab, logits_BTA[masked_BT]), ids_BT[masked_BT]
    nats_N = torch.nn.functional.cross_entropy(logits_NA, goals_N, reduction="none")
    rows_N = masked_BT.nonzero()[:, 0]
    return nats_N.new_zeros(len(ids_BT)).index_add(0, rows_N, nats_N) * weights_B


def read_texts(
    stream: WindowStream, indices: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return texts padded with STOP, and the number of ids of each that are begin and prefix."""
    vocab = stream.sampler.vocab
    ids_BT = np.full((len(indices), width), vocab.stop)
    given_B = np.zeros(len(indices), np.int64)
    for row, example in enumerate(stream.examples(indices)):
        # A history that only appends is the text, apart from the delimiter after the prefix.
        given = len(example.ids) - int(example.learned.sum()) - (vocab.delimiter is not None)
        text = np.concatenate([example.ids[:given], example.ids[example.learned]])
        ids_BT[row, : len(text)], given_B[row] = text, given
    return ids_BT, given_B


class MaskedTexts(Dataset[dict[str, torch.Tensor]]):
    """Micro-batches by number: texts, which of their positions are masked, and one over the time.

    A step with n texts draws one time from each of n equal parts of the range.
    """

    def __init__(self, recipe: Recipe, stream: WindowStream, width: int) -> None:
        self.training, self.seed = recipe.training, recipe.seed
        self.stream, self.width = stream, width

    def __len__(self) -> int:
        return self.training.steps * self.training.batch // self.training.micro_batch

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        batch, size = self.training.batch, self.training.micro_batch
        step, first = divmod(number * size, batch)
        rng = np.random.default_rng([self.seed, step])
        parts_B = (np.arange(batch) + rng.random(batch)) / batch
        times_B = (1 - (1 - LEAST_TIME) * parts_B)[first : first + size]
        masked_BT = rng.random((batch, self.width))[first : first + size] < times_B[:, None]
        masked_BT[:, : first_open(self.stream.sampler.vocab)] = False
        ids_BT, _ = read_texts(self.stream, number * size + np.arange(size), self.width)
        return tensors(ids_BT=ids_BT, masked_BT=masked_BT, weights_B=1 / times_B)


def tensors(**arrays: np.ndarray) -> dict[str, torch.Tensor]:
    made = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return made | {"weights_B": made["weights_B"].float()}


class DiffusionTrainer(transformers.Trainer):
    """The Trainer of the other arms, with the diffusion loss and with counts in its log."""

    def __init__(self, vocab: ActionVocab, **options: Any) -> None:
        super().__init__(data_collator=lambda batches: batches[0], **options)
        self.vocab = vocab
        self.ids_per_step = self.train_dataset.training.batch * self.train_dataset.width
        self.seconds, self.clock = 0.0, 0.0

    def compute_loss(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> Any:
        """Return a micro-batch's estimate of the bound, per position that can be masked."""
        losses_B = weighted_loss(model, self.vocab, **inputs)
        return losses_B.mean() / (inputs["ids_BT"].shape[1] - first_open(self.vocab))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the positions read and the seconds taken since the start of the run."""
        if "loss" in logs:
            now, seen = time.perf_counter(), self.state.global_step * self.ids_per_step
            self.seconds, self.clock = self.seconds + now - self.clock, now
            logs = logs | {"ids_seen": seen, "seconds": self.seconds}
            logs["ids_per_second"] = seen / self.seconds
        super().log(logs, start_time)


@torch.no_grad()
def bound(model: Any, batches: MicroBatches, *, width: int, after_prefix: bool) -> dict[str, Any]:
    """Return the bound on held-out windows, in nats per text token, and half its 95 % interval.

    Masking each position with probability t, for t uniform in [0, 1], is the same as masking a
    uniformly drawn number of positions with one over the masked share as weight. Drawing the
    number instead of the time leaves no time out and has less noise.
    """
    stream, windows = batches.stream, len(batches) * batches.size
    vocab, rng = stream.sampler.vocab, np.random.default_rng(stream.seed)
    nats, tokens = np.zeros(windows), np.zeros(windows)
    model.eval()
    for start in range(0, windows, batches.size):
        rows = np.arange(start, start + batches.size)
        ids_BT, given_B = read_texts(stream, rows, width)
        given_B = given_B if after_prefix else np.full_like(given_B, first_open(vocab))
        open_B, open_BT = width - given_B, np.arange(width) >= given_B[:, None]
        tokens[rows] = (open_BT & (ids_BT != vocab.stop)).sum(1)
        for draw in range(DRAWS):
            count_B = 1 + np.floor((draw + rng.random(len(rows))) / DRAWS * open_B)
            rank_BT = np.where(open_BT, rng.random(ids_BT.shape), 1.0).argsort(1).argsort(1)
            masked_BT = rank_BT < count_B[:, None]
            batch = tensors(ids_BT=ids_BT, masked_BT=masked_BT, weights_B=open_B / count_B)
            batch = {name: tensor.to(model.device) for name, tensor in batch.items()}
            nats[rows] += weighted_loss(model, vocab, **batch).double().cpu().numpy() / DRAWS
    mean = nats.sum() / tokens.sum()
    spread = np.sqrt(((nats - mean * tokens) ** 2).sum()) / tokens.sum()
    found = {"bound": mean, "bound_95": 1.96 * spread, "text_tokens": tokens.sum()}
    return {"windows": windows} | {name: float(value) for name, value in found.items()}


def within_budget(recipe: Recipe, ids: int, width: int | None) -> Recipe:
    """Return the recipe with the steps that the budget allows and the width as its context."""
    trunk, training, size = recipe.trunk, recipe.training, recipe.data.windows.size
    if trunk is None or training.lora is not None:
        raise ConfigError("Diffusion is trained from fresh weights: use a recipe with a trunk.")
    width = size + 2 if width is None else width
    if not size + 2 <= width <= trunk.context:
        raise ConfigError(
            f"The width is {width}; it must be at least {size + 2}, a window with begin and STOP,"
            f" and at most the trunk's context, {trunk.context}."
        )
    steps = ids // (training.batch * width)
    if steps < 1:
        raise ConfigError(f"{ids} ids are less than one step of {training.batch} texts of {width}.")
    training = replace(training, steps=steps, reporters=())
    return replace(recipe, policy=Append(), training=training, trunk=replace(trunk, context=width))


def train(recipe: Recipe, output: Path) -> None:
    """Train to the end, starting from the last checkpoint if there is one, and score the model."""
    output.mkdir(parents=True, exist_ok=True)
    check_claim(output, recipe)
    make_missing(recipe, output)
    parts = open_inputs(recipe, output)
    claim(output, recipe, parts)
    width = parts.context
    parts = replace(parts, context=width + 1)  # for the delimiter, which is taken out again
    trainer = run(recipe, parts, output, width)
    trunks.save(trainer.model, parts.tokenizer, parts.vocab, output)
    held_out = held_out_set(recipe, parts, recipe.policy)
    metrics = {
        name: bound(trainer.model, held_out, width=width, after_prefix=after_prefix)
        for name, after_prefix in (("held_out", False), ("given_prefix", True))
    }
    record = {
        "parameters": trainer.model.num_parameters(),
        "ids_seen": recipe.training.steps * trainer.ids_per_step,
        "seconds": trainer.seconds,
        "metrics": metrics,
        "bounds": BOUNDS,
        "recipe": to_plain(recipe),
        "data": parts.data.fingerprint,
        "tokenizer": parts.codec.fingerprint,
    }
    write_json(output / "run.json", record | made_with("torch", "transformers", "accelerate"))
    print(json.dumps(metrics, indent=1))


def run(recipe: Recipe, parts: Inputs, output: Path, width: int) -> DiffusionTrainer:
    arguments = training_arguments(recipe, output, transformers.TrainingArguments)
    if arguments.world_size > 1:
        raise ConfigError("Diffusion is trained by one process.")
    arguments.eval_strategy = IntervalStrategy.NO  # it is scored at the end
    look_both_ways(parts.model, parts.vocab)
    trainer = DiffusionTrainer(
        parts.vocab,
        model=parts.model,
        args=arguments,
        train_dataset=MaskedTexts(recipe, training_set(recipe, parts).stream, width),
        callbacks=[LogWriter(output / "log.jsonl"), bar := TerminalBar(), MarkComplete()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    checkpoint = last_checkpoint(output)
    step = -1 if checkpoint is None else step_of(checkpoint)
    logged = truncate_log(output / "log.jsonl", step, last=recipe.training.steps)
    trainer.seconds, trainer.clock = logged.get("seconds", 0.0), time.perf_counter()
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    finally:
        bar.stop()
    return trainer


@torch.no_grad()
def fill(
    model: Any, vocab: ActionVocab, ids_BT: Any, *, steps: int, temperature: float, rng: Any
) -> torch.Tensor:
    """Replace every MASK by ancestral sampling, in equal steps of the time from 1 to 0."""
    ids_BT = ids_BT.clone()
    for left in range(steps, 0, -1):
        # From time t = left / steps to s = (left - 1) / steps a MASK is filled with probability
        # (t - s) / t.
        is_filled_BT = (torch.rand(ids_BT.shape, generator=rng) * left < 1) & (ids_BT == vocab.size)
        if is_filled_BT.any():
            hidden_BTD = model.base_model(input_ids=ids_BT).last_hidden_state
            logits_NA = close(vocab, model.get_output_embeddings()(hidden_BTD[is_filled_BT]))
            # Probabilities in float32 would lose the rarest tokens, as a lower temperature does.
            probabilities_NA = torch.softmax(logits_NA.double() / temperature, dim=-1)
            ids_BT[is_filled_BT] = torch.multinomial(probabilities_NA, 1, generator=rng)[:, 0]
    return ids_BT


def write(folder: Path, prompts: Path, output: Path, batch: int, seed: int, **how: Any) -> None:
    """Continue every prompt of a file."""
    if how["steps"] < 1 or batch < 1 or how["temperature"] <= 0:
        raise ConfigError("Steps and batch must be at least 1, and the temperature above 0.")
    model, vocab = trunks.load(folder)
    look_both_ways(model.eval(), vocab)
    codec, rng = Codec.load(folder), torch.Generator().manual_seed(seed)
    width, begin = model.config.max_position_embeddings, [vocab.begin] * first_open(vocab)
    asked, lines = read_prompts(prompts), []
    prefixes = [begin + codec.encode(prompt.prompt) for prompt in asked]
    if (longest := max(map(len, prefixes), default=0)) >= width:
        raise DataError(f"A prompt has {longest} of {width} positions; it must leave some to fill.")
    for start in range(0, len(asked), batch):
        some = prefixes[start : start + batch]
        rows = [prefix + [vocab.size] * (width - len(prefix)) for prefix in some]
        done = fill(model, vocab, torch.tensor(rows), rng=rng, **how).tolist()
        for prompt, prefix, ids in zip(asked[start : start + batch], some, done, strict=True):
            end = ids.index(vocab.stop) if vocab.stop in ids else width
            text, given = (codec.decode(part[len(begin) :]) for part in (ids[:end], prefix))
            line = asdict(prompt) | {"continuation": text[len(given) :], "system": "diffusion"}
            lines.append(json.dumps(line | how | {"seed": seed}, ensure_ascii=False) + "\n")
        print(f"{len(lines)} of {len(asked)}", file=sys.stderr)
    write_whole(output, "".join(lines))


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="Train a model folder from a recipe.")
    training.add_argument("recipe", type=Path)
    training.add_argument("-o", "--output", type=Path, required=True)
    training.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    training.add_argument("--ids", type=int, required=True, help="Positions to read in training.")
    training.add_argument(
        "--width", type=int, help="Positions of a text (default: the window and 2)."
    )
    writing = commands.add_parser("write", help="Continue prompts.")
    writing.add_argument("folder", type=Path)
    writing.add_argument("prompts", type=Path)
    writing.add_argument("-o", "--output", type=Path, required=True)
    for name, default in {"steps": 128, "batch": 64, "seed": 0, "temperature": 1.0}.items():
        writing.add_argument(f"--{name}", type=type(default), default=default)
    options = vars(parser.parse_args(words))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        if options.pop("command") == "write":
            write(**options)
        else:
            recipe = load_recipe(options["recipe"], options["changes"])
            train(within_budget(recipe, options["ids"], options["width"]), options["output"])
    except ReviserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
