"""Turn a pair of texts into the ids that the model reads and the targets that it learns.

A history is: begin, delimiter, MARK, the draft, DELAY delimiters, TO_MARK, actions, STOP. The
actions go from left to right: FIND, the fewest tokens that lead to the next edit, FIND_END, then
DELETE, REPLACE or inserted tokens.

At every boundary of the draft's tokens the model also predicts whether an edit ends there. It
judges a boundary DELAY tokens later, when it has seen what follows. The delimiters after the draft
stand in for the tokens that the last boundaries lack, so a missing full stop can be found too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from mistakes import draw_mistakes, read_words
from tokenizers import Tokenizer

from reviser.core.actions import ActionVocab
from reviser.core.codec import UNITS, Codec
from reviser.data.mistakes import apply
from reviser.trajectories._kernels.diff import shortest_search
from reviser.trajectories.alignment import Hunk, diff
from reviser.trajectories.diff import as_tokens

NONE, DETECTION, SEARCH, CONTENT, STOP = range(5)
"""What a target is about."""
PARTS = {"detection": DETECTION, "find": SEARCH, "content": CONTENT, "stop": STOP}
DELAY = 3

Ints = npt.NDArray[np.int32]


def open_tokenizer(folder: Path) -> tuple[ActionVocab, Codec, int]:
    """Return the action vocabulary, the codec and the id of a line break."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocab = ActionVocab.from_tokenizer(
        tokenizer,
        operators=["delete", "replace"],
        max_move=64,
        marks=True,
        search=True,
        begin="<|endoftext|>",
    )
    codec = Codec(tokenizer)
    (newline,) = codec.encode("\n")
    return vocab, codec, newline


@dataclass(frozen=True, slots=True)
class Example:
    """Ids, and for each what is to be predicted after it and why; -1 where nothing is."""

    ids: Ints
    targets: Ints
    parts: npt.NDArray[np.uint8]
    edits: npt.NDArray[np.uint8]
    """Number of the edit that a content target belongs to, from 1 on."""
    size: int
    """Tokens of the draft."""


class Edit(NamedTuple):
    """The characters from `start` to `end` of a text become `text`."""

    start: int
    end: int
    text: str


class Layout(NamedTuple):
    """Where the parts of a history are."""

    delay: int = DELAY

    def shown(self, vocab: ActionVocab, draft: list[int]) -> list[int]:
        """Return the history up to the first action."""
        tail = [vocab.delimiter] * self.delay
        return [*vocab.prefix_actions([]), vocab.mark, *draft, *tail, vocab.back]

    def judged(self, size: int) -> slice:
        """Return the positions that judge the boundaries 0 to `size` of a draft."""
        first = 2 + self.delay
        return slice(first, first + size + 1)


def search_tokens(draft: list[int], cursor: int, goal: int) -> list[int]:
    """Return the fewest tokens that lead a search from the cursor to a goal after it."""
    return draft[goal - shortest_search(as_tokens(draft), cursor, goal) : goal]


def detection_label(vocab: ActionVocab, hunk: Hunk) -> int:
    """Return the control id that stands for a kind of edit where its end is judged."""
    if not hunk.tokens:
        label = vocab.delete
    else:
        label = vocab.find if hunk.start == hunk.end else vocab.replace
    assert label is not None
    return label


def edit_ids(vocab: ActionVocab, hunk: Hunk) -> list[int]:
    """Return the ids that make an edit, with the cursor where the hunk ends."""
    removed, tokens = hunk.end - hunk.start, list(hunk.tokens)
    if not (removed and tokens):
        return [vocab.delete] * removed + tokens
    return [vocab.delete] * (removed - 1) + [vocab.replace, *tokens]


def word_starts(codec: Codec, tokens: list[int]) -> npt.NDArray[np.bool_]:
    """Return which tokens begin a word."""
    return (codec.unit_starts(tokens) & UNITS["word"]) > 0


def hunks_between(codec: Codec, before: list[int], after: list[int]) -> list[Hunk]:
    """Return the edits that turn one text into another."""
    starts = word_starts(codec, before), word_starts(codec, after)
    return diff(before, after, starts=starts)


def encode(
    vocab: ActionVocab, codec: Codec, before: str, after: str, *, delay: int = DELAY
) -> Example:
    """Return the example of a pair of texts."""
    old, new = codec.encode(before), codec.encode(after)
    hunks = hunks_between(codec, old, new) if before != after else []
    layout = Layout(delay)
    ids = layout.shown(vocab, old)
    start = len(ids)
    parts, edits = [NONE] * start, [0] * start
    cursor = 0
    for number, hunk in enumerate(hunks, start=1):
        way = []
        if hunk.end > cursor:
            way = [vocab.find, *search_tokens(old, cursor, hunk.end), vocab.here]
        content = edit_ids(vocab, hunk)
        ids += [*way, *content]
        parts += [SEARCH] * len(way) + [CONTENT] * len(content)
        edits += [0] * len(way) + [min(255, number)] * len(content)
        cursor = hunk.end
    ids.append(vocab.stop)
    parts.append(STOP)
    edits.append(0)
    # From what an id is about to what is predicted one position before it.
    targets = np.full(len(ids), -1, np.int32)
    targets[start - 1 : -1] = ids[start:]
    about = np.array([*parts[1:], NONE], np.uint8)
    numbers = np.array([*edits[1:], 0], np.uint8)
    judged = layout.judged(len(old))
    labels = np.full(len(old) + 1, vocab.stop, np.int32)
    for hunk in hunks:
        labels[hunk.end] = detection_label(vocab, hunk)
    targets[judged] = labels
    about[judged] = DETECTION
    return Example(np.array(ids, np.int32), targets, about, numbers, len(old))


def encode_rewriting(
    vocab: ActionVocab, codec: Codec, before: str, after: str, *, delay: int = DELAY
) -> Example:
    """Return the example of the baseline: it reads the draft and writes the whole text again."""
    old, new = codec.encode(before), codec.encode(after)
    shown = Layout(delay).shown(vocab, old)
    ids = np.array([*shown, *new, vocab.stop], np.int32)
    targets, parts = np.full(len(ids), -1, np.int32), np.full(len(ids), NONE, np.uint8)
    targets[len(shown) - 1 : -1] = ids[len(shown) :]
    parts[len(shown) - 1 : -1] = [*[CONTENT] * len(new), STOP]
    return Example(ids, targets, parts, np.ones(len(ids), np.uint8), len(old))


def draft_of(unit: dict[str, Any], rng: np.random.Generator) -> str:
    """Return the draft of a unit: a real one, or its text with mistakes drawn by `rng`."""
    if "before" in unit:
        return unit["text"] if rng.random() < 0.25 else unit["before"]
    words = read_words(unit["text"], unit["spans"], unit["tags"])
    return apply(unit["text"], draw_mistakes(unit["text"], words, rng))
