"""Model folders that somebody else has tampered with: `python -m support.hostile_folders 2000`.

Each is a copy of a tiny model folder with one to three changes, drawn from a seed: values of any
JSON file, its bytes, the headers of the weights, the steps of the tokenizer, pipes and links,
sizes, and files that try to have code run. `attempt` opens one as a user does, and says what
happened: a model that writes, or one sentence.
"""

from __future__ import annotations

import builtins
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import reviser
from reviser.core.actions import ActionVocab
from reviser.errors import ReviserError
from reviser.models.editing import Editing
from reviser.models.hub import CONFIG_FILES, find, fingerprint
from reviser.models.info import describe
from support import small_tokenizers

INTRUDED = "intruded"
"""A file that any code from a folder creates in the working folder."""
INTRUSION = f"open({INTRUDED!r}, 'w').close()\nraise SystemExit('code was run')\n"
SECONDS, MEGABYTES = 20, 500
"""CPU seconds, and growth of the memory, that no folder may take. Tests run while others do."""


class Intruder:
    """An object whose unpickling runs code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (INTRUDED,)


def tiny_folder(folder: Path) -> Path:
    """Write a model folder of about 100 kB with every file that a model may have."""
    from reviser.models import trunks

    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(
        tokenizer, operators=["delete"], max_move=8, marks=True, search=True
    )
    sizes = {"layers": 1, "width": 16, "heads": 2, "mlp_width": 24, "context": 64}
    trunk = trunks.build(trunks.TrunkConfig(architecture="llama", **sizes), vocab, seed=3)
    trunks.save(trunk, tokenizer, vocab, folder)
    Editing(True, calibration=((0.3, 0.6), (0.5, 0.7)), threshold=0.1).save(folder)
    (folder / "README.md").write_text("# A model\n", encoding="utf-8")
    return folder


# -- changes ----------------------------------------------------------------------------------


VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 3, 7, 65, 10**6, 4 * 10**9, 2**63, 10**30, 0.5, -1.5, 1e308,
    float("inf"), float("nan"), "", "0", "x" * 3000, "\ud800", "\0", "../x.safetensors",
    "/etc/passwd", "someone/kernel", "flash_attention_2", "weights.bin", "os.system", [], {}, [[]],
    [1, "a", None], {"a": {"b": []}}, [0] * 1000,
)  # fmt: skip
SETTINGS: dict[str, tuple[Any, ...]] = {
    "model_type": ("gpt2", "gptj", "mamba", "rwkv", "gpt_neox", "mixtral", "bloom", "own", "t5"),
    "hidden_act": ("gelu", "no_such", "__import__", "relu2"),
    "dtype": ("float16", "bfloat16", "int8", "float99", "cuda", "os"),
    "attn_implementation": ("flash_attention_2", "flash_attention_3", "someone/kernel", "eager"),
    "_attn_implementation": ("flash_attention_2", "kernels-community/flash-attn", "sdpa"),
    "experts_implementation": ("deepgemm", "someone/kernel", "eager"),
    "transformers_weights": ("weights.bin", "../model.safetensors", "inside/model.safetensors"),
    "quantization_config": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True}, {"quant_method": "gptq", "bits": 4},
        {"quant_method": "mxfp4"}, {"quant_method": "fp8"}, {"quant_method": "none"},
    ),
    "auto_map": ({"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"},),
    "architectures": (["GPT2LMHeadModel"], ["no_such"], "LlamaForCausalLM"),
    "num_labels": (10**9,), "num_hidden_layers": (10**9, 300, -1), "n_layer": (10**9,),
    "vocab_size": (4 * 10**9, 10**8, 1), "hidden_size": (10**9, 10**5, 15),
    "num_attention_heads": (0, 10**9, 3), "num_key_value_heads": (0, 3, 10**9),
    "max_position_embeddings": (0, -1, 10**12, "many"), "head_dim": (0, 10**9, 7),
    "rope_parameters": ({"rope_type": "no_such"}, {"rope_type": "yarn", "factor": "x"}, 3),
    "layer_types": (["full_attention"] * 10**5, ["no_such"]), "pad_token_id": (10**12, "x"),
    "id2label": ({str(n): "a" for n in range(1000)}, 5), "torch_dtype": ("os.system", 3),
    "is_encoder_decoder": (True,), "tie_word_embeddings": (False,), "use_cache": ("no",),
}  # fmt: skip
"""Keys of a config that libraries act on, with values to try."""


def own_files(folder: Path, pattern: str) -> list[Path]:
    """Return the small files that are not links: one may lead to a file without an end."""
    found = (path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink())
    return sorted(path for path in found if path.stat().st_size < 1 << 26)


def change_value(rng: Random, folder: Path) -> None:
    """Replace, remove or repeat a value anywhere in a JSON file."""
    path = rng.choice(own_files(folder, "*.json"))
    content = json.loads(path.read_text("utf-8"))
    inside, key = content, None
    while isinstance(inside, dict | list) and inside and (key is None or rng.random() < 0.6):
        parent = inside
        key = rng.choice([*inside]) if isinstance(inside, dict) else rng.randrange(len(inside))
        inside = inside[key]
    how = rng.random()
    if key is None:
        content = rng.choice(VALUES)
    elif how < 0.15:
        del parent[key]
    elif how < 0.25:
        parent[key] = [inside] * 3
    else:
        parent[key] = rng.choice(VALUES)
    path.write_text(json.dumps(content), encoding="utf-8")


def change_setting(rng: Random, folder: Path) -> None:
    """Set a key of the config that libraries act on."""
    path = folder / "config.json"
    if path not in own_files(folder, "*.json"):
        return
    content = json.loads(path.read_text("utf-8"))
    if isinstance(content, dict):
        key = rng.choice([*SETTINGS])
        content[key] = rng.choice(SETTINGS[key])
        path.write_text(json.dumps(content), encoding="utf-8")


def change_bytes(rng: Random, folder: Path) -> None:
    """Change the bytes of a file: one of them, its end, or all."""
    path = rng.choice([path for path in own_files(folder, "*") if path.stat().st_size])
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    how = rng.randrange(6)
    if how == 0:
        data[at] = rng.randrange(256)
    elif how == 1:
        del data[at:]
    elif how == 2:
        data[at:at] = rng.choice((b"\0" * 100, b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000))
    elif how == 3:
        data[at : at + 50] = b"\0" * 50
    elif how == 4:
        data[:] = rng.choice((b"[]", b"null", b"3", b'"x"', b"{}", b"\xff", b"[" * 100_000))
    else:
        data += rng.choice((b"\0", b"}", b"\n\n{}", b"\xff"))
    path.write_bytes(data)


def change_header(rng: Random, folder: Path) -> None:
    """Change what the header of the weights says: names, shapes, types, offsets, its own size."""
    path = rng.choice(own_files(folder, "*.safetensors"))
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    if not 0 < size < len(data):
        return
    try:
        header = json.loads(data[8 : 8 + size])
        name = rng.choice([key for key in header if key != "__metadata__"])
        entry = header[name]
        field = rng.choice([*entry])
    except (ValueError, LookupError, TypeError, RecursionError):
        return
    how = rng.randrange(7)
    grown = 0
    if how == 5:  # gigabytes that are not on the disk: a sparse file
        grown = rng.choice((10**9, 8 * 10**9)) // 64 * 64
        kind = rng.choice(("F32", "F16", "F64", "U8"))
        width = {"F32": 4, "F16": 2, "F64": 8, "U8": 1}[kind]
        end = len(data) - 8 - size
        taken = rng.choice((name, "other", name.removeprefix("model.")))
        header.pop(taken, None)
        header[taken] = {
            "dtype": kind, "shape": rng.choice(([grown // width], [grown // width // 16, 16])),
            "data_offsets": [end, end + grown],
        }  # fmt: skip
    elif how == 6:
        end = len(data) - 8 - size
        empty = {"dtype": "F32", "shape": [0], "data_offsets": [end, end]}
        header |= {f"e{n}": empty for n in range(rng.choice((10, 10_000, 300_000)))}
    elif how == 0:
        entry[field] = rng.choice(VALUES)
    elif how == 1:
        entry["shape"] = [10**9] * rng.randint(1, 4)
    elif how == 2:
        header[rng.choice(("../x", "a" * 1000, ""))] = header.pop(name)
    elif how == 3:
        header["__metadata__"] = rng.choice(({"format": "tf"}, {"format": "no"}, 3, {"a": 1}))
    new = json.dumps(header).encode()
    length = rng.choice((0, 2**63, 2**64 - 1, len(data))) if how == 4 else len(new)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", length) + new + data[8 + size :])
        if grown:
            file.truncate(file.tell() + grown)


CHARSMAP = "precompiled_charsmap"
STEPS: dict[str, tuple[dict[str, Any], ...]] = {
    "normalizer": (
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
         "strip_accents": None, "lowercase": True},
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "StripAccents"},
        {"type": "NFKC"}, {"type": "NFD"}, {"type": "Lowercase"}, {"type": "Nmt"},
        {"type": "ByteLevel"}, {"type": "Prepend", "prepend": "_"},
        {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"},
        {"type": "Replace", "pattern": {"String": ""}, "content": "a"},
        {"type": "Replace", "pattern": {"Regex": "a*"}, "content": "b"},
        {"pattern": {"String": "a"}, "content": "bb"},
        {"type": "Precompiled", CHARSMAP: "AAAA"}, {"type": "Precompiled", CHARSMAP: ""},
        {"type": "Precompiled"}, {"type": "Precompiled", CHARSMAP: None},
    ),
    "pre_tokenizer": (
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "BertPreTokenizer"}, {"type": "CharDelimiterSplit", "delimiter": "a"},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
        {"type": "Split", "pattern": {"Regex": "a|"}, "behavior": "Isolated", "invert": False},
        {"type": "Split", "pattern": {"String": ""}, "behavior": "Removed", "invert": True},
        {"type": "Digits", "individual_digits": True}, {"type": "UnicodeScripts"},
        {"type": "Punctuation", "behavior": "Isolated"}, {"type": "WhitespaceSplit"},
    ),
    "decoder": (
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
    ),
}  # fmt: skip
INSIDE = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
MODEL: dict[str, tuple[Any, ...]] = {
    "continuing_subword_prefix": ("0", "##", "\u00e9"), "end_of_word_suffix": ("</w>", "0"),
    "unk_token": ("a", "no such"), "dropout": (0.5, 1.0, -1), "byte_fallback": (True,),
    "fuse_unk": (True,), "ignore_merges": (True,), "type": ("WordLevel", "WordPiece", "Unigram"),
}  # fmt: skip


def charsmap(rng: Random) -> str:
    """Return a SentencePiece map of characters, most of whose numbers lead nowhere."""
    count = rng.choice((0, 1, 4, 256))
    table = b"".join(
        struct.pack("<I", rng.choice((rng.getrandbits(32), rng.getrandbits(9) | 0x100)))
        for _ in range(count)
    )
    size = rng.choice((len(table), len(table), 0, len(table) + 4, 2**32 - 1, 3))
    texts = rng.choice((b"", b"a\0b\0", b"\xff\xfe\0", b"abc" * 100))
    return b64encode(struct.pack("<I", size) + table + texts).decode()


def change_tokenizer(rng: Random, folder: Path) -> None:
    """Change the steps of the tokenizer: other ones, many of one, or a key twice."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    part = rng.choice([*STEPS, "model"])
    if part == "model":
        key = rng.choice([*MODEL])
        content["model"][key] = rng.choice(MODEL[key])
        path.write_text(json.dumps(content), encoding="utf-8")
        return
    steps = [dict(rng.choice(STEPS[part])) for _ in range(rng.choice((1, 1, 2, 3)))]
    for step in steps:
        if CHARSMAP in step and rng.random() < 0.7:
            step[CHARSMAP] = charsmap(rng)
    if part == "decoder":
        steps.append(content["decoder"])  # one that says what the bytes of a token are
    steps *= rng.choice((1, 1, 1, 5, 30, 1000))
    content[part] = {"type": "Sequence", INSIDE[part]: steps}
    text = json.dumps(content)
    if rng.random() < 0.1:
        text = (
            f'{{"{part}": {json.dumps(content.pop(part))}, {json.dumps(content | {part: None})[1:]}'
        )
    path.write_text(text, encoding="utf-8")


