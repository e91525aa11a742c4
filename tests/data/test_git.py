"""Pairs from real repositories: what people changed, and nothing that teaches nothing."""

import os
import subprocess
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from reviser.data.git import from_git
from reviser.data.pairs import Pair
from reviser.data.readers import Tally
from reviser.errors import ConfigError, DataError

ONE = "The first paragraph has some words\nin two lines.\n"
TWO = "The second paragraph has other words, which nobody changes.\n"
CODE = "\n".join(f"value_{n} = {n}" for n in range(40)) + "\n"


class Repo:
    """A repository that a test writes into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str) -> str:
        who = {f"GIT_{role}_{field}": "someone@example.org" for role in ("AUTHOR", "COMMITTER")
               for field in ("NAME", "EMAIL")}  # fmt: skip
        run = subprocess.run(
            ["git", "-C", str(self.folder), "-c", "commit.gpgsign=false", *args],
            env=os.environ | who, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return run.stdout.strip()

    def commit(self, message: str = "a change", **files: str | bytes) -> str:
        """Commit files, a name's __ standing for a point."""
        for name, content in files.items():
            path = self.folder / name.replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def pairs(self, **settings: object) -> tuple[list[Pair], Counter[str]]:
        tally = Tally()
        return list(from_git(self.folder, tally=tally, **settings)), tally.skipped  # type: ignore[arg-type]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


def texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.before, pair.after) for pair in pairs]


def test_a_changed_paragraph_is_a_pair_with_its_place(repo: Repo) -> None:
    repo.commit(a__md=f"# Title\n\n{ONE}\n{TWO}")
    new = ONE.replace("some", "a few")
    commit = repo.commit("Say it better\n\nBecause.", a__md=f"# Title\n\n{new}\n{TWO}")
    pairs, skipped = repo.pairs(subjects=True)
    assert pairs == [
        Pair(before=ONE.strip(), after=new.strip(), instruction="Say it better",
             more={"source": "a.md", "commit": commit})
    ]  # fmt: skip
    assert not skipped
    assert [pair.instruction for pair in repo.pairs()[0]] == [""]


def test_a_hunk_of_code_comes_with_three_lines_around_it(repo: Repo) -> None:
    repo.commit(a__py=CODE)
    new = CODE.replace("value_5 = 5", "value_5 = 50").replace("value_30 = 30", "value_30 = 0")
    repo.commit(a__py=new)
    (first, second), _ = repo.pairs()
    assert first.before.split("\n") == CODE.split("\n")[2:9]
    assert first.after.split("\n") == new.split("\n")[2:9]
    assert second.after.split("\n") == new.split("\n")[27:34]


def test_paragraphs_that_came_or_went_are_left_out_and_the_others_still_found(repo: Repo) -> None:
    repo.commit(a__md=f"{ONE}\n{TWO}")
    repo.commit(a__md=f"Entirely different stuff here.\n\n{ONE.replace('some', 'few')}\n{TWO}")
    repo.commit(a__md=f"{ONE.replace('some', 'few')}\n{TWO}")
    pairs, skipped = repo.pairs()
    assert texts(pairs) == [(ONE.strip(), ONE.replace("some", "few").strip())]
    assert skipped == {"added or removed": 2}


def test_a_renamed_file_is_followed(repo: Repo) -> None:
    repo.commit(a__md=f"{ONE}\n{TWO * 5}")
    (repo.folder / "a.md").unlink()
    repo.commit(b__md=f"{ONE.replace('some', 'few')}\n{TWO * 5}")
    pairs, _ = repo.pairs()
    assert texts(pairs) == [(ONE.strip(), ONE.replace("some", "few").strip())]
    assert pairs[0].more["source"] == "b.md"


def test_merges_are_passed_over_and_both_sides_read_once(repo: Repo) -> None:
    repo.commit(a__md=ONE, b__md=TWO)
    repo.git("checkout", "-q", "-b", "side")
    repo.commit(a__md=ONE.replace("some", "few"))
    repo.git("checkout", "-q", "main")
    repo.commit(b__md=TWO.replace("other", "more"))
    repo.git("merge", "-q", "--no-ff", "--no-edit", "side")
    pairs, skipped = repo.pairs()
    assert {pair.more["source"] for pair in pairs} == {"a.md", "b.md"}
    assert len(pairs) == 2
    assert not skipped


def test_reverts_and_repetitions_are_left_out(repo: Repo) -> None:
    new = ONE.replace("some", "few")
    repo.commit(a__md=ONE, b__md=f"{TWO}\n{ONE}")
    repo.commit(a__md=new)
    repo.commit(a__md=ONE)
    repo.commit(b__md=f"{TWO}\n{new}")
    pairs, skipped = repo.pairs()
    assert texts(pairs) == [(ONE.strip(), new.strip())]
    assert skipped == {"revert": 1, "duplicate": 1}


LONG = "word " * 1000


