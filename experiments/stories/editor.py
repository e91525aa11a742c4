"""Train the story editor, `models/stories-edit`, from a transplanted base.

    python -m experiments.stories.transplant STORIES15M models/stories-revise -o base
    python -m experiments.stories.editor base stories-*.jsonl -o RUN --steps 1500
    python -m experiments.stories.editor_lists stories-*.jsonl -o RUN
    python -m experiments.stories.editor_scores calibrate RUN RUN/held-out.jsonl

The stories are those of `sample_corpus.py`. The first HELD_OUT of them are not trained on and are
written to RUN/held-out.jsonl. The first steps (`--language`) learn plain text only, so that the new
embedding fits the layers. All other steps learn three things at once:

- **Text:** the next token, among the tokens. Mistakes are read but never learned. This is what the
  editor compares its changes with.
- **Detection:** at each boundary of the draft's tokens, whether an edit ends there, among the
  actions. A boundary is judged DELAY tokens later, when the model has read what follows.
- **Actions:** the edits, with the cursor already at the position. Some positions are decoys that
  need no edit, because detection sends the model to such positions too.

Mistakes are drawn again for each epoch, by `reviser.data.corrupt`.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from transformers import PreTrainedModel

from reviser import ActionVocab, Codec
from reviser.core.codec import UNITS, read_tokenizer
from reviser.data.corrupt import Corruption, corrupt
from reviser.files import write_json
from reviser.models import trunks
from reviser.models.editing import Editing
from reviser.provenance import commit
from reviser.trajectories._kernels.diff import shortest_search
from reviser.trajectories.diff import Hunk, as_tokens, diff

HELD_OUT = 400
"""Stories that are kept for calibration and for the scores."""
DELAY = 1
"""Tokens after a boundary that the model reads before it judges it; delimiters after the last."""
UNCHANGED = 0.3
"""Share of the drafts without a mistake."""
RATES = (3.0, 5.0, 8.0, 12.0)
"""Mistakes per 100 words; each draft has one of these."""
DECOYS = 0.02
"""Share of the words that the model is taken to although they need no edit."""
PLAIN = 0.2
"""Share of the examples that are plain text, as changes are compared with."""
LONGEST = 372
SENTENCE = re.compile(r"(?<=[.!?\"])\s+(?=[A-Z\"])")
CUT = re.compile(r"(?<=[.!?])[^.!?]*\Z")
"""What follows the last full stop of a story that was cut off."""
WEIGHTS = {"text": 1.0, "detection": 6.0, "action": 0.3}
TEXT, DETECTION, ACTION = range(3)
PARTS = dict(zip(WEIGHTS, range(3), strict=True))


@dataclass(frozen=True)
class Settings:
    """The numbers of a run."""

    language: int = 40
    steps: int = 1500
    minutes: float = 1e6
    """Time after which the run ends; the learning rate then falls to zero by that time."""
    ids: int = 1536
    learning_rate: float = 1e-3
    warmup: int = 50
    seed: int = 0
    average: float = 0.99


@dataclass(frozen=True)
class Example:
    """Ids, and three rows of targets: what follows each id, by what it is about; -1 for nothing."""

    ids: list[int]
    targets: np.ndarray


def edit_ids(vocab: ActionVocab, hunk: Hunk) -> list[int]:
    """Return the ids that make an edit, with the cursor where the hunk ends."""
    tokens = list(hunk.tokens)
    if hunk.removed and tokens:
        return [vocab.delete] * (hunk.removed - 1) + [vocab.replace, *tokens]  # type: ignore[list-item]
    return [vocab.delete] * hunk.removed + tokens  # type: ignore[list-item]


def label(vocab: ActionVocab, hunk: Hunk) -> int | None:
    """Return the action that stands for a kind of edit where its end is judged."""
    if not hunk.tokens:
        return vocab.delete
    return vocab.replace if hunk.removed else vocab.find


def example(
    vocab: ActionVocab, codec: Codec, before: str, after: str, rng: np.random.Generator
) -> Example:
    """Return what the model reads and learns of a draft and its correction.

    The history is: begin, delimiter, MARK, the draft, DELAY delimiters, TO_MARK, actions, STOP.
    """
    old, new = codec.encode(before), codec.encode(after)
    is_word = [(codec.unit_starts(ids) & UNITS["word"]) > 0 for ids in (old, new)]
    hunks = diff(old, new, starts=(is_word[0], is_word[1])) if before != after else []
    by_end = {hunk.end: hunk for hunk in hunks}
    ends = {*(np.flatnonzero(is_word[0])[1:]).tolist(), len(old)}
    decoys = {end for end in ends if rng.random() < DECOYS}
    tail = [vocab.delimiter] * DELAY
    ids: list[Any] = [*vocab.prefix_actions([]), vocab.mark, *old, *tail, vocab.back]
    start, size = len(ids), len(old)
    cursor = 0
    learned: list[bool] = []
    for end in sorted({*by_end, *decoys}):
        way = []
        if end > cursor:
            found = old[end - shortest_search(as_tokens(old), cursor, end) : end]
            way = [vocab.find, *found, vocab.here]
        content = edit_ids(vocab, by_end[end]) if end in by_end else []
        ids += [*way, *content]
        # What a search types is not learned: it follows from where the next edit is.
        learned += [n == 0 for n in range(len(way))] + [True] * len(content)
        cursor = end
    ids.append(vocab.stop)
    learned.append(True)
    targets = np.full((3, len(ids)), -1, np.int64)
    following = np.array(ids[start:])
    targets[ACTION, start - 1 : -1] = np.where(learned, following, -1)
    first = 2 + DELAY
    targets[DETECTION, first : first + size + 1] = vocab.stop
    for hunk in hunks:
        targets[DETECTION, first + hunk.end] = label(vocab, hunk)
    kept = np.array(old)
    for hunk in hunks:
        # What follows a mistake is learned, except for the token right after it.
        kept[hunk.start : hunk.end + 1] = -1
    targets[TEXT, 2 : 2 + size] = kept
    return Example(ids, targets)


def plain(vocab: ActionVocab, codec: Codec, text: str, rng: np.random.Generator) -> Example:
    """Return a stretch of plain text, from any of its tokens on."""
    tokens = codec.encode(text + "\n")
    first = int(rng.integers(len(tokens))) if rng.random() < 0.7 else 0
    tokens = tokens[first : first + 120]
    targets = np.full((3, 1 + len(tokens)), -1, np.int64)
    targets[TEXT, : len(tokens)] = tokens
    assert vocab.begin is not None
    return Example([vocab.begin, *tokens], targets)


def piece(text: str, rng: np.random.Generator) -> str:
    """Return a whole story, or some sentences of it in a row."""
    ends = [0, *(match.end() for match in SENTENCE.finditer(text)), len(text)]
    if rng.random() < 0.4 or len(ends) < 4:
        return text
    first = int(rng.integers(len(ends) - 2))
    last = first + 1 + int(rng.integers(min(12, len(ends) - 1 - first)))
    return text[ends[first] : ends[last]].strip()


def drawn(
    vocab: ActionVocab, codec: Codec, story: str, rng: np.random.Generator, *, is_plain: bool
) -> Example:
    """Return the example of a story, with mistakes or as plain text."""
    if is_plain or rng.random() < PLAIN:
        return plain(vocab, codec, story, rng)
    text = piece(story, rng)
    if rng.random() < UNCHANGED:
        return example(vocab, codec, text, text, rng)
    rate = RATES[int(rng.integers(len(RATES)))]
    return example(vocab, codec, corrupt(text, rng, Corruption(rate=rate)), text, rng)


def batches(
    examples: Iterator[Example], ids: int, stop: int
) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield ids, targets and the number of ids: batches of examples of about the same length."""
    while True:
        found = sorted((next(examples) for _ in range(256)), key=lambda each: len(each.ids))
        groups, some = [], list[Example]()
        for each in found:
            if some and len(each.ids) * (len(some) + 1) > ids:
                groups.append(some)
                some = []
            some.append(each)
        groups.append(some)
        for n in np.random.default_rng(len(groups)).permutation(len(groups)):
            longest = max(len(each.ids) for each in groups[n])
            inputs = torch.full((len(groups[n]), longest), stop)
            targets = torch.full((3, len(groups[n]), longest), -1)
            for row, each in enumerate(groups[n]):
                inputs[row, : len(each.ids)] = torch.tensor(each.ids)
                targets[:, row, : len(each.ids)] = torch.from_numpy(each.targets)
            yield inputs, targets, sum(len(each.ids) for each in groups[n])


