"""The images: nobody's root, a model that is mounted, and a command that exists."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from reviser.cli import main

FILES = sorted((Path(__file__).parent.parent / "docker").glob("Dockerfile.*"))


class Step(NamedTuple):
    """One instruction."""

    name: str
    words: str

    @property
    def command(self) -> list[str]:
        """Of ENTRYPOINT and HEALTHCHECK in exec form."""
        found = re.search(r"\[.*\]", self.words)
        assert found, f"{self.name} is not in exec form: {self.words}"
        command: list[str] = json.loads(found[0])
        return command


def read(path: Path) -> list[list[Step]]:
    """The stages, each from its FROM on."""
    text = re.sub(r"(?m)^\s*#.*\n", "", path.read_text(encoding="utf-8")).replace("\\\n", " ")
    stages: list[list[Step]] = []
    for line in text.splitlines():
        if line.strip():
            name, _, words = line.strip().partition(" ")
            if name == "FROM":
                stages.append([])
            stages[-1].append(Step(name, " ".join(words.split())))
    return stages


def test_there_is_one_for_cpus_and_one_for_gpus() -> None:
    assert [path.suffix for path in FILES] == [".cpu", ".gpu"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.suffix[1:])
def test_an_image_runs_without_root_and_says_whether_it_is_ready(path: Path) -> None:
    stages = read(path)
    last = {step.name: step for step in stages[-1]}
    after_user = stages[-1][stages[-1].index(last["USER"]) :]
    assert int(last["USER"].words) > 0
    assert not [step for step in after_user if step.name in ("RUN", "COPY", "ADD")]
    assert last["VOLUME"].words == "/model"
    assert "http://127.0.0.1:8000/ready" in last["HEALTHCHECK"].command[-1]
    assert last["EXPOSE"].words == "8000"
    for stage in stages:
        assert ":" in stage[0].words, "FROM names a version"
        assert stage[0].words.split()[0].rpartition(":")[2] != "latest"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.suffix[1:])
def test_the_entry_point_is_a_command_of_ours(path: Path) -> None:
    last = {step.name: step for step in read(path)[-1]}
    program, name, *words = last["ENTRYPOINT"].command
    assert (program, name) == ("reviser", "serve")
    context = main.commands[name].make_context(name, words)  # type: ignore[attr-defined]
    assert (context.params["model"], context.params["port"]) == ("/model", 8000)
    assert context.params["engine"] == ("hf" if path.suffix == ".cpu" else "vllm")


def test_what_is_copied_into_an_image_is_let_through_to_its_build() -> None:
    lines = (FILES[0].parent.parent / ".dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        word
        for path in FILES
        for stage in read(path)
        for step in stage
        if step.name == "COPY" and "--from" not in step.words
        for word in step.words.split()[:-1]
    }
    assert let_through == copied
