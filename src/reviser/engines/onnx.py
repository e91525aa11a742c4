"""The ONNX Runtime engine: scores texts with a Llama, without torch or Transformers.

`onnx_files` builds the graphs that it runs, and `tree` has what it shares with `scoring`: a text is
read once, and its branches as one tree over the keys and values that were kept.

Shapes: N nodes that are read at a time, T ids of a text, D width.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reviser.engines.base import Act, Answer, PlainVocab, Question, Score, Scores, failure, vocab_of
from reviser.engines.onnx_files import BODY, HEAD, WEIGHTS
from reviser.engines.tree import Table, Texts, Tree
from reviser.errors import CheckpointError, ConfigError, MissingExtra, reason_of
from reviser.files import read_object
from reviser.models.llama_files import EMBEDDING, tensor

NODES = 160
"""Nodes that are read at a time. More are slower, because each is compared with all others."""
HEAD_STATES = 64
"""States whose log-probabilities are computed at a time; each takes as many numbers as there are
ids."""
UNSEEN = np.float32(-1e9)
FloatArray = npt.NDArray[np.float32]


class _Text(NamedTuple):
    """A text that was read."""

    states: FloatArray
    """By position and element."""
    keys: FloatArray
    """By layer, head, position and element, as `values`."""
    values: FloatArray


class OnnxEngine:
    """An engine that answers `Score` with the files that `onnx_files.built` returns."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        if type(threads) is not int or threads < 1:
            raise ConfigError(f"threads is {threads!r}; it must be a whole number, 1 or more.")
        config = read_object(folder / "config.json", CheckpointError, limit=1 << 22)
        vocab = vocab_of(folder)
        self.vocab = PlainVocab(vocab.size)
        self.context: int = config["max_position_embeddings"]
        theta, width = _rope(config)
        self._turns = theta ** (-np.arange(0, width, 2) / width)
        # The head first: opening a graph takes its largest tensor twice.
        self._head, self._body = (_session(folder / name, threads) for name in (HEAD, BODY))
        self._embedding = tensor(folder / WEIGHTS, EMBEDDING)
        self._past_shape = [*self._body.get_inputs()[4].shape]
        self._texts = Texts[_Text]()
        self._questions = deque[tuple[int, Score]]()
        self._known = deque[tuple[int, Score]]()  # about texts that were read lately
        self._added = 0

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what runs the model, for provenance."""
        return {name: version(name) for name in ("reviser-lm", "onnxruntime")}

    def add(self, question: Question) -> int:
        """Check a question and queue it; return its number."""
        if isinstance(question, Act):
            raise ConfigError("Backend 'onnx' scores text and does not act: use engine 'hf'.")
        question.check(self.vocab, self.context)
        self._added += 1
        is_known = question.history in self._texts
        (self._known if is_known else self._questions).append((self._added, question))
        return self._added

    def cancel(self, number: int) -> None:
        """Drop a question; nothing more is said about it."""
        self._questions = deque(pair for pair in self._questions if pair[0] != number)
        self._known = deque(pair for pair in self._known if pair[0] != number)

    def step(self, wait: float = 0.0) -> list[Answer]:  # noqa: ARG002 - the work is done here
        """Answer one question, about a text that was read lately if there is one."""
        queue = self._known or self._questions
        if not queue:
            return []
        number, question = queue.popleft()
        try:
            return [Answer(number, self._score(question))]
        except Exception as error:  # noqa: BLE001 - a fault of this question alone
            self._texts.clear()  # it may have run out of memory
            return [Answer(number, failure(error))]

    def close(self) -> None:
        """Forget all questions, and what was read for them."""
        self._questions.clear()
        self._known.clear()
        self._texts.clear()

    def _score(self, question: Score) -> Scores:
        tree = Tree(question)
        table = Table(tree, stops=False)
        text = self._texts.pop(question.history) or self._read_text(question.history)
        self._ask(table, table.text_nodes, text.states[table.text_nodes])
        for part in tree.parts(range(tree.length, len(tree.actions)), NODES):
            seen = 1 + max(tree.roots[node] for node in part)
            sees = tree.sees(part)
            states_ND, _, _ = self._read(
                [tree.actions[node] for node in part],
                [tree.positions[node] for node in part],
                np.concatenate([sees[:, :seen], sees[:, tree.length :]], axis=1),
                text.keys[:, :, :seen],
                text.values[:, :, :seen],
            )
            self._ask(table, part, states_ND)
        self._texts.keep(question.history, text)
        return table.scores()

    def _read_text(self, history: tuple[int, ...]) -> _Text:
        """Read a text, a part at a time, from where it differs from those that were read lately."""
        layers, heads, _, width = self._past_shape
        count = len(history)
        keys, values = (np.empty((layers, heads, count, width), np.float32) for _ in range(2))
        known, text = self._texts.nearest(history)
        states = []
        if text is not None:
            states.append(text.states[:known])
            keys[:, :, :known] = text.keys[:, :, :known]
            values[:, :, :known] = text.values[:, :, :known]
        for start in range(known, count, NODES):
            end = min(start + NODES, count)
            positions = np.arange(start, end)
            sees = np.arange(end) <= positions[:, None]
            before = keys[:, :, :start], values[:, :, :start]
            found = self._read(history[start:end], positions, sees, *before)
            states.append(found[0])
            keys[:, :, start:end], values[:, :, start:end] = found[1:]
        return _Text(np.concatenate(states), keys, values)

    def _read(
        self,
        ids: Sequence[int],
        positions: npt.ArrayLike,
        sees: npt.NDArray[np.bool_],
        keys: FloatArray,
        values: FloatArray,
    ) -> list[FloatArray]:
        """Read nodes after a cache; return their states, keys and values."""
        angles = np.asarray(positions)[:, None, None] * self._turns
        inputs = {
            "embedded": self._embedding[np.asarray(ids)],
            "cos": np.cos(angles).astype(np.float32),
            "sin": np.sin(angles).astype(np.float32),
            "mask": np.where(sees, np.float32(0), UNSEEN),
            "past_keys": np.ascontiguousarray(keys),
            "past_values": np.ascontiguousarray(values),
        }
        found: list[FloatArray] = self._body.run(None, inputs)
        return found

    def _ask(self, table: Table, nodes: Sequence[int], states_ND: FloatArray) -> None:
        """Put what follows some nodes into the table."""
        for start in range(0, len(nodes), HEAD_STATES):
            part = nodes[start : start + HEAD_STATES]
            if pairs := table.pairs(part):
                states = np.ascontiguousarray(states_ND[start : start + HEAD_STATES])
                inputs = {"states": states, "pairs": np.array(pairs, np.int64)}
                table.add(part, self._head.run(None, inputs)[0].tolist())


def _rope(config: dict[str, Any]) -> tuple[float, int]:
    """Return the base of the rotary positions, and the width of a head."""
    theta = (config.get("rope_parameters") or config).get("rope_theta", 10000.0)
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return theta, width


def _session(path: Path, threads: int) -> Any:
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "Backend 'onnx' needs the judge extra: onnxruntime is not installed. Install it with:"
            " pip install 'reviser-lm[judge]'."
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Planning which tensors share memory takes ten times as long as all the rest of loading.
    options.enable_mem_reuse = False
    # A pattern of memory is kept for each shape of the inputs, of which there are many.
    options.enable_mem_pattern = False
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it raises exceptions of its own
        raise CheckpointError(f"Cannot open {str(path)!r}: {reason_of(error)}.") from error
