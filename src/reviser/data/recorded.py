"""Training examples from recorded edits: how a program or a person wrote each text.

A file of recorded edits has one trajectory per line, in ids, after a first line that says which
tokenizer and actions the ids belong to. Files are never held in memory: an index has the offset,
length and prompt of each line. A generator makes the examples of a training run without a file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from reviser.core.actions import FILE_NAME, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec, read_tokenizer
from reviser.core.history import trace
from reviser.core.kinds import KIND_OF_WORD, NUMBER_ARGUMENTS
from reviser.core.trajectory import Trajectory
from reviser.data.dataset import Example, ExampleStream, IntArray, labelled
from reviser.data.order import HELD_OUT, hashed
from reviser.data.tokenizer import read_words
from reviser.data.windows import split_name
from reviser.errors import ConfigError, DataError, ReviserError, TrajectoryError
from reviser.trajectories.alignment import diff, present, script, word_starts
from reviser.trajectories.policy import Recorded

__all__ = [
    "Generator",
    "RecordedSplit",
    "RecordedStream",
    "Recorder",
    "Recording",
    "TrajectoryFiles",
    "write_trajectories",
]

Edits: TypeAlias = Sequence[str | tuple[Any, ...]]
INDEX, ABOUT = "trajectories.npy", "trajectories.json"
"""Files of the index: one row per trajectory, and what the index was made from."""
_ROW = np.dtype(
    [("file", "<u4"), ("prompt", "<u4"), ("offset", "<i8"), ("shown", "<u4"), ("ids", "<u4")]
)
"""A row of the index: number of the file, hash of the prompt, byte offset of the line, and the ids
of the history before the first learned one, and of all of it."""
_MAX_BYTES = 32 * 2**20
HELD_OUT_SEED = 1 << 32
"""The seed of a generator's held-out examples, whatever the seed of the recipe, which is lower."""
ATTEMPT = 1 << 33
"""Added to the seed of a generator for each example that fell into the other split."""
_MOST = 1 << 16
"""Number of different actions whose ids are kept."""
EPOCH = 1 << 20
"""Examples of a generator in one epoch."""


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

    def line(self, example: Recording | tuple[Any, ...]) -> str:
        """Return the trajectory as a line of JSON, with the time of each id if there are times."""
        recording = _recording(example)
        trajectory, sizes = self._recorded(recording)
        if not recording.seconds:
            return trajectory.to_json()
        times = np.repeat([float(second) for second in recording.seconds], sizes)
        return json.dumps({**trajectory.to_dict(), "seconds": times.tolist()})

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

    def _actions(self, canvas: Canvas, edit: Any, _: int) -> list[int]:
        """Return the ids of an action that is given as its name and arguments."""
        is_plain = isinstance(edit, tuple) and all(type(part) in (str, int) for part in edit)
        if not is_plain or edit[:1] == ("move",):  # moves depend on the canvas
            return self._spelled(canvas, edit)
        found = self._known.get(edit)
        if found is None:
            found = self._spelled(canvas, edit)
            if len(self._known) < _MOST:
                self._known[edit] = found
        return found

    def _spelled(self, canvas: Canvas, edit: Any) -> list[int]:
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
            steps = vocab.split_move(values[0], cursor=canvas.cursor, length=len(canvas))
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


