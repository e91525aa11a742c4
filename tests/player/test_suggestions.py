"""The playground's suggestions, in Node: their formats are Python's, and they follow typing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reviser.writing.changes import Change, Changes
from support.browsers import node
from support.paths import ROOT

MODULE = ROOT / "src/reviser/player/assets/suggestions.js"
WORDS = ["a", "é", "\n", "\n", "😀", " ", "word", "."]


def run(**cases: Any) -> Any:
    done = subprocess.run(
        [node(), "--no-warnings", str(Path(__file__).with_name("suggestions.mjs"))],
        input=json.dumps({"module": str(MODULE), "formats": [], "edits": [], "merges": []} | cases),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def random_changes(rng: Random) -> Changes:
    """Return a draft with a different number in each line, and changes of it."""
    lines = "".join(rng.choices(WORDS, k=rng.randint(1, 60))).split("\n")
    draft = "\n".join(f"{n} {line}" if line else f"{n}" for n, line in enumerate(lines))
    draft += rng.choice(["", "\n"])
    changes, at = [], 0
    while (start := at + rng.randint(1, 25)) < len(draft):
        end = min(len(draft), start + rng.choice([0, 0, 1, 3, 9]))
        after = "".join(rng.choices(["x", "y ", "\n", "😀"], k=rng.randint(0, 2)))
        before = draft[start:end]
        if before != after:
            changes.append(
                Change(start=start, end=end, before=before, after=after, logprob=-1, actions=1)
            )
        at = end + 1
    return Changes(draft=draft, changes=tuple(changes))


def test_formats_are_those_of_python() -> None:
    rng, cases, expected = Random(5), [], []
    for _ in range(400):
        changes = random_changes(rng)
        accepted = [rng.random() < 0.5 for _ in changes]
        text, suggestions, end = "", [], 0
        for change, is_accepted in zip(changes, accepted, strict=True):
            text += changes.draft[end : change.start]
            state = "accepted" if is_accepted else "pending"
            start = units(text)
            suggestions.append(
                {"start": start, "before": change.before, "after": change.after, "state": state}
            )
            text += change.after if is_accepted else change.before
            end = change.end
        cases.append({"text": text + changes.draft[end:], "suggestions": suggestions})
        expected.append(changes)
    for found, changes in zip(run(formats=cases)["written"], expected, strict=True):
        assert found["draft"] == changes.draft
        assert found["criticmarkup"] == changes.criticmarkup()
        assert patched(changes.draft, found["unified"]) == changes.text
        heads = [line for line in found["unified"].splitlines() if line.startswith("@@")]
        python = [line for line in changes.unified().splitlines() if line.startswith("@@")]
        # A change can move a line end, for which there is more than one shortest diff.
        if all("\n" not in each.before + each.after for each in changes):
            assert found["unified"] == changes.unified()
        assert bool(heads) == bool(python)


def patched(draft: str, diff: str) -> str:
    """Apply a unified diff strictly: every line of context must be where its head says."""
    old = draft.splitlines(keepends=True)
    new: list[str] = []
    at = 0
    lines = [line + "\n" for line in diff.split("\n")[:-1]]
    for n, line in enumerate(lines):
        is_open = n + 1 < len(lines) and lines[n + 1].startswith("\\ No newline")
        body = line[1:-1] if is_open else line[1:]
        if line.startswith("@@"):
            first, second = line.split()[1:3]
            number, _, count = first[1:].partition(",")
            start = int(number) - (count != "0")
            new += old[at:start]
            at = start
            target, _, size = second[1:].partition(",")
            assert int(target) - (size != "0") == len(new)
        elif line.startswith(("--- draft", "+++ draft", "\\")):
            continue
        elif line[0] in " -":
            assert old[at] == body
            at += 1
            new += [body] if line[0] == " " else []
        else:
            new.append(body)
    return "".join(new + old[at:])


ONE = {"before": "have", "after": "has", "start": 3, "state": "pending"}  # of "It have a end. ..."
TWO = {"before": "was", "after": "were", "start": 18, "state": "pending"}
TEXT = "It have a end. We was here."


@pytest.mark.parametrize(
    ("after", "caret", "kept"),
    [
        ("It have a end. We xwas here.", 19, [ONE]),  # in the sentence of the second
        ("It have an end. We was here.", 10, [TWO | {"start": 19}]),
        ("Ox. It have a end. We was here.", 4, [TWO | {"start": 22}]),
        ("Ox\nIt have a end. We was here.", 3, [TWO | {"start": 21}]),
        ("It have a end. We was here.\nNew 😀", 34, [ONE]),
        ("It hve a end. We was here.", 4, [TWO | {"start": 17}]),
        ("It  a end. We was here.", 3, [TWO | {"start": 14}]),
        ("", 0, []),
    ],
)
def test_suggestions_move_with_the_text_and_those_of_an_edited_sentence_go(
    after: str, caret: int, kept: list[Any]
) -> None:
    case = {"before": TEXT, "after": after, "caret": caret, "suggestions": [ONE, TWO]}
    [found] = run(edits=[case])["followed"]
    assert found["suggestions"] == kept


def test_the_edit_between_two_texts_is_found() -> None:
    rng, cases, edits = Random(2), [], []
    for _ in range(500):
        before = "".join(rng.choices("ab\n", k=rng.randint(0, 9)))
        start, end = sorted(rng.choices(range(len(before) + 1), k=2))
        put = "".join(rng.choices("ab\n", k=rng.randint(0, 3)))
        after = before[:start] + put + before[end:]
        cases.append(
            {"before": before, "after": after, "caret": start + len(put), "suggestions": []}
        )
        edits.append((start, end))
    for case, (start, end), found in zip(cases, edits, run(edits=cases)["followed"], strict=True):
        before, after, edit = case["before"], case["after"], found["edit"]
        put = after[edit["start"] : edit["start"] + edit["size"]]
        assert before[: edit["start"]] + put + before[edit["end"] :] == after
        assert edit["start"] >= start
        assert edit["end"] <= end


@pytest.mark.parametrize(
    ("state", "certainty", "wanted"),
    [
        ("pending", 0.8, ["they don't"]),
        ("pending", 0.3, ["doesn't"]),  # it would be hidden
        ("accepted", 0.8, ["doesn't"]),
    ],
)
def test_a_judged_suggestion_takes_the_place_of_a_sure_one_inside_of_it(
    state: str, certainty: float, wanted: list[str]
) -> None:
    sure = {"at": 5, "start": 5, "before": "doesnt", "after": "doesn't", "state": state}
    judged = {"at": 0, "before": "they doesnt", "after": "they don't", "state": "pending"}
    merge = {"all": [sure], "later": [judged | {"certainty": certainty}], "least": 0.5}
    assert [each["after"] for each in run(merges=[merge])["united"][0]] == wanted
