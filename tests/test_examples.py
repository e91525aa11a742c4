"""Each script in examples/ does what it says, with the shipped model or a tiny one."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from reviser.models.editing import Editing
from support import fuzz, small_tokenizers
from support.processes import Command, run

pytest.importorskip("torch", reason="torch is not installed, so nothing can write.")

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
STORIES = ROOT / "models" / "stories-revise"
PROMPT = "Ben had a red ball."


def example(name: str, *args: str | Path, cwd: Path = ROOT) -> Command:
    done = run(EXAMPLES / name, *args, cwd=cwd)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def test_every_example_is_in_the_list_and_has_a_test() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    tested = Path(__file__).read_text("utf-8")
    assert len(scripts) == 10
    for name in scripts:
        assert f"[`{name}`]({name})" in listed
        assert f'"{name}"' in tested


def test_continue() -> None:
    text, counts = example("continue_text.py").stdout.rsplit("\n(", 1)
    assert text.startswith(PROMPT)
    assert len(text) > len(PROMPT)
    assert "actions" in counts


def test_fill() -> None:
    text = example("fill_gap.py").stdout.strip()
    assert text.startswith("Ben ran home. ")
    assert text.endswith(" Mom smiled.")
    assert "  " not in text


def test_revise(tmp_path: Path) -> None:
    fuzz.folder_of_a_fresh_model(tmp_path / "editor", tokenizer=small_tokenizers.byte_level())
    Editing().save(tmp_path / "editor")
    (tmp_path / "draft.md").write_text("It have a end.")
    shown = example("revise_file.py", "draft.md", "editor", cwd=tmp_path).stdout
    assert "changes" in shown
    assert (tmp_path / "draft.md.revised").is_file()


def test_company_terms(tmp_path: Path) -> None:
    draft = "We use acme cloud.\nSend an e-mail to the Acme Desk on monday: see acme cloud.com.\n"
    (tmp_path / "draft.txt").write_text(draft)
    assert example("company_terms.py", tmp_path / "draft.txt").stdout == (
        "acme cloud -> Acme Cloud: We write 'Acme Cloud'.\n"
        "e-mail -> email: We write 'email'.\n"
        "Acme Desk -> Acme Board: We write 'Acme Board'.\n"
        "monday -> Monday: Days and months are written with a capital letter.\n"
    )


WIDGET = '''
"""A Tk that keeps the text of its widget and prints it."""

class Tk:
    def update(self): ...
    def mainloop(self): print(Text.all[0].text)

class Text:
    all = []
    def __init__(self, window, wrap): self.text = ""; Text.all.append(self)
    def pack(self, **how): ...
    def at(self, index): return 0 if index == "1.0" else int(index.split()[2])
    def delete(self, start, end): self.text = self.text[:self.at(start)] + self.text[self.at(end):]
    def insert(self, at, text):
        self.text = self.text[:self.at(at)] + text + self.text[self.at(at):]
    def mark_set(self, name, at): assert 0 <= self.at(at) <= len(self.text)
'''


def test_stream(tmp_path: Path) -> None:
    """Tk needs a display, so another module has its name: the folder of a script comes first."""
    (tmp_path / "tkinter.py").write_text(WIDGET)
    script = shutil.copy(EXAMPLES / "stream_to_editor.py", tmp_path)
    done = run(script, PROMPT, STORIES)
    assert done.returncode == 0, done.stderr[-2000:]
    expected = example("continue_text.py", PROMPT, STORIES).stdout.rsplit("\n(", 1)[0]
    assert done.stdout.removesuffix("\n") == expected


def test_batch(tmp_path: Path) -> None:
    lines = [{"prompt": PROMPT}, {"infill": "Ben ran home. {} Mom smiled."}, {"draft": "no"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = example("batch_file.py", tmp_path / "in.jsonl", tmp_path / "out.jsonl").stdout
    assert shown.endswith("out.jsonl: 3 lines, 1 with an error\n")
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert records[0]["text"].startswith(PROMPT)
    assert "error" in records[2]


@pytest.mark.full
def test_serve() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first, second = example("serve_and_call.py", STORIES, str(port)).stdout.split("Ben ran home. ")
    assert first.startswith(PROMPT)
    assert second.strip().endswith(" Mom smiled.")


@pytest.mark.full
def test_train(tmp_path: Path) -> None:
    example("train_on_text.py", ROOT / "recipes" / "smoke.txt", tmp_path / "model", "2")
    assert (tmp_path / "model" / "action_vocab.json").is_file()


@pytest.mark.full
def test_solve(tmp_path: Path) -> None:
    example("solve.py", tmp_path / "model", "2")
    assert (tmp_path / "model" / "action_vocab.json").is_file()


@pytest.mark.full
def test_adapt(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

    tokenizer = small_tokenizers.byte_level()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "max_position_embeddings": 512}
    config = LlamaConfig(vocab_size=tokenizer.get_vocab_size(), **sizes, **heads)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "base")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path / "base")
    text = ROOT / "recipes" / "smoke.txt"
    short = "evaluation.examples=8"
    example("adapt_model.py", tmp_path / "base", text, tmp_path / "model", "2", short)
    assert (tmp_path / "model" / "action_vocab.json").is_file()
