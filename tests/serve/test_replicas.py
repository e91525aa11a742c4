"""Three servers behind the guide's nginx configuration, one of them killed under load.

The engine draws at random from the seed of a request, so each text has one right result, wherever
and next to whatever it is written.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

from reviser.errors import ReviserError
from reviser.serve.client import Client
from reviser.writing.tasks import Continue
from support.processes import free_port
from support.serving import eventually, reviser, serving

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "deploy.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
KEYS = tuple(f"key-{number}" for number in range(12))
SETTINGS: dict[str, Any] = {"max_actions": 40, "stop_bias": -1.0}  # never stops by itself

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx."),
]


def configuration(folder: Path, port: int, servers: list[int]) -> str:
    """Return the guide's configuration, on this machine and without TLS."""
    block = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    block = re.sub(r" *ssl_.*\n", "", block).replace("443 ssl", f"127.0.0.1:{port}")
    addresses = re.findall(r"10\.0\.0\.\d:8000", block)
    line = next(line for line in block.splitlines() if addresses[0] in line)
    ours = [line.replace(addresses[0], f"127.0.0.1:{each}") for each in servers]
    block = block.replace(line, "\n".join(ours))
    block = re.sub(rf" *server {re.escape(addresses[1])}.*\n", "", block)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"pid {folder}/pid; error_log {folder}/error.log; daemon off; worker_processes 1;\n"
        f"events {{}}\nhttp {{ access_log off;\n{temporary}{block} }}\n"
    )


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[tuple[str, list[Any]]]:
    """The address of nginx, and the three servers after it."""
    with ExitStack() as stack:
        settings: dict[str, Any] = {"keys": KEYS, "process": True, "seconds": 0.01}
        servers = [stack.enter_context(serving(**settings)) for _ in range(3)]
        port = free_port()
        file = tmp_path / "nginx.conf"
        file.write_text(configuration(tmp_path, port, [server.port for server in servers]))
        assert NGINX is not None
        proxy = subprocess.Popen([NGINX, "-p", str(tmp_path), "-c", str(file)])
        stack.callback(proxy.wait)
        stack.callback(proxy.terminate)
        with Client(f"http://127.0.0.1:{port}", api_key=KEYS[0]) as client:
            eventually(lambda: answers(client), 120)
        yield f"http://127.0.0.1:{port}", servers


def any_failed(users: list[Any]) -> bool:
    """Raise what a user of the servers raised."""
    for user in users:
        if user.done():
            user.result()
    return False


def answers(client: Client) -> bool:
    try:
        client.generate("a", max_actions=1)
    except ReviserError:
        return False
    return True


def test_a_killed_replica_loses_nothing_silently_and_mixes_nothing_up(replicas) -> None:
    url, servers = replicas
    rounds, kill_after = 10, 3
    local = reviser()
    jobs = [(key, number) for number in range(rounds) for key in range(len(KEYS))]
    expected = {job: local.generate(prompt(*job), seed=seed(*job), **SETTINGS) for job in jobs}
    outcomes: dict[tuple[int, int], Any] = {}

    def use(key: int) -> None:
        with Client(url, api_key=KEYS[key]) as client:
            for number in range(rounds):
                job = (key, number)
                try:
                    if number % 2:
                        rollout = client.generate(prompt(*job), seed=seed(*job), **SETTINGS)
                    else:
                        stream = client.stream(Continue(prompt(*job)), seed=seed(*job), **SETTINGS)
                        rollout = stream.rollout()
                        assert rollout.text == stream.text
                    outcomes[job] = rollout
                except ReviserError as error:
                    outcomes[job] = error

    with ThreadPoolExecutor(len(KEYS)) as pool:
        users = [pool.submit(use, key) for key in range(len(KEYS))]
        eventually(lambda: len(outcomes) >= kill_after * len(KEYS) or any_failed(users), 600)
        # Kill the busiest one, in the middle of what it writes.
        victim = max(servers, key=lambda server: server.metrics()["reviser_running"])
        eventually(lambda: victim.engine()["running"] > 0, 60)
        victim.process.kill()
        for user in users:
            user.result()
    failed = {job: error for job, error in outcomes.items() if isinstance(error, ReviserError)}
    assert outcomes.keys() == expected.keys()  # each has a text or an error
    reported = {str(error) for error in failed.values()}
    for job, rollout in outcomes.items():
        if job not in failed:
            assert rollout.trajectory == expected[job].trajectory
    # Only streams that had begun fail, at most one of each client.
    assert all(number % 2 == 0 for _, number in failed), reported
    assert len({key for key, _ in failed}) == len(failed), reported
    done = [server.engine()["added"] for server in servers if server is not victim]
    assert all(count > 0 for count in done)


def prompt(key: int, number: int) -> str:
    return f"{key}.{number} "


def seed(key: int, number: int) -> int:
    return 1000 * key + number
