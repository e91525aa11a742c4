"""Files are written whole or not at all, for the same readers, and read in bounded memory."""

from __future__ import annotations

import os
import stat
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser import files
from reviser.errors import CheckpointError, DataError
from reviser.files import bounded_lines, claim, read_object, write_whole
from support.full_disk import full_disk


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = tmp_path / "private.txt"
    path.write_text("secret", encoding="utf-8")
    path.chmod(0o640)
    return path


def test_a_file_keeps_its_mode_from_the_first_byte(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []  # mode and size of every file that is opened for writing
    open_file, sync = os.open, files.sync

    def opened(path: Any, flags: int, **more: Any) -> int:
        descriptor = open_file(path, flags, **more)
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            seen.append((stat.S_IMODE(found.st_mode), found.st_size))
        return descriptor

    def synced(file: Any) -> None:
        sync(file)
        found = os.fstat(file.fileno())
        seen.append((stat.S_IMODE(found.st_mode), found.st_size))

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(files, "sync", synced)
    write_whole(private, "more secrets")
    assert seen == [(0o600, 0), (0o640, 12)]
    assert (private.read_text("utf-8"), mode(private)) == ("more secrets", 0o640)


def test_a_new_file_has_the_mode_that_the_user_has_set(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new" / "file", b"x")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new" / "file") == 0o640


@pytest.mark.skipif(os.getuid() != 0, reason="Only root can give a file away.")
def test_a_file_keeps_its_owner_and_group(private: Path) -> None:
    private.chmod(0o600)
    os.chown(private, 4321, 1234)
    write_whole(private, "x")
    found = private.stat()
    assert (found.st_uid, found.st_gid, mode(private)) == (4321, 1234, 0o600)


@pytest.mark.skipif(os.getuid() != 0, reason="Only root can give a file away.")
def test_a_file_whose_owner_cannot_be_kept_is_not_written(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    os.chown(private, 4321, 1234)
    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(DataError, match="its owner and group could not be kept"):
        write_whole(private, "x")
    assert private.read_text("utf-8") == "secret"
    assert [*private.parent.iterdir()] == [private]


@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk_costs_nothing_and_leaves_nothing(private: Path, exists: bool) -> None:
    if not exists:
        private.unlink()
    before = [*private.parent.iterdir()]
    with full_disk(4096), pytest.raises(DataError, match="Cannot write") as caught:
        write_whole(private, "x" * 100_000)
    assert "\n" not in str(caught.value)
    assert [*private.parent.iterdir()] == before
    if exists:
        assert (private.read_text("utf-8"), mode(private)) == ("secret", 0o640)


def test_an_interrupted_write_leaves_nothing(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "sync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(private, "x")
    assert [*private.parent.iterdir()] == [private]
    assert private.read_text("utf-8") == "secret"


def test_content_is_on_the_disk_before_its_name_is(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        done.append("sync folder" if is_folder else "sync file")
        fsync(descriptor)

    def replaced(path: Path, other: Path) -> Path:
        done.append("rename")
        return replace(path, other)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_whole(private, "x")
    assert done == ["sync file", "rename", "sync folder"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "is not JSON"),
        (b"", "is not JSON"),
        (b"[1]", "must hold a JSON object"),
        (b"\xff\xfe", "is not UTF-8"),
        (b'{"a": ' + b"[" * 200_000, "is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"a": "' + b"x" * 2000 + b'"}', "has more than 1,000 bytes"),
    ],
)
def test_what_is_not_an_object_gets_one_sentence(
    content: bytes, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(content)
    limit = 1000 if "1,000" in sentence else 1 << 20
    with pytest.raises(CheckpointError, match=sentence) as caught:
        read_object(path, CheckpointError, limit=limit)
    assert "\n" not in str(caught.value)
    if limit > 1000:
        with pytest.raises(DataError, match=sentence):
            claim(path, {"a": 1})


@given(st.lists(st.text("ab\r ", max_size=9).map(str.encode), max_size=8), st.booleans())
def test_lines_are_those_of_the_file_but_for_the_long_ones(lines: list[bytes], ends: bool) -> None:
    data = b"\n".join(lines) + b"\n" * ends
    expected = [line.removesuffix(b"\n").removesuffix(b"\r") for line in BytesIO(data)]
    found = list(bounded_lines(BytesIO(data), 4))
    assert found == [line if len(line) <= 4 else None for line in expected]


def test_a_long_line_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n" + b"x" * 60_000_000 + b"\nb")
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            found = list(bounded_lines(file, 1 << 20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [b"a", None, b"b"]
    assert peak < 8_000_000
