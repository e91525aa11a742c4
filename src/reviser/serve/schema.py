"""What goes over the wire, as types: the OpenAPI schema is made of these.

Ranges and defaults of settings are those of `DecodeConfig`; a field that is not known is refused
with the nearest that is.
"""

from __future__ import annotations

import difflib
from math import inf
from numbers import Integral
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from reviser.core.codec import Unit
from reviser.engines.base import RANGES, DecodeConfig, StopReason
from reviser.writing.tasks import CONTEXT, WINDOW

SENTENCE = "sentence"
"""Type of the validation errors whose message is ready to be read."""


Pair = Annotated[list[int], Field(min_length=2, max_length=2)]


def setting(name: str, meaning: str, **default: Any) -> Any:
    """A field for a setting of decoding, with a `default` of its own if it has one."""
    kind, low, high = RANGES[name]
    bounds: dict[str, Any] = {"gt" if name == "top_p" else "ge": _number(kind, low)}
    if high != inf:
        bounds["le"] = _number(kind, high)
    default = {"default": getattr(DecodeConfig, name)} | default
    return Field(description=meaning, **default, **bounds)


def _number(kind: type, value: float) -> float:
    return int(value) if kind is Integral else float(value)


def _told(message: str) -> PydanticCustomError:
    return PydanticCustomError(SENTENCE, "{message}", {"message": message})


class Body(BaseModel):
    """Strict: a number is no text, and no field is ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown_names(cls, given: Any) -> Any:
        """With the nearest name that exists."""
        if isinstance(given, dict):
            known = list(cls.model_fields)
            for name in given:
                if name not in known:
                    short = str(name)[:40]
                    near = difflib.get_close_matches(short, known, n=1)
                    advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
                    raise _told(f"There is no field {short!a}. {advice}")
        return given


class Settings(Body):
    """How actions are chosen."""

    temperature: float = setting("temperature", "0 takes the likeliest action.")
    top_k: int = setting("top_k", "Choose among so many likeliest actions; 0 for all.")
    top_p: float = setting(
        "top_p", "Choose among the likeliest that together have this share; above 0."
    )
    min_p: float = setting("min_p", "Leave out what is less likely than this of the likeliest.")
    seed: int = setting("seed", "Of the random numbers.")
    max_actions: int = setting("max_actions", "Then it ends, with the text as it is.")
    max_length: int | None = setting("max_length", "Most tokens of the text, prompt included.")
    max_edits: int | None = setting("max_edits", "Most actions that change the text.")
    max_moves: int | None = setting("max_moves", "Most moves in a row; 0 for none at all.")
    stop_bias: float = setting("stop_bias", "Below 0 the model writes on, above it ends sooner.")
    move_bias: float = setting("move_bias", "Above 0 more moves and marks, below it fewer.")

    def settings(self) -> dict[str, Any]:
        """By name, only those that were given."""
        return {
            name: getattr(self, name)
            for name in Settings.model_fields
            if name in self.model_fields_set
        }


class Streamed(Settings):
    """What the native routes share."""

    stream: bool = Field(False, description="Answer with server-sent events, one for each edit.")
    unit: Unit = Field(
        "char", description="What offsets, cursors and spans count: characters, or UTF-16 units."
    )


class GenerateBody(Streamed):
    """Write on behind a prompt, which stays as it is."""

    prompt: str = Field("", description="Plain text: names of control tokens are letters.")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"prompt": "Ben had a", "seed": 1, "max_actions": 64}]}
    )


class InfillBody(Streamed):
    """Fill the gaps of a text; the rest stays as it is."""

    text: str = Field(description="With {} for each gap, unless spans are given.")
    spans: list[Pair] | None = Field(
        None, description="Stretches to write anew, each from a place to a place, in order."
    )

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "Ben{} to the park.{} The end.", "max_actions": 64},
                {"text": "Ben walked to the park.", "spans": [[3, 10]]},
            ]
        }
    )


class ReviseBody(Streamed):
    """Edit a draft where it needs it; limits of actions and edits are for each of its parts."""

    draft: str = Field(description="Plain text, in as many parts as it needs.")
    instruction: str = Field("", description="What is to be done, if the model reads it.")
    locked: list[str | Pair] = Field(
        [],
        max_length=1000,
        description="What stays as it is: texts, wherever they occur, or stretches from a place"
        " to a place.",
    )
    precision: float | None = Field(
        None, ge=0, le=1, description="Share of changes that are to be right, as the model knows."
    )
    notes: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Edit only where, read first, a change is this likely or more.",
    )
    window: int = Field(WINDOW, ge=1, description="Tokens of a part.")
    context: int = Field(CONTEXT, ge=0, description="Tokens shown on either side of a part.")
    temperature: float = setting("temperature", "0 takes the likeliest action.", default=0.0)

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"draft": "It have a end. Ben said so.", "locked": ["Ben"]},
                {"draft": "It have a end.", "locked": [[0, 2]], "max_edits": 4},
            ]
        }
    )

    def options(self) -> dict[str, Any]:
        """What `plan_revise` takes besides the draft, settings and what is locked."""
        names = ("instruction", "precision", "notes", "window", "context")
        return {name: getattr(self, name) for name in names}


_NOT_HERE: dict[str, Any] = {"n": 1, "best_of": 1, "logprobs": 0, "stop": [], "logit_bias": {}}
_NOT_HERE |= {"presence_penalty": 0, "frequency_penalty": 0}


def _nullable(schema: dict[str, Any]) -> None:
    """Let the schema say that null stands for no value, as OpenAI's clients send it."""
    for name, each in schema["properties"].items():
        if {"type": "null"} not in each.get("anyOf", ()):
            kept = {
                key: each.pop(key) for key in ("title", "description", "default") if key in each
            }
            schema["properties"][name] = kept | {"anyOf": [each, {"type": "null"}]}
    schema["examples"] = [{"prompt": "Ben had a", "max_tokens": 64, "seed": 1}]


