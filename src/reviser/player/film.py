"""A rollout prepared for playback: a text, and one text edit for each action.

Every action goes through the executor and the codec here, so a viewer only applies edits. Offsets
count UTF-16 units, as JavaScript does. This module knows rollouts, but not the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas, Edit
from reviser.core.codec import Codec, TextEdit, TextStream
from reviser.core.mask import is_argument, is_search
from reviser.core.trajectory import Trajectory
from reviser.errors import DataError, InvalidAction, ReviserError, TrajectoryError
from reviser.files import read_objects
from reviser.models import hub
from reviser.writing.rollout import Rollout

NAME = 60
"""Maximum length of a film's name, in characters."""


@dataclass(frozen=True, kw_only=True)
class FilmStep:
    """One action and its effect on the text."""

    edit: TextEdit
    action: str
    logprob: float | None = None
    in_preamble: bool = False
    """True if it was in the history before the model chose its first action."""
    found: tuple[int, int] | None = None
    """The span of the text that a search has found so far."""


@dataclass(frozen=True, kw_only=True)
class Film:
    """A text, the steps that change it, and facts about them."""

    name: str
    text: str
    """The text before the first step: the prompt, or the draft of a revision."""
    cursor: int
    steps: tuple[FilmStep, ...]
    final: str
    """The text after the last step."""
    facts: tuple[tuple[str, str], ...] = ()
    """Names and values to show next to the film."""


class Replayer:
    """A converter from rollouts of one model to films."""

    def __init__(self, vocab: ActionVocab, codec: Codec) -> None:
        self.vocab = vocab
        self.codec = codec

    @classmethod
    def load(cls, name: str | Path) -> Replayer:
        """Open a model folder, or a model from the hub, without its weights."""
        folder = hub.find(name, hub.CONFIG_FILES)
        return cls(ActionVocab.load(folder), Codec.load(folder))

    def film(
        self,
        trajectory: Trajectory,
        *,
        name: str = "",
        logprobs: Sequence[float] = (),
        facts: Sequence[tuple[str, str]] = (),
        start: int = 0,
        instruction_length: int = 0,
    ) -> Film:
        """Replay a trajectory; its default name is the start of its text.

        The film begins after the first `start` actions. The first `instruction_length` tokens of
        the canvas, an instruction, are not part of the text.
        """
        ids = trajectory.restoration
        try:
            canvas = Canvas.replay(self.vocab, [*trajectory.prefix, *ids[:start]])
            stream = self.codec.stream(canvas.tokens()[instruction_length:], unit="utf16")
            text, cursor = stream.text, _text_offset(stream, canvas.cursor - instruction_length)
            applied = [_applied(canvas, stream, i, instruction_length) for i in ids[start:]]
        except (InvalidAction, IndexError) as error:
            why = "its tokenizer lacks a token." if isinstance(error, IndexError) else str(error)
            raise DataError(
                f"These actions cannot be replayed with this model: {why} Give the model that wrote"
                " them."
            ) from error
        preamble = set(trajectory.no_loss)
        chosen = iter(logprobs)
        words = list(_actions(self.vocab, trajectory))[start:]
        steps = tuple(
            FilmStep(
                edit=edit,
                action=action,
                logprob=None if n in preamble else next(chosen, None),
                in_preamble=n in preamble,
                found=found,
            )
            for n, ((edit, found), action) in enumerate(
                zip(applied, words, strict=True), start=start
            )
        )
        name = name or _short(text or stream.text)
        return Film(
            name=name,
            text=text,
            cursor=cursor,
            steps=steps,
            final=stream.text,
            facts=tuple(facts),
        )

    def film_of(self, rollout: Rollout, *, name: str = "") -> Film:
        """Replay a rollout, and check that it ends with the same text.

        The film of a revision begins with the draft; an instruction becomes one of the facts.
        """
        trajectory = rollout.trajectory
        preamble = sum(index == n for n, index in enumerate(trajectory.no_loss))
        facts = list(facts_of(rollout))
        for instruction_length in dict.fromkeys((0, len(trajectory.prefix))):
            film = self.film(trajectory, name=name, instruction_length=instruction_length)
            if film.final == rollout.text:
                break
        else:
            raise DataError(
                f"The actions of {film.name!r} write another text with this model's tokenizer. Give"
                " the model that wrote them."
            )
        if instruction_length:
            facts.insert(0, ("Instruction", self.codec.decode(trajectory.prefix)))
        opening = Canvas.replay(
            self.vocab, [*trajectory.prefix, *trajectory.restoration[:preamble]]
        )
        is_draft = self.codec.decode(opening.tokens()[instruction_length:]) == rollout.prompt
        return self.film(
            trajectory,
            name=name,
            logprobs=rollout.logprobs,
            facts=facts,
            start=preamble if is_draft else 0,
            instruction_length=instruction_length,
        )


