"""Files of rollouts: line for line the prompts', whatever the workers, whatever was killed."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reviser
from reviser.cli import main
from reviser.errors import ConfigError, DataError, EngineError
from reviser.writing.rollout import Rollout
from support import processes, small_models
from support.full_disk import full_disk

pytest.importorskip("torch", reason="torch is not installed, so there are no models to write with.")

from reviser.models import hub
from reviser.writing import batch
from reviser.writing.batch import Job

SETTINGS = {"max_actions": 24, "seed": 5}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.writer(tmp_path_factory.mktemp("model"), layers=2, context=96)


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_models.editor(tmp_path_factory.mktemp("editor"), layers=2, context=96)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers start as forks of a server that has imported torch."""
    processes.start_server()
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: processes.CONTEXT)


def lines_of(count: int) -> list[Any]:
    """Prompts, texts with gaps, and here and there a line that nothing can be written for."""
    lines: list[Any] = []
    for n in range(count):
        if n % 7 == 3:
            lines.append({"infill": f"The {n}{{}} sat{{}}.", "id": f"gap {n}"})
        elif n % 7 == 5:
            lines.append([{"prompt": "x" * 2000}, {"text": "y"}, "a {", {"infill": "z"}][n % 4])
        else:
            lines.append({"prompt": f"The cat {n}", "settings": {"max_actions": 1 + n % 40}})
    return lines


