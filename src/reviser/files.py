"""Files: written whole or not at all, locked, claimed for a job, or read as JSON lines."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from reviser.errors import ConfigError, DataError, ReviserError

try:
    import fcntl
except ModuleNotFoundError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

_DRAIN = 1 << 20
"""Bytes of a line that are read at a time to pass over it."""
_WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def write_whole(path: Path, content: str | bytes, *, expected: bytes | None = None) -> None:
    """Write a file under a temporary name, and rename it once it is complete and on the disk.

    A file that exists keeps its mode and its owner. If anything fails, it keeps its content too,
    and the temporary file is removed. With `expected`, it must still have this content: among
    several processes that read a file and then write it, only the first one writes. A link stays,
    and the file that it leads to is written.
    """
    data = content.encode() if isinstance(content, str) else content
    refuse_special(path)
    _refuse_protected(path)
    try:
        # `realpath` and not `resolve`, which raises if links go round in a circle.
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with nullcontext() if expected is None else _unchanged(target, expected):
            _replace(target, data)
        sync_folder(target.parent)
    except OSError as error:
        raise DataError(f"Cannot write {str(path)!r}: {error.strerror}.") from error


def refuse_special(path: Path) -> None:
    """Refuse to write to a folder, a device or the like, which a rename would replace."""
    mode = _mode(path)
    if mode and not stat.S_ISREG(mode):
        raise DataError(
            f"Cannot write {str(path)!r}: it is {_kind_of(mode)}. Give the name of a file."
        )


def _refuse_protected(path: Path) -> None:
    """Refuse to replace a file that nobody may write: a rename needs no right to the file."""
    mode = _mode(path)
    if mode and not mode & _WRITE_BITS:
        raise DataError(
            f"Cannot write {str(path)!r}: it is write-protected (mode"
            f" {stat.S_IMODE(mode):04o}). Make it writable first, with chmod u+w."
        )


def _mode(path: Path) -> int:
    """Return the mode of a file, or 0 if there is none yet."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise DataError(f"Cannot write {str(path)!r}: {error.strerror}.") from error


def _kind_of(mode: int) -> str:
    """Return what a file that is not a regular one is, by its mode."""
    return _KINDS.get(stat.S_IFMT(mode), "not a regular file")


@contextmanager
def _unchanged(path: Path, expected: bytes) -> Iterator[None]:
    """Hold the lock of a file that still has the expected content, or refuse to overwrite it."""
    with suppress(FileNotFoundError), path.open("r+b") as file:
        if fcntl is not None:
            with suppress(OSError):  # file systems without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        # A process that had the lock before has put another file at this path.
        if os.path.samestat(os.fstat(file.fileno()), path.stat()) and file.read() == expected:
            yield
            return
    raise DataError(
        f"{str(path)!r} has changed since it was read, so it was not overwritten. Run the command"
        " again."
    )


def _replace(path: Path, data: bytes) -> None:
    """Write a temporary file and rename it, or remove it if anything fails."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    exists = path.exists()
    temporary.unlink(missing_ok=True)  # of a process with this number that was killed
    try:
        # Nobody else may read the first byte of what replaces a private file.
        mode = 0o600 if exists else 0o666
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            if exists:
                _copy_access(path, temporary)
            file.write(data)
            sync(file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _copy_access(path: Path, temporary: Path) -> None:
    """Give a file the owner, mode and access lists of another, or raise PermissionError."""
    old, new = path.stat(), temporary.stat()
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.chown(temporary, old.st_uid, old.st_gid)
        except PermissionError as error:
            reason = "its owner and group could not be kept; write it as that user"
            raise PermissionError(error.errno, reason) from error
    shutil.copystat(path, temporary)  # after the owner: changing that clears bits of the mode


def sync(file: IO[bytes]) -> None:
    """Wait until a file is on the disk, so that a power cut after a rename cannot empty it."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: renames, new files and deletions."""
    if os.name == "posix":  # Windows opens no folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object as JSON, one field per line."""
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def lock(path: Path, refusal: str = "") -> Iterator[None]:
    """Hold a lock file, which is freed if the process dies.

    If another process holds it, wait, or raise ConfigError with the refusal if there is one.
    """
    try:
        with FileLock(path, timeout=0 if refusal else -1, thread_local=False):
            yield
    except Timeout as error:
        raise ConfigError(refusal) from error


