"""Request and response bodies as pydantic models; the OpenAPI schema is made from them.

The fields of settings derive from `SETTINGS`, those of texts from the task classes. Bodies check
types; tasks check texts, spans and locks, so that every front end refuses the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from reviser.core.codec import OffsetUnit
from reviser.engines.base import StopReason
from reviser.engines.settings import MAX_RANGES, SETTINGS
from reviser.errors import ConfigError, did_you_mean
from reviser.serve.units import from_utf16
from reviser.writing.changes import Change
from reviser.writing.rollout import Rollout
from reviser.writing.tasks import CONTEXT, WINDOW, Continue, Infill, Revise, Task

SENTENCE = "sentence"
"""Type of the validation errors whose message needs no rewording."""

SpanBody = Annotated[list[int], Field(min_length=2, max_length=2)]


def _setting_fields() -> dict[str, Any]:
    """Return a pydantic field for each setting."""
    found: dict[str, Any] = {}
    for each in SETTINGS.values():
        bounds: dict[str, Any] = {"gt" if each.excludes_low else "ge": each.low, "le": each.high}
        kind = each.type | None if each.is_optional else each.type
        found[each.name] = (kind, Field(each.default, description=each.help, **bounds))
    return found


class RequestBody(BaseModel):
    """A strict JSON object: types are not converted, and no field is ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown_names(cls, values: Any) -> Any:
        """Refuse an unknown field, and suggest the nearest known name."""
        if isinstance(values, dict):
            known = list(cls.model_fields)
            for name in values:
                if name not in known:
                    short = str(name)[:40]
                    advice = did_you_mean(short, known)
                    message = f"{short!a} is not a field of this request. {advice}"
                    raise PydanticCustomError(SENTENCE, "{message}", {"message": message})
        return values


_SettingFields = create_model("_SettingFields", __base__=RequestBody, **_setting_fields())


class TaskBody(_SettingFields):  # type: ignore[misc, valid-type]
    """A task with the decoding settings, which all routes share."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that the client sent, by name."""
        return {name: getattr(self, name) for name in SETTINGS if name in self.model_fields_set}

    def texts(self) -> list[str]:
        """Return the texts of the request, whose size is limited."""
        names = ("prompt", "suffix", "text", "draft", "instruction")
        return [getattr(self, name) for name in names if name in type(self).model_fields]

    def task(self) -> Task:
        """Return the task; its own checks raise ConfigError."""
        raise NotImplementedError


class StreamableBody(TaskBody):
    """A request that can be answered with a stream of edits."""

    stream: bool = Field(False, description="Answer with server-sent events, one for each edit.")
    unit: OffsetUnit = Field(
        "char", description="The unit of offsets, cursors and spans: characters or UTF-16 units."
    )
    task_type: ClassVar[type[Task]]

    def task(self) -> Task:
        """Return the task; its own checks raise ConfigError."""
        values = {each.name: getattr(self, each.name) for each in fields(self.task_type)}
        for name, text in (("spans", "text"), ("locked", "draft")):
            if values.get(name) and self.unit == "utf16":
                values[name] = from_utf16(values[text], values[name])
        return self.task_type(**values)


class GenerateBody(StreamableBody):
    """Continue a prompt, which is never changed."""

    task_type = Continue
    prompt: str = Field(
        "", description="The text to continue. Names of control tokens in it are ordinary text."
    )


class InfillBody(StreamableBody):
    """Fill the gaps of a text; the rest of it is never changed."""

    task_type = Infill
    text: str = Field(description="The text to fill, with {} for each gap unless spans are given.")
    # `fail_fast` stops at the first bad item: a million bad ones would make a million errors.
    spans: Annotated[list[SpanBody], Field(max_length=MAX_RANGES, fail_fast=True)] | None = Field(
        None, description="Spans of the text to rewrite, as pairs of start and end, in order."
    )


