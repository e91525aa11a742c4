"""Markup of texts that try to break or stall the parsers: it is found soon, or all is locked."""

from __future__ import annotations

import resource
import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.markup import Format, locked_spans, prose, segment_starts
from reviser.markup.spans import complement, joined, plain_lines, subtract
from support import hostile_documents as hostile

ROOT = hostile.ROOT
SLOW: list[tuple[Format, str]] = [
    ("markdown", "*a "), ("markdown", "_a "), ("markdown", "*"), ("markdown", "**a*"),
    ("markdown", "~a "), ("markdown", "<"), ("markdown", "*a\n"), ("markdown", "1. "),
    ("markdown", "{ "), ("markdown", "http://a.b/"), ("text", "http://a.b/"), ("text", "//a "),
    ("text", "a@"), ("rst", "*a "), ("rst", "[a"), ("rst", "1. "), ("rst", "(a) "), ("rst", "\n"),
    ("rst", "```a\n"), ("rst", ".. note:: a\n\n "), ("latex", "{"), ("latex", "\\a{"),
    ("latex", "\\begin{x}"), ("latex", "$\\begin{x}"), ("code", "# *a "), ("code", "x#a\n"),
    ("code", '"""\\N{'), ("code", '"""*a\n"""\n'),
]  # fmt: skip
"""Pieces whose repetition took time or memory by the square of its length, or a deep call."""

seeds = st.integers(0, 10**6)


def drawn(seed: int, size: int = 2000) -> tuple[str, Format, str]:
    return hostile.document(Random(seed), size)


@given(seeds)
def test_any_document_has_spans_in_order_within_it_at_a_linear_cost(seed: int) -> None:
    hostile.attempt(*drawn(seed))


@given(seeds)
def test_lines_may_end_in_any_way(seed: int) -> None:
    text, language, name = drawn(seed)
    text = text.replace("\0", "")
    assert locked_spans(plain_lines(text), language, name) == locked_spans(text, language, name)


@given(seeds)
def test_a_segment_alone_has_the_locks_that_it_has_in_the_document(seed: int) -> None:
    text, language, name = drawn(seed)
    starts = segment_starts(text, language)
    whole = complement(locked_spans(text, language, name), len(text))
    editable = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end] if start == 0 else "\n" + text[start:end]
        shift = start - (len(part) - (end - start))
        spans = complement(locked_spans(part, language, name), len(part))
        editable += [(max(start, low + shift), high + shift) for low, high in spans]
    blank = [(n, n + 1) for n, char in enumerate(text) if char.isspace()]
    assert subtract(joined(editable), blank) == subtract(whole, blank)


@pytest.mark.parametrize(("language", "piece"), SLOW)
def test_twice_the_text_takes_twice_the_time(language: Format, piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        locked_spans(text, language, "a.py")
        segment_starts(text, language)
        return time.process_time() - started

    size = 4000 if language == "code" else 10_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    once, twice = seconds(size), seconds(2 * size)
    # A lexer may take a second more than what its text costs.
    assert twice < 3 * once + (1.2 if language == "code" else 0.2), (once, twice)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize("unit", ["\t", " ", "  ", "> ", ">", "- ", "1. ", "   - "])
@pytest.mark.parametrize("language", ["markdown", "rst"])
@pytest.mark.parametrize("gap", ["", "\n", "\n\n"])
def test_nested_blocks_do_not_crash_the_parser(unit: str, language: Format, gap: str) -> None:
    """The grammars' own stacks have about 100 and 250 places, and no check of their end."""
    lines = [unit * n + "- a" for n in range(400)] if gap else [unit * 400, "a"]
    text = gap.join(lines) + "\n\nLast *words* here.\n"
    spans = locked_spans(text, language)
    assert text.endswith("here.\n")
    assert (spans[-1][1] == len(text)) or complement(spans, len(text))


def test_a_paragraph_that_is_too_hard_is_locked_and_the_others_are_not() -> None:
    text = "One `a` two.\n\n" + "*a " * 2000 + "\n\nThree.\n"
    editable = complement(locked_spans(text, "markdown"), len(text))
    assert [text[a:b] for a, b in editable] == ["One ", " two.", "Three."]


PLAIN_ONLY, NOTHING = "only its lines of plain words", "nothing in it"


@pytest.mark.parametrize(
    ("text", "language", "kept", "reason"),
    [
        ("Words here.\n\n" + "*a " * 4000, "rst", ["Words here."],
         f"takes too long to parse, so {PLAIN_ONLY}"),
        ("Words here.\n\n" + "{" * 100, "latex", ["Words here."],
         f"takes too long to parse, so {PLAIN_ONLY}"),
        ("Words here.\n\n\\verb", "latex", ["Words here."],
         f"cannot be parsed, so {PLAIN_ONLY}"),
        ("# Words here.\n" + "a = 1 " * 1000, "code", [],
         f"has a line of more than 2,000 characters, so {NOTHING}"),
    ],
)  # fmt: skip
def test_a_document_that_is_too_hard_keeps_its_plain_sentences_and_is_named(
    text: str, language: Format, kept: list[str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    spans = complement(locked_spans(text, language, "folder/a.py"), len(text))
    assert [text[a:b] for a, b in spans] == kept
    assert caplog.messages == [f"'folder/a.py' {reason} can be changed."]


CODE = """---
title: words
---

Some words, and others.

More `code
inside of` it, and
words after foo.bar and 3 things.

```
words

words
```

    words
> words
- words
.. words

<!-- words

words --> words

\\begin{verbatim}

words

\\end{verbatim}

The :ref:`words` here

a) words
Ends with words::

<pre>
words

words
</pre>

Last “words” aren't locked!
"""


def test_without_a_parser_only_plain_sentences_are_editable() -> None:
    spans = joined(prose.editable_spans(CODE))
    assert [CODE[a:b] for a, b in spans] == [
        "Some words, and others.", "words after ", " and ", " things.", " words",
        "Last “words” aren't locked!",
    ]  # fmt: skip
    assert joined(prose.editable_spans(CODE.replace("\n", "\r\n")))


def test_what_is_editable_without_a_parser_is_editable_with_it() -> None:
    count = 0
    for path in ROOT.glob("docs/**/*.md"):
        text = path.read_text("utf-8")
        locked = locked_spans(text, "markdown")
        editable = joined(prose.editable_spans(text))
        count += sum(end - start for start, end in editable)
        wrong = subtract(editable, complement(locked, len(text)))
        found = [text[a:b].strip() for a, b in wrong]
        # Links are looked for after both.
        assert [each for each in found if each and "://" not in each] == [], path
    assert count > 10_000


def test_finding_spans_runs_and_writes_nothing() -> None:
    with hostile.watched() as events:
        compile("1", "<text>", "eval")
    assert len(events) == 1  # it would be seen
    for n in range(60):
        text, language, name = drawn(n)
        with hostile.watched() as events:
            hostile.attempt(text, language, name)
        assert events == []


def test_hostile_documents_have_no_fault() -> None:
    assert hostile.main(150, seed=10_000, size=4000) == 0


@pytest.mark.full
def test_five_thousand_hostile_documents_have_no_fault() -> None:
    assert hostile.main(5000) == 0
