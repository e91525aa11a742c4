"""Model folders from somebody else: no code is run, nothing is fetched, one sentence says why."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import struct
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reviser.core.codec import Codec
from reviser.errors import CheckpointError, ReviserError, VocabError
from reviser.models import hub
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
    """Change fields of a file; `a__b` is the field `b` of `a`, or its item number `b`."""
    content = json.loads(path.read_text("utf-8"))
    for name, value in fields.items():
        *keys, last = (int(key) if key.isdigit() else key for key in name.split("__"))
        inside = content
        for key in keys:
            inside = inside[key]
        inside[last] = value
    path.write_text(json.dumps(content), encoding="utf-8")


def refusal(folder: Path, use: Callable[[Path], Any] = reviser.load) -> str:
    """The sentence of a folder that is refused, in little memory and time."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(ReviserError) as caught:
        use(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert time.process_time() - began < 10
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
    reviser.load(folder).revise("a")


FOLDER_FILES = [
    "model.safetensors", "config.json", "tokenizer.json", "README.md", "chat_template.jinja",
]  # fmt: skip


@pytest.mark.parametrize("name", FOLDER_FILES)
def test_links_out_of_a_folder_are_not_followed_but_those_of_the_hub_are(
    folder: Path, tmp_path: Path, name: str
) -> None:
    (folder / "chat_template.jinja").touch()
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


@pytest.mark.parametrize("name", ["x.json", "x.safetensors", "run.json", "README.md",
                                  "model.safetensors.index.json", "tokenizer.json"])  # fmt: skip
@pytest.mark.parametrize("kind", ["pipe", "folder", "endless", "circle", "nowhere"])
def test_what_is_not_a_file_is_refused_before_it_is_opened(
    folder: Path, name: str, kind: str
) -> None:
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"endless": "/dev/zero", "circle": name, "nowhere": "no such"}[kind])
    sentence = "is a link to a file outside" if kind == "endless" else "must be a file, and is a"
    assert sentence in refusal(folder, find)


def test_settings_count_for_the_identity_of_a_model_and_descriptions_do_not(folder: Path) -> None:
    kinds = (hub.MODEL_FILES, hub.CONFIG_FILES)
    before = [hub.fingerprint(folder, files) for files in kinds]
    (folder / "README.md").write_text("# Another text", encoding="utf-8")
    (folder / "run.json").write_text("{}", encoding="utf-8")
    assert [hub.fingerprint(folder, files) for files in kinds] == before
    change(folder / "editing.json", threshold=0.7)
    after = [hub.fingerprint(folder, files) for files in kinds]
    assert not {*before} & {*after}


@pytest.mark.parametrize("name", ["x" * 5000, "\0", "a/" * 5000])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    assert "is not the name of a folder or model" in refusal(Path(name), find)


# -- sizes and kinds ------------------------------------------------------------------------------


def add_tensors(folder: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    """Add or replace tensors, each a type, a shape and a number of bytes that hold zeros.

    The file is sparse: it takes no room on the disk.
    """
    path = folder / "model.safetensors"
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, end = json.loads(data[8 : 8 + size]), len(data) - 8 - size
    for name, (kind, shape, count) in tensors.items():
        if name in header:  # its values stay, under another name
            header[f"{name}.old"] = header.pop(name)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + count]}
        end += count
    new = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(new)) + new + data[8 + size :])
        file.truncate(8 + len(new) + end)


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        # Read in another type than the model's, it would be copied into memory as a whole.
        ({"model.embed_tokens.weight": ("F16", [1 << 28, 16], 1 << 33)},
         "in another shape. The first is model.embed_tokens.weight"),
        # Transformers may take a tensor of another name for one of the model's.
        ({"embed_tokens.weight": ("F16", [1 << 28, 16], 1 << 33)},
         "the two do not belong together"),
        ({f"e{n}": ("F32", [0], 0) for n in range(60_000)},
         "have 60,011 tensors, but the model of its config has 13"),
        ({f"{n:01000}": ("F32", [0], 0) for n in range(40_000)}, "larger than 32 MiB"),
    ],
    ids=["a tensor of gigabytes", "far larger than the model", "many tensors", "a long header"],
)  # fmt: skip
def test_weights_of_other_sizes_than_the_model_are_refused_by_their_header(
    folder: Path, tensors: dict[str, Any], sentence: str
) -> None:
    add_tensors(folder, tensors)
    assert sentence in refusal(folder)


