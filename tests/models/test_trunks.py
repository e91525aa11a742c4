"""Trunks: reproducible, complete after a save, safe to open, and unchanged by adaptation."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from tokenizers import Tokenizer

import reviser
from reviser.core.actions import OPERATORS, ActionVocab
from reviser.errors import CheckpointError, ConfigError, VocabError
from support import small_tokenizers

torch = pytest.importorskip("torch", reason="torch is not installed, so there are no trunks.")

from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPTJConfig,
    GPTNeoXConfig,
    LlamaConfig,
    PhiConfig,
)

from reviser.models import adaptation, trunks  # noqa: E402
from reviser.models.adaptation import adapt, with_lora  # noqa: E402
from reviser.models.trunks import TrunkConfig, build, load, load_base  # noqa: E402
from support.hostile_folders import INTRUDED, Intruder  # noqa: E402

SIZES = {"layers": 2, "width": 32, "heads": 2, "mlp_width": 48, "context": 64}
VOCAB = ActionVocab.build(100, operators=["delete"])
IDS = [3, 1, 4, 1, 5, 9, 2, 6]
TEXT = "The cat, déjà vu 👩\u200d🚀 你好"
TOKENIZERS = [
    small_tokenizers.byte_level,
    small_tokenizers.byte_fallback,
    small_tokenizers.metaspace,
    small_tokenizers.unigram,
]

every_architecture = pytest.mark.parametrize("architecture", ["gpt_neox", "llama"])


def trunk(architecture: str = "gpt_neox", vocab: ActionVocab = VOCAB, seed: int = 0) -> Any:
    return build(TrunkConfig(architecture=architecture, **SIZES), vocab, seed=seed)


def logits(model: Any, ids: list[int] = IDS) -> Any:
    with torch.no_grad():
        return model.eval()(torch.tensor([ids])).logits[0]


def assert_same_weights(one: Any, other: Any) -> None:
    weights, others = one.state_dict(), other.state_dict()
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


# -- building ---------------------------------------------------------------------------------


@every_architecture
def test_the_same_seed_builds_the_same_weights_and_leaves_the_global_generator(
    architecture: str,
) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = trunk(architecture, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert_same_weights(first, trunk(architecture, seed=1))
    assert not torch.equal(logits(first), logits(trunk(architecture, seed=2)))


@every_architecture
@pytest.mark.parametrize("vocab", [VOCAB, ActionVocab.build(100, begin=7)], ids=["new", "reused"])
def test_a_trunk_has_the_sizes_and_special_ids_asked_for(
    architecture: str, vocab: ActionVocab
) -> None:
    model = trunk(architecture, vocab)
    config = model.config
    assert (config.num_hidden_layers, config.hidden_size) == (2, 32)
    assert (config.num_attention_heads, config.intermediate_size) == (2, 48)
    assert (config.max_position_embeddings, config.attention_dropout) == (64, 0.1)
    assert config.tie_word_embeddings
    assert config.vocab_size % 64 == 0
    assert vocab.size <= config.vocab_size < vocab.size + 64
    for each in (config, model.generation_config):
        assert each.bos_token_id == vocab.begin
        assert each.eos_token_id == each.pad_token_id == vocab.stop


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"architecture": "rnn"}, "architecture is 'rnn'; use one of gpt_neox, llama."),
        ({"context": -1}, "Every size of a trunk must be 1 or more"),
        ({"heads": 3}, "width 512 cannot be divided into 3 heads"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1."),
    ],
)
def test_an_impossible_trunk_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrunkConfig(**change)
    assert sentence in str(caught.value)


# -- saving and loading -----------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer)
    trunks.save(trunk(vocab=vocab), tokenizer, vocab, tmp_path / "model")
    return tmp_path / "model"


def refusal(open_it: Callable[[Any], Any], folder: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_it(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@every_architecture
@pytest.mark.parametrize("make", TOKENIZERS, ids=lambda make: make.__name__)
def test_a_saved_model_comes_back_whole_through_plain_transformers(
    architecture: str, make: Callable[[], Tokenizer], tmp_path: Path
) -> None:
    tokenizer = make()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=OPERATORS)
    model = trunk(architecture, vocab)
    trunks.save(model, tokenizer, vocab, tmp_path)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path)
    ours, our_vocab = load(tmp_path)
    assert our_vocab == vocab
    assert_same_weights(model, plain)
    assert_same_weights(model, ours)
    assert torch.equal(logits(model), logits(plain))
    assert plain.config.to_dict() == ours.config.to_dict()
    read = AutoTokenizer.from_pretrained(tmp_path)
    assert read.encode(TEXT, add_special_tokens=False) == (
        tokenizer.encode(TEXT, add_special_tokens=False).ids
    )
    assert (read.bos_token_id, read.eos_token_id) == (vocab.begin, vocab.stop)
    assert len(read) == vocab.size


def test_a_model_folder_holds_json_and_safetensors_only(folder: Path) -> None:
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}


def test_a_vocabulary_that_does_not_fit_the_model_is_refused(folder: Path) -> None:
    assert load(folder, dtype=torch.bfloat16)[0].dtype == torch.bfloat16
    ActionVocab.build(600).save(folder)
    assert "has 512 embedding rows, but its action vocabulary has 623" in refusal(load, folder)
    (folder / "action_vocab.json").unlink()
    with pytest.raises(VocabError, match=r"There is no action_vocab\.json in"):
        load(folder)


@pytest.mark.parametrize("name", ["no/such", "a/b/c"])
def test_a_name_that_neither_folder_nor_hub_has_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for opener in (load, load_base):
        begin = f"There is no folder '{name}', and no model of that name could be downloaded"
        assert refusal(opener, name).startswith(begin)


def test_truncated_weights_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "is not a safetensors file" in refusal(load, folder)


@pytest.mark.parametrize("change", ["missing", "reshaped"])
def test_weights_that_lack_a_tensor_are_refused_by_its_name(folder: Path, change: str) -> None:
    weights = load_file(folder / "model.safetensors")
    name = "gpt_neox.layers.1.attention.dense.weight"
    tensor = weights.pop(name)
    if change == "reshaped":
        weights[name] = tensor[:7].clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert refusal(load, folder).endswith(f"The first is {name}.")


def change_config(folder: Path, **fields: Any) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | fields), encoding="utf-8")


def test_code_that_a_folder_names_is_not_run(folder: Path) -> None:
    classes = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}
    change_config(folder, model_type="own", auto_map=classes)
    (folder / "code.py").write_text("raise SystemExit('run')", encoding="utf-8")
    assert "Cannot open a model in" in refusal(load, folder)


def named_by_an_index(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weight_map = dict.fromkeys(load_file(weights), "weights.bin")
    weights.rename(folder / "unused.safetensors")
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def named_by_an_index_further_down(folder: Path) -> None:
    named_by_an_index(folder)
    name = "model.safetensors.index.json"
    (folder / "inside").mkdir()
    (folder / name).rename(folder / "inside" / name)
    named_by_the_config(folder, f"inside/{name}")


def named_by_the_config(folder: Path, name: str = "weights.bin") -> None:
    change_config(folder, transformers_weights=name)


def as_an_adapter(folder: Path) -> None:
    config = {"peft_type": "LORA", "base_model_name_or_path": str(folder), "r": 1}
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")


def alone(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    "way",
    [alone, as_an_adapter, named_by_an_index, named_by_an_index_further_down, named_by_the_config],
)
@pytest.mark.parametrize("is_benign", [True, False])
def test_a_pickle_is_never_read_however_a_folder_offers_it(
    folder: Path, way: Any, is_benign: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    content: Any = load_file("model.safetensors") if is_benign else {"a": Intruder()}
    for name in ("pytorch_model.bin", "adapter_model.bin", "weights.bin"):
        torch.save(content, folder / name)
        if not is_benign:
            (folder / name).write_bytes(pickle.dumps(content))
    way(folder)
    for opener in (load, load_base):
        refusal(opener, folder)
    assert not Path(INTRUDED).exists()


def test_of_the_hub_neither_pickles_nor_code_are_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(_: str, **options: Any) -> str:
        asked.update(options)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    load("someone/model")
    offered = [path.name for path in folder.iterdir()]
    more = ["pytorch_model.bin", "model.pt", "model.pkl", "code.py", "kernel.so", "a.npy", "a.sh"]
    taken = huggingface_hub.utils.filter_repo_objects(
        [*offered, *more], allow_patterns=asked["allow_patterns"]
    )
    assert sorted(taken) == sorted(offered)


def test_settings_of_generation_in_a_folder_decide_nothing(folder: Path) -> None:
    def written() -> list[tuple[int, ...]]:
        with reviser.load(folder) as model:
            rollouts = model.run_many(map(reviser.Continue, ["a", "b"]), max_actions=12, seed=3)
            return [rollout.trajectory.restoration for rollout in rollouts]

    expected = written()
    settings = {"temperature": 0.01, "top_k": 1, "max_new_tokens": 2, "eos_token_id": [*range(300)]}
    settings |= {"do_sample": False, "suppress_tokens": [*range(200)], "repetition_penalty": 9.0}
    (folder / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert written() == expected
    assert max(map(len, expected)) > 2


def test_a_pickle_next_to_the_weights_is_ignored(folder: Path) -> None:
    expected = load(folder)[0]
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Intruder()))
    assert_same_weights(load(folder)[0], expected)
    assert not Path(INTRUDED).exists()


@pytest.mark.parametrize(
    "asked",
    [
        {"attn_implementation": "someone/kernel"},
        {"experts_implementation": "someone/kernel"},
        {"attn_implementation": {"": "eager", "text": {"": "someone/kernel"}}},
        {"_attn_implementation": "someone/kernel"},
        {"text_config": {"attn_implementation": "paged|someone/kernel"}},
        {"per_layer_config": [{"_attn_implementation": "someone/kernel"}]},
    ],
)
def test_compiled_code_that_a_folder_names_is_not_fetched(folder: Path, asked: Any) -> None:
    change_config(folder, **asked)
    for opener in (load, load_base):
        assert "someone/kernel' as" in refusal(opener, folder)


# -- adapting ---------------------------------------------------------------------------------


def base(kind: str, *, rows: int, tied: bool) -> Any:
    """A small causal LM of another family, with random weights and, in two kinds, output bias."""
    common = {"vocab_size": rows, "tie_word_embeddings": tied, "bos_token_id": 0, "eos_token_id": 1}
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    gpt2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    configs: dict[str, Callable[[], Any]] = {
        "llama": lambda: LlamaConfig(**common, **small, intermediate_size=24),
        "gpt_neox": lambda: GPTNeoXConfig(**common, **small, intermediate_size=24),
        "phi": lambda: PhiConfig(**common, **small, intermediate_size=24),
        "gpt2": lambda: GPT2Config(**common, **gpt2),
        "gptj": lambda: GPTJConfig(**common, **gpt2, rotary_dim=8),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_config(configs[kind]())
        bias = getattr(model.get_output_embeddings(), "bias", None)
        if bias is not None:
            torch.nn.init.normal_(bias)
    return model


def output_tables(model: Any) -> list[Any]:
    output = model.get_output_embeddings()
    return [output.weight] + ([] if getattr(output, "bias", None) is None else [output.bias])


BASES = [
    ("llama", True), ("llama", False), ("gpt_neox", True), ("gpt_neox", False),
    ("gpt2", True), ("gpt2", False), ("phi", False), ("gptj", False),
]  # fmt: skip

every_base = pytest.mark.parametrize(("kind", "tied"), BASES)
every_padding = pytest.mark.parametrize("padding", [0, 200], ids="{}-spare-rows".format)


@every_base
@every_padding
def test_adapting_keeps_ordinary_tokens_and_starts_new_rows_at_the_mean(
    kind: str, tied: bool, padding: int, tmp_path: Path
) -> None:
    tokenizer = small_tokenizers.byte_level()
    tokens = tokenizer.get_vocab_size()
    model = base(kind, rows=tokens + padding, tied=tied)
    assert len(output_tables(model)) == (2 if kind in ("phi", "gptj") else 1)
    before = logits(model)
    old = [model.get_input_embeddings().weight, *output_tables(model)]
    old = [table.detach().clone() for table in old]
    vocab = adapt(model, tokenizer)
    assert vocab.tokens == tokens
    after = logits(model)
    assert after.shape[1] == model.config.vocab_size >= vocab.size
    assert (after[:, :tokens] - before[:, :tokens]).abs().max() <= 1e-6
    inputs, outputs = model.get_input_embeddings().weight, output_tables(model)
    assert (inputs is outputs[0]) == tied
    for was, now in zip(old, [inputs, *outputs], strict=True):
        assert torch.equal(now[:tokens], was[:tokens])
        assert len(now) == len(inputs)
        torch.testing.assert_close(now[tokens:], was[:tokens].mean(0).expand_as(now[tokens:]))
    trunks.save(model, tokenizer, vocab, tmp_path)
    again, saved_vocab = load(tmp_path)
    assert saved_vocab == vocab
    ids = [*IDS, vocab.stop, vocab.move_id(-4)]
    assert torch.equal(logits(again, ids), logits(model, ids))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "phi"])
def test_removing_the_actions_gives_back_the_causal_lm(kind: str) -> None:
    plain = small_tokenizers.byte_level()
    tokens = plain.get_vocab_size()
    model = base(kind, rows=tokens, tied=kind != "phi")
    before, tokenizer = logits(model), small_tokenizers.byte_level()
    old = adapt(model, tokenizer, operators=["delete"], max_move=8)
    left = adaptation.remove_actions(model, tokenizer, old)
    assert left.to_str() == plain.to_str()
    assert model.config.vocab_size == tokens
    assert torch.equal(logits(model), before)
    new = adapt(model, left, operators=["replace"], marks=True)
    fresh = base(kind, rows=tokens, tied=kind != "phi")
    assert adapt(fresh, plain, operators=["replace"], marks=True) == new
    assert_same_weights(model, fresh)


def test_adapting_names_the_special_ids_and_keeps_a_begin_token() -> None:
    tokenizer = small_tokenizers.byte_level()
    model = base("llama", rows=tokenizer.get_vocab_size(), tied=False)
    vocab = adapt(
        model, tokenizer, operators=["delete"], max_move=8, begin="<|endoftext|>", delimiter=False
    )
    assert vocab.begin == tokenizer.token_to_id("<|endoftext|>")
    assert (vocab.delimiter, vocab.max_move) == (None, 8)
    assert tokenizer.token_to_id("<|delete|>") == vocab.delete
    for config in (model.config, model.generation_config):
        assert config.bos_token_id == vocab.begin
        assert config.eos_token_id == config.pad_token_id == vocab.stop


@pytest.fixture
def base_folder(tmp_path: Path) -> Path:
    tokenizer = small_tokenizers.byte_level()
    model = base("llama", rows=tokenizer.get_vocab_size(), tied=False).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "base")
    tokenizer.save(str(tmp_path / "base" / "tokenizer.json"))
    return tmp_path / "base"


def test_a_base_is_opened_to_be_trained_with_its_tokenizer(base_folder: Path) -> None:
    model, tokenizer = load_base(base_folder)
    assert model.dtype == torch.float32
    assert tokenizer.encode(TEXT).ids == small_tokenizers.byte_level().encode(TEXT).ids
    vocab = adapt(model, tokenizer)
    assert tokenizer.token_to_id("<|stop|>") == vocab.stop


@pytest.mark.parametrize(("rank", "tied"), [(0, True), (0, False), (2, False)])
def test_adapters_of_no_rank_train_the_control_rows_alone(rank: int, tied: bool) -> None:
    pytest.importorskip("peft")
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer)
    config = TrunkConfig(
        architecture="llama", layers=1, width=16, heads=2, mlp_width=32, dropout=0.0
    )
    model = build(config, vocab)
    if not tied:
        model.config.tie_word_embeddings = False
        model = type(model)(model.config)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    adapted = with_lora(model, vocab, rank=rank, alpha=4.0, dropout=0.0)
    trained = [p for p in adapted.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, 0.01, weight_decay=0.0)
    ids = torch.arange(vocab.size)[None, -60:]
    for _ in range(3):
        adapted(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    merged = adapted.merge_and_unload().state_dict()
    changed = {name for name in before if not torch.equal(merged[name], before[name])}
    tables = {"model.embed_tokens.weight", "lm_head.weight"}
    assert tables <= changed
    assert (changed == tables) == (rank == 0)
    for name in tables:
        rows = (merged[name] != before[name]).any(dim=1).nonzero().flatten()
        assert rows.min() >= vocab.tokens
        assert rows.max() < vocab.size
