"""Files are written whole or not at all, for the same readers, and read in bounded memory."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser import files
from reviser.errors import CheckpointError, DataError
from reviser.files import bounded_lines, claim, read_object, read_text, write_whole
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


def make_special(path: Path, kind: str) -> None:
    """Make a pipe, a socket, a device or a folder. The device is our own, not one of /dev."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    elif kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # as /dev/zero
        except PermissionError:
            pytest.skip("Only root can make a device.")
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("is_linked", [False, True])
def test_only_files_are_replaced_and_read(kind: str, is_linked: bool, tmp_path: Path) -> None:
    path = special = tmp_path / "a"
    make_special(special, kind)
    if is_linked:
        path = tmp_path / "link"
        path.symlink_to(special)
    before = special.lstat()
    for expected in (None, b""):
        with pytest.raises(DataError, match=f"it is a {kind}. Give the name of a file"):
            write_whole(path, "x", expected=expected)
    assert os.path.samestat(special.lstat(), before)
    assert {*tmp_path.iterdir()} == {special, path}
    reason = {"socket": "No such device", "folder": "Is a directory"}.get(kind, f"it is a {kind}")
    with pytest.raises(CheckpointError, match=reason):
        read_text(path, CheckpointError)


def test_a_link_stays_and_the_file_that_it_leads_to_is_written(private: Path) -> None:
    link, new, circle = (private.with_name(name) for name in ("link", "new", "circle"))
    link.symlink_to(private.name)
    write_whole(link, "one", expected=b"secret")
    assert (link.is_symlink(), private.read_text("utf-8"), mode(private)) == (True, "one", 0o640)
    new.symlink_to("later/file")
    write_whole(new, "two")
    assert (new.is_symlink(), (private.parent / "later" / "file").read_text("utf-8")) == (
        True,
        "two",
    )
    circle.symlink_to(circle)
    with pytest.raises(DataError, match="Cannot write"):
        write_whole(circle, "three")
    assert circle.is_symlink()


def test_a_write_protected_file_is_not_replaced(private: Path) -> None:
    private.chmod(0o440)
    with pytest.raises(DataError, match=r"write-protected \(mode 0440\). Make it writable first"):
        write_whole(private, "x")
    assert (private.read_text("utf-8"), mode(private)) == ("secret", 0o440)
    assert [*private.parent.iterdir()] == [private]


@pytest.mark.parametrize("change", ["content", "deleted"])
def test_a_file_that_changed_since_it_was_read_is_not_overwritten(
    private: Path, change: str
) -> None:
    if change == "content":
        private.write_text("Secret", encoding="utf-8")
    else:
        private.unlink()
    before = [(path, path.read_text("utf-8")) for path in private.parent.iterdir()]
    with pytest.raises(DataError, match="has changed since it was read") as caught:
        write_whole(private, "x", expected=b"secret")
    assert "\n" not in str(caught.value)
    assert [(path, path.read_text("utf-8")) for path in private.parent.iterdir()] == before


WRITER = """
import sys, time
from pathlib import Path
from reviser.errors import DataError
from reviser.files import write_whole

path, go, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
for n in range(25):
    content = path.read_bytes()
    line = f"{name}-{n}"
    try:
        write_whole(path, content + f"{line}\\n".encode(), expected=content)
    except DataError as error:
        assert "has changed since it was read" in str(error), error
    else:
        print(line)
"""


def test_of_several_writers_none_overwrites_what_it_has_not_read(tmp_path: Path) -> None:
    """Each of four processes adds lines; those that were reported as written are all there."""
    path, go = tmp_path / "file", tmp_path / "go"
    path.write_bytes(b"")
    command = [sys.executable, "-c", WRITER, str(path), str(go)]
    writers = [
        subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True) for n in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    go.touch()
    written = [line for writer in writers for line in writer.communicate(timeout=60)[0].split()]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert sorted(path.read_text("utf-8").split()) == sorted(written)
    assert {*tmp_path.iterdir()} == {path, go}


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
