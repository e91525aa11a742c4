"""Servers behind the nginx of deploy/nginx/reviser.conf: attacks, TLS, streams, a killed replica.

The engine draws at random from the seed of a request, so each text has one right result, wherever
and next to whatever it is written.
"""

from __future__ import annotations

import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="The extra serve is not installed.")

import httpx2

from reviser.errors import ReviserError
from reviser.serve.client import Client
from reviser.writing.tasks import Continue
from support import attacks
from support.attacks import CONNECTIONS, Target
from support.processes import free_port
from support.serving import eventually, reviser, serving

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "reviser.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
KEYS = tuple(f"key-{number}" for number in range(12))
SETTINGS: dict[str, Any] = {"max_actions": 40, "stop_bias": -1.0}  # never stops by itself

pytestmark = [
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed."),
]


@dataclass
class Proxy:
    """A running nginx and the servers behind it."""

    url: str
    secure_url: str
    servers: list[Any]
    worker: int
    """The process of nginx that has the connections."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def configuration(folder: Path, plain: int, secure: int, ports: list[int]) -> str:
    """Return the file of deploy/ on this machine, which also listens without TLS."""
    text = CONFIGURATION.read_text()
    listen = f"listen 127.0.0.1:{secure} ssl; listen 127.0.0.1:{plain};"
    text = text.replace("listen 443 ssl;", listen).replace("/etc/nginx/reviser", f"{folder}/cert")
    text = re.sub(r" *server 10\.0\.0\.2.*\n", "", text)
    line = re.findall(r" *server 10\.0\.0\.1.*\n", text)[0]
    ours = (line.replace("10.0.0.1:8000", f"127.0.0.1:{port}") for port in ports)
    text = text.replace(line, "".join(ours))
    assert "10.0.0" not in text
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"pid {folder}/pid; error_log {folder}/error.log; daemon off; worker_processes 1;\n"
        f"worker_rlimit_nofile 16384; events {{ worker_connections 16384; }}\n"
        f"http {{ access_log off;\n{temporary}{text} }}\n"
    )


@contextmanager
def proxied(folder: Path, *servers: Any) -> Iterator[Proxy]:
    """Run nginx in front of servers."""
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    make += ["-keyout", f"{folder}/cert.key", "-out", f"{folder}/cert.pem"]
    subprocess.run(make, check=True, capture_output=True)
    plain, secure = free_port(), free_port()
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, plain, secure, [each.port for each in servers]))
    assert NGINX is not None
    process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(file)])
    try:
        url = f"http://127.0.0.1:{plain}"
        with Client(url, api_key=KEYS[0]) as client:
            eventually(lambda: answers(client), 120)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield Proxy(url, f"https://127.0.0.1:{secure}", [*servers], int(children.split()[0]))
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One server behind nginx."""
    folder = tmp_path_factory.mktemp("nginx")
    with serving(keys=KEYS, process=True, seconds=0.002) as server, proxied(folder, server) as it:
        yield it


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Proxy]:
    """Three servers behind nginx."""
    with ExitStack() as stack:
        settings: dict[str, Any] = {"keys": KEYS, "process": True, "seconds": 0.01}
        servers = [stack.enter_context(serving(**settings)) for _ in range(3)]
        yield stack.enter_context(proxied(tmp_path, *servers))


KEY = {"Authorization": f"Bearer {KEYS[1]}"}


