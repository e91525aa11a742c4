"""The proofreader experiment: its data, its model and its training, at a small size."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))

torch = pytest.importorskip("torch")
pytest.importorskip("lemminflect")
pytest.importorskip("symspellpy")

import proofreader_modules  # noqa: E402

from reviser.core.canvas import Canvas  # noqa: E402
from reviser.data.mistakes import apply  # noqa: E402

FOLDER, module = proofreader_modules.FOLDER, proofreader_modules.opened
examples, mistakes, model, train = map(module, ("examples", "mistakes", "model", "train"))

TEXT = "The cats sat on the mat, and they were happy. However, a dog barked at these birds."
TAGS = "DT NNS VBD IN DT NN , CC PRP VBD JJ . RB , DT NN VBD IN DT NNS ."


def spans(text, tags):
    """Split a text at words and marks, as the tags count them."""
    import re

    found = [m.span() for m in re.finditer(r"\w+|[^\w\s]", text)]
    assert len(found) == len(tags.split())
    return [bound for span in found for bound in span]


UNIT = {"text": TEXT, "spans": spans(TEXT, TAGS), "tags": TAGS, "source": "test"}


@pytest.fixture
def opened(base):
    return examples.open_tokenizer(base)


def proofreader(base, opened, **options):
    vocab, _, newline = opened
    return model.Proofreader(
        base, vocab, newline=newline, **{"frozen": 2, "rank": 4, "alpha": 4.0} | options
    )


# -- mistakes ---------------------------------------------------------------------------------


def drawn(seed, clean=0.0):
    words = mistakes.read_words(TEXT, UNIT["spans"], TAGS)
    return mistakes.draw_mistakes(TEXT, words, np.random.default_rng(seed), clean=clean)


def test_every_kind_of_mistake_is_drawn():
    kinds = {mistake.kind for n in range(3000) for mistake in drawn(n)}
    # These have no site in this text.
    assert {kind.name for kind in mistakes.kinds()} - kinds <= {
        "apostrophe", "article extra", "other punctuation", "word choice", "word form"
    }  # fmt: skip


# -- examples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 1, 3, 6])
def test_a_history_turns_the_draft_into_the_text(opened, delay):
    vocab, codec, _ = opened
    for n in range(60):
        draft = apply(TEXT, drawn(n))
        example = examples.encode(vocab, codec, draft, TEXT, delay=delay)
        canvas = Canvas.replay(vocab, example.ids.tolist())
        assert codec.decode(canvas.tokens()) == TEXT


def test_the_baseline_learns_to_write_the_whole_text(opened):
    vocab, codec, _ = opened
    draft = TEXT.replace("these birds", "these bird")
    example = examples.encode_rewriting(vocab, codec, draft, TEXT)
    learned = example.targets[example.parts == examples.CONTENT]
    assert codec.decode(learned.tolist()) == TEXT
    assert example.targets[example.parts == examples.STOP].tolist() == [vocab.stop]
    at = np.flatnonzero(example.targets >= 0)
    assert example.targets[at].tolist() == example.ids[at + 1].tolist()
    assert codec.decode(example.ids[3 : 3 + example.size].tolist()) == draft


def test_an_edit_is_judged_after_the_delay(opened):
    vocab, codec, _ = opened
    draft = TEXT.replace("these birds", "these bird")
    example = examples.encode(vocab, codec, draft, TEXT, delay=3)
    judged = examples.Layout(3).judged(example.size)
    assert (example.parts == examples.DETECTION).nonzero()[0].tolist() == list(
        range(judged.start, judged.stop)
    )
    (boundary,) = np.flatnonzero(example.targets[judged] != vocab.stop)
    tokens = codec.encode(draft)
    assert codec.decode(tokens[:boundary]).endswith("bird")
    # The label stands where three more ids have been read: the full stop and two delimiters.
    read = example.ids[: judged.start + boundary + 1].tolist()
    assert read[-3:] == [tokens[boundary], vocab.delimiter, vocab.delimiter]


def test_the_end_of_a_draft_is_judged(opened):
    vocab, codec, _ = opened
    example = examples.encode(vocab, codec, TEXT[:-1], TEXT)
    judged = examples.Layout().judged(example.size)
    labels = example.targets[judged]
    assert labels[-1] == vocab.find
    assert (labels[:-1] == vocab.stop).all()
    assert example.ids[judged.stop - 1] == vocab.delimiter
    assert example.ids[judged.stop] == vocab.back


def test_a_clean_text_stops_at_once(opened):
    vocab, codec, _ = opened
    example = examples.encode(vocab, codec, TEXT, TEXT)
    assert example.ids[-2:].tolist() == [vocab.back, vocab.stop]
    assert set(example.targets[example.targets >= 0].tolist()) == {vocab.stop}


# -- model ------------------------------------------------------------------------------------


def test_the_model_is_the_base_with_adapters_off(base, opened):
    from transformers import AutoModelForCausalLM

    ours = proofreader(base, opened)
    with torch.no_grad():
        for value in ours.lora.values():
            value.normal_()
    ids = torch.tensor([[0, 5, 9, 17, 30, 2, 8]])
    theirs = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    with torch.no_grad():
        expected = theirs(ids).logits
    torch.testing.assert_close(ours.base_logits(ids), expected, atol=1e-5, rtol=1e-4)


def test_peft_reads_the_adapter(base, opened, tmp_path):
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    ours = proofreader(base, opened)
    with torch.no_grad():
        for value in ours.lora.values():
            value.copy_((0.2 * torch.randn_like(value)).half())
    ours.save_adapter(tmp_path)
    again = proofreader(base, opened, seed=1)
    again.load_adapter(tmp_path)
    theirs = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), tmp_path)
    ids = torch.tensor([[0, 5, 9, 17, 30, 2, 8]])
    with torch.no_grad():
        expected = theirs(ids).logits
        for each in (ours, again):
            hidden = each.upper(each.lower(ids).float())
            torch.testing.assert_close(hidden @ each.table.T, expected, atol=5e-3, rtol=5e-2)


def test_an_adapter_of_another_shape_is_refused(base, opened, tmp_path):
    proofreader(base, opened).save_adapter(tmp_path)
    with pytest.raises(ValueError, match="has rank, alpha and first layer"):
        proofreader(base, opened, rank=8).load_adapter(tmp_path)


def test_the_merged_model_is_the_same(base, opened, tmp_path):
    from transformers import AutoModelForCausalLM

    from reviser.models import adapters

    vocab = opened[0]
    ours = proofreader(base, opened)
    with torch.no_grad():
        for value in ours.parameters():
            value.copy_((0.2 * torch.randn_like(value)).half())
    ours.save_adapter(tmp_path / "adapter")
    adapters.merge(tmp_path / "adapter", tmp_path / "merged", base=base)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)
    ids = torch.tensor([[0, vocab.delimiter, vocab.mark, 5, 9, 17, vocab.back]])
    with torch.no_grad():
        expected = theirs(ids).logits[..., : vocab.size]
        found = ours.logits(ours.upper(ours.lower(ids)))
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=5e-3)
    assert type(vocab).load(tmp_path / "merged") == vocab


def test_control_rows_are_distinct_and_fixed(base, opened):
    vocab = opened[0]
    one, two = (proofreader(base, opened, seed=seed).inputs[vocab.tokens :] for seed in (0, 1))
    assert torch.equal(one, two)
    assert torch.cdist(one, one).fill_diagonal_(9).min() > 0.01


# -- training ---------------------------------------------------------------------------------


@pytest.fixture
def units(tmp_path):
    folder = tmp_path / "units"
    folder.mkdir()
    line = json.dumps(UNIT)
    (folder / "train.jsonl").write_text(f"{line}\n" * 40)
    (folder / "held_out.jsonl").write_text(f"{line}\n" * 5)
    return folder


SETTINGS = {
    "frozen": 2,
    "rank": 4,
    "alpha": 4.0,
    "chunk": 12,
    "passes": 2,
    "batch": 400,
    "held_out": 5,
}


def run(units, base, output, steps, **options):
    trainer = train.Trainer(units, base, output, train.Settings(**SETTINGS | options))
    trainer.run(steps=steps, save_seconds=1e9, log_every=5, evaluate_every=10)
    return trainer


def test_a_resumed_run_has_the_same_weights(units, base, tmp_path):
    whole = run(units, base, tmp_path / "whole", 21)
    for steps in (4, 9, 21):  # the second stop falls into another chunk or pass
        part = run(units, base, tmp_path / "part", steps)
    assert part.step == whole.step == 21
    assert (part.chunk, part.number, part.batch) == (whole.chunk, whole.number, whole.batch)
    for name, value in whole.model.named_parameters():
        assert torch.equal(value, dict(part.model.named_parameters())[name]), name
        assert torch.equal(whole.average[name], part.average[name]), name


def test_a_lost_cache_changes_nothing(units, base, tmp_path):
    whole = run(units, base, tmp_path / "whole", 11)
    run(units, base, tmp_path / "part", 5)
    (tmp_path / "part/cache.f16").unlink()
    part = run(units, base, tmp_path / "part", 11)
    for name, value in whole.model.named_parameters():
        assert torch.equal(value, dict(part.model.named_parameters())[name]), name


def test_a_killed_run_resumes_exactly(units, base, tmp_path):
    whole = run(units, base, tmp_path / "whole", 12)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, FOLDER / "train.py", units, base, "-o", tmp_path / "part"]
    command += ["--steps=100000", "--save-seconds=0", "--log-every=1", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if json.loads(line)["step"] >= 6:
                process.kill()
                break
    saved = torch.load(tmp_path / "part/checkpoint.pt", weights_only=True)
    assert 5 <= saved["at"][0] <= 12
    part = run(units, base, tmp_path / "part", 12)
    for name, value in whole.model.named_parameters():
        assert torch.equal(value, dict(part.model.named_parameters())[name]), name


def test_other_settings_are_refused(units, base, tmp_path):
    run(units, base, tmp_path / "part", 2)
    with pytest.raises(SystemExit, match="other settings: rank"):
        run(units, base, tmp_path / "part", 4, rank=8)


def test_training_lowers_the_loss(units, base, tmp_path):
    run(units, base, tmp_path / "run", 60, learning_rate=1e-2, warmup=5)
    lines = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert lines[-1]["detection"] < 0.7 * lines[0]["detection"]
    assert lines[-1]["content"] < lines[0]["content"]
    curve = (tmp_path / "run/curve.jsonl").read_text().splitlines()
    assert json.loads(curve[-1])["step"] == 60
    assert (tmp_path / "run/adapter/adapter_model.safetensors").is_file()


def test_the_page_is_what_the_results_give():
    for path, text in module("page").written().items():
        assert path.read_text("utf-8") == text, "python page.py in experiments/proofreader"