EDITING: dict[str, tuple[Any, ...]] = {
    "edit_probabilities": (True, False), "threshold": (0, 0.1, 1, 1e-300, 2, float("nan")),
    "calibration": ([], [[0.1, 0.9], [0.1, 0.9]], [[1, 1]], [[2, 2]], [[0.5, float("nan")]]),
}  # fmt: skip
ACTIONS = ("delimiter", "find", "here", "mark", "back", "delete", "begin")


def change_editing(rng: Random, folder: Path) -> None:
    """Change what the model says about editing, and the actions that this needs."""
    path = folder / "editing.json"
    content = json.loads(path.read_text("utf-8"))
    for key in rng.sample([*EDITING], rng.randint(1, 3)):
        content[key] = rng.choice(EDITING[key])
    path.write_text(json.dumps(content), encoding="utf-8")
    if rng.random() < 0.4:
        path = folder / "action_vocab.json"
        content = json.loads(path.read_text("utf-8"))
        for key in rng.choice((("delimiter",), ("find", "here"), ("mark", "back"), ACTIONS)):
            content.pop(key, None)
        path.write_text(json.dumps(content), encoding="utf-8")


NAMES = ("x.json", "x.safetensors", "x.jinja", "run.json",
         "model.safetensors.index.json", "generation_config.json", "README.md")  # fmt: skip


