"""The policies in slow Python: the reference that the sampling kernels are compared with.

It is written from the paper's Algorithm 2 and from what `policy.py` says of the others, and reads
policies as values, never the rows they compile to. It shares only the random numbers with the
kernels: the same generator, asked for the same draws in the same order, so that results can be
compared one by one. Of a shortest chain of moves it only knows the length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import count
from math import log2
from typing import Any, NamedTuple

from reviser.core.actions import ActionVocab
from reviser.trajectories.policy import Append, Mixture, Obfuscation, Policy, Spans
from support import naive

Action = tuple[Any, ...]  # its name, then its argument
Words = tuple[int, ...]

MAX_ATTEMPTS = 1000  # walks over the step budget before giving up
UNIT_BITS = {"token": 1, "word": 2, "sentence": 4}

# -- random numbers: Philox4x32-10 as Salmon et al. (2011) give it --------------------------------


def philox(counter: Words, key: Words) -> Words:
    """Return four random 32-bit words for a counter of four and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


class Draws:
    """The random numbers of one example: the seed is the key, the rest is in the counter."""

    def __init__(self, seed: int, epoch: int, index: int) -> None:
        self._words = self._stream(seed, epoch, index)

    @staticmethod
    def _stream(seed: int, epoch: int, index: int) -> Iterator[int]:
        key = (seed % 2**32, seed >> 32)
        for block in count():
            yield from philox((block, epoch, index % 2**32, index >> 32), key)

    def word(self) -> int:
        """Return a number below 2**32."""
        return next(self._words)

    def below(self, bound: int) -> int:
        """Return a number below `bound`."""
        return self.word() * bound >> 32


# -- Algorithm 2 ----------------------------------------------------------------------------------


class Walk(NamedTuple):
    """The record of one run of Algorithm 2."""

    start: int  # the first cursor
    B: list[Action]
    D: list[int]
    bits: float  # the surprise of its choices


def valid_jumps(left: int, right: int, max_move: int) -> list[int]:
    """Return the powers of two that fit: forward first, then backward, the smallest first."""
    powers = [2**k for k in range(max_move.bit_length())]
    return [p for p in powers if p <= right] + [-p for p in powers if p <= left]


def delete_chance(policy: Obfuscation, u: int) -> float:
    """Return the probability of a delete; the rest are moves."""
    return policy.delete if u >= 1 else 0.0


def obfuscate(policy: Obfuscation, target: list[int], max_move: int, draws: Draws) -> Walk | None:
    """Run lines 1 to 14 once; return None if the step budget ran out."""
    n = len(target)
    y = list(target)
    u = start = 0 if policy.start == "left" else draws.below(n + 1)
    B: list[Action] = []
    D: list[int] = []
    bits = 0.0 if policy.start == "left" else log2(n + 1)
    k_max = policy.max_obfuscation_steps
    for k in count():
        if not y:
            return Walk(start, B, D, bits)
        if k == k_max:
            return None
        chance = delete_chance(policy, u)
        if draws.word() < round(chance * 2**32):
            bits -= log2(chance)
            u -= 1
            D.append(y.pop(u))
            B.append(("delete",))
        else:
            valid = valid_jumps(u, len(y) - u, max_move)
            bits += log2(len(valid) / (1 - chance))
            delta = valid[draws.below(len(valid))]
            u += delta
            B.append(("move", delta))
    raise AssertionError


def invert(walk: Walk) -> list[Action]:
    """Run lines 15 to 22: from last to first, each step's inverse, D a stack; then STOP."""
    D = list(walk.D)
    restoration: list[Action] = []
    for name, *arguments in reversed(walk.B):
        restoration.append(("insert", D.pop()) if name == "delete" else ("move", -arguments[0]))
    assert not D
    return [*restoration, ("stop",)]


def merge(restoration: list[Action], max_move: int) -> list[Action]:
    """Write chains of moves as ("moves", displacement, fewest); drop those that lead nowhere."""
    merged: list[Action] = []
    length = cursor = departed = 0
    for name, *arguments in restoration:
        if name == "move":
            cursor += arguments[0]
            continue
        if cursor != departed and name == "insert":
            fewest = naive.move_counts(departed, length, max_move)[cursor]
            merged.append(("moves", cursor - departed, fewest))
        merged.append((name, *arguments))
        length, cursor = length + 1, cursor + 1
        departed = cursor
    return merged


# -- spans, and appending, which is a single one --------------------------------------------------


def cut_chance(policy: Spans, n: int, candidates: int) -> Fraction:
    """Return the probability of a cut that gives spans their mean length, if possible."""
    wanted = n / Fraction(policy.mean) - 1  # cuts
    return min(max(wanted / candidates, Fraction(0)), Fraction(1)) if candidates else Fraction(0)


