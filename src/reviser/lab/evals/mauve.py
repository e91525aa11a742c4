"""MAUVE: the distance between the distributions of a system's texts and of human texts.

The published formulas (Pillutla et al. 2021) with scikit-learn's k-means: features of both sets are
clustered together, and the two histograms are compared along a divergence curve. The features are
the paper's pseudo-log-likelihoods under a masked LM, or the usual hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
)

from reviser.errors import CheckpointError, DataError, MissingExtra
from reviser.lab.evals.intervals import Estimate, jackknife
from reviser.lab.evals.texts import Sample
from reviser.models import hub, trunks

SCALE = 5.0
"""The paper's c: how fast a divergence becomes a distance of almost 1."""
CURVE = 25
"""Number of mixtures along the curve."""
MAX_TOKENS = 100
"""Texts are cut to this many tokens of the features' model, as in the paper."""
MAX_CLUSTERS = 500
CLUSTERINGS = 5
"""Number of k-means runs, each with its own seed, that a value averages."""
VARIANCE = 0.9
"""Share of the features' variance that the clustered principal components keep."""

Features = npt.NDArray[np.float64]
Extract = Callable[[Sequence[str]], tuple[Features, dict[str, Any]]]
"""A function from texts to a row of features for each, and what a record says about them."""


@dataclass(frozen=True, kw_only=True)
class MauveReport:
    """MAUVE of one set of samples."""

    mauve: Estimate
    """The value is 1 for equal distributions. The interval is over texts, for fixed clusters."""
    clusters: int
    features: dict[str, Any]


def evaluate(samples: Sequence[Sample], features: Extract) -> MauveReport:
    """Measure MAUVE of the continuations against the references of the same samples.

    `features` is a function of this module with its model filled in: `partial(hidden_states,
    name)`.
    """
    references = references_of(samples)
    both, about = features([*references, *(sample.continuation for sample in samples)])
    ours, theirs = both[len(references) :], both[: len(references)]
    groups = [sample.id for sample in samples]
    value, used = mauve(ours, theirs, groups)
    return MauveReport(mauve=value, clusters=used, features=about)


def references_of(samples: Sequence[Sample]) -> list[str]:
    """Return the references of the samples, which MAUVE compares with."""
    found = [sample.reference for sample in samples if sample.reference is not None]
    if len(found) < len(samples):
        raise DataError(
            f"{len(samples) - len(found)} of {len(samples)} samples have no reference, which MAUVE"
            " compares with: give the files of prompts too."
        )
    return found


def mauve(
    ours: Features, theirs: Features, groups: Sequence[str] | None = None
) -> tuple[Estimate, int]:
    """Return MAUVE of two sets of features, and the number of clusters: a tenth of the set.

    The value is the mean of several clusterings, since one alone varies as much as the texts do.
    Row n of both sets belongs to group n, and the interval leaves out one group at a time. By
    default, each row is a group.
    """
    if min(len(ours), len(theirs)) < 2:
        raise DataError("MAUVE compares distributions: give 2 texts or more on either side.")
    if not len(ours) == len(theirs) == len(ours if groups is None else groups):
        raise DataError("Give as many groups as there are texts on either side.")
    k = min(MAX_CLUSTERS, max(2, round(len(ours) / 10)))
    both = np.concatenate([ours, theirs])
    labels = [_labels(both, k, seed) for seed in range(CLUSTERINGS)]
    numbers = np.unique(range(len(ours)) if groups is None else groups, return_inverse=True)[1]
    runs = [_areas(each, k, numbers) for each in labels]
    used = max(len(np.unique(each)) for each in labels)
    value, *without = np.mean(runs, axis=0).tolist()
    return jackknife(value, without).within(0, 1), used


