"""The model cards of the story writers: `models/stories-*/README.md`, without the editor's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.markdown import estimate, table
from experiments.stories import frontier

ROOT = Path(__file__).parents[2]
SHIPPED = {"stories-revise": "late", "stories-append": "append"}
"""The included writers, and their names in the comparison at equal diversity."""
COMPARISON = "writers"
TEMPERATURE = 0.9
COLUMNS = {
    "bits per character": ("bits_per_character", 3),
    "distinct-2": ("distinct_2", 3),
    "actions per token": ("actions_per_token", 3),
    "share of texts with a revision": ("revised", 3),
}
WHAT = {
    "stories-revise": (
        "It writes a story from left to right, leaves a sentence out and marks the position. Then it"
        " goes back to the mark and writes that sentence last. So it can also fill gaps in a story."
        " [stories-append](../stories-append) is its left-to-right baseline."
    ),
    "stories-append": (
        "It writes from left to right. It is the baseline of [stories-revise](../stories-revise), with"
        " the same architecture, text and number of training steps."
    ),
}
EXAMPLES = {
    "stories-revise": (
        'reviser generate "Once upon a time, there was a little dog" -m models/stories-revise\n'
        'reviser infill "Tom took his red ball to the park.{} Tom was sad. His mom got him a new'
        ' ball." -m models/stories-revise'
    ),
    "stories-append": 'reviser generate "Once upon a time" -m models/stories-append',
}
CHANGES = {
    "stories-revise": "",
    "stories-append": " --set policy=append --set vocab.marks=false",
}
CARD = """\
---
license: mit
language: en
library_name: reviser
pipeline_tag: text-generation
---

# {name}

This language model has {parameters:.1f} million parameters and writes simple stories for small children. {what}

```sh
{example}
```

The model is an ordinary causal LM: Llama with six layers of width 288, a context of 384 and bfloat16 weights. Its vocabulary has 4,096 byte-level BPE tokens and some action tokens. `AutoModelForCausalLM` can load it, but you need [Reviser](../../README.md) to decode it.

## Data

The training text is stories sampled at temperature 1 from [stories15M](https://github.com/karpathy/llama2.c) (MIT), which was trained on TinyStories, and pieces of these stories: {stories:,} texts. `experiments/stories/sample_corpus.py` samples such stories, and `excerpts.py` adds the pieces. No text was written by a person.

## Training

Its layers are those of stories15M, by way of [stories-edit](../stories-edit): the same layers with a smaller vocabulary, trained to correct stories. From there it was trained on {ids:.1f} million ids in five runs of {steps} steps, on one CPU core. The pieces were part of the last two. Each run is the recipe with its own text, seed, learning rate and number of steps; `run.json` has those of the last one:

```sh
reviser train recipes/story-writer.yaml --set 'data.text=[text.jsonl]'{changes} -o run
```

The models of [the results page](../../docs/results.md) are others: their weights were random at the start.

The held-out score that `reviser info` shows is too low, because stories-edit has seen many of those stories. The beginnings below are of stories that no model has seen.

## Evaluation

It continued {prompts} held-out beginnings of 32 tokens without top-k. Bits per character are measured with stories15M. [..] is a 95 % interval over prompts. The figures are of one training run, with these bfloat16 weights computed in float32.

{figures}
`python -m experiments.stories.frontier {comparison} PROMPTS STORIES15M append=models/stories-append late=models/stories-revise` measures them again.

## Limits

This model is a toy for trying out the library and for its tests.

- It writes simple English, at most 256 tokens.
- Names and objects change in the middle of a story, and nothing that it writes is reliable.
- Its stories can be sad, as children's stories are. We have not tested it for bias.
"""


def points(name: str) -> list[dict[str, Any]]:
    """Return the figures of a writer, for each temperature."""
    found: list[dict[str, Any]] = frontier.read(COMPARISON)["systems"][SHIPPED[name]]
    return found


def usual(name: str) -> dict[str, Any]:
    """Return the figures of a writer at the usual temperature."""
    return next(point for point in points(name) if point["temperature"] == TEMPERATURE)


def record(name: str) -> dict[str, Any]:
    """Return how a writer was trained."""
    path = ROOT / "models" / name / "run.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def cards() -> dict[str, str]:
    """Return the cards by path."""
    return {f"models/{name}/README.md": card(name) for name in SHIPPED}


def listed(numbers: list[int]) -> str:
    """Return numbers as a list in a sentence."""
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def card(name: str) -> str:
    """Return the card of a writer."""
    run = record(name)
    return CARD.format(
        name=name,
        what=WHAT[name],
        example=EXAMPLES[name],
        changes=CHANGES[name],
        parameters=run["parameters"] / 1e6,
        stories=run["stories"],
        steps=listed([each["steps"] for each in run["runs"]]),
        ids=sum(each["ids"] for each in run["runs"]) / 1e6,
        prompts=usual(name)["samples"],
        comparison=COMPARISON,
        figures=table(
            ["temperature", *COLUMNS],
            [
                [f"{point['temperature']}"]
                + [estimate(point[key], digits) for key, digits in COLUMNS.values()]
                for point in points(name)
            ],
        ),
    )
