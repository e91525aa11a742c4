"""The page's modules, in Node, against the Python code that they mirror."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from reviser.core.actions import ActionVocab, Kind
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec, TextEdit
from reviser.core.mask import ActionMask
from reviser.core.text_stream import TextStream
from reviser.engines.base import replay
from reviser.writing._spaces import SpacedStream
from reviser.writing.prompts import Model, Prompt, prompts_of
from reviser.writing.tasks import Continue, Infill
from support.browsers import node
from support.paths import ROOT

HERE = Path(__file__).parent
ASSETS = ROOT / "src/reviser/export/assets"
STORIES = ROOT / "models/stories-revise"
PIECES = [
    b"a", b" b", b"\xc3", b"\xa9", b"\xe2\x82", b"\xac", b"\xf0\x9f", b"\x98\x80", b"\xff",
    "\u00e9".encode(), "\U0001f600".encode(), b"\n", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x80z",
    b"\xf4\x90",
]  # fmt: skip
VOCABS = [
    ActionVocab.build(len(PIECES), max_move=8, marks=True),
    ActionVocab.build(len(PIECES), max_move=4, marks=True, delimiter=False),
    ActionVocab.build(len(PIECES), max_move=16),
    ActionVocab.from_json(
        ActionVocab.build(len(PIECES), max_move=2, marks=True)
        .to_json()
        .replace('"never_insert": []', '"never_insert": [3, 9]')
    ),
]
WORDS = [
    "Tom", " went", " to the park", ".", " \u00e9\u00e8", "\U0001f600", "  ", "\n", "'s", "don't",
    "123", " 4\u00bd", "\u3000x", "\ufeff", "<|stop|>", "\u0085", "_!?", "\u0644\u0627",
    "\u0e01\u0e33", "\t", "a\u0301", "\u2160", "I'LL",
]  # fmt: skip


def mirrored(job: str, vocab: ActionVocab, cases: list[Any], folder: Path | None = None) -> Any:
    """Return what the JavaScript modules make of cases."""
    tokenizer = folder and json.loads((folder / "tokenizer.json").read_text("utf-8"))
    run = subprocess.run(
        [node(), "--no-warnings", str(HERE / "mirror.mjs")],
        input=json.dumps({"folder": str(ASSETS), "job": job, "cases": cases,
                          "vocab": json.loads(vocab.to_json()), "tokenizer": tokenizer}),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


def told(edit: TextEdit) -> list[Any]:
    return [edit.offset, edit.removed, edit.inserted, edit.cursor]


def allowed(rows: ActionMask) -> list[Any]:
    mask = rows.fill_mask()[0]
    return [bool(mask[0]), sorted(rows.vocab.controls[mask[1:]].tolist())]


def walk(vocab: ActionVocab, rng: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a random history as a case, and what Python says after each of its ids."""
    tokens = [rng.randrange(len(PIECES)) for _ in range(rng.randint(0, 12))]
    bounds = sorted(rng.choices(range(len(tokens) + 1), k=2 * rng.randint(1, 3)))
    editable = [(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True)]
    editable = [pair for n, pair in enumerate(editable) if n == 0 or editable[n - 1][1] < pair[0]]
    cursor = rng.randint(editable[0][0], editable[-1][1])
    start: dict[str, Any] = {"length": len(tokens), "cursor": cursor, "editable": editable}
    limits = {
        "max_length": len(tokens) + rng.randint(0, 9),
        "max_edits": rng.randint(0, 9),
        "max_moves": rng.randint(0, 4),
    }
    given = {name: rng.choice([None, None, value]) for name, value in limits.items()}
    rows = ActionMask(vocab, 1)
    rows.reset(0, **start, **given)
    canvas = Canvas(vocab, tokens, cursor)
    stream = TextStream(PIECES, tokens, unit="utf16")
    ids, steps = [], []
    for _ in range(rng.randint(1, 25)):
        legal = np.flatnonzero(rows.allowed()[0]).tolist()
        controls = [i for i in legal if vocab.kind(i) not in (Kind.INSERT, Kind.STOP)]
        before = allowed(rows)
        action = rng.choice(controls if controls and rng.random() < 0.4 else legal)
        if rng.random() < 0.03 and vocab.begin is not None:
            action = vocab.begin
        rows.advance([action])
        edit = canvas.apply(action)
        ids.append(action)
        steps.append([before, canvas.cursor, list(canvas.marks), told(stream.feed(edit))])
        if canvas.is_finished:
            break
    names = {"max_length": "maxLength", "max_edits": "maxEdits", "max_moves": "maxMoves"}
    case = {
        "tokens": tokens,
        "bytes": [list(piece) for piece in PIECES],
        "start": start | {names[name]: value for name, value in given.items()},
        "ids": ids,
    }
    expected = {
        "steps": steps,
        "last": allowed(rows),
        "tokens": canvas.tokens(),
        "text": stream.text,
        "editable": [list(pair) for pair in rows.editable(0)],
    }
    return case, expected


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.full)])
def test_mask_canvas_and_text_agree_on_random_histories(count: int) -> None:
    for number, vocab in enumerate(VOCABS):
        rng = Random(number)
        walks = [walk(vocab, rng) for _ in range(count // len(VOCABS))]
        found = mirrored("follow", vocab, [case for case, _ in walks])
        for (case, expected), each in zip(walks, found, strict=True):
            assert each == json.loads(json.dumps(expected)), case
        kinds = {vocab.kind(i) for case, _ in walks for i in case["ids"]}
        assert kinds >= {Kind.INSERT, Kind.MOVE, Kind.STOP, Kind.SEPARATOR}
        assert (vocab.mark is None) == (Kind.TO_MARK not in kinds)


def texts(rng: Random, count: int) -> list[str]:
    return ["".join(rng.choices(WORDS, k=rng.randint(0, 12))) for _ in range(count)]


def random_texts(rng: Random, count: int) -> list[str]:
    """Return texts of any characters; rare ones were assigned later than some Unicode tables."""
    ranges = [(0, 0x7F), (0x80, 0x24F), (0x370, 0x5FF), (0x900, 0x97F), (0x2000, 0x206F)]
    ranges += [(0x4E00, 0x4E40), (0x1F600, 0x1F640)]
    return [
        "".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 20)))
        for _ in range(count)
    ]


