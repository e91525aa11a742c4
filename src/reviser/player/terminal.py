"""Live view of a text being edited in a terminal: cursor, written text, open marks, and moves.

This module knows text edits and rich, but not models or actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from reviser.core.codec import TextEdit
from reviser.errors import plural

FRESH = 12
"""Number of latest characters that are highlighted."""
GIVEN, WRITTEN, LATE, FRESH_WRITTEN, FRESH_LATE, MARK, CURSOR = range(7)
STYLES = ["", "green", "underline magenta", "bold green", "bold underline magenta",
          "bold yellow", "bold reverse"]  # fmt: skip
"""Styles of text that was there before, of text written in order or late, of the same two while
they are fresh, of an open mark and of the cursor."""

_SAFE = {n: 0x2400 + n for n in range(32) if chr(n) not in "\n\t"}
_SAFE |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_SAFE |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)  # bidi controls


def printable(text: str) -> str:
    """Replace, one for one, the characters that control a terminal."""
    return text.translate(_SAFE)


class Screen:
    """The visible state: the text, the cursor, the open marks, and the last action."""

    def __init__(self, text: str, cursor: int, marks: Sequence[int] = ()) -> None:
        self.text = text
        self.cursor = cursor
        self.marks = marks
        self.actions = 0
        self.moves = 0
        self._last = "reading"
        self._levels = [GIVEN] * len(text)
        self._fresh = range(0)

    @property
    def late(self) -> int:
        """Number of characters that were written before text that was already there."""
        return self._levels.count(LATE)

    def take(self, edit: TextEdit, marks: Sequence[int] = ()) -> None:
        """Apply one edit; `marks` are the positions of the marks that are open after it."""
        self.text = edit.apply(self.text)
        self.marks = marks
        self.actions += 1
        start, end = edit.offset, edit.offset + len(edit.inserted)
        distance = edit.cursor - self.cursor
        if edit.inserted or edit.removed:
            # Given text does not make an insertion late: in a gap, the text after it is given.
            is_late = any(self._levels[start + len(edit.removed) :])
            level = LATE if is_late else WRITTEN
            self._levels[start : start + len(edit.removed)] = [level] * len(edit.inserted)
            continues = self._fresh.stop == start
            self._fresh = range(max(self._fresh.start, end - FRESH) if continues else start, end)
            self._last = f"writes {edit.inserted[:FRESH]!r}" if edit.inserted else "deletes"
        elif distance:
            self.moves += 1
            self._last = f"moves {'back' if distance < 0 else 'on'} {abs(distance)}"
        self.cursor = edit.cursor

    def render(self, console: Console) -> Group:
        """Return the lines around the cursor, as many as fit, and a status line."""
        lines = self._while_written(console).wrap(console, console.width)
        rows = max(1, console.height - 2)
        first = max(0, min(_line_of_cursor(lines) - rows // 2, len(lines) - rows))
        state = f"{printable(self._last)}; {self._counts()}"
        if self.marks:
            state += f", {plural(len(self.marks), 'open mark')}"
        status = Text(state, "dim", no_wrap=True, overflow="ellipsis")
        return Group(*lines[first : first + rows], status)

    def result(self) -> Text:
        """Return the text alone, with late insertions still set apart."""
        return _styled(printable(self.text), self._levels)

    def summary(self) -> str:
        """Return one line about all that was done."""
        late = f", {plural(self.late, 'character')} written late (underlined)" if self.late else ""
        return f"{self._counts()}{late}"

    def _counts(self) -> str:
        counts = (self.actions, "action"), (self.moves, "move"), (len(self.text), "character")
        return ", ".join(plural(count, noun) for count, noun in counts)

    def _while_written(self, console: Console) -> Text:
        """Return the text with its cursor, its open marks and the fresh characters highlighted."""
        can_draw = console.encoding.startswith("utf")
        levels = list(self._levels)
        for n in self._fresh:
            levels[n] = FRESH_LATE if levels[n] == LATE else FRESH_WRITTEN
        # Not joined: rich counts the cells of joined characters differently where a style ends.
        characters = ["" if each == "\u200d" else each for each in printable(self.text)]
        # From the end, so that earlier positions stay right; at one position the cursor comes last.
        signs = [(at, 0, "\u25be" if can_draw else "^", MARK) for at in self.marks]
        signs.append((self.cursor, 1, "\u258f" if can_draw else "|", CURSOR))
        for at, _, sign, level in sorted(signs, reverse=True):
            characters.insert(at, sign)
            levels.insert(at, level)
        return _styled(characters, levels)


def _styled(text: Sequence[str], levels: Sequence[int]) -> Text:
    styled, offset = Text(), 0
    for level, run in groupby(levels):
        size = len(list(run))
        styled.append("".join(text[offset : offset + size]), STYLES[level])
        offset += size
    return styled


def _line_of_cursor(lines: Iterable[Text]) -> int:
    found = (any(span.style == STYLES[CURSOR] for span in line.spans) for line in lines)
    return next((n for n, is_here in enumerate(found) if is_here), 0)


def show(
    screen: Screen,
    edits: Iterable[TextEdit],
    console: Console,
    *,
    pace: float = 0.0,
    marks: Callable[[], Sequence[int]] = tuple,
) -> None:
    """Show a text while it is edited, at most `pace` actions per second; 0 for no limit.

    `marks` returns the positions of the open marks after the latest edit. The view is gone
    afterwards; `screen` has the result.
    """
    with Live(console=console, auto_refresh=False, transient=True) as live:
        _draw(live, screen)
        for edit in edits:
            screen.take(edit, marks())
            _draw(live, screen)
            if pace:
                time.sleep(1 / pace)


def print_result(screen: Screen, console: Console) -> None:
    """Print the finished text, wrapped at words."""
    try:
        console.print(screen.result())
    except _UNDRAWABLE:
        console.out(printable(screen.text), highlight=False)


def _draw(live: Live, screen: Screen) -> None:
    try:
        live.update(screen.render(live.console), refresh=True)
    except _UNDRAWABLE:
        live.update("")


_UNDRAWABLE = (ArithmeticError, LookupError, RuntimeError)
"""What rich raises for some zero-width text."""
