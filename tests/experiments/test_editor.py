"""The measurements of the language server."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from experiments.editor import latency
from support.language_client import Editor


class Silent(Editor):
    """A buffer without a server."""

    def __init__(self, text: str) -> None:
        client: Any = None
        super().__init__(client, Path("/text.txt"))
        self.text = text

    def change(self, start: int, end: int, text: str) -> None:
        self.text = self.text[:start] + text + self.text[end:]


@pytest.mark.parametrize("one_paragraph", [False, True])
@pytest.mark.parametrize("words", [150, 2_000])
def test_a_measured_document_has_its_size(words: int, one_paragraph: bool) -> None:
    text = latency.document(words, one_paragraph=one_paragraph)
    assert len(text.split()) == words
    assert ("\n\n" in text) != one_paragraph
    assert "=>" not in text


@pytest.mark.parametrize("kind", ["word", "typo", "sentence"])
def test_an_edit_changes_the_text(kind: str) -> None:
    before = latency.document(150, one_paragraph=False)
    rng = random.Random(0)
    for _ in range(20):
        editor = Silent(before)
        asyncio.run(latency.edit(editor, kind, rng))
        added = len(editor.text.split()) - len(before.split())
        assert editor.text != before
        assert added == {"word": 1, "typo": 0}.get(kind, added)
        assert added > 3 or kind != "sentence"
