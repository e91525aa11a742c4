"""Editing by a chat model as a flow: show the draft in windows, and apply the answers."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count, product
from string import ascii_lowercase
from typing import Any

from reviser.chat.answers import Dropped, Executor, edits_in, schema
from reviser.engines.base import StopReason
from reviser.engines.chat_server import Ask, Reply
from reviser.errors import ConfigError, EngineError
from reviser.markup.sentences import UnitKind, unit_spans
from reviser.markup.spans import Span, complement
from reviser.writing.driver import Cancelled, Flow
from reviser.writing.flows import Progress, batches, no_progress
from reviser.writing.prompts import check_limits
from reviser.writing.rollout import Revision
from reviser.writing.tasks import Revise

WINDOW, CONTEXT = 6000, 600
"""Characters of a draft that are edited with one request, and shown on either side of them."""
GROUP = 32
"""Windows that are sent side by side; the next ones wait for all of them."""
SYSTEM = """\
You edit a text as the user asks. The text is shown in {unit}s, one per line. Those that you may \
change begin with an anchor in brackets; those that begin with [-] are only shown.
Answer with JSON: {{"edits": [{{"anchor": "...", "do": "...", "text": "..."}}]}}
"do" is one of these:
- "replace": "text" is the whole new {unit}.
- "delete": "text" is empty.
- "insert_before", "insert_after": "text" is a new {unit} beside the one with this anchor.
List only what changes, and leave everything else out: what you do not list stays as it is. Never \
write anchors into "text". If nothing needs to change, answer {{"edits": []}}.
Example. Instruction: Correct the spelling.
[ex1] It is a fine day.
[ex2] I recieved your letter.
Answer: {{"edits": [{{"anchor": "ex2", "do": "replace", "text": "I received your letter."}}]}}"""


@dataclass(frozen=True, kw_only=True)
class Edited(Revision):
    """A draft that a chat model edited: the changes, and what was not done."""

    dropped: tuple[Dropped, ...] = ()
    """Edits that the model asked for and that were not made, each with its reason."""
    lost: tuple[Dropped, ...] = ()
    """Windows of the draft without a whole answer, each with its reason."""
    requests: int = 0
    tokens_read: int = 0
    """Tokens of the prompts, as the server counts them."""
    tokens_written: int = 0
    """Tokens that the model wrote, as the server counts them."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        counts = ("requests", "tokens_read", "tokens_written")
        return {
            **super().to_dict(),
            "dropped": [asdict(each) for each in self.dropped],
            "lost": [asdict(each) for each in self.lost],
            **{name: getattr(self, name) for name in counts},
        }


def edit(
    task: Revise,
    *,
    kind: UnitKind = "sentence",
    window: int = WINDOW,
    context: int = CONTEXT,
    one_line: bool = False,
    progress: Progress = no_progress,
    max_prompts: int | None = None,
) -> Flow[Edited]:
    """Have a chat model edit a draft as the task's instruction says.

    With `one_line`, line ends that the model writes become spaces.
    """
    if not task.instruction.strip():
        raise ConfigError("The instruction is empty. Say what to change.")
    draft, locked = task.draft, task.locked_spans
    spans = unit_spans(draft, kind)
    names = anchors(draft + task.instruction, len(spans))
    groups = list(windows(spans, editable(draft, spans, locked), window, context))
    check_limits(0, len(groups), max_prompts=max_prompts)
    units = dict(zip(names, spans, strict=True))
    executor = Executor(draft, units, locked, kind, one_line=one_line)
    replies: list[Reply] = []
    lost: list[Dropped] = []
    stop_reason: StopReason = "stop"
    try:
        for some in batches(groups, GROUP):
            asked = [prompt(task, spans, names, group, kind, context) for group in some]
            found = yield from replies_to(asked)
            replies += found
            for group, reply in zip(some, found, strict=True):
                edits = None if reply.failure else edits_in(reply.text)
                if edits is None:
                    reason = reply.failure or "The answer is not the JSON that was asked for."
                    start, end = spans[group[0]][0], spans[group[-1]][1]
                    lost.append(Dropped(start=start, end=end, text=reply.text, reason=reason))
                else:
                    executor.take(edits, [names[n] for n in group])
            progress(len(replies), len(groups))
    except Cancelled as end:
        stop_reason = end.reason
    if lost and all(reply.failure for reply in replies):
        raise EngineError(f"The chat model edited nothing: {lost[0].reason}")
    return Edited(
        changes=executor.changes(),
        dropped=tuple(executor.dropped),
        lost=tuple(lost),
        stop_reason=stop_reason,
        requests=len(replies),
        tokens_read=sum(reply.tokens_read for reply in replies),
        tokens_written=sum(reply.tokens_written for reply in replies),
    )


