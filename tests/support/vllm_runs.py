"""vLLM servers for tests: how they are started, and what their requests gave."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from reviser.engines import vllm_process
from reviser.engines.base import Request
from reviser.engines.vllm_server import VLLMServer
from support.asking import records_of

ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the default pins every engine to core 0
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Small, quiet, and alone."""
SUPPORT = Path(__file__).parent
MASK_FOLDER = "REVISER_TESTED_MASK"
"""The variable that names the folder of a server's `vllm_mask`."""
POISONS = {77: "one history", 78: "one config"}
"""By `max_edits`: the mask fails on such a request when it enters, or when it is masked."""


class Server:
    """A server that was started with `vllm_mask`."""

    def __init__(self, engine: VLLMServer, folder: Path) -> None:
        self.engine = engine
        self._folder = folder

    @property
    def key(self) -> str:
        assert self.engine._process is not None
        return self.engine._process.key

    @property
    def seen(self) -> dict[str, Any]:
        """The kind of mask, and how many drafts it would allow or not."""
        found: dict[str, Any] = json.loads((self._folder / "seen.json").read_text())
        return found

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Break the mask."""
        (self._folder / "fault").write_text(name)
        try:
            yield
        finally:
            (self._folder / "fault").write_text("")

    def run(
        self, requests: Sequence[Request], *, cancel: float = 0.0, **extras: Any
    ) -> list[dict[str, Any]]:
        """Run requests with some more of vLLM's own settings; return what each gave."""
        body = VLLMServer._body
        with mock.patch.object(
            VLLMServer, "_body", lambda engine, request: body(engine, request) | extras
        ):
            return records_of(self.engine, requests, cancel)


def preemptions(url: str) -> int:
    """How many requests a server has put back so far."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    return int(
        sum(map(float, re.findall(r"^vllm:num_preemptions_total\S* (\S+)", text, re.MULTILINE)))
    )


def second_runner(triton: str) -> dict[str, str]:
    """Return the environment in which vLLM takes Triton's interpreter for a device.

    Then it chooses its second runner. `triton` is a folder with that package.
    """
    paths = [str(SUPPORT / "triton_site"), str(Path(triton).resolve())]
    paths += [os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "TRITON_INTERPRET": "1",
        "TRITON_BACKENDS_IN_TREE": "1",
    }


@contextmanager
def serving(
    folder: Path, work: Path, options: dict[str, Any], **environment: str
) -> Iterator[Server]:
    """Start a server as `--engine vllm` does, with the mask that can be broken."""
    (work / "fault").write_text("")
    paths = [str(SUPPORT.parent), environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))]
    ours = {**environment, "PYTHONPATH": os.pathsep.join(paths), MASK_FOLDER: str(work)}
    with (
        mock.patch.dict(os.environ, {**ENVIRONMENT, **ours}),
        mock.patch.object(vllm_process, "PROCESSOR", "support.vllm_mask:TestedMask"),
    ):
        engine, found = VLLMServer.load(folder, **options)
    assert found == folder
    try:
        yield Server(engine, work)
    finally:
        engine.close()
