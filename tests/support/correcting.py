"""An editor model without weights: it corrects one word, fills gaps and continues texts.

`python -m support.correcting` serves it to a language client. `REVISER_TEST_LOG` names a file that
gets every text that the model is given, and `REVISER_TEST_SECONDS` is the duration of a step.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.engines.base import Answer, Request, replay
from reviser.model import Reviser
from reviser.models.editing import Editing
from reviser.trajectories.alignment import revision
from support import small_tokenizers
from support.scripted import ScriptedEngine

WRONG, RIGHT, FILL = "teh", "the", "brave"


class CorrectingEngine(ScriptedEngine):
    """Writes `RIGHT` for `WRONG` wherever it may, and `FILL` into gaps."""

    logprob = -0.01

    def __init__(self, vocab: ActionVocab, codec: Codec) -> None:
        super().__init__(vocab)
        self.codec = codec
        self._log = os.environ.get("REVISER_TEST_LOG")
        self._seconds = float(os.environ.get("REVISER_TEST_SECONDS", "0"))

    def script(self, request: Request) -> Sequence[int]:
        request.check(self.vocab, self.context)
        canvas = replay(self.vocab, request.history)
        tokens, cursor = canvas.tokens(), canvas.cursor
        if self._log:
            with Path(self._log).open("a") as file:
                file.write(json.dumps(self.codec.decode(tokens)) + "\n")
        if all(low == high for low, high in request.editable):
            actions = [*self.codec.encode(FILL), self.vocab.stop] if request.editable else []
        else:
            # The cursor begins where text may change: what is before it is locked.
            wanted = self._corrected(tokens, request)
            trajectory = revision(self.vocab, tokens[cursor:], wanted[cursor:])
            actions = list(trajectory.restoration[len(trajectory.no_loss) :])
        return actions or [self.vocab.stop]

    def _corrected(self, tokens: list[int], request: Request) -> list[int]:
        pieces = [self.codec.token_bytes[token] for token in tokens]
        found, n = list[int](), 0
        while n < len(tokens):
            size = next(
                (k for k in range(1, 4) if b"".join(pieces[n : n + k]) == WRONG.encode()), 0
            )
            if size and any(low <= n and n + size <= high for low, high in request.editable):
                found += self.codec.encode(RIGHT)
                n += size
            else:
                found.append(tokens[n])
                n += 1
        return found

    def step(self, wait: float = 0.0) -> list[Answer]:
        if self._seconds:
            time.sleep(self._seconds)
        return super().step(wait)


def reviser() -> Reviser:
    """Return the model."""
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=("delete", "replace"), max_move=8)
    codec = Codec(tokenizer)
    return Reviser(CorrectingEngine(vocab, codec), codec, editing=Editing())


def load(name: str, base: str | None = None, **_: Any) -> Reviser:  # noqa: ARG001
    """Open the model, or fail as a missing folder would."""
    from reviser.errors import CheckpointError

    time.sleep(float(os.environ.get("REVISER_TEST_LOADING", "0")))
    if name == "missing":
        raise CheckpointError("There is no model folder 'missing'.")
    return reviser()


if __name__ == "__main__":
    import sys

    from reviser.lsp.server import make_server

    make_server(load, sys.argv[1] if len(sys.argv) > 1 else "test").start_io()
