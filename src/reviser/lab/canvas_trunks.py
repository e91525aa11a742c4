"""Trunks that also read the canvas: the paper's pooled canvas and cross-attention to it.

Importing this module makes Transformers open such models. Both are Llama models whose step t also
sees a summary of the canvas after the ids up to t. The paper adds the newest summary to all inputs
of the history, which would need a new pass over the history at every step, in training too. Here
the input at each position gets the summary of its own time. So one pass trains a whole history, and
a key-value cache stays valid.

Shapes: B rows, T ids of a history, L tokens of a canvas, N summaries, D width, A ids.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)
from transformers.cache_utils import DynamicLayer
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from reviser.core.actions import ActionVocab
from reviser.errors import ConfigError
from reviser.lab.canvases import EMPTY, canvases, check
from reviser.lab.recipe import CanvasReading
from reviser.models import trunks
from reviser.models.trunk_config import TrunkConfig

CANVAS_MODEL = "reviser_canvas"
"""The `model_type` of a trunk that reads the canvas too."""


@strict
class CanvasConfig(LlamaConfig):
    """Llama's configuration, and how the canvas is read."""

    model_type = CANVAS_MODEL
    canvas_kind: str = "pooled"
    canvas_projection: bool = True
    canvas_rows: int = 1
    canvas_layers: int = 0
    action_vocab: str = ""


