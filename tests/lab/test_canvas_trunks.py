"""Trunks that read the canvas: the paper's formulas one by one, caches, folders and training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed, so there are no trunks.")


import reviser  # noqa: E402
from reviser.core.actions import ActionVocab  # noqa: E402
from reviser.core.canvas import Canvas  # noqa: E402
from reviser.engines.base import Act, DecodeConfig, Request, Step  # noqa: E402
from reviser.engines.hf import HFEngine  # noqa: E402
from reviser.errors import ConfigError, VocabError  # noqa: E402
from reviser.lab.canvas_trunks import reads_canvas  # noqa: E402
from reviser.lab.canvases import canvases  # noqa: E402
from reviser.lab.recipe import CanvasReading, CanvasTrunkConfig  # noqa: E402
from reviser.models import trunks  # noqa: E402
from support import small_tokenizers  # noqa: E402

VOCAB = ActionVocab.build(60, operators=["delete", "replace"], max_move=8, marks=True)
SIZES: dict[str, Any] = {"layers": 3, "width": 32, "heads": 2, "mlp_width": 48, "context": 96}
READINGS = {
    "pooled": CanvasReading(),
    "without a projection": CanvasReading(projection=False),
    "cross-attention": CanvasReading(kind="cross_attention"),
    "cross-attention in two layers": CanvasReading(kind="cross_attention", layers=2, rows=3),
}
each_kind = pytest.mark.parametrize("kind", READINGS)


def build(kind: str, vocab: ActionVocab = VOCAB) -> Any:
    config = CanvasTrunkConfig(architecture="llama", dropout=0, canvas=READINGS[kind], **SIZES)
    model: Any = config.build(vocab)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("gate"):  # an untrained gate is closed
                parameter.fill_(0.7)
    return model.eval()


def history() -> list[int]:
    prefix = VOCAB.prefix_actions([3, 1, 4])
    replace, delete = VOCAB.replace, VOCAB.delete
    assert replace is not None
    assert delete is not None
    moves = [VOCAB.move_id(-2), 7, VOCAB.move_id(1), replace, 8, delete, 9, VOCAB.move_id(1), 5]
    return [*prefix, 20, 21, 22, 23, *moves]


def canvases_of(vocab: ActionVocab, ids: list[int]) -> list[list[int]]:
    canvas, found = Canvas(vocab), []
    for action in ids:
        canvas.apply(action)
        found.append(canvas.tokens())
    return found


def pooled_by_hand(model: Any, tokens: list[int], query: int = 0) -> Any:
    """The formulas of the paper's section on pooling, token by token."""
    table = model.get_input_embeddings().weight
    places, q = model.canvas_pool.positions.weight, model.canvas_pool.query[query]
    if not tokens:
        return torch.zeros(table.shape[1])
    z = [table[c] + places[i] for i, c in enumerate(tokens)]
    s = [q @ z_i for z_i in z]
    total = sum(s_i.exp() for s_i in s)
    return sum((s_i.exp() / total) * z_i for s_i, z_i in zip(s, z, strict=True))


