"""Whether a draft is revised or rewritten, by which will take fewer steps; told before decoding.

What rewriting takes is known: the draft's tokens, and a STOP for each window. What revising takes
is fitted on some drafts: so much for a window, for a token, and for every window that the editor
would not leave alone, which its first step says (one minus the probability of STOP) and which has
to be read for revising anyway. Knows counts only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from speculation import forwards

from reviser.core.actions import ActionVocab
from reviser.core.codec import UNITS, Codec
from reviser.evals import intervals
from reviser.trajectories.alignment import Address, revision

Floats = npt.NDArray[np.float64]
ADDRESS: Address = "both"


@dataclass(frozen=True, kw_only=True)
class Known:
    """Of a draft, before anything is decoded."""

    windows: int
    tokens: int
    going: float
    """Windows in which the editor would do something, as it expects."""

    @property
    def rewriting(self) -> int:
        """Steps that writing it anew takes, if it stays as long."""
        return self.tokens + self.windows


def fit(known: list[Known], steps: list[int]) -> Floats:
    """What a window, a token and a window that needs something cost in steps, by least squares."""
    weights: Floats = np.linalg.lstsq(_rows(known), np.array(steps, np.float64))[0]
    return weights


def revises(known: list[Known], weights: Floats) -> list[bool]:
    """Which of the drafts to revise."""
    expected = _rows(known) @ weights
    return [bool(e <= draft.rewriting) for e, draft in zip(expected, known, strict=True)]


def _rows(known: list[Known]) -> Floats:
    return np.array([[draft.windows, draft.tokens, draft.going] for draft in known], np.float64)


def judged(
    known: list[Known], revising: list[int], rewriting: list[int], texts: list[Any]
) -> dict[str, Any]:
    """Fitted on one half of the texts, and on the other what each choice costs over the best.

    Drafts of one text are on one side and count as one.
    """
    order = {text: n for n, text in enumerate(dict.fromkeys(texts))}
    is_test = [order[text] % 2 == 1 for text in texts]
    seen = [n for n, test in enumerate(is_test) if not test]
    rest = [n for n, test in enumerate(is_test) if test]
    weights = fit([known[n] for n in seen], [revising[n] for n in seen])
    choice = revises([known[n] for n in rest], weights)
    costs = {
        "router": [(revising if c else rewriting)[n] for n, c in zip(rest, choice, strict=True)],
        "always revising": [revising[n] for n in rest],
        "always rewriting": [rewriting[n] for n in rest],
    }
    best = [min(revising[n], rewriting[n]) for n in rest]
    clusters = [texts[n] for n in rest]
    return {
        "drafts": len(rest),
        "fitted_on": len(seen),
        "weights": weights.tolist(),
        "revised": sum(choice),
        "better_revised": sum(revising[n] <= rewriting[n] for n in rest),
        "over_the_best": {
            name: asdict(intervals.ratio_of_means(steps, best, clusters).map(lambda x: x - 1))
            for name, steps in costs.items()
        },
    }


def ideal(vocab: ActionVocab, codec: Codec, drafts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What is taken without mistake and without windows, each draft read as a whole.

    Of an editor, the ids of the shortest revision; of a rewriter, those of the text; with n-gram
    speculation, forwards.
    """
    rows = []
    for draft in drafts:
        before, after = (codec.encode(draft[name]) for name in ("draft", "clean"))
        starts = [(codec.unit_starts(text) & UNITS["word"]) > 0 for text in (before, after)]
        made = revision(vocab, before, after, starts=(starts[0], starts[1]), address=ADDRESS)
        written = [*after, vocab.stop]
        steps = {
            "editor": len(made.restoration) - len(made.unlearned),
            "rewriter": len(written),
            "n-gram": forwards(vocab.prefix_actions(before), written),
        }
        rows.append({key: draft[key] for key in ("size", "mistakes", "clean")} | steps)
    mistakes, texts = ([row[key] for row in rows] for key in ("mistakes", "clean"))
    each = intervals.ratio_of_means([row["editor"] - 1 for row in rows], mistakes, texts)
    return {
        "ids_for_a_mistake": asdict(each),
        "rows": [{key: part for key, part in row.items() if key != "clean"} for row in rows],
    }
