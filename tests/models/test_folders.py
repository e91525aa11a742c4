"""Model folders from somebody else: no code is run, nothing is fetched, one sentence says why."""

from __future__ import annotations

import json
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reviser.errors import CheckpointError, ReviserError, VocabError
from reviser.models.hub import find

torch = pytest.importorskip("torch", reason="torch is not installed, so there are no trunks.")

import reviser  # noqa: E402
from reviser.models import trunks  # noqa: E402
from reviser.models.info import describe  # noqa: E402
from support import hostile_folders  # noqa: E402
from support.hostile_folders import Intruder  # noqa: E402


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_folders.tiny_folder(tmp_path_factory.mktemp("source"))


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Path:
    return shutil.copytree(source, tmp_path / "model")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which anything asked for another host."""
    asked: list[Any] = []

    def connect(*words: Any, **_: Any) -> None:
        asked.append(words)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    yield
    assert not asked


def change(path: Path, **fields: Any) -> None:
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(content | fields), encoding="utf-8")


def refusal(folder: Path) -> str:
    """The sentence of a folder that is refused, in little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ReviserError) as caught:
        reviser.load(folder)
    assert len(str(caught.value).splitlines()) == 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300 * 1024, f"{grown} kB"
    return str(caught.value)


# -- adapters and indexes -----------------------------------------------------------------------


