"""Training examples from recorded edits: of files, or of a function that makes them.

This is the counterpart of `dataset.py` for recorded edits, and as stateless.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.core.history import lengths
from reviser.core.trajectory import Trajectory
from reviser.data.dataset import Example, ExampleStream, IntArray, labelled
from reviser.data.order import HELD_OUT, hashed
from reviser.data.recorded import Recorder, prompt_hash
from reviser.data.trajectory_files import TrajectoryFiles
from reviser.data.windows import split_name
from reviser.errors import ConfigError, DataError, ReviserError
from reviser.trajectories.policy import Recorded

HELD_OUT_SEED = 1 << 32
"""The seed of a generator's held-out examples, whatever the seed of the recipe, which is lower."""
ATTEMPT = 1 << 33
"""Added to the seed of a generator for each example that fell into the other split."""
ATTEMPTS = 100_000
EPOCH = 1 << 20
"""Examples of a generator in one epoch."""


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
        parts, first = [self._numbers], 0
        for rows in files.rows():
            chosen = self._is_ours(rows["prompt"])
            fits = rows["shown"] < self._context
            parts.append((first + np.flatnonzero(chosen & fits)).astype(np.uint32))
            self.left_out += int(np.count_nonzero(chosen & ~fits))
            self.longer += int(np.count_nonzero(chosen & fits & (rows["ids"] > self._context)))
            first += len(rows)
        self._numbers = np.concatenate(parts)
        if not len(self._numbers):
            raise DataError(
                f"The {split_name(self._held_out)} split has no recorded edits that fit a context"
                f" of {self._context} ids ({len(files):,} in all). Record more, or change"
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
        for attempt in range(ATTEMPTS):
            trajectory = self.data.read(self._seed + attempt * ATTEMPT, epoch, index)
            if self._is_ours(np.array([prompt_hash(trajectory)]))[0]:
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
        self._learned = policy.compile(vocab, context)

    def _sample(self, indices: IntArray, epoch: int, _: float) -> list[Example]:
        digests = self._digests(indices, epoch)
        pairs = zip(indices.tolist(), digests, strict=True)
        return [self._example(index, epoch, digest) for index, digest in pairs]

    def _example(self, index: int, epoch: int, digest: int) -> Example:
        histories = self._learned(self.split.read(index, epoch))
        trajectory = histories[digest % len(histories)]
        ids = np.array(trajectory.history(self.vocab), np.int32)
        learned = np.arange(len(ids)) >= len(ids) - len(trajectory.restoration)
        learned[len(ids) - len(trajectory.restoration) + np.array(trajectory.no_loss, int)] = False
        labels = labelled(ids, learned)
        is_cut = len(ids) > self.context
        length = int(lengths(self.vocab, ids[None])[0, -1])
        written = max(1, length - len(trajectory.prefix))
        return Example(ids[: self.context], labels[: self.context], written, is_cut, digest)
