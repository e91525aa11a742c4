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

Action = tuple[Any, ...]  # its name, then its arguments; a span moves by a jump, not to a boundary
Words = tuple[int, ...]

MAX_ATTEMPTS = 1000  # walks over the step budget before giving up
LONGEST_SPAN = 8  # of noise
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


class Token(NamedTuple):
    """A token on the canvas; a temporary one was put there by the obfuscation."""

    id: int
    temporary: bool = False


class Write(NamedTuple):
    """An action of a restoration, and whether it bears loss."""

    action: Action
    learned: bool = True


class Walk(NamedTuple):
    """The record of one run of Algorithm 2."""

    start: int  # the first cursor
    B: list[Action]
    D: list[Token]
    bits: float  # the surprise of its choices, without noise tokens, which bear no loss


def valid_jumps(left: int, right: int, max_move: int) -> list[int]:
    """Return the powers of two that fit: forward first, then backward, the smallest first."""
    powers = [2**k for k in range(max_move.bit_length())]
    return [p for p in powers if p <= right] + [-p for p in powers if p <= left]


def possible(u: int, length: int, longest: int) -> dict[str, bool]:
    """Return which operations the canvas allows, in the order in which they are tried."""
    return {
        "delete": u >= 1,
        "insert": length + 1 <= longest,
        "replace": u >= 1,
        "swap": u >= 2,
        "span_insert": length + LONGEST_SPAN <= longest,
        "span_move": u >= 1 and length >= 2,
    }


def chances(policy: Obfuscation, allowed: dict[str, bool]) -> dict[str, float]:
    """Return the probability of each operation; moves get the share of what is not allowed."""
    shares = {
        "delete": policy.delete,
        "insert": policy.noise.insert,
        "replace": policy.noise.replace,
        "swap": policy.noise.swap,
        "span_insert": policy.noise.span_insert,
        "span_move": policy.noise.span_move,
    }
    here = {name: share if allowed[name] else 0.0 for name, share in shares.items()}
    return here | {"move": 1 - sum(here.values())}


def choose(policy: Obfuscation, allowed: dict[str, bool], x: int) -> str:
    """Return the operation that a draw selects."""
    everywhere = chances(policy, dict.fromkeys(allowed, True))
    bound = 0
    for name, is_allowed in allowed.items():
        bound += round(everywhere[name] * 2**32)
        if x < bound:
            return name if is_allowed else "move"
    return "move"


def obfuscate(policy: Obfuscation, target: list[int], max_move: int, draws: Draws) -> Walk | None:
    """Run lines 1 to 14 once; return None if the step budget ran out."""
    n = len(target)
    longest = 2 * n + 2 * LONGEST_SPAN  # noise makes a canvas no longer than this
    y = [Token(x) for x in target]
    u = start = 0 if policy.start == "left" else draws.below(n + 1)
    B: list[Action] = []
    D: list[Token] = []
    bits = 0.0 if policy.start == "left" else log2(n + 1)

    def noise() -> Token:
        return Token(target[draws.below(n)], temporary=True)

    k_max = policy.max_obfuscation_steps
    for k in count():
        if not y:
            return Walk(start, B, D, bits)
        if k == k_max:
            return None
        allowed = possible(u, len(y), longest)
        name = choose(policy, allowed, draws.word())
        bits -= log2(chances(policy, allowed)[name])
        if name == "delete":
            u -= 1
            D.append(y.pop(u))
            B.append(("delete",))
        elif name == "move":
            valid = valid_jumps(u, len(y) - u, max_move)
            bits += log2(len(valid))
            delta = valid[draws.below(len(valid))]
            u += delta
            B.append(("move", delta))
        elif name == "insert":
            y.insert(u, noise())
            B.append(("insert", y[u].id))
            u += 1
        elif name == "replace":
            D.append(y[u - 1])
            y[u - 1] = noise()
            B.append(("replace", y[u - 1].id))
        elif name == "swap":
            y[u - 2], y[u - 1] = y[u - 1], y[u - 2]
            B.append(("swap",))
        elif name == "span_insert":
            size = 2 + draws.below(LONGEST_SPAN - 1)
            bits += log2(LONGEST_SPAN - 1)
            y[u:u] = [noise() for _ in range(size)]
            u += size
            B.append(("span_insert", size))
        else:
            most = min(u, len(y) - 1, LONGEST_SPAN)
            size = 1 + draws.below(most)
            valid = valid_jumps(u - size, len(y) - u, max_move)
            bits += log2(most) + log2(len(valid))
            jump = valid[draws.below(len(valid))]
            span = y[u - size : u]
            del y[u - size : u]
            y[u - size + jump : u - size + jump] = span
            u += max(jump, 0)  # the cursor goes with the span to the right, and stays otherwise
            B.append(("span_move", size, jump))
    raise AssertionError


