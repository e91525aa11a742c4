"""Released checkpoints, against what the paper's own program computes with a tiny one.

The released files are not available here, so the refusals are of files of that shape.
`fixtures/paper-golden/SOURCE.txt` says how the tiny one and its results were made.
"""

import json
import math
import os
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tokenizers import Tokenizer, models, pre_tokenizers

torch = pytest.importorskip("torch", reason="torch is not installed: there are no checkpoints.")

from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from experiments.revise.without_actions import without_actions  # noqa: E402
from reviser.cli import main  # noqa: E402
from reviser.core.actions import ActionVocab  # noqa: E402
from reviser.core.canvas import Canvas  # noqa: E402
from reviser.engines.base import Act, DecodeConfig, Request, Step  # noqa: E402
from reviser.engines.hf import HFEngine  # noqa: E402
from reviser.errors import CheckpointError, ConfigError, VocabError  # noqa: E402
from reviser.lab.checkpoints import CONTEXTS, convert  # noqa: E402
from reviser.models.trunks import TrunkConfig, build, load, rows_for  # noqa: E402
from support.paths import DATA, ROOT  # noqa: E402

VOCAB = ActionVocab.paper()
GOLDEN = ROOT / "tests" / "fixtures" / "paper-golden"
SMALL = {"layers": 2, "width": 128, "mlp_width": 192}
IDS = [15496, 995, 50261, 11, 50264, 198, 50280, 0, 50256, 15496, 50260]
"""Tokens and moves, some of them twice."""

Tensors = dict[str, Any]


