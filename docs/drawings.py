"""Draw docs/img/*.svg: the pictures of the concepts page, and the packages.

The executor computes every canvas and the mask every verdict, so the pictures cannot be wrong.

python docs/drawings.py
"""

from __future__ import annotations

import itertools
import re
import sys
import tomllib
from collections.abc import Sequence
from html import escape
from pathlib import Path

import grimp

from reviser import Action, ActionMask, ActionVocab, Canvas, Kind, Trajectory

WORDS = ["Ben", " lost", " his", " red", " ball", ".", " He", " cried"]
VOCAB = ActionVocab.build(len(WORDS), operators=["delete"], max_move=8, marks=True)
BEN, LOST, HIS, RED, BALL, DOT, HE, CRIED = range(len(WORDS))
BACK, FORTH = VOCAB.move_id(-4), VOCAB.move_id(4)
PREFIX = [BEN]
WRITING = [LOST, HIS, BALL, DOT, HE, CRIED, BACK, RED, FORTH, DOT, VOCAB.stop]

PAPER, INK, FAINT, EDGE = "#ffffff", "#1b1b1f", "#5b5d66", "#b9bbc4"
GIVEN, FRESH, CURSOR, YES, NO = "#e6e7ec", "#ffe08a", "#c44f00", "#d5efd9", "#f6d9d5"
BOX, GAP, HIGH = 13, 4, 28
"""Pixels left and right of a word inside its box, between boxes, and a box's height."""
LETTER = 8.5
ROOT = Path(__file__).parent.parent


