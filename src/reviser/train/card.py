"""The model card of a training run: a README.md with the head that the Hugging Face hub reads.

It says what the run knows. Licence, language and intended use are the author's to add.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reviser.files import write_whole

_CARD = """\
---
{head}library_name: reviser
tags:
- reviser
---

# {name}

This language model writes and edits text with [Reviser](https://pypi.org/project/reviser-lm/).

```sh
pip install 'reviser-lm[hf]'
reviser {use} -m {name}
```

## Training

The model has {parameters:,} parameters and was trained from {origin}. In {steps:,} steps with the
policy `{policy}`, it saw {tokens:,} tokens of {sources}. `run.json` has all settings and versions.
{scores}
## Limits

What it writes may be wrong. It has not been tested for bias. Describe here what it should not be
used for.
"""


def write_card(folder: Path, record: dict[str, Any], *, is_editor: bool) -> None:
    """Write the card of a finished run, unless there is one, which a person may have edited."""
    if (folder / "README.md").exists():
        return
    recipe, metrics = record["recipe"], record["metrics"]
    data, base = recipe["data"], recipe["base"]
    is_on_hub = base is not None and not Path(base).exists()
    names = [key.removesuffix("_95") for key in metrics if key.endswith("_nll_95")]
    rows = [f"| {each} | {metrics[each]:.3f} ± {metrics[f'{each}_95']:.3f} |\n" for each in names]
    text = _CARD.format(
        head=f"base_model: {base.partition('@')[0]}\n" if is_on_hub else "",
        name=folder.resolve().name,
        use="revise draft.txt" if is_editor else 'generate "Once"',
        parameters=record["parameters"],
        origin=(base if is_on_hub else Path(base).name) if base else "random weights",
        steps=recipe["training"]["steps"],
        policy=recipe["policy"]["kind"],
        tokens=record["seen"]["text_tokens"],
        sources=", ".join(Path(each).name for each in _sources(data)),
        scores="\n| held out | nats per text token |\n|---|---:|\n" * bool(rows) + "".join(rows),
    )
    write_whole(folder / "README.md", text)


def _sources(data: dict[str, Any]) -> list[str]:
    """Return the files or folders that a model was trained on."""
    several: list[str] = data["pairs"] or data["trajectories"] or data["text"]
    return several or [data["generator"] or data["shards"]]