def shapes(*, layers: int, width: int, mlp_width: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a released file, as the notes beside the paper list them."""
    names: dict[str, tuple[int, ...]] = {"token_embedding.embedding.weight": (50291, width)}
    for i in range(layers):
        layer = f"layers.layers.{i}"
        for norm in ("ln_self_attn", "ln_mlp"):
            names |= {f"{layer}.{norm}.weight": (width,), f"{layer}.{norm}.bias": (width,)}
        for part in "qkvo":
            names[f"{layer}.self_attn.{part}_proj.weight"] = (width, width)
        names[f"{layer}.mlp.fc1.weight"] = (mlp_width, width)
        names[f"{layer}.mlp.fc1.bias"] = (mlp_width,)
        names[f"{layer}.mlp.fc2.weight"] = (width, mlp_width)
        names[f"{layer}.mlp.fc2.bias"] = (width,)
    return names | {"final_ln.weight": (width,), "final_ln.bias": (width,)}


def released(seed: int = 0) -> Tensors:
    """A small checkpoint with weights large enough that every part shows in the logits."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes(**SMALL).items():
        scale = 0.3 if "embedding" in name else 0.5 if "ln" in name else 0.15
        tensors[name] = scale * torch.randn(shape, generator=generator)
        if "ln" in name and name.endswith("weight"):
            tensors[name] += 1
    return tensors


def with_buffers(tensors: Tensors) -> Tensors:
    """What a released file holds beside the trunk."""
    table = torch.randn(16, 64)
    inside = {f"layers.layers.{i}.self_attn.rope.cos": table for i in range(SMALL["layers"])}
    return tensors | inside | {
        "rope.inv_freq": table[0],
        "layers.rope.sin_cached": table,
        "canvas_pool_position_embedding.weight": table,
        "canvas_embedding.query": table[0],
    }  # fmt: skip


def gpt2_alike(folder: Path) -> Path:
    """A tokenizer of GPT-2's size that reads a greeting as GPT-2's does."""
    pieces = {f"piece{i}": i for i in range(50257)}
    for i, piece in ((15496, "Hello"), (995, "\u0120world"), (50256, "<|endoftext|>")):
        del pieces[f"piece{i}"]
        pieces[piece] = i
    tokenizer = Tokenizer(models.WordLevel(pieces, unk_token="piece0"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


class Case:
    """A file to convert, a tokenizer and a place for the folder."""

    def __init__(self, tmp_path: Path, tokenizer: Path) -> None:
        self.file, self.folder, self.tokenizer = tmp_path / "file.pt", tmp_path / "out", tokenizer

    def convert(self, content: Any, **options: Any) -> TrunkConfig:
        torch.save(content, self.file)
        return convert(self.file, self.folder, tokenizer=self.tokenizer, **options)

    def refusal(self, content: Any, **options: Any) -> str:
        with pytest.raises((CheckpointError, VocabError)) as caught:
            self.convert(content, **options)
        assert not self.folder.exists()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def logits(self, dtype: Any = None) -> Any:
        model = AutoModelForCausalLM.from_pretrained(self.folder, dtype=dtype or torch.float64)
        with torch.no_grad():
            return model(torch.tensor([IDS])).logits[0]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2_alike(tmp_path_factory.mktemp("data") / "gpt2")


@pytest.fixture
def case(tmp_path: Path, tokenizer: Path) -> Case:
    return Case(tmp_path, tokenizer)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory, tokenizer: Path) -> Case:
    case = Case(tmp_path_factory.mktemp("converted"), tokenizer)
    case.convert(with_buffers(released()), without_canvas=True)
    return case


def test_the_folder_is_an_ordinary_one_with_the_papers_vocabulary(converted: Case) -> None:
    assert {path.suffix for path in converted.folder.iterdir()} == {".json", ".safetensors"}
    model, vocab = load(converted.folder)
    assert vocab == VOCAB
    assert model.config.eos_token_id == VOCAB.stop
    assert model.dtype == torch.float32
    assert (converted.logits()[:, 50291:] == 0).all()  # the rows beyond the vocabulary


def test_the_control_tokens_have_their_released_ids(converted: Case) -> None:
    tokenizer = AutoTokenizer.from_pretrained(converted.folder)
    assert len(tokenizer) == VOCAB.size
    names = [*VOCAB.control_tokens]
    assert tokenizer.convert_tokens_to_ids(names) == [*range(50257, 50291)]
    assert tokenizer.eos_token == "<|stop|>"


def test_the_100m_has_half_the_context_of_the_others(case: Case) -> None:
    assert case.convert(released()).context == CONTEXTS[896] == 512
    of_the_100m = shapes(layers=1, width=512, mlp_width=8)
    tensors = {name: torch.zeros(()).expand(shape) for name, shape in of_the_100m.items()}
    assert case.convert(tensors).context == 256


def test_heads_that_do_not_fit_the_width_are_refused(case: Case) -> None:
    with pytest.raises(ConfigError, match="width 128 cannot be divided into 3 heads"):
        case.convert(released(), heads=3)
    assert not case.folder.exists()
    narrow = {name: torch.zeros(s) for name, s in shapes(layers=1, width=8, mlp_width=8).items()}
    assert "Give the number of heads" in case.refusal(narrow)


@pytest.mark.parametrize(
    ("sizes", "millions"),
    [((24, 512, 8, 2048), 101.36), ((26, 896, 14, 3584), 295.75)],
    ids=["100M", "300M"],
)
def test_the_papers_sizes_have_the_papers_parameters(
    sizes: tuple[int, int, int, int], millions: float
) -> None:
    layers, width, heads, mlp_width = sizes
    listed = shapes(layers=layers, width=width, mlp_width=mlp_width)
    count = sum(math.prod(shape) for shape in listed.values())
    assert round(count / 1e6, 2) == millions
    config = TrunkConfig(layers=layers, width=width, heads=heads, mlp_width=mlp_width)
    with torch.device("meta"):
        model = build(config, VOCAB)
    padding = (rows_for(VOCAB.size) - VOCAB.size) * width
    assert model.num_parameters() == count + padding


# -- the paper's own program ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads((GOLDEN / "golden.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, tokenizer: Path, golden: Any) -> Any:
    """The paper's tiny model, converted."""
    folder = tmp_path_factory.mktemp("golden") / "model"
    sizes = {"heads": golden["config"]["n_heads"], "context": 64}
    file = GOLDEN / "checkpoint.pt"
    convert(file, folder, tokenizer=tokenizer, **sizes, without_canvas=True)
    model, vocab = load(folder)
    assert vocab == VOCAB
    return model


def greedy(model: Any, vocab: ActionVocab, requests: Iterable[Request]) -> list[list[int]]:
    """The actions that the engine chooses for each request."""
    engine = HFEngine(model, vocab)
    config = DecodeConfig(temperature=0, max_actions=40)
    asked = (Act(replace(request, config=config)) for request in requests)
    chosen = {engine.add(question): list[int]() for question in asked}
    while answers := engine.step():
        for number, step in answers:
            assert isinstance(step, Step)
            chosen[number].append(step.action)
    return [*chosen.values()]


def as_in_the_paper(vocab: ActionVocab, prefix: list[int]) -> Request:
    """Our request under the paper's mask, which lets the cursor into the prefix.

    That mask also lets reserved ids be chosen, which our vocabulary cannot say. None is chosen in
    these runs, and a larger choice that was not taken changes no greedy action.
    """
    whole = ((0, len(prefix)),)
    return replace(Request.continuation(vocab, prefix), editable=whole)


def test_the_tiny_model_has_the_logits_of_the_papers_program(tiny: Any, golden: Any) -> None:
    begin, *actions = golden["logits"]["history"]
    assert VOCAB.prefix_actions([]) == [begin]
    with torch.no_grad():
        logits = tiny(torch.tensor([[*VOCAB.prefix_actions([]), *actions]])).logits[0]
    expected = torch.tensor(golden["logits"]["values"])
    assert (logits[:, golden["logits"]["columns"]] - expected).abs().max() < 1e-4
    assert expected.std() > 0.5  # so that the line above says something


def test_the_tiny_model_takes_the_actions_of_the_papers_program(tiny: Any, golden: Any) -> None:
    vocab = replace(VOCAB, delete=50259)  # the paper's program lets DELETE be chosen
    runs = golden["greedy"]
    requests = [as_in_the_paper(vocab, run["prefix"]) for run in runs]
    assert greedy(tiny, vocab, requests) == [run["actions"] for run in runs]
    for run in runs:
        history = vocab.prefix_actions(run["prefix"]) + run["actions"]
        assert Canvas.replay(vocab, history).tokens() == run["canvas"]


# -- refusals -------------------------------------------------------------------------------------

EMBEDDING = "token_embedding.embedding.weight"


WIDTH = SMALL["width"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({EMBEDDING: None}, f"missing names {EMBEDDING}."),
        ({"layers.layers.0.mlp.fc1.bias": None}, "missing names layers.layers.0.mlp.fc1.bias."),
        ({"final_ln.bias": None}, "missing names final_ln.bias."),
        ({EMBEDDING: torch.zeros(50291, WIDTH, 1)}, "has the shape (50291, 128, 1); "),
        ({EMBEDDING: torch.zeros(50257, WIDTH)}, "it must be (50291, 128)."),
        ({"final_ln.bias": torch.zeros(WIDTH, 1)}, "'final_ln.bias' has the shape (128, 1); "),
        ({"final_ln.bias": 3}, "'final_ln.bias' in "),
        ({"final_ln.bias": torch.zeros(WIDTH, dtype=torch.int64)}, "'final_ln.bias' in "),
        ({"head.weight": torch.zeros(WIDTH)}, "unknown names head.weight, "),
        ({"layers.layers.9.ln_mlp.bias": torch.zeros(9)}, "unknown names layers.layers.9.ln_mlp"),
        ({7: torch.zeros(1)}, "unknown names 7, "),
        ({f"name{i}": torch.zeros(1) for i in range(6)}, "name0, name1, name2, name3 and 2 more,"),
    ],
)
def test_other_tensors_are_refused_by_name(case: Case, change: Any, message: str) -> None:
    tensors = (released() | change).items()
    assert message in case.refusal({name: each for name, each in tensors if each is not None})


@pytest.mark.parametrize("content", [[1, 2], {"model": [1]}])
def test_a_file_without_a_dict_of_tensors_is_refused(case: Case, content: Any) -> None:
    assert "a released checkpoint is a dict of tensors" in case.refusal(content)


class Intruder:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("intruded",)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_file_is_refused_and_not_run(
    case: Case, zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Intruder()}, case.file, _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match="more than tensors"):
        convert(case.file, case.folder, tokenizer=case.tokenizer)
    assert not Path("intruded").exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_truncated_anywhere_is_refused(case: Case, zipped: bool) -> None:
    tensors = {"final_ln.bias": torch.zeros(9), "final_ln.weight": torch.zeros(9)}
    torch.save({"model": tensors}, case.file, _use_new_zipfile_serialization=zipped)
    whole = case.file.read_bytes()
    for length in range(0, len(whole), 51):
        case.file.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="it is truncated"):
            convert(case.file, case.folder, tokenizer=case.tokenizer)