def change_kind(rng: Random, folder: Path) -> None:
    """Put a pipe, a folder or a link in the place of a file, or where one is looked for."""
    path = folder / rng.choice([*NAMES, *(each.name for each in own_files(folder, "*"))])
    path.unlink(missing_ok=True)
    how = rng.randrange(3)
    if how == 0:
        os.mkfifo(path)
    elif how == 1:
        path.mkdir()
    else:
        outside = ("/dev/zero", "/etc/passwd", "/dev/stdin", "../outside", "/no/such", path.name)
        path.symlink_to(rng.choice(outside))


def add_code(rng: Random, folder: Path) -> None:
    """Add files that try to have code run: pickles, modules, adapters, links."""
    (folder / "code.py").write_text(INTRUSION, encoding="utf-8")
    for name in ("pytorch_model.bin", "weights.bin", "adapter_model.bin"):
        (folder / name).write_bytes(pickle.dumps({"a": Intruder()}))
    how = rng.randrange(6)
    weights = folder / "model.safetensors"
    if how == 0 and weights.is_file():
        weights.unlink()
    elif how == 1:
        target = rng.choice(
            ("weights.bin", "../x.safetensors", "/x.safetensors", "a/b.safetensors")
        )
        index = rng.choice(({"weight_map": {"a": target}}, {"weight_map": [target]}, [target], {}))
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
        weights.unlink(missing_ok=True)
    elif how == 2:
        adapter = {"peft_type": "LORA", "r": 1, "base_model_name_or_path": str(folder)}
        adapter |= rng.choice(({}, {"megatron_config": {"a": 1}, "megatron_core": "intruder"}))
        (folder / "adapter_config.json").write_text(json.dumps(adapter), encoding="utf-8")
    elif how == 3:
        name = rng.choice(sorted(path.name for path in folder.glob("*.json")))
        (folder / name).unlink()
        (folder / name).symlink_to(rng.choice(("/etc/passwd", "/dev/zero", "weights.bin", name)))
    elif how == 4:
        change_setting(rng, folder)
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"auto_map": {"AutoTokenizer": ["code.Tokenizer", None]}}), encoding="utf-8"
        )
    else:
        (folder / "chat_template.jinja").write_text(
            "{{ ''.__class__.__mro__[1].__subclasses__() }}", encoding="utf-8"
        )


