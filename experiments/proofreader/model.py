"""SmolLM2 with frozen lower layers and low-rank adapters on the upper ones.

This is plain Llama, written out so that three things are simple: the frozen layers run without
gradients and their outputs can be cached, logits are computed at labelled positions only, and the
same weights with the adapters off are exactly the base model. The test compares it with
Transformers.

The control ids of the action vocabulary get input rows that are never trained. So what the frozen
layers compute depends on the ids alone. Only their output rows are trained.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from reviser.core.actions import ActionVocab

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def control_rows(embedding: Tensor, vocab: ActionVocab, newline: int) -> Tensor:
    """Return the fixed input rows of the ids from `vocab.tokens` on.

    They are distinct, at the scale of the embedding, and the same for everyone. The delimiter and
    the mark are at the start or end of a text, so they are near the row of a line break, which the
    frozen layers already read as such.
    """
    generator = torch.Generator().manual_seed(20_26)
    count = vocab.size - vocab.tokens
    noise = torch.randn(count, embedding.shape[1], generator=generator)
    rows = embedding.mean(0) + noise * embedding.std(0)
    for near in (vocab.delimiter, vocab.mark):
        if near is not None:
            rows[near - vocab.tokens] = embedding[newline] + 0.25 * noise[
                near - vocab.tokens
            ] * embedding.std(0)
    return rows


class Proofreader(nn.Module):
    """The base model, the adapters of its upper layers and the output rows of the control ids."""

    def __init__(
        self,
        folder: Path,
        vocab: ActionVocab,
        *,
        newline: int,
        frozen: int = 20,
        rank: int = 64,
        alpha: float = 64.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        config = json.loads((folder / "config.json").read_text())
        self.folder = folder
        self.vocab, self.frozen, self.rank, self.alpha = vocab, frozen, rank, alpha
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.width, self.depth = config["hidden_size"], config["num_hidden_layers"]
        self.head = config.get("head_dim") or self.width // self.heads
        self.eps = config["rms_norm_eps"]
        self.theta = config["rope_parameters"]["rope_theta"]
        self.rotations = self._rotations(512)
        weights = {n: t.float() for n, t in load_file(folder / "model.safetensors").items()}
        table = weights["model.embed_tokens.weight"][: vocab.tokens]
        self.table = table
        self.inputs = torch.cat([table, control_rows(table, vocab, newline)])
        self.norm = weights["model.norm.weight"]
        self.base = [self._layer(weights, n) for n in range(self.depth)]
        self.rows = nn.Parameter(table.mean(0).repeat(vocab.size - vocab.tokens, 1))
        self.lora = nn.ParameterDict()
        generator = torch.Generator().manual_seed(seed)
        for n in range(frozen, self.depth):
            for name in PROJECTIONS:
                out, size = weights[f"model.layers.{n}.{projection_path(name)}.weight"].shape
                bound = 1 / math.sqrt(size)
                a = torch.empty(rank, size).uniform_(-bound, bound, generator=generator)
                self.lora[f"{n}_{name}_A"] = nn.Parameter(a)
                self.lora[f"{n}_{name}_B"] = nn.Parameter(torch.zeros(out, rank))

    @staticmethod
    def _layer(weights: dict[str, Tensor], n: int) -> dict[str, Tensor]:
        """Return the weights of a layer; projections of the same input are joined."""
        part = {
            name: weights[f"model.layers.{n}.{projection_path(name)}.weight"]
            for name in PROJECTIONS
        }
        return {
            "before": weights[f"model.layers.{n}.input_layernorm.weight"],
            "after": weights[f"model.layers.{n}.post_attention_layernorm.weight"],
            "qkv": torch.cat([part["q_proj"], part["k_proj"], part["v_proj"]]),
            "o": part["o_proj"],
            "gate_up": torch.cat([part["gate_proj"], part["up_proj"]]),
            "down": part["down_proj"],
        }

    # -- parts of the forward pass ------------------------------------------------------------

    def lower(self, ids: Tensor) -> Tensor:
        """Return what the first adapted layer reads, rounded to float16 as in the cache."""
        with torch.no_grad():
            hidden = F.embedding(ids, self.inputs)
            for layer in self.base[: self.frozen]:
                hidden = self._block(hidden, layer, None)
            return hidden.half()

    def upper(self, hidden: Tensor, *, adapted: bool = True) -> Tensor:
        """Return the normalized output of the last layer."""
        hidden = hidden.float()
        for n in range(self.frozen, self.depth):
            hidden = self._block(hidden, self.base[n], n if adapted else None)
        return F.rms_norm(hidden, (self.width,), self.norm, self.eps)

    def control_logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the control ids from `vocab.tokens` on."""
        return hidden @ self.rows.T

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of all ids."""
        return torch.cat([hidden @ self.table.T, self.control_logits(hidden)], -1)

    @torch.no_grad()
    def base_logits(self, ids: Tensor) -> Tensor:
        """Return the logits of the base model: adapters off, ordinary tokens only."""
        hidden = F.embedding(ids, self.inputs)
        for layer in self.base:
            hidden = self._block(hidden, layer, None)
        return F.rms_norm(hidden, (self.width,), self.norm, self.eps) @ self.table.T

    def _block(self, hidden: Tensor, layer: dict[str, Tensor], n: int | None) -> Tensor:
        batch, length, _ = hidden.shape
        x = F.rms_norm(hidden, (self.width,), layer["before"], self.eps)
        qkv = self._project(x, layer["qkv"], n, ("q_proj", "k_proj", "v_proj"))
        sizes = [self.heads * self.head, self.kv_heads * self.head, self.kv_heads * self.head]
        q, k, v = (
            part.view(batch, length, -1, self.head).transpose(1, 2) for part in qkv.split(sizes, -1)
        )
        cos, sin = self._rotation(length)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        times = self.heads // self.kv_heads
        k, v = (part.repeat_interleave(times, 1) for part in (k, v))
        # Batches are padded on the right, so the causal mask is all that is needed.
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x.transpose(1, 2).reshape(batch, length, -1)
        hidden = hidden + self._project(x, layer["o"], n, ("o_proj",))
        x = F.rms_norm(hidden, (self.width,), layer["after"], self.eps)
        gate, up = self._project(x, layer["gate_up"], n, ("gate_proj", "up_proj")).chunk(2, -1)
        return hidden + self._project(F.silu(gate) * up, layer["down"], n, ("down_proj",))

    def _project(self, x: Tensor, weight: Tensor, n: int | None, names: tuple[str, ...]) -> Tensor:
        if n is None:
            return x @ weight.T
        flat = x.reshape(-1, x.shape[-1])
        down = torch.cat([self.lora[f"{n}_{name}_A"] for name in names])
        parts = (flat @ down.T).split(self.rank, -1)
        scale = self.alpha / self.rank
        ups = (scale * self.lora[f"{n}_{name}_B"] for name in names)
        added = [part @ up.T for part, up in zip(parts, ups, strict=True)]
        # One call adds the low-rank part and multiplies, which saves a pass over memory.
        joined = torch.cat(added, -1) if len(added) > 1 else added[0]
        return torch.addmm(joined, flat, weight.T).view(*x.shape[:-1], -1)

    def _rotation(self, length: int) -> tuple[Tensor, Tensor]:
        if length > len(self.rotations[0]):
            self.rotations = self._rotations(2 * length)
        cos, sin = self.rotations
        return cos[:length], sin[:length]

    @torch.no_grad()
    def _rotations(self, length: int) -> tuple[Tensor, Tensor]:
        steps = torch.arange(0, self.head, 2, dtype=torch.float32) / self.head
        angles = torch.arange(length, dtype=torch.float32)[:, None] / self.theta**steps
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()

    # -- saving -------------------------------------------------------------------------------

    def save_adapter(self, folder: Path, values: dict[str, Tensor] | None = None) -> None:
        """Write the adapter in PEFT's format, with the rows of the control ids and the tokenizer.

        `reviser merge` turns the folder and the base into a model folder.

        `values` are other weights of the same names, such as their moving average.
        """
        folder.mkdir(parents=True, exist_ok=True)
        values = values or dict(self.named_parameters())
        tensors = {}
        for name, value in values.items():
            if name.startswith("lora."):
                tensors[peft_name(name.removeprefix("lora."))] = (
                    value.detach().clone().half().contiguous()
                )
        save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
        rows = {
            "output_rows": values["rows"].detach().clone(),
            "input_rows": self.inputs[self.vocab.tokens :].clone(),
        }
        save_file(rows, folder / "control_rows.safetensors", {"format": "pt"})
        config: dict[str, Any] = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
            "r": self.rank,
            "lora_alpha": self.alpha,
            "lora_dropout": 0.0,
            "bias": "none",
            "target_modules": list(PROJECTIONS),
            "layers_to_transform": list(range(self.frozen, self.depth)),
            "layers_pattern": "layers",
        }
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
        self.vocab.save(folder)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)

    def load_adapter(self, folder: Path) -> None:
        """Read what `save_adapter` wrote."""
        config = json.loads((folder / "adapter_config.json").read_text())
        made = config["r"], config["lora_alpha"], config["layers_to_transform"][0]
        if made != (self.rank, self.alpha, self.frozen):
            raise ValueError(
                f"The adapter in {folder} has rank, alpha and first layer {made}; this model has"
                f" {(self.rank, self.alpha, self.frozen)}."
            )
        tensors = load_file(folder / "adapter_model.safetensors")
        with torch.no_grad():
            for name, value in self.lora.items():
                value.copy_(tensors[peft_name(name)].float())
            self.rows.copy_(load_file(folder / "control_rows.safetensors")["output_rows"])


def projection_path(projection: str) -> str:
    """Return the path of a projection within its layer.

    >>> projection_path("q_proj")
    'self_attn.q_proj'
    """
    module = "self_attn" if projection[0] in "qkvo" else "mlp"
    return f"{module}.{projection}"


def peft_name(name: str) -> str:
    """Return PEFT's name of an adapter weight.

    >>> peft_name("20_q_proj_A")
    'base_model.model.model.layers.20.self_attn.q_proj.lora_A.weight'
    """
    n, _, rest = name.partition("_")
    projection, _, side = rest.rpartition("_")
    path = projection_path(projection)
    return f"base_model.model.model.layers.{n}.{path}.lora_{side}.weight"


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x.chunk(2, -1)
    return x * cos + torch.cat([-two, one], -1) * sin