def write(path: Path, lines: list[Any]) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def records(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    for record in found:
        record.pop("logprobs", None)  # their last digits depend on the neighbours in a batch
    return found


def job(opened: Path, folder: Path, count: int = 40, **more: Any) -> Job:
    source = write(folder / "prompts.jsonl", lines_of(count))
    given = {"input": source, "output": folder / "out.jsonl", "model": str(opened)}
    return Job(**given | {"settings": SETTINGS} | more)


def test_every_line_has_its_rollout_or_its_error(model: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    asked = job(model, tmp_path)
    written, failed = batch.run(asked, lambda *done: told.append(done))
    assert told == [(n, 40) for n in range(41)]
    found = records(asked.output)
    assert [record["line"] for record in found] == list(range(1, 41))
    assert failed == sum("error" in record for record in found) == 5
    assert written == 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "prompts.jsonl"]
    for n, (line, text) in enumerate(
        zip(lines_of(40), asked.output.read_text("utf-8").splitlines(), strict=True)
    ):
        record = json.loads(text)
        if "error" in record:
            assert n % 7 == 5
            continue
        rollout = Rollout.from_json(text)
        assert rollout.prompt == line.get("prompt", line.get("infill"))
        assert rollout.config.seed == 5 + n
        assert rollout.config.max_actions == line.get("settings", SETTINGS)["max_actions"]
        assert record.get("id") == line.get("id")


def test_errors_say_what_is_wrong(model: Path, tmp_path: Path) -> None:
    lines = [
        {"prompt": "x" * 2000},
        {"text": "y"},
        "a {",
        {"infill": "z"},
        {"prompt": "a", "infill": "{}"},
        {"prompt": 3},
        {"prompt": "a", "settings": 3},
        {"prompt": "a", "settings": {"temperature": "hot"}},
        {"prompt": "a", "settings": {"heat": 1}},
        [],
        "",
        "[" * 100_000,
        '{"prompt": "a", "id": "\\ud800"}',
        {"prompt": "a", "settings": {"prompt": "b"}},
        {"infill": "a{}", "settings": {"spans": 5}},
        {"prompt": "a", "seed": 3},
    ]
    asked = job(model, tmp_path)
    write(asked.input, lines)
    assert batch.run(asked) == (16, 16)
    sentences = [record["error"] for record in records(asked.output)]
    expected = "this model's limit is 95|'prompt' or 'infill'|not JSON|no gap|either 'p|got int|"
    expected += "must be an object|a number|not a setting|either 'p|not JSON|not JSON|not JSON|"
    expected += "not a setting|not a setting|into its 'settings'"
    for sentence, part in zip(sentences, expected.split("|"), strict=True):
        assert part in sentence


@pytest.mark.usefixtures("forked_workers")
def test_drafts_are_revised_in_all_their_parts(editor: Path, tmp_path: Path) -> None:
    lines: list[Any] = [
        {"draft": "The cat sat. " * 4, "id": "long"},
        {"before": "The cat", "after": "The cats", "instruction": None, "locked": ["cat"]},
        {"draft": "The", "locked": ["cat"]},
        {"prompt": "The"},
        {"draft": "The cat", "instruction": 0},
        {"draft": "The", "settings": {"window": 0}},
        {"draft": "The", "settings": {"window": "x"}},
        {"draft": "The", "settings": {"draft": "x", "self": "y"}},
        {"draft": "The", "locked": 5},
        {"draft": "The", "settings": {"precision": "x"}},
    ]
    source = write(tmp_path / "drafts.jsonl", lines)
    settings = SETTINGS | {"window": 20, "context": 4}
    outputs = []
    for workers in (1, 2):
        output = tmp_path / f"{workers}.jsonl"
        options = {"is_revision": True, "settings": settings, "workers": workers}
        asked = Job(input=source, output=output, model=str(editor), **options)
        assert batch.run(asked) == (10, 8)
        outputs.append(records(output))
    for record in chain(*outputs):
        for rollout in record.get("rollouts", []):
            del rollout["logprobs"]
        for name in ("changes", "stop_logprob"):  # their last digits too
            record.pop(name, None)
    assert outputs[0] == outputs[1]
    long, pair, *failed = outputs[0]
    assert (long["id"], long["draft"]) == ("long", lines[0]["draft"])
    assert len(long["rollouts"]) > 1
    assert (pair["draft"], "cat" in pair["text"]) == ("The cat", True)
    expected = "does not occur|either 'draft' or 'before'|got int|window is 0|window is 'x'|"
    expected += "not a setting|locked must be|precision is 'x'"
    for record, sentence in zip(failed, expected.split("|"), strict=True):
        assert sentence in record["error"]
    with reviser.load(editor) as opened:
        alone = opened.revise(lines[0]["draft"], **settings)
    assert (alone.text, alone.actions) == (
        long["text"],
        sum(each["statistics"]["actions"] for each in long["rollouts"]),
    )


@pytest.mark.parametrize(
    ("workers", "most"),
    [
        (1, 3),
        pytest.param(2, 3, marks=pytest.mark.full),
        pytest.param(2, 50, marks=[pytest.mark.full, pytest.mark.timeout(3600)]),
    ],
)
def test_kills_lose_nothing_and_repeat_nothing(
    model: Path, tmp_path: Path, workers: int, most: int
) -> None:
    rng = Random(workers)
    count = 200 if most == 3 else 1500
    once = job(model, tmp_path, count, options={"rows": 4})  # few at a time: there is time to kill
    batch.run(once)
    output = tmp_path / "killed.jsonl"
    command = ["generate", "-m", str(model), "--seed", "5", "--max-actions", "24"]
    command += ["--input", str(once.input), "--output", str(output)]
    command += ["--workers", str(workers), "--engine-option", "rows=4"]
    parts = [tmp_path / "killed.jsonl.parts" / f"{worker}.jsonl" for worker in range(workers)]
    kills = seen = 0
    while not output.exists():
        process = processes.Command(*command)
        goal = seen + rng.randint(1, 40)  # lines; then a kill, in the middle of whatever it does
        while process.returncode is None:
            with suppress(FileNotFoundError):  # not yet there, or no longer
                seen = sum(part.read_bytes().count(b"\n") for part in parts)
            if seen >= goal and kills < most:
                time.sleep(rng.random() / 100)
                process.kill_group()
                kills += 1
                break
            time.sleep(0.001)
        for part in filter(Path.is_file, parts):  # a kill may cut a line in two
            with part.open("r+b") as file:
                file.truncate(max(0, part.stat().st_size - rng.randint(0, 30)))
    assert kills == most
    assert records(output) == records(once.output)
    assert [record["line"] for record in records(output)] == list(range(1, count + 1))


@pytest.mark.usefixtures("forked_workers")
def test_a_worker_that_is_killed_is_reported_and_nothing_is_lost(
    model: Path, tmp_path: Path
) -> None:
    asked = job(model, tmp_path, 30, workers=2)
    victims: list[multiprocessing.process.BaseProcess] = []

    def kill(done: int, _: int) -> None:
        if done and not victims:
            victims.extend(multiprocessing.active_children())
            victims[0].kill()

    with pytest.raises(EngineError, match=r"Worker [12] of 2 failed: its process was killed\."):
        batch.run(asked, kill)
    batch.run(asked)
    assert [record["line"] for record in records(asked.output)] == list(range(1, 31))


@pytest.mark.full
def test_workers_whose_parent_was_killed_repeat_nothing(model: Path, tmp_path: Path) -> None:
    asked = job(model, tmp_path, 60)
    output = tmp_path / "orphans.jsonl"
    command = ["generate", "-m", str(model), "--workers", "2"]
    command += ["--input", str(asked.input), "--output", str(output)]
    process = processes.Command(*command)
    parts = tmp_path / "orphans.jsonl.parts"
    while not all((parts / f"{n}.jsonl").is_file() for n in range(2)):
        time.sleep(0.01)
    process.kill()  # the parent alone
    processes.run(*command)
    assert [record["line"] for record in records(output)] == list(range(1, 61))


@pytest.mark.usefixtures("forked_workers")
def test_a_worker_that_cannot_open_the_model_says_so(model: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(model, tmp_path / "damaged")
    (damaged / "action_vocab.json").unlink()
    with pytest.raises(EngineError, match=r"Worker . of 2 failed: There is no action_vocab"):
        batch.run(job(damaged, tmp_path, workers=2))


def test_a_job_goes_on_only_as_it_was_begun(model: Path, tmp_path: Path) -> None:
    asked = job(model, tmp_path)
    steps = batch.work(asked, 0)
    asked.folder.mkdir()
    batch._claim(asked)
    for _ in range(3):
        next(steps)
    steps.close()
    for change, name in [
        ({"settings": SETTINGS | {"seed": 6}}, "settings.seed"),
        ({"workers": 2}, "workers"),
        ({"model": "other"}, "model"),
    ]:
        with pytest.raises(ConfigError, match=f"begun with another {name}. Continue with the same"):
            batch.run(job(model, tmp_path, **change))
    with pytest.raises(ConfigError, match="another input"):
        batch.run(job(model, tmp_path, 41))
    batch.run(job(model, tmp_path))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_job_is_not_continued_with_other_weights(model: Path, tmp_path: Path, name: str) -> None:
    own = shutil.copytree(model, tmp_path / "model")
    asked = begin(job(own, tmp_path), lines=3)
    data = (own / name).read_bytes()
    (own / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ConfigError, match=r"begun with another weights\. Continue with the same"):
        batch.run(asked)
    (own / name).write_bytes(data)
    assert batch.run(asked) == (40, 5)
    origins = [record["provenance"] for record in records(asked.output) if "error" not in record]
    assert {origin["weights"] for origin in origins} == {hub.fingerprint(own)}


def begin(asked: Job, *, lines: int) -> Job:
    """Start a job and stop it after some lines."""
    asked.folder.mkdir()
    batch._claim(asked)
    steps = batch.work(asked, 0)
    for _ in range(lines + 1):
        next(steps)
    steps.close()
    return asked


def test_a_huge_line_is_refused_and_its_neighbours_are_written(model: Path, tmp_path: Path) -> None:
    asked = job(model, tmp_path)
    lines = [{"prompt": "a"}, {"prompt": "x" * 60_000_000}, {"prompt": "b"}]
    write(asked.input, lines)
    assert batch.count_lines(asked.input) == 3
    assert batch.run(asked) == (3, 1)
    first, huge, last = records(asked.output)
    assert huge["error"].startswith("This line is longer than 1,048,576 bytes, the limit")
    assert (first["prompt"], last["prompt"]) == ("a", "b")


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\nb", "\n\n", "a\r\nb\r\n"])
def test_lines_are_counted_as_python_counts_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lines"
    path.write_bytes(text.encode())
    with path.open("rb") as file:
        assert batch.count_lines(path) == len([*file])


@pytest.mark.parametrize("after", [2000, 30_000])
def test_a_full_disk_gets_one_sentence_and_loses_nothing(
    model: Path, tmp_path: Path, after: int
) -> None:
    asked = job(model, tmp_path)
    with full_disk(after), pytest.raises(DataError, match="Cannot write") as caught:
        batch.run(asked)
    assert str(caught.value).endswith("run the same command again to continue.")
    assert not asked.output.exists()
    assert batch.run(asked) == (40, 5)
    again = tmp_path / "again"
    again.mkdir()
    other = job(model, again)
    batch.run(other)
    assert records(asked.output) == records(other.output)


DAMAGES = {
    "zeros": lambda data: data + b"\0" * 4096,
    "zeros in a line": lambda data: data[:-100] + b"\0" * 99 + b"\n",
    "cut off": lambda data: data[:-10],
    "lines lost": lambda data: b"\n".join(data.split(b"\n")[1:]),
    "other lines": lambda data: data + b'{"line": 77}\n',
    "not JSON": lambda data: data + b"what\n",
}


@pytest.mark.parametrize("damage", [*DAMAGES])
def test_a_damaged_part_is_continued_from_its_last_whole_line(
    model: Path, tmp_path: Path, damage: str
) -> None:
    asked = begin(job(model, tmp_path), lines=10)
    part = asked.part(0)
    part.write_bytes(DAMAGES[damage](part.read_bytes()))
    assert batch.run(asked) == (40, 5)
    assert [record["line"] for record in records(asked.output)] == list(range(1, 41))


def test_damage_that_is_seen_at_the_end_gets_one_sentence(model: Path, tmp_path: Path) -> None:
    asked = begin(job(model, tmp_path), lines=10)
    part = asked.part(0)
    lines = part.read_bytes().split(b"\n")
    lines[4] = lines[4].replace(b'": ', b'" ', 2).replace(b'"line" ', b'"line": ')
    part.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=r"Line 5 of '.*0\.jsonl' is damaged\. Delete it and all"):
        batch.run(asked)


def test_parts_are_deleted_once_the_output_is_on_the_disk(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = job(model, tmp_path)
    done: list[str] = []

    def record(name: str, function: Any) -> Any:
        def called(*words: Any, **more: Any) -> Any:
            done.append(name)
            return function(*words, **more)

        return called

    monkeypatch.setattr(batch, "sync", record("sync", batch.sync))
    monkeypatch.setattr(batch, "sync_folder", record("sync folder", batch.sync_folder))
    monkeypatch.setattr(shutil, "rmtree", record("delete", shutil.rmtree))
    monkeypatch.setattr(Path, "replace", record("rename", Path.replace))
    batch.run(asked)
    # The first rename is that of the claim.
    assert done == ["rename", "sync", "rename", "sync folder", "delete"]


def test_what_is_in_the_way_is_refused(model: Path, tmp_path: Path) -> None:
    asked = job(model, tmp_path)
    asked.folder.mkdir()
    lock = batch.lock(asked.folder / "lock", "x")
    with lock, pytest.raises(ConfigError, match="Another process is writing"):
        batch.run(asked)
    asked.output.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="exists already"):
        batch.run(asked)
    assert asked.output.read_text(encoding="utf-8") == "mine"
    other = job(model, tmp_path, output=asked.input.with_name("prompts.jsonl.copy"))
    other.output.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="exists already"):
        batch.run(other)
    assert not other.folder.exists()
    with pytest.raises(ConfigError, match="both input and output"):
        batch.run(job(model, tmp_path, output=asked.input))
    with pytest.raises(DataError, match="Cannot write"):
        batch.run(job(model, tmp_path, output=asked.input / "x"))
    with pytest.raises(DataError, match="There is no file"):
        batch.run(job(model, tmp_path, input=tmp_path / "none", output=tmp_path / "x"))
    with pytest.raises(ConfigError, match="workers is 2, but engine 'vllm'"):
        batch.run(job(model, tmp_path, engine="vllm", workers=2, output=tmp_path / "x"))