CHANGES: tuple[Callable[[Random, Path], None], ...] = (
    change_value, change_value, change_value, change_setting, change_setting, change_bytes,
    change_header, add_code, change_tokenizer, change_tokenizer, change_editing,
    change_kind,
)  # fmt: skip


def tamper(rng: Random, source: Path, folder: Path) -> None:
    """Copy a folder and change it in one to three ways."""
    shutil.copytree(source, folder)
    for _ in range(rng.choice((1, 1, 2, 3))):
        change = rng.choice(CHANGES)
        try:
            change(rng, folder)
        except (OSError, TypeError, ValueError, RecursionError, LookupError, struct.error):
            continue  # an earlier change left nothing that this one can read
        if change is change_kind:
            break  # another change would write into the pipe, and wait for a reader


# -- opening ----------------------------------------------------------------------------------


def attempt(folder: Path) -> str:
    """Open a folder, write with it and describe it; return "opened", or the sentence.

    Anything else than one of our errors is raised, and so is code that was run.
    """
    import torch

    def no_pickle(*_: Any, **__: Any) -> None:
        raise AssertionError("a pickle was read")

    result = "opened"
    with chdir(folder), mock.patch.object(torch, "load", no_pickle):
        Path("intruder.py").write_text(INTRUSION, encoding="utf-8")
        for use in _USES:
            try:
                with _limited_time():
                    use(folder)
            except ReviserError as error:
                result = str(error)
        assert len(result.splitlines()) == 1, repr(result)
        assert len(result) < 3000, result
        assert not Path(INTRUDED).exists(), "code was run"
    return result


