"""Compare two checkouts: do the same seeds give the same ids, texts, locks and losses?

python -m support.same_rollouts OTHER_CHECKOUT

Each checkout runs this file's `write` in a process of its own: at least 200 greedy and 200 sampled
rollouts (continue, infill, revise), then 60 steps of the smoke recipe. The script understands the
API of 0.1.0 too, so a restructured package can be compared with that release.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STORIES = ROOT / "models" / "stories-revise"
STORY = (
    "Once upon a time there was a little cat named Tom who liked to play in the park with his"
    " friend Ben and a big red ball"
)
SMOKE_STEPS = 60


def sentence(number: int, length: int) -> str:
    """Return the sentence of a number: the same words in another order."""
    words, stride = STORY.split(), 1 + number % 5
    chosen = [words[(number * 7 + k * stride) % len(words)] for k in range(length)]
    return " ".join(chosen).capitalize() + "."


def make_editor(folder: Path) -> None:
    """Save a random editor with every kind of action that is likely to act."""
    import torch

    from reviser.core.actions import ActionVocab
    from reviser.models import trunks
    from support import small_tokenizers

    tokenizer = small_tokenizers.byte_level()
    operators = ("delete", "replace", "span_delete", "swap")
    vocab = ActionVocab.from_tokenizer(
        tokenizer, operators=operators, max_move=16, marks=True, search=True
    )
    config = trunks.TrunkConfig(
        architecture="llama", layers=2, width=64, heads=2, mlp_width=96, context=512
    )
    model = trunks.build(config, vocab, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # larger weights, so that the actions vary
    trunks.save(model, tokenizer, vocab, folder)
    (folder / "editing.json").write_text('{"edit_probabilities": true}')


def described(rollout: Any) -> dict[str, Any]:
    """Return what must be equal of a rollout."""
    found: dict[str, Any] = rollout.trajectory.to_dict()
    locked = [vars(text) for text in rollout.locked]
    logprobs = [round(value, 5) for value in rollout.logprobs]
    return found | {"text": rollout.text, "locked": locked, "logprobs": logprobs}


def written(model: Any, settings: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Continue 67 prompts and fill the gaps of 67 texts."""
    prompts = [sentence(n, n % 12) for n in range(67)]
    yield "continue", [described(each) for each in model.generate_many(prompts, **settings)]
    gaps = [
        f"{sentence(n, 3 + n % 5)[:-1]} {{}} {sentence(n + 1, 4)}{'' if n % 3 else ' {}'}"
        for n in range(67)
    ]
    yield "infill", [described(each) for each in model.infill_many(gaps, **settings)]


def revised(editor: Any, settings: dict[str, Any], threshold: str) -> list[dict[str, Any]]:
    """Revise 33 drafts in windows, each without and with a threshold of edit probabilities."""
    found = []
    for n in range(33):
        draft = f"{sentence(n, 4 + n)} {sentence(n + 3, 9)}"
        options: dict[str, Any] = {"window": 48, "context": 12, **settings}
        options["locked"] = ["Tom"] if "Tom" in draft else []
        if n % 2:
            options["instruction"] = "Make it short."
        off = 0.0 if threshold == "min_edit_probability" else None
        for least in (off, 0.98):
            made = editor.revise(draft, **{threshold: least}, **options)
            found += [described(each) for each in made.rollouts]
            found[-1]["changes"] = made.changes.to_dict()["changes"]
    return found


def write(editor_folder: Path, output: Path) -> None:
    """Write the rollouts and losses of the checkout that is on the path."""
    import torch

    import reviser

    torch.set_num_threads(1)
    # 0.1.0 called the threshold `notes`.
    threshold = "min_edit_probability" if hasattr(reviser, "Revise") else "notes"
    stories, editor = reviser.load(STORIES), reviser.load(editor_folder)
    found: dict[str, Any] = {}
    for mode, temperature in (("greedy", 0.0), ("sampled", 0.9)):
        settings = {"max_actions": 40, "temperature": temperature, "seed": 11}
        for task, rollouts in written(stories, settings):
            found[f"{task}, {mode}"] = rollouts
        found[f"revise, {mode}"] = revised(editor, settings, threshold)
    found[f"smoke recipe, {SMOKE_STEPS} steps"] = losses(output.with_suffix(".run"))
    output.write_text(json.dumps(found))


def losses(folder: Path) -> list[dict[str, Any]]:
    """Train by the smoke recipe and return its log, without the times."""
    words = ["train", "recipes/smoke.yaml", "-o", str(folder)]
    words += ["--set", f"training.steps={SMOKE_STEPS}"]
    subprocess.run([sys.executable, "-m", "reviser", *words], check=True)
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    return [{key: value for key, value in row.items() if "loss" in key} for row in rows]


def main(other: Path) -> int:
    """Run both checkouts, print what is equal, and return 0 if all of it is."""
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        make_editor(Path(temporary, "editor"))
        for name, root in (("here", ROOT), ("other", other.resolve())):
            output = Path(temporary, f"{name}.json")
            path = os.pathsep.join([str(root / "src"), str(ROOT / "tests")])
            words = ["-m", "support.same_rollouts", "--write", f"{temporary}/editor", str(output)]
            environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
            subprocess.run([sys.executable, *words], cwd=root, env=environment, check=True)
            results.append(json.loads(output.read_text()))
    here, there = results
    for name, rows in here.items():
        same = sum(a == b for a, b in zip(rows, there[name], strict=True))
        print(f"{name}: {same} of {len(rows)} are equal")
    return int(here != there)


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        write(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(main(Path(sys.argv[1])))
