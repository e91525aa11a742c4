"""Revising by a model that edits: where a draft may change, and which changes its actions made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reviser.core.actions import ActionVocab, Kind
from reviser.core.codec import UNITS
from reviser.engines.base import Ranges, Scores, replay
from reviser.writing.changes import Change, Changes, changes_of
from reviser.writing.prompts import Model, Prompt
from reviser.writing.rollout import Rollout


def narrow(prompt: Prompt, scores: Scores, threshold: float, model: Model) -> Ranges:
    """Return where a window may be changed because an edit is likely; none if it is nowhere.

    Where the probability reaches the threshold, the word that ends there may be changed, and text
    may be inserted there. The cursor's own position stays editable, because it has to start there.
    """
    request, codec, hidden = prompt.request, model.codec, prompt.instruction_length
    tokens = [request.history[n] for n in draft_positions(prompt, model.vocab).tolist()]
    likely = edit_probabilities(prompt, scores, model)
    characters = codec.char_offsets(tokens)  # -1 within a character
    is_word = (codec.unit_starts(tokens) & UNITS["word"]) > 0
    words = []
    for end, probability in enumerate(likely):
        if probability < threshold:
            continue
        start = max(0, end - 1)
        while start and not (is_word[start] and characters[start] >= 0):
            start -= 1
        while characters[end] < 0:
            end += 1
        for low, high in request.editable:
            first, last = max(start + hidden, low), min(end + hidden, high)
            if first <= last:
                words.append((first, last))
    if not words:
        return ()
    editable = [(request.cursor, request.cursor)]
    for first, last in sorted(words):  # those in two ranges of the request never meet
        if first <= editable[-1][1]:
            editable[-1] = editable[-1][0], max(last, editable[-1][1])
        else:
            editable.append((first, last))
    return tuple(editable)


def edit_probabilities(prompt: Prompt, scores: Scores, model: Model) -> list[float]:
    """Return the probability that an edit ends at each boundary of the tokens of a draft."""
    # Scores begin with the second id, so number n is what follows the id at position n.
    likely = np.array(scores.edit_probabilities())
    return likely[draft_positions(prompt, model.vocab)].tolist()  # type: ignore[no-any-return]


def draft_positions(prompt: Prompt, vocab: ActionVocab) -> npt.NDArray[np.int64]:
    """Return the positions in a history of the tokens that show the draft."""
    is_token = np.isin(vocab.kinds[list(prompt.request.history)], [Kind.INSERT, Kind.PREFIX_ONLY])
    return np.flatnonzero(is_token)[prompt.instruction_length :]


def window_changes(prompt: Prompt, rollout: Rollout, model: Model) -> Changes:
    """Return the changes that a model made to a window; positions count its own characters."""
    chosen = rollout.trajectory.restoration[len(prompt.preamble) :]
    canvas = replay(model.vocab, prompt.request.history)
    hidden = prompt.instruction_length
    tokens = canvas.tokens()[hidden:]
    edits = [canvas.apply(action).shifted(-hidden) for action in chosen]
    rated = zip(edits, rollout.logprobs, strict=True)
    return changes_of(model.codec, tokens, rated, draft=prompt.text)


def merged(draft: str, windows: Sequence[tuple[int, Changes]]) -> Changes:
    """Return the changes of all windows as those of the draft, given where each window begins."""
    changes: list[Change] = []
    for offset, made in windows:
        for change in made.changes:
            change = change.moved(offset)
            if changes and changes[-1].end == change.start:  # two that meet where windows do
                change = changes.pop() + change
            changes.append(change)
    stop_logprob = sum(made.stop_logprob for _, made in windows)
    return Changes(draft=draft, changes=tuple(changes), stop_logprob=stop_logprob)
