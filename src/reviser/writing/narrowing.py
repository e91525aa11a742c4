"""Where a draft may change: a reading becomes gaps and suggestions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import UNITS, Codec
from reviser.engines.base import Reading, Request
from reviser.models.editing import Editing
from reviser.models.wordlists import WordLists
from reviser.writing.changes import Change
from reviser.writing.tasks import Revise

EXTRA_LETTER = 3.0
"""What a spelling's log-probability loses for each letter more than the nearest one has wrong."""


def narrow(
    request: Request,
    reading: Reading,
    *,
    vocab: ActionVocab,
    codec: Codec,
    instruction_length: int,
    threshold: float,
    editing: Editing,
) -> Request | None:
    """Return a request that may edit only where an edit is likely; None if it is nowhere.

    Where the probability reaches the threshold, the word that ends there may be changed, and text
    may be inserted there. The cursor's own position stays a gap, because it has to start in one.
    """
    tokens, likely = edit_probabilities(request, reading, vocab, instruction_length, editing)
    characters = codec.char_offsets(tokens)  # -1 within a character
    is_word = (codec.unit_starts(tokens) & UNITS["word"]) > 0
    found = []
    for end, probability in enumerate(likely):
        if probability < threshold:
            continue
        start = max(0, end - 1)
        while start and not (is_word[start] and characters[start] >= 0):
            start -= 1
        while characters[end] < 0:
            end += 1
        for low, high in request.gaps:
            first = max(start + instruction_length, low)
            last = min(end + instruction_length, high)
            if first <= last:
                found.append((first, last))
    if not found:
        return None
    gaps = [(request.cursor, request.cursor)]
    for first, last in sorted(found):  # those in two gaps of the request never meet
        if first <= gaps[-1][1]:
            gaps[-1] = gaps[-1][0], max(last, gaps[-1][1])
        else:
            gaps.append((first, last))
    return replace(request, gaps=tuple(gaps), then=None)


def edit_probabilities(
    request: Request,
    reading: Reading,
    vocab: ActionVocab,
    instruction_length: int,
    editing: Editing,
) -> tuple[list[int], list[float]]:
    """Return the tokens of a draft, and the probability that an edit ends at each boundary."""
    shown = shown_at(request, vocab, instruction_length)
    if not shown.size:  # an empty draft
        return [], []
    judged = np.append(shown, shown[-1:] + 1 + np.arange(editing.delimiters))
    found = np.array(reading.edit_probabilities(among_controls=editing.among_controls))[judged]
    return [request.history[n] for n in shown.tolist()], found[editing.label_delay :].tolist()


def shown_at(
    request: Request, vocab: ActionVocab, instruction_length: int
) -> npt.NDArray[np.int64]:
    """Return the positions in a history of the ids that show the draft."""
    is_token = np.isin(vocab.kinds[list(request.history)], [Kind.INSERT, Kind.PREFIX_ONLY])
    return np.flatnonzero(is_token)[instruction_length:]


def suggest(
    task: Revise,
    at: tuple[int, int, int, int],
    lists: WordLists,
    offsets: npt.NDArray[np.int64],
    likely: Sequence[float],
    threshold: float,
) -> Iterator[Change]:
    """Yield what the word lists suggest for a window where an edit is likely.

    A spelling is suggested wherever a word is not in the list, unless it has a capital and may be a
    name. Locked text and the context are left alone.
    """
    low, first, last, high = at
    text, locks = task.draft[low:high], task.locked_spans
    whole = np.flatnonzero(offsets >= 0)  # boundaries that are not within a character
    ends = offsets[whole]
    for start, end, new, source, extra in lists.suggestions(text):
        # An edit is judged where it ends: text is put before a word and its space.
        if start < end:
            at_end = whole[min(int(np.searchsorted(ends, end)), len(whole) - 1)]
        else:
            at_end = whole[int(np.searchsorted(ends, end, side="right")) - 1]
        probability = max(likely[at_end : at_end + 1 + bool(new and start < end)], default=0.0)
        lock = bisect_right(locks, low + start, key=itemgetter(1))
        is_locked = lock < len(locks) and locks[lock][0] < low + end
        if (
            (probability >= threshold or (source == "spelling" and new.islower()))
            and first <= low + start
            and low + end <= last
            and (low + start < last or last == len(task.draft))  # else the next window has it
            and not is_locked
        ):
            yield Change(
                start=start,
                end=end,
                before=text[start:end],
                after=new,
                logprob=log(max(probability, 1e-4)) - EXTRA_LETTER * extra,
                actions=0,
                source=source,
            )