@pytest.mark.parametrize(
    ("name", "before", "after", "reason"),
    [
        ("a.md", b"\0 one two three", b"\0 one two four", "binary"),
        ("a.md", "One two\nthree.", "One\ntwo three.", "only white space"),
        ("a.md", "One two\r\nthree.\r\n", "One two\nthree.\n", None),
        ("a.md", "One two three four.", "Wholly other words here", "too different"),
        ("a.md", LONG + "end", LONG + "stop", "too long"),
        ("a.py", "# Generated by a tool\nx = 1", "# Generated by a tool\nx = 2", "generated"),
        ("vendor/a.py", "x = 1", "x = 2", "generated"),
        ("a.txt", LONG * 300 + "end", LONG * 300 + "stop", "file too long"),
        ("a.md", "\n", "One two", "added or removed"),
        ("a.png", "One two three", "One two four", None),
    ],
)
def test_what_teaches_nothing_is_left_out(
    repo: Repo, name: str, before: str | bytes, after: str | bytes, reason: str | None
) -> None:
    repo.commit(**{name: before})
    repo.commit(**{name: after})
    pairs, skipped = repo.pairs()
    assert pairs == []
    assert skipped == ({} if reason is None else {reason: 1})


def test_names_may_have_any_letters_and_spaces(repo: Repo) -> None:
    names = ["übung \U0001f600.md", 'with "quotes".md', "-o.md", ":odd.md", "line\nend.md"]
    for edit in ("some", "few"):
        files = {name: f"{n} {ONE.replace('some', edit)}" for n, name in enumerate(names)}
        repo.commit(**files)
    pairs, _ = repo.pairs()
    assert {pair.more["source"] for pair in pairs} == set(names)


def test_the_user_s_settings_change_nothing(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(a__md=f"{ONE}\n{TWO}")
    repo.commit(a__md=f"{ONE.replace('some', 'few')}\n{TWO}")
    expected = repo.pairs()
    for name, value in {
        "color.ui": "always", "core.pager": "false", "diff.external": "false",
        "diff.noprefix": "true", "diff.renames": "false", "core.quotePath": "true",
        "log.showSignature": "true", "diff.algorithm": "patience", "core.abbrev": "4",
        "diff.orderFile": "none", "format.pretty": "oneline",
    }.items():  # fmt: skip
        repo.git("config", name, value)
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_EXTERNAL_DIFF", "GIT_PAGER"):
        monkeypatch.setenv(variable, "/nowhere")
    assert repo.pairs() == expected
    assert len(expected[0]) == 1


def test_no_command_that_a_repository_names_is_run(repo: Repo, tmp_path: Path) -> None:
    repo.commit(a__md=ONE)
    repo.commit(a__md=ONE.replace("some", "few"))
    repo.commit(a__md=ONE.replace("some", "many"))
    program, was_run = tmp_path / "program", tmp_path / "was-run"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{was_run}"\n', encoding="utf-8")
    program.chmod(0o755)
    (repo.folder / ".git/info/attributes").write_text("* diff=own filter=own\n", encoding="utf-8")
    missing = repo.git("rev-parse", "HEAD~2:a.md")  # which a partial clone would fetch
    lost = repo.folder / ".git/objects" / missing[:2] / missing[2:]
    content = lost.read_bytes()
    lost.unlink()
    for name, value in {
        "protocol.ext.allow": "always", "remote.origin.url": f"ext::{program} %S",
        "remote.origin.promisor": "true", "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1", "diff.own.binary": "true", "log.showSignature": "true",
        "core.hooksPath": str(tmp_path),
    }.items():  # fmt: skip
        repo.git("config", name, value)
    for name in (
        "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass",
        "core.alternateRefsCommand", "core.gitProxy", "diff.external", "diff.own.command",
        "diff.own.textconv", "filter.own.smudge", "filter.own.clean", "filter.own.process",
        "gpg.program", "credential.helper",
    ):  # fmt: skip
        repo.git("config", name, str(program))
    with pytest.raises(DataError, match=r"git could not read all .* without --filter"):
        repo.pairs(subjects=True)
    assert not was_run.exists(), was_run.read_text()
    lost.write_bytes(content)
    assert len(repo.pairs(subjects=True)[0]) == 2
    assert not was_run.exists(), was_run.read_text()


def test_a_huge_file_costs_no_memory_and_not_the_next(repo: Repo) -> None:
    huge = b"word " * 6_000_000
    repo.commit(a__md=huge, b__md=ONE)
    repo.commit(a__md=huge + b"more", b__md=ONE.replace("some", "few"))
    tracemalloc.start()
    try:
        pairs, skipped = repo.pairs()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(pairs), skipped) == (1, {"file too long": 1})
    assert peak < 8 * 2**20  # of 30 MB, twice


def test_repositories_with_little_in_them_do_not_fail(repo: Repo, tmp_path: Path) -> None:
    assert repo.pairs() == ([], {})
    repo.commit(a__md=ONE)
    assert repo.pairs() == ([], {})
    repo.commit("nothing in it")
    repo.commit(a__md=ONE.replace("some", "few"))
    repo.commit(a__md=ONE.replace("some", "many"))
    full, _ = repo.pairs()
    for name, options in {"shallow": ["--depth", "2"], "bare": ["--bare"]}.items():
        url = f"file://{repo.folder}"
        subprocess.run(["git", "clone", "-q", *options, url, str(tmp_path / name)], check=True)
        found = list(from_git(tmp_path / name))
        assert found == (full if name == "bare" else full[1:])


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda _: None])
def test_a_path_that_is_no_repository_is_refused(repo: Repo, make: Callable[[Path], None]) -> None:
    inside = repo.folder / "inside"  # a folder of a repository is none, either
    make(inside)
    with pytest.raises(DataError, match=r"inside' is not a git repository .* Give the folder that"):
        from_git(inside)


def test_a_suffix_without_a_dot_is_refused(repo: Repo) -> None:
    with pytest.raises(ConfigError, match="'md'; a suffix starts with a dot"):
        from_git(repo.folder, suffixes=["md"])