def claim(
    path: Path,
    manifest: Mapping[str, Any],
    *,
    ignored: Collection[str] = (),
    update: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
) -> None:
    """Write the manifest of a job into its output, or refuse an output that another job began.

    The manifest of the first run, which `update` may bring up to date, must be equal in all fields
    but the ignored ones. The fields of an object inside are compared one by one: `training.steps`.
    """
    wanted = json.loads(json.dumps(manifest))
    if not path.is_file():
        write_json(path, wanted)
        return
    begun = json.loads(json.dumps(update(read_object(path))))
    refuse_other_job(str(path.parent), begun, wanted, ignored=ignored)


def refuse_other_job(
    folder: str,
    begun: dict[str, Any],
    wanted: dict[str, Any],
    *,
    ignored: Collection[str] = (),
) -> None:
    """Refuse to continue a folder whose manifest differs in a field that is not ignored."""
    differing = [name for name in _differing(begun, wanted) if name not in ignored]
    if differing:
        raise ConfigError(
            f"{folder!r} was begun with another {', '.join(sorted(differing))}. Continue"
            " with the same, choose another output, or delete that folder to start again."
        )


def _differing(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    for name in one.keys() | other.keys():
        a, b = one.get(name), other.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            yield from (f"{name}.{key}" for key in a.keys() | b.keys() if a.get(key) != b.get(key))
        elif a != b:
            yield name


def read_text(
    path: Path, error_class: type[ReviserError] = DataError, *, limit: int = 1 << 26
) -> str:
    """Return the text in a file of at most `limit` bytes, or raise the given error.

    Pipes and devices are refused: they can keep a reader waiting, and have no end.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer. Windows has no such flag.
        flags = getattr(os, "O_NONBLOCK", 0)
        with open(path, "rb", opener=lambda name, own: os.open(name, own | flags)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise error_class(f"Cannot read {str(path)!r}: it is {_kind_of(mode)}, not a file.")
            data = file.read(limit + 1)
        if len(data) > limit:
            raise error_class(f"{str(path)!r} has more than {limit:,} bytes: too many to be read.")
        return data.decode()
    except OSError as error:
        raise error_class(f"Cannot read {str(path)!r}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise error_class(f"{str(path)!r} is not UTF-8: {error.reason}.") from error


def read_object(
    path: Path, error_class: type[ReviserError] = DataError, *, limit: int = 1 << 26
) -> dict[str, Any]:
    """Return the JSON object in a file of at most `limit` bytes, or raise the given error."""
    text = read_text(path, error_class, limit=limit)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise error_class(f"{str(path)!r} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise error_class(f"{str(path)!r} must hold a JSON object.")
    return content


def bounded_lines(file: IO[bytes], limit: int) -> Iterator[bytes | None]:
    """Yield lines without their ends; None for each that is longer than `limit` bytes.

    A line that is too long is passed over without being held in memory.
    """
    while line := file.readline(limit + 2):
        is_whole = len(line) < limit + 2 or line.endswith(b"\n")
        rest = b"" if is_whole else file.readline(_DRAIN)
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_DRAIN)
        body = line.removesuffix(b"\n").removesuffix(b"\r")
        yield body if is_whole and len(body) <= limit else None


def read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines, each with a name for its line."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeError) as error:
        raise DataError(
            f"Cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}."
        ) from error
    for n, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"Line {n} of {str(path)!r}"
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place} is not JSON: {error}.") from error
        if not isinstance(fields, dict):
            raise DataError(f"{place} must be a JSON object.")
        yield place, fields | {"line": fields.get("line", n)}