def memory(process: int) -> float:
    """Return the largest resident memory that a process has had, in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1000


def health_seconds(server: Any) -> float:
    """Return the time that /health takes at the server itself, over a new connection."""
    began = time.monotonic()
    assert httpx2.get(f"{server.url}/health", timeout=10).status_code == 200
    return time.monotonic() - began


def test_tls_and_events_that_are_not_held_back(proxy: Proxy) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    body = {"prompt": "The", "max_actions": 400, "stop_bias": -1, "stream": True}
    with httpx2.Client(base_url=proxy.secure_url, verify=context, timeout=60) as http:
        assert http.get("/openapi.json").status_code == 200
        assert http.get("/").status_code == 200
        assert http.get("/metrics").status_code == 404
        began, times = time.monotonic(), []
        with http.stream("POST", "/v1/generate", json=body, headers=KEY) as response:
            for _ in response.iter_bytes():
                times.append(time.monotonic() - began)
        assert len(times) > 50
        assert times[0] < times[-1] / 4


def test_a_client_that_leaves_the_proxy_frees_the_engine(proxy: Proxy) -> None:
    (server,) = proxy.servers
    attacks.long_jobs(Target(proxy.port, KEYS[1]))
    eventually(lambda: server.engine()["running"] == 0, 10)


def test_requests_beyond_the_rate_are_refused(proxy: Proxy) -> None:
    with httpx2.Client(base_url=proxy.url, timeout=60) as http, ThreadPoolExecutor(16) as pool:

        def ask(key: str) -> int:
            headers = {"Authorization": f"Bearer {key}"}
            return http.post("/v1/generate", json={"max_actions": 1}, headers=headers).status_code

        found = list(pool.map(ask, [KEYS[2]] * 120))
        assert {200, 429} == {*found}
        assert ask(KEYS[3]) == 200  # another key has its own rate


@pytest.mark.parametrize("name", CONNECTIONS)
def test_what_is_sent_without_end_reaches_no_server(proxy: Proxy, name: str) -> None:
    (server,) = proxy.servers
    before, requests = memory(proxy.worker), server.log.read_text().count("/v1/generate")
    CONNECTIONS[name](Target(proxy.port, KEYS[4]))  # nginx reads what it refuses, and drops it
    assert memory(proxy.worker) - before < 10
    assert server.log.read_text().count("/v1/generate") == requests
    assert health_seconds(server) < 2


@pytest.mark.parametrize("length", [b"0" * 5000, b"9" * 5000, b"-1", b"0x9"])
def test_an_odd_content_length_is_refused(proxy: Proxy, length: bytes) -> None:
    for port in (proxy.port, proxy.servers[0].port):
        with Target(port).connect() as connection:
            head = Target(0, KEYS[5]).head("POST /v1/generate")
            connection.sendall(head + b"content-length: " + length + b"\r\n\r\n")
            assert 400 <= int(connection.recv(1000).split()[1]) < 500


def test_health_answers_while_thousands_of_connections_are_idle(proxy: Proxy) -> None:
    (server,) = proxy.servers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 6000:
        pytest.skip("This machine allows too few open files.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 20_000)), hard))
    idle = []
    try:
        for number in range(4300):
            idle.append(socket.create_connection(("127.0.0.1", proxy.port)))
            if number % 2:
                idle[-1].sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
        assert max(health_seconds(server) for _ in range(5)) < 1
        with Client(proxy.url, api_key=KEYS[6]) as client:
            assert client.generate("The", max_actions=3).text
        idle[0].settimeout(30)
        assert idle[0].recv(100) == b""  # nginx closes them after client_header_timeout
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("errors", ["a pipe that nobody reads", "a full disk"])
def test_a_log_that_cannot_be_written_holds_up_nothing(tmp_path: Path, errors: str) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(process=True, keys=KEYS, stderr=errors))
        proxy = stack.enter_context(proxied(tmp_path, server))
        request = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
        with Target(server.port).connect() as connection:  # more lines than a pipe holds
            for _ in range(700):
                connection.sendall(request)
                while not (data := connection.recv(1000)).endswith(b'{"status":"ok"}'):
                    assert data
        for _ in range(10):
            attacks.long_jobs(Target(proxy.port, KEYS[7]), count=4, seconds=0.05)
        assert max(health_seconds(server) for _ in range(3)) < 2
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(15) == 0


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


@pytest.mark.full
def test_a_killed_replica_loses_nothing_silently_and_mixes_nothing_up(replicas) -> None:
    url, servers = replicas.url, replicas.servers
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
