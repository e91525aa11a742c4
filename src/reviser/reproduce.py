"""A recipe in, a page out: its arms are trained, rolled out, evaluated and compared.

Each stage leaves a file that says what it was made from; a stage whose file says the same is not
done again. So a start after a kill goes on, and ends with the same page.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from reviser import batch
from reviser.core.codec import Codec
from reviser.data.dataset import held_out_documents
from reviser.data.files import write_whole
from reviser.data.readers import Reader, Tally
from reviser.data.shards import TokenShards
from reviser.errors import ConfigError, EngineError
from reviser.evals import evaluation, report, texts
from reviser.evals.evaluation import REFERENCE, Measures, System, Tell
from reviser.evals.judges import JudgeConfig, open_judge
from reviser.evals.perplexity import fingerprint
from reviser.evals.texts import Protocol
from reviser.generate import decode_config
from reviser.train.reading import read
from reviser.train.recipe import COMPARISON, Recipe, load_recipe, read_yaml
from reviser.train.run import train

OWN = "own"
"""As the name of a scorer: the one that is trained for it."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What `reviser reproduce` does with a recipe beyond training it."""

    arms: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"reviser": (), "append": ("policy=append",)}
    )
    """Models to train, each with what it changes in the recipe, as `--set` takes it. The first is
    compared with the others."""
    prompts: Protocol = field(default_factory=Protocol)
    """Which documents are continued."""
    text: tuple[str, ...] = ()
    """Where they come from: sources as `reviser tokenize` takes them. If none is named, those that
    training holds out."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `DecodeConfig`; `max_length` is `prompts.total_tokens` if not given."""
    scorers: tuple[str, ...] = (OWN,)
    """Causal LMs for evalPPL, by folder or hub name; `own` is one that is trained for it."""
    own_scorer: tuple[str, ...] = ("policy=append", "data.windows.prefix=[0, 0]", "seed=1")
    """What the scorer trained here changes in the recipe. It must only append."""
    mauve: tuple[str, ...] = (f"last:{OWN}",)
    """Features for MAUVE: `pll:NAME` of a masked LM, `last:NAME` or `mean:NAME`."""
    judge: JudgeConfig | None = None
    """Who judges the arena, if anyone."""

    def __post_init__(self) -> None:
        if not self.arms or {*self.arms} & {OWN, REFERENCE}:
            raise ConfigError(f"Name one arm or more, and none {OWN!r} or {REFERENCE!r}.")
        if "seed" in self.decoding:
            raise ConfigError("decoding.seed is not used: seeds are those of comparison.prompts.")


def load_comparison(path: str | Path, changes: Sequence[str] = ()) -> Comparison:
    """The comparison of a recipe, or the usual one if it says nothing of it."""
    found: Comparison = read(Comparison, read_yaml(path, changes).get(COMPARISON, {}), COMPARISON)
    return found


def reproduce(
    recipe: str | Path,
    output: Path,
    *,
    changes: Sequence[str] = (),
    engine: str = "hf",
    options: Mapping[str, Any] | None = None,
    device: str = "cpu",
    say: Callable[[str], None] = lambda _: None,
    tell: Tell = lambda *_: None,
) -> Path:
    """Run every stage that is still to be done; the page.

    A model that stands in `models/ARM` already, as from a cluster, is not trained again.
    """
    comparison = load_comparison(recipe, changes)
    arms = {name: load_recipe(recipe, [*changes, *own]) for name, own in comparison.arms.items()}
    if any(name.rpartition(":")[2] == OWN for name in (*comparison.scorers, *comparison.mauve)):
        arms[OWN] = load_recipe(recipe, [*changes, *comparison.own_scorer])
    settings = {"max_length": comparison.prompts.total_tokens, **comparison.decoding}
    decode_config(settings)  # refuses what cannot be before anything is trained
    judge = None if comparison.judge is None else open_judge(comparison.judge, device=device)
    for name, arm in arms.items():
        model = output / "models" / name
        if not (model / "run.json").is_file():
            say(f"training {name}")
        train(arm, model)  # which refuses one of another recipe, and leaves one that is finished
    prompts = _prompts(comparison, next(iter(arms.values())), output, say)
    systems = []
    for name in comparison.arms:
        model = output / "models" / name
        files = [
            _rollouts(name, seed, path, output, settings, engine, dict(options or {}), say, tell)
            for seed, path in prompts.items()
        ]
        known = [prompt for path in prompts.values() for prompt in texts.read_prompts(path)]
        samples = [s for f in files for s in texts.read_samples(f, system=name, prompts=known)]
        systems.append(System(name=name, samples=tuple(samples), folder=model))
    say("evaluating")
    own = str(output / "models" / OWN)
    measures = Measures(
        scorers=tuple(_named(name, own) for name in comparison.scorers),
        mauve=tuple(_named(name, own) for name in comparison.mauve),
        judge=judge,
        order="both" if comparison.judge is None else comparison.judge.order,
        device=device,
        names={own: "the scorer trained here"},
    )
    record = evaluation.evaluate(systems, measures, kept=output / "measured", tell=tell)
    record["protocol"] = asdict(comparison.prompts)
    record["data"] = ", ".join(comparison.text) or "documents that training held out"
    return report.write(record, output / "report.html")