def _applied(
    canvas: Canvas, stream: TextStream, action_id: int, instruction_length: int
) -> tuple[TextEdit, tuple[int, int] | None]:
    """Apply an id; return its text edit, and the span that a search it belongs to has found."""
    found = canvas.found
    edit = canvas.apply(action_id)
    position, before, after = (
        max(0, n - instruction_length) for n in (edit.position, edit.cursor_before, edit.cursor)
    )
    text_edit = stream.feed(replace(edit, position=position, cursor_before=before, cursor=after))
    found = canvas.found or (found if edit.cursor != edit.cursor_before else None)
    if found is None:
        return text_edit, None
    start, end = (_text_offset(stream, max(0, n - instruction_length)) for n in found)
    return text_edit, (start, end)


def _text_offset(stream: TextStream, boundary: int) -> int:
    """Return the offset in the text of a boundary between tokens."""
    return stream.feed(Edit(boundary, (), (), boundary, boundary)).cursor


def _actions(vocab: ActionVocab, trajectory: Trajectory) -> Iterator[str]:
    """Yield a word for each id; the text it wrote is in its edit."""
    ids = np.array([trajectory.restoration], np.int64)
    roles = is_argument(vocab, ids)[0], is_search(vocab, ids)[0]
    for i, argument, search in zip(ids[0].tolist(), *roles, strict=True):
        kind, word = vocab.kind(i), vocab.describe(i)
        if search:
            yield "found" if kind is Kind.FIND_END else "find"
        elif kind in (Kind.INSERT, Kind.PREFIX_ONLY):
            yield "by" if argument else "insert"
        elif argument and kind is Kind.MOVE:
            yield word.removeprefix("move ")
        else:
            yield word.replace("_", " ")


def facts_of(rollout: Rollout) -> tuple[tuple[str, str], ...]:
    """Describe a rollout as names and values."""
    cost, settings = rollout.statistics, asdict(rollout.config)
    facts = {
        "Actions": f"{cost.actions:,}",
        "Edits": f"{cost.edits:,}",
        "Moves": f"{cost.moves:,}",
        "Tokens": f"{cost.tokens_before:,} before, {cost.tokens_after:,} after",
        "Stop reason": rollout.stop_reason.replace("_", " "),
        "Settings": ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in settings.items()
            if value is not None
        ),
    }
    if rollout.locked:
        kept = sum(part.before == part.after for part in rollout.locked)
        facts["Locked text"] = f"{kept} of {len(rollout.locked)} stretches unchanged, by SHA-256"
    return (*facts.items(), *_provenance(rollout.provenance))


def _provenance(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        words = value
        if isinstance(value, Mapping):
            words = ", ".join(f"{key} {each}" for key, each in value.items())
        yield name.capitalize(), str(words)


# -- files of rollouts ----------------------------------------------------------------------------


def read(
    paths: Sequence[Path], *, model: str | Path | None = None, limit: int | None = None
) -> tuple[list[Film], int]:
    """Return the films of files of rollouts, and the number of lines that hold an error.

    Each is replayed with `model`, or with the model that its provenance names; `limit` is the
    number of rollouts to take from each file.
    """
    replayers: dict[str, Replayer] = {}
    films: list[Film] = []
    failed = 0
    for path in paths:
        taken = 0
        for line, fields in read_objects(path):
            if "error" in fields:
                failed += 1
                continue
            rollout = fields if "trajectory" in fields else fields.get("rollout")
            for each in fields.get("rollouts") or [rollout]:  # a revision has one per window
                if limit is None or taken < limit:
                    taken += 1
                    films.append(_film(each, line, model, replayers))
            if taken == limit:
                break
    if not films:
        raise DataError(f"There are no rollouts in {', '.join(repr(str(path)) for path in paths)}.")
    return films, failed


def _film(found: Any, line: str, model: str | Path | None, replayers: dict[str, Replayer]) -> Film:
    try:
        if found is None:
            raise DataError("it has no 'trajectory'; rollouts are what reviser generate writes,"
                            " with --output or with --json.")  # fmt: skip
        rollout = Rollout.from_json(json.dumps(found))
        named = str(model or rollout.provenance.get("model") or "")
        if not named:
            raise DataError("it does not say which model wrote it. Name that with --model.")
        if named not in replayers:
            replayers[named] = _opened(named, is_explicit=model is not None)
        replayer = replayers[named]
        written_by = Path(str(rollout.provenance.get("model") or named)).name
        start = _short(rollout.prompt) or _short(rollout.text)
        return replayer.film_of(rollout, name=f"{start} ({written_by})")
    except (DataError, TrajectoryError) as error:
        raise DataError(f"{line}: {error}") from error


def _opened(name: str, *, is_explicit: bool) -> Replayer:
    try:
        return Replayer.load(name)
    except ReviserError as error:
        if is_explicit:
            raise
        raise DataError(f"its model {name!r} cannot be opened; name its folder with --model."
                        f" ({error})") from error  # fmt: skip


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= NAME else line[: NAME - 1].rstrip() + "\u2026"