@pytest.mark.parametrize("way", ["pickle", "kernel", "module"])
def test_nothing_is_read_through_an_adapter(
    folder: Path, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With peft installed, Transformers opens the base that an adapter names, unchecked."""
    base = shutil.copytree(folder, tmp_path / "base")
    fields: dict[str, Any] = {"peft_type": "LORA", "r": 1, "base_model_name_or_path": str(base)}
    if way == "pickle":
        torch.save({"a": torch.zeros(1)}, base / "weights.bin")
        index = {"metadata": {}, "weight_map": {"model.norm.weight": "weights.bin"}}
        (base / "model.safetensors").unlink()
        (base / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    elif way == "kernel":
        change(base / "config.json", attn_implementation="someone/kernel")
    else:
        fields |= {"megatron_config": {"a": 1}, "megatron_core": "intruder"}
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was read"))
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    (folder / "adapter_config.json").write_text(json.dumps(fields), encoding="utf-8")
    assert "holds an adapter, and only whole models are opened" in refusal(folder)
    with pytest.raises(CheckpointError, match="holds an adapter"):
        trunks.load_base(folder)


@pytest.mark.parametrize(
    "name",
    ["../model.safetensors", "/tmp/x.safetensors", "a/b.safetensors", "..\\x.safetensors",
     "C:x.safetensors", "weights.bin", "", 3, None, ["x.safetensors"]],
)  # fmt: skip
def test_an_index_names_files_of_its_folder_only(folder: Path, name: Any) -> None:
    shutil.copy(folder / "model.safetensors", folder.parent)
    tensors = trunks.load(folder)[0].state_dict()
    (folder / "model.safetensors").unlink()
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, name)}), encoding="utf-8")
    assert "as weights: " in refusal(folder)


@pytest.mark.parametrize("content", [[], ["x"], {}, {"weight_map": ["x.safetensors"]}, None])
def test_an_index_of_the_wrong_kind_is_refused(folder: Path, content: Any) -> None:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert str(path) in refusal(folder)


def test_an_index_of_its_own_files_is_read(folder: Path) -> None:
    tensors = trunks.load(folder)[0].state_dict()
    (folder / "model.safetensors").rename(folder / "one.safetensors")
    path = folder / "model.safetensors.index.json"
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, "one.safetensors")}
    path.write_text(json.dumps(index), encoding="utf-8")
    reviser.load(folder).generate("a", max_actions=2)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_links_out_of_a_folder_are_not_followed_but_those_of_the_hub_are(
    folder: Path, tmp_path: Path, name: str
) -> None:
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    assert "is a link to a file outside of the model folder" in refusal(folder)
    cache = tmp_path / "models--someone--model"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots").mkdir()
    snapshot = folder.rename(cache / "snapshots" / "abc")
    (tmp_path / name).rename(cache / "blobs" / "0123")
    (snapshot / name).unlink()
    (snapshot / name).symlink_to("../../blobs/0123")
    reviser.load(snapshot)


# -- sizes and kinds ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"num_labels": 10**9}, "has 1000000000 as /num_labels; the limit is 10,000"),
        ({"num_hidden_layers": 10**9}, "as /num_hidden_layers; the limit is 10,000"),
        ({"vocab_size": 4 * 10**9}, "as /vocab_size; the limit is 16,777,216"),
        ({"vocab_size": 10**7}, "asks for"),
        ({"hidden_size": 10**5}, "asks for"),
        ({"intermediate_size": 10**9}, "as /intermediate_size"),
        ({"num_attention_heads": 0}, "Cannot open a model"),
        ({"hidden_act": "no_such"}, "Cannot open a model"),
        ({"dtype": "float99"}, "Cannot open a model"),
        ({"dtype": [1]}, "Cannot open a model"),
        ({"hidden_size": "16"}, "Cannot open a model"),
        ({"rope_parameters": 3}, "Cannot open a model"),
        ({"model_type": 3}, "Cannot open a model"),
        ({"model_type": "no_such"}, "Cannot open a model"),
    ],
)
def test_a_config_with_impossible_values_gets_one_sentence(
    folder: Path, fields: dict[str, Any], sentence: str
) -> None:
    change(folder / "config.json", **fields)
    assert sentence in refusal(folder)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"size": 4 * 10**9}, "size is 4000000000; a vocabulary has at most 4,194,304 ids"),
        ({"size": 4 * 10**9, "stop": 4 * 10**9 - 1}, "at most 4,194,304 ids"),
        ({"tokens": 10**30}, "it must be from 1 to size"),
        ({"never_insert": [4 * 10**9]}, "never_insert must name tokens"),
        ({"tokens": "3"}, "must be whole numbers"),
    ],
)
def test_a_vocabulary_of_billions_takes_no_memory(
    folder: Path, fields: dict[str, Any], sentence: str
) -> None:
    change(folder / "action_vocab.json", **fields)
    assert sentence in refusal(folder)


@pytest.mark.parametrize("part", ["vocab", "added_tokens"])
def test_a_token_with_a_huge_id_takes_no_memory(folder: Path, part: str) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    if part == "vocab":
        content["model"]["vocab"]["zzz"] = 4 * 10**9
    else:
        content["added_tokens"][-1]["id"] = 4 * 10**9
    path.write_text(json.dumps(content), encoding="utf-8")
    assert "has an id that is not a whole number from 0 to 4,194,303" in refusal(folder)


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    content["added_tokens"] = []
    vocab = content["model"]["vocab"]
    content["model"]["vocab"] = {token: i for token, i in vocab.items() if i < 260}
    content["model"]["merges"] = []
    path.write_text(json.dumps(content), encoding="utf-8")
    assert "tokens, but its action vocabulary has" in refusal(folder)


FILES = ["config.json", "action_vocab.json", "tokenizer.json", "editing.json"]
CONTENTS = {
    "nested": b'{"a": ' + b"[" * 100_000,
    "nested-within-bounds": b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}",
    "not-utf8": b'{"a": "\xff\xfe"}',
    "list": b"[]",
    "zeros": b"\0" * 100,
    "empty": b"",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [*CONTENTS])
def test_a_file_of_the_wrong_kind_gets_one_sentence(folder: Path, name: str, kind: str) -> None:
    (folder / name).write_bytes(CONTENTS[kind])
    refusal(folder)
    if name != "editing.json" and kind != "nested-within-bounds":  # `info` uses neither
        with pytest.raises(ReviserError) as caught:
            describe(find(folder))
        assert len(str(caught.value).splitlines()) == 1


def test_a_calibration_of_the_wrong_kind_gets_one_sentence(folder: Path) -> None:
    (folder / "editing.json").unlink()
    contents = [content for kind, content in CONTENTS.items() if kind != "nested-within-bounds"]
    contents += [b'{"by": "notes", "precision": [["x", 1]]}', b'{"by": "notes", "precision": 3}']
    contents += [b'{"by": "notes", "precision": [], "curve": [[1]]}']
    for content in contents:
        (folder / "calibration.json").write_bytes(content)
        refusal(folder)


def test_facts_of_the_wrong_kind_get_one_sentence(folder: Path) -> None:
    for content in ({"recipe": 3, "seen": 3, "metrics": 3, "commit": 3}, {"recipe": {}}):
        (folder / "run.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(CheckpointError, match="does not have the content its name promises"):
            describe(folder)


# -- the network ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["flash_attention_2", "flash_attention_3", "paged|flash"])
def test_an_implementation_that_may_be_fetched_is_refused(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the package `kernels` installed, Transformers asks the hub for these."""
    asked: list[str] = []
    monkeypatch.setattr("transformers.modeling_utils.is_kernels_available", lambda: True)
    monkeypatch.setattr("transformers.modeling_utils.lazy_import_flash_attention",
                        lambda name, **_: asked.append(name))  # fmt: skip
    change(folder / "config.json", attn_implementation=name)
    assert f"asks for {name!r} as /attn_implementation" in refusal(folder)
    assert not asked
    change(folder / "config.json", attn_implementation="sdpa")
    reviser.load(folder)


def test_a_folder_is_opened_offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An architecture may fetch compiled code by itself while it is built."""
    import huggingface_hub

    seen: list[bool] = []
    build = trunks.AutoModelForCausalLM.from_pretrained

    def opened(*words: Any, **options: Any) -> Any:
        seen.append(huggingface_hub.constants.is_offline_mode())
        assert options["local_files_only"]
        return build(*words, **options)

    monkeypatch.setattr(trunks.AutoModelForCausalLM, "from_pretrained", opened)
    before = huggingface_hub.constants.HF_HUB_OFFLINE
    reviser.load(folder)
    assert seen == [True]
    assert before == huggingface_hub.constants.HF_HUB_OFFLINE


# -- at random ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_tampered_folders_run_no_code_and_get_one_sentence(source: Path, tmp_path: Path) -> None:
    for n in range(40):
        folder = tmp_path / str(n)
        hostile_folders.tamper(Random(n), source, folder)
        hostile_folders.attempt(folder)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_two_thousand_tampered_folders_run_no_code_and_get_one_sentence() -> None:
    assert hostile_folders.main(2000, seed=100) == 0


def test_pickles_of_the_tests_do_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Intruder()))  # noqa: S301
    assert Path(hostile_folders.INTRUDED).exists()


def test_ids_of_a_vocabulary_have_a_limit() -> None:
    from reviser.core.actions import ActionVocab

    ActionVocab.build(1 << 21)
    with pytest.raises(VocabError, match="at most"):
        ActionVocab.build(1 << 22)
