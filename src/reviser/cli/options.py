"""Options that several commands share, and the values they become."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from reviser.batch.settings import FILE_CHUNK, FOLDER_CHUNK, Backend
from reviser.cli.output import announce_if_slow, quiet_libraries
from reviser.data.readers import SplitBy
from reviser.engines.settings import SETTINGS, DecodeConfig
from reviser.errors import CheckpointError, DataError, MissingExtra, exists, nearest_path

if TYPE_CHECKING:
    from reviser.model import Reviser
    from reviser.writing.tasks import Task

Command = Callable[..., None]
Decorator = Callable[[Command], Command]


class Seed(click.types.IntParamType):
    """A random seed; unlike with a click.IntRange, the help does not show the limits."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the seed, or refuse one that is out of range."""
        seed = super().convert(value, param, ctx)
        if not 0 <= seed < 2**64:
            self.fail(f"{value} is not a whole number from 0 to 2**64 - 1.", param, ctx)
        return seed


SEED = Seed()


def with_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in this order."""

    def decorate(command: Command) -> Command:
        # The option that is applied last comes first in the help.
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def collected(name: str, fields: Sequence[str], make: Callable[..., Any]) -> Decorator:
    """Return a decorator that hands a command one value made of several options."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            own = {field: values.pop(field) for field in fields}
            command(**values, **{name: make(**own)})

        return run

    return decorate


class InputPath(click.Path):
    """A path that must exist; for a missing one the error names the nearest path that does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(exists=True, path_type=Path, **options)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path, or raise DataError before the command imports anything slow."""
        if not exists(Path(value)):
            kind = "file or folder" if self.file_okay and self.dir_okay else self.name
            kind = "folder" if kind == "directory" else kind
            raise DataError(f"There is no {kind} {str(value)!r}.{nearest_path(value)}")
        return super().convert(value, param, ctx)


def folder_option(*names: str, **more: Any) -> Decorator:
    """Return a required option for a folder to write."""
    kind = click.Path(file_okay=False, path_type=Path)
    return click.option(*names, required=True, metavar="FOLDER", type=kind, **more)


tokenizer_option = functools.partial(
    click.option, "--tokenizer", required=True, metavar="FOLDER", type=InputPath(file_okay=False)
)
"""An option for the folder of a tokenizer."""


reader_options = with_options(
    click.option("--split", default="blank", show_default=True,
                 type=click.Choice(get_args(SplitBy)),
                 help="How to split a text file into documents: at blank lines, at every line end,"
                      " or not at all."),
    click.option("--text-key", default="text", show_default=True,
                 help="Field of JSON lines or column of parquet to read."),
)  # fmt: skip
"""The options of every command that reads documents."""


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """A model and the engine that runs it, as chosen on the command line."""

    model: str
    engine: str
    url: str | None
    engine_options: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """Options of `reviser.load`: the URL of a server, and those of the engine."""
        chosen = {} if self.url is None else {"url": self.url}
        return chosen | parse_options(self.engine_options)

    def load(self, **defaults: Any) -> Reviser:
        """Open the model; a line on standard error says so if it takes long."""
        from reviser.model import load

        quiet_libraries(self.model)
        with announce_if_slow(f"Loading model {self.model} ..."):
            return load(self.model, engine=self.engine, **(defaults | self.options))

    def check(self, task: Task, config: DecodeConfig) -> None:
        """Refuse a task that a local model cannot run, before torch is imported."""
        from reviser.core.actions import ActionVocab
        from reviser.core.codec import Codec
        from reviser.models.editing import Editing, check_can_revise
        from reviser.models.info import context_of
        from reviser.writing.prompts import Model, prompts_of
        from reviser.writing.tasks import Revise

        folder = Path(self.model)
        if not (exists(folder) and folder.is_dir()):
            return
        vocab, editing = ActionVocab.load(folder), Editing.load(folder)
        if isinstance(task, Revise):
            check_can_revise(editing, self.model)
        context = context_of(folder) or sys.maxsize  # some models read any length
        model = Model(
            vocab=vocab,
            codec=Codec.load(folder),
            context=context,
            editing=editing or Editing(),
        )
        prompts_of(task, model, config)


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse pairs of the form NAME=JSON; a value that is not JSON is taken as a string."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


engine_option = click.option("--engine", default="hf", show_default=True,
                             type=click.Choice(["hf", "vllm"]),
                             help="Engine that runs the model.")  # fmt: skip
engine_options_option = click.option("--engine-option", "engine_options", multiple=True,
                                     metavar="NAME=JSON",
                                     help="Option of the engine, such as rows=16 or"
                                          " enforce_eager=true; may be repeated.")  # fmt: skip


def open_quietly(name: str) -> Reviser:
    """Open a model for a server whose standard output is a protocol's."""
    from reviser.model import load

    quiet_libraries(name)
    return load(name)


@dataclass(frozen=True, kw_only=True)
class JudgeChoice:
    """The language model that judges suggestions, as chosen on the command line."""

    judge: str | None
    backend: Any
    url: str | None
    no_judge: bool

    def open(
        self, project: str | None, warn: Callable[[str], object], *, own_process: bool = False
    ) -> Reviser:
        """Open a proofreader with this judge, or that of the project, or the default.

        If the default one cannot be opened, warn, and return one that makes only sure edits.
        """
        from reviser.proofreading import DEFAULT_JUDGE, proofreader

        named = self.judge or project
        if self.no_judge:
            return proofreader(None)
        name = named or DEFAULT_JUDGE
        quiet_libraries(name)
        options: dict[str, Any] = {} if self.url is None else {"url": self.url}
        # A judge that the user named must be opened. The default may be missing: a first run
        # without a network or an extra is still of use.
        try:
            return proofreader(name, backend=self.backend, own_process=own_process, **options)
        except (CheckpointError, MissingExtra) as error:
            if named:
                raise
            warn(f"Only sure corrections are shown, because the judge cannot be opened: {error} To"
                 " use another one, pass its folder or hub name to --judge.")  # fmt: skip
            return proofreader(None)


