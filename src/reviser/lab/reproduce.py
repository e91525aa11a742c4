"""Reproduction of a comparison: train the arms of a recipe, roll them out, evaluate, write a page.

Each stage writes a file that says what it was made from. A stage whose file says the same is not
run again, so a restart after a kill continues and ends with the same page.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reviser.batch.job import begin
from reviser.batch.run import run
from reviser.core.codec import Codec
from reviser.data.readers import Reader, Tally, find_sources
from reviser.data.shards import TokenShards
from reviser.data.windows import held_out_documents
from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError, EngineError
from reviser.files import lock, write_json, write_whole
from reviser.lab.evals import evaluation, mauve, report, texts
from reviser.lab.evals.evaluation import Measures, Progress, System
from reviser.lab.evals.judges import JudgeConfig, open_judge
from reviser.lab.evals.texts import MANIFEST, REFERENCE, Protocol
from reviser.lab.recipe import LabRecipe, load_recipe
from reviser.lab.train import train
from reviser.models import hub
from reviser.train.inputs import open_text
from reviser.train.recipe import COMPARISON, read_yaml, resolve_base
from reviser.train.resume import check_claim
from reviser.train.yaml_reader import from_plain

OWN = "own"
"""The name of the scorer that is trained here."""
SEED_SHIFT = 20
"""Bits between the seeds of two files. Each line of a file has its own seed."""

Log = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The `comparison` section of a recipe, for `reviser lab reproduce`."""

    arms: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"reviser": (), "append": ("policy=append",)}
    )
    """Models to train, each with its changes of the recipe, written as for `--set`. The first is
    compared with the others. The default is `reviser`, the unchanged recipe, and `append`, with
    `policy=append`."""
    prompts: Protocol = field(default_factory=Protocol)
    """The choice of documents to continue."""
    text: tuple[str, ...] = ()
    """Sources of the documents, as for `reviser tokenize`. The default is the documents that
    training holds out."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `reviser generate`; the default of `max_length` is `prompts.total_tokens`."""
    scorers: tuple[str, ...] = ("own",)
    """Causal LMs for evalPPL, by folder or hub name; `own` is trained here."""
    own_scorer: tuple[str, ...] = ("policy=append", "data.windows.prefix=[0, 0]", "seed=1")
    """Changes of the recipe for the scorer that is trained here. Its policy must be append."""
    mauve: tuple[str, ...] = ("last:own",)
    """Features for MAUVE: `pll:NAME` of a masked LM, or `last:NAME`."""
    judge: JudgeConfig | None = None
    """The judge of the arena, if there is one."""

    def __post_init__(self) -> None:
        if not self.arms or {*self.arms} & {OWN, REFERENCE}:
            raise ConfigError(f"Name one arm or more, and none {OWN!r} or {REFERENCE!r}.")
        if wrong := [name for name in self.arms if not re.fullmatch(r"\w[\w.-]*", name)]:
            raise ConfigError(f"An arm is called {wrong[0]!r}; use letters, digits, '.', '-', '_'.")
        if "seed" in self.decoding:
            raise ConfigError("decoding.seed is not used: seeds are those of comparison.prompts.")
        DecodeConfig.of(self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The decoding settings."""
        return {"max_length": self.prompts.total_tokens, **self.decoding}

    @property
    def has_own_scorer(self) -> bool:
        """True if a scorer is trained here."""
        return any(name.rpartition(":")[2] == OWN for name in (*self.scorers, *self.mauve))

    def measures(self, own: str) -> Measures:
        """Return the measures, with the folder of the scorer trained here."""
        return Measures(
            scorers=tuple(_named(name, own) for name in self.scorers),
            mauve=tuple(_named(name, own) for name in self.mauve),
            order="both" if self.judge is None else self.judge.order,
            names={own: "the scorer trained here"},
        )


def load_comparison(path: str | Path, changes: Sequence[str] = ()) -> Comparison:
    """Read the comparison of a recipe; the default one if the recipe has none.

    Paths are relative to the recipe's folder.
    """
    fields = read_yaml(path, changes)
    found: Comparison = from_plain(Comparison, (fields or {}).get(COMPARISON) or {}, COMPARISON)
    folder = Path(path).absolute().parent

    def model(name: str) -> str:
        kind, colon, base = name.rpartition(":")
        return f"{kind}{colon}{resolve_base(folder, base)}"

    return replace(
        found,
        text=tuple(s if s.startswith("hf:") else str(folder / s) for s in found.text),
        scorers=tuple(map(model, found.scorers)),
        mauve=tuple(map(model, found.mauve)),
    )


def reproduce(
    recipe: str | Path,
    output: Path,
    *,
    changes: Sequence[str] = (),
    engine: str = "hf",
    options: Mapping[str, Any] | None = None,
    device: str = "auto",
    log: Log = lambda _: None,
    progress: Progress = lambda *_: None,
) -> Path:
    """Run every stage that is not done yet, and return the path of the page.

    A model that is already in `models/ARM`, for example from a cluster, is not trained again.
    """
    load_recipe(recipe, changes)  # refuses an invalid recipe before anything else
    comparison = load_comparison(recipe, changes)
    arms = {name: load_recipe(recipe, [*changes, *own]) for name, own in comparison.arms.items()}
    if comparison.has_own_scorer:
        arms[OWN] = load_recipe(recipe, [*changes, *comparison.own_scorer])
    device = evaluation.device_of(device)
    _check(comparison, arms, device)
    refusal = f"Another process is working in {str(output)!r}."
    output.mkdir(parents=True, exist_ok=True)
    with lock(output / "lock", refusal):
        prompts = _prompts(comparison, next(iter(arms.items())), output, log)
        for name, arm in arms.items():
            _train(name, arm, output / "models" / name, log)
        known = [prompt for path in prompts.values() for prompt in texts.read_prompts(path)]
        systems = []
        for name in comparison.arms:
            model, samples = output / "models" / name, []
            for seed, path in prompts.items():
                rollouts = output / "rollouts" / name / f"{seed}.jsonl"
                decoding = {
                    "settings": comparison.settings | {"seed": seed << SEED_SHIFT},
                    "engine": engine,
                    "options": dict(options or {}),
                }
                _roll_out(path, rollouts, model, decoding, log, progress)
                samples += texts.read_samples(rollouts, system=name, prompts=known)
            systems.append(System(name=name, samples=tuple(samples), folder=model))
        log("evaluating")
        measures = replace(
            comparison.measures(str(output / "models" / OWN)),
            judge=open_judge(comparison.judge) if comparison.judge else None,
            device=device,
        )
        record = evaluation.evaluate(
            systems, measures, cache=output / "measured", progress=progress
        )
        record |= texts.read_prompts_manifest([output / "prompts"])
        write_json(output / "report.json", record)
        write_whole(page := output / "report.md", report.to_markdown(record))
        return page


def _check(comparison: Comparison, arms: Mapping[str, LabRecipe], device: str) -> None:
    """Refuse an impossible comparison before anything is trained."""
    (first, ours), *others = arms.items()
    for name, arm in others:
        if not comparison.text and _held_out(arm) != _held_out(ours):
            raise ConfigError(
                f"{name!r} holds out other documents than {first!r}, so it may have been trained on"
                " the prompts. Give both the same data, or name prompts in comparison.text."
            )
    apart = replace(
        comparison,
        scorers=tuple(name for name in comparison.scorers if name != OWN),
        mauve=tuple(name for name in comparison.mauve if name.rpartition(":")[2] != OWN),
    )
    for features in comparison.mauve:
        evaluation.features_of(features)
        mauve.check_installed()
    replace(apart.measures(""), device=device).check()


def _held_out(recipe: LabRecipe) -> list[Any]:
    """Return the settings that determine which documents a model is not trained on."""
    data = recipe.data
    return [data.shards, data.text, data.split, data.text_key, data.windows.held_out]


def _named(name: str, own: str) -> str:
    """Replace `own` by its folder, also after the kind of features."""
    kind, colon, model = name.rpartition(":")
    return f"{kind}{colon}{own}" if model == OWN else name


def _train(name: str, arm: LabRecipe, model: Path, log: Log) -> None:
    if (model / "run.json").is_file():
        check_claim(model, arm)
        return
    log(f"training {name}")
    train(arm, model)


def _prompts(
    comparison: Comparison, first: tuple[str, LabRecipe], output: Path, log: Log
) -> dict[int, Path]:
    """Write a file of prompts for each seed, before anything is trained."""
    name, recipe = first
    model = output / "models" / name
    model.mkdir(parents=True, exist_ok=True)
    check_claim(model, recipe)
    codec, shards = open_text(recipe, model)
    data, folder = recipe.data, output / "prompts"
    files = {seed: folder / f"{seed}.jsonl" for seed in comparison.prompts.seeds}

    def make() -> None:
        log("choosing prompts")
        documents = _documents(comparison, recipe, codec, shards)
        chosen, _ = texts.choose_prompts(documents, codec, comparison.prompts)
        for seed, prompts in chosen.items():
            texts.write_prompts(files[seed], prompts)

    content: list[Any] = [_content(name) for given in comparison.text for name in _names(given)]
    content += [data.split, data.text_key] if content else [*_held_out(recipe), shards.fingerprint]
    sources = comparison.text or ["documents that training held out"]
    about = texts.describe_prompts(comparison.prompts, sources, codec, content)
    _once(folder / MANIFEST, about, [*files.values()], make)
    return files


def _documents(
    comparison: Comparison, recipe: LabRecipe, codec: Codec, shards: TokenShards
) -> Iterator[str]:
    if comparison.text:
        reader = Reader(split=recipe.data.split, text_key=recipe.data.text_key)
        yield from reader.read(comparison.text, Tally())
        return
    for document in np.flatnonzero(held_out_documents(shards, recipe.data.windows)):
        yield codec.decode(shards.read(int(document)))


def _names(given: str) -> list[str]:
    return [source.name for source in find_sources(given)]


def _content(name: str) -> list[str]:
    """Return a source's name and, for a file, the hash of its content."""
    return [name] if name.startswith("hf:") else [Path(name).name, _hash(Path(name))]


def _roll_out(
    prompts: Path,
    output: Path,
    model: Path,
    decoding: dict[str, Any],
    log: Log,
    progress: Progress,
) -> None:
    """Write a file of rollouts, unless it was made from the same prompts with the same model."""
    name = f"{model.name}, seed {output.stem}"

    def make() -> None:
        log(f"rolling out {name}")
        output.unlink(missing_ok=True)
        shutil.rmtree(output.with_name(output.name + ".parts"), ignore_errors=True)
        job = begin(str(prompts), str(output), str(model), **decoding)
        counts = run(job, progress=lambda n, of: progress(f"rollouts of {name}", n, of))
        if counts.failed:
            raise EngineError(f"{counts.failed} rollouts failed: see {str(output)!r}.")

    about = {"model": hub.fingerprint(model), "prompts": _hash(prompts), **decoding}
    _once(output.with_suffix(".made.json"), about, [output], make)


def _once(record: Path, about: dict[str, Any], files: list[Path], make: Callable[[], None]) -> None:
    """Make files unless a record says that these files were made from the same inputs."""

    def current() -> dict[str, Any]:
        hashes = {file.name: _hash(file) if file.is_file() else None for file in files}
        found: dict[str, Any] = json.loads(json.dumps(about | {"files": hashes}))
        return found

    if record.is_file() and json.loads(record.read_text("utf-8")) == current():
        return
    record.unlink(missing_ok=True)
    make()
    write_json(record, current())


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