@each_kind
@torch.no_grad()
def test_summaries_are_the_papers(kind: str) -> None:
    model, ids = build(kind), history()
    steps = canvases_of(VOCAB, ids)
    canvas = torch.from_numpy(canvases(VOCAB, np.array([ids])))
    found = model.canvas_pool(model.get_input_embeddings().weight, canvas)[0]
    for n, tokens in enumerate(steps):
        for query in range(found.shape[1]):
            expected = pooled_by_hand(model, tokens, query)
            torch.testing.assert_close(found[n, query], expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_pooled_summary_is_added_to_the_input_of_its_step() -> None:
    for kind in ("pooled", "without a projection"):
        model, ids = build(kind), history()
        inputs = model.get_input_embeddings()(torch.tensor([ids]))[0]
        summaries = [pooled_by_hand(model, tokens) for tokens in canvases_of(VOCAB, ids)]
        added = torch.stack([model.canvas_projection(mu) for mu in summaries])
        plain = super(type(model), model).forward(inputs_embeds=(inputs + added)[None])
        assert torch.allclose(model(torch.tensor([ids])).logits, plain.logits, atol=1e-5)


@torch.no_grad()
def test_cross_attention_is_the_papers() -> None:
    block = build("cross-attention in two layers").model.layers[-1].canvas_attention
    hidden, memory = torch.randn(1, 4, 32), torch.randn(1, 4, 3, 32)
    found = block(hidden, memory)[0]
    for t in range(4):
        q, k, v = block.query(hidden[0, t]), block.key(memory[0, t]), block.value(memory[0, t])
        weights = torch.softmax(torch.stack([q @ row for row in k]) / 32**0.5, 0)
        expected = block.gate * sum(w * row for w, row in zip(weights, v, strict=True))
        assert torch.allclose(found[t], expected, atol=1e-5)
    # With equal rows, as the paper has them, it does not matter what is asked or how many rows.
    equal = memory[:, :, :1].expand(-1, -1, 3, -1)
    assert torch.allclose(block(hidden, equal), block(-hidden, equal[:, :, :1]), atol=1e-5)


def test_cross_attention_is_in_the_last_layers_and_starts_closed() -> None:
    config = CanvasTrunkConfig(
        architecture="llama", dropout=0, canvas=READINGS["cross-attention in two layers"], **SIZES
    )
    model: Any = config.build(VOCAB)
    has = [hasattr(layer, "canvas_attention") for layer in model.model.layers]
    assert has == [False, True, True]
    ids = torch.tensor([history()])
    with torch.no_grad():
        inputs = model.get_input_embeddings()(ids)
        memory = torch.zeros(1, ids.shape[1], 1, 32)
        plain = super(type(model), model).forward(inputs_embeds=inputs, canvas_memory=memory)
        assert torch.allclose(model.eval()(ids).logits, plain.logits)


@each_kind
@torch.no_grad()
def test_the_engine_with_its_cache_chooses_what_whole_passes_do(kind: str) -> None:
    model, prompts = build(kind), [[3, 1, 4], [5], [9, 2, 6, 5, 3]]
    engine = HFEngine(model, VOCAB, rows=2)
    config = DecodeConfig(temperature=0, max_actions=25, stop_bias=-100)
    requests = [Request.continuation(VOCAB, prompt, config) for prompt in prompts]
    numbers = [engine.add(Act(request)) for request in requests]
    taken: dict[int, list[tuple[int, float]]] = {number: [] for number in numbers}
    while answers := engine.step():
        for number, step in answers:
            assert isinstance(step, Step)
            taken[number].append((step.action, step.logprob))
    for request, number in zip(requests, numbers, strict=True):
        actions = [action for action, _ in taken[number]]
        ids = [*request.history, *actions]
        logits = model(torch.tensor([ids[:-1]])).logits[0, len(request.history) - 1 :]
        logprobs = logits.log_softmax(-1)
        for n, (action, logprob) in enumerate(taken[number]):
            assert logprob == pytest.approx(float(logprobs[n, action]), abs=1e-4)


@each_kind
def test_a_folder_gives_the_same_model(kind: str, tmp_path: Path) -> None:
    tokenizer = small_tokenizers.byte_level()
    vocab = ActionVocab.from_tokenizer(tokenizer, operators=["delete"], max_move=8)
    model = build(kind, vocab)
    trunks.save(model, tokenizer, vocab, tmp_path)
    opened, _ = trunks.load(tmp_path)
    assert reads_canvas(opened)
    ids = torch.tensor([[*vocab.prefix_actions([3]), 5, 6]])
    with torch.no_grad():
        logits = model(ids).logits
        assert torch.equal(opened.eval()(ids).logits, logits)
        torch.testing.assert_close(opened(ids, logits_to_keep=1).logits, logits[:, -1:])
    assert HFEngine(opened, vocab)._last_only  # or a long prompt would need gigabytes
    with reviser.load(tmp_path, dtype=torch.float32) as loaded:
        assert loaded.generate("The", max_actions=5, seed=1).text.startswith("The")


@torch.no_grad()
def test_its_own_cache_holds_the_history_and_another_is_refused() -> None:
    model = build("pooled")
    cache = model(torch.tensor([[1, 2]]), use_cache=True).past_key_values
    next_ = model(torch.tensor([[3]]), past_key_values=cache).logits
    torch.testing.assert_close(next_, model(torch.tensor([[1, 2, 3]])).logits[:, -1:])
    plain = super(type(model), model).forward(torch.tensor([[1, 2]]), use_cache=True)
    with pytest.raises(ConfigError, match="a cache that it has filled"):
        model(torch.tensor([[3]]), past_key_values=plain.past_key_values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "gpt_neox", "canvas": CanvasReading()}, "architecture: llama"),
        ({"canvas": CanvasReading(kind="cross_attention", layers=9)}, r"canvas\.layers is 9"),
    ],
)
def test_impossible_trunks_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CanvasTrunkConfig(**{"architecture": "llama", **SIZES, **options})
    with pytest.raises(ConfigError, match="rows is 2"):
        CanvasReading(rows=2)
    with pytest.raises(ConfigError, match="kind is"):
        CanvasReading(kind="other")  # type: ignore[arg-type]
    copies = ActionVocab.build(10, operators=["span_copy"])
    with pytest.raises(VocabError, match="span_copy"):
        build("pooled", copies)