class CompletionBody(Settings):
    """A request of OpenAI's completions, as far as it means something here."""

    model: str | None = Field(None, description="As /v1/models names it.")
    prompt: str | Annotated[list[str], Field(min_length=1, max_length=1)] = ""
    suffix: str | None = Field(None, description="Text behind the gap that is written.")
    max_tokens: int | None = Field(None, ge=1, description="The same as max_actions.")
    echo: bool = False
    stream: bool = Field(False, description="The whole text comes as one piece, at the end.")
    stream_options: dict[str, bool] | None = None
    user: str | None = None
    n: Literal[1] = 1
    best_of: Literal[1] | None = None
    logprobs: Literal[0] | None = None
    stop: Annotated[list[str], Field(max_length=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] = 0.0
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None

    model_config = ConfigDict(json_schema_extra=_nullable)

    @model_validator(mode="before")
    @classmethod
    def leave_out_nulls(cls, given: Any) -> Any:
        """They stand for no value; what would change the text, and is not done here, is told."""
        if not isinstance(given, dict):
            return given
        for name, nothing in _NOT_HERE.items():
            value = given.get(name)
            if value not in (None, nothing) or isinstance(value, bool):  # true equals 1
                raise _told(f"{name!r} is not supported here: leave it out.")
        if isinstance(given.get("prompt"), list) and len(given["prompt"]) != 1:
            raise _told("Send one prompt a request.")
        known = cls.model_fields
        return {k: value for k, value in given.items() if value is not None or k not in known}

    @property
    def text(self) -> str:
        """The prompt; a list has the one."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt[0]


class Problem(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: int


class Failure(BaseModel):
    """Every answer that is no success."""

    error: Problem = Field(
        examples=[{"message": "The text has no gap.", "type": "ConfigError", "code": 400}]
    )


class TrajectoryBody(BaseModel):
    """Action ids, from a blank canvas."""

    prefix: list[int]
    restoration: list[int]
    unlearned: list[int] = []


class StatisticsBody(BaseModel):
    """What a text cost."""

    actions: int
    edits: int
    moves: int
    tokens_before: int
    tokens_after: int


class LockedBody(BaseModel):
    """A stretch that stayed, with SHA-256 of its bytes."""

    text: str
    before: str
    after: str


class RolloutBody(BaseModel):
    """What was written, and how."""

    prompt: str
    text: str
    trajectory: TrajectoryBody
    logprobs: list[float]
    stop_reason: StopReason
    statistics: StatisticsBody
    locked: list[LockedBody]
    config: dict[str, float | int | None]
    provenance: dict[str, Any]


class ChangeBody(BaseModel):
    """A stretch of the draft that gave way to another text."""

    start: int
    end: int
    before: str
    after: str
    logprob: float
    actions: int


class RevisionBody(BaseModel):
    """What was made of a draft; each part's rollout has the proof of what was locked in it."""

    text: str
    draft: str
    changes: list[ChangeBody]
    stop_logprob: float
    rollouts: list[RolloutBody]


class Choice(BaseModel):
    """One text, as OpenAI's clients expect it."""

    index: int = 0
    text: str
    logprobs: None = None
    finish_reason: Literal["stop", "length"]


class Usage(BaseModel):
    """What was read, and how many actions were taken."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """An answer as OpenAI's clients expect it."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


class Model(BaseModel):
    """The model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "reviser"


class Models(BaseModel):
    """All models: the one."""

    object: Literal["list"] = "list"
    data: list[Model]


class Status(BaseModel):
    """Of the server."""

    status: str


def sentence(errors: list[Any]) -> str:
    """What a person can do about the first thing that is wrong with a body."""
    first = cast("dict[str, Any]", errors[0])
    if first["type"] == SENTENCE:
        return str(first["msg"])
    place = ".".join(str(part) for part in first["loc"][1:])
    what = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        return "The body is not JSON. Send one JSON object."
    if not place:
        return "Send one JSON object, and the header Content-Type: application/json."
    return f"{place[:80]!a}: {what}."
