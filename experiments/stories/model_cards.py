"""The model card of the story writer: `models/stories-revise/README.md`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.markdown import estimate, table
from experiments.stories import frontier

ROOT = Path(__file__).parents[2]
NAME = "stories-revise"
SYSTEM, BASELINE = "late", "append"
"""The names of the writer and its baseline in the comparison at equal diversity."""
COMPARISON = "writers"
PROMPTS = "experiments/stories/beginnings.jsonl"
MEASURE = (
    f"python -m experiments.stories.frontier {COMPARISON} {PROMPTS} STORIES15M"
    f" {BASELINE}=BASELINE {SYSTEM}=models/{NAME}"
)
"""The command that measures both; STORIES15M and BASELINE are the folders of these models."""
TEMPERATURE = 0.9
COLUMNS = {
    "bits per character": ("bits_per_character", 3),
    "distinct-2": ("distinct_2", 3),
    "actions per token": ("actions_per_token", 3),
    "share of texts with a cursor move": ("revised", 3),
}
CARD = """\
---
license: mit
language: en
library_name: reviser
pipeline_tag: text-generation
---

# {name}

This language model has {parameters:.1f} million parameters and writes simple stories for small children. It writes a story from left to right, leaves a sentence out and marks the position. Then it goes back to the mark and writes that sentence last. So it can also fill gaps in a story.

```sh
reviser generate "Once upon a time, there was a little dog" -m models/{name}
reviser infill "Tom took his red ball to the park.{{}} Tom was sad. His mom got him a new ball." -m models/{name}
```

The model is an ordinary causal LM: Llama with six layers of width 288, a context of 384 and bfloat16 weights. Its vocabulary has 4,096 byte-level BPE tokens and some action tokens. `AutoModelForCausalLM` can load it, but you need [Reviser](../../README.md) to decode it.

## Data

The training text is stories sampled at temperature 1 from [stories15M](https://github.com/karpathy/llama2.c) (MIT), which was trained on TinyStories, and pieces of these stories. The last run had {stories:,} texts. `experiments/stories/sample_corpus.py` samples such stories, and `experiments/stories/excerpts.py` adds the pieces. No text was written by a person.

## Training

The model starts from stories-edit, a model of 0.2.0 that is not included any more. It has the layers of stories15M and a smaller vocabulary, and was trained to correct stories. It was then trained on {ids:.1f} million tokens, action tokens included, on one CPU core, in five runs of {steps} steps. Each run continued from the one before, with its own text, seed and learning rate. Only the last two runs used the pieces. `run.json` describes the last run. This command trains such a model in one run, which we have not tried with as many steps; the comments in the recipe show how to make `text.jsonl`:

```sh
reviser train recipes/story-writer.yaml --set 'data.text=[text.jsonl]' -o run
```

The models on [the results page](../../docs/results.md) are different: they were trained from scratch.

The held-out loss that `reviser info` prints is too optimistic, because stories-edit and the earlier runs were trained on many of those stories. The beginnings below come from stories that none of these models was trained on.

## Evaluation

The model continued {prompts} held-out beginnings of 32 tokens, without top-k. Bits per character are measured with stories15M; lower is better. stories15M is not an independent judge: it generated the training text, and this model has its layers. distinct-2 is the share of different word pairs; higher is more varied. [..] is a 95 % interval over prompts and does not cover other training seeds. The weights are those of this folder, and the computation is in float32.

{figures}
A left-to-right baseline with the same architecture, text and number of steps has {bits} bits per character at temperature {temperature}. It is not included: `--set policy=append --set vocab.marks=false` trains one. `{measure}` measures both again.

## Limits

This model is a toy for trying out the library and for its tests.

- It writes simple English, at most 256 tokens.
- Names and objects change in the middle of a story, and nothing that it writes is reliable.
- Its stories can be sad, as children's stories are. We have not tested it for bias.
"""


def points(system: str) -> list[dict[str, Any]]:
    """Return the figures of a system, for each temperature."""
    found: list[dict[str, Any]] = frontier.read(COMPARISON)["systems"][system]
    return found


def usual(system: str = SYSTEM) -> dict[str, Any]:
    """Return the figures of a system at the usual temperature."""
    return next(point for point in points(system) if point["temperature"] == TEMPERATURE)


def record() -> dict[str, Any]:
    """Return how the writer was trained."""
    path = ROOT / "models" / NAME / "run.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def cards() -> dict[str, str]:
    """Return the card by path."""
    return {f"models/{NAME}/README.md": card()}


def listed(numbers: list[int]) -> str:
    """Return numbers as a list in a sentence."""
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def card() -> str:
    """Return the card of the writer."""
    run = record()
    return CARD.format(
        name=NAME,
        parameters=run["parameters"] / 1e6,
        stories=run["stories"],
        steps=listed([each["steps"] for each in run["runs"]]),
        ids=sum(each["ids"] for each in run["runs"]) / 1e6,
        prompts=usual()["samples"],
        temperature=TEMPERATURE,
        bits=estimate(usual(BASELINE)["bits_per_character"], 3),
        measure=MEASURE,
        figures=table(
            ["temperature", *COLUMNS],
            [
                [f"{point['temperature']}"]
                + [estimate(point[key], digits) for key, digits in COLUMNS.values()]
                for point in points(SYSTEM)
            ],
        ),
    )
