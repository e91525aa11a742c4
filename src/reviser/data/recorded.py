"""Recorded edits: from versions of a text, or named actions, to trajectories of a vocabulary.

Everything is checked as it is turned into ids. This module knows one recording at a time; files of
them are in `trajectory_files`, training examples in `recorded_dataset`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec
from reviser.core.kinds import KIND_OF_WORD, NUMBER_ARGUMENTS
from reviser.core.trajectory import Trajectory
from reviser.errors import ReviserError, TrajectoryError
from reviser.trajectories.alignment import diff, present, script, word_starts

Edits: TypeAlias = Sequence[str | tuple[Any, ...]]
_MOST = 1 << 16
"""Number of different actions whose ids are kept."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """How one text was written: what was there first, and each edit after it."""

    prompt: str = ""
    """Text before the canvas. It is never changed."""
    draft: str = ""
    """Text on the canvas before the first edit, with the cursor at its start."""
    edits: Edits
    """Versions of the text, each after the one before, or actions such as ("insert", "word"),
    ("delete",) and ("move", -4)."""
    seconds: Sequence[float] = ()
    """The time of each edit, for example since a person began to type. Training does not use it."""


class Recorder:
    """What turns recorded texts and actions into checked trajectories of one vocabulary."""

    def __init__(self, codec: Codec, vocab: ActionVocab) -> None:
        self.codec, self.vocab = codec, vocab
        self._known: dict[tuple[Any, ...], list[int]] = {}

    def trajectory(self, example: Recording | tuple[Any, ...]) -> Trajectory:
        """Return the trajectory of a recording, or of a tuple of a prompt and its edits."""
        return self._recorded(_recording(example))[0]

    def line(self, example: Recording | tuple[Any, ...]) -> tuple[Trajectory, str]:
        """Return the trajectory, and it as JSON, with the time of each id if there are times."""
        recording = _recording(example)
        trajectory, sizes = self._recorded(recording)
        if not recording.seconds:
            return trajectory, trajectory.to_json()
        times = np.repeat([float(second) for second in recording.seconds], sizes)
        return trajectory, json.dumps({**trajectory.to_dict(), "seconds": times.tolist()})

    def _recorded(self, recording: Recording) -> tuple[Trajectory, list[int]]:
        """Return the trajectory, and how many ids each edit takes."""
        vocab = self.vocab
        if recording.seconds and len(recording.seconds) != len(recording.edits):
            raise TrajectoryError(
                f"There are {len(recording.seconds)} times for {len(recording.edits)} edits; give"
                " one for each, or none."
            )
        # Byte for byte, as the prompt of a continuation is encoded.
        prefix = self.codec.encode_parts([recording.prompt])[0] if recording.prompt else []
        draft = self.codec.encode(recording.draft) if recording.draft else []
        if draft and vocab.needs_prefix and not prefix:
            raise TrajectoryError("This vocabulary shows a draft only after a prompt: give one.")
        shown = present(vocab, draft, prefix=prefix)
        replay = _Replay(vocab, prefix)
        for action_id in shown:
            replay.apply(action_id)
        sizes, ids = [], list(shown)
        for number, edit in enumerate(recording.edits, start=1):
            try:
                is_version = isinstance(edit, str)
                write = self._version if is_version else self._actions
                written = write(replay.canvas, edit, len(prefix))
                for action_id in written:
                    replay.apply(action_id)
            except ReviserError as error:
                raise TrajectoryError(f"Edit {number} ({edit!r}): {error}") from error
            ids += written
            sizes.append(len(written))
        trajectory = Trajectory(
            prefix=tuple(prefix),
            restoration=(*ids, vocab.stop),
            no_loss=tuple(range(len(shown))),
        )
        return trajectory, sizes

    def _version(self, canvas: Canvas, text: Any, offset: int) -> list[int]:
        """Return the ids of the fewest edits that turn the canvas into the next version."""
        before, after = canvas.tokens()[offset:], self.codec.encode(text) if text else []
        starts = word_starts(self.codec, before), word_starts(self.codec, after)
        hunks = diff(before, after, starts=starts)
        return script(self.vocab, before, hunks, cursor=canvas.cursor, offset=offset)

    def _actions(self, canvas: Canvas, edit: Any, offset: int) -> list[int]:
        """Return the ids of an action that is given as its name and arguments."""
        is_plain = isinstance(edit, tuple) and all(type(part) in (str, int) for part in edit)
        if not is_plain or edit[:1] == ("move",):  # moves depend on the canvas
            return self._spelled(canvas, edit, offset)
        found = self._known.get(edit)
        if found is None:
            found = self._spelled(canvas, edit, offset)
            if len(self._known) < _MOST:
                self._known[edit] = found
        return found

    def _spelled(self, canvas: Canvas, edit: Any, offset: int) -> list[int]:
        vocab = self.vocab
        name, *values = edit if isinstance(edit, tuple | list) and edit else ("",)
        kind = KIND_OF_WORD.get(name) if isinstance(name, str) else None
        takes_text = kind in (Kind.INSERT, Kind.REPLACE, Kind.FIND)
        numbers = 1 if kind is Kind.MOVE else 0 if kind is None else NUMBER_ARGUMENTS.get(kind, 0)
        wanted: type = str if takes_text else int
        if (
            kind is None
            or kind >= Kind.FIND_END
            or kind is Kind.STOP
            or len(values) != (1 if takes_text else numbers)
            or not all(type(value) is wanted for value in values)
        ):
            raise TrajectoryError(f"This is not an action. {_ACTIONS}")
        if kind is Kind.MOVE:
            bounds = {"cursor": canvas.cursor - offset, "length": len(canvas) - offset}
            inside = 0 <= bounds["cursor"] + values[0] <= bounds["length"]
            steps = vocab.split_move(values[0], **(bounds if inside else {}))
            return [vocab.move_id(step) for step in steps]
        if not takes_text:
            return list(vocab.spell(Action(kind, *values)))
        tokens = self.codec.encode(values[0])
        if kind is Kind.FIND:
            return list(vocab.spell(Action(kind, tokens=tuple(tokens))))
        if kind is Kind.REPLACE and len(tokens) != 1:
            raise TrajectoryError(
                f"The text has {len(tokens)} tokens, but replace writes exactly one. Use delete and"
                " insert, or give versions of the text."
            )
        return [i for token in tokens for i in vocab.spell(Action(kind, token))]


_ACTIONS = (
    'Use ("insert", text), ("replace", text), ("delete",), ("swap",), ("move", distance),'
    ' ("find", text), ("mark",), ("back",), ("span_delete", size), ("span_move", size, distance) or'
    ' ("span_copy", size, distance).'
)


def _recording(example: Any) -> Recording:
    if isinstance(example, Recording):
        return example
    is_pair = isinstance(example, tuple) and len(example) == 2 and isinstance(example[0], str)
    if not is_pair or isinstance(example[1], str) or not isinstance(example[1], Sequence):
        raise TrajectoryError(
            f"An example is {repr(example)[:80]}; it should be a prompt and a list of versions or"
            " actions, or a Recording."
        )
    return Recording(prompt=example[0], edits=example[1])


class _Replay:
    """A canvas that refuses what the mask forbids, for a text in which only the prompt is locked.

    A canvas alone allows edits and moves before the prompt's end. The mask itself computes with
    arrays, for many texts at once, and would be slow for one.
    """

    def __init__(self, vocab: ActionVocab, prefix: Sequence[int]) -> None:
        vocab.prefix_actions(prefix)  # refuses what cannot be a prefix
        self.vocab, self.floor = vocab, len(prefix)
        self.canvas = Canvas(vocab, prefix)

    def apply(self, action_id: int) -> None:
        """Apply an id, or raise TrajectoryError; then this can no longer be used."""
        canvas, vocab = self.canvas, self.vocab
        is_first = canvas.pending is None
        if not 0 <= action_id < vocab.size:
            raise TrajectoryError(f"Id {action_id} is not in a vocabulary of {vocab.size}.")
        kind = vocab.kind(action_id)
        if is_first and kind in (Kind.PREFIX_ONLY, Kind.SEPARATOR, Kind.STOP):
            raise TrajectoryError(f"{vocab.describe(action_id)} is not an action of a text.")
        edit = canvas.apply(action_id)
        # REPLACE and spans wait for their arguments, but need a token before the cursor.
        waits = is_first and kind in _NEED_TEXT
        changes = edit.changes_text and edit.position < self.floor
        if changes or canvas.cursor < self.floor or (waits and canvas.cursor <= self.floor):
            what = "changes" if edit.changes_text or waits else "moves into"
            raise TrajectoryError(
                f"{vocab.describe(action_id)} {what} the prompt, which is locked: the first"
                f" {self.floor} tokens."
            )


_NEED_TEXT = (Kind.REPLACE, Kind.SPAN_DELETE, Kind.SPAN_MOVE)


def check(vocab: ActionVocab, trajectory: Trajectory) -> None:
    """Refuse a trajectory that the mask forbids anywhere, or that does not end with STOP."""
    *ids, last = trajectory.restoration or (-1,)
    if last != vocab.stop:
        raise TrajectoryError("A trajectory must end with STOP.")
    replay = _Replay(vocab, trajectory.prefix)
    for number, action_id in enumerate(ids, start=1):
        try:
            replay.apply(action_id)
        except ReviserError as error:
            raise TrajectoryError(f"Id {number} of the restoration: {error}") from error
    if replay.canvas.is_spelling:
        raise TrajectoryError("The last action before STOP is not complete.")


def prompt_hash(trajectory: Trajectory) -> int:
    """Return a hash of what is there before the first edit: the prompt and the draft."""
    ids = [*trajectory.prefix, -1, *trajectory.shown]
    return zlib.crc32(np.array(ids, np.int32).tobytes())
