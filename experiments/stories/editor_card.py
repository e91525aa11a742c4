"""Write the folder of the story editor, `models/stories-edit`, and its model card.

    python -m experiments.stories.editor_card --ship RUN   # the model, with bfloat16 weights
    python -m experiments.stories.editor_card              # the card, after `editor_scores measure`

The card is made from `results/editor.json` and the model's own `run.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch

from experiments.markdown import table
from experiments.stories.editor import UNCHANGED, held_out_nats
from experiments.stories.editor_scores import RESULT
from reviser import Codec
from reviser.core.codec import read_tokenizer
from reviser.files import write_json
from reviser.models import trunks
from reviser.models.wordlists import LISTS, WORDS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models" / "stories-edit"
CARD = """\
---
license: mit
language: en
library_name: reviser
---

# stories-edit

This model corrects mistakes in simple children's stories and leaves the rest of the text alone. It has {millions:.1f} million parameters, runs on one CPU core and needs no download.

```console
$ echo "{draft}" | reviser revise -m models/stories-edit --format criticmarkup
{shown}
```

## How it works

The model reads the draft once and gives each word a probability that it needs an edit. Where this probability is at least {threshold}, word lists suggest other forms of a word, words that people confuse with it, capitals, and small words that may be missing or extra. They also suggest a spelling for each word that is in no list. The model compares the text with and without each suggestion, and makes the changes with a confidence of at least {least}. The model can write edits of its own, and was trained to, but at this budget most of them were wrong (`writes_edits` is false in `editing.json`). `--precision` chooses another limit. [Revise a draft](../../docs/guides/revise.md) has all options.

It is a causal LM: Llama's architecture with six layers of width 288, a context of 384 and bfloat16 weights. Its vocabulary has 4,096 byte-level BPE tokens, the same as those of [stories-revise](../stories-revise), and some action tokens.

## Data

