"""Arithmetic, reduced in place: the examples of every arm, as functions of seed, epoch and index.

An expression has 2 to 8 operations, a pair of brackets around each, and every value in it is a
digit: `( ( 3 + 4 ) - 2 )`. The solution takes the first pair of brackets that has only digits
inside, puts the value in its place, and goes on until one digit is left.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import reviser

SYMBOLS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
PAIRS = {
    value: [
        (a, symbol, b)
        for symbol, compute in SYMBOLS.items()
        for a in range(10)
        for b in range(10)
        if compute(a, b) == value
    ]
    for value in range(10)
}
"""The operations on two digits that have a value."""
OPERATIONS = (2, 8)
"""The fewest and the most operations of a problem to train on."""
PROMPT = "reduce"


def words() -> list[str]:
    """Return every word of a prompt or an answer."""
    return [PROMPT, "(", ")", *SYMBOLS, "=", ",", *map(str, range(10))]


def expression(rng: random.Random, operations: int) -> list[str]:
    """Return an expression: a digit in which a random digit becomes an operation, again and again.

    The value of the whole is the digit that it begins with, so each is as likely as another.
    """
    parts = [str(rng.randrange(10))]
    for _ in range(operations):
        place = rng.choice([n for n, part in enumerate(parts) if part.isdigit()])
        a, symbol, b = rng.choice(PAIRS[int(parts[place])])
        parts[place : place + 1] = ["(", str(a), symbol, str(b), ")"]
    return parts


def problem_of(seed: int, epoch: int, index: int) -> list[str]:
    """Return a problem to train on."""
    rng = random.Random(f"{seed} {epoch} {index}")
    return expression(rng, rng.randint(*OPERATIONS))


def reductions(parts: list[str]) -> Iterator[tuple[list[str], str, list[str]]]:
    """Yield each operation as it is done, its value, and what is left then."""
    while len(parts) > 1:
        end = parts.index(")") + 1
        a, symbol, b = parts[end - 4 : end - 1]
        value = str(SYMBOLS[symbol](int(a), int(b)))
        parts = [*parts[: end - 5], value, *parts[end:]]
        yield [a, symbol, b], value, parts


def solution(arm: str, parts: list[str]) -> reviser.Recording:
    """Return how an arm reduces an expression."""
    done = list(reductions(parts))
    if arm == "edit":
        edits: list[tuple[Any, ...]] = []
        for _, value, _ in done:
            edits += [("find", ")"), ("span_delete", 5), ("insert", value)]
        return reviser.Recording(prompt=PROMPT, draft=" ".join(parts), edits=edits)
    written = [word for _, _, left in done for word in ("=", *left)]
    if arm == "steps":
        written = [word for terms, value, _ in done for word in (",", *terms, "=", value)][1:]
    words = [("insert", word) for word in written]
    return reviser.Recording(prompt=" ".join([PROMPT, *parts]), edits=words)


def edit(seed: int, epoch: int, index: int) -> reviser.Recording:
    """Editing: go to the first bracket that closes, delete the operation, write its value."""
    return solution("edit", problem_of(seed, epoch, index))


def cot(seed: int, epoch: int, index: int) -> reviser.Recording:
    """Left to right with the expression written again after each operation."""
    return solution("cot", problem_of(seed, epoch, index))


def steps(seed: int, epoch: int, index: int) -> reviser.Recording:
    """Left to right with each operation and its value, then the answer: 3 + 4 = 7 , 7 - 2 = 5."""
    return solution("steps", problem_of(seed, epoch, index))


# -- test problems --------------------------------------------------------------------------------

TEST_SEED = -1
"""The seed of the test problems, which training never uses: its seeds are 0 or more."""
LONGER = {"9 to 10": (10_000, (9, 10)), "11 to 12": (20_000, (11, 12))}
"""Sets of longer test problems: the index of the first, and their operations."""


def test_problem(index: int) -> list[str]:
    """Return a test problem; from 10,000 on they are longer than any to train on."""
    first = max((first for first, _ in LONGER.values() if first <= index), default=0)
    operations = next((most for start, most in LONGER.values() if start == first), OPERATIONS)
    rng = random.Random(f"{TEST_SEED} 0 {index}")
    return expression(rng, rng.randint(*operations))


def task(index: int, arm: str) -> reviser.Continue | reviser.Revise:
    """Return a test problem as an arm is asked to solve it."""
    parts = test_problem(index)
    if arm in ("edit", "refresh"):
        return reviser.Revise(" ".join(parts), instruction=PROMPT)
    return reviser.Continue(" ".join([PROMPT, *parts]))


def is_solved(index: int, text: str, arm: str) -> bool:
    """Return whether an answer is the value of the expression."""
    *_, (_, value, _) = reductions(test_problem(index))
    return (text.rpartition("= ")[2] if arm in ("cot", "steps") else text) == value


def group(index: int) -> str:
    """Return the number of operations of a test problem."""
    return str(test_problem(index).count(")"))


if __name__ == "__main__":
    json.dump(words(), sys.stdout)