def replies_to(questions: Iterable[Ask]) -> Flow[list[Reply]]:
    """Ask a chat model; a part of a flow, for `yield from`."""
    asked: list[Any] = list(questions)  # an engine with tokens refuses them
    return (yield asked)


def anchors(taken: str, length: int) -> list[str]:
    """Return anchors of units: a letter or two, which no number follows in a text, and a number.

    >>> anchors("Of s1 and s2.", 2)
    ['u1', 'u2']
    """
    letters = "su" + ascii_lowercase
    found = {match.lower() for match in re.findall(r"([A-Za-z]+)\d", taken)}
    for size in count(1):
        for each in product(letters, repeat=size):
            prefix = "".join(each)
            if not any(word.endswith(prefix) for word in found):
                return [f"{prefix}{number}" for number in range(1, length + 1)]
    raise AssertionError


def editable(draft: str, spans: Sequence[Span], locked: Sequence[Span]) -> list[int]:
    """Return the numbers of the units that are not wholly locked."""
    free = complement(locked, len(draft))
    found = []
    for n, (start, end) in enumerate(spans):
        at = bisect_right(free, start, key=lambda span: span[1])
        while at < len(free) and free[at][0] < end:
            if draft[max(start, free[at][0]) : min(end, free[at][1])].strip():
                found.append(n)
                break
            at += 1
    return found


def windows(
    spans: Sequence[Span], numbers: Iterable[int], window: int, context: int
) -> Iterator[list[int]]:
    """Yield the numbers of units that are edited with one request, in order.

    Long locked parts between them, such as the code between two comments, are not sent.
    """
    group: list[int] = []
    for n in numbers:
        start, end = spans[n]
        is_far = group and n > group[-1] + 1 and start - spans[group[-1]][1] > 2 * context
        if group and (is_far or end - spans[group[0]][0] > window):
            yield group
            group = []
        group.append(n)
    if group:
        yield group


def prompt(
    task: Revise, spans: Sequence[Span], names: Sequence[str], group: Sequence[int],
    kind: UnitKind, context: int,
) -> Ask:  # fmt: skip
    """Return the question about a window; units that it may not change have no anchor."""
    own = frozenset(group)
    low = bisect_left(spans, (spans[group[0]][0] - context, 0))
    high = bisect_right(spans, spans[group[-1]][1] + context, key=lambda span: span[1])
    lines, last, size = [], spans[low][0], 0
    for n in range(low, high):
        start, end = spans[n]
        if task.draft.count("\n", last, start) > 1:  # between paragraphs
            lines.append("")
        text = task.draft[start:end]
        # A sentence over two lines is shown on one, so that each anchor begins a line.
        text = " ".join(text.splitlines()) if kind == "sentence" else text
        lines.append(f"[{names[n] if n in own else '-'}] {text}")
        last = end
        size += end - start if n in own else 0
    return Ask(
        system=SYSTEM.format(unit=kind),
        user=f"Instruction: {task.instruction.strip()}\n\n" + "\n".join(lines),
        schema=schema([names[n] for n in group]),
        max_tokens=size // 2 + 40 * len(group) + 200,
    )
