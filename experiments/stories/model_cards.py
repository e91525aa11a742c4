"""The cards of the shipped models: `models/*/README.md`."""

from __future__ import annotations

from experiments.markdown import table
from experiments.stories.tables import Run, cell, figures

SHIPPED = {"stories-revise": "late-1-marks", "stories-append": "append"}
FIGURES = {
    "held-out nats per text token": (("held_out", "nll"), 3),
    "evalPPL under the source": (("written", "perplexity", "0", "perplexity", "value"), 2),
    "to the twin's": (("written", "ratio_to_baseline", "value"), 3),
    "bits per character": (("written", "perplexity", "0", "bits_per_character", "value"), 3),
    "actions per token": (("written", "trajectories", "actions_per_token", "value"), 3),
    "rollouts that revise": (("written", "trajectories", "revised", "value"), 3),
    "distinct-2": (("written", "diversity", "distinct_2", "value"), 3),
    "MAUVE": (("written", "mauve", "0", "mauve", "value"), 2),
}
WHAT = {
    "stories-revise": (
        "It writes a story from left to right and leaves something out, with a mark; then it goes"
        " back to the mark and writes that last. So it can also fill gaps in a story that exists."
        " Its autoregressive twin is [stories-append](../stories-append)."
    ),
    "stories-append": (
        "It writes from left to right: the autoregressive twin of"
        " [stories-revise](../stories-revise), with the same trunk, text and training FLOPs, to"
        " compare with."
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

A language model of 5.8 million parameters that tells stories for small children. {what}

```sh
{example}
```

An ordinary causal LM (GPT-NeoX, six layers of 256, context 384, bfloat16) over 4,096 tokens of byte-level BPE and some action tokens; `AutoModelForCausalLM` opens it, Reviser decodes it.

## Data

Text sampled from [stories15M](https://github.com/karpathy/llama2.c) (MIT), itself trained on TinyStories: 101,120 stories at temperature 1 from its whole distribution; every seventh ends where the source's context of 256 does. `experiments/stories/sample_corpus.py` draws them again. No text by a person was used.

## Training

`recipes/world.yaml`, {ids} million ids, one CPU core:

```sh
# WORLD holds the stories; how to sample them again is told on the results page
python -m experiments.stories.run prepare WORLD --source STORIES15M
python -m experiments.stories.run run {arm} --budget full --world WORLD --judge STORIES15M
```

## Figures

{prompts} held-out beginnings of 32 tokens, continued at temperature 0.9 with top-k 50; [..] is a 95 % interval over prompts. Another seed of the same training differs by more than that: [the results page](../../docs/results.md) has all of them, and how these were measured, in float32; here the weights are rounded to bfloat16.

{figures}
## Limits

A toy for trying the library and a fixed point for its tests. Names and things change in the middle of a story, and nothing it says is true. English, simple words, 256 tokens at most. What it writes about may be as sad as stories for children are; nobody looked for bias.
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
                ["", "these weights"],
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