@pytest.mark.parametrize("content", [b"Hello", b"\x80\x02", b"PK\x03\x04" + bytes(40)])
def test_a_file_of_another_format_is_refused(case: Case, content: bytes) -> None:
    case.file.write_bytes(content)
    with pytest.raises(CheckpointError, match="another format"):
        convert(case.file, case.folder, tokenizer=case.tokenizer)


@pytest.mark.parametrize("change", ["smaller", "other"])
def test_a_tokenizer_other_than_gpt2s_is_refused(case: Case, tmp_path: Path, change: str) -> None:
    text = (case.tokenizer / "tokenizer.json").read_text(encoding="utf-8")
    text = text.replace('"Hello"', '"Hallo"') if change == "other" else text
    text = text.replace('"piece9": 9,', "") if change == "smaller" else text
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    case.tokenizer = tmp_path
    assert "is not GPT-2's, which has 50257" in case.refusal(released())


def run(case: Case, *args: str) -> Result:
    paths = [str(case.file), "-o", str(case.folder), "--tokenizer", str(case.tokenizer)]
    return CliRunner().invoke(main, ["convert", *paths, *args])


def test_the_command_writes_a_folder_and_prints_its_sizes(case: Case) -> None:
    torch.save(with_buffers(released()), case.file)
    refused = run(case, "--context", "300")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "pass --without-canvas" in refused.stderr
    result = run(case, "--context", "300", "--without-canvas")
    assert result.exit_code == 0
    sizes = "2 layers, width 128, 2 heads, MLP width 192, context 300"
    assert result.stdout == f"{case.folder}: {sizes}\n"
    assert load(case.folder)[1] == VOCAB


