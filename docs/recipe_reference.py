"""Write reference/recipe.md from the recipe's dataclasses: every setting, its default, its docstring.

python docs/recipe_reference.py > docs/reference/recipe.md
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap

from reviser.data.window_config import WindowConfig
from reviser.lab import reproduce
from reviser.lab.evals.judges import JudgeConfig
from reviser.lab.evals.texts import Protocol
from reviser.lab.recipe import CanvasReading, Dagger
from reviser.lab.reinforce import config as reinforce
from reviser.models.trunk_config import TrunkConfig
from reviser.train import recipe
from reviser.trajectories import policy

INTRODUCTION = """\
# Recipes

A recipe is a YAML file that describes a training run. See [Train a model](../guides/train.md) for how to use one.

- Paths are relative to the recipe's folder; those of `data` and `base` in `--set` of a command, to the working directory.
- To change a value for one run, pass `--set training.steps=100`.
- An unknown key is an error that names the closest known key.
- `policy` is a name that `reviser lab policies` prints (`append` is the left-to-right baseline) or a mapping with `kind`.
"""

SECTIONS = [
    ("Top level", recipe.Recipe, "Give `trunk` or `base`."),
    ("trunk", TrunkConfig, "A new model with random weights."),
    (
        "trunk.canvas",
        CanvasReading,
        "Only for `reviser lab train`: a trunk that [reads the canvas](../guides/train.md#let-the-trunk-read-the-canvas).",
    ),
    ("vocab", recipe.VocabConfig, "The actions of the model."),
    (
        "data",
        recipe.DataConfig,
        "Without a `base`, give `text` with `bpe` or `tokenizer`, or `shards`, `pairs`,"
        " `trajectories` or `generator` with `tokenizer` or `words`. With a `base`, give only"
        " `text`, `shards`, `pairs`, `trajectories` or `generator`.",
    ),
    ("data.windows", WindowConfig, "How documents become prefixes and targets."),
    (
        "training",
        recipe.TrainingConfig,
        "`micro_batch` and `workers` are per process. All other numbers are for the whole run.",
    ),
    ("training.lora", recipe.LoraConfig, "LoRA needs the package peft."),
    ("evaluation", recipe.EvaluationConfig, "What is scored and sampled during training."),
    (
        "reinforce",
        reinforce.ReinforceConfig,
        "Only for `reviser lab train`: a run that [learns from rewards](../guides/train.md#learn-from-rewards). `training.batch` and"
        " `micro_batch` then count rollouts.",
    ),
    (
        "reinforce.reward",
        reinforce.RewardConfig,
        "What a rollout is rewarded for.",
    ),
    (
        "comparison",
        reproduce.Comparison,
        "Settings of `reviser lab reproduce`. Training does not use them. See [Evaluate models](../guides/evaluate.md).",
    ),
    ("comparison.prompts", Protocol, "The paper's continuation protocol."),
    ("comparison.judge", JudgeConfig, "A model behind an endpoint."),
    ("policy, kind: obfuscation", policy.Obfuscation, "The paper's policy and its variants."),
    ("policy, kind: spans", policy.Spans, "Spans of text in random order."),
    ("policy, kind: mixture", policy.Mixture, "Each policy is a name or a mapping."),
    (
        "policy, kind: edits",
        policy.Edits,
        "For `data.pairs`: an editor. See [Revise a draft](../guides/revise.md).",
    ),
    (
        "policy, kind: dagger",
        Dagger,
        "Only for `reviser lab train`, with `data.pairs`: an editor that [learns from its own mistakes](../guides/revise.md#learn-from-its-own-mistakes)."
        " It also has the settings of `edits`.",
    ),
    (
        "policy, kind: rewrite",
        policy.Rewrite,
        "For `data.pairs`: a baseline that rewrites the whole text.",
    ),
    (
        "policy, kind: recorded",
        policy.Recorded,
        "For `data.trajectories` and `data.generator`. See [Train on recorded edits](../guides/policy.md#train-on-recorded-edits).",
    ),
]

OUTPUT = """\
## Output files

