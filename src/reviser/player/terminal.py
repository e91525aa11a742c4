"""A text being edited, live in a terminal: cursor, fresh text and moves.

Knows text edits and rich; nothing of models or actions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from reviser.core.codec import TextEdit

FRESH = 12
"""Characters inserted last that stand out."""
CURSOR = "\u258f"


class Screen:
    """What is shown: the text, the cursor, and what was inserted last."""

    def __init__(self, text: str, *, given: int = 0) -> None:
        self.text = text
        self.cursor = len(text)
        self.edits = 0
        self.moves = 0
        self._given = given  # characters at the start that were not written here
        self._fresh = (0, 0)

    def take(self, edit: TextEdit) -> None:
        """Follow one edit."""
        self.text = edit.apply(self.text)
        self.edits += 1
        if edit.inserted or edit.removed:
            start, end = edit.offset, edit.offset + len(edit.inserted)
            joins = self._fresh[1] == start and self._fresh[0] < self._fresh[1]
            self._fresh = (max(self._fresh[0], end - FRESH) if joins else start, end)
        elif edit.cursor != self.cursor:
            self.moves += 1
        self.cursor = edit.cursor

    def render(self, console: Console) -> Group:
        """The lines around the cursor, as many as fit, and a line of counts."""
        cursor = CURSOR if console.encoding.startswith("utf") else "|"
        text = Text(self.text[: self.cursor] + cursor + self.text[self.cursor :])
        start, end = (place + (place > self.cursor) for place in self._fresh)
        text.stylize("dim", 0, min(self._given, self.cursor))
        text.stylize("bold green", start, end)
        text.stylize("bold reverse", self.cursor, self.cursor + 1)
        lines = text.wrap(console, console.width)
        room = max(1, console.height - 2)
        at = next((n for n, line in enumerate(lines) if cursor in line.plain), 0)
        first = max(0, min(at - room // 2, len(lines) - room))
        counts = f"{self.edits} actions, {self.moves} moves, {len(self.text)} characters"
        return Group(*lines[first : first + room], Text(counts, style="dim"))


def show(
    text: str, edits: Iterable[TextEdit], console: Console, *, given: int = 0, pause: float = 0.0
) -> str:
    """Show a text as it is edited; without a terminal, in silence. The text at the end."""
    screen = Screen(text, given=given)
    if not console.is_terminal:
        for edit in edits:
            screen.take(edit)
        return screen.text
    with Live(console=console, auto_refresh=False, transient=True) as live:
        live.update(screen.render(console), refresh=True)
        for edit in edits:
            screen.take(edit)
            live.update(screen.render(console), refresh=True)
            time.sleep(pause)
    return screen.text