DOUBLING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BETWEEN = {"type": "Replace", "pattern": {"Regex": "a*"}, "content": "aaa"}
LIGATURE = {"type": "Replace", "pattern": {"Regex": "."}, "content": "\ufdfa"}
"""Writes a character that NFKD takes apart into 18."""
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def chain(steps: list[dict[str, Any]], part: str = "normalizer") -> dict[str, Any]:
    inside = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}[part]
    return {part: {"type": "Sequence", inside: steps}}


def charsmap(table: bytes, texts: bytes, size: int | None = None) -> dict[str, Any]:
    """A normalizer with SentencePiece's map of characters: a table after its size, and texts."""
    data = struct.pack("<I", len(table) if size is None else size) + table + texts
    return {"normalizer": {"type": "Precompiled", "precompiled_charsmap": b64encode(data).decode()}}


LONG = "the limits are 64 steps and 100 times"
TOO_LARGE_ID = "has an id that is not a whole number from 0 to 4,194,303"
DAMAGED = "tokenizer.json"
"""The tokenizers library says why."""


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (chain([DOUBLING] * 7), LONG),
        (chain([{key: value for key, value in DOUBLING.items() if key != "type"}] * 30), LONG),
        (chain([chain([DOUBLING] * 10)["normalizer"]] * 3), LONG),
        (chain([BETWEEN] * 15), LONG),
        (chain([BYTES] * 20, "pre_tokenizer"), LONG),
        (chain([{"type": "Lowercase"}] * 100_000), LONG),
        (chain([{"type": "Prepend", "prepend": "a" * 10**6}]), LONG),
        (chain([DOUBLING] * 2000), LONG),
        (chain([LIGATURE, {"type": "NFKD"}] * 2), LONG),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, DAMAGED),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": None}}, DAMAGED),
        ({"normalizer": {"type": "Precompiled"}}, DAMAGED),
        # for which tokenizers ends the process
        (charsmap(bytes(8), b"a\0", size=2**32 - 1), DAMAGED),
        (charsmap(b"", b"a\0"), DAMAGED),
        (charsmap(bytes(8), b"\xff\0"), DAMAGED),
        (charsmap(bytes(8), b"a" * 1000), DAMAGED),
        ({"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "a"}}, DAMAGED),
        # With one, tokenizers may end the process: it cuts merges within characters.
        ({"model__continuing_subword_prefix": "0"}, "has a continuing_subword_prefix, which is"),
        ({"model__continuing_subword_prefix": "##"}, "has a continuing_subword_prefix, which is"),
        ({"model__vocab__zzz": 4 * 10**9}, TOO_LARGE_ID),
        ({"added_tokens__0__id": 4 * 10**9}, TOO_LARGE_ID),
    ],
)
def test_a_hostile_tokenizer_is_refused_before_it_is_used(
    folder: Path, fields: dict[str, Any], sentence: str
) -> None:
    change(folder / "tokenizer.json", **fields)
    assert sentence in refusal(folder)


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    vocab = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    fewer = {token: i for token, i in vocab.items() if i < 260}
    change(folder / "tokenizer.json", added_tokens=[], model__vocab=fewer, model__merges=[])
    assert "tokens, but its action vocabulary has" in refusal(folder)


def test_merges_that_are_left_out_at_random_are_not(folder: Path) -> None:
    plain, text = Codec.load(folder), "the cat sat on the mat" * 3
    change(folder / "tokenizer.json", model__dropout=0.5)
    codec = Codec.load(folder)
    assert codec.encode(text) == codec.encode(text) == plain.encode(text)