def _named(name: str, own: str) -> str:
    """The folder in the place of `own`, also behind the kind of features."""
    kind, colon, model = name.rpartition(":")
    return f"{kind}{colon}{own}" if model == OWN else name


def _prompts(
    comparison: Comparison, recipe: Recipe, output: Path, say: Callable[[str], None]
) -> dict[int, Path]:
    """A file of prompts for each seed."""
    model = output / "models" / next(iter(comparison.arms))
    codec = Codec.load(model)
    shards = TokenShards.open(recipe.data.shards or model / "shards")
    folder, tally = output / "prompts", Tally()
    files = {seed: folder / f"{seed}.jsonl" for seed in comparison.prompts.seeds}

    def documents() -> Iterator[str]:
        if comparison.text:
            reader = Reader(split=recipe.data.split, text_key=recipe.data.text_key)
            yield from reader.read(comparison.text, tally)
            return
        for document in np.flatnonzero(held_out_documents(shards, recipe.data.windows)):
            yield codec.decode(shards.read(int(document)))

    def make() -> None:
        say("choosing prompts")
        chosen, _ = texts.choose_prompts(documents(), codec, comparison.prompts)
        for seed, prompts in chosen.items():
            texts.write_prompts(files[seed], prompts)

    source: Any = comparison.text or [shards.fingerprint, asdict(recipe.data.windows)]
    _once(folder / "made.json", [asdict(comparison.prompts), source, codec.fingerprint], make)
    return files


def _rollouts(
    name: str,
    seed: int,
    prompts: Path,
    output: Path,
    settings: dict[str, Any],
    engine: str,
    options: dict[str, Any],
    say: Callable[[str], None],
    tell: Tell,
) -> Path:
    """A file of rollouts; one that a kill cut short is begun anew, so that batches are the same."""
    model, path = output / "models" / name, output / "rollouts" / name / f"{seed}.jsonl"
    job = batch.Job(
        input=prompts,
        output=path,
        model=str(model),
        engine=engine,
        options=options,
        settings=settings | {"seed": seed},
    )

    def make() -> None:
        say(f"rolling out {name}, seed {seed}")
        path.unlink(missing_ok=True)
        shutil.rmtree(job.folder, ignore_errors=True)
        what = f"rollouts of {name}, seed {seed}"
        _, failed = batch.run(job, lambda n, of: tell(what, n, of))
        if failed:
            raise EngineError(f"{failed} rollouts could not be written: see {str(path)!r}.")

    digest = hashlib.sha256(prompts.read_bytes()).hexdigest()
    _once(path.with_suffix(".made.json"), [fingerprint(model), digest, job.settings, engine], make)
    return path


def _once(note: Path, depends: list[Any], make: Callable[[], None]) -> None:
    """Make something unless the note beside it says that it was made from the same."""
    depends = json.loads(json.dumps(depends))
    if note.is_file() and json.loads(note.read_text("utf-8")) == depends:
        return
    note.unlink(missing_ok=True)
    make()
    write_whole(note, json.dumps(depends) + "\n")
