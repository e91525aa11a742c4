"""Continuous integration: suggestions for reviewdog, the action that pipes them, and the hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from reviser.cli import main
from reviser.cli.formats import rdjson_of
from reviser.writing.changes import Change, Changes
from support import judging

ROOT = Path(__file__).parents[2]
PYTHONPATH = os.pathsep.join(filter(None, sys.path))


def command_of(folder: Path, name: str, command: str) -> None:
    """Put a command into a folder of the path."""
    (folder / name).write_text(f"#!/bin/sh\n{command}\n")
    (folder / name).chmod(0o755)


REVISER = f'exec {sys.executable} -m support.judging "$@"'
"""A `reviser` with two rules and a judge without weights."""


def change(start: int, before: str, after: str, confidence: float | None = None) -> Change:
    return Change(start=start, end=start + len(before), before=before, after=after, logprob=0.0,
                  actions=1, confidence=confidence)  # fmt: skip


def diagnostics(changes: Changes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rdjson_of([("a.md", changes)])["diagnostics"]
    return found


# -- suggestions ----------------------------------------------------------------------------------


def test_the_result_has_the_form_that_reviewdog_reads() -> None:
    # Valid by proto/rdf/jsonschema/DiagnosticResult.json of reviewdog at 08614ef, which also
    # allows unknown fields; so all of them are here.
    changes = Changes(draft="a\nteh teh\n", changes=(
        change(2, "teh", "the", 0.9), change(6, "teh", "the", 0.625),
    ))  # fmt: skip
    lines = {"start": {"line": 2}, "end": {"line": 2}}
    assert rdjson_of([("d/a.md", changes), ("b.md", Changes(draft="b"))]) == {
        "source": {"name": "reviser"},
        "severity": "INFO",
        "diagnostics": [{
            "message": '"teh" -> "the" (confidence 90%); "teh" -> "the" (confidence 62%)',
            "location": {"path": "d/a.md", "range": lines},
            "suggestions": [{"range": lines, "text": "the the"}],
        }],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("draft", "edits", "wanted"),
    [
        ("a teh b teh\nfine\nteh c\n", [("teh", "the")] * 3,
         [(1, 1, "a the b the"), (3, 3, "the c")]),
        ("1 \n2 teh\n3 teh\n4\n", [(" \n2", ""), ("teh\n3 teh", "x\ny\nz")], [(1, 3, "1 x\ny\nz")]),
        ("one\ntwo", [("one\n", "")], [(1, 2, "two")]),
        ("\ufeffteh\r\nb\r\n", [("teh", "the")], [(1, 1, "\ufeffthe")]),
    ],
)  # fmt: skip
def test_changes_that_share_lines_are_one_suggestion(
    draft: str, edits: list[tuple[str, str]], wanted: list[tuple[int, int, str]]
) -> None:
    made, end = [], 0
    for before, after in edits:
        made.append(change(draft.index(before, end), before, after))
        end = made[-1].end
    found = diagnostics(Changes(draft=draft, changes=tuple(made)))
    ranges = [each["location"]["range"] for each in found]
    texts = [each["suggestions"][0]["text"] for each in found]
    rows = zip(ranges, texts, strict=True)
    assert [(r["start"]["line"], r["end"]["line"], text) for r, text in rows] == wanted


@given(st.text("ab\n", max_size=20), st.data())
def test_applying_all_suggestions_gives_the_revised_text(draft: str, data: st.DataObject) -> None:
    edges = data.draw(st.sets(st.integers(0, len(draft)), max_size=8).map(sorted))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    made = [change(a, draft[a:b], data.draw(st.text("xy\n", max_size=3))) for a, b in pairs]
    changes = Changes(draft=draft, changes=tuple(made))
    lines = draft.split("\n")
    for each in reversed(diagnostics(changes)):
        [suggestion] = each["suggestions"]
        first, last = (suggestion["range"][edge]["line"] for edge in ("start", "end"))
        lines[first - 1 : last] = suggestion["text"].split("\n")
    assert "\n".join(lines) == changes.text


def test_the_command_prints_one_result_for_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.md").write_text("Old `teh` text.\n\nNew teh text.\n")
    Path("b.md").write_text("Fine.\n")
    words = ["proofread", "--format", "rdjson", "a.md", "b.md"]
    undo = judging.installed()
    for more, status in (([], 0), (["--check"], 1)):
        result = CliRunner().invoke(main, [*words, *more], catch_exceptions=False)
        assert result.exit_code == status
        [found] = json.loads(result.stdout)["diagnostics"]
        assert found["location"] == {
            "path": "a.md", "range": {"start": {"line": 3}, "end": {"line": 3}},
        }  # fmt: skip
    undo()


# -- the action -----------------------------------------------------------------------------------


def test_the_action_pipes_changed_files_into_reviewdog(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    import yaml

    [*_, step] = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    tools, work = tmp_path / "bin", tmp_path / "work"
    tools.mkdir()
    (work / "d").mkdir(parents=True)
    command_of(tools, "reviser", REVISER)
    names = ["page.md", "d/--lock=teh.md", "linked.md", "gone.md", "d/code.py", "main.c"]
    command_of(tools, "gh", f'echo "$2" > gh; printf "%s\\n" {" ".join(names)}')
    command_of(tools, "reviewdog", 'cat > posted; echo "$@" > words')
    for name in ("page.md", "d/--lock=teh.md", "d/code.py", "main.c", "other.md"):
        (work / name).write_text("# It is teh text.\n")
    (work / "linked.md").symlink_to("page.md")
    given = {"JUDGE": "any", "MIN_CONFIDENCE": "", "FILES": "*.md d/*.py"}
    own = {f"REVISER_{name}": value for name, value in given.items()}
    own |= {"REVISER_PULL_REQUEST": "12"}
    assert own.keys() == {name for name in step["env"] if name.startswith("REVISER_")}
    env = os.environ | own | {"GITHUB_ACTION_PATH": str(ROOT), "PYTHONPATH": PYTHONPATH}
    env["PATH"] = f"{tools}{os.pathsep}{env['PATH']}"

    def run() -> int:
        return subprocess.run(["bash", "-c", step["run"]], cwd=work, env=env).returncode

    assert run() == 0
    assert (work / "gh").read_text() == "repos/{owner}/{repo}/pulls/12/files\n"
    assert "-f=rdjson" in (work / "words").read_text().split()
    posted = json.loads((work / "posted").read_text())["diagnostics"]
    assert [each["location"]["path"] for each in posted] == [*names[:2], "d/code.py"]
    (work / "posted").unlink()
    command_of(tools, "gh", "echo main.c")
    assert run() == 0
    assert not (work / "posted").exists()  # nothing to revise
    command_of(tools, "gh", "exit 4")
    assert run() == 4
    command_of(tools, "gh", "echo page.md")
    command_of(tools, "reviser", "exit 3")
    assert run() == 3


def test_the_action_runs_no_code_of_the_checkout(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    import yaml

    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    for name in ("pip", "reviser"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "__main__.py").write_text("open('ran', 'w')")
    # There is nothing to install at this path, so pip ends at once.
    env = os.environ | {"GITHUB_ACTION_PATH": str(tmp_path / "none"), "REVISER_PULL_REQUEST": "1"}
    commands = [step["run"] for step in steps if "python" in step.get("run", "")]
    assert len(commands) == 1
    subprocess.run(["bash", "-c", commands[0]], cwd=tmp_path, env=env, capture_output=True)
    assert not (tmp_path / "ran").exists()


# -- the hooks ------------------------------------------------------------------------------------


def test_the_hooks_check_and_fix_files_in_a_commit(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    hooks, work = tmp_path / "hooks", tmp_path / "work"
    tools = tmp_path / "bin"
    tools.mkdir()
    command_of(tools, "reviser", REVISER)
    env = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": PYTHONPATH,
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip

    def git(folder: Path, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True,
                              text=True)  # fmt: skip
        return done.stdout.strip()

    def hook(name: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "pre_commit", "run", name, "--all-files"]
        return subprocess.run(words, cwd=work, env=env, capture_output=True, text=True)

    for folder in (hooks, work):
        folder.mkdir()
        git(folder, "init", "-q")
    (hooks / ".pre-commit-hooks.yaml").write_bytes((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    git(hooks, "add", "-A")
    git(hooks, "commit", "-qm", "hooks")
    entries = "".join(f"{{id: {name}}}, " for name in ("reviser", "reviser-fix"))
    (work / ".pre-commit-config.yaml").write_text(
        f"repos: [{{repo: {hooks}, rev: {git(hooks, 'rev-parse', 'HEAD')}, hooks: [{entries}]}}]\n"
    )
    (work / "page.md").write_text("It is teh `teh`.\n")
    (work / "fine.md").write_text("Fine.\n")
    (work / "--lock=teh.md").write_text("Teh teh.\n")  # a name, not an option
    (work / "main.py").write_text("# teh\n")
    git(work, "add", "-A")
    checked = hook("reviser")
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "+It is the `teh`." in checked.stdout
    assert "main.py" not in checked.stdout
    assert (work / "page.md").read_text() == "It is teh `teh`.\n"
    assert hook("reviser-fix").returncode == 1  # pre-commit reports changed files
    assert (work / "page.md").read_text() == "It is the `teh`.\n"
    assert (work / "--lock=teh.md").read_text() == "Teh the.\n"
    for name in ("reviser", "reviser-fix"):
        assert hook(name).returncode == 0
