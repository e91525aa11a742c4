"""`reviser` commands in processes of their own, forked from a server that has imported torch.

A cold start of Python with torch, Transformers and the training code takes seconds of CPU; a fork
takes milliseconds. A command started here is a real process: it has its own id, session,
environment, working folder and output files, and a signal does to it what it does to a command from
a shell. The server is the one of `multiprocessing`; it imports `support.warm` once, runs a single
thread and never computes, so that a fork of it is safe.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver, reduction
from pathlib import Path
from signal import SIGKILL
from typing import Any
from unittest import mock

CONTEXT = multiprocessing.get_context("forkserver")
"""Also for tests that have workers of their own to start."""
CONTEXT.set_forkserver_preload(["support.warm"])


ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's allocator has a thread else
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # read at the import; the commands set it themselves
}


def start_server() -> None:
    """Start the fork server unless it runs; this process's import path becomes the server's."""
    path = os.pathsep.join(filter(None, sys.path))
    with mock.patch.dict(os.environ, ENVIRONMENT, PYTHONPATH=path):
        forkserver.ensure_running()


class _Output:
    """A file without a name that a command writes and this process reads."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _detach, (reduction.DupFd(self.descriptor),)  # the child gets a descriptor

    def read(self) -> str:
        size = os.fstat(self.descriptor).st_size
        return os.pread(self.descriptor, size, 0).decode()


def _detach(duplicate: Any) -> int:
    descriptor: int = duplicate.detach()
    return descriptor


class Command:
    """A `reviser` command, or a script, that runs or has run in a process of its own."""

    def __init__(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        start_server()
        self._outputs = [_Output(), _Output()]
        settings = {**os.environ, **(env or {})}
        words = [str(arg) for arg in args]
        self._process = CONTEXT.Process(
            target=_run, args=(words, settings, str(cwd or Path.cwd()), self._outputs)
        )
        self._process.start()

    @property
    def pid(self) -> int:
        """The id of the process, and of its process group."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def stdout(self) -> str:
        """What it has printed so far."""
        return self._outputs[0].read()

    @property
    def stderr(self) -> str:
        """What it has reported so far."""
        return self._outputs[1].read()

    @property
    def returncode(self) -> int | None:
        """The exit status, or minus the signal that ended it; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once there is one."""
        self._process.join(timeout)
        assert self.returncode is not None, f"still running after {timeout} seconds"
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process alone."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process alone with SIGKILL, and wait until it is gone."""
        self.send_signal(SIGKILL)
        self.wait()

    def kill_group(self) -> None:
        """End the process and all that it started with SIGKILL, and wait until it is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, SIGKILL)
        self.wait()


def run(
    *args: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Command:
    """Run a command to its end."""
    command = Command(*args, env=env, cwd=cwd)
    command.wait()
    return command


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start_ranks(count: int, *args: str | Path, machines: int = 1) -> list[Command]:
    """Start the ranks of one distributed run, as launchers on some machines do."""
    local = count // machines
    shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": local, "MASTER_PORT": free_port()}
    shared |= {"MASTER_ADDR": "127.0.0.1"}
    settings = [shared | {"RANK": rank, "LOCAL_RANK": rank % local} for rank in range(count)]
    return [
        Command(*args, env={name: str(value) for name, value in each.items()}) for each in settings
    ]


def run_ranks(count: int, *args: str | Path, machines: int = 1) -> list[Command]:
    """Run the ranks of one distributed run to their end; as soon as one fails, end the others."""
    ranks = start_ranks(count, *args, machines=machines)
    while any(rank.returncode is None for rank in ranks):
        if any(rank.returncode for rank in ranks):
            for rank in ranks:
                rank.kill_group()
        time.sleep(0.01)
    return ranks


def _run(
    args: Sequence[str], settings: Mapping[str, str], cwd: str, outputs: Sequence[int]
) -> None:
    """Become the command; runs in the forked process."""
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(settings)
    for standard, descriptor in enumerate(outputs, start=1):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    if args[0].endswith(".py"):
        sys.argv = list(args)
        sys.path.insert(0, str(Path(args[0]).parent))  # as Python does
        runpy.run_path(args[0], run_name="__main__")
        return
    sys.argv = ["reviser", *args]
    from reviser.cli import main

    main(list(args), prog_name="reviser")
