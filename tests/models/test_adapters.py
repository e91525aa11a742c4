"""Adapters: merged with their base, they are one ordinary model folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import reviser
from reviser.cli import main
from reviser.core.actions import ActionVocab
from reviser.errors import CheckpointError, ConfigError
from reviser.models.editing import Editing
from support import small_tokenizers

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import save_file  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from reviser.models import adapters, hub, trunks  # noqa: E402

RANK, ALPHA, WIDTH = 2, 6.0, 16
CHANGED = "model.layers.1.self_attn.o_proj"
IDS = [[1, 5, 9, 2]]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    tokenizer = small_tokenizers.byte_level()
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size() + 3,  # some bases have rows to spare
        hidden_size=WIDTH,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    tokenizer.save(str(tmp_path / "base" / "tokenizer.json"))
    return tmp_path / "base"


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=["delete"], marks=True, search=True)
    vocab.save(folder)
    small_tokenizers.byte_level().save(str(folder / "tokenizer.json"))  # as the base has it
    Editing(edit_probabilities=True, threshold=0.7).save(folder)
    torch.manual_seed(1)
    name = f"base_model.model.{CHANGED}"
    low_rank = {
        f"{name}.lora_A.weight": torch.randn(RANK, WIDTH),
        f"{name}.lora_B.weight": torch.randn(WIDTH, RANK),
    }
    save_file(low_rank, folder / adapters.WEIGHTS)
    shape = vocab.size - vocab.tokens, WIDTH
    rows = {"input_rows": torch.randn(shape), "output_rows": torch.randn(shape)}
    save_file(rows, folder / adapters.CONTROL_ROWS)
    write_config(folder)
    return folder


def write_config(folder: Path, **other: object) -> None:
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none"} | other
    (folder / adapters.CONFIG).write_text(json.dumps(config))


def test_a_merged_model_computes_what_base_and_adapter_do(base: Path, adapter: Path) -> None:
    from safetensors.torch import load_file

    output = adapter.parent / "merged"
    adapters.merge(adapter, output, base=str(base))
    model, vocab = trunks.load(output)
    assert vocab == ActionVocab.load(adapter)
    assert Editing.load(output) == Editing(edit_probabilities=True, threshold=0.7)
    plain, _ = trunks.load_base(base)
    low_rank, rows = (load_file(adapter / x) for x in (adapters.WEIGHTS, adapters.CONTROL_ROWS))
    down, up = (low_rank[f"base_model.model.{CHANGED}.lora_{side}.weight"] for side in "AB")
    # The adapter as a second path beside the layer, which is how LoRA is defined.
    layer = plain.get_submodule(CHANGED)
    layer.register_forward_hook(
        lambda _, inputs, output: output + ALPHA / RANK * inputs[0] @ down.T @ up.T
    )
    with torch.no_grad():
        hidden = plain(torch.tensor(IDS), output_hidden_states=True).hidden_states[-1]
        tokens = plain.lm_head(hidden)[..., : vocab.tokens]
        expected = torch.cat([tokens, hidden @ rows["output_rows"].T], -1)
        found = model(torch.tensor(IDS)).logits[..., : vocab.size]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    table = model.get_input_embeddings().weight[vocab.tokens : vocab.size]
    torch.testing.assert_close(table, rows["input_rows"])


def test_the_command_merges(base: Path, adapter: Path) -> None:
    output = adapter.parent / "merged"
    words = ["merge", str(adapter), "--base", str(base), "-o", str(output)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert trunks.load(output)[1] == ActionVocab.load(adapter)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_ASSETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_adapter_opens_like_any_model_and_is_merged_once(
    base: Path, adapter: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merges = []
    merge = adapters.merge
    monkeypatch.setattr(
        adapters, "merge", lambda *args, **options: [merges.append(args), merge(*args, **options)]
    )
    write_config(adapter, base_model_name_or_path=str(base))
    for given in (None, base, str(base)):
        with reviser.load(adapter, base=given) as model:
            assert model.editing == Editing(edit_probabilities=True, threshold=0.7)
            assert model.provenance["model"] == str(adapter)
            text = model.revise("ab", min_edit_probability=0.0, max_actions=3).text
    assert len(merges) == 1
    folder = adapters.find(adapter)
    assert folder.is_relative_to(cache)
    with reviser.load(folder) as model:
        assert model.revise("ab", min_edit_probability=0.0, max_actions=3).text == text
    Editing(edit_probabilities=True, threshold=0.6).save(adapter)
    assert adapters.find(adapter) != folder
    assert len(merges) == 2
    assert adapters.find(adapter, hub.CONFIG_FILES) == adapter  # for an engine that runs elsewhere


def test_commands_open_an_adapter(base: Path, adapter: Path) -> None:
    words = ["info", str(adapter), "--base", str(base)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "Llama" in result.output
    words = ["revise", "-m", str(adapter), "--base", str(base), "--max-actions", "2"]
    result = CliRunner().invoke(main, words, input="ab")
    assert result.exit_code == 0, result.output
    words = ["generate", "ab", "-m", str(adapter), "--base", str(base), "--max-actions", "2"]
    rollout = adapter.parent / "rollout.json"
    rollout.write_text(CliRunner().invoke(main, [*words, "--json"]).stdout)
    words = ["replay", str(rollout), "-o", str(adapter.parent / "page.html")]
    result = CliRunner().invoke(main, words)  # which reads the tokenizer and the vocabulary alone
    assert result.exit_code == 0, result.output


def test_a_base_for_a_whole_model_is_refused(base: Path) -> None:
    with pytest.raises(ConfigError, match="needs no base"):
        adapters.find(base, base=base)


def test_an_adapter_cannot_be_the_base_of_an_adapter(adapter: Path) -> None:
    write_config(adapter, base_model_name_or_path=str(adapter))
    with pytest.raises(CheckpointError, match="could not be found"):
        adapters.find(adapter)


def test_an_interrupted_merge_leaves_nothing(
    base: Path, adapter: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(trunks, "save_tokenizer", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            adapters.find(adapter, base=base)
    assert not [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert (adapters.find(adapter, base=base) / "tokenizer.json").is_file()


@pytest.mark.parametrize("name", [adapters.WEIGHTS, adapters.CONTROL_ROWS])
@pytest.mark.parametrize("content", [b"", b"\x10\0\0\0\0\0\0\0{}", b"\xff" * 99])
def test_a_damaged_adapter_gets_one_sentence(
    base: Path, adapter: Path, name: str, content: bytes
) -> None:
    (adapter / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=name):
        adapters.find(adapter, base=base)


@pytest.mark.parametrize(
    "other", [{"peft_type": "IA3"}, {"bias": "all"}, {"r": 0}, {"lora_alpha": None}, {"r": "x"}]
)
def test_other_kinds_of_adapters_are_refused(
    base: Path, adapter: Path, other: dict[str, object]
) -> None:
    write_config(adapter, **other)
    with pytest.raises(CheckpointError, match="Cannot read the adapter"):
        adapters.merge(adapter, adapter.parent / "merged", base=base)


def test_a_base_that_cannot_be_found_gets_one_sentence(
    adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    write_config(adapter, base_model_name_or_path="nobody/no-such-model")
    with pytest.raises(CheckpointError, match=r"its base model 'nobody/no-such-model'.*--base"):
        adapters.merge(adapter, adapter.parent / "merged")