judge_without_url = with_options(
    click.option("--judge", metavar="MODEL",
                 help="Language model that judges suggestions: a folder or a hub name. By default,"
                      " SmolLM2-135M-Instruct."),
    click.option("--backend", default="auto", show_default=True,
                 type=click.Choice(["auto", "onnx", "hf", "vllm"]),
                 help="What runs the judge: auto takes ONNX Runtime if it is installed, else"
                      " Transformers."),
    click.option("--no-judge", is_flag=True,
                 help="Load no model: make only the corrections that are sure."),
)  # fmt: skip
"""The options that choose a judge, for a command that has its own --url."""

judge_options = with_options(
    judge_without_url,
    click.option("--url", metavar="URL",
                 help="URL of a vLLM server that runs the judge, for --backend vllm."),
    collected("choice", ["judge", "backend", "url", "no_judge"], JudgeChoice),
)  # fmt: skip
"""The options that choose a judge; the command gets them as one `JudgeChoice`."""


def model_choice(model: Decorator) -> Decorator:
    """Return the options that choose a model; the command gets them as one `ModelChoice`."""
    url = click.option("--url", metavar="URL",
                       help="URL of a vLLM server that runs the model, for --engine vllm. By"
                            " default, one is started and ends with the command.")  # fmt: skip
    return with_options(
        model,
        engine_option,
        url,
        engine_options_option,
        collected("choice", ["model", "engine", "url", "engine_options"], ModelChoice),
    )


def _from_argument_or_option(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """Return the model that was given as the argument, or with -m as other commands take it."""
    as_option: str | None = ctx.params.pop("model_option", None)
    chosen = value or as_option or ""
    if not chosen and ctx.command.name != "serve":  # which then proofreads
        raise click.MissingParameter(ctx=ctx, param=param)
    return chosen


model_argument = with_options(
    click.argument("model", metavar="MODEL", required=False, callback=_from_argument_or_option),
    click.option("-m", "--model", "model_option", metavar="MODEL", is_eager=True, hidden=True),
)
"""The model as an argument, for commands that are about one model."""

model_options = model_choice(
    click.option("-m", "--model", required=True, metavar="MODEL", help="Model folder or hub name.")
)


def decoding_options(config: DecodeConfig) -> Decorator:
    """Return one option per decoding setting; the command gets them as one `DecodeConfig`.

    Their names, types, help and ranges are those of `SETTINGS`; the defaults are the config's.
    """
    options = [
        click.option(
            f"--{name.replace('_', '-')}",
            default=getattr(config, name),
            show_default=True,
            type=setting.type,
            help=setting.help,
        )
        for name, setting in SETTINGS.items()
    ]
    return with_options(*options, collected("config", list(SETTINGS), DecodeConfig))


@dataclass(frozen=True, kw_only=True)
class BatchChoice:
    """A batch of texts, and where to run it, as chosen on the command line."""

    source: str | None
    output: str | None
    workers: int
    backend: Backend
    backend_options: tuple[str, ...]
    part: tuple[int, int]
    text_key: str | None
    chunk_rows: int | None

    @property
    def is_chosen(self) -> bool:
        """True if there are texts to work through; half of a choice is refused."""
        if (self.source is None) != (self.output is None):
            raise click.UsageError("Give --input and --output together.")
        return self.source is not None

    @property
    def paths(self) -> tuple[str, str]:
        """Input and output, once they are chosen."""
        assert self.source is not None
        assert self.output is not None
        return self.source, self.output


def _part(_: click.Context, __: click.Parameter, value: str) -> tuple[int, int]:
    """Parse K/N."""
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", value)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise click.BadParameter(f"{value!r} is not a share; give K/N with K from 1 to N.")
    return int(found[1]), int(found[2])


def batch_options(source: str, instead_of: str, results: str) -> Decorator:
    """Return the options of a command that also runs a batch of texts."""
    return with_options(
        click.option("--input", "source", metavar="PATH",
                     help=f"{source.capitalize()} to read in place of {instead_of}: JSON lines or"
                          " Parquet, as a file, a folder, a pattern or a URL such as s3://..."),
        click.option("--output", metavar="PATH",
                     help=f"FILE.jsonl, or a folder or URL with a file of {results} per chunk;"
                          " needs --input."),
        click.option("--workers", default=1, show_default=True, type=click.IntRange(1),
                     help="Number of processes for --input; each loads the model."),
        click.option("--backend", default="local", show_default=True,
                     type=click.Choice(get_args(Backend)),
                     help="Where the workers run: on this machine, or on a Ray cluster."),
        click.option("--backend-option", "backend_options", multiple=True, metavar="NAME=JSON",
                     help="Option of Ray's map_batches, such as num_gpus=1; may be repeated."),
        click.option("--part", default="1/1", metavar="K/N", callback=_part,
                     help="Run only the K-th of N equal shares of an --output folder; the others"
                          " can run on other machines at the same time."),
        click.option("--text-key", metavar="NAME",
                     help=f"Field or column with the text. By default, as in a file of {source}."),
        click.option("--chunk-size", "chunk_rows", type=click.IntRange(1),
                     help="Documents per unit of work, and per file of an --output folder. By"
                          f" default {FOLDER_CHUNK}, or {FILE_CHUNK} for FILE.jsonl."),
        collected("batch", [field.name for field in fields(BatchChoice)], BatchChoice),
    )  # fmt: skip
