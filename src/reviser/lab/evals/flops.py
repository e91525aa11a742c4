"""The cost of writing: every formula of the paper's appendix, and the cost of real rollouts.

One unit is one multiply-accumulate of a dominant matrix product; biases, norms and activations are
left out. Double it to count two FLOPs each; ratios do not change. Inputs have the paper's names,
and sections its LaTeX labels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reviser.errors import DataError
from reviser.lab.evals.intervals import Clusters, Estimate, ratio_of_means
from reviser.lab.evals.trajectories import Walk


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a trunk, named as in the paper.

    L layers of width d, an MLP of width d_ff, an output head of V rows, h query heads and h_kv key
    and value heads, which are fewer with grouped queries. A gated MLP has three linear maps, as in
    LLaMA and Qwen, instead of two.
    """

    L: int
    d: int
    d_ff: int
    V: int
    h: int = 1
    h_kv: int = 1
    gated: bool = False

    @classmethod
    def of(cls, folder: Path) -> Sizes | None:
        """Read the sizes of a model folder; None if the formulas do not cover its attention."""
        config = json.loads((folder / "config.json").read_text("utf-8"))
        names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
        if any(not isinstance(config.get(name), int) for name in names):
            return None
        L, d, h, V = (config[name] for name in names)
        if config.get("head_dim") not in (None, d // h):
            return None
        return cls(
            L=L,
            d=d,
            d_ff=config.get("intermediate_size") or 4 * d,
            V=V,
            h=h,
            h_kv=config.get("num_key_value_heads") or h,
            gated=config.get("model_type") not in PLAIN,
        )

    @property
    def d_kv(self) -> float:
        """Width of keys and values."""
        return self.d * self.h_kv / self.h


PLAIN = ("gpt_neox", "gpt_neo", "gpt2", "opt", "bloom", "phi", "falcon")
"""Architectures whose MLP has two maps; newer ones mostly have three."""
SHARED = Sizes(L=12, d=768, d_ff=4 * 768, V=50_000)
"""One trunk for all methods, so that ratios mean something."""
QWEN_32B = Sizes(L=64, d=5120, d_ff=27_648, V=152_064, h=40, h_kv=8, gated=True)
QWEN_7B = Sizes(L=28, d=3584, d_ff=18_944, V=152_064, h=28, h_kv=4, gated=True)
LLADA_8B = Sizes(L=32, d=4096, d_ff=12_288, V=126_464, h=32, h_kv=32, gated=True)
LLAMA3_8B = Sizes(L=32, d=4096, d_ff=14_336, V=128_256, h=32, h_kv=8, gated=True)


# -- primitives [app:flops_primitives] ------------------------------------------------------------


def mult(a: float, b: float, c: float) -> float:
    """Return the cost of a product of an a x b and a b x c matrix."""
    return a * b * c


def full(sizes: Sizes, n: float) -> float:
    """Return the cost of one pass over n positions, each of which attends to all."""
    return sizes.L * (_linear(sizes, n) + 2 * mult(n, n, sizes.d))


def causal(sizes: Sizes, n: float) -> float:
    """Return the cost of a causal pass over n positions, or n cached steps: n (n + 1) / 2 pairs."""
    return sizes.L * (_linear(sizes, n) + n * (n + 1) * sizes.d)


def cross_attention(sizes: Sizes, n: float, n_src: float) -> float:
    """Return the cost of n decoder positions that attend to a source: Q, O; K, V; logits, sum."""
    d = sizes.d
    return sizes.L * (2 * mult(n, d, d) + 2 * mult(n_src, d, d) + 2 * mult(n, n_src, d))


def vocab(sizes: Sizes, m: float) -> float:
    """Return the cost of the output head at m positions."""
    return mult(m, sizes.d, sizes.V)


def _linear(sizes: Sizes, n: float) -> float:
    """Return the cost of a layer's linear maps: Q, O; K, V, narrower if grouped; the MLP."""
    d, maps = sizes.d, 3 if sizes.gated else 2
    return 2 * mult(n, d, d) + 2 * mult(n, d, sizes.d_kv) + maps * mult(n, d, sizes.d_ff)


# -- anchors [app:reviser_flops, app:diff_family_big_ar] ------------------------------------------


def autoregressive(sizes: Sizes, n: float) -> float:
    """Return the cost of writing left to right with a cache, with the head once per token."""
    return causal(sizes, n) + vocab(sizes, n)


def effective_length(n: float, p_move: float) -> float:
    """Return n_eff: the number of actions for n tokens if p_move of them are moves.

    >>> effective_length(128, 0.2)
    160.0
    """
    if not 0 <= p_move < 1:
        raise DataError(f"p_move is {p_move}; it goes from 0 to below 1.")
    return n / (1 - p_move)


def reviser(sizes: Sizes, n: float, p_move: float) -> float:
    """Return the cost of an autoregressive model over the effective length."""
    return autoregressive(sizes, effective_length(n, p_move))


# -- diffusion [app:sedd_100m, app:mdlm_100m, app:d3pm_100m, app:diffusionlm_100m] ----------------


def diffusion(sizes: Sizes, n: float, T_dec: int) -> float:
    """Return the cost of SEDD, MDLM or D3PM: T_dec full passes with logits at every position."""
    return T_dec * (full(sizes, n) + vocab(sizes, n))


def diffusion_lm(sizes: Sizes, n: float, T_dec: int, gamma_clamp: float) -> float:
    """Return the cost of Diffusion-LM, which rounds at the end and at a share of other steps."""
    rounds = 1 + gamma_clamp * (T_dec - 1)
    return T_dec * full(sizes, n) + rounds * vocab(sizes, n)


# -- large diffusion models [app:sdlm_32b, app:dream_7b, app:llada_8b] ----------------------------


def sdlm(sizes: Sizes, n: int, D: int, k_bar: float) -> float:
    """Return the cost of SDLM.

    Each pass proposes D tokens after a cached prefix and keeps k_bar of them on average.
    """
    passes = math.ceil(n / k_bar)
    return sum(_cached_block(sizes, D, s * k_bar) + vocab(sizes, D) for s in range(passes))


def _cached_block(sizes: Sizes, D: int, n_pre: float) -> float:
    pairs = 2 * mult(D, n_pre, sizes.d) + mult(D, D + 1, sizes.d)
    return sizes.L * (_linear(sizes, D) + pairs)


def masked_diffusion(sizes: Sizes, n: float, T_dec: int) -> float:
    """Return the cost of Dream or LLaDA: T_dec full passes, with logits of what is masked.

    The masked share falls linearly.
    """
    return T_dec * full(sizes, n) + (T_dec + 1) / 2 * vocab(sizes, n)


def masked_diffusion_in_blocks(sizes: Sizes, n: int, b: int, T_b: int) -> float:
    """Return the cost of LLaDA in blocks of b tokens, T_b passes each over the text so far."""
    blocks = range(1, math.ceil(n / b) + 1)
    trunk = sum(full(sizes, min(j * b, n)) for j in blocks)
    return T_b * trunk + len(blocks) * (T_b + 1) / 2 * vocab(sizes, b)


# -- refinement [app:prior_art_table] -------------------------------------------------------------


def levenshtein(
    sizes: Sizes, n: float, R: int, *, f_del: float = 1.0, f_plh: float = 1.0, K_max: int = 16
) -> float:
    """Return the cost of LevT: R rounds of deleting, counting placeholders and filling.

    `f_del` and `f_plh` are the depth of an early exit. The first two stages see 0.8 n positions on
    average, and a round fills 0.4 n.
    """
    n_0, m = 0.8 * n, 0.4 * n
    trunks = (f_del + f_plh) * full(sizes, n_0) + full(sizes, n)
    heads = mult(n_0, sizes.d, 2) + mult(n_0 + 1, 2 * sizes.d, K_max + 1) + vocab(sizes, m)
    return R * (trunks + heads)


def insertion(sizes: Sizes, lengths: Iterable[int]) -> float:
    """Return the cost of InsT: a full pass at each length n_t, with logits for n_t + 1 slots."""
    return sum(full(sizes, n_t) + vocab(sizes, n_t + 1) for n_t in lengths)


def balanced(n: int) -> list[int]:
    """Return the lengths of a text if every slot is filled in each pass: 1, 2, 4, ... n.

    >>> balanced(8)
    [1, 2, 4, 8]
    """
    return [2**k for k in range(n.bit_length())]


def one_shot(sizes: Sizes, n: float, n_src: float, K_fert: int = 50) -> float:
    """Return the cost of NAT: encoder, fertility of each source token and decoder, once each."""
    decoder = full(sizes, n) + cross_attention(sizes, n, n_src)
    return full(sizes, n_src) + mult(n_src, sizes.d, K_fert) + decoder + vocab(sizes, n)


def mask_predict(sizes: Sizes, n: int, n_src: float, T_mp: int = 10) -> float:
    """Return the cost of CMLM: the encoder once, then T_mp decoder passes over what is masked."""
    decoder = full(sizes, n) + cross_attention(sizes, n, n_src)
    return full(sizes, n_src) + T_mp * decoder + vocab(sizes, sum(masked(n, T_mp)))


def masked(n: int, T_mp: int) -> list[int]:
    """Return how many tokens are masked at each pass of Mask-Predict, in linear decay.

    >>> masked(128, 10)
    [128, 115, 102, 89, 76, 64, 51, 38, 25, 12]
    """
    return [n * (T_mp - t) // T_mp for t in range(T_mp)]


# -- the tables -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method's cost, and its ratio to an autoregressive model of the same size."""

    method: str
    variant: str
    flops: float
    multiplier: float


def table(n: int = 128) -> list[Row]:
    """Return every row of the paper's tables, for texts of n tokens."""

    def rows(sizes: Sizes, baseline: str, costs: Sequence[tuple[str, str, float]]) -> list[Row]:
        base = autoregressive(sizes, n)
        return [
            Row(method=method, variant=variant, flops=flops, multiplier=flops / base)
            for method, variant, flops in [(baseline, "baseline", base), *costs]
        ]

    s = SHARED
    small = [
        *(("Reviser", f"p_move={p}", reviser(s, n, p)) for p in (0.20, 0.28, 0.33)),
        *(("SEDD", f"T_dec={T}", diffusion(s, n, T)) for T in (32, 2048)),
        ("MDLM", "T_dec=1000", diffusion(s, n, 1000)),
        ("D3PM", "T_dec=1000", diffusion(s, n, 1000)),
        *(
            ("Diffusion-LM", f"T_dec={T}, gamma_clamp={g}", diffusion_lm(s, n, T, g))
            for T, g in ((200, 0), (200, 1), (2000, 0))
        ),
        *(("LevT", f"no EE, R={R}", levenshtein(s, n, R)) for R in (5, 10)),
        *(("LevT", f"EE, R={R}", levenshtein(s, n, R, f_del=0.5, f_plh=0.5)) for R in (5, 10)),
        ("InsT", "balanced-tree", insertion(s, balanced(n))),
        ("InsT", "serial", insertion(s, range(1, n + 1))),
        ("NAT", "one-shot", one_shot(s, n, n)),
        ("CMLM", "T_mp=10", mask_predict(s, n, n)),
    ]
    dream = [("Dream-7B", f"T_dec={T}", masked_diffusion(QWEN_7B, n, T)) for T in (10, 20)]
    llada = [
        ("LLaDA-8B", "T_dec=256", masked_diffusion(LLADA_8B, n, 256)),
        ("LLaDA-8B", "b=32, T_b=16", masked_diffusion_in_blocks(LLADA_8B, n, 32, 16)),
    ]
    return [
        *rows(SHARED, "AR", small),
        *rows(QWEN_32B, "AR (Qwen2.5-32B)", [("SDLM-32B-D4", "D=4, k=2", sdlm(QWEN_32B, n, 4, 2))]),
        *rows(QWEN_7B, "AR (Qwen2.5-7B)", dream),
        *rows(LLAMA3_8B, "AR (LLaMA3-8B)", llada),
    ]


# -- real rollouts --------------------------------------------------------------------------------


def decoding(sizes: Sizes, preamble: float, actions: float) -> float:
    """Return the cost of reading a preamble and choosing actions, with the head for those only."""
    return causal(sizes, preamble + actions) + vocab(sizes, actions)


@dataclass(frozen=True, kw_only=True)
class Multiplier:
    """The cost of rollouts relative to writing as many tokens left to right."""

    measured: Estimate
    """Cost ratio where both models read the preamble, and emit STOP if the rollout did."""
    without_preamble: Estimate
    """Cost ratio without the preamble, as the paper counts."""
    analytic: float
    """The paper's formula at the mean length and share of moves of these rollouts."""


def multiplier(sizes: Sizes, walks: Sequence[Walk], clusters: Clusters = None) -> Multiplier:
    """Compare the cost of rollouts with an autoregressive model of the same sizes."""
    tokens = sum(w.tokens for w in walks)
    if tokens <= 0 or min(w.tokens for w in walks) < 0:
        raise DataError(
            "A text shrank, or none grew: its cost cannot be compared with writing left to right."
        )
    n, p_move = (
        tokens / len(walks),
        sum(len(w.moves) for w in walks) / sum(w.actions for w in walks),
    )

    def against(preambles: Sequence[int]) -> Estimate:
        ours = [decoding(sizes, g, w.actions) for g, w in zip(preambles, walks, strict=True)]
        theirs = [
            decoding(sizes, g, w.tokens + w.stops) for g, w in zip(preambles, walks, strict=True)
        ]
        found = ratio_of_means(ours, theirs, clusters)
        return found.within(1, math.inf)  # no rollout has fewer actions than tokens

    return Multiplier(
        measured=against([w.preamble for w in walks]),
        without_preamble=against([0] * len(walks)),
        analytic=reviser(sizes, n, p_move) / autoregressive(sizes, n),
    )