def invert(walk: Walk) -> list[Write]:
    """Run lines 15 to 22: from last to first, each step's inverse, D a stack; then STOP."""
    D = list(walk.D)
    restoration: list[Write] = []
    for name, *arguments in reversed(walk.B):
        if name == "delete":
            x = D.pop()
            restoration.append(Write(("insert", x.id), not x.temporary))
        elif name == "replace":
            x = D.pop()
            restoration.append(Write(("replace", x.id), not x.temporary))
        elif name == "move":
            restoration.append(Write(("move", -arguments[0])))
        elif name == "insert":
            restoration.append(Write(("delete",)))
        elif name == "swap":
            restoration.append(Write(("swap",)))
        elif name == "span_insert":
            restoration.append(Write(("span_delete", arguments[0])))
        else:
            size, jump = arguments
            back = Write(("span_move", size, -jump))
            if jump > 0:  # back to the left, and the cursor does not come along
                restoration += [back, Write(("move", -jump))]
            else:  # the span lies to the left of the cursor
                restoration += [Write(("move", jump)), back]
    assert not D
    return [*restoration, Write(("stop",))]


def effect(action: Action) -> tuple[int, int]:
    """Return by how much an action changes the length and the cursor."""
    name, *arguments = action
    if name == "insert":
        return 1, 1
    if name == "delete":
        return -1, -1
    if name == "span_delete":
        return -arguments[0], -arguments[0]
    if name == "span_move":
        return 0, max(arguments[1], 0)
    return 0, arguments[0] if name == "move" else 0


def merge(restoration: list[Write], max_move: int) -> list[Write]:
    """Write chains of moves as ("moves", displacement, fewest); drop those that lead nowhere."""
    merged: list[Write] = []
    length = cursor = departed = 0
    for write in restoration:
        grows, steps = effect(write.action)
        if write.action[0] != "move":
            if cursor != departed and write.action != ("stop",):
                fewest = naive.move_counts(departed, length, max_move)[cursor]
                merged.append(Write(("moves", cursor - departed, fewest)))
            merged.append(write)
            departed = cursor + steps
        length, cursor = length + grows, cursor + steps
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


def write_spans(target: list[int], spans: Iterable[range], max_move: int) -> list[Write]:
    """Write each span left to right, with the fewest moves between them."""
    restoration: list[Write] = []
    there: list[int] = []  # indices of the text that are on the canvas
    cursor = 0
    for span in spans:
        position = sum(i < span.start for i in there)
        if position != cursor:
            fewest = naive.move_counts(cursor, len(there), max_move)[position]
            restoration.append(Write(("moves", position - cursor, fewest)))
        restoration += [Write(("insert", target[i])) for i in span]
        there += span
        cursor = position + len(span)
    return [*restoration, Write(("stop",))]


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

    restoration: list[Write]
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

Item = tuple[Any, tuple[bool, ...]]  # the ids of an action, or a chain of moves; what bears loss


def spell(vocab: ActionVocab, action: Action) -> Words:
    name, *arguments = action
    if name in ("insert", "move"):
        return naive.spell(vocab, action, 0)
    ids = naive.ids_of(vocab, name)
    if name == "replace":
        return (*ids, *arguments)
    return (*ids, *(i for number in arguments for i in naive.spell_number(vocab, number)))


def items(vocab: ActionVocab, sample: Sample) -> list[Item]:
    """Return a sample as ids, one item per action, except for chains of fewest moves."""
    listed: list[Item] = []
    for action, learned in sample.restoration:
        if action[0] == "moves":
            listed.append((action, (True,)))
        else:
            ids = spell(vocab, action)
            listed.append((ids, (learned,) * len(ids)))
    return listed


def read_items(
    vocab: ActionVocab, ids: list[int], learned: list[bool], *, merged: bool
) -> list[Item]:
    """Return ids as `items` does; if `merged`, chains of moves as displacement and count."""
    listed: list[Item] = []
    pending: list[tuple[int, bool]] = []
    for pair in zip(ids, learned, strict=True):
        pending.append(pair)
        spelling, flags = zip(*pending, strict=True)
        action = naive.meaning(vocab, spelling, 0)
        if action is None:
            continue
        pending = []
        if not (merged and action[0] == "move"):
            listed.append((spelling, flags))
        elif listed and listed[-1][0][0] == "moves":
            (_, displacement, fewest), seen = listed[-1]
            chain = ("moves", displacement + action[1], fewest + 1)
            listed[-1] = (chain, (seen[0] and flags[0],))
        else:
            listed.append((("moves", action[1], 1), flags))
    assert not pending
    return listed
