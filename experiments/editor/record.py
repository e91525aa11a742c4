"""Record the proofreader in Neovim and in a shell: docs/img/neovim.gif, docs/img/terminal.gif.

    python -m experiments.editor.record neovim docs/img/neovim.gif
    python -m experiments.editor.record shell docs/img/terminal.gif

Neovim, or the shell, runs in a terminal of its own (a pty), pyte keeps that terminal's screen, and
Pillow draws it. Nothing is staged but the keys; waits are cut to `LONGEST` milliseconds. It needs
Neovim, or bash, and `pip install pyte`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyte
from PIL import Image, ImageDraw, ImageFont
from pyte.screens import Char

from reviser.player.playground import LETTER

COLUMNS, ROWS = 98, 13
SHELL_ROWS = 34
"""Rows of the shell's terminal, which has room for all suggestions of the letter."""
SIZE, WIDTH, HEIGHT = 13, 8, 18
"""Font size, and the size of a character's cell."""
LONGEST, LAST = 1500, 2500
"""Milliseconds that a picture is shown, at most, and that the last one is."""
BACK, INK = "#1e2127", "#d7dae0"
NAMED = {
    "default": INK, "black": "#1e2127", "red": "#e06c75", "green": "#98c379", "brown": "#e5c07b",
    "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#d7dae0",
}  # fmt: skip

TEXT = """# Release notes

There are two new options, wich are described
in the [guide](https://example.org/teh-guide).

Run `reviser lsp -m teh-model` befor you start.
"""
TYPED = "We tested it with a lot of diferent files."

SETUP = """
vim.o.termguicolors = true
vim.o.number = true
vim.o.signcolumn = "yes"
vim.o.showmode = false
vim.o.fillchars = "eob: "
vim.o.background = "dark"
vim.cmd("syntax on | set filetype=markdown")
vim.o.ruler = false
vim.o.laststatus = 0
vim.o.shortmess = vim.o.shortmess .. "FI"
vim.cmd("highlight Normal guibg=#1e2127 guifg=#d7dae0")
vim.cmd("highlight SignColumn guibg=#1e2127")
vim.cmd("highlight Title guifg=#61afef gui=bold")
vim.cmd("highlight LineNr guifg=#4b5263")
vim.cmd("highlight DiagnosticUnderlineWarn guisp=#e5c07b gui=underline guifg=#e5c07b")
vim.cmd("highlight DiagnosticUnderlineInfo guisp=#61afef gui=underline guifg=#61afef")
vim.cmd("highlight DiagnosticUnderlineHint guisp=#56b6c2 gui=underline guifg=#56b6c2")
vim.cmd("highlight DiagnosticWarn guifg=#e5c07b")
vim.cmd("highlight DiagnosticInfo guifg=#61afef")
vim.cmd("highlight DiagnosticHint guifg=#56b6c2")
local client = vim.lsp.start_client({ name = "reviser", cmd = COMMAND })
vim.lsp.buf_attach_client(0, client)
vim.keymap.set("n", "gra", vim.lsp.buf.code_action)
vim.keymap.set("n", "]d", function() vim.diagnostic.goto_next({ float = false }) end)
"""


class Terminal:
    """A program in a terminal, and pictures of its screen with their times."""

    def __init__(self, command: list[str], folder: Path, rows: int = ROWS) -> None:
        self.screen = pyte.Screen(COLUMNS, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.pictures: list[tuple[float, Image.Image]] = []
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", PYTHONPATH=os.pathsep.join(sys.path))
            os.environ.update(dict.fromkeys(["XDG_CONFIG_HOME", "XDG_DATA_HOME"], str(folder)))
            os.execvp(command[0], command)
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))

    def read(self, seconds: float) -> None:
        """Read what the program writes, and keep a picture of each screen that lasts."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            # A screen is complete when nothing more comes for a moment.
            if select.select([self._file], [], [], min(left, 0.04))[0]:
                self._stream.feed(os.read(self._file, 65536))
            elif self.screen.dirty:
                self.screen.dirty.clear()
                self._keep()

    def _keep(self) -> None:
        picture = drawn(self.screen)
        if not self.pictures or picture.tobytes() != self.pictures[-1][1].tobytes():
            self.pictures.append((time.monotonic(), picture))

    def type(self, keys: str, pause: float = 0.0) -> None:
        """Send keys, each after a pause."""
        for key in keys:
            os.write(self._file, key.encode())
            self.read(pause)

    def until(self, holds: Callable[[list[str]], bool], seconds: float = 300) -> None:
        """Read until the lines of the screen fulfil a condition."""
        end = time.monotonic() + seconds
        while not holds(self.screen.display):
            if time.monotonic() > end:
                sys.exit("Nothing came:\n" + "\n".join(self.screen.display))
            self.read(0.2)

    def close(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGHUP)  # a shell ignores SIGTERM
        os.waitpid(self.pid, 0)


def colour(name: str, default: str) -> str:
    """Return a colour of pyte's, a name or six digits, for Pillow."""
    if name == "default":
        return default
    return NAMED.get(name, f"#{name}" if len(name) == 6 else INK)


