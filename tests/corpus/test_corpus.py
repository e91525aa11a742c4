"""Tasks over a corpus: every document once, whatever the format, the split and the kills."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from reviser.cli import main
from reviser.corpus import results, sources
from reviser.corpus import worker as working
from reviser.corpus.job import Job, begin
from reviser.corpus.run import run
from reviser.corpus.sources import Source, scan
from reviser.corpus.storage import Folder, find_files
from reviser.engines.base import failed_step
from reviser.errors import ConfigError, DataError, EngineError
from reviser.writing import batch
from reviser.writing.rollout import Revision, Rollout
from support import processes, small_models

pytest.importorskip("torch", reason="torch is not installed, so there are no models to write with.")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed, so there is no Parquet.")
pq = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed, so there are no URLs.")


SETTINGS = {"max_actions": 6, "seed": 5}
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.writer(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.editor(tmp_path_factory.mktemp("editor"))


def lines_of(count: int) -> list[dict[str, Any]]:
    """Prompts, texts with gaps, and here and there one that is too long."""
    lines: list[dict[str, Any]] = []
    for n in range(count):
        if n % 7 == 3:
            lines.append({"infill": f"The {n} {{}} sat.", "id": f"gap {n}"})
        elif n % 7 == 5:
            lines.append({"prompt": "x" * 2000})
        else:
            lines.append({"prompt": f"The cat {n}", "settings": {"max_actions": 1 + n % 6}})
    return lines


def write_jsonl(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def write_parquet(path: Path, lines: Sequence[dict[str, Any]], group: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(name for line in lines for name in line)
    columns = {name: [line.get(name) for line in lines] for name in names}
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


def corpus(folder: Path, kind: str, count: int = 23) -> Path:
    """Two files of unequal size."""
    lines, write = lines_of(count), {"jsonl": write_jsonl, "parquet": write_parquet}[kind]
    write(folder / f"0.{kind}", lines[:16])
    write(folder / f"sub/1.{kind}", lines[16:])
    return folder


def job(source: Path | str, output: Path | str, model: Path, **more: Any) -> Job:
    return begin(str(source), str(output), str(model), **{"settings": SETTINGS} | more)


def files_in(output: str) -> dict[str, bytes]:
    folder = Folder(output)
    return {name: folder.read(name) for name in folder.names() if not name.startswith("_")}


# -- input ----------------------------------------------------------------------------------------


LINES = st.lists(st.sampled_from([b"", b"a", b"{}", b"x" * 9]), min_size=1, max_size=30)


@settings(max_examples=60)
@given(LINES, st.integers(1, 7), st.booleans(), st.data())
def test_any_chunk_of_lines_is_that_of_the_whole_file(
    lines: list[bytes], rows: int, has_end: bool, data: st.DataObject
) -> None:
    path = f"memory://lines-{data.draw(st.integers(0, 3))}/a.jsonl"
    content = b"\n".join(lines) + (b"\n" if has_end else b"")
    fsspec.filesystem("memory").pipe_file(path, content)
    whole = content.removesuffix(b"\n").split(b"\n") if content else []
    source = scan(path, len(content), "a.jsonl", rows)
    assert source.rows == len(whole)
    for start in range(0, source.rows, rows):
        stop = min(start + rows, source.rows)
        found = sources.read(source, start, stop, chunk_rows=rows, fields=())
        assert list(found) == whole[start:stop]


@pytest.mark.parametrize("group", [1, 4, 100])
@pytest.mark.parametrize("rows", [1, 3, 50])
def test_any_chunk_of_parquet_is_that_of_the_whole_file(
    tmp_path: Path, group: int, rows: int
) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"id": n, "other": 1} for n in range(23)], group)
    source = scan(str(path), path.stat().st_size, "a.parquet", rows)
    found = []
    for start in range(0, 23, rows):
        stop = min(start + rows, 23)
        found += sources.read(source, start, stop, chunk_rows=rows, fields=("id",))
    assert found == [{"id": n} for n in range(23)]


def test_nulls_are_missing_fields() -> None:
    row = {"prompt": None, "infill": "a{}", "settings": {"seed": 3, "top_k": None}, "spans": None}
    assert sources.without_nulls(row) == {"infill": "a{}", "settings": {"seed": 3}}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 4))
def test_chunks_are_all_documents_once(rows: list[int], size: int) -> None:
    files = tuple(
        Source(name=f"{n}.parquet", label="", size=0, rows=count) for n, count in enumerate(rows)
    )
    asked = Job(
        output="memory://x", sources=files, model="", location="", weights="", chunk_rows=size
    )
    found = [
        (chunk.source.name, chunk.start + n, chunk.first_row + n)
        for chunk in map(asked.chunk, range(asked.chunks))
        for n in range(chunk.stop - chunk.start)
    ]
    names = [(f.name, n) for f in files for n in range(f.rows)]
    assert found == [(*name, n) for n, name in enumerate(names)]


def test_files_are_found_by_name_folder_and_pattern(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "in", "jsonl")
    (folder / ".hidden.jsonl").touch()
    (folder / "_job.json").touch()
    whole = find_files(str(folder))
    assert [label for _, _, label in whole] == ["0.jsonl", "sub/1.jsonl"]
    assert [label for _, _, label in find_files(str(folder / "*.jsonl"))] == ["0.jsonl"]
    assert find_files(str(folder / "0.jsonl"))[0][1] == (folder / "0.jsonl").stat().st_size
    with pytest.raises(DataError, match="There is no file to read at"):
        find_files(str(folder / "none"))
    with pytest.raises(DataError, match="Compressed JSON lines cannot be read from the middle"):
        sources.format_of("a.jsonl.gz")
    (folder / "a.parquet").write_bytes(b"not one")
    with pytest.raises(DataError, match="both Parquet and JSON lines"):
        job(folder, tmp_path / "out", tmp_path)
    with pytest.raises(DataError, match="is not a Parquet file"):
        job(folder / "*.parquet", tmp_path / "out", tmp_path)


# -- results --------------------------------------------------------------------------------------


def test_both_formats_and_a_batch_file_have_the_same_results(model: Path, tmp_path: Path) -> None:
    found = {}
    told: list[tuple[int, int]] = []
    for kind in ("jsonl", "parquet"):
        source = corpus(tmp_path / kind, kind)
        asked = job(source, tmp_path / f"out-{kind}", model, chunk_rows=5)
        counts = run(asked, progress=lambda *done: told.append(done))
        assert (counts.documents, counts.failed) == (23, 3)
        assert run(asked) == counts  # there is nothing left to do
        found[kind] = list(results.read(asked.output))
        for record in found[kind]:
            record["id"] = record["id"].replace(kind, "KIND")
    assert told == 2 * [(n, 23) for n in (0, 5, 10, 15, 16, 21, 23)]
    assert found["jsonl"] == found["parquet"]
    lines = lines_of(23)
    one = batch.Job(
        input=write_jsonl(tmp_path / "one.jsonl", lines), output=tmp_path / "one-out.jsonl",
        model=str(model), settings=SETTINGS,
    )  # fmt: skip
    batch.run(one)
    alone = [json.loads(line) for line in one.output.read_text("utf-8").splitlines()]
    for n, (record, line, expected) in enumerate(zip(found["jsonl"], lines, alone, strict=True)):
        assert record["row"] == n
        name = f"0.KIND:{n}" if n < 16 else f"sub/1.KIND:{n - 16}"
        assert record["id"] == line.get("id", name)
        assert record.get("error") == expected.get("error")
        if "error" not in record:
            rollout = Rollout.from_json(json.dumps(record))
            assert rollout.text == expected["text"]
            assert rollout.config.seed == 5 + n
            assert rollout.provenance == expected["provenance"]
            assert record["text_sha256"] == results.sha256(rollout.text)
            assert record["input_sha256"] == results.sha256(rollout.prompt)


def test_other_tools_read_the_folder(model: Path, tmp_path: Path) -> None:
    asked = job(corpus(tmp_path / "in", "parquet"), tmp_path / "out", model, chunk_rows=5)
    run(asked)
    table = pq.read_table(asked.output).sort_by("row")
    assert table["row"].to_pylist() == list(range(23))
    assert set(table.column_names) == {
        "row", "id", "text", "error", "input_sha256", "text_sha256", "provenance", "result",
    }  # fmt: skip


def test_a_corpus_may_lie_anywhere_that_fsspec_reaches(model: Path, tmp_path: Path) -> None:
    local = corpus(tmp_path / "in", "parquet")
    memory = fsspec.filesystem("memory")
    memory.put(f"{local}/", "/bucket/in/", recursive=True)
    there = job("memory://bucket/in", "memory://bucket/out", model, chunk_rows=5)
    run(there)
    here = job(local, tmp_path / "out", model, chunk_rows=5)
    run(here)
    assert files_in(there.output) == files_in(here.output)


def test_drafts_of_any_column_are_revised(editor: Path, tmp_path: Path) -> None:
    rows = [{"text": f"It have {n} end.", "id": n, "before": "x"} for n in range(4)] + [{"id": 9}]
    source = write_parquet(tmp_path / "in.parquet", rows)
    asked = job(source, tmp_path / "out", editor, is_revision=True, text_key="text")
    assert run(asked).failed == 1
    *found, last = results.read(asked.output)
    for n, record in enumerate(found):
        assert Revision.from_json(json.dumps(record)).changes.draft == f"It have {n} end."
    assert [record["id"] for record in found] == ["0", "1", "2", "3"]
    assert "either 'draft' or 'before'" in last["error"]


def test_a_text_that_is_too_large_is_refused_alone(model: Path, tmp_path: Path) -> None:
    rows = [{"prompt": "a"}, {"prompt": "b" * (batch.MAX_LINE_BYTES + 1)}]
    asked = job(write_parquet(tmp_path / "in.parquet", rows), tmp_path / "out", model)
    assert run(asked).failed == 1
    assert "the limit is 1,048,576" in [*results.read(asked.output)][1]["error"]


# -- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.full)])
def test_kills_lose_nothing_and_repeat_nothing(model: Path, tmp_path: Path, kills: int) -> None:
    rng, size = Random(kills), 40 if kills == 1 else 300
    source = write_parquet(tmp_path / "in.parquet", lines_of(size))
    once = job(source, tmp_path / "once", model, chunk_rows=4)
    run(once)
    output = tmp_path / "killed"
    command = ["generate", "-m", str(model), "--seed", "5", "--max-actions", "6", "--input"]
    command += [str(source), "--output", str(output), "--chunk-size", "4"]
    killed = 0
    while not (output / "_done.json").exists():
        process = processes.Command(*command)
        goal = len([*output.glob("0*")]) + rng.randint(1, 4)
        while process.returncode is None:
            if killed < kills and len([*output.glob("0*.parquet")]) >= goal:
                time.sleep(rng.random() / 50)
                process.kill_group()
                killed += 1
                break
            time.sleep(0.001)
    assert killed == kills
    assert [record["row"] for record in results.read(str(output))] == list(range(size))
    settings_of_command = json.loads((output / "_job.json").read_text("utf-8"))["settings"]
    assert settings_of_command["seed"] == 5
    assert files_in(str(output)) == files_in(once.output)


@pytest.mark.full
def test_processes_of_this_machine_write_the_same_files(model: Path, tmp_path: Path) -> None:
    source = corpus(tmp_path / "in", "parquet")
    one, two = (job(source, tmp_path / name, model, chunk_rows=4) for name in ("one", "two"))
    assert run(one) == run(two, workers=2)
    assert files_in(one.output) == files_in(two.output)


def test_a_job_goes_on_only_as_it_was_begun(model: Path, tmp_path: Path) -> None:
    source, output = corpus(tmp_path / "in", "jsonl"), tmp_path / "out"
    begun = job(source, output, model, chunk_rows=5)
    for change, name in [
        ({"settings": SETTINGS | {"seed": 6}}, "settings.seed"),
        ({"text_key": "x"}, "text_key"),
        ({"chunk_rows": 6}, "chunk_rows"),
        ({"is_revision": True}, "is_revision"),
    ]:
        with pytest.raises(ConfigError, match=f"begun with another {name}. Continue with the same"):
            job(source, output, model, **{"chunk_rows": 5} | change)
    moved = source.rename(tmp_path / "moved")
    again = job(moved, output, model, chunk_rows=5, options={"rows": 4})
    assert Job.load(str(output)) == again != begun
    (moved / "0.jsonl").write_text("{}\n", "utf-8")
    with pytest.raises(ConfigError, match="begun with another input"):
        job(moved, output, model, chunk_rows=5)
    with pytest.raises(DataError, match=r"has 3 bytes; it had .* when the job began"):
        run(again)
    with pytest.raises(ConfigError, match="contains other files"):
        job(moved, tmp_path, model)
    with pytest.raises(ConfigError, match="Set VLLM_API_KEY"):
        job(moved, tmp_path / "x", model, options={"api_key": "secret"})


def test_a_worker_with_other_weights_refuses(model: Path, tmp_path: Path) -> None:
    own = shutil.copytree(model, tmp_path / "model")
    asked = job(corpus(tmp_path / "in", "jsonl"), tmp_path / "out", own)
    data = (own / "model.safetensors").read_bytes()
    (own / "model.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ConfigError, match="is another model than the one"):
        run(asked)


def test_a_damaged_result_is_named(model: Path, tmp_path: Path) -> None:
    asked = job(corpus(tmp_path / "in", "parquet"), tmp_path / "out", model, chunk_rows=5)
    Folder(asked.output).write("00000000.parquet", b"broken")
    with pytest.raises(DataError, match=r"'00000000.parquet' in .* is damaged. Delete it"):
        run(asked)
    (tmp_path / "out" / "00000000.parquet").unlink()
    counts = run(asked)
    assert counts.documents == 23
    (tmp_path / "out" / "00000001.parquet").unlink()
    (tmp_path / "out" / "_done.json").write_text('{"documents": 1, "failed": 0, "sha256": ""}')
    assert run(asked) == counts


class Faults:
    """Fail the first requests of an engine, as one that is gone for a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.count = count
        load = working.load

        def opened(*words: Any, **more: Any) -> Any:
            found = load(*words, **more)
            step = found.engine.step

            def faulty() -> Any:
                steps = step()
                for n, each in enumerate(steps):
                    if each.is_last and self.count:
                        self.count -= 1
                        steps[n] = failed_step(each.request, EngineError("gone"))
                return steps

            found.engine.step = faulty
            return found

        monkeypatch.setattr(working, "load", opened)


