"""Text to shards: every format, damaged input, and runs that are killed."""

import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from tokenizers import Tokenizer, decoders, models

from reviser.cli import main
from reviser.core.codec import Codec
from reviser.data import pipeline, readers
from reviser.data.pipeline import make_plan, run_plan
from reviser.data.readers import Reader, Tally, find_sources
from reviser.data.shards import Manifest, TokenShards, finish, tokenize
from reviser.errors import ConfigError, DataError
from support import small_tokenizers

pytest.importorskip("datatrove")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LINES = [line.replace("\n", " ") for line in small_tokenizers.LINES]
CONTROL = f"a user may type {small_tokenizers.END_OF_TEXT} or </s>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer's folder."""
    small_tokenizers.byte_level().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def texts_of(output: Path, folder: Path) -> list[str]:
    codec = Codec.load(folder)
    shards = TokenShards.open(output, codec.fingerprint)
    return [codec.decode(shards.read(document)) for document in range(len(shards))]


def read_all(path: Path | str, **options: object) -> tuple[list[str], Tally]:
    tally = Tally()
    reader = Reader(**options)  # type: ignore[arg-type]
    return [t for source in find_sources(path) for t in reader.documents(source, tally)], tally


def write_jsonl(path: Path, texts: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


def write_packed(path: Path, content: bytes) -> None:
    """Write a file, compressed as its name says."""
    if path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(content)
    else:
        pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
        path.write_bytes(pack(content))


def files_of(output: Path) -> dict[str, bytes]:
    """What counts of a shards folder."""
    names = [*output.glob("*.ds"), *output.glob("*.index"), output / "manifest.json"]
    return {path.name: path.read_bytes() for path in sorted(names)}


# -- formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", ["byte_level", "byte_fallback", "metaspace", "unigram"])
def test_tokens_are_exactly_the_codecs(build: str, tmp_path: Path) -> None:
    tokenizer = getattr(small_tokenizers, build)()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=7)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = [*LINES, CONTROL]
    tokenize([write_jsonl(tmp_path / "in.jsonl", texts)], tmp_path / "out", tmp_path)
    codec = Codec.load(tmp_path)
    shards = TokenShards.open(tmp_path / "out", codec.fingerprint)
    assert [shards.read(n).tolist() for n in range(len(shards))] == [codec.encode(t) for t in texts]


@pytest.mark.parametrize(("size", "width"), [(2**16, 2), (2**16 + 1, 4)])
def test_a_token_takes_two_bytes_if_all_of_them_fit(size: int, width: int, tmp_path: Path) -> None:
    letters = {chr(0x20000 + n): n for n in range(size)}
    tokenizer = Tokenizer(models.BPE(letters, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    text = "".join(list(letters)[-3:])
    manifest = tokenize([write_jsonl(tmp_path / "in.jsonl", [text])], tmp_path / "out", tmp_path)
    assert (manifest.vocabulary, manifest.tokens) == (size, 3)
    assert (tmp_path / "out" / "00000.ds").stat().st_size == 3 * width
    assert TokenShards.open(tmp_path / "out").read(0).tolist() == [size - 3, size - 2, size - 1]


@pytest.mark.parametrize("packing", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize("suffix", [".jsonl", ".txt", ".py"])
def test_files_are_read_by_their_names(suffix: str, packing: str, tmp_path: Path) -> None:
    text = "\n\n".join(LINES) + "\n" if "js" not in suffix else ""
    content = (text or "".join(json.dumps({"text": t}) + "\n" for t in LINES)).encode()
    path = tmp_path / f"in{suffix}{packing}"
    write_packed(path, content)
    texts, tally = read_all(path)
    assert texts == LINES
    assert not tally.skipped


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "dictionary"])
def test_parquet_is_read_from_its_text_column(kind: str, tmp_path: Path) -> None:
    column = pa.array(LINES)
    if kind == "dictionary":
        column = column.dictionary_encode()
    elif kind != "string":
        column = column.cast(getattr(pa, kind)())
    pq.write_table(pa.table({"story": column, "n": range(len(LINES))}), tmp_path / "a.parquet")
    assert read_all(tmp_path / "a.parquet", text_key="story")[0] == LINES


def test_a_dataset_is_read_by_its_name(folder: Path) -> None:
    pytest.importorskip("datasets")
    (folder / "corpus").mkdir()
    write_jsonl(folder / "corpus" / "train.jsonl", [*LINES, "", "  "])
    manifest = tokenize([f"hf:{folder / 'corpus'}"], folder / "out", folder)
    assert texts_of(folder / "out", folder) == LINES
    assert manifest.skipped == {"empty": 2}


def test_a_text_file_is_split_by_blank_lines_by_lines_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"\xef\xbb\xbf\n\na\r\nb\r\n \t\r\n\r\n\r\nc\nd\n\ne")
    assert read_all(path, split="blank")[0] == ["a\nb", "c\nd", "e"]
    assert read_all(path, split="line")[0] == ["a", "b", "c", "d", "e"]
    assert read_all(path, split="file")[0] == ["\n\na\r\nb\r\n \t\r\n\r\n\r\nc\nd\n\ne"]


