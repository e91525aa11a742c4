"""Run the steps of a Dockerfile without an engine: `python -m support.dockerfile FOLDER`.

`COPY`, `RUN`, `WORKDIR` and `ENV` of docker/Dockerfile.cpu are done under FOLDER, which stands for
the image's root; then its entry point serves a model of ours until its health check passes and a
text is written. Users are not made, and the base image is this machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


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


class Run:
    """An image's root as a folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.resolve()
        self.root.mkdir(parents=True)
        self.place = self.root
        self.env = {name: v for name, v in os.environ.items() if not name.startswith("PYTHON")}

    def inside(self, words: str) -> str:
        """The same with the image's own absolute paths led into the folder."""
        return re.sub(r"(?<![\w:/.$])/(?=(?:src|venv|model)\b)", f"{self.root}/", words)

    def step(self, step: Step) -> None:
        """Do one."""
        print(f"{step.name} {step.words}", file=sys.stderr, flush=True)
        words = self.inside(step.words)
        if step.name == "WORKDIR":
            self.place = Path(words)
            self.place.mkdir(parents=True, exist_ok=True)
        elif step.name == "COPY" and not words.startswith("--from"):
            *sources, target = words.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, self.place / target)
                else:
                    shutil.copy(ROOT / source, self.place / target)
        elif step.name == "ENV":
            for setting in words.split():
                name, _, value = setting.partition("=")
                self.env[name] = value.replace("$PATH", self.env["PATH"])
        elif step.name == "RUN" and not words.startswith("useradd"):
            subprocess.run(words, shell=True, cwd=self.place, env=self.env, check=True)

    def serve(self, entry: list[str], health: list[str]) -> str:
        """What a model writes when the image runs."""
        shutil.copytree(ROOT / "models" / "stories-revise", self.root / "model")
        entry = [self.inside(word) for word in entry]
        with subprocess.Popen(entry, cwd=self.root, env=self.env) as server:
            try:
                for _ in range(300):
                    time.sleep(1)
                    asked = subprocess.run(health, env=self.env, capture_output=True)
                    if asked.returncode == 0:
                        break
                request = urllib.request.Request(
                    "http://127.0.0.1:8000/v1/generate",
                    json.dumps({"prompt": "Ben had a", "max_actions": 20}).encode(),
                    {"content-type": "application/json"},
                )
                with urllib.request.urlopen(request, timeout=60) as answer:
                    text: str = json.load(answer)["text"]
            finally:
                server.terminate()
            assert server.wait(90) == 0
            return text


def main() -> int:
    """Run the steps of the CPU image."""
    stages = read(ROOT / "docker" / "Dockerfile.cpu")
    run = Run(Path(sys.argv[1]))
    for stage in stages:
        for step in stage:
            run.step(step)
    last = {step.name: step for step in stages[-1]}
    text = run.serve(last["ENTRYPOINT"].command, last["HEALTHCHECK"].command)
    assert text.startswith("Ben had a"), text
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