def test_an_engine_that_failed_for_a_moment_is_asked_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Faults(monkeypatch, 4)
    asked = job(corpus(tmp_path / "in", "parquet"), tmp_path / "out", model)
    assert run(asked).failed == 3  # the texts that are too long


def test_one_document_that_always_fails_does_not_stop_a_job(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Faults(monkeypatch, 2)  # the only document of the first chunk, both times
    write_jsonl(tmp_path / "in.jsonl", [{"prompt": "a"}, {"prompt": "b"}])
    asked = job(tmp_path / "in.jsonl", tmp_path / "out", model, chunk_rows=1)
    assert (run(asked).documents, run(asked).failed) == (2, 1)
    assert [record.get("error") for record in results.read(asked.output)] == ["gone", None]


def test_an_id_can_be_anything_that_parquet_has(model: Path, tmp_path: Path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    times = arrow.array([1, 2], arrow.timestamp("us"))
    table = arrow.table({"id": times, "prompt": ["a", "b"]})
    parquet.write_table(table, tmp_path / "in.parquet")
    asked = job(tmp_path / "in.parquet", tmp_path / "out", model)
    run(asked)
    found = [record["id"] for record in results.read(asked.output)]
    assert found == [f"1970-01-01 00:00:00.00000{n}" for n in (1, 2)]


def test_files_of_a_url_on_this_machine_appear_whole_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(f"file://{tmp_path}/out")
    assert folder.is_local
    monkeypatch.setattr(type(folder._system), "pipe_file", None)  # which writes in place
    folder.write("a", b"whole")
    assert folder.read("a") == b"whole"


def test_a_broken_engine_writes_no_results(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Faults(monkeypatch, 10_000)
    asked = job(corpus(tmp_path / "in", "parquet"), tmp_path / "out", model)
    with pytest.raises(EngineError, match="gone"):
        run(asked)
    assert files_in(asked.output) == {}


# -- schedulers -----------------------------------------------------------------------------------


def test_parts_that_run_at_the_same_time_make_one_result(model: Path, tmp_path: Path) -> None:
    source = corpus(tmp_path / "in", "parquet")
    one, parts = (job(source, tmp_path / name, model, chunk_rows=4) for name in ("one", "parts"))
    whole, told = run(one), list[tuple[int, int]]()
    first = run(parts, part=(2, 2), progress=lambda *done: told.append(done))
    assert sorted(files_in(parts.output)) == [
        "00000001.parquet",
        "00000003.parquet",
        "00000005.parquet",
    ]
    assert first.documents == 11
    assert told == [(0, 11), (4, 11), (8, 11), (11, 11)]
    assert run(parts, part=(2, 2)) == first
    assert not Folder(parts.output).exists("_done.json")
    assert run(parts, part=(1, 2)) == whole
    assert files_in(one.output) == files_in(parts.output)


def test_a_job_can_be_begun_while_another_part_begins_it(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_job.json.1.partial").write_text("{")
    assert job(corpus(tmp_path / "in", "jsonl"), tmp_path / "out", model).documents == 23


def test_the_slurm_recipe_runs_a_part_per_task(model: Path, tmp_path: Path) -> None:
    recipe = Path(__file__).parents[2] / "recipes" / "corpus_slurm.sh"
    (tmp_path / "reviser").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "reviser").chmod(0o755)
    source = write_jsonl(tmp_path / "in.jsonl", lines_of(6)[:3])
    words = ["generate", "-m", str(model), "--input", str(source), "--max-actions", "1"]
    words += ["--chunk-size", "1", "--output", str(tmp_path / "out")]
    for task in ("1", "2"):
        task_of = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": "2"}
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        asked = subprocess.run(
            ["bash", str(recipe), *words],
            env={**os.environ, **task_of, "PATH": path}, check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
        assert asked == [*words, "--part", f"{task}/2"]
        assert command(*asked).exit_code == 0
    assert Folder(str(tmp_path / "out")).read_json("_done.json")["documents"] == 3


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "1/0", "a/b", "-1/2"])
def test_a_part_that_is_no_share_is_refused(tmp_path: Path, part: str) -> None:
    told = command("generate", "-m", "x", "--input", "a", "--output", tmp_path, "--part", part)
    assert told.exit_code == 2
    assert "give K/N with K from 1 to N" in told.stderr


@pytest.fixture
def end_ray() -> Iterator[Callable[[], None]]:
    """End the Ray that a run has started: it keeps the cores, and no other can start beside it."""

    def end() -> None:
        if ray := sys.modules.get("ray"):
            ray.shutdown()

    yield end
    end()


@pytest.mark.full
@pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*")  # of its own settings
@pytest.mark.parametrize("on", ["local", "ray"])
def test_the_reason_why_a_worker_failed_reaches_the_user(
    model: Path, tmp_path: Path, end_ray: Callable[[], None], on: Any
) -> None:
    own = shutil.copytree(model, tmp_path / "model")
    asked = job(corpus(tmp_path / "in", "jsonl"), tmp_path / "out", own, chunk_rows=4)
    (tmp_path / "in" / "0.jsonl").write_text("{}\n", "utf-8")
    with pytest.raises(DataError, match=r"has 3 bytes; it had .* when the job began"):
        run(asked, on=on, workers=2)
    end_ray()
    data = (own / "model.safetensors").read_bytes()
    (own / "model.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ConfigError, match="is another model than the one"):
        run(asked, on=on, workers=2)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*")  # of its own settings
@pytest.mark.parametrize("on", ["local", "ray"])
def test_killed_workers_lose_nothing(tmp_path: Path, on: Any) -> None:
    """The experiment at a small size: here, and on a Ray cluster of three nodes."""
    from experiments.scale import corpus as experiment

    if on == "ray":
        pytest.importorskip("ray", reason="ray is not installed, so there is no cluster.")
    rows = experiment.measure(tmp_path, 300, [on], 3, 10)
    assert [row["documents"] for row in rows] == [300, 300]
    assert rows[1]["kills"] == 3


def test_a_folder_without_a_job_is_not_called_broken_json(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^Cannot read '_job.json' in"):
        list(results.read(str(tmp_path)))


# -- the command ----------------------------------------------------------------------------------


def command(*words: object) -> Any:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_the_command_writes_a_folder_and_counts_failures(model: Path, tmp_path: Path) -> None:
    source = corpus(tmp_path / "in", "parquet")
    words = ("generate", "-m", model, "--input", source, "--max-actions", 3, "--output")
    told = command(*words, tmp_path / "out")
    assert told.exit_code == 1
    assert f"{tmp_path / 'out'}: 20 rollouts" in told.stdout
    assert told.stderr.splitlines()[:2] == ["writing: 0 of 23", "writing: 23 of 23"]
    assert "3 of 23 documents failed. To see why, look for 'error' in" in told.stderr
    lines = corpus(tmp_path / "lines", "jsonl")
    for changed in (
        ("--output", tmp_path / "out.jsonl", "--on", "ray"),
        ("--output", tmp_path / "out.jsonl", "--input", lines / "0.jsonl", "--part", "1/2"),
        ("--output", "memory://out.jsonl", "--input", lines),
    ):
        told = command(*words[:-1], *changed)
        assert told.exit_code == 2
        assert "For Parquet, URLs" in told.stderr
        assert "name a folder" in told.stderr
    told = command(*words, tmp_path / "other", "--on-option", "num_gpus=1")
    assert "A local run has no options; got num_gpus." in told.stderr
    told = command("generate", "-m", model, "--input", source)
    assert "Give --input and --output together" in told.stderr
