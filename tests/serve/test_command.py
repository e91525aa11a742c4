"""`reviser serve` as a person runs it, with a real model."""

from __future__ import annotations

import logging
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from support import fuzz, small_tokenizers
from support.serving import eventually

pytest.importorskip("fastapi", reason="The extra serve is not installed.")
pytest.importorskip("torch", reason="torch is not installed, so nothing can write.")

from reviser.cli import main
from reviser.model import load
from reviser.serve.client import Client
from reviser.serve.logs import TextLogFormatter
from reviser.writing.tasks import Infill


def test_the_command_serves_a_folder_and_no_module_of_the_working_folder_is_run(
    tmp_path: Path,
) -> None:
    folder, keys, log = tmp_path / "mine", tmp_path / "keys", tmp_path / "log"
    fuzz.folder_of_a_fresh_model(folder, tokenizer=small_tokenizers.byte_level())
    keys.write_text("abc\n")
    for name in ("random", "selectors", "socket", "tempfile"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\nraise SystemExit(3)\n")
    # `python -m` would look in the folder itself.
    command = [Path(sys.executable).with_name("reviser"), "serve", folder, "--port", "0"]
    command += ["--api-key-file", keys, "--engine-option", "rows=4", "--running", "4"]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stderr=errors, cwd=tmp_path)
    try:
        eventually(lambda: process.poll() is not None or '"ready"' in log.read_text(), 240)
        [url] = re.findall(r"http://127.0.0.1:\d+", log.read_text())
        with Client(url, api_key="abc") as client, load(folder, rows=4) as model:
            assert client.models() == ["mine"]
            settings = {"seed": 2, "max_actions": 30, "max_length": 200}
            wanted = model.infill("Ben{} to the park.", **settings)
            stream = client.stream(Infill("Ben{} to the park."), **settings)
            assert stream.rollout().trajectory == wanted.trajectory
            assert stream.rollout().provenance["model"] == "mine"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not (tmp_path / "ran").exists()
    finally:
        process.kill()
        process.wait()


def test_a_server_that_cannot_start_says_so_before_a_model_is_opened(tmp_path: Path) -> None:
    used = socket.create_server(("127.0.0.1", 0))
    port = used.getsockname()[1]
    for arguments, words in [
        (["nowhere", "--api-key-file", str(tmp_path / "keys")], "Cannot read the keys"),
        (["nowhere", "--port", str(port)], f"Cannot listen on port {port} of 127.0.0.1"),
        (["nowhere", "--host", "192.0.2.1"], "of 192.0.2.1"),
    ]:
        run = CliRunner().invoke(main, ["serve", *arguments])
        assert run.exit_code == 1
        assert run.stderr.startswith("error: ")
        assert words in run.stderr
    used.close()


def test_without_a_model_the_proofreader_is_served_with_the_settings_of_the_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / ".reviser.toml").write_text('words = ["recieved"]\n')
    log = tmp_path / "log"
    command = [Path(sys.executable).with_name("reviser"), "serve", "--no-judge", "--port", "0"]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stderr=errors, cwd=tmp_path)
    try:
        eventually(lambda: process.poll() is not None or '"ready"' in log.read_text(), 120)
        [url] = re.findall(r"http://127.0.0.1:\d+", log.read_text())
        with Client(url) as client:
            assert client.models() == ["proofreader"]
            revision = client.revise("He recieved the the letter untill then.")
        assert [each.before for each in revision.changes] == [" the", "untill"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--no-judge"], "are for the proofreader"),
        (["nowhere", "--judge", "gpt2"], "are for the proofreader"),
        (["--engine", "vllm"], "are for a MODEL"),
        (["--engine-option", "rows=4"], "are for a MODEL"),
    ],
)
def test_options_without_an_effect_are_refused(arguments: list[str], words: str) -> None:
    run = CliRunner().invoke(main, ["serve", *arguments])
    assert (run.exit_code, words in run.stderr) == (2, True)


def test_people_get_an_address_to_open_and_short_lines() -> None:
    seen: list[str] = []
    log, handler = logging.Logger("reviser.serve"), logging.StreamHandler()
    handler.emit = lambda record: seen.append(TextLogFormatter().format(record))  # type: ignore[method-assign]
    log.addHandler(handler)
    request = {"id": "f00", "route": "/v1/generate", "status": 200, "seconds": 0.114, "actions": 5}
    log.info("listening", extra={"log_fields": {"url": "http://127.0.0.1:8000"}})
    log.info("request", extra={"log_fields": request})
    log.info("engine", extra={"log_fields": {"state": "ready"}})
    log.info("draining", extra={"log_fields": {"jobs": 1}})
    try:
        raise ValueError("a text of a user")
    except ValueError:
        log.exception("request failed")
    assert seen[0] == "Open http://127.0.0.1:8000 (press Ctrl-C to stop)"
    assert [line[9:] for line in seen[1:]] == [
        "request route=/v1/generate status=200 seconds=0.114 actions=5",
        "engine state=ready",
        "draining jobs=1",
        "request failed level=error exception=ValueError",
    ]
