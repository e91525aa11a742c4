"""The paper's evaluation results, to show next to ours. None of these numbers is our measurement.

Tables are named by the paper's LaTeX labels; `tests/lab/evals/test_paper_figures.py` finds each
number in the paper. This module knows nothing about records or pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

SIZES = ("100M", "300M")
"""The paper's two model sizes; each has an autoregressive baseline of its size and data."""


class Model(NamedTuple):
    """A model of the paper's tables, with its size as printed."""

    name: str
    size: str

    def __str__(self) -> str:
        return f"{self.name} {self.size}"


REVISER = {size: Model("Reviser", size) for size in SIZES}
BASELINE = {size: Model("AR Baseline", size) for size in SIZES}
SEDD_SMALL, SEDD_ABSORB = Model("SEDD Small", "169M"), Model("SEDD Absorb", "353M")
MDLM = Model("MDLM", "170M")

PERPLEXITY: dict[str, dict[Model, float]] = {
    "GPT-2 Large": {
        BASELINE["100M"]: 13.5210,
        REVISER["100M"]: 30.6355,
        SEDD_SMALL: 158.7165,
        MDLM: 144.6948,
        BASELINE["300M"]: 12.5122,
        REVISER["300M"]: 17.7700,
        SEDD_ABSORB: 98.6821,
    },
    "Dream 7B": {
        BASELINE["100M"]: 13.9584,
        REVISER["100M"]: 22.6693,
        SEDD_SMALL: 117.0477,
        MDLM: 94.3026,
        BASELINE["300M"]: 12.0203,
        REVISER["300M"]: 15.7733,
        SEDD_ABSORB: 83.2764,
    },
}
"""evalPPL by scorer [tab:evalppl_vs_ar_baseline, tab:evalppl_vs_diffusion]."""

MAUVE: dict[Model, float] = {
    BASELINE["100M"]: 0.9038,
    BASELINE["300M"]: 0.9103,
    REVISER["300M"]: 0.9349,
    Model("GPT-2", "117M"): 0.8770,
    Model("GPT-2 Medium", "345M"): 0.8230,
    REVISER["100M"]: 0.8392,
    SEDD_ABSORB: 0.3594,
    SEDD_SMALL: 0.1798,
    MDLM: 0.1509,
}
"""MAUVE by model [tab:mauve_all]."""

ARENA: dict[str, dict[Model, float]] = {
    "100M": {
        BASELINE["100M"]: 0.613,
        Model("Cerebras", "111M"): 0.721,
        Model("Pythia", "160M"): 0.688,
        Model("GPT-2", "117M"): 0.586,
        Model("OPT", "125M"): 0.539,
        SEDD_SMALL: 0.8593,
        MDLM: 0.7833,
    },
    "300M": {
        BASELINE["300M"]: 0.544,
        Model("Cerebras", "256M"): 0.713,
        Model("Pythia", "410M"): 0.513,
        Model("GPT-2", "345M"): 0.504,
        Model("OPT", "350M"): 0.499,
        SEDD_ABSORB: 0.6847,
    },
}
"""Win rate of the Reviser of each size against each model.

[tab:arena_vs_ar_baseline, tab:ar_baselines_100m, tab:arena_vs_diffusion]
"""

TRAJECTORIES: dict[str, dict[str, Any]] = {
    "100M": {
        "actions_per_token": 1.51,
        "insert_fraction": 0.67,
        "move_fraction": 0.33,
        "move_distance": 4.92,
        "move_sizes": {1: 0.405, 2: 0.233, 4: 0.158, 8: 0.100},
        "backward_fraction": 0.655,
        "insert_position": 0.41,
        "end_append_fraction": 0.039,
        "inner_insert_fraction": 0.961,
        "revised": 1.0,
    },
    "300M": {
        "actions_per_token": 1.40,
        "insert_fraction": 0.72,
        "move_fraction": 0.28,
        "move_distance": 6.05,
        "move_sizes": {1: 0.374, 2: 0.227, 4: 0.155, 8: 0.111},
        "backward_fraction": 0.645,
        "insert_position": 0.42,
        "end_append_fraction": 0.031,
        "inner_insert_fraction": 0.969,
        "revised": 1.0,
    },
}
"""Statistics of its models [tab:trajectory_stats], by name in `TrajectoryStatistics`."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The conditions of training and evaluation of one size [sec:setup_exp, sec:repro]."""

    training_data: str = "FineWeb"
    trunk: str
    policy: str = "delete 0.8, move 0.2, undone backwards"
    trained_on: str = "30B edit-history tokens, moves included; its AR baseline: 30B text tokens"
    documents: str = "C4, English validation split, documents of 144 to 216 GPT-2 tokens"
    lengths: str = "prefix of 35 tokens, 180 tokens in all"
    texts: str = "3000: 1000 prompts for each of 3 seeds (123, 124, 125)"
    decoding: str = "temperature 0.9, top-k 50, no top-p, at most 256 actions"
    scorer: str = "GPT-2 Large; Dream 7B"
    mauve: str = "BERT pseudo-loglikelihood features, 100 tokens, 3000 texts"
    judge: str = "Skywork-Critic-8B, sides at random"


SETTING = {
    "100M": Conditions(trunk="100M parameters: 24 layers, width 512, 8 heads"),
    "300M": Conditions(trunk="300M parameters: 26 layers, width 896, 14 heads"),
}