def losses(
    model: PreTrainedModel, vocab: ActionVocab, inputs: Tensor, targets: Tensor
) -> dict[str, tuple[Tensor, int]]:
    """Return the summed loss and the number of targets of each part."""
    # Rows end with padding, which causal attention never reads.
    hidden = model.base_model(input_ids=inputs, use_cache=False).last_hidden_state
    table = model.get_input_embeddings().weight[: vocab.size]
    parts = {TEXT: table[: vocab.tokens], DETECTION: table[vocab.tokens :], ACTION: table}
    found = {}
    for name, part in PARTS.items():
        at = targets[part] >= 0
        wanted = targets[part][at] - (vocab.tokens if part == DETECTION else 0)
        loss = F.cross_entropy(hidden[at] @ parts[part].T, wanted, reduction="sum")
        found[name] = loss, len(wanted)
    return found


def read_stories(paths: Sequence[Path], codec: Codec) -> tuple[list[str], list[str]]:
    """Return the held-out stories and the others; cut stories end after a whole sentence."""
    rows = [json.loads(line) for path in paths for line in path.open(encoding="utf-8")]
    rows = [row for row in rows if 40 <= len(codec.encode(row["text"].strip())) <= 300]
    whole = [row["text"].strip() for row in rows if row["ended"]]
    cut = [CUT.sub("", row["text"].strip()) for row in rows if not row["ended"]]
    return whole[:HELD_OUT], [*whole[HELD_OUT:], *cut]