def drawn(screen: pyte.Screen) -> Image.Image:
    """Return a picture of a terminal's screen."""
    fonts = [ImageFont.truetype(f"DejaVuSansMono{style}.ttf", SIZE) for style in ("", "-Bold")]
    picture = Image.new("RGB", (COLUMNS * WIDTH + 16, screen.lines * HEIGHT + 16), BACK)
    pen = ImageDraw.Draw(picture)
    for row in range(screen.lines):
        for column in range(COLUMNS):
            char: Char = screen.buffer[row][column]
            ink, back = colour(char.fg, INK), colour(char.bg, BACK)
            is_cursor = (row, column) == (screen.cursor.y, screen.cursor.x)
            if char.reverse != is_cursor:
                ink, back = back, ink
            left, top = 8 + column * WIDTH, 8 + row * HEIGHT
            if back != BACK:
                pen.rectangle((left, top, left + WIDTH - 1, top + HEIGHT - 1), fill=back)
            if char.underscore:
                pen.line((left, top + HEIGHT - 2, left + WIDTH - 1, top + HEIGHT - 2), fill=ink)
            if char.data.strip():
                pen.text((left, top + 1), char.data, fill=ink, font=fonts[char.bold])
    return picture


def shown(lines: list[str], *words: str) -> bool:
    """Return whether a screen shows a suggestion of each word."""
    return all(any(f"with “{word}”" in line for line in lines) for word in words)


def neovim() -> list[tuple[float, Image.Image]]:
    """Use Neovim as a person would, and return pictures of it with their times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "release.md").write_text(TEXT)
        (folder / ".reviser.toml").write_text("delay = 0.3\n")
        words = [sys.executable, "-m", "reviser", "lsp"]
        listed = "{" + ", ".join(json.dumps(word) for word in words) + "}"
        (folder / "setup.lua").write_text(SETUP.replace("COMMAND", listed))
        terminal = Terminal(
            ["nvim", "-u", "NONE", "-n", "-c", "luafile setup.lua", "release.md"], folder
        )
        try:
            terminal.until(lambda lines: any("Release" in line for line in lines))
            terminal.read(1)
            terminal.until(lambda lines: shown(lines, "which", "before"))
            terminal.read(1.5)
            terminal.type("]d", 0.2)
            terminal.read(1)
            terminal.type("gra", 0.2)
            terminal.until(lambda lines: any("dictionary" in line for line in lines))
            terminal.read(1.5)
            terminal.type("1\r", 0.8)
            terminal.read(1)
            terminal.type("G", 0.5)
            terminal.type("o\r", 0.2)
            terminal.type(TYPED, 0.06)
            terminal.type("\x1b", 0.1)
            terminal.until(lambda lines: shown(lines, "different"))
            terminal.read(1)
        finally:
            terminal.close()
    return terminal.pictures


def shell() -> list[tuple[float, Image.Image]]:
    """Proofread the letter of the playground in a shell, and return pictures with their times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "letter.txt").write_text(LETTER + "\n")
        os.environ.update(PS1="$ ", PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        terminal = Terminal(["bash", "--norc", "--noprofile"], folder, SHELL_ROWS)
        try:
            terminal.until(lambda lines: lines[0].startswith("$"))
            terminal.read(0.5)
            terminal.type("reviser proofread letter.txt", 0.04)
            terminal.read(0.4)
            terminal.type("\r")
            terminal.until(lambda lines: any(" in 1 file" in line for line in lines))
            terminal.read(1)
        finally:
            terminal.close()
    return terminal.pictures


def write_gif(path: Path, pictures: list[tuple[float, Image.Image]]) -> None:
    """Write pictures as a GIF, with one palette for all of them."""
    times = [min(LONGEST, round(1000 * (b - a))) for (a, _), (b, _) in pairwise(pictures)]
    whole = Image.new("RGB", (pictures[0][1].width, pictures[0][1].height * len(pictures)))
    for n, (_, each) in enumerate(pictures):
        whole.paste(each, (0, n * each.height))
    palette = whole.quantize(96, dither=Image.Dither.NONE)
    frames = [each.quantize(palette=palette, dither=Image.Dither.NONE) for _, each in pictures]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=[*times, LAST], loop=0)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Record the proofreader in a terminal.")
    parser.add_argument("program", choices=("neovim", "shell"))
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    _, *pictures = neovim() if given.program == "neovim" else shell()  # the first screen is empty
    write_gif(given.output, pictures)


if __name__ == "__main__":
    main()