# -- the command ----------------------------------------------------------------------------------


def command(*args: Any, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)


def test_text_goes_to_standard_output(model: Path) -> None:
    whole = [sys.executable, "-m", "reviser", "generate", "The cat", "-m", model, "--seed", "3"]
    plain = subprocess.run(whole, capture_output=True, text=True, check=True)
    # No bar of Transformers, either.
    assert plain.stderr == "Reached the end of the model's context.\n"
    (line,) = command("generate", "The cat", "-m", model, "--seed", 3, "--json").stdout.splitlines()
    rollout = Rollout.from_json(line)
    assert plain.stdout == rollout.text + "\n"
    assert rollout.prompt == "The cat"
    assert rollout.provenance["model"] == str(model)
    again = command("generate", "-m", model, "--seed", 3, "--json", stdin="The cat\n")
    assert again.stdout == line + "\n"


def test_gaps_are_filled_from_the_command_line_or_standard_input(model: Path) -> None:
    result = command("infill", "The{} sat.", "-m", model, "--json")
    rollout = Rollout.from_json(result.stdout)
    assert [part.text for part in rollout.locked] == ["The", " sat."]
    assert rollout.text.startswith("The")
    assert rollout.text.endswith(" sat.")
    assert command("infill", "-m", model, "--json", stdin="The{} sat.\n").stdout == result.stdout


