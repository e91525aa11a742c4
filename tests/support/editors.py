"""A person's editor, told only text edits, and compared with the slow reference after every one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from tokenizers import Tokenizer

from reviser.core.actions import OPERATORS, Action, ActionVocab, Kind
from reviser.core.canvas import Canvas, Edit
from reviser.core.codec import Codec, TextEdit
from support import naive

CHARACTERS = "a é€😀👩\u200d🚀e\u0301你世界 👍🏽" * 2
NEVER_UTF8 = [bytes([n]) for n in b"\xff\xc0\xf5\xed\xa0\xf4\x90"]
"""Some never occur, some not in a row."""
NEAR = 7  # bytes: three before, three after, and a first space


class Reader:
    """A tokenizer with all operators: its codec, its vocabulary, and what the reference says."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS, max_move=8)
        self.tokenizer = tokenizer
        self.codec = Codec(tokenizer)
        self.is_byte_level = "ByteLevel" in repr(tokenizer.decoder)
        self.insertable = naive.ids_of(self.vocab, "insert")
        self.bytes_of = {i: self._bytes(i) for i in self.insertable}
        data = CHARACTERS.encode()
        self.awkward = [i for i in self.insertable if self.bytes_of[i] in data]
        self.awkward += [i for i in self.insertable if self.bytes_of[i] in NEVER_UTF8]

    def _bytes(self, token: int) -> bytes:
        piece = self.tokenizer.id_to_token(token)
        return naive.piece_bytes(piece, byte_level=self.is_byte_level)

    def token(self, rng: Random) -> int:
        """Mostly a part of one of a few characters, so that they often meet their other parts."""
        return rng.choice(self.awkward if rng.random() < 0.8 else self.insertable)

    def data(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self.bytes_of[token] for token in tokens)

    def see(self, tokens: Sequence[int]) -> naive.Seen:
        return naive.see(self.data(tokens), hides_first_space=self.codec.hides_first_space)

    def walk(
        self, rng: Random, canvas: Canvas, actions: int, tokens: Sequence[int] = ()
    ) -> Iterator[Edit]:
        """Apply random actions, sometimes take one back, and yield the edit of every single id.

        What it writes is any token, mostly an awkward one, or one of `tokens` if there are some.
        """
        past: list[int] = []  # ids of each action
        for _ in range(actions):
            if past and rng.random() < 0.15:
                for _ in range(past.pop()):
                    yield from canvas.rollback()
                continue
            token = rng.choice(tokens) if tokens else self.token(rng)
            ids = self.vocab.spell(self.action(rng, canvas, token))
            past.append(len(ids))
            for action_id in ids:
                yield canvas.apply(action_id)

    def action(self, rng: Random, canvas: Canvas, token: int) -> Action:
        """Any action that the canvas allows, every operator as likely as another."""
        left, right = canvas.cursor, len(canvas) - canvas.cursor
        choices = [Action(Kind.INSERT, token)]
        if deltas := [delta for delta in self.vocab.deltas if -left <= delta <= right]:
            choices.append(Action(Kind.MOVE, rng.choice(deltas)))
        if left >= 1:
            span = rng.randint(1, min(left, 9))
            jump, place = rng.randint(span - left, right), rng.randint(-left, right)
            choices += [Action(Kind.DELETE), Action(Kind.REPLACE, token)]
            choices += [Action(Kind.SPAN_DELETE, span), Action(Kind.SPAN_MOVE, span, jump)]
            choices.append(Action(Kind.SPAN_COPY, span, place))
        if left >= 2:
            choices.append(Action(Kind.SWAP))
        return rng.choice(choices)


class Editor:
    """Follows a canvas through its text edits alone, counting characters and UTF-16 units."""

    def __init__(self, reader: Reader, tokens: Sequence[int] = ()) -> None:
        self.reader = reader
        self.streams = (reader.codec.stream(tokens), reader.codec.stream(tokens, unit="utf16"))
        self.text = reader.codec.decode(tokens)
        self.units = self.text.encode("utf-16-le")  # two bytes a unit

    def take(self, edit: Edit) -> tuple[TextEdit, TextEdit]:
        """Feed one edit; do to the plain strings what comes out, and nothing else."""
        shown, wide = (stream.feed(edit) for stream in self.streams)
        assert shown.apply(self.text) == wide.apply(self.text)
        assert self.text[shown.offset : shown.offset + len(shown.removed)] == shown.removed
        self.text = shown.apply(self.text)
        removed, inserted = (text.encode("utf-16-le") for text in (wide.removed, wide.inserted))
        start, end = 2 * wide.offset, 2 * wide.offset + len(removed)
        assert self.units[start:end] == removed
        self.units = self.units[:start] + inserted + self.units[end:]
        return shown, wide

    def follow(self, edit: Edit, canvas: Canvas) -> TextEdit:
        """Feed the edit that the canvas just made, and compare everything with the reference."""
        reader, tokens = self.reader, canvas.tokens()
        shown, wide = self.take(edit)
        seen = reader.see(tokens)
        assert self.text == seen.text == reader.codec.decode(tokens)
        assert self.units.decode("utf-16-le") == self.text
        assert [stream.text for stream in self.streams] == [self.text] * 2
        behind = seen.before(len(reader.data(tokens[: canvas.cursor])))
        assert (shown.cursor, wide.cursor) == (len(behind), len(behind.encode("utf-16-le")) // 2)
        if not edit.changes_text:
            assert shown == TextEdit(shown.cursor, "", "", shown.cursor)
        # Beyond its own tokens an edit can break or join the nearest characters only.
        assert len(shown.removed) <= len(reader.data(edit.removed)) + NEAR
        assert len(shown.inserted) <= len(reader.data(edit.inserted)) + NEAR
        return shown


def reading_editor() -> tuple[Any, str]:
    """A tiny editor with random weights that reads before it edits, and a draft for it."""
    import torch

    from reviser.engines.hf import HFEngine
    from reviser.model import Reviser
    from reviser.models import trunks
    from reviser.models.editing import Editing
    from support import small_tokenizers

    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=["delete", "replace"], max_move=8)
    sizes = {"layers": 1, "width": 16, "heads": 2, "mlp_width": 24, "context": 128}
    trunk = trunks.build(trunks.TrunkConfig(architecture="llama", **sizes), vocab, seed=1)
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.mul_(3)
    editing = Editing(edit_probabilities=True)
    return Reviser(HFEngine(trunk, vocab), Codec(tokenizer), editing=editing), "It have a end. " * 3