def test_texts_are_encoded_alike() -> None:
    rng = Random(5)
    codec = Codec.load(STORIES)
    cases = texts(rng, 400) + random_texts(rng, 400)
    found = mirrored("encode", ActionVocab.load(STORIES), cases, STORIES)
    for case, ids in zip(cases, found, strict=True):
        assert ids == codec.encode(case), repr(case)


def with_gaps(rng: Random, text: str) -> str:
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(text))
        text = text[:at] + "{}" + text[at:]
    return text


@pytest.mark.parametrize("marks", [True, False], ids=["marks", "moves"])
def test_tasks_become_the_same_requests(marks: bool) -> None:
    rng = Random(6)
    codec = Codec.load(STORIES)
    vocab = ActionVocab.load(STORIES) if marks else ActionVocab.build(4096, max_move=256)
    cases = [with_gaps(rng, text) for text in texts(rng, 200)]
    cases += [" ".join(["word"] * n) + "{}" + " and more" * (3 * n) for n in range(1, 60)]
    found = mirrored("plan", vocab, cases, STORIES)
    for case, each in zip(cases, found, strict=True):
        part = part_of(case, vocab, codec)
        assert each["history"] == list(part.request.history), repr(case)
        assert each["cursor"] == part.request.cursor
        assert each["editable"] == [list(pair) for pair in part.request.editable]
        assert each["spaces"] == list(part.spaces)


def part_of(text: str, vocab: ActionVocab, codec: Codec) -> Prompt:
    task = Infill(text) if "{}" in text else Continue(text)
    return prompts_of(task, Model(vocab=vocab, codec=codec, context=100_000))[0]


def test_the_space_before_a_gap_is_handed_over_alike() -> None:
    rng = Random(7)
    vocab, codec = ActionVocab.load(STORIES), Codec.load(STORIES)
    cases, expected = [], []
    for _ in range(150):
        text = rng.choice(["Tom went {} home.", "A {} b {} c{}", "x{}y {}z", " {} {}", "To  {}"])
        request = (part := part_of(text, vocab, codec)).request
        canvas = replay(vocab, request.history)
        starts = [
            low for (low, _), lends in zip(request.editable, part.spaces, strict=True) if lends
        ]
        stream: TextStream | SpacedStream = codec.stream(canvas.tokens(), unit="utf16")
        if starts:
            stream = SpacedStream(codec, canvas.tokens(), starts, "utf16")
        rows = ActionMask(vocab, 1)
        request.enter(rows, 0)
        ids, edits, shown = [], [], [stream.text]
        for _ in range(rng.randint(1, 12)):
            legal = np.flatnonzero(rows.allowed()[0]).tolist()
            moves = [i for i in legal if i >= vocab.tokens and i != vocab.stop]
            action = rng.choice(moves if moves and rng.random() < 0.4 else legal)
            rows.advance([action])
            ids.append(action)
            edits.append(told(stream.feed(canvas.apply(action))))
            shown.append(stream.text)
            if canvas.is_finished:
                break
        cases.append({"text": text, "ids": ids})
        expected.append({"edits": edits, "texts": shown})
    assert mirrored("spaced", vocab, cases, STORIES) == expected


def test_a_seed_draws_the_same_numbers_and_actions() -> None:
    torch = pytest.importorskip("torch")
    from reviser.engines.logits import choose
    from reviser.engines.settings import DecodeConfig

    rng, noise = Random(8), np.random.default_rng(8)
    cases, expected = [], []
    for seed in (0, 1, 2**31, 2**53 - 1):
        for top_k, top_p, temperature in ((50, 1.0, 0.9), (0, 0.7, 1.3), (3, 0.5, 0.2), (0, 1, 0)):
            logits = (3 * noise.standard_normal(80)).astype(np.float32)
            generator = np.random.Generator(np.random.Philox(key=seed))
            draws = [generator.random() for _ in range(rng.randint(5, 20))]
            config = DecodeConfig(temperature=temperature, top_k=top_k, top_p=top_p)
            chosen = choose(
                torch.tensor(np.tile(logits, (len(draws), 1))), [config] * len(draws), draws
            ).tolist()
            settings = {"temperature": temperature, "topK": top_k, "topP": top_p}
            cases.append(
                {"logits": logits.tolist(), "settings": settings, "seed": seed, "draws": len(draws)}
            )
            logprob = float(torch.tensor(logits).log_softmax(-1)[0])
            expected.append([draws, chosen, pytest.approx(logprob, abs=1e-5)])
    assert mirrored("choose", VOCABS[0], cases) == expected
