"""The paper in slow Python: the reference that every fast path in `core` is compared with.

It is written from the paper (its executor, its masking section and its appendix on other edit
operators), never from the code it judges: it asks a vocabulary for the kind of an id and nothing
else. Actions are tuples in the paper's own terms, such as ("span_move", k, j), where j is a
boundary of the whole canvas. What is spelled in several ids is decided by listing every whole
action there is, so keep canvases small.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from random import Random
from typing import Any, NamedTuple

from reviser.core.actions import ActionVocab

Tokens = tuple[Any, ...]  # a token may be anything: an id here, a Cell below
Action = tuple[Any, ...]  # its name, then its arguments as the paper writes them
Ids = tuple[int, ...]

# -- the executor, each operator with the paper's own indices -------------------------------------


def part(c: Tokens, first: int, last: int) -> Tokens:
    """Return the tokens c_first, ..., c_last: counted from 1, both included, perhaps none."""
    return c[first - 1 : last]


def insert(c: Tokens, u: int, x: Any) -> tuple[Tokens, int]:
    return (*part(c, 1, u), x, *part(c, u + 1, len(c))), u + 1


def move(c: Tokens, u: int, delta: int) -> tuple[Tokens, int]:
    return c, u + delta


def stop(c: Tokens, u: int) -> tuple[Tokens, int]:
    return c, u


def delete(c: Tokens, u: int) -> tuple[Tokens, int]:
    return part(c, 1, u - 1) + part(c, u + 1, len(c)), u - 1


def replace(c: Tokens, u: int, x: Any) -> tuple[Tokens, int]:
    return (*part(c, 1, u - 1), x, *part(c, u + 1, len(c))), u


def swap(c: Tokens, u: int) -> tuple[Tokens, int]:
    exchanged = part(c, u, u) + part(c, u - 1, u - 1)
    return part(c, 1, u - 2) + exchanged + part(c, u + 1, len(c)), u


def span_delete(c: Tokens, u: int, k: int) -> tuple[Tokens, int]:
    return part(c, 1, u - k) + part(c, u + 1, len(c)), u - k


def span_move(c: Tokens, u: int, k: int, j: int) -> tuple[Tokens, int]:
    moved = part(c, u - k + 1, u)
    if j <= u - k:
        return part(c, 1, j) + moved + part(c, j + 1, u - k) + part(c, u + 1, len(c)), u
    return part(c, 1, u - k) + part(c, u + 1, j) + moved + part(c, j + 1, len(c)), j


def span_copy(c: Tokens, u: int, k: int, j: int) -> tuple[Tokens, int]:
    return part(c, 1, j) + part(c, u - k + 1, u) + part(c, j + 1, len(c)), j + k


EXECUTOR = {
    operator.__name__: operator
    for operator in (
        insert, move, stop, delete, replace, swap, span_delete, span_move, span_copy,
    )
}  # fmt: skip


# -- which whole actions are valid ----------------------------------------------------------------


@cache
def names(vocab: ActionVocab) -> tuple[str, ...]:
    """Return the kind of every id, as a word."""
    return tuple(vocab.kind(i).word for i in range(vocab.size))


def ids_of(vocab: ActionVocab, name: str) -> list[int]:
    return [i for i, other in enumerate(names(vocab)) if other == name]


@cache
def deltas(vocab: ActionVocab) -> dict[int, int]:
    """Return the delta of each move's id: they come in the order +1, -1, +2, -2, +4, ..."""
    moves = ids_of(vocab, "move")
    return {i: (-1) ** n * 2 ** (n // 2) for n, i in enumerate(moves)}


def valid_actions(vocab: ActionVocab, length: int, u: int) -> Iterator[Action]:
    """Yield every whole action that is valid at cursor u of a canvas of `length`."""
    tokens = ids_of(vocab, "insert")
    to_the_left = range(1, u + 1)
    yield ("stop",)
    yield from (("insert", x) for x in tokens)
    yield from (("move", d) for d in deltas(vocab).values() if 0 <= u + d <= length)
    if u >= 1:
        yield ("delete",)
        yield from (("replace", x) for x in tokens)
    if u >= 2:
        yield ("swap",)
    yield from (("span_delete", k) for k in to_the_left)
    for k in to_the_left:
        destinations = {*range(u - k + 1), *range(u, length + 1)}
        yield from (("span_move", k, j) for j in sorted(destinations))
        yield from (("span_copy", k, j) for j in range(length + 1))


# -- how an action is spelled ---------------------------------------------------------------------


def spell_number(vocab: ActionVocab, value: int) -> list[int]:
    """Spell a number in binary: moves as digits, the largest that fits first; then NUMBER_END."""
    id_of = {delta: i for i, delta in deltas(vocab).items()}
    sign = -1 if value < 0 else 1
    ids, rest = [], abs(value)
    while rest:
        digit = max(delta for delta in id_of if 0 < delta <= rest)
        ids.append(id_of[sign * digit])
        rest -= digit
    return [*ids, *ids_of(vocab, "end")]


def spell(vocab: ActionVocab, action: Action, u: int) -> Ids:
    """Return the ids of a whole action at cursor u; boundaries are relative to the cursor."""
    name, *arguments = action
    if name == "insert":
        return (arguments[0],)
    if name == "move":
        return tuple(i for i, delta in deltas(vocab).items() if delta == arguments[0])
    ids = ids_of(vocab, name)
    if name == "replace":
        ids.append(arguments[0])
    if name.startswith("span"):
        ids += spell_number(vocab, arguments[0])
    if name == "span_move":
        k, j = arguments
        ids += spell_number(vocab, j - u if j >= u else j - (u - k))
    if name == "span_copy":
        ids += spell_number(vocab, arguments[1] - u)
    return tuple(ids)


def meaning(vocab: ActionVocab, ids: Ids, u: int) -> Action | None:
    """Return the action that ids spell at cursor u, or None if they are not complete."""
    name, rest = names(vocab)[ids[0]], list(ids[1:])
    if name in ("insert", "prefix_only"):
        return ("insert", ids[0])
    if name == "move":
        return ("move", deltas(vocab)[ids[0]])
    if name == "replace":
        return ("replace", rest[0]) if rest else None
    if not name.startswith("span"):
        return (name,)
    numbers, value = [], 0
    for i in rest:
        if names(vocab)[i] == "end":
            numbers.append(value)
            value = 0
        else:
            value += deltas(vocab)[i]
    if len(numbers) < (1 if name == "span_delete" else 2):
        return None
    if name == "span_move":
        k, jump = numbers
        return (name, k, u + jump if jump >= 0 else u - k + jump)
    if name == "span_copy":
        k, distance = numbers
        return (name, k, u + distance)
    return (name, *numbers)


@lru_cache(maxsize=4096)
def spellings(vocab: ActionVocab, length: int, u: int) -> list[tuple[Action, Ids]]:
    """Return every valid action that this vocabulary can spell, with its spelling."""
    known = {*names(vocab)}
    actions = [action for action in valid_actions(vocab, length, u) if action[0] in known]
    return [(action, spell(vocab, action, u)) for action in actions]


# -- one id at a time -----------------------------------------------------------------------------


class State(NamedTuple):
    """The canvas, the cursor, and the ids of an action that is not complete yet."""

    tokens: Tokens
    cursor: int
    pending: Ids = ()
    stopped: bool = False


def legal_ids(vocab: ActionVocab, state: State) -> set[int]:
    """Return the ids that lead to some valid action.

    Begin, delimiter and prefix-only tokens, which are never chosen, may stand between actions.
    """
    if state.stopped:
        return set()
    read = len(state.pending)
    ids = {
        spelling[read]
        for _, spelling in spellings(vocab, len(state.tokens), state.cursor)
        if spelling[:read] == state.pending
    }
    never_chosen = {*ids_of(vocab, "separator"), *ids_of(vocab, "prefix_only")}
    return ids if state.pending else ids | never_chosen


def execute(vocab: ActionVocab, state: State, action_id: int) -> State:
    """Return the state after a legal id."""
    pending = (*state.pending, action_id)
    action = meaning(vocab, pending, state.cursor)
    if action is None:
        return state._replace(pending=pending)
    if action == ("separator",):
        return state
    name, *arguments = action
    tokens, cursor = EXECUTOR[name](state.tokens, state.cursor, *arguments)
    return State(tokens, cursor, stopped=name == "stop")


def replay(vocab: ActionVocab, history: Iterable[int]) -> State:
    state = State((), 0)
    for action_id in history:
        state = execute(vocab, state, action_id)
    return state


# -- what the mask adds: locked text, and budgets -------------------------------------------------


class Cell(NamedTuple):
    """A token that differs from its equals; locked ones must not change."""

    identity: Any
    locked: bool


class Document(NamedTuple):
    """A canvas of cells under the mask's policies.

    A range is known by how many locked cells stand before it. That number never changes, and no two
    ranges share it, since locked text stands between them.
    """

    cells: tuple[Cell, ...]
    cursor: int
    editable: frozenset[int]
    max_length: float = float("inf")
    edits_left: float = float("inf")
    max_moves: float = float("inf")
    moves: int = 0  # since the last action that was not a move
    pending: Ids = ()
    stopped: bool = False
    written: int = 0  # the identity of the next cell that is written


def document(
    length: int,
    cursor: int,
    editable: Iterable[tuple[int, int]],
    max_length: int | None = None,
    max_edits: int | None = None,
    max_moves: int | None = None,
) -> Document:
    """Return a canvas on which only what lies between the boundaries of a range is not locked."""
    editable = list(editable)
    cells = tuple(
        Cell(("start", n), locked=not any(low <= n < high for low, high in editable))
        for n in range(length)
    )
    return Document(
        cells=cells,
        cursor=cursor,
        editable=frozenset(locked_before(cells, low) for low, _ in editable),
        max_length=float("inf") if max_length is None else max_length,
        edits_left=float("inf") if max_edits is None else max_edits,
        max_moves=float("inf") if max_moves is None else max_moves,
    )


def locked_before(cells: tuple[Cell, ...], boundary: int) -> int:
    return sum(cell.locked for cell in cells[:boundary])


def editable_boundaries(doc: Document) -> list[int]:
    """Return the boundaries that lie in a range."""
    return [p for p in range(len(doc.cells) + 1) if locked_before(doc.cells, p) in doc.editable]


def range_bounds(doc: Document) -> list[tuple[int, int]]:
    """Return the first and the last boundary of each range, in order."""
    by_range: dict[int, list[int]] = {}
    for boundary in editable_boundaries(doc):
        by_range.setdefault(locked_before(doc.cells, boundary), []).append(boundary)
    return [(min(members), max(members)) for members in by_range.values()]


def perform(doc: Document, action: Action) -> Document:
    """Return the document after a whole action; what it writes or copies is new, not locked."""
    name, *arguments = action
    if name in ("insert", "replace"):
        arguments = [Cell(doc.written, locked=False)]
    cells, cursor = EXECUTOR[name](doc.cells, doc.cursor, *arguments)
    if name == "span_copy":
        k, j = arguments
        copies = tuple(Cell(doc.written + n, locked=False) for n in range(k))
        cells = part(cells, 1, j) + copies + part(cells, j + k + 1, len(cells))
    return doc._replace(
        cells=cells,
        cursor=cursor,
        written=doc.written + len(cells),  # more than were written, so never used twice
        pending=(),
        stopped=name == "stop",
        edits_left=doc.edits_left - (name not in ("move", "stop")),
        moves=doc.moves + 1 if name == "move" else 0,
    )


def range_of(cells: tuple[Cell, ...]) -> dict[Cell, int]:
    """Return the range of each cell that is not locked."""
    editable, locked = {}, 0
    for cell in cells:
        if cell.locked:
            locked += 1
        else:
            editable[cell] = locked
    return editable


def permits(doc: Document, action: Action) -> bool:
    """Return whether locks and budgets permit a valid action."""
    if action == ("stop",):
        return True
    if doc.edits_left <= 0:
        return False
    after = perform(doc, action)
    if action[0] == "move":
        reach = editable_boundaries(doc)
        in_reach = bool(reach) and min(reach) <= after.cursor <= max(reach)
        return in_reach and after.moves <= doc.max_moves
    if action[0] == "span_move":
        lifted = part(doc.cells, doc.cursor - action[1] + 1, doc.cursor)
        if any(cell.locked for cell in lifted):
            return False  # not even to put it down where it was
    range_before, range_after = range_of(doc.cells), range_of(after.cells)
    return (
        [cell for cell in after.cells if cell.locked] == [cell for cell in doc.cells if cell.locked]
        and all(pair in doc.editable for pair in range_after.values())
        and all(range_before.get(cell, pair) == pair for cell, pair in range_after.items())
        and len(after.cells) <= max(doc.max_length, len(doc.cells))
    )


def allowed_ids(vocab: ActionVocab, doc: Document) -> set[int]:
    """Return the ids from which some permitted action can still be completed."""
    if doc.stopped:
        return {*ids_of(vocab, "stop")}
    read = len(doc.pending)
    ids: set[int] = set()
    for action, spelling in spellings(vocab, len(doc.cells), doc.cursor):
        if spelling[:read] == doc.pending and spelling[read] not in ids and permits(doc, action):
            ids.add(spelling[read])
    return ids


def write(vocab: ActionVocab, doc: Document, action_id: int) -> Document:
    """Return the document after an allowed id."""
    if doc.stopped:
        return doc
    pending = (*doc.pending, action_id)
    action = meaning(vocab, pending, doc.cursor)
    return doc._replace(pending=pending) if action is None else perform(doc, action)


# -- the shortest way for the cursor --------------------------------------------------------------


def move_counts(start: int, length: int, max_move: int) -> dict[int, int]:
    """Return how many moves each boundary is away from `start`, by breadth-first search."""
    steps = [sign * 2**n for n in range(max_move.bit_length()) for sign in (1, -1)]
    counts, queue = {start: 0}, deque([start])
    while queue:
        at = queue.popleft()
        for goal in (at + step for step in steps):
            if 0 <= goal <= length and goal not in counts:
                counts[goal] = counts[at] + 1
                queue.append(goal)
    return counts


# -- diffs and scripts ----------------------------------------------------------------------------


def diff_cost(before: Tokens, after: Tokens, cuts: tuple[set[int], set[int]]) -> tuple[int, int]:
    """Return the least cost of a diff, and the fewest hunk bounds inside words at that cost.

    Every hunk is tried everywhere. `cuts` are the boundaries between words, the last included.
    """

    def ragged(i: int, j: int) -> int:
        return (i not in cuts[0]) + (j not in cuts[1])

    @cache
    def rest(i: int, j: int, may_change: bool) -> tuple[float, float]:
        if (i, j) == (len(before), len(after)):
            return 0, 0
        ways: list[tuple[float, float]] = [(float("inf"), 0)]
        if before[i : i + 1] == after[j : j + 1]:
            ways.append(rest(i + 1, j + 1, True))
        if may_change:
            for x in range(i, len(before) + 1):
                for y in range(j, len(after) + 1):
                    if (x, y) != (i, j):
                        cost, inside = rest(x, y, False)
                        hunk = 2 + (x - i) + (y - j)
                        ways.append((cost + hunk, inside + ragged(i, j) + ragged(x, y)))
        return min(ways)

    cost, inside = rest(0, 0, True)
    return int(cost), int(inside)


def fewest_ids(
    vocab: ActionVocab, before: Tokens, after: Tokens, cursor: int, most: int
) -> int | None:
    """Return the fewest ids that make one text of another, or None if it takes over `most`.

    All are tried whose texts on the way are at most three tokens longer than both.
    """
    longest = max(len(before), len(after)) + 3
    found = {(before, cursor): 0}
    queue = [[(before, cursor)], *[[] for _ in range(most)]]
    for ids in range(most + 1):
        for tokens, u in queue[ids]:
            if tokens == after:
                return ids
            if found[tokens, u] < ids:
                continue
            for action, spelling in spellings(vocab, len(tokens), u):
                state = EXECUTOR[action[0]](tokens, u, *action[1:])
                total = ids + len(spelling)
                if len(state[0]) <= longest and total < min(found.get(state, most + 1), most + 1):
                    found[state] = total
                    queue[total].append(state)
    return None


# -- text: what a person sees of a canvas ---------------------------------------------------------


@cache
def gpt2_bytes() -> dict[str, int]:
    """Return the byte of each character of byte-level BPE: GPT-2's `bytes_to_unicode`."""
    ranges = [("!", "~"), ("¡", "¬"), ("®", "ÿ")]
    of = {chr(i): i for first, last in ranges for i in range(ord(first), ord(last) + 1)}
    for i in range(256):
        if i not in of.values():
            of[chr(256 + sum(char > "ÿ" for char in of))] = i
    return of


def piece_bytes(piece: str, *, byte_level: bool) -> bytes:
    """Return the bytes of a tokenizer's piece: byte-level BPE, else SentencePiece."""
    if byte_level:
        return bytes([gpt2_bytes()[char] for char in piece])
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes.fromhex(piece[3:5])
    return piece.replace("\u2581", " ").encode()


class Seen(NamedTuple):
    """The visible text, and the byte at which each of its characters begins."""

    text: str
    starts: list[int]

    def before(self, byte: int) -> str:
        """Return the characters that begin before a byte."""
        return "".join(
            char for char, start in zip(self.text, self.starts, strict=True) if start < byte
        )


def see(data: bytes, *, hides_first_space: bool) -> Seen:
    """Read all bytes of a canvas as text, one character at a time."""
    text, starts, at = "", [], 0
    while at < len(data):
        char, width = first_char(data[at : at + 4])
        text += char
        starts.append(at)
        at += width
    hidden = hides_first_space and text.startswith(" ")
    return Seen(text[hidden:], starts[hidden:])


def first_char(data: bytes) -> tuple[str, int]:
    """Return the first character and its width; bytes that make none become U+FFFD."""
    broken = None
    for width in range(1, len(data) + 1):
        try:
            return data[:width].decode(), width
        except UnicodeDecodeError as error:
            broken = error
    assert broken is not None
    return "\ufffd", broken.end


def pick(rng: Random, vocab: ActionVocab, ids: set[int]) -> int:
    """Choose an id: first its kind, then the id; STOP seldom, so that walks are long."""
    by_name: dict[str, list[int]] = {}
    for i in sorted(ids):
        by_name.setdefault(names(vocab)[i], []).append(i)
    if len(by_name) > 1 and rng.random() < 0.99:
        by_name.pop("stop", None)
    return rng.choice(by_name[rng.choice(sorted(by_name))])
