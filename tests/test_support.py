"""What the gate stands on: forked commands, shared folders, steps, and what a change touches."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support import affected, steps

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


@pytest.mark.skipif(shutil.which("just") is None, reason="just is not installed.")
@pytest.mark.parametrize("status", [0, 3])
def test_steps_all_run_and_the_summary_of_the_last_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    summary = "===== 2 passed, 1 deselected in 0.10s ====="
    (tmp_path / "justfile").write_text(
        f"a:\n    exit {status}\nb:\n    @echo b ran\nmain:\n    @echo '{summary}'; echo after\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REVISER_STEPS", "install=90")
    assert steps.main(["a", "b", "main"]) == bool(status)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == summary
    assert {"b ran", "after", "     90 s  install"} <= set(lines)
    assert ("FAILED with status 3" in "".join(lines)) == bool(status)


def test_what_changed_since_the_last_full_run_is_touched_up_to_a_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = tuple(affected.Part(name, 2, (name,)) for name in "abc")
    monkeypatch.setattr(affected, "ROOT", tmp_path)
    monkeypatch.setattr(affected, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(affected, "PARTS", parts)
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.py").write_text(name)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert affected.touched() == list(parts)  # nothing is recorded
    affected.record()
    assert affected.touched() == []
    (tmp_path / "b" / "file.py").write_text("other")
    assert affected.touched() == [parts[1]]
    assert affected.choose(list(parts), cap=5) == ([parts[0], parts[1]], [parts[2]])


def test_the_table_of_parts_is_of_this_repository() -> None:
    targets = set(re.findall(r"^([\w-]+)\b.*:", (ROOT / "justfile").read_text(), re.MULTILINE))
    names = [part.target for part in affected.PARTS]
    assert len({*names}) == len(names)
    assert {name.split()[0] for name in names} <= targets
    for part in affected.PARTS:
        assert [name for name in part.sources if not (ROOT / name).exists()] == [], part.target
    covered = [
        ROOT / word for name in names for word in name.split()[1:] if name.startswith("test-full")
    ]
    for path in (ROOT / "tests").rglob("test_*.py"):
        if re.search(r"^(?!.*re\.search).*mark\.full\b", path.read_text("utf-8"), re.MULTILINE):
            assert any(path.is_relative_to(each) for each in covered), path
    if affected.RECORD.is_file():
        assert set(json.loads(affected.RECORD.read_text())) <= {*names}