def cut(policy: Append | Spans, units: list[int], draws: Draws) -> list[range]:
    """Return the spans, in the order of the text."""
    n, cuts = len(units), [0]
    if isinstance(policy, Spans):
        candidates = [i for i in range(1, n) if units[i] & UNIT_BITS[policy.unit]]
        chance = cut_chance(policy, n, len(candidates))
        cuts += [i for i in candidates if draws.word() < int(chance * 2**32)]
    return [range(a, b) for a, b in zip(cuts, [*cuts[1:], n], strict=True)]


def put_last(spans: list[range], count: int, draws: Draws) -> None:
    """Draw some inner spans and put them at the end, in the order of the text."""
    left, drawn = spans[1:-1], []
    for _ in range(min(count, len(left))):
        at = draws.below(len(left))
        left[0], left[at] = left[at], left[0]
        drawn.append(left.pop(0))
    late = [span for span in spans if span in drawn]
    spans[:] = [span for span in spans if span not in drawn] + late


def shuffle(spans: list[range], draws: Draws) -> None:
    """Shuffle from the end (Fisher and Yates)."""
    for i in reversed(range(1, len(spans))):
        j = draws.below(i + 1)
        spans[i], spans[j] = spans[j], spans[i]


def write_spans(target: list[int], spans: Iterable[range], max_move: int) -> list[Action]:
    """Write each span left to right, with the fewest moves between them."""
    restoration: list[Action] = []
    there: list[int] = []  # indices of the text that are on the canvas
    cursor = 0
    for span in spans:
        position = sum(i < span.start for i in there)
        if position != cursor:
            fewest = naive.move_counts(cursor, len(there), max_move)[position]
            restoration.append(("moves", position - cursor, fewest))
        restoration += [("insert", target[i]) for i in span]
        there += span
        cursor = position + len(span)
    return [*restoration, ("stop",)]


# -- any policy -----------------------------------------------------------------------------------


def component(policy: Policy, progress: float, draws: Draws) -> Append | Obfuscation | Spans:
    """Return the policy that an example takes: of several, one by weight."""
    if not isinstance(policy, Mixture):
        return policy
    if len(policy.policies) == 1:
        return policy.policies[0]
    x, bound = draws.word(), 0
    first, last = policy.weights, policy.final_weights or policy.weights
    start, end = policy.change_from, policy.change_until
    progress = (min(max(progress, start), end) - start) / (end - start)
    for part, a, b in zip(policy.policies, first, last, strict=True):
        weight = (1 - progress) * a / sum(first) + progress * b / sum(last)
        bound += round(weight * 2**32)
        if x < bound:
            return part
    return policy.policies[-1]


class Sample(NamedTuple):
    """A restoration, the policy it came from, and the surprise of its walk (0 for spans)."""

    restoration: list[Action]
    policy: Append | Obfuscation | Spans
    bits: float = 0.0


def sample(
    policy: Policy,
    target: list[int],
    max_move: int,
    draws: Draws,
    *,
    units: list[int] | None = None,
    progress: float = 0.0,
) -> Sample | None:
    """Return the restoration of one target, or None if every walk exceeded its budget."""
    part = component(policy, progress, draws)
    if not isinstance(part, Obfuscation):
        spans = cut(part, [1] * len(target) if units is None else units, draws)
        if isinstance(part, Spans) and part.late is not None:
            put_last(spans, part.late, draws)
        else:
            shuffle(spans, draws)
        return Sample(write_spans(target, spans, max_move), part)
    for _ in range(MAX_ATTEMPTS):
        walk = obfuscate(part, target, max_move, draws)
        if walk is not None:
            strict = invert(walk)
            return Sample(merge(strict, max_move) if part.merge_moves else strict, part, walk.bits)
    return None


# -- for comparing --------------------------------------------------------------------------------

Item = tuple[Any, ...]  # the ids of an action, or a chain of moves


def items(vocab: ActionVocab, sample: Sample) -> list[Item]:
    """Return a sample as ids, one item per action, except for chains of fewest moves."""
    return [
        action if action[0] == "moves" else naive.spell(vocab, action, 0)
        for action in sample.restoration
    ]


def read_items(vocab: ActionVocab, ids: list[int], *, merged: bool) -> list[Item]:
    """Return ids as `items` does; if `merged`, chains of moves as displacement and count."""
    listed: list[Item] = []
    for i in ids:
        action = naive.meaning(vocab, (i,), 0)
        assert action is not None
        if not (merged and action[0] == "move"):
            listed.append((i,))
        elif listed and listed[-1][0] == "moves":
            _, displacement, fewest = listed[-1]
            listed[-1] = ("moves", displacement + action[1], fewest + 1)
        else:
            listed.append(("moves", action[1], 1))
    return listed
