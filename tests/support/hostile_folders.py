"""Model folders that somebody else has tampered with: `python -m support.hostile_folders 2000`.

Each is a copy of a tiny model folder with one to three changes, drawn from a seed: values of any
JSON file, its bytes, the headers of the weights, and files that try to have code run. `attempt`
opens one as a user does, and says what happened: a model that writes, or one sentence.
"""

from __future__ import annotations

import builtins
import json
import os
import pickle
import resource
import shutil
import struct
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import reviser
from reviser.core.actions import ActionVocab
from reviser.errors import ReviserError
from reviser.models.editing import Editing
from reviser.models.hub import find
from reviser.models.info import describe
from support import small_tokenizers

INTRUDED = "intruded"
"""A file that any code from a folder creates in the working folder."""
INTRUSION = f"open({INTRUDED!r}, 'w').close()\nraise SystemExit('code was run')\n"


class Intruder:
    """An object whose unpickling runs code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (INTRUDED,)


def tiny_folder(folder: Path) -> Path:
    """Write a model folder of about 100 kB with every file that a model may have."""
    from reviser.models import trunks

    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=["delete"], max_move=8)
    sizes = {"layers": 1, "width": 16, "heads": 2, "mlp_width": 24, "context": 64}
    trunk = trunks.build(trunks.TrunkConfig(architecture="llama", **sizes), vocab, seed=3)
    trunks.save(trunk, tokenizer, vocab, folder)
    Editing(edit_probabilities=True, calibration=((0.3, 0.6), (0.5, 0.7))).save(folder)
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
    """Return the files that are not links: one may lead to a file without an end."""
    return sorted(p for p in folder.glob(pattern) if p.is_file() and not p.is_symlink())


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
    path = folder / "model.safetensors"
    if not path.is_file():
        return
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
    how = rng.randrange(5)
    if how == 0:
        entry[field] = rng.choice(VALUES)
    elif how == 1:
        entry["shape"] = [10**9] * rng.randint(1, 4)
    elif how == 2:
        header[rng.choice(("../x", "a" * 1000, ""))] = header.pop(name)
    elif how == 3:
        header["__metadata__"] = rng.choice(({"format": "tf"}, {"format": "no"}, 3, {"a": 1}))
    new = json.dumps(header).encode()
    length = rng.choice((0, 2**63, 2**64 - 1, len(data))) if how == 4 else len(new)
    path.write_bytes(struct.pack("<Q", length) + new + data[8 + size :])


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
    change_header, add_code,
)  # fmt: skip


def tamper(rng: Random, source: Path, folder: Path) -> None:
    """Copy a folder and change it in one to three ways."""
    shutil.copytree(source, folder)
    for _ in range(rng.choice((1, 1, 2, 3))):
        try:
            rng.choice(CHANGES)(rng, folder)
        except (OSError, ValueError, RecursionError, LookupError, struct.error):
            continue  # an earlier change left nothing that this one can read


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
        for use in (_write, lambda path: describe(find(path))):
            try:
                use(folder)
            except ReviserError as error:
                result = str(error)
        assert len(result.splitlines()) == 1, repr(result)
        assert len(result) < 3000, result
        assert not Path(INTRUDED).exists(), "code was run"
    return result


def _write(folder: Path) -> None:
    with reviser.load(folder) as model:
        model.generate("The cat", max_actions=3)
        if model.editing is not None:
            model.revise("The cat", max_actions=3)


def main(count: int, seed: int = 0) -> int:
    """Tamper with a folder as often as asked; print what happened, and every fault."""
    kinds: Counter[str] = Counter()
    faults = 0
    sys.path.insert(0, "")  # as in `python -m reviser`, where the working folder can be imported
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as made:
        source = tiny_folder(Path(made, "source"))
        assert attempt(shutil.copytree(source, Path(made, "copy"))) == "opened"
        for n in range(seed, seed + count):
            folder = Path(made, str(n))
            tamper(Random(n), source, folder)
            try:
                kinds["opened" if attempt(folder) == "opened" else "refused"] += 1
            except BaseException as error:  # a panic of Rust is none of Exception
                if isinstance(error, KeyboardInterrupt):
                    raise
                faults += 1
                builtins.print(f"-- {n}", "".join(traceback.format_exception(error)[-3:]))
            shutil.rmtree(folder)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    print(f"{count} folders: {dict(kinds)}, {faults} faults; memory grew by {grown} MB at most")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
