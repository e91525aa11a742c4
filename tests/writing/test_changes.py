"""Changes of a draft: true to the canvas, and applied by readers that know nothing of ours."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from math import fsum
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.core.actions import Action, Kind
from reviser.core.canvas import Canvas, Edit
from reviser.errors import DataError, ReviserError
from reviser.writing.changes import Change, Changes, changes_of
from support import small_tokenizers
from support.editors import Reader
from support.strategies import seeds

BYTES = Reader(small_tokenizers.byte_level())
LLAMA = Reader(small_tokenizers.byte_fallback())
GEMMA = Reader(small_tokenizers.byte_fallback(strip=False))
META = Reader(small_tokenizers.metaspace())
READERS = {"byte level": BYTES, "llama": LLAMA, "gemma": GEMMA, "metaspace": META}

every_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
tools = pytest.mark.parametrize("tool", ["patch", "git"])
ALPHABET = "ab .é€😀👩\u200d🚀\u0301你\n\r\u2028\x0c\ufffd"
some_texts = st.lists(st.sampled_from([*ALPHABET, "\r\n", "The cat sat.\n"])).map("".join)
critic_texts = st.text(st.sampled_from("{}+-~>=< a\n"), max_size=12)


def changed(draft: str, *changes: tuple[int, int, str]) -> Changes:
    """A draft with its changes, as a person would write them."""
    made = (
        Change(start=start, end=end, before=draft[start:end], after=after, logprob=-1.0, actions=1)
        for start, end, after in changes
    )
    return Changes(draft=draft, changes=tuple(made), stop_logprob=-0.5)


@st.composite
def some_changes(draw: st.DrawFn, texts: st.SearchStrategy[str] = some_texts) -> Changes:
    """Any changes, of one character of the draft as likely as of many."""
    draft = draw(texts)
    bounds = draw(st.lists(st.integers(0, len(draft)), max_size=8).map(sorted))
    found: list[tuple[int, int, str]] = []
    for start, end in zip(bounds[::2], bounds[1::2], strict=False):
        if not found or found[-1][1] < start:
            found.append((start, end, draw(texts)))
    return changed(draft, *found)


def walked(
    reader: Reader, rng: Random, draft: Sequence[int], actions: int
) -> tuple[Canvas, list[tuple[Edit, float]]]:
    """A canvas that held a draft, after random actions, and what each of its ids did."""
    canvas = Canvas(reader.vocab, draft, rng.randint(0, len(draft)))
    known = [token for token in draft if token in reader.bytes_of]
    tokens = known if rng.random() < 0.3 else ()  # often put back what was there
    edits = list(reader.walk(rng, canvas, actions, tokens))
    edits.append(canvas.apply(reader.vocab.stop))
    return canvas, [(edit, -rng.random() * 9) for edit in edits]


def drafted(reader: Reader, rng: Random) -> list[int]:
    """Tokens of whole texts, or parts of characters in any order."""
    if rng.random() < 0.5:
        return [reader.token(rng) for _ in range(rng.randint(0, 20))]
    return reader.codec.encode("".join(rng.choices(ALPHABET, k=rng.randint(0, 20))))


def taken(reader: Reader, draft: str, *actions: Action, cursor: int | None = None) -> Changes:
    """The changes that some actions make of a draft, each id with log-probability -1."""
    tokens = reader.codec.encode(draft)
    canvas = Canvas(reader.vocab, tokens, cursor)
    edits = [edit for action in actions for edit in canvas.act(action)]
    return changes_of(reader.codec, tokens, [(edit, -1.0) for edit in edits], draft=draft)


def insert(reader: Reader, text: str) -> list[Action]:
    return [Action(Kind.INSERT, token) for token in reader.codec.encode_parts(["", text])[1]]


# -- from a canvas --------------------------------------------------------------------------------


@every_reader
@given(seed=seeds, actions=st.integers(0, 25))
@settings(max_examples=200)
def test_changes_lead_from_the_draft_to_what_the_canvas_holds(
    reader: Reader, seed: int, actions: int
) -> None:
    rng = Random(seed)
    draft = drafted(reader, rng)
    canvas, steps = walked(reader, rng, draft, actions)
    changes = changes_of(reader.codec, draft, steps)
    assert changes.draft == reader.codec.decode(draft)
    assert changes.text == reader.codec.decode(canvas.tokens())
    spent = [change.logprob for change in changes] + [changes.stop_logprob]
    assert fsum(spent) == pytest.approx(fsum(logprob for _, logprob in steps))
    assert sum(change.actions for change in changes) < len(steps)  # STOP is of none
    for change in changes:
        assert change.actions >= 1
        assert change.before != change.after
        assert change.before[:1] != change.after[:1]  # trimmed
        assert change.before[-1:] != change.after[-1:]
    assert all(one.end < other.start for one, other in pairwise(changes))
    assert Changes.from_json(changes.to_json()) == changes


def runs_of(draft: Sequence[int], edits: Sequence[Edit]) -> list[tuple[str, str, set[int]]]:
    """A slow reference: nothing leaves the canvas, it fades; runs end at a token of the draft.

    For each run what it was, what it is, and the edits that worked on it.
    """
    text = BYTES.codec.decode
    cells = [{"token": token, "own": True, "seen": True, "by": set[int]()} for token in draft]
    for number, edit in enumerate(edits):
        seen = [n for n, cell in enumerate(cells) if cell["seen"]]
        gone = seen[edit.position : edit.position + len(edit.removed)]
        for n in gone:
            cells[n]["seen"] = False
            cells[n]["by"] |= {number}
        place = gone[0] if gone else [*seen, len(cells)][edit.position]
        cells[place:place] = [
            {"token": token, "own": False, "seen": True, "by": {number}} for token in edit.inserted
        ]
    runs: list[list[dict[str, Any]]] = [[]]
    for cell in cells:
        if cell["own"] and cell["seen"]:
            runs.append([])
        else:
            runs[-1].append(cell)
    return [
        (
            text([cell["token"] for cell in run if cell["own"]]),
            text([cell["token"] for cell in run if cell["seen"]]),
            set[int]().union(*(cell["by"] for cell in run)),
        )
        for run in runs
    ]


@given(seed=seeds, actions=st.integers(0, 20))
def test_every_step_counts_for_the_change_that_it_led_to(seed: int, actions: int) -> None:
    rng = Random(seed)
    letters = [i for i in BYTES.insertable if BYTES.bytes_of[i] in (b"a", b"b", b"at", b" cat")]
    draft = rng.choices(letters, k=rng.randint(0, 15))
    canvas = Canvas(BYTES.vocab, draft, rng.randint(0, len(draft)))
    edits = [*BYTES.walk(rng, canvas, actions, letters), canvas.apply(BYTES.vocab.stop)]
    steps = [(edit, -(2.0 ** (n % 50)) * 1e-3 ** (n // 50)) for n, edit in enumerate(edits)]
    changes = changes_of(BYTES.codec, draft, steps)

    working = [n for n, edit in enumerate(edits) if edit.removed != edit.inserted]
    runs = runs_of(draft, [edits[n] for n in working])
    seen = [run for run in runs if run[0] != run[1]]
    spent: list[list[float]] = [[] for _ in range(len(seen) + 1)]
    owner = {working[number]: n for n, run in enumerate(seen) for number in run[2]}
    waiting: list[float] = []
    for n, (_, logprob) in enumerate(steps):
        waiting.append(logprob)
        if n in owner:
            spent[owner[n]] += waiting
            waiting = []
    spent[-1] = waiting
    assert [change.actions for change in changes] == [len(each) for each in spent[:-1]]
    assert [change.logprob for change in changes] == [fsum(each) for each in spent[:-1]]
    assert changes.stop_logprob == fsum(waiting)
    for change, (before, after, _) in zip(changes, seen, strict=True):
        assert change.before in before
        assert change.after in after


def test_a_character_changes_as_a_whole_though_a_token_is_part_of_it() -> None:
    tokens = [
        next(i for i in BYTES.insertable if BYTES.bytes_of[i] == bytes([b]))
        for b in b"\xc3\xa9\xa8"
    ]
    draft = [*BYTES.codec.encode("a"), tokens[0], tokens[1], *BYTES.codec.encode("b")]
    canvas = Canvas(BYTES.vocab, draft, len(draft) - 1)
    edits = canvas.act(Action(Kind.REPLACE, tokens[2]))
    (change,) = changes_of(BYTES.codec, draft, [(edit, -1.0) for edit in edits]).changes
    assert (change.start, change.before, change.after) == (1, "é", "è")


def test_a_first_space_that_shows_up_belongs_to_the_change() -> None:
    changes = taken(LLAMA, "cat", *insert(LLAMA, "The"), cursor=0)
    assert changes.text == "The cat"
    (change,) = changes
    assert (change.start, change.before, change.after) == (0, "", "The ")


# -- accept, reject, prove ------------------------------------------------------------------------


@given(changes=some_changes(), data=st.data())
def test_what_is_accepted_and_what_is_rejected_are_all_changes(
    changes: Changes, data: st.DataObject
) -> None:
    places = range(len(changes))
    numbers = data.draw(st.lists(st.sampled_from(places))) if places else []
    accepted, rejected = changes.accept(*numbers), changes.reject(*numbers)
    both = sorted(accepted.changes + rejected.changes, key=lambda change: change.start)
    assert tuple(both) == changes.changes
    assert accepted.changes == tuple(changes.changes[n] for n in sorted({*numbers}))
    assert changes.only(lambda change: change in accepted.changes) == accepted
    assert changes.accept(*places) == changes.reject() == changes
    assert changes.reject(*places).text == changes.accept().text == changes.draft


@given(some_changes())
def test_what_no_change_touches_is_proved_to_be_in_the_result(changes: Changes) -> None:
    text, place, rest = changes.text, 0, list(changes.draft)
    for stretch in changes.untouched:
        data = changes.draft[stretch.start : stretch.end].encode()
        assert stretch.before == stretch.after == sha256(data).hexdigest()
        place = text.index(data.decode(), place) + stretch.end - stretch.start
        rest[stretch.start : stretch.end] = [""] * (stretch.end - stretch.start)
    assert "".join(rest) == "".join(change.before for change in changes)


# -- readers that know nothing of ours ------------------------------------------------------------


def lsp_applied(draft: str, edits: list[dict[str, Any]], encoding: str) -> str:
    """As a client does it: lines of the draft, units in a line, from the last edit to the first."""
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", draft)
    size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = encoding if encoding == "utf-8" else f"{encoding}-le"

    def place(position: dict[str, int]) -> int:
        line = lines[position["line"]]
        before = line.encode(codec)[: size * position["character"]].decode(codec)
        assert len(before) <= len(line.rstrip("\r\n")), "behind the end of its line"
        return len("".join(lines[: position["line"]])) + len(before)

    ranges = [tuple(place(edit["range"][end]) for end in ("start", "end")) for edit in edits]
    assert all(one[1] <= other[0] for one, other in pairwise(ranges))
    for (start, end), edit in reversed([*zip(ranges, edits, strict=True)]):
        draft = draft[:start] + edit["newText"] + draft[end:]
    return draft


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@given(changes=some_changes())
def test_an_editor_applies_the_text_edits(changes: Changes, encoding: Any) -> None:
    edits = json.loads(json.dumps(changes.lsp(encoding)))
    assert lsp_applied(changes.draft, edits, encoding) == changes.text


def patched(tool: str, folder: Path, changes: Changes, *, name: str, context: int) -> bytes:
    """The draft as a file, after the real tool has read the diff."""
    (folder / name).write_bytes(changes.draft.encode())
    diff = changes.unified(name, context=context).encode()
    command = ["patch", "-p0", "--quiet", "--no-backup-if-mismatch"]
    if tool == "git":
        command = ["git", "apply", "-p0", "--whitespace=nowarn", "--unidiff-zero"]
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    alone |= {"GIT_CEILING_DIRECTORIES": str(folder.parent), "PATH": os.environ["PATH"]}
    run = subprocess.run(
        command, input=diff, cwd=folder, capture_output=True, check=False, env=alone
    )
    assert run.returncode == 0, (run.stdout, run.stderr, diff)
    return (folder / name).read_bytes() if (folder / name).exists() else b""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("patches")


@tools
@given(changes=some_changes(), context=st.sampled_from([0, 1, 3]))
@settings(max_examples=40)
def test_the_real_tools_apply_the_diff(
    folder: Path, tool: str, changes: Changes, context: int
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed.")
    if changes.text == changes.draft:
        assert changes.unified() == ""
    else:
        assert (
            patched(tool, folder, changes, name="my draft", context=context)
            == changes.text.encode()
        )


MARKS = re.compile(r"\{\+\+(.*?)\+\+\}|\{--(.*?)--\}|\{~~(.*?)~>(.*?)~~\}", re.DOTALL)
DELIMITERS = ["{++", "++}", "{--", "--}", "{~~", "~>", "~~}", "{==", "==}", "{>>", "<<}"]


@given(some_changes() | some_changes(critic_texts))
def test_critic_markup_accepted_gives_the_text_and_rejected_the_draft(changes: Changes) -> None:
    texts = [changes.draft, *(change.after for change in changes)]
    if any(delimiter in text for delimiter in DELIMITERS for text in texts):
        with pytest.raises(DataError, match="cannot be written in CriticMarkup"):
            changes.criticmarkup()
    else:
        shown = changes.criticmarkup()
        assert MARKS.sub(lambda mark: (mark[1] or "") + (mark[4] or ""), shown) == changes.text
        assert MARKS.sub(lambda mark: (mark[2] or "") + (mark[3] or ""), shown) == changes.draft


def test_critic_markup_has_a_mark_for_each_kind_of_change() -> None:
    changes = changed("The cat sat.", (0, 4, ""), (4 + 1, 7, "ow"), (11, 11, " down"))
    assert changes.criticmarkup() == "{--The --}c{~~at~>ow~~} sat{++ down++}."


# -- there and back -------------------------------------------------------------------------------


def altered(**fields: Any) -> str:
    told = changed("The cat", (4, 7, "dog")).to_dict()
    own = {name: fields.pop(name) for name in [*fields] if name in told}
    told["changes"][0] |= fields
    return json.dumps(told | own)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "These are not changes"),
        ("[]", "These are not changes"),
        ("{}", "'draft'"),
        (altered(draft=5), "not changes"),
        (altered(draft="a\ud800"), "half a surrogate pair"),
        (altered(draft="The dog"), "is of 'cat', and the draft has 'dog'"),
        (altered(end=9), "Change 0 is at 4..9"),
        (altered(start=8), "Change 0 is at 8..7"),
        (altered(after=None), "not changes"),
        (altered(logprob=float("nan")), "logprob nan"),
        (altered(actions=-1), "-1 actions"),
        (altered(colour="red"), "colour"),
        (altered(stop_logprob=float("-inf")), "stop_logprob is -inf"),
    ],
)
def test_damaged_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Changes.from_json(text)


def test_changes_of_a_part_are_changes_of_the_whole() -> None:
    change = Change(start=4, end=7, before="cat", after="dog", logprob=-1.5, actions=3)
    part = Changes(draft="The cat", changes=(change,), stop_logprob=-0.5)
    whole = part.within("# The cat\n", 2)
    assert (whole.text, whole.stop_logprob) == ("# The dog\n", -0.5)
    assert part.within(part.draft) == part


SAME = [(Edit(0, (), (), 0, 0), -1.0)]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda it: it.accept(-1), "There is no change -1: there are 1"),
        (lambda it: it.reject(1), "There is no change 1: there are 1"),
        (lambda it: it.within("# The cat\n", 1), "does not hold the draft at 1"),
        (lambda it: it.lsp("utf16"), "encoding is 'utf16'; use one of"),
        (lambda it: it.unified(""), "name is ''"),
        (lambda it: it.unified("a\nb"), "name is 'a\\nb'"),
        (lambda it: it.unified("a\tb"), "name is 'a\\tb'"),
        (lambda it: it.unified('"a"'), "name is '\"a\"'"),
        (lambda it: it.unified(context=-1), "context is -1; use a number of lines from 0"),
        (lambda _: changed("abcdef", (1, 3, "x"), (2, 3, "y")), "it must lie after 3"),
        (lambda _: changed("abcdef", (1, 3, "x"), (3, 4, "y")), "it must lie after 3"),
        (
            lambda it: changes_of(BYTES.codec, BYTES.codec.encode(it.draft), [], draft="The dog"),
            "The draft has 'dog' at 4, and its tokens 'cat'",
        ),
        *(
            (
                lambda it, edit=edit: changes_of(
                    BYTES.codec, BYTES.codec.encode(it.draft), [*SAME, (edit, -1.0)]
                ),
                "Step 1 removes",
            )
            for edit in (Edit(0, (1,), (), 1, 0), Edit(9, (), (1,), 9, 10))
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[Changes], Any], sentence: str) -> None:
    with pytest.raises(ReviserError, match=re.escape(sentence)):
        call(changed("The cat", (4, 7, "dog")))