def _areas(labels: npt.NDArray[np.intp], k: int, groups: npt.NDArray[np.intp]) -> list[float]:
    """Return the area for all rows, then without each group in turn."""
    sides = np.eye(k)[labels].reshape(2, len(groups), k)
    parts = np.zeros((2, groups.max() + 1, k))
    for part, rows in zip(parts, sides, strict=True):
        np.add.at(part, groups, rows)
    whole = sides.sum(1)
    rests = [whole - parts[:, n] for n in range(parts.shape[1])]
    return [area(*whole), *(area(*rest) for rest in rests if rest.sum(1).min() > 0)]


def area(p: Features, q: Features) -> float:
    """Return the area under the divergence curve of two histograms, given as counts.

    A point of the curve has the coordinates exp(-c KL(q | r)) and exp(-c KL(p | r)), where r is a
    mixture of the two. The curve goes from (1, 0) to (0, 1).
    """
    p, q = p / p.sum(), q / q.sum()
    weights = np.linspace(1e-6, 1 - 1e-6, CURVE)[:, None]
    mixtures = weights * p + (1 - weights) * q
    x = np.exp(-SCALE * _divergence(q, mixtures))
    y = np.exp(-SCALE * _divergence(p, mixtures))
    x, y = np.r_[1.0, x, 0.0], np.r_[0.0, y, 1.0]
    # x falls and y rises along the curve. Both readings of the area count alike, for P and Q do.
    return float(_trapezoids(x, y) + _trapezoids(y, x)) / 2


def _divergence(p: Features, mixtures: Features) -> Features:
    terms = np.zeros_like(mixtures)
    seen = p > 0
    terms[:, seen] = p[seen] * np.log(p[seen] / mixtures[:, seen])
    return np.asarray(terms.sum(1), np.float64)


def _trapezoids(x: Features, y: Features) -> float:
    return abs(float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)))


def check_installed() -> None:
    """Raise an error if scikit-learn is missing, before features are computed."""
    try:
        import sklearn  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "MAUVE needs scikit-learn. Install it with: pip install 'reviser-lm[eval]'."
        ) from error


def _labels(features: Features, k: int, seed: int) -> npt.NDArray[np.intp]:
    """Cluster rows: scale them to length 1, take principal components, run k-means."""
    check_installed()
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    rows: Features = normalize(features)
    if np.ptp(rows, axis=0).max() < 1e-12:
        return np.zeros(len(rows), np.intp)  # all alike: one cluster
    if min(rows.shape) > 1:
        rows = PCA(n_components=VARIANCE, svd_solver="full").fit_transform(rows)
    most = len(np.unique(rows.round(12), axis=0))
    labels: npt.NDArray[np.intp] = KMeans(min(k, most), n_init=5, random_state=seed).fit_predict(
        rows
    )
    return labels


def remembered(features: Extract) -> Extract:
    """Wrap a function of features so that it reads each text only once."""
    known: dict[str, npt.NDArray[np.float64]] = {}
    about: dict[str, Any] = {}

    def extract(texts: Sequence[str]) -> tuple[Features, dict[str, Any]]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            rows, description = features(new)
            known.update(zip(new, rows, strict=True))
            about.update(description)
        return np.array([known[text] for text in texts]), about

    return extract


# -- features -------------------------------------------------------------------------------------


@torch.inference_mode()
def hidden_states(
    name: str | Path,
    texts: Sequence[str],
    *,
    max_tokens: int = MAX_TOKENS,
    rows: int = 16,
    device: str = "cpu",
) -> tuple[Features, dict[str, Any]]:
    """Return the final hidden state of the last token of each text."""
    model, tokenizer, about = _opened(AutoModel, name, device)
    found: list[Features | None] = [None] * len(texts)
    for numbers, tokens_BT, mask_BT in _batches(tokenizer, texts, max_tokens, rows):
        states_BTD = model(
            input_ids=tokens_BT.to(device), attention_mask=mask_BT.to(device)
        ).last_hidden_state.float()
        for row, n in enumerate(numbers):
            last = int(mask_BT[row].sum()) - 1
            found[n] = states_BTD[row, last].double().cpu().numpy()
    return np.array(found), about | {"features": "last hidden state", "max_tokens": max_tokens}