class CanvasPool(nn.Module):
    """Attention pooling: each learned query makes one summary of a canvas.

    z_i = E[c_i] + P[i], s_i = q z_i, alpha = softmax(s), mu = sum of alpha_i z_i. Neither E[c] nor
    z is ever formed for all canvases of a history, which would take B x T x L x D numbers: scores
    are looked up in a table of q E, and `embedding_bag` adds up the rows of E.
    """

    def __init__(self, config: CanvasConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.query = nn.Parameter(torch.randn(config.canvas_rows, width) * width**-0.5)
        self.positions = nn.Embedding(config.max_position_embeddings, width)

    def forward(self, table_AD: torch.Tensor, canvas_BTL: torch.Tensor) -> torch.Tensor:
        """Return the summaries (B, T, N, D); zeros for an empty canvas."""
        length = canvas_BTL.shape[-1]
        positions_LD = self.positions.weight[:length]
        is_empty_BTL = canvas_BTL == EMPTY
        tokens_BTL = canvas_BTL.clamp(min=0).long()
        summaries = []
        for query_D in self.query:
            scores_BTL = (table_AD @ query_D)[tokens_BTL] + positions_LD @ query_D
            scores_BTL = scores_BTL.float().masked_fill(is_empty_BTL, -torch.inf)
            # Where all are -inf, softmax gives NaN; such a canvas has no summary.
            weights_BTL = scores_BTL.softmax(-1).masked_fill(is_empty_BTL, 0).to(table_AD.dtype)
            rows_XD = nn.functional.embedding_bag(
                tokens_BTL.flatten(0, 1),
                table_AD,
                per_sample_weights=weights_BTL.flatten(0, 1),
                mode="sum",
            )
            summaries.append(rows_XD.view(*tokens_BTL.shape[:2], -1) + weights_BTL @ positions_LD)
        return torch.stack(summaries, dim=2)


class CanvasAttention(nn.Module):
    """Gated cross-attention from a position to the summaries of its canvas.

    With one summary, or equal ones as in the paper, the softmax is uniform, and the block adds a
    gated linear map of the summary.
    """

    def __init__(self, config: CanvasConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.gate = nn.Parameter(torch.zeros(1))  # the model starts as one without this block

    def forward(self, hidden_BTD: torch.Tensor, memory_BTND: torch.Tensor) -> torch.Tensor:
        """Return what is added to the hidden states."""
        query_BTD, key_BTND = self.query(hidden_BTD), self.key(memory_BTND)
        scores_BTN = (key_BTND @ query_BTD[..., None])[..., 0] * hidden_BTD.shape[-1] ** -0.5
        weights_BTN = scores_BTN.float().softmax(-1).to(hidden_BTD.dtype)
        found_BTD: torch.Tensor = (weights_BTN[..., None] * self.value(memory_BTND)).sum(2)
        return self.gate * found_BTD


class CanvasLayer(LlamaDecoderLayer):
    """Llama's layer with cross-attention after its self-attention."""

    def __init__(self, config: CanvasConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.canvas_attention = CanvasAttention(config)

    def forward(  # type: ignore[override]
        self, hidden_states: torch.Tensor, *, canvas_memory: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        """Return the hidden states after self-attention, cross-attention and MLP."""
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **options)
        hidden_states = hidden_states + attended
        hidden_states = hidden_states + self.canvas_attention(hidden_states, canvas_memory)
        mlp: torch.Tensor = self.mlp(self.post_attention_layernorm(hidden_states))
        return hidden_states + mlp


class CanvasForCausalLM(LlamaForCausalLM):
    """A Llama model that reads the canvas at every step.

    It replays the history of each row, which its cache holds in a layer of its own. So an engine
    need not know about canvases. Histories may be padded on the right, or on the left with a mask.
    """

    config_class = CanvasConfig
    config: CanvasConfig

    def __init__(self, config: CanvasConfig) -> None:
        super().__init__(config)
        self.canvas_pool = CanvasPool(config)
        self.canvas_projection: nn.Module = nn.Identity()
        if config.canvas_kind == "cross_attention":
            first = config.num_hidden_layers - (config.canvas_layers or config.num_hidden_layers)
            for n in range(first, config.num_hidden_layers):
                self.model.layers[n] = CanvasLayer(config, n)
        elif config.canvas_projection:
            self.canvas_projection = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: DynamicCache | None = None,
        logits_to_keep: int | torch.Tensor = 0,  # named, so that engines find it
        **options: Any,
    ) -> Any:
        """Run Llama with the summaries of the canvas added to its inputs or its layers."""
        if past_key_values is None and options.get("use_cache", self.config.use_cache):
            past_key_values = DynamicCache()
        canvas = self._canvases(
            input_ids, self._history(input_ids, past_key_values), attention_mask
        )
        table_AD = self.model.embed_tokens.weight
        inputs_BTD = self.model.embed_tokens(input_ids)
        memory_BTND = self.canvas_pool(table_AD, canvas)
        if self.config.canvas_kind == "cross_attention":
            options["canvas_memory"] = memory_BTND
        else:
            inputs_BTD = inputs_BTD + self.canvas_projection(memory_BTND[:, :, 0])
        return super().forward(
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=inputs_BTD,
            logits_to_keep=logits_to_keep,
            **options,
        )

    def _history(self, ids_BT: torch.Tensor, cache: DynamicCache | None) -> torch.Tensor:
        """Return all ids so far; they follow the keys and values of the layers in the cache.

        They have the form of a key, so whatever selects, cuts or joins rows does it to them too.
        """
        if cache is None:
            return ids_BT
        before, own = cache.get_seq_length(), self.config.num_hidden_layers
        while len(cache.layers) <= own:
            cache.layers.append(DynamicLayer())
        keys_B1T1 = ids_BT[:, None, :, None]
        layer: Any = cache.layers[own]
        history_BT: torch.Tensor = layer.update(keys_B1T1, keys_B1T1)[0][:, 0, :, 0]
        if history_BT.shape[1] != before + ids_BT.shape[1]:
            raise ConfigError("This model reads the canvas, and needs a cache that it has filled.")
        return history_BT

    def _canvases(
        self, ids_BT: torch.Tensor, history_BT: torch.Tensor, mask_BT: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the canvas after each of the ids, the last ones of the history (B, T, L)."""
        vocab = ActionVocab.from_json(self.config.action_vocab)
        first_B = None if mask_BT is None else mask_BT.long().argmax(1).cpu().numpy()
        history, last = history_BT.cpu().numpy(), ids_BT.shape[1]
        found_BTL = canvases(vocab, history, first_B=first_B, last=last)
        return torch.from_numpy(found_BTL).to(ids_BT.device)


def build(
    config: TrunkConfig, reading: CanvasReading, vocab: ActionVocab, seed: int
) -> PreTrainedModel:
    """Build a trunk that reads the canvas, with random weights."""
    shape = trunks.shape(config, trunks.rows_for(vocab.size))
    options = {f"canvas_{name}": value for name, value in asdict(reading).items()}
    model = trunks.from_config(CanvasConfig(**shape, **options), vocab, seed)
    set_vocab(model, vocab)
    return model


def set_vocab(model: PreTrainedModel, vocab: ActionVocab) -> None:
    """Tell a model that reads the canvas which actions its histories have; others need not know."""
    if reads_canvas(model):
        check(vocab)
        model.config.action_vocab = vocab.to_json()


def reads_canvas(model: Any) -> bool:
    """Return whether a model has to be given the canvas at every step."""
    return getattr(model.config, "model_type", None) == CANVAS_MODEL


AutoConfig.register(CANVAS_MODEL, CanvasConfig)
AutoModelForCausalLM.register(CanvasConfig, CanvasForCausalLM)