def test_of_a_key_that_a_tokenizer_has_twice_what_was_checked_is_read(folder: Path) -> None:
    path = folder / "tokenizer.json"
    ids = Codec.load(folder).encode("a cat")
    damaged = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    twice = json.dumps({"normalizer": damaged})[:-1] + ", " + path.read_text("utf-8")[1:]
    path.write_text(twice, encoding="utf-8")
    assert Codec.load(folder).encode("a cat") == ids


def test_a_tokenizer_that_panics_over_a_text_refuses_that_text(folder: Path) -> None:
    change(folder / "tokenizer.json", **charsmap(struct.pack("<I", 1 << 30), b"a\0"))
    codec = Codec.load(folder)
    for encode in (codec.encode, lambda text: codec.encode_batch([text])):
        with pytest.raises(VocabError, match="The tokenizer cannot encode"):
            encode("a cat")
        with pytest.raises(VocabError, match="The tokenizer cannot encode"):
            encode("a cat" * 1000)
    with reviser.load(folder) as model, pytest.raises(VocabError, match="cannot encode"):
        model.revise("a cat")


def test_a_map_of_characters_that_is_valid_is_used(folder: Path) -> None:
    spm = pytest.importorskip("sentencepiece")
    pieces = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")
    from io import BytesIO

    written = BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat"] * 9), model_writer=written,
        vocab_size=30, hard_vocab_limit=False, minloglevel=5, normalization_rule_name="nmt_nfkc",
    )  # fmt: skip
    model = pieces.ModelProto()
    model.ParseFromString(written.getvalue())
    data = model.normalizer_spec.precompiled_charsmap
    fields = {"type": "Precompiled", "precompiled_charsmap": b64encode(data).decode()}
    change(folder / "tokenizer.json", normalizer=fields)
    codec = Codec.load(folder)
    assert codec.decode(codec.encode("\uff21 \u2460 cat")) == "A 1 cat"


CONFIG, ACTIONS = "config.json", "action_vocab.json"


@pytest.mark.parametrize(
    ("file", "fields", "sentence"),
    [
        (CONFIG, {"num_labels": 10**9}, "has 1000000000 as /num_labels; the limit is 10,000"),
        (CONFIG, {"num_hidden_layers": 10**9}, "as /num_hidden_layers; the limit is 1,000"),
        (CONFIG, {"num_hidden_layers": 999}, "for 999 layers, but the weights have 11 tensors"),
        (CONFIG, {"vocab_size": 4 * 10**9}, "as /vocab_size; the limit is 16,777,216"),
        (CONFIG, {"vocab_size": 10**7}, "asks for"),
        (CONFIG, {"hidden_size": 10**5}, "asks for"),
        (CONFIG, {"intermediate_size": 10**9}, "as /intermediate_size"),
        (CONFIG, {"num_attention_heads": 0}, "Cannot open a model"),
        (CONFIG, {"hidden_act": "no_such"}, "Cannot open a model"),
        (CONFIG, {"dtype": "float99"}, "Cannot open a model"),
        (CONFIG, {"dtype": [1]}, "Cannot open a model"),
        (CONFIG, {"hidden_size": "16"}, "Cannot open a model"),
        (CONFIG, {"rope_parameters": 3}, "Cannot open a model"),
        (CONFIG, {"model_type": 3}, "Cannot open a model"),
        (CONFIG, {"model_type": "no_such"}, "Cannot open a model"),
        (ACTIONS, {"size": 4 * 10**9}, "is 4000000000; a vocabulary has at most 4,194,304 ids"),
        (ACTIONS, {"size": 4 * 10**9, "stop": 4 * 10**9 - 1}, "at most 4,194,304 ids"),
        (ACTIONS, {"tokens": 10**30}, "it must be from 1 to size"),
        (ACTIONS, {"never_insert": [4 * 10**9]}, "never_insert must name tokens"),
        (ACTIONS, {"tokens": "3"}, "must be whole numbers"),
    ],
)
def test_impossible_values_get_one_sentence_and_no_memory(
    folder: Path, file: str, fields: dict[str, Any], sentence: str
) -> None:
    change(folder / file, **fields)
    assert sentence in refusal(folder)


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
