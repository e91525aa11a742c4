"""The fewest steps that an editor and a rewriter can take; counted, not run.

A rewriter is counted with and without vLLM's n-gram speculation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from reviser.core.actions import ActionVocab
from reviser.core.codec import UNITS, Codec
from reviser.lab.evals import intervals
from reviser.trajectories.alignment import Address, revision

ADDRESS: Address = "both"
SHORTEST, LONGEST, GUESSED = 2, 4, 16
"""vLLM's settings: lengths of the n-grams looked up, and tokens guessed at a time."""


def fewest_steps(
    vocab: ActionVocab, codec: Codec, drafts: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    """Return the steps of perfect systems that read each draft as a whole.

    For an editor these are the ids of the shortest revision; for a rewriter, the ids of the text;
    for a rewriter with n-gram speculation, its forward passes.
    """
    rows = []
    for draft in drafts:
        before, after = (codec.encode(draft[name]) for name in ("draft", "clean"))
        starts = [(codec.unit_starts(text) & UNITS["word"]) > 0 for text in (before, after)]
        made = revision(vocab, before, after, starts=(starts[0], starts[1]), address=ADDRESS)
        written = [*after, vocab.stop]
        steps = {
            "editor": len(made.restoration) - len(made.no_loss),
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


def forwards(read: Sequence[int], written: Sequence[int]) -> int:
    """Return the forward passes of a greedy model with n-gram speculation, by vLLM's rule.

    Each pass gives the correct guesses and one more token. The guess is what follows the earliest
    occurrence of the longest n-gram that equals the end of the text so far.

    >>> forwards([1, 2, 3, 4, 5, 6, 0], [1, 2, 3, 4, 5, 6])
    3
    """
    known, done, count = [*read], 0, 0
    while done < len(written):
        guess = _guess(known) if count else []
        same = [a == b for a, b in zip(guess, written[done:], strict=False)]
        right = same.index(False) if False in same else len(same)
        known += written[done : done + right + 1]
        done, count = done + right + 1, count + 1
    return count


def _guess(known: list[int]) -> list[int]:
    for n in range(LONGEST, SHORTEST - 1, -1):
        for start in range(len(known) - n):
            if known[start : start + n] == known[-n:]:
                return known[start + n : start + n + GUESSED]
    return []
