"""The tools: the arguments of each, and the task that they become."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from reviser.engines.settings import DecodeConfig
from reviser.errors import ConfigError
from reviser.markup import Choice, chosen_spans
from reviser.markup.spans import Span
from reviser.writing.tasks import Infill, Revise


class _Arguments(BaseModel):
    """Arguments of a tool; an unknown name is refused, so that a misspelled lock is not lost."""

    model_config = ConfigDict(extra="forbid")

    description: ClassVar[str]
    text: Annotated[str, Field(description="The whole text. The tool does not read files.")]


class _RevisionArguments(_Arguments):
    """Arguments of the tools that revise."""

    file_name: Annotated[
        str,
        Field(description="Name of the file that the text comes from. Its suffix says which markup"
                          " is locked: code, links, front matter, math."),
    ] = ""  # fmt: skip
    markup: Annotated[
        Choice,
        Field(description="Format whose markup is locked. auto goes by file_name, and locks"
                          " nothing without one."),
    ] = "auto"  # fmt: skip
    locked: Annotated[
        list[str | Span],
        Field(description="Never change these: texts, wherever they occur, or [start, end]"
                          " positions."),
    ] = []  # fmt: skip  # pydantic copies it
    instruction: Annotated[
        str, Field(description="What to change, for a model that was trained with instructions.")
    ] = ""
    min_edit_probability: Annotated[
        float | None,
        Field(description="Change only words with at least this predicted edit probability, from 0"
                          " to 1. By default, the model's own threshold."),
    ] = None  # fmt: skip
    precision: Annotated[
        float | None,
        Field(description="Share of edits that should be correct, from 0 to 1, for a model that was"
                          " calibrated."),
    ] = None  # fmt: skip
    min_confidence: Annotated[
        float | None,
        Field(description="Return only edits with at least this confidence, from 0 to 1. By"
                          " default, the proofreader's own."),
    ] = None  # fmt: skip

    def task(self) -> Revise:
        """Return the task that these arguments describe."""
        markup = chosen_spans(self.text, self.markup, self.file_name or None)
        return Revise(
            self.text,
            locked=[*self.locked, *markup, *self._unselected()],
            instruction=self.instruction,
            min_edit_probability=self.min_edit_probability,
            precision=self.precision,
            min_confidence=self.min_confidence,
        )

    def config(self) -> DecodeConfig:
        """Return the decoding settings."""
        return Revise.default_config

    def _unselected(self) -> list[Span]:
        """Return the spans outside the selection."""
        return []


class Proofread(_RevisionArguments):
    """Arguments of `proofread`."""

    description: ClassVar[str] = (
        "Find mistakes in a text. Returns a list of small edits, never the whole text. Positions"
        " count characters (Unicode code points) from 0. Everything outside the edits is unchanged."
    )


class ReviseSelection(_RevisionArguments):
    """Arguments of `revise_selection`."""

    description: ClassVar[str] = (
        "Revise one part of a text and lock the rest. Give the part as `selection`, a text that"
        " occurs once, or as `start` and `end`. Returns a list of small edits with positions in"
        " the whole text."
    )
    selection: Annotated[
        str, Field(description="The part to revise, copied from the text; it must occur once.")
    ] = ""
    start: Annotated[int | None, Field(description="First character of the part.")] = None
    end: Annotated[int | None, Field(description="Position after the part.")] = None

    def _unselected(self) -> list[Span]:
        start, end = self._selected()
        return [(0, start), (end, len(self.text))]

    def _selected(self) -> Span:
        if self.start is not None and self.end is not None and not self.selection:
            if not 0 <= self.start <= self.end <= len(self.text):
                raise ConfigError(
                    f"The selection {self.start}..{self.end} is not within the text's"
                    f" {len(self.text)} characters."
                )
            return self.start, self.end
        if not self.selection or self.start is not None or self.end is not None:
            raise ConfigError("Give `selection`, or `start` and `end`, to say what to revise.")
        start = self.text.find(self.selection)
        if start < 0 or self.text.find(self.selection, start + 1) >= 0:
            count = "does not occur" if start < 0 else "occurs more than once"
            raise ConfigError(
                f"The selection {self.selection[:40]!r} {count} in the text. Give a longer one, or"
                " `start` and `end`."
            )
        return start, start + len(self.selection)


class Fill(_Arguments):
    """Arguments of `infill`."""

    description: ClassVar[str] = (
        "Fill the gaps of a text, marked with {} or given as `spans` to rewrite. Returns one edit"
        " per gap, never the whole text. Everything outside the gaps is locked."
    )
    spans: Annotated[
        list[Span] | None,
        Field(description="[start, end] positions of the gaps, in order. With spans, {} in the text"
                          " is ordinary text."),
    ] = None  # fmt: skip
    seed: Annotated[int, Field(description="Random seed; another one gives other fills.")] = 0

    def task(self) -> Infill:
        """Return the task that these arguments describe."""
        return Infill(self.text, self.spans)

    def config(self) -> DecodeConfig:
        """Return the decoding settings."""
        return DecodeConfig.of({"seed": self.seed})


Arguments: TypeAlias = Proofread | ReviseSelection | Fill
TOOLS: dict[str, type[Arguments]] = {
    "proofread": Proofread,
    "infill": Fill,
    "revise_selection": ReviseSelection,
}