def test_a_folder_and_a_pattern_stand_for_their_files_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "sub/a.txt.xz", "a.jsonl", "c.py", ".hidden.txt", "d.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [Path(source.name).name for source in find_sources(tmp_path)]
    assert found == ["a.jsonl", "b.txt", "a.txt.xz"]
    pattern = [Path(source.name).name for source in find_sources(f"{tmp_path}/**/*.*")]
    assert pattern == [".hidden.txt", "a.jsonl", "b.txt", "c.py", "d.png", "a.txt.xz"]


# -- what may be wrong with text ------------------------------------------------------------------


def test_a_bad_line_is_counted_and_costs_no_other(folder: Path) -> None:
    good = [json.dumps({"text": text}).encode() for text in LINES]
    bad = {
        b'{"text": "\xff\xfe"}': "not UTF-8",
        b'{"text": "\\ud800"}': "not UTF-8",
        b"{": "not JSON",
        b"[" * 100_000: "not JSON",
        b"null": "no text",
        b'["text"]': "no text",
        b'{"other": "x"}': "no text",
        b'{"text": 7}': "no text",
        b'{"text": null}': "no text",
        b'{"text": ""}': "empty",
        b'{"text": " \\n\\t"}': "empty",
        b'{"text": "' + b"x" * 10_000_000 + b'"}': "too long",
    }
    lines = [line for pair in zip(list(bad), good * 2, strict=False) for line in pair]
    (folder / "in.jsonl").write_bytes(b"\n".join([*lines, b"", b"   ", *good]))
    manifest = tokenize([folder / "in.jsonl"], folder / "out", folder)
    assert manifest.skipped == Counter(bad.values())
    assert texts_of(folder / "out", folder) == [*(LINES * 2)[: len(bad)], *LINES]


def test_bad_utf8_in_parquet_costs_one_row(tmp_path: Path) -> None:
    values = pa.array([b"one", b"\xff", b"three", None])
    broken = pa.StringArray.from_buffers(4, *values.buffers()[1:], values.buffers()[0])
    pq.write_table(pa.table({"text": broken}), tmp_path / "in.parquet")
    texts, tally = read_all(tmp_path / "in.parquet")
    assert texts == ["one", "three"]
    assert tally.skipped == {"not UTF-8": 1, "no text": 1}


@pytest.mark.parametrize("split", ["blank", "line", "file"])
@pytest.mark.parametrize("size", [1, 3])
def test_the_limit_is_exact_in_every_split(
    split: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MAX_DOCUMENT_BYTES", size)
    for end in (b"", b"\n", b"\r\n"):
        for length in range(1, 9):
            body = b"x" * length if split != "blank" or length < 3 else b"x\n" + b"x" * (length - 2)
            tail = b"" if split == "file" else end
            (tmp_path / "in.txt").write_bytes(body + tail)
            texts, tally = read_all(tmp_path / "in.txt", split=split)
            assert texts == ([body.decode()] if length <= size else [])
            assert tally.skipped == ({} if length <= size else {"too long": 1})


@pytest.mark.parametrize("packing", [pytest.param(".gz", marks=pytest.mark.full), ".xz", ".zst"])
def test_a_truncated_file_is_read_as_far_as_it_goes_and_named(packing: str, folder: Path) -> None:
    rows = [f"{n} {os.urandom(40).hex()}" for n in range(10_000)]
    whole = write_jsonl(folder / "whole.jsonl", rows).read_bytes()
    path = folder / f"in.jsonl{packing}"
    write_packed(path, whole)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])
    write_jsonl(folder / "next.jsonl", LINES)
    manifest = tokenize([path, folder / "next.jsonl"], folder / "out", folder)
    assert manifest.skipped == {"damaged file": 1}
    assert manifest.damaged == (str(path),)
    texts = texts_of(folder / "out", folder)
    assert texts[-len(LINES) :] == LINES
    kept = texts[: -len(LINES)]
    assert kept == rows[: len(kept)]
    assert len(rows) / 3 < len(kept) < len(rows)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"", "the files are blank"), (b"\xff\n\xfe", "not UTF-8: 1")],
)
def test_no_text_at_all_is_refused(content: bytes, sentence: str, folder: Path) -> None:
    (folder / "in.txt").write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        tokenize([folder / "in.txt"], folder / "out", folder)
    with pytest.raises(DataError, match="has not finished there"):
        TokenShards.open(folder / "out")