@torch.no_grad()
def held_out_nats(
    model: PreTrainedModel, codec: Codec, texts: list[str], *, begin: Sequence[int], tokens: int
) -> float:
    """Return nats per text token of whole stories, if only one of the tokens may follow."""
    total, count = 0.0, 0
    for text in texts:
        ids = codec.encode(text)
        logits = model(input_ids=torch.tensor([[*begin, *ids]])).logits[0, len(begin) - 1 : -1]
        loss = F.cross_entropy(logits[:, :tokens].float(), torch.tensor(ids), reduction="sum")
        total, count = total + loss.item(), count + len(ids)
    return total / count


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("stories", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--save-every", type=int, default=100)
    for name, value in asdict(Settings()).items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(value), default=value)
    given = vars(parser.parse_args())
    settings = Settings(**{name: given[name] for name in asdict(Settings())})
    train(given["base"], given["stories"], given["output"], settings, given["save_every"])


def train(
    base: Path, paths: Sequence[Path], output: Path, settings: Settings, save_every: int
) -> None:
    """Train, and save the averaged weights now and then."""
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    model, vocab = trunks.load(base, dtype=torch.float32)
    codec, tokenizer = Codec.load(base), read_tokenizer(base)
    held_out, stories = read_stories(paths, codec)
    output.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in held_out)
    (output / "held-out.jsonl").write_text(lines, encoding="utf-8")
    print(f"{len(stories)} stories, {len(held_out)} held out", flush=True)

    def examples(is_plain: bool) -> Iterator[Example]:
        for epoch in range(10**6):
            order = np.random.default_rng((settings.seed, epoch, is_plain)).permutation(
                len(stories)
            )
            for n in order:
                rng = np.random.default_rng((settings.seed, epoch, n, is_plain))
                found = drawn(vocab, codec, stories[n], rng, is_plain=is_plain)
                if len(found.ids) <= LONGEST:
                    yield found

    phases = [batches(examples(is_plain), settings.ids, vocab.stop) for is_plain in (True, False)]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    average = {name: value.detach().clone() for name, value in model.named_parameters()}
    sums: dict[str, list[float]] = {}
    seen, text_tokens, began = 0, 0, time.monotonic()
    total = settings.language + settings.steps
    assert vocab.begin is not None
    scored: dict[str, Any] = {"begin": [vocab.begin], "tokens": vocab.tokens}
    print("nats before", held_out_nats(model, codec, held_out[:50], **scored), flush=True)
    for step in range(total):
        left = min(1 - step / total, 1 - (time.monotonic() - began) / 60 / settings.minutes)
        is_last = step + 1 == total or left <= 0.002
        left = max(left, 0.0)
        rate = settings.learning_rate * min(1.0, (step + 1) / settings.warmup) * left
        for group in optimizer.param_groups:
            group["lr"] = rate
        inputs, targets, count = next(phases[step >= settings.language])
        found = losses(model, vocab, inputs, targets)
        loss = sum(WEIGHTS[name] * part / max(1, n) for name, (part, n) in found.items())
        assert isinstance(loss, Tensor)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen += count
        text_tokens += found["text"][1]
        decay = min(settings.average, (1 + step) / (10 + step))
        with torch.no_grad():
            for name, value in model.named_parameters():
                average[name].lerp_(value, 1 - decay)
        for name, (part, n) in found.items():
            pair = sums.setdefault(name, [0.0, 0.0])
            pair[0], pair[1] = pair[0] + part.item(), pair[1] + n
        if step % 20 == 19:
            means = {name: round(a / b, 4) for name, (a, b) in sums.items() if b}
            speed = round(seen / (time.monotonic() - began))
            print(
                json.dumps({"step": step + 1, "ids": seen, **means, "per second": speed}),
                flush=True,
            )
            sums = {}
        if (step + 1) % save_every == 0 or is_last or step + 1 == settings.language:
            kept = {name: value.detach().clone() for name, value in model.named_parameters()}
            put(model, average)
            nats = held_out_nats(model, codec, held_out[:50], **scored)
            print(json.dumps({"step": step + 1, "held-out nats": round(nats, 4)}), flush=True)
            trunks.save(model, tokenizer, vocab, output)
            plan = Editing(
                edit_probabilities=True, label_delay=DELAY - 1, delimiters=DELAY,
                among_controls=True,
            )  # fmt: skip
            plan.save(output)
            record = {"settings": asdict(settings), "steps": step + 1, "seen": {"ids": seen}}
            record["seen"]["text_tokens"] = text_tokens
            record |= {"stories": len(stories), "held_out_nats": nats, "commit": commit()}
            write_json(output / "run.json", record)
            put(model, kept)
        if is_last:
            break


@torch.no_grad()
def put(model: PreTrainedModel, values: dict[str, Tensor]) -> None:
    """Overwrite the weights."""
    for name, value in model.named_parameters():
        value.copy_(values[name])


if __name__ == "__main__":
    main()
