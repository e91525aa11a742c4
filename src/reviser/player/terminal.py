"""Live view of a text being edited in a terminal: cursor, written text, latest text, and moves.

This module knows text edits and rich, but not models or actions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import groupby

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from reviser.core.codec import TextEdit

FRESH = 12
"""Number of latest characters that are highlighted."""
STYLES = ["", "green", "bold green", "bold reverse"]
"""Styles of text that was there before, written text, fresh text and the cursor."""
CURSOR = 3

_SAFE = {n: 0x2400 + n for n in range(32) if chr(n) not in "\n\t"}
_SAFE |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_SAFE |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)  # bidi controls


def printable(text: str) -> str:
    """Replace, one for one, the characters that control a terminal."""
    return text.translate(_SAFE)


class Screen:
    """The visible state: the text, the cursor, and the last action."""

    def __init__(self, text: str, cursor: int) -> None:
        self.text = text
        self.cursor = cursor
        self.actions = 0
        self.moves = 0
        self._last = "reading"
        self._written = [False] * len(text)  # which characters were not there before
        self._fresh = range(0)

    def take(self, edit: TextEdit) -> None:
        """Apply one edit."""
        self.text = edit.apply(self.text)
        self.actions += 1
        start, end = edit.offset, edit.offset + len(edit.inserted)
        distance = edit.cursor - self.cursor
        if edit.inserted or edit.removed:
            self._written[start : start + len(edit.removed)] = [True] * len(edit.inserted)
            continues = self._fresh.stop == start
            self._fresh = range(max(self._fresh.start, end - FRESH) if continues else start, end)
            self._last = f"writes {edit.inserted[:FRESH]!r}" if edit.inserted else "deletes"
        elif distance:
            self.moves += 1
            self._last = f"moves {'back' if distance < 0 else 'on'} {abs(distance)}"
        self.cursor = edit.cursor

    def render(self, console: Console) -> Group:
        """Return the lines around the cursor, as many as fit, and a status line."""
        lines = self._styled(console).wrap(console, console.width)
        rows = max(1, console.height - 2)
        first = max(0, min(_line_of_cursor(lines) - rows // 2, len(lines) - rows))
        count = f"{self.actions} actions, {self.moves} moves, {len(self.text)} characters"
        state = Text(f"{printable(self._last)}; {count}", "dim", no_wrap=True, overflow="ellipsis")
        return Group(*lines[first : first + rows], state)

    def _styled(self, console: Console) -> Text:
        bar = "\u258f" if console.encoding.startswith("utf") else "|"
        levels = [int(written) for written in self._written]
        for n in self._fresh:
            levels[n] = 2
        levels.insert(self.cursor, CURSOR)
        visible = printable(self.text)
        visible = visible[: self.cursor] + bar + visible[self.cursor :]
        text, offset = Text(), 0
        for level, run in groupby(levels):
            size = len(list(run))
            text.append(visible[offset : offset + size], STYLES[level])
            offset += size
        return text


def _line_of_cursor(lines: Iterable[Text]) -> int:
    found = (any(span.style == STYLES[CURSOR] for span in line.spans) for line in lines)
    return next((n for n, is_here in enumerate(found) if is_here), 0)


def show(
    text: str, cursor: int, edits: Iterable[TextEdit], console: Console, *, pace: float = 0.0
) -> None:
    """Show a text while it is edited, at most `pace` actions per second; 0 for no limit."""
    screen = Screen(text, cursor)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        _draw(live, screen)
        for edit in edits:
            screen.take(edit)
            _draw(live, screen)
            if pace:
                time.sleep(1 / pace)


def _draw(live: Live, screen: Screen) -> None:
    try:
        live.update(screen.render(live.console), refresh=True)
    except (ArithmeticError, LookupError, RuntimeError):  # rich trips over some zero-width text
        live.update("")