def test_no_sources_and_settings_out_of_range_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="There are no sources"):
        tokenize([], folder / "out", folder)
    for source in ("nothing.txt", "*.nothing"):
        with pytest.raises(DataError, match="nothing to read at"):
            tokenize([folder / source], folder / "out", folder)
    with pytest.raises(ConfigError, match="split is 'page'"):
        Reader(split="page")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="workers is 0"):
        tokenize([write_jsonl(folder / "a.jsonl", LINES)], folder / "out", folder, workers=0)


def test_a_file_that_cannot_be_opened_is_refused_in_a_sentence(folder: Path) -> None:
    # Deleted after the plan was made: unlike one without permission, root cannot open it either.
    plan = make_plan([write_jsonl(folder / "in.jsonl", LINES)], folder / "out", folder)
    (folder / "in.jsonl").unlink()
    with pytest.raises(
        DataError, match=r"^Cannot open '.*in\.jsonl': No such file or directory\.$"
    ):
        run_plan(plan, workers=1)
    with pytest.raises(DataError, match="1 of 1 tasks"):
        finish(folder / "out")


# -- tasks, restarts, parallel runs ---------------------------------------------------------------


def corpus(folder: Path, *, files: int = 6, documents: int = 300) -> list[Path]:
    """Files that are small, each a task of its own once the least size of a task is 1."""
    texts = [f"{n} {LINES[n % len(LINES)]}" for n in range(documents)]
    paths = [folder / f"part{n}.jsonl" for n in range(files)]
    for path in paths:
        write_jsonl(path, [f"{path.stem} {text}" for text in texts])
        path.write_bytes(path.read_bytes() + b"no json\n")
    return paths


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "MIN_TASK_BYTES", 1)


@pytest.mark.usefixtures("small_tasks")
def test_the_number_of_workers_changes_nothing(folder: Path) -> None:
    paths = corpus(folder)
    one = tokenize(paths, folder / "one", folder, workers=1)
    two = tokenize(paths, folder / "two", folder, workers=2)
    assert len(one.shards) == len(paths)
    assert files_of(folder / "one") == files_of(folder / "two")
    assert one == two
    assert one.skipped == {"not JSON": len(paths)}


@pytest.mark.parametrize(
    ("limits", "tasks"),
    [
        ({}, 1),  # small files share a task
        ({"MIN_TASK_BYTES": 1, "USUAL_TASKS": 4}, 3),  # and many files do too
        ({"MIN_TASK_BYTES": 1, "USUAL_TASKS": 2}, 2),
        ({"MIN_TASK_BYTES": 1, "USUAL_TASKS": 2, "MAX_TASK_BYTES": 2}, 5),  # of two files
    ],
)
def test_files_are_grouped_into_tasks_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], tasks: int
) -> None:
    paths = corpus(folder, files=9, documents=3)
    for name, limit in limits.items():
        files = paths[0].stat().st_size if name == "MAX_TASK_BYTES" else 1
        monkeypatch.setattr(pipeline, name, limit * files)
    plan = make_plan(paths, folder / "out", folder)
    assert len(plan.tasks) == tasks
    assert [Path(s.name) for task in plan.tasks for s in task] == paths
    tokenize(paths, folder / "out", folder, workers=1)
    expected = [text for path in paths for text in read_all(path)[0]]
    assert texts_of(folder / "out", folder) == expected


