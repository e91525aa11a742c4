"""What may be wrong: suggestions of the word lists, where the model finds an edit likely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

import numpy as np

from reviser.models.wordlists import WordLists
from reviser.proofread.draft import Draft
from reviser.writing.changes import Change

EXTRA_LETTER = 3.0
"""What a spelling's log-probability loses for each letter more than the nearest one has wrong."""
MIN_PROBABILITY = 1e-4
"""The smallest edit probability that makes a difference: smaller ones count as this one."""


def suggest(
    draft: Draft, likely: Sequence[float], threshold: float, lists: WordLists | None
) -> Iterator[Change]:
    """Yield what the word lists suggest for a window where an edit is likely.

    `likely` has the probability that an edit ends at each boundary of tokens. A spelling is
    suggested wherever a word is not in the list, unless it has a capital and may be a name. Locked
    text and the context are left alone.
    """
    if lists is None or not draft.prompt.request.editable:
        return
    text = draft.prompt.text
    whole = np.flatnonzero(draft.boundaries >= 0)
    ends = draft.boundaries[whole]
    for start, end, new, source, extra in lists.suggestions(text):
        # An edit is judged where it ends: text is put before a word and its space.
        if start < end:
            boundary = whole[min(int(np.searchsorted(ends, end)), len(whole) - 1)]
        else:
            boundary = whole[int(np.searchsorted(ends, end, side="right")) - 1]
        last = boundary + 1 + bool(new and start < end)
        probability = max(likely[boundary:last], default=0.0)
        is_unknown = source == "spelling" and new.islower()
        if (probability >= threshold or is_unknown) and draft.may_change(start, end):
            yield Change(
                start=start,
                end=end,
                before=text[start:end],
                after=new,
                logprob=log(max(probability, MIN_PROBABILITY)) - EXTRA_LETTER * extra,
                actions=0,
                source=source,
            )