The layers come from [stories15M](https://github.com/karpathy/llama2.c) (MIT), which was trained on TinyStories. The embedding has other tokens: each row is the mean of stories15M's rows for the same text (`experiments/stories/transplant.py`). The training text is {stories:,} stories sampled from stories15M, with mistakes that `reviser data corrupt` of version 0.2.0 can make; {unchanged} of the drafts have none. No text was written by a person.

`words.txt` has the words of these stories and the most frequent words of the [proofreader](../proofreader)'s list. Its word forms are also a part of the proofreader's. The proofreader's card names the sources of both lists (MIT).

## Training

The model has read {ids:.1f} million tokens in {steps:,} steps on one CPU core, which is very little. These commands train a model like it:

```sh
# STORIES15M is the folder of that model, with a tokenizer.json
python -m experiments.stories.sample_corpus STORIES15M -o stories-0.jsonl --batches 11
# of models/stories-revise, only the tokenizer is used
python -m experiments.stories.transplant STORIES15M models/stories-revise -o base
python -m experiments.stories.editor base stories-0.jsonl -o RUN --steps 500 --learning-rate {rate}
python -m experiments.stories.editor_lists stories-0.jsonl -o RUN
python -m experiments.stories.editor_scores calibrate RUN RUN/held-out.jsonl --first 40
python -m experiments.stories.editor_card --ship RUN
python -m experiments.stories.editor_scores measure models/stories-edit RUN/held-out.jsonl --first {count}
python -m experiments.stories.editor_card
```

{note}

As plain text, held-out stories have {nats:.2f} nats per token under this model.

## Evaluation

The model revised {count} held-out stories with the settings in this folder, each once with {rate_of_mistakes} mistakes per 100 words and once without any. Edits are counted in words: the same position and the same correction. [..] is a 95 % interval over stories. It does not cover other training seeds. The confidence and its limit come from 40 other stories.

{figures}
The model makes {made} changes in the stories with mistakes. {right} of them are among the {wanted} that are wanted. It makes {alarms} changes in {words:,} words of correct stories.

## Limits

- The mistakes in the scores are of the same kinds as those in training: a program made them. People make others. In this story with six mistakes it corrects one, gets another wrong and misses the rest: {hard}
- It knows the words of stories for small children. We have not measured it on other text: use [proofreader](../proofreader) for English in general.
- It misses {missed:.0f} % of the mistakes even in such stories. A text without changes can still have mistakes.
- It can take an unusual but correct word for a mistake, and a change can make a text worse.
- The word lists and the mistakes in the scores have some groups of confused words in common, so the scores can be too high for these.
"""
NOTE = """\
They do not give the same weights. The stories of the shipped model were drawn with other seeds and float32 weights, and it was trained in two parts. In the first 150 steps, the learning rate was 0.0005, edits were judged two tokens later, mistakes were rarer, and detection had a lower weight. The model hardly learned to detect mistakes, so the settings were changed. The second part ended after 19 minutes."""
FIGURES = {
    "precision": "precision",
    "recall": "recall",
    "F0.5": "f05",
    "text outside the mistakes that is unchanged, by bytes": "locality",
    "correct stories that are left alone": "untouched",
    "changes per 1,000 words of correct stories": "false_alarms",
}
PER_CENT = {"precision", "recall", "f05", "untouched", "locality"}


def shown(estimate: dict[str, Any], name: str) -> str:
    """Return a figure with its interval."""
    factor, digits = (100, 1) if name in PER_CENT else (1, 1)
    value, low, high = (f"{factor * estimate[k]:.{digits}f}" for k in ("value", "low", "high"))
    return f"{value} {'% ' * (name in PER_CENT)}[{low}, {high}]"


def card() -> str:
    """Return the card."""
    found = json.loads(RESULT.read_text("utf-8"))
    run = json.loads((FOLDER / "run.json").read_text("utf-8"))
    editing = json.loads((FOLDER / "editing.json").read_text("utf-8"))
    settings, metrics = run["recipe"]["training"], run["metrics"]
    return CARD.format(
        millions=run["parameters"] / 1e6,
        draft=found["example"][0],
        shown=found["example"][1],
        hard=f"`{found['hard_example'][1]}`",
        threshold=editing["threshold"],
        least=editing["min_confidence"],
        stories=run["recipe"]["data"]["stories"],
        ids=run["seen"]["ids"] / 1e6,
        steps=settings["steps"],
        note=NOTE,
        unchanged=f"{100 * UNCHANGED:.0f} %",
        rate=settings["learning_rate"],
        nats=metrics["plain_text_nats_of_stories-edit"],
        count=found["stories"],
        rate_of_mistakes=f"{found['rate']:.0f}",
        figures=table(
            ["measure", "this model"],
            [[label, shown(found[name], name)] for label, name in FIGURES.items()],
        ),
        **found["edits"],
        alarms=found["false_alarm_count"],
        words=found["clean_words"],
        missed=100 * (1 - found["recall"]["value"]),
    )


def ship(run: Path, earlier: Path | None) -> None:
    """Write the model folder: bfloat16 weights, tokenizer, lists, `editing.json` and `run.json`."""
    model, vocab = trunks.load(run, dtype=torch.float32)
    parameters = sum(each.numel() for each in model.parameters())
    trunks.save(model.to(torch.bfloat16), read_tokenizer(run), vocab, FOLDER)
    for name in ("editing.json", WORDS, LISTS):
        shutil.copyfile(run / name, FOLDER / name)
    texts = [json.loads(line)["text"] for line in (run / "held-out.jsonl").open(encoding="utf-8")]
    opened, vocab = trunks.load(FOLDER, dtype=torch.float32)
    # Plain text follows the begin token alone.
    scored = {"begin": vocab.prefix_actions([])[:1], "tokens": vocab.tokens}
    nats = held_out_nats(opened, Codec.load(FOLDER), texts[:100], **scored)
    metrics = {f"plain_text_nats_of_{FOLDER.name}": nats}
    records = [
        json.loads((each / "run.json").read_text("utf-8")) for each in (run, earlier) if each
    ]
    last = records[0]
    steps = sum(record["steps"] for record in records)
    names = ("ids", "text_tokens")
    seen = {name: sum(record["seen"][name] for record in records) for name in names}
    recipe = {
        "policy": {"kind": "edits", "address": "search", "edit_probabilities": True},
        "training": last["settings"] | {"steps": steps},
        "data": {"stories": last["stories"], "base": "stories15M with another embedding"},
    }
    write_json(
        FOLDER / "run.json",
        {"recipe": recipe, "parameters": parameters, "seen": seen, "metrics": metrics}
        | {"commit": last["commit"]},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ship", type=Path, help="the folder that `editor` and `calibrate` wrote")
    parser.add_argument("--earlier", type=Path, help="the run that this run began with, if any")
    given = parser.parse_args()
    if given.ship:
        ship(given.ship, given.earlier)
    else:
        (FOLDER / "README.md").write_text(card(), "utf-8")