| file | contents |
|---|---|
| `config.json`, `model.safetensors`, `tokenizer.json`, `action_vocab.json` ... | the model folder; any engine can open it |
| `README.md` | a model card for the Hugging Face hub; one that is there already stays |
| `log.jsonl` | one line per `log_every` steps, per checkpoint and per evaluation; see below |
| `samples.jsonl` | continuations of `evaluation.prompts` at each evaluation: `text`, the reason it `ended` (`stop`, `max_actions` or `context`), and the action ids (`prefix` and `restoration`) |
| `run.json` | the provenance: recipe, fingerprints, versions, commit, counts and last scores; written last, so its presence means that the run is finished |
| `recipe.json`, `data.json` | what a restart is compared with |
| `process-0` | lets processes check that they share the disk |
| `checkpoints/` | the newest two; a complete one contains a file `complete` |
| `reference.json` | with `reinforce`: the base's hash, because the base is the reference |
| `rollouts/` | with a policy of kind `dagger`: what the model did in each round, with the oracle's labels |
| `tokenizer/`, `shards/` | made from `data.text`, if given; `tokenizer/` has no control tokens yet |

| field of `log.jsonl` | meaning |
|---|---|
| `loss` | nats per learned id, over the whole batch |
| `padding`, `cut` | share of ids that are padding; share of examples whose target was cut to fit the context |
| `ids_per_second`, `ids_per_second_per_core` or `_per_device` | speed without padding and evaluation |
| `peak_memory_gb` | GiB used by the main process or its device |
| `ids_seen`, `text_tokens_seen`, `examples_seen`, `epochs_seen` | totals since the start of the run, restarts included |
| `digest_seen` | a sum over the examples; equal in two runs that saw the same examples in any order |
| `eval_NAME_nll`, `eval_NAME_nll_95` | held-out nats per text token under policy NAME, and half of its 95 % interval, which treats windows as independent |
| `eval_NAME_insert_nll`, `_move_nll`, `_stop_nll`, `_operator_nll` | the same by kind of action; they add up to the total |
| `eval_NAME_actions_per_token`, `_text_tokens`, `_cut` | statistics of the held-out trajectories |
| `eval_solved`, `eval_solved_low`, `_high` | with `evaluation.solve`: share of held-out prompts that are solved, and its 95 % interval |
| `reward`, `rewards/quality/mean`, `kl`, `entropy`, `clip_ratio/...`, `eval_reward` ... | with `reinforce`: TRL's figures; see [the guide](../guides/train.md#learn-from-rewards) for ours |
"""

WORDS = {"PRESETS['paper']": "paper", "None": "none", "True": "true", "False": "false"}


def settings(cls: type) -> list[tuple[str, str, str]]:
    """Return the name, default and docstring of every field of its own, read from the source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    rows = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign):
            continue
        default = "required" if node.value is None else ast.unparse(node.value)
        default = WORDS.get(default, default)
        if "Config" in default or default.startswith("field("):
            default = "see below"
        text = after.value if isinstance(after, ast.Expr) else None
        words = text.value if isinstance(text, ast.Constant) else ""
        kind = ast.unparse(node.annotation)
        if not words and kind.startswith("Literal"):
            words = kind.removeprefix("Literal[").removesuffix("]").replace(", ", " or ")
        rows.append((node.target.id, default, " ".join(words.split())))
    return rows


def reference() -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for name, cls, line in SECTIONS:
        rows = [f"| `{field}` | {default} | {text} |" for field, default, text in settings(cls)]
        table = ["", "| setting | default | meaning |", "|---|---|---|", *rows] if rows else []
        parts.append("\n".join([f"## {name}", "", line, *table]))
    return "\n\n".join([part.strip("\n") for part in [*parts, OUTPUT]]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