def write_trajectories(
    path: str | Path,
    examples: Iterable[Recording | tuple[Any, ...]],
    *,
    tokenizer: str | Path,
    **actions: Any,
) -> int:
    """Write recorded edits to a new file to train on; return the number of examples.

    Args:
        path: The file, which appears once it is complete.
        examples: A prompt and its edits each, as a tuple or a `Recording`. The edits are versions
            of the text or actions, and are checked.
        tokenizer: A folder with tokenizer.json, such as a model, or a file with a list of words.
        actions: The actions of the vocabulary, as in `ActionVocab.build`.
    """
    path = Path(path)
    backend = open_tokenizer(tokenizer)
    folder = Path(tokenizer)
    if not actions and (folder / FILE_NAME).is_file():
        vocab = ActionVocab.load(folder)
    else:
        vocab = ActionVocab.from_tokenizer(backend, **actions)
    recorder = Recorder(Codec(backend), vocab)
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists already. Delete it or choose another name.")
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            header = {"format": 1, "tokenizer": recorder.codec.fingerprint}
            file.write(json.dumps(header | {"vocab": json.loads(vocab.to_json())}) + "\n")
            for count, example in enumerate(examples, start=1):
                try:
                    file.write(recorder.line(example) + "\n")
                except ReviserError as error:
                    raise TrajectoryError(f"Example {count}: {error}") from error
        partial.replace(path)
    except OSError as error:
        raise DataError(f"Cannot write {str(path)!r}: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def open_tokenizer(source: str | Path) -> Tokenizer:
    """Return the tokenizer of a folder with tokenizer.json, or one of a file of words."""
    return read_tokenizer(source) if Path(source).is_dir() else read_words(source)


class _Header(NamedTuple):
    tokenizer: str
    vocab: ActionVocab


def _header(path: Path, line: bytes) -> _Header:
    """Return the tokenizer and actions that a file's ids belong to."""
    try:
        fields = json.loads(line)
        if fields["format"] == 1:
            vocab = ActionVocab.from_json(json.dumps(fields["vocab"]))
            return _Header(str(fields["tokenizer"]), vocab)
    except (ValueError, KeyError, TypeError):
        pass
    raise DataError(
        f"{path.name!r} does not begin with the line that write_trajectories writes. Files of"
        " recorded edits are made with reviser.write_trajectories."
    )


def _parsed(line: bytes, where: str) -> Trajectory:
    """Return the trajectory of a line; times are checked and left out."""
    try:
        fields = json.loads(line)
        seconds = fields.pop("seconds", None) if isinstance(fields, dict) else None
        own = line.decode() if seconds is None else json.dumps(fields)
        trajectory = Trajectory.from_json(own)
    except (ValueError, RecursionError, UnicodeError) as error:
        raise DataError(f"{where}: {error}") from error
    if seconds is not None:
        is_list = isinstance(seconds, list) and all(type(s) in (int, float) for s in seconds)
        written = len(trajectory.restoration) - 1 - len(trajectory.no_loss)
        if not is_list or len(seconds) != written:
            raise DataError(f"{where}: 'seconds' must be a list of {written} numbers, one per id.")
    return trajectory


def make_index(sources: Sequence[str], folder: Path) -> None:
    """Check every line of some files and write the index, unless that was done before.

    Only one process may call this.
    """
    states = [Path(source).stat() for source in sources]
    stated = zip(sources, states, strict=True)
    made_from = [[source, state.st_size, state.st_mtime_ns] for source, state in stated]
    about = folder / ABOUT
    if about.is_file() and json.loads(about.read_text("utf-8"))["from"] == made_from:
        return
    folder.mkdir(parents=True, exist_ok=True)
    digest, count = hashlib.sha256(), 0
    partial = folder / f"{INDEX}.partial"
    headers: list[_Header] = []
    with partial.open("wb") as file:
        for number, source in enumerate(sources):
            rows: list[tuple[int, ...]] = []
            for found in _read_file(Path(source), headers, digest):
                rows.append((number, *found))
                if len(rows) == 4096:
                    file.write(np.array(rows, _ROW).tobytes())
                    count, rows = count + len(rows), []
            file.write(np.array(rows, _ROW).tobytes())
            count += len(rows)
    partial.replace(folder / INDEX)
    fields = {"from": made_from, "count": count, "fingerprint": digest.hexdigest()}
    fields |= {"tokenizer": headers[0].tokenizer, "vocab": json.loads(headers[0].vocab.to_json())}
    about.write_text(json.dumps(fields), "utf-8")


def _read_file(path: Path, headers: list[_Header], digest: Any) -> Iterator[tuple[int, ...]]:
    """Yield the row of each line, without the file's number; check the lines and hash them."""
    with path.open("rb") as file:
        line = file.readline(_MAX_BYTES)
        headers.append(_header(path, line))
        if headers[-1] != headers[0]:
            raise DataError(f"{path.name!r} has another tokenizer or other actions than the first.")
        vocab = headers[0].vocab
        digest.update(line)
        offset = len(line)
        for number in range(2, 1 << 62):
            line = file.readline(_MAX_BYTES)
            if not line:
                return
            where = f"Line {number} of {path.name!r}"
            if not line.endswith(b"\n"):
                raise DataError(f"{where} is not complete: it has no line end.")
            trajectory = _parsed(line, where)
            try:
                check(vocab, trajectory)
            except ReviserError as error:
                raise DataError(f"{where}: {error}") from error
            digest.update(line)
            yield (
                _prompt_hash(trajectory),
                offset,
                _shown(vocab, trajectory),
                _ids(vocab, trajectory),
            )
            offset += len(line)


def _shown(vocab: ActionVocab, trajectory: Trajectory) -> int:
    """Return the number of ids before the first learned one."""
    mask = trajectory.loss_mask(vocab)
    return mask.index(True) if True in mask else len(mask)


def _ids(vocab: ActionVocab, trajectory: Trajectory) -> int:
    return len(trajectory.prefix) + len(vocab.prefix_actions(())) + len(trajectory.restoration)


def _prompt_hash(trajectory: Trajectory) -> int:
    """Return a hash of what is there before the first edit."""
    size = len(trajectory.no_loss)
    ids = [*trajectory.prefix, -1, *trajectory.restoration[:size]]
    return zlib.crc32(np.array(ids, np.int32).tobytes())


class TrajectoryFiles:
    """Files of recorded edits, read line by line where they lie."""

    def __init__(self, sources: Sequence[str], folder: Path) -> None:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        self.fingerprint: str = about["fingerprint"]
        self.tokenizer: str = about["tokenizer"]
        self.vocab = ActionVocab.from_json(json.dumps(about["vocab"]))
        self._sources, self._folder = sources, folder
        self._count: int = about["count"]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open files: another process opens its own."""
        state = dict(self.__dict__)
        for name in ("_files", "rows"):
            state.pop(name, None)
        return state

    @classmethod
    def open(
        cls, sources: Sequence[str], folder: Path, codec: Codec, vocab: ActionVocab
    ) -> TrajectoryFiles:
        """Open files after `make_index`; refuse files of another tokenizer or other actions."""
        files = cls(sources, folder)
        if files.tokenizer != codec.fingerprint:
            raise DataError(
                "data.trajectories were recorded with another tokenizer. Write them again with the"
                " recipe's tokenizer, or give the recipe theirs."
            )
        if files.vocab != vocab:
            ours, theirs = (json.loads(each.to_json()) for each in (vocab, files.vocab))
            names = sorted(n for n in ours.keys() | theirs if ours.get(n) != theirs.get(n))
            raise DataError(
                "data.trajectories were recorded with other actions than the recipe's vocab has:"
                f" {', '.join(names)} differ. Set vocab as it was for write_trajectories."
            )
        return files

    @cached_property
    def rows(self) -> npt.NDArray[Any]:
        """The rows of the index, which the system reads from the disk as they are needed."""
        if not self._count:
            return np.empty(0, _ROW)
        return np.memmap(self._folder / INDEX, _ROW, mode="r", shape=(self._count,))

    @cached_property
    def _files(self) -> list[Any]:
        return [Path(source).open("rb") for source in self._sources]

    def read(self, number: int) -> Trajectory:
        """Return the trajectory of a row."""
        row = self.rows[number]
        file = self._files[int(row["file"])]
        file.seek(int(row["offset"]))
        return _parsed(file.readline(_MAX_BYTES), f"A line of {self._sources[int(row['file'])]!r}")


class Generator:
    """A function that makes examples, from a Python file: "mazes.py:example".

    It is called with a seed, an epoch and an index, whole numbers from 0, and returns a prompt and
    its edits, or a `Recording`. The same numbers must always give the same example.
    """

    def __init__(self, source: str, codec: Codec, vocab: ActionVocab) -> None:
        path, colon, self._name = source.rpartition(":")
        self._path = Path(path)
        if not colon or self._path.suffix != ".py" or not self._name.isidentifier():
            raise ConfigError(
                f"data.generator is {source!r}; it should be a Python file and the name of a"
                " function in it, such as mazes.py:example."
            )
        try:
            content = self._path.read_bytes()
        except OSError as error:
            raise ConfigError(f"data.generator: cannot read {path!r}: {error.strerror}.") from error
        self.fingerprint = hashlib.sha256(content + self._name.encode()).hexdigest()
        """SHA-256 of the file and the function's name."""
        self._recorder = Recorder(codec, vocab)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the function: another process loads the file itself."""
        return {name: value for name, value in self.__dict__.items() if name != "example"}

    @cached_property
    def example(self) -> Callable[[int, int, int], Any]:
        """The function, from the file, which is run for it."""
        spec = importlib.util.spec_from_file_location(self._path.stem, self._path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        function = getattr(module, self._name, None)
        if not callable(function):
            raise ConfigError(
                f"data.generator: {str(self._path)!r} has no function named {self._name!r}."
            )
        found: Callable[[int, int, int], Any] = function
        return found

    def read(self, seed: int, epoch: int, index: int) -> Trajectory:
        """Return the trajectory of an example."""
        try:
            return self._recorder.trajectory(self.example(seed, epoch, index))
        except ReviserError as error:
            raise DataError(
                f"{self._path.name}:{self._name}({seed}, {epoch}, {index}): {error}"
            ) from error


class RecordedSplit:
    """The recorded edits that are trained on, or those that are held out.

    Recordings of the same prompt are in the same split. A prompt that fills the context is left
    out; a history that is longer than the context is cut there, not left out, because the long ones
    are the hard ones.
    """

    def __init__(
        self,
        data: TrajectoryFiles | Generator,
        held_out_share: float,
        context: int,
        *,
        held_out: bool = False,
        examples: int = EPOCH,
        seed: int = 0,
    ) -> None:
        self.data, self._held_out = data, held_out
        self._share = np.uint64(held_out_share * (1 << 53))
        self._context = context
        self._size, self._seed = examples, HELD_OUT_SEED if held_out else seed
        self.left_out = self.longer = 0
        """Numbers of recordings whose prompt fills the context, and whose history is longer."""
        self._numbers = np.empty(0, np.uint32)
        if isinstance(data, TrajectoryFiles):
            self._select(data)

    def _select(self, files: TrajectoryFiles) -> None:
        parts = []
        for first in range(0, len(files.rows), 1 << 20):  # in parts, to keep memory small
            rows = files.rows[first : first + (1 << 20)]
            chosen = self._is_ours(rows["prompt"])
            fits = rows["shown"] < self._context
            parts.append((first + np.flatnonzero(chosen & fits)).astype(np.uint32))
            self.left_out += int(np.count_nonzero(chosen & ~fits))
            self.longer += int(np.count_nonzero(chosen & fits & (rows["ids"] > self._context)))
        self._numbers = np.concatenate([*parts, self._numbers])
        if not len(self._numbers):
            raise DataError(
                f"The {split_name(self._held_out)} split has no recorded edits that fit a context"
                f" of {self._context} ids ({len(files.rows):,} in all). Record more, or change"
                " data.windows.held_out or the context."
            )

    def _is_ours(self, prompts: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        share = hashed(0, HELD_OUT, prompts) >> np.uint64(11)
        ours: npt.NDArray[np.bool_] = (share < self._share) == self._held_out
        return ours

    def __len__(self) -> int:
        return self._size if isinstance(self.data, Generator) else len(self._numbers)

    def read(self, index: int, epoch: int = 0) -> Trajectory:
        """Return the recording at an index of this split.

        An example of a generator that belongs to the other split is replaced by one of another
        seed, until one is found.
        """
        if not isinstance(self.data, Generator):
            return self.data.read(int(self._numbers[index]))
        for attempt in range(100_000):
            trajectory = self.data.read(self._seed + attempt * ATTEMPT, epoch, index)
            if self._is_ours(np.array([_prompt_hash(trajectory)]))[0]:
                return trajectory
        raise DataError(
            f"The generator gave no prompt for the {split_name(self._held_out)} split in 100,000"
            " examples: it makes too few different prompts. Use data.trajectories instead."
        )


class RecordedStream(ExampleStream):
    """Recorded edits as training examples."""

    split: RecordedSplit

    def __init__(
        self,
        split: RecordedSplit,
        vocab: ActionVocab,
        policy: Recorded,
        *,
        context: int,
        seed: int = 0,
    ) -> None:
        super().__init__(split, vocab, context=context, seed=seed)
        self._learned = policy.compile(vocab)

    def _sample(self, indices: IntArray, epoch: int, _: float) -> list[Example]:
        digests = self._digests(indices, epoch)
        pairs = zip(indices.tolist(), digests, strict=True)
        return [self._example(index, epoch, digest) for index, digest in pairs]

    def _example(self, index: int, epoch: int, digest: int) -> Example:
        trajectory = self._learned(self.split.read(index, epoch))
        ids = np.array(trajectory.history(self.vocab), np.int32)
        labels = labelled(ids, np.array(trajectory.loss_mask(self.vocab)))
        is_cut = len(ids) > self.context
        length = int(trace(self.vocab, ids[None, :-1])[0][0, -1])
        written = max(1, length - len(trajectory.prefix))
        return Example(ids[: self.context], labels[: self.context], written, is_cut, digest)