@torch.inference_mode()
def pseudo_log_likelihoods(
    name: str | Path,
    texts: Sequence[str],
    *,
    max_tokens: int = MAX_TOKENS,
    rows: int = 64,
    device: str = "cpu",
) -> tuple[Features, dict[str, Any]]:
    """Return each token's log-likelihood under a masked LM that sees all others (Salazar et al.).

    The paper says no more about its features. We read it as one feature per position in the text,
    and 0 after its end. A text costs one forward pass per token.
    """
    model, tokenizer, about = _opened(AutoModelForMaskedLM, name, device)
    mask_token = tokenizer.mask_token_id
    if mask_token is None:
        raise CheckpointError(f"The tokenizer of {str(name)!r} has no mask token.")
    found = np.zeros((len(texts), max_tokens))
    for n, text in enumerate(texts):
        read = _read(tokenizer, text, max_tokens, return_special_tokens_mask=True)
        whole, special = read["input_ids"], read["special_tokens_mask"]
        positions = [n for n, is_special in enumerate(special) if not is_special]
        for start in range(0, len(positions), rows):
            some = torch.tensor(positions[start : start + rows])
            tokens_BT = torch.tensor(whole).repeat(len(some), 1)
            row_B = torch.arange(len(some))
            truth_B = tokens_BT[row_B, some].clone()
            tokens_BT[row_B, some] = mask_token
            logits_BTV = model(input_ids=tokens_BT.to(device)).logits
            logp_BV = torch.log_softmax(logits_BTV[row_B, some].float(), -1)
            found[n, start : start + len(some)] = logp_BV[row_B, truth_B].double().cpu().numpy()
    return found, about | {"features": "pseudo-log-likelihood by place", "max_tokens": max_tokens}


def _opened(kind: Any, name: str | Path, device: str) -> tuple[Any, Any, dict[str, Any]]:
    folder = trunks.find(name)
    try:
        opened: Any = kind.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            dtype=torch.float32,
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CheckpointError(f"Cannot open a model in {str(folder)!r}: {reason}") from error
    model, report = opened
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)  # not in use
    if missing:  # Transformers would leave them random
        raise CheckpointError(
            f"The weights in {str(folder)!r} lack {len(missing)} of the tensors that these features"
            f" need, first {missing[0]}."
        )
    about = {"model": str(name), **hub.identity(folder)}
    return model.to(device).eval(), tokenizer, about


def _batches(
    tokenizer: Any, texts: Sequence[str], max_tokens: int, rows: int
) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
    """Yield indices of texts of similar length with their token ids and mask.

    A text without tokens becomes the tokenizer's begin or end token, or its first.
    """
    known = [t for t in (tokenizer.bos_token_id, tokenizer.eos_token_id) if t is not None]
    ids = [_read(tokenizer, text, max_tokens)["input_ids"] or [*known, 0][:1] for text in texts]
    order = sorted(range(len(ids)), key=lambda n: len(ids[n]))
    for start in range(0, len(order), rows):
        numbers = order[start : start + rows]
        longest = len(ids[numbers[-1]])
        tokens_BT = torch.zeros((len(numbers), longest), dtype=torch.long)
        mask_BT = torch.zeros_like(tokens_BT)
        for row, n in enumerate(numbers):
            tokens_BT[row, : len(ids[n])] = torch.tensor(ids[n])
            mask_BT[row, : len(ids[n])] = 1
        yield numbers, tokens_BT, mask_BT


def _read(tokenizer: Any, text: str, max_tokens: int, **options: Any) -> dict[str, list[int]]:
    """Return the first tokens of a text, with the model's special tokens around them.

    A text that spells a control token is split into its letters.
    """
    most = max_tokens + tokenizer.num_special_tokens_to_add()
    read: dict[str, list[int]] = tokenizer(
        text, truncation=True, max_length=most, split_special_tokens=True, **options
    )
    return read
