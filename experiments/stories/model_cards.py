"""The model cards of the included models: `models/*/README.md`."""

from __future__ import annotations

from experiments.markdown import table
from experiments.stories.tables import Run, cell, figures

SHIPPED = {"stories-revise": "late-1-marks", "stories-append": "append"}
FIGURES = {
    "held-out nats per text token": (("held_out", "nll"), 3),
    "perplexity under stories15M": (("written", "perplexity", "0", "perplexity", "value"), 2),
    "perplexity, ratio to baseline": (("written", "ratio_to_baseline", "value"), 3),
    "bits per character": (("written", "perplexity", "0", "bits_per_character", "value"), 3),
    "actions per token": (("written", "trajectories", "actions_per_token", "value"), 3),
    "share of texts with a revision": (("written", "trajectories", "revised", "value"), 3),
    "distinct-2": (("written", "diversity", "distinct_2", "value"), 3),
    "MAUVE": (("written", "mauve", "0", "mauve", "value"), 2),
}
WHAT = {
    "stories-revise": (
        "It writes a story from left to right, leaves a sentence out and marks the position. Then it"
        " goes back to the mark and writes that sentence last. So it can also fill gaps in a story."
        " [stories-append](../stories-append) is its left-to-right baseline."
    ),
    "stories-append": (
        "It writes from left to right. It is the baseline of [stories-revise](../stories-revise), with"
        " the same architecture, text and training FLOPs."
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
CARD = """\
---
license: mit
language: en
library_name: reviser
pipeline_tag: text-generation
---

# {name}

This language model has 5.8 million parameters and writes simple stories for small children. {what}

```sh
{example}
```

The model is an ordinary causal LM: GPT-NeoX with six layers of width 256, a context of 384 and bfloat16 weights. Its vocabulary has 4,096 byte-level BPE tokens and some action tokens. `AutoModelForCausalLM` can load it, but you need [Reviser](../../README.md) to decode it.

## Data

The training text is 101,120 stories sampled at temperature 1 from [stories15M](https://github.com/karpathy/llama2.c) (MIT), which was trained on TinyStories. One story in seven is cut off at the end of stories15M's context of 256 tokens. `experiments/stories/sample_corpus.py` samples the stories again. No text was written by a person.

## Training

The model was trained with `recipes/world.yaml` on {ids} million ids, on one CPU core:

```sh
# WORLD is the folder of the stories; the results page shows how to sample them
python -m experiments.stories.run prepare WORLD --source STORIES15M
python -m experiments.stories.run run {arm} --budget full --world WORLD --judge STORIES15M
```

## Evaluation

The model continued {prompts} held-out beginnings of 32 tokens at temperature 0.9 with top-k 50. [..] is a 95 % interval over prompts. Training with another seed changes the figures by more than these intervals; [the results page](../../docs/results.md) has several seeds and explains the measures. The figures are for float32 weights. The weights here are rounded to bfloat16.

{figures}
## Limits

This model is a toy for trying out the library and for its tests.

- It writes simple English, at most 256 tokens.
- Names and objects change in the middle of a story, and nothing that it writes is reliable.
- Its stories can be sad, as children's stories are. We have not tested it for bias.
"""


def cards(arms: dict[str, list[Run]]) -> dict[str, str]:
    """Return the cards by path, from the full-budget runs of each arm."""
    return {
        f"models/{name}/README.md": CARD.format(
            name=name,
            what=WHAT[name],
            example=EXAMPLES[name],
            arm=arm,
            ids=f"{arms[arm][0]['seen']['ids'] / 1e6:.0f}",
            figures=table(
                ["measure", "this model"],
                [
                    [label, cell(arms[arm][:1], *path, digits=digits)]
                    for label, (path, digits) in FIGURES.items()
                    if figures(arms[arm][:1], *path)
                ],
            ),
            prompts=f"{arms[arm][0]['written']['samples']:,}",
        )
        for name, arm in SHIPPED.items()
    }