def text(
    x: float, y: float, said: str, *, size: int = 15, fill: str = INK, anchor: str = "start"
) -> str:
    """Draw words."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">'
        f"{escape(said)}</text>"
    )


def box(x: float, y: float, said: str, *, fill: str = PAPER, edge: str = EDGE) -> tuple[str, float]:
    """Draw a word in its box; return it and where the box ends."""
    width = len(said.strip()) * LETTER + BOX
    drawn = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HIGH}" rx="5" fill="{fill}"'
        f' stroke="{edge}"/>' + text(x + width / 2, y + 19, said.strip(), anchor="middle")
    )
    return drawn, x + width


def row(
    x: float, y: float, tokens: Sequence[int], cursor: int | None, fills: dict[int, str]
) -> tuple[list[str], list[float]]:
    """Draw a canvas; return its parts and where its boundaries are."""
    drawn, places = [], [x - GAP / 2]
    for n, token in enumerate(tokens):
        shape, x = box(x, y, WORDS[token], fill=fills.get(n, PAPER))
        drawn.append(shape)
        places.append(x + GAP / 2)
        x += GAP
    if cursor is not None:
        at = places[cursor]
        drawn.append(
            f'<path d="M{at:.1f} {y - 5} V{y + HIGH + 5}" stroke="{CURSOR}" stroke-width="3"/>'
        )
    return drawn, places


def arrow(x1: float, y1: float, x2: float, y2: float, colour: str = FAINT) -> str:
    """Draw an arrow."""
    return (
        f'<path d="M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="1.6"'
        ' fill="none" marker-end="url(#tip)"/>'
    )


def picture(width: int, height: int, parts: Sequence[str], title: str) -> str:
    """Put parts on a white sheet, which stays white in dark mode."""
    font = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="{font}" role="img"><title>{escape(title)}</title>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{FAINT}"/></marker>'
        f'</defs><rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"'
        f' fill="{PAPER}" stroke="{EDGE}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def canvas() -> str:
    """Draw the running example, action by action."""
    state = Canvas(VOCAB, PREFIX)
    parts = [
        text(24, 34, "action", fill=FAINT, size=13),
        text(190, 34, "canvas", fill=FAINT, size=13),
    ]
    shown = [("(given)", {0: GIVEN})]
    rows = [(list(state.tokens()), state.cursor)]
    for n, action in enumerate(WRITING):
        edit = state.apply(action)
        if n < 5:
            continue
        label = "6 inserts" if n == 5 else VOCAB.describe(action)
        label = (
            label
            if VOCAB.kinds[action] != Kind.INSERT or n == 5
            else f"insert {WORDS[action].strip()}"
        )
        fills = {0: GIVEN}
        if edit.inserted:
            first = 1 if n == 5 else edit.position
            fills |= dict.fromkeys(range(first, edit.position + 1), FRESH)
        shown.append((label, fills))
        rows.append((list(state.tokens()), state.cursor))
    for n, ((label, fills), (tokens, cursor)) in enumerate(zip(shown, rows, strict=True)):
        y = 52 + n * 46
        parts.append(text(24, y + 19, label))
        parts += row(190, y, tokens, cursor, fills)[0]
    return picture(
        610,
        52 + len(rows) * 46,
        parts,
        "Ben lost his red ball. He cried., written in eleven actions",
    )


def mask() -> str:
    """Draw what is allowed with six words on the canvas and the cursor after them."""
    state = Canvas(VOCAB, PREFIX)
    rows_ = ActionMask(VOCAB, rows=1)
    rows_.reset(0, length=1, editable=[(1, 1)])
    for action in WRITING[:6]:
        state.apply(action)
        rows_.advance([action])
    allowed = rows_.fill_mask()[0]
    verdicts = {"insert": bool(allowed[0])}
    for column, control in enumerate(VOCAB.controls, start=1):
        kind = VOCAB.kinds[control]
        if kind in (Kind.MOVE, Kind.STOP):
            verdicts[VOCAB.describe(control)] = bool(allowed[column])
    parts = [
        text(24, 34, "length 7, cursor 7, one gap: 1 to 7. Arrows: -1, -2, -4", fill=FAINT, size=13)
    ]
    drawn, places = row(24, 104, state.tokens(), state.cursor, {0: GIVEN})
    parts += drawn
    for n, at in enumerate(places):
        parts.append(text(at, 152, str(n), size=13, fill=FAINT, anchor="middle"))
    for delta, peak in ((-1, 66), (-2, 40), (-4, 14)):
        start, end = places[7], places[7 + delta]
        middle = (start + end) / 2
        parts.append(
            f'<path d="M{start:.1f} 96 Q{middle:.1f} {peak + 12} {end:.1f} 94" stroke="{FAINT}"'
            ' stroke-width="1.6" fill="none" marker-end="url(#tip)"/>'
        )
    x, y = 24.0, 170
    for name, is_allowed in verdicts.items():
        shape, end = box(x, y, name, fill=YES if is_allowed else NO)
        if end > 560:
            x, y = 24.0, y + HIGH + 8
            shape, end = box(x, y, name, fill=YES if is_allowed else NO)
        parts.append(shape)
        x = end + 8
    parts.append(
        text(
            24,
            y + 56,
            "green: allowed. red: would leave the canvas, or go into the prompt.",
            size=13,
            fill=FAINT,
        )
    )
    return picture(600, y + 74, parts, "Which actions the mask allows at one state")


def trajectory() -> str:
    """Draw a text being taken apart (downwards) and written again (upwards)."""
    target = Canvas.replay(VOCAB, [*PREFIX, *WRITING]).tokens()[1:]
    apart = [Action(Kind.DELETE), Action(Kind.MOVE, -4), Action(Kind.DELETE), Action(Kind.MOVE, 4)]
    apart += [Action(Kind.DELETE)] * 6
    made = Trajectory.from_obfuscation(VOCAB, target, len(target), apart, prefix=PREFIX)
    assert list(made.restoration) == WRITING
    state = Canvas(VOCAB, target, len(target))
    rows = [(state.tokens(), state.cursor)]
    for action in apart:
        state.act(action)
        rows.append((state.tokens(), state.cursor))
    parts = [
        text(24, 34, "taken apart, at random", size=13, fill=FAINT),
        text(700, 34, "written again: learned", size=13, fill=FAINT, anchor="end"),
    ]
    for n, (tokens, cursor) in enumerate(rows):
        y = 52 + n * 44
        parts += row(150, y, tokens, cursor, {})[0]
        if n < len(apart):
            undone = VOCAB.describe(WRITING[len(apart) - 1 - n]).split()
            word = WORDS[int(undone[1])].strip() if undone[0] == "insert" else undone[1]
            said = apart[n].kind.word
            said += f" {apart[n].argument:+d}" if apart[n].kind is Kind.MOVE else ""
            parts += [
                text(38, y + 41, said, size=14),
                arrow(28, y + 27, 28, y + 49),
                text(686, y + 41, f"{undone[0]} {word}", size=14, anchor="end"),
                arrow(696, y + 49, 696, y + 27),
            ]
    parts.append(text(686, 68, "stop", size=14, anchor="end"))
    return picture(
        724, 52 + len(rows) * 44, parts, "A trajectory: the target taken apart, and the inverse"
    )


def gaps() -> str:
    """Draw two gaps in locked text."""
    given = [BEN, LOST, HIS, BALL, DOT, CRIED, DOT]
    state = Canvas(VOCAB, given, cursor=3)
    parts = [text(24, 34, "Ben lost his{} ball.{} cried.", size=15)]
    drawn, places = row(24, 66, given, None, dict.fromkeys(range(7), GIVEN))
    parts += drawn
    for at in (places[3], places[5]):
        parts.append(
            f'<path d="M{at:.1f} 58 V102" stroke="{CURSOR}" stroke-width="3" stroke-dasharray="4 3"/>'
        )
    parts.append(text(430, 85, "two gaps, the rest locked", size=13, fill=FAINT))
    for action in (RED, VOCAB.move_id(2), HE):
        state.apply(action)
    parts += row(
        24,
        128,
        state.tokens(),
        state.cursor,
        dict.fromkeys([0, 1, 2, 4, 5, 7, 8], GIVEN) | {3: FRESH, 6: FRESH},
    )[0]
    parts.append(text(430, 147, "red, +2, He", size=13, fill=FAINT))
    return picture(640, 182, parts, "Two gaps filled; what was given is locked")


def marks() -> str:
    """Draw a word that is left out with a mark and written last."""
    story = [LOST, HIS, VOCAB.mark, BALL, DOT, HE, CRIED, DOT, VOCAB.back, RED, VOCAB.stop]
    stages = [("... his, mark", 3), ("... ball . He cried .", 8), ("back", 9), ("red, stop", 11)]
    parts = []
    for n, (label, until) in enumerate(stages):
        y = 30 + n * 52
        state = Canvas(VOCAB, PREFIX)
        for action in story[:until]:
            state.apply(action)
        fills = {0: GIVEN} | ({3: FRESH} if until == len(story) else {})
        shapes, places = row(230, y, state.tokens(), state.cursor, fills)
        parts += [text(24, y + 19, label), *shapes]
        for mark in state.marks:
            parts.append(
                f'<path d="M{places[mark]:.1f} {y + HIGH + 2} l-6 10 h12 z" fill="{CURSOR}"/>'
            )
    return picture(
        640, 38 + len(stages) * 52, parts, "A mark where a word is missing; back leads there"
    )


def loop() -> str:
    """Draw one step: history, trunk, mask, executor, canvas."""
    parts = [text(24, 36, "history", size=13, fill=FAINT)]
    x = 24.0
    for said in ("begin", "Ben", "|", "lost", "his", "ball", ".", "He", "cried", "-4"):
        shape, x = box(x, 46, said, fill=GIVEN if said in ("begin", "Ben", "|") else PAPER)
        parts.append(shape)
        x += GAP
    shape, x = box(x, 46, "?", fill=FRESH)
    parts.append(shape)
    for n, (name, what) in enumerate(
        [
            ("trunk", "any causal LM: logits"),
            ("mask", "length, cursor, gaps"),
            ("executor", "applies one action"),
        ]
    ):
        left = 24 + n * 240
        parts.append(
            f'<rect x="{left}" y="118" width="196" height="62" rx="8" fill="{PAPER}" stroke="{INK}" stroke-width="1.4"/>'
        )
        parts += [
            text(left + 98, 144, name, anchor="middle"),
            text(left + 98, 166, what, size=13, fill=FAINT, anchor="middle"),
        ]
        if n < 2:
            parts.append(arrow(left + 198, 149, left + 236, 149))
    parts.append(arrow(122, 78, 122, 114))
    parts.append(
        f'<path d="M458 116 V96 H{x - 12:.1f} V78" stroke="{FAINT}" stroke-width="1.6" fill="none" marker-end="url(#tip)"/>'
    )
    parts.append(text(470, 110, "the action chosen: one more id", size=13, fill=FAINT))
    parts.append(arrow(602, 182, 602, 222))
    state = Canvas(VOCAB, PREFIX)
    for action in WRITING[:8]:
        state.apply(action)
    parts += [text(24, 249, "canvas", size=13, fill=FAINT)]
    parts += row(190, 230, state.tokens(), state.cursor, {0: GIVEN, 3: FRESH})[0]
    return picture(740, 286, parts, "One step: history, trunk, mask, executor, canvas")


def cache() -> str:
    """Draw how the history grows at its end while the text grows in its middle."""
    parts = [
        text(24, 36, "history: every id read once, its keys and values kept", size=13, fill=FAINT)
    ]
    x = 24.0
    for n, action in enumerate(WRITING, start=1):
        said = (
            WORDS[action].strip()
            if VOCAB.kinds[action] == Kind.INSERT
            else VOCAB.describe(action).replace("move ", "")
        )
        left = x
        shape, x = box(x, 46, said, fill=FRESH if action == RED else PAPER)
        parts += [shape, text((left + x) / 2, 92, str(n), size=13, fill=FAINT, anchor="middle")]
        x += GAP
    state, made = Canvas(VOCAB, PREFIX), [0]
    for n, action in enumerate(WRITING, start=1):
        edit = state.apply(action)
        made[edit.position : edit.position + len(edit.removed)] = [n] * len(edit.inserted)
    parts.append(text(24, 130, "text: by which step each word came", size=13, fill=FAINT))
    drawn, places = row(24, 140, state.tokens(), None, {0: GIVEN, made.index(8): FRESH})
    parts += drawn
    for n, step in enumerate(made):
        if step:
            parts.append(
                text(
                    (places[n] + places[n + 1]) / 2,
                    186,
                    str(step),
                    size=13,
                    fill=FAINT,
                    anchor="middle",
                )
            )
    return picture(500, 204, parts, "History grows at its end, text in its middle")


HOLDS_WEIGHTS = {"lab", "train", "data", "engines", "models"}
"""Packages in which some modules import torch, transformers or vllm."""


def imports() -> tuple[int, int]:
    """Return the number of packages, and of pairs of which one imports the other, even lazily.

    A package is a box of the drawing. That no import points up is import-linter's contract.
    """
    graph = grimp.build_graph("reviser")
    boxes = graph.find_children("reviser") - {"reviser.__main__"}
    pairs = itertools.permutations(boxes, 2)
    arrows = [
        graph.direct_import_exists(importer=a, imported=b, as_packages=True) for a, b in pairs
    ]
    return len(boxes), sum(arrows)


def packages() -> str:
    """Draw the packages as the import contract in pyproject.toml lists them."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = tools["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if "exhaustive" in each)
    drawn, y = [], 14.0
    for names in (re.findall(r"\w+", layer) for layer in layers if layer != "__main__"):
        wide = (400 - 6 * (len(names) - 1)) / len(names)
        size = 14 if max(map(len, names)) * LETTER < wide else 11
        for n, name in enumerate(names):
            x = 64 + n * (wide + 6)
            fill = YES if name in HOLDS_WEIGHTS else PAPER
            drawn.append(
                f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="30" rx="4" fill="{fill}"'
                f' stroke="{EDGE}"/>'
                f'<text class="package" x="{x + wide / 2:.1f}" y="{y + 20}"'
                f' text-anchor="middle" font-size="{size}" fill="{INK}">{name}</text>'
            )
        y += 38
    drawn += [
        arrow(36, 20, 36, y - 12),
        f'<text x="24" y="{y / 2}" font-size="11" fill="{FAINT}" text-anchor="middle"'
        f' transform="rotate(-90 24 {y / 2})">imports point down</text>',
        f'<rect x="64" y="{y + 3}" width="12" height="12" rx="2" fill="{YES}" stroke="{EDGE}"/>',
        text(82, y + 13, "some modules import torch, transformers or vllm", size=11, fill=FAINT),
    ]
    title = "The packages, from cli down to errors; imports point down"
    return picture(480, int(y) + 26, drawn, title)


PICTURES = (canvas, loop, mask, gaps, trajectory, marks, cache, packages)


def main() -> None:
    """Write every picture into docs/img."""
    folder = Path(__file__).parent / "img"
    for draw in PICTURES:
        (folder / f"{draw.__name__}.svg").write_text(draw(), encoding="utf-8")
    boxes, arrows = imports()
    sys.stdout.write(f"{boxes} packages, {arrows} arrows\n")


if __name__ == "__main__":
    main()
