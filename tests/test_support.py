"""What the gate stands on: forked commands, shared folders and mutations."""

import os
import shutil
from pathlib import Path

import pytest

from support import mutations

ROOT = Path(__file__).parents[1]


def test_a_forked_command_is_a_process_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("datatrove", reason="The extra train is not installed.")
    from support import processes

    done = processes.run("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout[:8], done.stderr) == (0, "reviser,", "")
    assert processes.run("no-such-command").returncode == 2
    process = processes.Command("serve", ROOT / "models" / "stories-revise", "--port", "0")
    while process.returncode is None and os.getsid(process.pid) != process.pid:
        os.sched_yield()
    process.kill()
    assert process.returncode == -9


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="Threads are counted in /proc.")
def test_the_fork_server_has_one_thread() -> None:
    pytest.importorskip("datatrove", reason="The extra train is not installed.")
    from support import processes

    processes.run("--version")
    server = processes.forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    assert len(list(Path(f"/proc/{server}/task").iterdir())) == 1
    assert "libtorch" in Path(f"/proc/{server}/maps").read_text()


def test_a_shared_folder_is_made_once_and_again_when_an_ingredient_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("accelerate", reason="The extra train is not installed.")
    from support import trained

    monkeypatch.setattr(trained, "CACHE", tmp_path)
    made: list[Path] = []

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        trained.folder("one", [1], fail)
    first = trained.folder("one", [1], made.append)
    assert not list(first.iterdir())
    assert trained.folder("one", [1], made.append) == first
    assert trained.folder("one", [2], made.append) != first
    assert len(made) == 2
    assert not first.exists()


@pytest.mark.parametrize("mutation", mutations.read(), ids=lambda each: each.file)
def test_a_mutation_can_be_made(mutation: mutations.Mutation, tmp_path: Path) -> None:
    """Whether a test notices it, `just mutations` says."""
    copy = tmp_path / mutation.file
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(mutations.SOURCE / mutation.file, copy)
    mutation.apply(tmp_path)
    if copy.suffix == ".py":
        compile(copy.read_text("utf-8"), copy, "exec")
    for word in mutation.test.split():
        assert not word.startswith("tests/") or (ROOT / word.partition("::")[0]).exists()