@pytest.mark.full
def test_one_command_measures_a_released_file_as_the_paper_does(tmp_path: Path) -> None:
    """The script of the guide, with GPT-2's tokenizer and documents of C4."""
    tokenizer, documents = DATA / "gpt2-tokenizer", DATA / "c4-sample" / "c4_sample.jsonl.xz"
    if not (tokenizer.is_dir() and documents.is_file()):
        pytest.skip("The data folder lacks gpt2-tokenizer or c4-sample: name it with REVISER_DATA.")
    torch.save(with_buffers(released()), tmp_path / "released.pt")
    script = ["sh", ROOT / "recipes" / "released.sh", "released.pt", tokenizer, "out"]
    asked = {"TEXT": str(documents), "COUNT": "20"}
    without_actions(ROOT / "models" / "stories-revise", tmp_path / "scorer")
    asked["MEASURES"] = "--scorer scorer"
    for _ in range(2):  # the second time, everything is there
        subprocess.run(script, cwd=tmp_path, env=os.environ | asked, check=True)
    report = (tmp_path / "out" / "report.md").read_text("utf-8")
    record = json.loads((tmp_path / "out" / "eval.json").read_text("utf-8"))
    [system] = [each for each in record["systems"] if each["name"] == "reviser"]
    assert system["samples"] == 60
    assert "Reviser 100M" in report
