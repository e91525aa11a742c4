"""Batches: every document once, whatever the format, the output, the backend and the kills."""

from __future__ import annotations

import json
import multiprocessing
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

import reviser
from reviser.batch import results, sources
from reviser.batch import run as running
from reviser.batch import worker as working
from reviser.batch.job import Job, begin
from reviser.batch.lines import MAX_LINE_BYTES
from reviser.batch.run import run
from reviser.batch.sources import Source, find_sources, scan
from reviser.batch.storage import Folder
from reviser.cli import main
from reviser.engines.base import Answer
from reviser.errors import ConfigError, DataError, EngineError
from reviser.models import hub
from reviser.writing.rollout import Revision, Rollout
from support import processes, small_models
from support.full_disk import full_disk

pytest.importorskip("torch", reason="torch is not installed, so there are no models to write with.")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed, so there is no Parquet.")
pq = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed, so there are no URLs.")
memory = pytest.importorskip("fsspec.implementations.memory")

SETTINGS = {"max_actions": 6, "seed": 5}
ROOT = Path(__file__).parents[2]
Lines = Sequence[Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.writer(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.editor(tmp_path_factory.mktemp("editor"), layers=2, context=96)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers start as forks of a server that has imported torch."""
    processes.start_server()
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: processes.CONTEXT)


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


def write_jsonl(path: Path, lines: Lines) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(text + "\n" for text in texts), "utf-8")
    return path


def write_parquet(path: Path, lines: Lines, group: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(name for line in lines for name in line)
    columns = {name: [line.get(name) for line in lines] for name in names}
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


WRITERS = {"jsonl": write_jsonl, "parquet": write_parquet}


def two_files(folder: Path, kind: str = "parquet", count: int = 23) -> Path:
    """Two files of unequal size, one of them in a folder below."""
    lines = lines_of(count)
    WRITERS[kind](folder / f"0.{kind}", lines[:16])
    WRITERS[kind](folder / f"sub/1.{kind}", lines[16:])
    return folder


def job(source: Path | str, output: Path | str, model: Path, **more: Any) -> Job:
    return begin(str(source), str(output), str(model), **{"settings": SETTINGS} | more)


def files_in(output: str) -> dict[str, bytes]:
    folder = Folder(output)
    return {name: folder.read(name) for name in folder.names() if not name.startswith("_")}


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def flip_a_bit(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


# -- input ----------------------------------------------------------------------------------------


class Store(memory.MemoryFileSystem):
    """An object store: files are read in ranges, as from S3."""

    protocol = "store"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.removeprefix("store://"))
        return stripped

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        if mode != "rb":
            return super()._open(path, mode, **more)
        return Object(self, path, mode, size=self.size(path))


class Object(fsspec.spec.AbstractBufferedFile):
    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.store[self.path].getvalue()[start:end]


fsspec.register_implementation("store", Store, clobber=True)
LINES = st.lists(st.sampled_from([b"", b"a", b"{}", b"x" * 9]), min_size=1, max_size=30)


@settings(max_examples=60)
@given(LINES, st.integers(1, 7), st.booleans(), st.sampled_from(["memory", "store"]))
def test_any_chunk_of_lines_is_that_of_the_whole_file(
    lines: list[bytes], rows: int, has_end: bool, kind: str
) -> None:
    content = b"\n".join(lines) + (b"\n" if has_end else b"")
    fsspec.filesystem(kind).pipe_file("/lines/a.jsonl", content)
    whole = content.removesuffix(b"\n").split(b"\n") if content else []
    source = scan(*find_sources(f"{kind}://lines/a.jsonl"), rows)
    assert source.rows == len(whole)
    for start in range(0, source.rows, rows):
        stop = min(start + rows, source.rows)
        found = sources.read(source, start, stop, rows, ())
        assert list(found) == whole[start:stop]


@pytest.mark.parametrize("group", [1, 4, 100])
@pytest.mark.parametrize("rows", [1, 3, 50])
@pytest.mark.parametrize("fields", ["id", "none"])
def test_any_chunk_of_parquet_is_that_of_the_whole_file(
    tmp_path: Path, group: int, rows: int, fields: str
) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"id": n, "other": 1} for n in range(23)], group)
    source = scan(*find_sources(str(path)), rows)
    found = []
    for start in range(0, 23, rows):
        stop = min(start + rows, 23)
        found += sources.read(source, start, stop, rows, (fields,))
    assert found == [{"id": n} if fields == "id" else {} for n in range(23)]


def test_nulls_are_missing_fields() -> None:
    row = {"prompt": None, "infill": "a{}", "settings": {"seed": 3, "top_k": None}, "spans": None}
    assert sources.without_nulls(row) == {"infill": "a{}", "settings": {"seed": 3}}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 4))
def test_chunks_are_all_documents_once(rows: list[int], size: int) -> None:
    files = [Source(name=str(n), label="", size=0, rows=count) for n, count in enumerate(rows)]
    found = [
        (chunk.source.name, chunk.start + n, chunk.first_row + n)
        for chunk in Job(output="memory://x", sources=files, chunk_rows=size).chunks
        for n in range(len(chunk))
    ]
    names = [(file.name, n) for file in files for n in range(file.rows)]
    assert found == [(*name, n) for n, name in enumerate(names)]


def test_files_are_found_by_name_folder_and_pattern(tmp_path: Path) -> None:
    folder = two_files(tmp_path / "in", "jsonl")
    (folder / ".hidden.jsonl").touch()
    (folder / "_job.json").touch()
    for name, labels in [("", ["0.jsonl", "sub/1.jsonl"]), ("*.jsonl", ["0.jsonl"])]:
        assert [source.label for source in find_sources(str(folder / name))] == labels
    assert find_sources(str(folder / "0.jsonl"))[0].size == (folder / "0.jsonl").stat().st_size


# -- results --------------------------------------------------------------------------------------


def test_all_formats_and_outputs_have_the_same_results(model: Path, tmp_path: Path) -> None:
    found, counted, told = {}, set(), list[tuple[int, int]]()
    for kind in ("jsonl", "parquet"):
        source = two_files(tmp_path / kind, kind)
        asked = job(source, tmp_path / f"out-{kind}", model, chunk_rows=5)
        counted.add(run(asked, progress=lambda *done: told.append(done)))
        assert run(asked) in counted  # there is nothing left to do
        found[kind] = list(results.read(asked.output))
        for record in found[kind]:
            record["id"] = record["id"].replace(kind, "KIND")
    assert told == 2 * [(n, 23) for n in range(24)]
    assert found["jsonl"] == found["parquet"]
    lines = lines_of(23)
    one = tmp_path / "one.jsonl"
    # Chunks have the same neighbours as above, so the last digits are the same, too.
    counted.add(run(job(tmp_path / "jsonl", one, model, chunk_rows=5)))
    [counts] = counted
    assert (counts.documents, counts.failed) == (23, 3)
    assert not (tmp_path / "one.jsonl.parts").exists()
    for n, (row, line, alone) in enumerate(zip(found["jsonl"], lines, records(one), strict=True)):
        assert (row.pop("row"), alone.pop("line")) == (n, n + 1)
        name = f"0.KIND:{n}" if n < 16 else f"sub/1.KIND:{n - 16}"
        assert (row.pop("id"), alone.pop("id", None)) == (line.get("id", name), line.get("id"))
        hashes = row.pop("input_sha256"), row.pop("text_sha256", None)
        assert row == alone
        assert hashes[0] == results.sha256(line.get("prompt", line.get("infill")))
        if "error" not in row:
            rollout = Rollout.from_json(json.dumps(row))
            assert hashes[1] == results.sha256(rollout.text)
            assert rollout.config.seed == 5 + n
            assert rollout.config.max_actions == line.get("settings", SETTINGS)["max_actions"]
            assert rollout.provenance["weights"] == hub.fingerprint(model)


def test_other_tools_read_the_folder(model: Path, tmp_path: Path) -> None:
    asked = job(two_files(tmp_path / "in"), tmp_path / "out", model, chunk_rows=5)
    run(asked)
    table = pq.read_table(asked.output).sort_by("row")
    assert table["row"].to_pylist() == list(range(23))
    assert table.column_names == [
        "row", "id", "text", "error", "input_sha256", "text_sha256", "provenance", "result",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_batch_may_be_anywhere_that_fsspec_reaches(
    model: Path, tmp_path: Path, kind: str
) -> None:
    local = two_files(tmp_path / "in", kind)
    fsspec.filesystem("store").put(f"{local}/", f"/{kind}/in/", recursive=True)
    there = job(f"store://{kind}/in", f"store://{kind}/out", model, chunk_rows=5)
    here = job(local, tmp_path / "out", model, chunk_rows=5)
    assert run(there) == run(here)
    assert files_in(there.output) == files_in(here.output)


ERRORS: dict[str, Lines] = {
    "this model's limit is 63": [{"prompt": "x" * 2000}],
    "either 'prompt' or 'infill'": [{"text": "y"}, {"prompt": "a", "infill": "{}"}, []],
    "is not JSON": ["a {", "", "[" * 100_000, '{"prompt": "a", "id": "\\ud800"}'],
    "no gap": [{"infill": "z"}],
    "got int": [{"prompt": 3}],
    "must be an object": [{"prompt": "a", "settings": 3}],
    "a number": [{"prompt": "a", "settings": {"temperature": "hot"}}],
    "not a setting": [
        {"prompt": "a", "settings": {"heat": 1}},
        {"prompt": "a", "settings": {"prompt": "b"}},
        {"infill": "a{}", "settings": {"spans": 5}},
    ],
    "into its 'settings'": [{"prompt": "a", "seed": 3}],
    "This line is longer than 1,048,576 bytes, the limit": [{"prompt": "x" * 60_000_000}],
}


def test_a_line_that_cannot_be_used_fails_alone(model: Path, tmp_path: Path) -> None:
    bad = [(sentence, line) for sentence, lines in ERRORS.items() for line in lines]
    source = write_jsonl(tmp_path / "in.jsonl", [*(line for _, line in bad), {"prompt": "a"}])
    assert run(job(source, tmp_path / "out.jsonl", model)).failed == len(bad)
    *failed, last = records(tmp_path / "out.jsonl")
    for (sentence, _), record in zip(bad, failed, strict=True):
        assert sentence in record["error"]
    assert last["prompt"] == "a"
    rows = [{"prompt": "a"}, {"prompt": "b" * (MAX_LINE_BYTES + 1)}]
    asked = job(write_parquet(tmp_path / "in.parquet", rows), tmp_path / "out", model)
    assert run(asked).failed == 1
    assert "the limit is 1,048,576" in [*results.read(asked.output)][1]["error"]


def test_drafts_are_revised_in_all_their_windows(editor: Path, tmp_path: Path) -> None:
    long = "The cat sat. " * 4
    lines: list[Any] = [
        ({"draft": long, "id": "long"}, ""),
        ({"before": "The cat", "instruction": None, "locked": ["cat"]}, ""),
        ({"draft": "The", "locked": ["cat"]}, "does not occur"),
        ({"prompt": "The"}, "either 'draft' or 'before'"),
        ({"draft": "The cat", "instruction": 0}, "got int"),
        ({"draft": "The", "settings": {"window": 0}}, "window is 0"),
        ({"draft": "The", "settings": {"draft": "x", "self": "y"}}, "not a setting"),
        ({"draft": "The", "locked": 5}, "locked must be"),
    ]
    source = write_jsonl(tmp_path / "in.jsonl", [line for line, _ in lines])
    chosen = SETTINGS | {"window": 20, "context": 4}
    run(job(source, tmp_path / "out.jsonl", editor, is_revision=True, settings=chosen))
    found = records(tmp_path / "out.jsonl")
    for (_, sentence), record in zip(lines, found, strict=True):
        assert sentence in record.get("error", "")
    assert (found[0]["id"], found[0]["draft"]) == ("long", long)
    assert (found[1]["draft"], "cat" in found[1]["text"]) == ("The cat", True)
    with reviser.load(editor) as opened:
        alone = opened.revise(long, **chosen)
    assert len(alone.rollouts) == len(found[0]["rollouts"]) > 1
    assert alone.text == found[0]["text"]


def test_a_text_of_any_column_and_an_id_of_any_type(editor: Path, tmp_path: Path) -> None:
    times = pa.array([1, 2, None], pa.timestamp("us"))
    texts = ["It have an end.", "It have a end.", None]
    table = pa.table({"id": times, "text": texts, "before": ["x", "x", "x"]})
    pq.write_table(table, tmp_path / "in.parquet")
    asked = job(
        tmp_path / "in.parquet", tmp_path / "out", editor, is_revision=True, text_key="text"
    )
    assert run(asked).failed == 1
    *found, last = results.read(asked.output)
    assert [Revision.from_json(json.dumps(each)).changes.draft for each in found] == texts[:2]
    times_then_name = [f"1970-01-01 00:00:00.00000{n}" for n in (1, 2)] + ["in.parquet:2"]
    assert [record["id"] for record in (*found, last)] == times_then_name
    assert "either 'draft' or 'before'" in last["error"]


# -- kills, damage and other jobs -----------------------------------------------------------------


@pytest.mark.parametrize("output", ["out", "out.jsonl"])
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.full)])
def test_kills_lose_nothing_and_repeat_nothing(
    model: Path, tmp_path: Path, output: str, kills: int
) -> None:
    rng, size = Random(kills), 20 * kills
    source = write_jsonl(tmp_path / "in.jsonl", lines_of(size))
    (tmp_path / "once").mkdir()
    once, killed = tmp_path / "once" / output, tmp_path / output
    run(job(source, once, model, chunk_rows=4))
    command = ["generate", "-m", str(model), "--seed", "5", "--max-actions", "6", "--input"]
    command += [str(source), "--output", str(killed), "--chunk-size", "4"]
    command += ["--workers", "1" if kills == 2 else "2"]
    is_file = output.endswith(".jsonl")
    chunks = tmp_path / "out.jsonl.parts" if is_file else killed
    done, count = killed if is_file else killed / "_done.json", 0
    while not done.exists():
        process = processes.Command(*command)
        goal = len([*chunks.glob("0*.jsonl")]) + rng.randint(1, 4)
        while process.returncode is None:
            if count < kills and len([*chunks.glob("0*.jsonl")]) >= goal:
                time.sleep(rng.random() / 50)
                process.kill_group()
                count += 1
                break
            time.sleep(0.001)
    assert count == kills
    if is_file:
        assert [record["line"] for record in records(killed)] == list(range(1, size + 1))
        assert killed.read_bytes() == once.read_bytes()
    else:
        assert [record["row"] for record in results.read(str(killed))] == list(range(size))
        assert files_in(str(killed)) == files_in(str(once))


@pytest.mark.usefixtures("forked_workers")
def test_a_worker_that_is_killed_is_reported_and_nothing_is_lost(
    model: Path, tmp_path: Path
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", lines_of(30))
    asked = job(source, tmp_path / "out.jsonl", model, chunk_rows=2)

    def kill(done: int, _: int) -> None:
        if done:
            multiprocessing.active_children()[0].kill()

    with pytest.raises(EngineError, match=r"A worker process was killed, .* same command again"):
        run(asked, workers=2, progress=kill)
    run(asked, workers=2)
    run(job(source, tmp_path / "one.jsonl", model, chunk_rows=2))
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


@pytest.mark.full
def test_workers_whose_parent_was_killed_end(model: Path, tmp_path: Path) -> None:
    source, output = write_jsonl(tmp_path / "in.jsonl", lines_of(60)), tmp_path / "out.jsonl"
    command = ["generate", "-m", str(model), "--workers", "2", "--chunk-size", "2"]
    command += ["--input", str(source), "--output", str(output)]
    process = processes.Command(*command)
    while not [*(tmp_path / "out.jsonl.parts").glob("0*.jsonl")]:
        time.sleep(0.01)
    process.kill()  # the parent alone
    processes.run(*command)
    assert [record["line"] for record in records(output)] == list(range(1, 61))


@pytest.mark.parametrize("after", [2000, 15_000])
def test_a_full_disk_gets_one_sentence_and_loses_nothing(
    model: Path, tmp_path: Path, after: int
) -> None:
    source, output = write_jsonl(tmp_path / "in.jsonl", lines_of(30)), tmp_path / "out.jsonl"
    with full_disk(after), pytest.raises(DataError, match="Cannot write") as caught:
        run(job(source, output, model, chunk_rows=4))
    assert str(caught.value).endswith("run the same command again to continue.")
    assert not output.exists()
    assert run(job(source, output, model, chunk_rows=4)).documents == 30
    run(job(source, tmp_path / "other.jsonl", model, chunk_rows=4))
    assert output.read_bytes() == (tmp_path / "other.jsonl").read_bytes()


def test_chunks_are_deleted_once_the_output_is_on_the_disk(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def note(module: Any, name: str) -> None:
        function = getattr(module, name)

        def noted(*words: Any, **more: Any) -> Any:
            done.append(name)
            return function(*words, **more)

        monkeypatch.setattr(module, name, noted)

    asked = job(write_jsonl(tmp_path / "in.jsonl", lines_of(3)), tmp_path / "out.jsonl", model)
    for module, name in [(results, "sync"), (results, "sync_folder"), (shutil, "rmtree")]:
        note(module, name)
    run(asked)
    assert done == ["sync", "sync_folder", "rmtree"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_damaged_chunk_is_named(model: Path, tmp_path: Path, kind: str) -> None:
    asked = job(two_files(tmp_path / "in", kind), tmp_path / "out", model, chunk_rows=5)
    for content in (b"broken\n", b"\0" * 99, b"", b'{"line": 77}\n'):
        Folder(asked.output).write(f"00000000.{kind}", content)
        with pytest.raises(DataError, match=rf"'00000000.{kind}' in .* is damaged: .* Delete it"):
            run(asked)
    (tmp_path / f"out/00000000.{kind}").unlink()
    counts = run(asked)
    assert counts.documents == 23
    (tmp_path / f"out/00000001.{kind}").unlink()
    (tmp_path / "out/_done.json").write_text('{"documents": 1, "failed": 0, "sha256": ""}')
    assert run(asked) == counts


@pytest.mark.parametrize("output", ["out", "out.jsonl"])
def test_a_job_goes_on_only_as_it_was_begun(model: Path, tmp_path: Path, output: str) -> None:
    own = shutil.copytree(model, tmp_path / "model")
    source, target = two_files(tmp_path / "in", "jsonl"), tmp_path / output
    begun = job(source, target, own, chunk_rows=5)
    for change, name in [
        ({"settings": SETTINGS | {"seed": 6}}, "settings.seed"),
        ({"text_key": "x"}, "text_key"),
        ({"chunk_rows": 6}, "chunk_rows"),
        ({"is_revision": True}, "is_revision"),
    ]:
        with pytest.raises(ConfigError, match=f"begun with another {name}. Continue with the same"):
            job(source, target, own, **{"chunk_rows": 5} | change)
    for name in ("model.safetensors", "tokenizer.json"):
        flip_a_bit(own / name)
        with pytest.raises(ConfigError, match="begun with another weights"):
            job(source, target, own, chunk_rows=5)
        with pytest.raises(ConfigError, match="is another model than the one"):
            run(begun)
        flip_a_bit(own / name)
    moved = source.rename(tmp_path / "moved")
    again = job(moved, target, own, chunk_rows=5, options={"rows": 4})
    assert Job.load(str(target)) == again != begun
    before = (moved / "0.jsonl").read_bytes()
    (moved / "0.jsonl").write_bytes(before.replace(b"cat", b"dog"))  # of the same size
    with pytest.raises(ConfigError, match="begun with another input"):
        job(moved, target, own, chunk_rows=5)
    (moved / "0.jsonl").write_text("{}\n", "utf-8")
    with pytest.raises(DataError, match=r"has 3 bytes; it had .* when the job began"):
        run(again)


def test_what_is_in_the_way_is_refused(model: Path, tmp_path: Path) -> None:
    source, output = write_jsonl(tmp_path / "in.jsonl", lines_of(3)), tmp_path / "out.jsonl"
    lines = two_files(tmp_path / "in", "jsonl")
    for name in ("a.parquet", "b.jsonl.gz", "empty.jsonl"):
        (tmp_path / name).write_bytes(b"not one" * (name != "empty.jsonl"))
    (tmp_path / "old.jsonl").write_text("mine")
    (tmp_path / "old").mkdir()
    (tmp_path / "old/letter.txt").write_text("mine")
    asked = job(source, output, model)
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: job(lines / "none", tmp_path / "x", model), "There is no file to read at"),
        (lambda: job(tmp_path / "b.jsonl.gz", tmp_path / "x", model), "be read from the middle"),
        (lambda: job(tmp_path, tmp_path / "x", model), "cannot be read from the middle"),
        (lambda: job(tmp_path / "*[tl]", tmp_path / "x", model), "both Parquet and JSON lines"),
        (lambda: job(tmp_path / "?.parquet", tmp_path / "x", model), "is not a Parquet file"),
        (lambda: job(tmp_path / "empty.jsonl", tmp_path / "x", model), "has no documents"),
        (lambda: job(source, tmp_path / "old.jsonl", model), "exists already"),
        (lambda: job(source, tmp_path / "old", model), "contains other files"),
        (lambda: job(source, source, model), "both input and output"),
        (lambda: job(source, source / "x.jsonl", model), "Cannot list"),
        (lambda: job(source, "memory://a.jsonl", model), "must be local: name a folder"),
        (lambda: job(source, "x", model, options={"api_key": "secret"}), "Set VLLM_API_KEY"),
        (lambda: [*results.read(str(tmp_path))], r"^Cannot read '_job.json' in"),
        (lambda: run(asked, part=(1, 2)), "has no parts: name a folder"),
        (lambda: run(asked, options={"num_gpus": 1}), "has no options; got num_gpus"),
        (lambda: run(Job(output="x", engine="vllm"), workers=2), "workers is 2, but engine 'vllm'"),
    ]
    for call, sentence in refusals:
        with pytest.raises((ConfigError, DataError), match=sentence):
            call()
    another = running.lock(Path(f"{output}.parts/lock"), "")
    with another, pytest.raises(ConfigError, match="Another process is writing"):
        run(asked)
    output.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        run(asked)
    assert output.read_text() == "mine"


# -- engines that fail ----------------------------------------------------------------------------


def test_files_of_a_url_on_this_machine_appear_whole_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(f"file://{tmp_path}/out")
    monkeypatch.setattr(type(folder._system), "pipe_file", None)  # which writes in place
    folder.write("a", b"whole")
    assert folder.read("a") == b"whole"


@pytest.mark.parametrize(
    ("faults", "count", "errors"),
    [
        (4, 30, []),  # an engine that was gone for a moment is asked again
        (2, 1, ["gone"]),  # one document that always fails does not stop a job
        (10_000, 30, None),  # a broken engine writes no results
    ],
)
def test_an_engine_that_fails(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    faults: int, count: int, errors: list[str] | None,
) -> None:  # fmt: skip
    left, load = [faults], working.load

    def open_faulty(*words: Any, **more: Any) -> Any:
        found = load(*words, **more)
        step = found.engine.step

        def faulty(wait: float) -> Any:
            answers = step(wait)
            for n, each in enumerate(answers):
                if each.is_last and left[0]:
                    left[0] -= 1
                    answers[n] = Answer(each.number, EngineError("gone"))
            return answers

        found.engine.step = faulty
        return found

    monkeypatch.setattr(working, "load", open_faulty)
    source = write_jsonl(tmp_path / "in.jsonl", [{"prompt": "a"}] * 60)
    asked = job(source, tmp_path / "out", model, chunk_rows=count)
    if errors is None:
        with pytest.raises(EngineError, match="gone"):
            run(asked)
        assert files_in(asked.output) == {}
        return
    run(asked)
    assert [each["error"] for each in results.read(asked.output) if "error" in each] == errors


# -- parts and backends ---------------------------------------------------------------------------


def test_parts_that_run_at_the_same_time_make_one_result(model: Path, tmp_path: Path) -> None:
    source = two_files(tmp_path / "in")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/_job.json.1.partial").write_text("{")  # another part begins it, too
    one, parts = (job(source, tmp_path / name, model, chunk_rows=4) for name in ("one", "parts"))
    whole, told = run(one), list[tuple[int, int]]()
    first = run(parts, part=(2, 2), progress=lambda *done: told.append(done))
    names = [name for name in files_in(parts.output) if name.endswith("t")]
    assert sorted(names) == [f"0000000{n}.parquet" for n in (1, 3, 5)]
    assert first.documents == 11
    assert (told[0], told[-1]) == ((0, 11), (11, 11))
    assert run(parts, part=(2, 2)) == first
    assert not Folder(parts.output).exists("_done.json")
    assert run(parts, part=(1, 2)) == whole
    assert files_in(one.output) == files_in(parts.output)


def test_the_slurm_recipe_runs_a_part_per_task(tmp_path: Path) -> None:
    recipe = ROOT / "recipes" / "batch_slurm.sh"
    (tmp_path / "reviser").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "reviser").chmod(0o755)
    env = {**os.environ, "SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
    env["PATH"] = f"{tmp_path}{os.pathsep}{env['PATH']}"
    asked = ["bash", str(recipe), "generate", "--output", "out"]
    shown = subprocess.run(asked, env=env, check=True, capture_output=True, text=True).stdout
    assert shown.split() == ["generate", "--output", "out", "--part", "1/2"]


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
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_the_reason_why_a_worker_failed_reaches_the_user(
    model: Path, tmp_path: Path, end_ray: Callable[[], None], backend: Any
) -> None:
    own = shutil.copytree(model, tmp_path / "model")
    asked = job(two_files(tmp_path / "in", "jsonl"), tmp_path / "out", own, chunk_rows=4)
    (tmp_path / "in" / "0.jsonl").write_text("{}\n", "utf-8")
    with pytest.raises(DataError, match=r"has 3 bytes; it had .* when the job began"):
        run(asked, backend=backend, workers=2)
    end_ray()
    flip_a_bit(own / "model.safetensors")
    with pytest.raises(ConfigError, match="is another model than the one"):
        run(asked, backend=backend, workers=2)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*")  # of its own settings
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_killed_workers_lose_nothing(tmp_path: Path, backend: Any) -> None:
    """The experiment at a small size: here, and on a Ray cluster of three nodes."""
    from experiments.scale import batch as experiment

    if backend == "ray":
        pytest.importorskip("ray", reason="ray is not installed, so there is no cluster.")
    rows = experiment.measure(tmp_path, 300, [backend], 3, 10)
    assert [row["documents"] for row in rows] == [300, 300]
    assert rows[1]["kills"] == 3


# -- the command ----------------------------------------------------------------------------------


def command(*words: object) -> Any:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_the_command_counts_results_and_failures(model: Path, tmp_path: Path) -> None:
    source, output = two_files(tmp_path / "in"), tmp_path / "out"
    words = ("generate", "-m", model, "--max-actions", 3)
    told = command(*words, "--input", source, "--output", output)
    assert (told.exit_code, told.stdout) == (1, f"{output}: 20 rollouts\n")
    assert [line.split(" of ")[0] for line in told.stderr.splitlines()] == [
        "writing: 0",
        "writing: 23",
        "error: 3",
    ]
    assert "3 of 23 documents failed. To see why, look for 'error' in" in told.stderr
    source = write_jsonl(tmp_path / "in.jsonl", lines_of(5))
    told = command(*words, "--input", source, "--output", tmp_path / "out.jsonl")
    assert (told.exit_code, told.stdout) == (0, f"{tmp_path / 'out.jsonl'}: 5 rollouts\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        *((["--output", "y", "--part", part], "give K/N with K from 1 to N")
          for part in ("0/2", "3/2", "2", "1/0", "a/b", "-1/2")),
        ([], "Give --input and --output together"),
        (["a", "--output", "y"], "--input and --output together"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(words: list[str], sentence: str) -> None:
    told = command("generate", "-m", "x", "--input", "a", *words)
    assert told.exit_code == 2
    assert sentence in told.stderr
