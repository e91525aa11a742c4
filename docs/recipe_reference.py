"""Writes reference/recipe.md from the recipe's own dataclasses: every setting, its default, its docstring.

python docs/recipe_reference.py > docs/reference/recipe.md
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap

from reviser import reproduce
from reviser.data.dataset import WindowConfig
from reviser.evals.judges import JudgeConfig
from reviser.evals.texts import Protocol
from reviser.models.trunks import TrunkConfig
from reviser.train import recipe
from reviser.trajectories import policy

INTRODUCTION = """\
# Recipes

A recipe is YAML. Paths are relative to its folder. A value can be replaced for one run with `--set training.steps=100`. A key that does not exist is an error that names the nearest. `policy` is a name that `reviser policies` prints (`append` is the autoregressive baseline) or a mapping with `kind`.

Your own text, tokenized before:

```yaml
trunk: {layers: 6, width: 256, heads: 8, mlp_width: 1024, context: 384, dropout: 0.0}
policy: spans-16
data:
  shards: shards         # reviser tokenize ... -o shards
  tokenizer: tokenizer   # the folder it was given
  windows: {size: 256, prefix: [0, 64]}
training: {steps: 20000, batch: 32, micro_batch: 16}
```
"""

SECTIONS = [
    ("At the top", recipe.Recipe, "Give `trunk` or `base`."),
    ("trunk", TrunkConfig, "A model with fresh weights."),
    ("vocab", recipe.VocabConfig, "Which actions the model has."),
    (
        "data",
        recipe.DataConfig,
        "Give `text` with `bpe` or `tokenizer`; or `shards` or `pairs` with `tokenizer`; for a base,"
        " `text`, `shards` or `pairs` alone.",
    ),
    ("data.windows", WindowConfig, "How documents become prefixes and targets."),
    (
        "training",
        recipe.TrainingConfig,
        "Sizes are of the whole run, whatever number of processes shares it, but for `micro_batch` and `workers`.",
    ),
    ("training.lora", recipe.LoraConfig, "Needs the package peft."),
    ("evaluation", recipe.EvaluationConfig, "What is scored and written on the way."),
    (
        "comparison",
        reproduce.Comparison,
        "For `reviser reproduce`; training does not look at it. See [guides/evaluate.md](../guides/evaluate.md).",
    ),
    ("comparison.prompts", Protocol, "The paper's continuation protocol."),
    ("comparison.judge", JudgeConfig, "Give `model`, with `url` for an endpoint, or `verdicts`."),
    ("policy, kind: obfuscation", policy.Obfuscation, "The paper's, and its variations."),
    (
        "policy, kind: obfuscation, noise",
        policy.Noise,
        "For the richer action set; `vocab.operators` must name the repairs.",
    ),
    ("policy, kind: spans", policy.Spans, "Spans of text in random order."),
    ("policy, kind: mixture", policy.Mixture, "Policies are names or mappings."),
    (
        "policy, kind: edits",
        policy.Edits,
        "For `data.pairs`. See [guides/revise.md](../guides/revise.md).",
    ),
    ("policy, kind: rewrite", policy.Rewrite, "For `data.pairs`: the twin that writes anew."),
    ("policy, kind: blocks", policy.Blocks, "For `data.pairs`: search-and-replace blocks."),
]

OUTPUT = """\
## What a run leaves in its output

| file | |
|---|---|
| config.json, model.safetensors, tokenizer.json, action_vocab.json ... | the model folder; any engine opens it |
| log.jsonl | a line per `log_every` steps, per checkpoint and per evaluation, below |
| samples.jsonl | continuations of `evaluation.prompts` at each evaluation: `text`, how it `ended` (`stop`, `max_actions` or `context`), and the actions as ids (`prefix`, then `restoration`, as in training) |
| run.json | provenance: recipe, fingerprints of shards and tokenizer, versions, commit, counts, last scores; written last, so its presence means finished |
| recipe.json, data.json | whose output it is: what a restart is compared with |
| process-0 | by which processes know that they share the disk |
| checkpoints/ | the newest two; each has a file `complete` once it is whole |
| tokenizer/, shards/ | made from `data.text`, if that was given; tokenizer/ has no control tokens yet |

| in log.jsonl | |
|---|---|
| `loss` | nats per learned id of the step's whole batch, the sum over its processes |
| `padding`, `cut` | share of ids that are padding; share of examples whose target was cut to fit the context |
| `ids_per_second`, `ids_per_second_per_core` or `_per_device` | without padding, evaluation left out |
| `peak_memory_gb` | GiB; of the main process, or of its device |
| `ids_seen`, `text_tokens_seen`, `examples_seen`, `epochs_seen` | since the run began, restarts included |
| `digest_seen` | a sum over the examples seen so far: equal in two runs if they saw the same, in whatever order |
| `eval_NAME_nll`, `eval_NAME_nll_95` | held-out nats per text token under policy NAME, and half of its 95 % interval, which takes windows as independent |
| `eval_NAME_insert_nll`, `_move_nll`, `_stop_nll`, `_operator_nll` | the same by kind of action; they add up to it |
| `eval_NAME_actions_per_token`, `_text_tokens`, `_cut` | of the held-out trajectories |

**Comparing policies.** The text under every policy is the same as long as `cut` is 0; where it is not, raise the context. A policy that writes in random order pays for the order too: its total is the loss of text *and* order, an upper bound of the text's own, and at least the order tax of `reviser policies` is in it. The bar's loss is per id, the held-out score per text token.
"""

WORDS = {"PRESETS['paper']": "paper", "None": "none", "True": "true", "False": "false"}


def settings(cls: type) -> list[tuple[str, str, str]]:
    """Name, default and docstring of every field, read from the source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    rows = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign):
            continue
        default = "required" if node.value is None else ast.unparse(node.value)
        default = WORDS.get(default, default)
        if "Config" in default or default.startswith(("field(", "Noise(")):
            default = "see below"
        text = after.value if isinstance(after, ast.Expr) else None
        words = text.value if isinstance(text, ast.Constant) else ""
        kind = ast.unparse(node.annotation)
        if not words and kind.startswith("Literal"):
            words = kind.removeprefix("Literal[").removesuffix("]").replace(", ", " or ")
        rows.append((node.target.id, default, " ".join(words.split())))
    return rows


def reference() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for name, cls, line in SECTIONS:
        rows = [f"| `{field}` | {default} | {text} |" for field, default, text in settings(cls)]
        table = ["", "| setting | default | |", "|---|---|---|", *rows] if rows else []
        parts.append("\n".join([f"## {name}", "", line, *table]))
    return "\n\n".join([part.strip("\n") for part in [*parts, OUTPUT]]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
