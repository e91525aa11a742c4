"""The live view: it shows the text that is there, where the cursor is, and commands no terminal."""

from __future__ import annotations

import io
import re
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from reviser.core.actions import Action, ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import TextEdit
from reviser.errors import plural
from reviser.player.terminal import FRESH, Screen, print_result, printable, show
from support import editors, small_tokenizers

READER = editors.Reader(small_tokenizers.byte_level())
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def console(*, width: int = 80, height: int = 24, **options: Any) -> Console:
    given = {"force_terminal": True, "color_system": "truecolor", "legacy_windows": False}
    return Console(file=io.StringIO(), width=width, height=height, **given | options)


def shown(screen: Screen, on: Console) -> str:
    with on.capture() as capture:
        on.print(screen.render(on))
    return capture.get()


@given(seed=st.integers(0, 2**32), width=st.sampled_from([20, 80]))
@example(seed=3291436, width=20)  # characters that only a joiner separates
def test_the_screen_shows_the_text_with_the_cursor_in_its_place(seed: int, width: int) -> None:
    rng = Random(seed)
    start = READER.codec.encode("The cat sat.")
    canvas, stream = Canvas(READER.vocab, start), READER.codec.stream(start)
    screen, on = Screen(stream.text, len(stream.text)), console(width=width, height=1000)
    for edit in READER.walk(rng, canvas, 25):
        screen.take(stream.feed(edit))
        assert screen.result().plain == printable(screen.text)
    assert screen.text == stream.text
    plain = ESCAPES.sub("", shown(screen, on))
    text, _, state = plain.rstrip("\n").rpartition("\n")
    expected = stream.text[: screen.cursor] + "\u258f" + stream.text[screen.cursor :]
    assert "".join(text.split()) == "".join(printable(expected).replace("\u200d", "").split())
    assert state.split()[0] in ("reading", "writes", "deletes", "moves", "reading;", "deletes;")
    wide = ESCAPES.sub("", shown(screen, console(width=1000, height=1000)))
    assert wide.rstrip("\n").endswith(
        f"; {screen.actions} actions, {plural(screen.moves, 'move')},"
        f" {plural(len(screen.text), 'character')}"
    )


@given(st.text())
def test_no_character_commands_a_terminal_and_none_is_lost(text: str) -> None:
    safe = printable(text)
    assert len(safe) == len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", safe)
    kept = [a for a, b in zip(text, safe, strict=True) if a != b]
    assert all(re.match(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", c) for c in kept)


def runs(text: Text) -> list[tuple[str, str]]:
    """Return the styled stretches of a text with their styles."""
    return [(str(run.style), text.plain[run.start : run.end]) for run in text.spans]


def test_written_text_and_fresh_text_stand_out() -> None:
    screen = Screen("The cat.", 7)
    for n, char in enumerate(" sat on the mat"):
        screen.take(TextEdit(7 + n, "", char, 8 + n))
    assert runs(screen._while_written(console())) == [
        ("green", " sat on the mat"[:-FRESH]),
        ("bold green", " sat on the mat"[-FRESH:]),
        ("bold reverse", "\u258f"),
    ]


def test_a_late_insertion_stays_set_apart_when_all_is_written() -> None:
    screen = Screen("Ben ran. The end.", 8)
    screen.take(TextEdit(8, "", " He fell.", 17))
    assert runs(screen.result()) == [("green", " He fell.")]  # the given text after it is no matter
    screen.take(TextEdit(8, "", "", 8))
    screen.take(TextEdit(8, "", " Fast.", 14))
    screen.take(TextEdit(23, "", "", 23))
    screen.take(TextEdit(23, "", " Ow.", 27))
    assert screen.text == "Ben ran. Fast. He fell. Ow. The end."
    assert runs(screen.result()) == [("underline magenta", " Fast."), ("green", " He fell. Ow.")]
    assert screen.summary() == (
        "5 actions, 2 moves, 36 characters, 6 characters written late (underlined)"
    )


def test_marks_are_visible_while_they_are_open() -> None:
    screen, on = Screen("Ben ran.", 8, marks=[3]), console()
    assert "Ben\u25be ran.\u258f" in ESCAPES.sub("", shown(screen, on))
    assert ", 1 open mark\n" in ESCAPES.sub("", shown(screen, on))
    screen.take(TextEdit(8, "", " So.", 12), [3, 12])
    assert "Ben\u25be ran. So.\u25be\u258f" in ESCAPES.sub("", shown(screen, on))
    screen.take(TextEdit(3, "", "", 3), [])
    assert "\u25be" not in shown(screen, on)


def test_the_line_of_state_says_what_was_done_last() -> None:
    screen, on = Screen("The cat.", 8), console()
    assert "reading; 0 actions, 0 moves, 8 characters" in shown(screen, on)
    screen.take(TextEdit(4, "", "", 4))
    assert "moves back 4; 1 action, 1 move, 8 characters" in shown(screen, on)
    screen.take(TextEdit(4, "", "\x1b[2J", 8))
    assert "writes '\\x1b[2J'" in shown(screen, on)
    screen.take(TextEdit(4, "\x1b[2J", "", 4))
    assert "deletes" in shown(screen, on)
    screen.take(TextEdit(8, "", "", 8))
    assert "moves on 4" in shown(screen, on)


@pytest.mark.parametrize("cursor", [0, 500, 999])
def test_a_long_text_is_shown_around_its_cursor(cursor: int) -> None:
    text = "".join(f"{n:>9} " for n in range(100))
    on = console(width=20, height=10)
    lines = ESCAPES.sub("", shown(Screen(text, cursor), on)).splitlines()
    assert len(lines) == 9
    assert sum("\u258f" in line for line in lines) == 1


def test_without_unicode_and_colour_the_cursor_is_still_there() -> None:
    class Ascii(io.StringIO):
        encoding = "ascii"

    on = Console(file=Ascii(), width=80, height=24, force_terminal=True, no_color=True)
    screen = Screen("The cat.", 4)
    screen.take(TextEdit(4, "", "black ", 10))
    plain = shown(screen, on)
    assert "The black |cat." in ESCAPES.sub("", plain)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain)


@pytest.mark.parametrize("width", [1, 2, 80])
def test_what_rich_cannot_draw_is_not_drawn(width: int) -> None:
    text = "ab " * 10 + "\u200d\u200d日" + "日" * 39
    edits = [TextEdit(len(text) - 39, "", "日", len(text) - 38)] * 3
    on = console(width=width, height=5)
    screen = Screen(text, len(text) - 39)
    show(screen, edits, on)
    print_result(screen, on)


def test_the_view_leaves_nothing_behind() -> None:
    on = console()
    show(Screen("The cat.", 8), [TextEdit(8, "", " Yes.", 13)], on, pace=1000)
    written = on.file.getvalue()  # type: ignore[attr-defined]
    assert " Yes." in written
    assert written.endswith("\x1b[2K")  # the last line it used is empty again


def test_a_search_is_one_move_when_it_is_over() -> None:
    vocab = ActionVocab.build(len(READER.codec.token_bytes), search=True)
    draft = READER.codec.encode("The cat sat.")
    canvas, stream = Canvas(vocab, draft, 0), READER.codec.stream(draft)
    screen = Screen(stream.text, 0)
    for action_id in vocab.spell(Action(Kind.FIND, tokens=tuple(READER.codec.encode(" cat")))):
        assert (screen.moves, screen.cursor) == (0, 0)
        screen.take(stream.feed(canvas.apply(action_id)))
    assert (screen.moves, screen.cursor) == (1, len("The cat"))
    assert "moves on 7;" in ESCAPES.sub("", shown(screen, console()))