@contextmanager
def _limited_time() -> Iterator[None]:
    """Raise AssertionError in a block that hangs, such as on a pipe that nobody writes to."""

    def ring(*_: Any) -> None:
        raise AssertionError(f"no end within {6 * SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(6 * SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _write(folder: Path) -> None:
    with reviser.load(folder) as model:
        model.generate("The cat", max_actions=3)
        if model.editing is not None:
            model.revise("The catt sat on", max_actions=3)


def _identify(folder: Path) -> None:
    fingerprint(find(folder), CONFIG_FILES)  # hashing gigabytes of weights takes its time


_USES: tuple[Callable[[Path], Any], ...] = (
    _write, lambda folder: describe(find(folder)), _identify
)  # fmt: skip


def _measured(folder: Path) -> tuple[str, float, int]:
    """Attempt a folder; return what happened, CPU seconds, and growth of the peak memory in MB."""
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = attempt(folder)
    seconds = time.process_time() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert seconds < SECONDS, f"{seconds:.1f} CPU seconds: {result}"
    assert grown < MEGABYTES, f"{grown} MB: {result}"
    return result, seconds, grown


def main(count: int, seed: int = 0) -> int:
    """Tamper with a folder as often as asked; print what happened, and every fault."""
    kinds: Counter[str] = Counter()
    faults = 0
    slowest, largest = (0.0, -1), (0, -1)
    sys.path.insert(0, "")  # as in `python -m reviser`, where the working folder can be imported
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as made:
        source = tiny_folder(Path(made, "source"))
        assert attempt(shutil.copytree(source, Path(made, "copy"))) == "opened"
        for n in range(seed, seed + count):
            folder = Path(made, str(n))
            tamper(Random(n), source, folder)
            try:
                result, seconds, megabytes = _measured(folder)
                kinds["opened" if result == "opened" else "refused"] += 1
                slowest, largest = max(slowest, (seconds, n)), max(largest, (megabytes, n))
            except BaseException as error:  # a panic of Rust is none of Exception
                if isinstance(error, KeyboardInterrupt):
                    raise
                faults += 1
                builtins.print(f"-- {n}", "".join(traceback.format_exception(error)[-3:]))
            shutil.rmtree(folder)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    print(
        f"{count} folders: {dict(kinds)}, {faults} faults; at most {slowest[0]:.1f} CPU seconds"
        f" (folder {slowest[1]}) and {largest[0]} MB more (folder {largest[1]}), {grown} MB in all"
    )
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