def test_sources_are_read_through_fsspec(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    root = f"/{folder.name}"
    local = corpus(folder, files=3, documents=5)
    for path in local:
        system.pipe(f"{root}/{path.name}", path.read_bytes())
    system.pipe(f"{root}/packed.jsonl.gz", gzip.compress(local[0].read_bytes()))
    system.pipe(f"{root}/notes.bin", b"not text")
    names = [source.name for source in find_sources(f"memory:/{root}")]
    assert [name.rsplit("/", 1)[1] for name in names] == [
        "packed.jsonl.gz",
        *(p.name for p in local),
    ]
    assert find_sources(f"memory:/{root}/part*.jsonl") == find_sources(f"memory:/{root}")[1:]
    expected = [read_all(path)[0] for path in local]
    assert [read_all(name)[0] for name in names] == [expected[0], *expected]
    tokenize([names[1]], folder / "out", folder, workers=1)
    assert texts_of(folder / "out", folder) == expected[0]
    for wrong in (f"memory:/{root}/none.jsonl", f"memory:/{root}/*.txt", "nothing://x"):
        with pytest.raises(DataError, match=r"Cannot read|nothing to read"):
            find_sources(wrong)


RUN = """
import sys, time
from reviser.data import pipeline
from reviser.data.shards import tokenize
from reviser.core.codec import Codec
pipeline.MIN_TASK_BYTES, pipeline.BATCH_CHARACTERS = 1, 2000
if __name__ == "__main__":
    folder, workers, *paths = sys.argv[1:]
    if workers == "1":  # slowly, so that there is a middle to be killed in
        fast = Codec.encode_batch
        Codec.encode_batch = lambda codec, texts: time.sleep(0.02) or fast(codec, texts)
    tokenize(paths, folder + "/killed", folder, workers=int(workers))
"""


def wait_until(happened: object, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while not happened():  # type: ignore[operator]
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.usefixtures("small_tasks")
def test_a_killed_run_continues_to_the_same_bytes(folder: Path) -> None:
    paths, killed = corpus(folder), folder / "killed"
    tokenize(paths, folder / "whole", folder, workers=1)
    script = folder / "run.py"
    script.write_text(RUN)
    command = [sys.executable, str(script), str(folder), "1", *map(str, paths)]
    process = subprocess.Popen(command, start_new_session=True)
    wait_until(lambda: (killed / "00002.ds.partial").exists(), process)
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (killed / "00002.ds.partial").exists()
    assert not (killed / "00002.ds").exists()
    done = {path: path.stat().st_mtime_ns for path in killed.glob("*.ds")}
    assert len(done) == 2
    with pytest.raises(DataError, match=r"4 of 6 tasks in .* not done \(the first is 2\)"):
        finish(killed)
    with pytest.raises(DataError, match="has not finished there"):
        Manifest.load(killed)
    tokenize(paths, killed, folder, workers=1)
    assert files_of(killed) == files_of(folder / "whole")
    assert {path: path.stat().st_mtime_ns for path in done} == done  # not made again
    assert not list(killed.glob("*.partial*"))


@pytest.mark.full
def test_workers_end_with_a_killed_parent(folder: Path) -> None:
    paths = corpus(folder, files=4, documents=60_000)
    script = folder / "run.py"
    script.write_text(RUN)
    command = [sys.executable, str(script), str(folder), "2", *map(str, paths)]
    process = subprocess.Popen(command, start_new_session=True)
    wait_until(lambda: list((folder / "killed").glob("*.partial")), process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20
    while _group_is_alive(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not (folder / "killed" / "manifest.json").exists()


def _group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.full
@pytest.mark.usefixtures("small_tasks")
def test_a_worker_that_dies_is_reported_and_not_waited_for(folder: Path) -> None:
    paths = corpus(folder, files=4, documents=2)
    script = folder / "run.py"
    script.write_text(
        "import os, sys\n"
        "from reviser.data.pipeline import WriteShard\n"
        "from reviser.data import pipeline\n"
        "from reviser.data.shards import tokenize\n"
        "WriteShard.__call__ = lambda *_: os._exit(9)\n"
        "pipeline.MIN_TASK_BYTES = 1\n"
        "if __name__ == '__main__':\n"
        "    tokenize(sys.argv[2:], sys.argv[1] + '/out', sys.argv[1], workers=2)\n"
    )
    command = [sys.executable, str(script), str(folder), *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "DataError: A worker process died" in run.stderr


def test_other_settings_are_refused_in_a_started_folder(folder: Path) -> None:
    path = write_jsonl(folder / "in.jsonl", LINES)
    first = tokenize([path], folder / "out", folder)
    assert first == Manifest.load(folder / "out")
    assert tokenize([path], folder / "out", folder) == first
    with pytest.raises(ConfigError, match=r"another text_key\."):
        tokenize([path], folder / "out", folder, text_key="content")
    with pytest.raises(ConfigError, match="other files, or files of other sizes"):
        tokenize([path, path], folder / "out", folder)
    other = folder / "other"
    other.mkdir()
    small_tokenizers.metaspace().save(str(other / "tokenizer.json"))
    with pytest.raises(ConfigError, match=r"another tokenizer\."):
        tokenize([path], folder / "out", other)


def test_a_folder_of_something_else_is_refused(folder: Path) -> None:
    path = write_jsonl(folder / "in.jsonl", LINES)
    with pytest.raises(DataError, match="contains other files"):
        tokenize([path], folder, folder)
    (folder / "out").mkdir()
    (folder / "out" / "plan.json").write_text("{}")
    with pytest.raises(DataError, match=r"Cannot read .*plan\.json"):
        tokenize([path], folder / "out", folder)
    with pytest.raises(DataError, match=r"There is no plan\.json"):
        finish(folder / "nowhere")


def test_other_tasks_and_a_tokenizer_that_changes_during_the_run_are_refused(folder: Path) -> None:
    plan = make_plan([write_jsonl(folder / "in.jsonl", LINES)], folder / "out", folder)
    with pytest.raises(DataError, match="tasks=3; give it tasks=1"):
        list(plan.pipeline()[0](None, 0, 3))
    small_tokenizers.metaspace().save(str(folder / "tokenizer.json"))
    with pytest.raises(DataError, match="changed during the run"):
        plan.pipeline()[1]([], 0, 1)


@pytest.mark.full
def test_the_slurm_recipe_submits_and_then_finishes(folder: Path) -> None:
    """With an `sbatch` that runs the one job at once, in place of a cluster."""
    programs = folder / "bin"
    programs.mkdir()
    for name, text in (("sbatch", FAKE_SBATCH), ("scontrol", "#!/bin/sh\necho here\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    recipe = Path(__file__).parents[2] / "recipes" / "tokenize_slurm.py"
    paths = corpus(folder, files=2, documents=5)
    command = [sys.executable, recipe, folder / "out", folder, *paths]
    for _ in range(2):
        assert not (folder / "out" / "manifest.json").exists()
        subprocess.run(command, env={**os.environ, "PATH": path}, check=True, capture_output=True)
    tokenize(paths, folder / "ours", folder, workers=1)
    assert files_of(folder / "out") == files_of(folder / "ours")


FAKE_SBATCH = """#!/bin/sh
for script; do :; done  # the last argument
if grep -q launch_pickled_pipeline "$script"; then
    command=$(grep -o 'launch_pickled_pipeline .*' "$script")
    SLURM_NODELIST=here SLURM_ARRAY_TASK_ID=0 $command >&2 || exit 1
fi
echo Submitted batch job 1
"""


# -- the command ----------------------------------------------------------------------------------


def run(*args: object) -> "subprocess.CompletedProcess[str]":
    code = "from reviser.cli import main\nif __name__ == '__main__': main()"
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_its_result_and_nothing_else(folder: Path) -> None:
    path = corpus(folder, files=1)[0]
    result = run("tokenize", path, "-o", folder / "out", "--tokenizer", folder)
    tokens = Manifest.load(folder / "out").tokens
    assert result.stdout == (
        f"{folder / 'out'}: 300 documents, {tokens:,} tokens in 1 shard\nleft out, not JSON: 1\n"
    )
    assert result.stderr == ""
    again = run("tokenize", path, "-o", folder / "out", "--tokenizer", folder, "--json")
    assert json.loads(again.stdout) == json.loads((folder / "out" / "manifest.json").read_text())


def test_without_datatrove_the_extra_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_jsonl(folder / "in.jsonl", LINES)
    monkeypatch.setitem(sys.modules, "datatrove.pipeline.tokens.tokenizer", None)
    args = ["tokenize", str(path), "-o", str(folder / "out"), "--tokenizer", str(folder)]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 1
    assert "pip install 'reviser-lm[train]'" in result.stderr
