"""A rollout as what a viewer applies: a text, and one text edit for each action.

Every action goes through the one executor and the codec, so who shows a film decides nothing: it
applies edits. Offsets count UTF-16 units, as JavaScript does. Knows rollouts, no page.
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
from reviser.writing.model import Rollout

NAME = 60
"""Characters of a text that name it."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One action and what it did to the text."""

    edit: TextEdit
    action: str
    logprob: float | None = None
    given: bool = False
    """Whether it stood in the history before the model chose anything."""
    found: tuple[int, int] | None = None
    """In a search, where what it looks for stands in the text, as far as that is typed."""


@dataclass(frozen=True, kw_only=True)
class Film:
    """A text, the steps that change it, and what is known of them."""

    name: str
    text: str
    """Before the first step: the prompt, or the draft of a revision."""
    cursor: int
    steps: tuple[Step, ...]
    final: str
    """After the last step."""
    facts: tuple[tuple[str, str], ...] = ()
    """Names and values to read beside it."""

    @property
    def opening(self) -> int:
        """Steps at the start that nobody chose: it opens behind them."""
        chosen = (n for n, step in enumerate(self.steps) if not step.given)
        return next(chosen, len(self.steps))


class Cutter:
    """Makes films with one model's actions and tokens."""

    def __init__(self, vocab: ActionVocab, codec: Codec) -> None:
        self.vocab = vocab
        self.codec = codec

    @classmethod
    def load(cls, name: str | Path) -> Cutter:
        """From a model folder, or a model of that name from the hub; no weights are read."""
        folder = hub.find(name, hub.SMALL)
        return cls(ActionVocab.load(folder), Codec.load(folder))

    def film(
        self,
        trajectory: Trajectory,
        *,
        name: str = "",
        logprobs: Sequence[float] = (),
        facts: Sequence[tuple[str, str]] = (),
        start: int = 0,
        unseen: int = 0,
    ) -> Film:
        """Replay a trajectory; its name is the start of its text if none is given.

        The film begins behind the first `start` actions. The first `unseen` tokens of the canvas
        are no part of the text, as an instruction is none.
        """
        ids = trajectory.restoration
        try:
            canvas = Canvas.replay(self.vocab, [*trajectory.prefix, *ids[:start]])
            stream = self.codec.stream(canvas.tokens()[unseen:], unit="utf16")
            text, cursor = stream.text, _place(stream, canvas.cursor - unseen)
            done = [_done(canvas, stream, i, unseen) for i in ids[start:]]
        except (InvalidAction, IndexError) as error:
            why = "its tokenizer lacks a token." if isinstance(error, IndexError) else str(error)
            raise DataError(
                f"These actions cannot be replayed with this model: {why} Give the model that wrote"
                " them."
            ) from error
        given = set(trajectory.unlearned)
        chosen = iter(logprobs)
        words = list(_actions(self.vocab, trajectory))[start:]
        steps = tuple(
            Step(
                edit=edit,
                action=action,
                logprob=None if n in given else next(chosen, None),
                given=n in given,
                found=found,
            )
            for n, ((edit, found), action) in enumerate(zip(done, words, strict=True), start=start)
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
        """Replay what a model wrote, and make sure that it comes to the same text.

        A film of a revision begins with the draft; an instruction is a fact beside it.
        """
        trajectory = rollout.trajectory
        given = sum(place == n for n, place in enumerate(trajectory.unlearned))
        told = list(facts_of(rollout))
        for unseen in dict.fromkeys((0, len(trajectory.prefix))):
            film = self.film(trajectory, name=name, unseen=unseen)
            if film.final == rollout.text:
                break
        else:
            raise DataError(
                f"The actions of {film.name!r} write another text with this model's tokenizer. Give"
                " the model that wrote them."
            )
        if unseen:
            told.insert(0, ("Instruction", self.codec.decode(trajectory.prefix)))
        shown = Canvas.replay(self.vocab, [*trajectory.prefix, *trajectory.restoration[:given]])
        is_draft = self.codec.decode(shown.tokens()[unseen:]) == rollout.prompt
        return self.film(
            trajectory,
            name=name,
            logprobs=rollout.logprobs,
            facts=told,
            start=given if is_draft else 0,
            unseen=unseen,
        )


def _done(
    canvas: Canvas, stream: TextStream, action_id: int, unseen: int
) -> tuple[TextEdit, tuple[int, int] | None]:
    """Apply an id; its effect on the text, and where a search that it belongs to would lead."""
    found = canvas.found
    edit = canvas.apply(action_id)
    place, before, after = (
        max(0, n - unseen) for n in (edit.position, edit.cursor_before, edit.cursor)
    )
    told = stream.feed(replace(edit, position=place, cursor_before=before, cursor=after))
    found = canvas.found or (found if edit.cursor != edit.cursor_before else None)
    if found is None:
        return told, None
    start, end = (_place(stream, max(0, n - unseen)) for n in found)
    return told, (start, end)


def _place(stream: TextStream, place: int) -> int:
    """Where a boundary between tokens is in the text."""
    return stream.feed(Edit(place, (), (), place, place)).cursor


def _actions(vocab: ActionVocab, trajectory: Trajectory) -> Iterator[str]:
    """Each id in a word; what it wrote is in its edit."""
    ids = np.array([trajectory.restoration], np.int64)
    roles = is_argument(vocab, ids)[0], is_search(vocab, ids)[0]
    for i, argument, search in zip(ids[0].tolist(), *roles, strict=True):
        kind, word = vocab.kind(i), vocab.describe(i)
        if search:
            yield "found" if kind is Kind.HERE else "find"
        elif kind in (Kind.INSERT, Kind.BARRED):
            yield "by" if argument else "insert"
        elif argument and kind is Kind.MOVE:
            yield word.removeprefix("move ")
        else:
            yield word.replace("_", " ")


def facts_of(rollout: Rollout) -> tuple[tuple[str, str], ...]:
    """What a rollout says of itself, in words."""
    cost, settings = rollout.statistics, asdict(rollout.config)
    facts = {
        "Actions": f"{cost.actions:,}",
        "Edits": f"{cost.edits:,}",
        "Moves": f"{cost.moves:,}",
        "Tokens": f"{cost.tokens_before:,} before, {cost.tokens_after:,} after",
        "Ended by": rollout.stop_reason.replace("_", " "),
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


def _provenance(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in told.items():
        words = value
        if isinstance(value, Mapping):
            words = ", ".join(f"{key} {each}" for key, each in value.items())
        yield name.capitalize(), str(words)


# -- files of rollouts ----------------------------------------------------------------------------


def read(
    paths: Sequence[Path], *, model: str | Path | None = None, limit: int | None = None
) -> tuple[list[Film], int]:
    """The films of some files of rollouts, and how many lines held an error instead.

    Each is replayed with `model`, or else with the one that its provenance names; `limit` counts
    the rollouts of each file.
    """
    cutters: dict[str, Cutter] = {}
    films: list[Film] = []
    failed = 0
    for path in paths:
        taken = 0
        for place, fields in read_objects(path):
            if "error" in fields:
                failed += 1
                continue
            told = fields if "trajectory" in fields else fields.get("rollout")
            for each in fields.get("rollouts") or [told]:  # a revision has one for each part
                if limit is None or taken < limit:
                    taken += 1
                    films.append(_film(each, place, model, cutters))
            if taken == limit:
                break
    if not films:
        raise DataError(f"There are no rollouts in {', '.join(repr(str(path)) for path in paths)}.")
    return films, failed


def _film(found: Any, place: str, model: str | Path | None, cutters: dict[str, Cutter]) -> Film:
    try:
        if found is None:
            raise DataError("it has no 'trajectory'; rollouts are what reviser generate writes,"
                            " with --output or with --json.")  # fmt: skip
        rollout = Rollout.from_json(json.dumps(found))
        named = str(model or rollout.provenance.get("model") or "")
        if not named:
            raise DataError("it does not say which model wrote it. Name that with --model.")
        if named not in cutters:
            cutters[named] = _opened(named, is_told=model is not None)
        cutter = cutters[named]
        written_by = Path(str(rollout.provenance.get("model") or named)).name
        start = _short(rollout.prompt) or _short(rollout.text)
        return cutter.film_of(rollout, name=f"{start} ({written_by})")
    except (DataError, TrajectoryError) as error:
        raise DataError(f"{place}: {error}") from error


def _opened(name: str, *, is_told: bool) -> Cutter:
    try:
        return Cutter.load(name)
    except ReviserError as error:
        if is_told:
            raise
        raise DataError(f"its model {name!r} cannot be opened; say where it is with --model."
                        f" ({error})") from error  # fmt: skip


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= NAME else line[: NAME - 1].rstrip() + "\u2026"