def test_every_setting_has_its_option(model: Path) -> None:
    result = command(
        "generate", "a", "-m", model, "--json", "--seed", 7, "--temperature", 0.5, "--top-k", 9,
        "--top-p", 0.8, "--min-p", 0.01, "--max-actions", 11, "--max-length", 40, "--max-edits", 8,
        "--stop-bias", -0.5, "--max-moves", 4, "--move-bias", 1.5,
    )  # fmt: skip
    config = json.loads(result.stdout)["config"]
    assert config == {
        "seed": 7, "temperature": 0.5, "top_k": 9, "top_p": 0.8, "min_p": 0.01, "max_actions": 11,
        "max_length": 40, "max_edits": 8, "stop_bias": -0.5, "max_moves": 4, "move_bias": 1.5,
    }  # fmt: skip


def test_options_reach_the_engine(model: Path) -> None:
    args = ("generate", "a", "-m", model, "--engine-option", "dtype=float64", "--json")
    result = command(*args, "--engine-option", "rows=2")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["stop_reason"]
    for wrong, sentence in [("rows=none", "rows is 'none'"), ("rwos=3", "does not accept these")]:
        assert sentence in command(*args, "--engine-option", wrong).stderr


def test_a_file_of_prompts_becomes_a_file_of_rollouts(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", lines_of(5))
    output = tmp_path / "out.jsonl"
    result = command("generate", "-m", model, "--input", source, "--output", output)
    assert (result.exit_code, result.stdout) == (0, f"{output}: 5 rollouts\n")
    write(source, lines_of(6))
    result = command("generate", "-m", model, "--input", source, "--output", tmp_path / "six.jsonl")
    assert result.exit_code == 1
    advice = f"To see why, look for 'error' in {str(tmp_path / 'six.jsonl')!r}."
    assert result.stderr.endswith(f"error: 1 of 6 lines failed. {advice}\n")


@pytest.mark.parametrize(
    "args",
    [("a", "--input", "x", "--output", "y"), ("--input", "x"), ("--output", "y")],
)
def test_options_that_do_not_go_together_are_refused(model: Path, args: tuple[str, ...]) -> None:
    result = command("generate", "-m", model, *args)
    assert result.exit_code == 2
    assert "--input and --output together" in result.stderr