class ReviseBody(StreamableBody):
    """Edit a draft where it needs it; max_actions and max_edits apply to each window."""

    task_type = Revise
    draft: str = Field(description="The text to edit; a long one is revised in several windows.")
    instruction: str = Field(
        "", description="An instruction in words, for models that were trained with instructions."
    )
    locked: Annotated[list[str | SpanBody], Field(max_length=1000, fail_fast=True)] = Field(
        [], description="Text that is never changed: texts wherever they occur, or spans."
    )
    min_edit_probability: float | None = Field(
        None,
        description="Change only words with at least this probability of needing an edit; 0 allows"
        " changes everywhere. The default is the model's own.",
    )
    precision: float | None = Field(
        None, description="Share of changes that should be right, by the model's calibration."
    )
    min_confidence: float | None = Field(
        None, description="Lowest confidence of a change that a proofreader keeps."
    )
    words: Annotated[list[str], Field(max_length=10_000, fail_fast=True)] = Field(
        [], description="Words that a proofreader never changes, as in a user's dictionary."
    )
    sure: bool = Field(
        False,
        description="Return only the changes that a proofreader makes without its judge, in"
        " milliseconds.",
    )
    window: int = Field(WINDOW, description="Tokens of the draft that are revised at a time.")
    context: int = Field(CONTEXT, description="Tokens shown on either side of a window.")
    temperature: float = Field(0.0, ge=0, le=1000, description=SETTINGS["temperature"].help)


class CompletionBody(TaskBody):
    """A request of OpenAI's completions API; what has no effect may only have a neutral value."""

    model: str | None = Field(None, description="The model's name in /v1/models.")
    prompt: str = ""
    suffix: str = Field("", description="The text after the gap to fill.")
    max_tokens: int | None = Field(None, ge=1, description="Replaces max_actions.")
    user: str | None = None
    n: Literal[1] | None = None
    best_of: Literal[1] | None = None
    echo: Literal[False] | None = None
    stream: Literal[False] | None = Field(None, description="Stream edits from /v1/generate.")

    def settings(self) -> dict[str, Any]:
        """Return the settings that the client sent, `max_tokens` under our name."""
        most = {} if self.max_tokens is None else {"max_actions": self.max_tokens}
        return super().settings() | most

    def task(self) -> Task:
        """Return the task: a suffix makes it an infill."""
        if not self.suffix:
            return Continue(self.prompt)
        gap = len(self.prompt)
        return Infill(self.prompt + self.suffix, [(gap, gap)])


class Problem(BaseModel):
    """The message of an error, with its type and its HTTP status code."""

    message: str
    type: str
    code: int


class Failure(BaseModel):
    """The body of every error response."""

    error: Problem


class RevisionBody(BaseModel):
    """A revised draft; the rollout of each window has the proof of its locked texts."""

    text: str
    draft: str
    changes: list[Change]
    stop_logprob: float
    suggestions: list[Change]
    rollouts: list[Rollout]
    stop_reason: StopReason


Route: TypeAlias = Literal["generate", "infill", "revise"]


class Model(BaseModel):
    """The model that is served, and what it can do."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "reviser"
    routes: list[Route] = Field(description="The routes under /v1 that the model was made for.")
    about: str = Field(description="What the model writes and what its limits are.")
    examples: list[str] = Field(description="Texts to start from; {} is a gap to fill.")
    min_confidence: float | None = Field(
        description="The lowest confidence of a change that /v1/revise keeps unless a request has a"
        " precision; null if changes have no confidence."
    )
    calibration: list[tuple[float, float]] = Field(
        description="Pairs of a minimum confidence and the share of changes that were right with"
        " it, as measured on held-out text."
    )


class Models(BaseModel):
    """The list of models, which has one entry."""

    object: Literal["list"] = "list"
    data: list[Model]


def sentence(errors: list[Any]) -> str:
    """Return one sentence that says what is wrong with a body, from its first error."""
    first = cast("Mapping[str, Any]", errors[0])
    message = str(first["msg"])
    if first["type"] == SENTENCE:
        return message
    if first["type"] == "json_invalid":
        return "The body is not valid JSON. Send one JSON object."
    names = [str(part) for part in first["loc"][1:]]
    if not names:
        return "Send one JSON object, with the header Content-Type: application/json."
    if names[0] in SETTINGS:
        try:
            SETTINGS[names[0]].check(first["input"])
        except ConfigError as error:
            return str(error)  # the sentence that Python callers get
    return f"{'.'.join(names)[:80]!a}: {message.removeprefix('Value error, ')}."
