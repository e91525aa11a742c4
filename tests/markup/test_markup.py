"""Locked markup: spans are in order and apart, and nothing inside them ever changes."""

from __future__ import annotations

import builtins
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviser.engines.base import DecodeConfig
from reviser.errors import ConfigError, MissingExtra
from reviser.markup import Format, format_of, locked_spans
from reviser.markup.spans import Excerpt, complement, joined, subtract
from reviser.writing.tasks import Revise
from support.serving import reviser

ROOT = Path(__file__).parents[2]
FORMATS: list[Format] = ["text", "markdown", "rst", "latex", "code"]
DOCS = ["README.md", "CONTRIBUTING.md", *(f"docs/{name}.md" for name in (
    "concepts", "install", "quickstart", "guides/revise", "guides/serve", "guides/train",
    "design/architecture", "reference/formats"))]  # fmt: skip


def locked(text: str, language: Format, name: str = "x.py") -> list[str]:
    return [text[start:end] for start, end in locked_spans(text, language, name)]


def editable(text: str, language: Format, name: str = "x.py") -> list[str]:
    spans = complement(locked_spans(text, language, name), len(text))
    return [text[start:end] for start, end in spans]


def test_markdown_locks_markup_and_leaves_text() -> None:
    text = (
        "---\ntitle: A page\n---\n\n# Head *line* `code`\n\n"
        '- One [link](http://a.b "title") and ![img](u.png)\n'
        "- [ ] a task with <b>html</b>, <http://auto.link>, $a+b$, https://bare.url/x and "
        "me@a.org\n\n"
        "> quote with **bold**\n> more\n\n| a | b |\n|---|--:|\n| c `x` | d |\n\n"
        "```py\nx = 1\n```\n\n    indented\n\n[ref]: http://x.y\n\nSee [that][ref][^1].\n\n"
        '[^1]: A note\n\n!!! note "Title"\n    A body.\n\n![P](p.svg){ width="480" }\n\n'
        "<div>\nblock\n</div>\n"
    )
    assert editable(text, "markdown") == [
        "Head ", "line", " ", "One ", "link", " and ", "img", "a task with ", "html", ", ", ", ",
        ", ", " and ", "quote with ", "bold", "more", "a ", "b ", "c ", " ", "d ", "See ", "that",
        ".", " A note", "A body.", "P",
    ]  # fmt: skip


def test_restructuredtext_locks_markup_and_leaves_text() -> None:
    text = (
        "Title\n=====\n\nSome *emph* and **strong** with ``code``, :ref:`label`, http://a.b/c.\n\n"
        "- bullet\n\n.. note:: Take care.\n\n   A body with ``code``\n   goes on.\n\n"
        ".. code-block:: python\n\n   x = 1\n\nEnds with::\n\n    literal\n\n"
        ":param x: the thing\n\n"
        ">>> 1 + 1\n2\n\n.. _target: http://x.y\n\n=====  =====\nA      B\n=====  =====\n"
    )
    assert editable(text, "rst") == [
        "Title", "Some ", "emph", " and ", "strong", " with ", ", ", ", ", ".", "bullet",
        "A body with ", "goes on.", "Ends with", "the thing",
    ]  # fmt: skip


def test_latex_locks_commands_math_and_code_and_leaves_text() -> None:
    text = r"""\documentclass[a4]{article}
\newcommand{\x}{words}
% a comment
\begin{document}
\section{My title}
Text \emph{word} and $x+y$, \[ a \] see \ref{sec:a}. \href{http://x}{a link} \own{arg}{more}.
\begin{itemize}
\item one
\end{itemize}
\begin{lstlisting}
code { here
\end{lstlisting}
\begin{equation} E=mc^2 \end{equation}
Last \verb|x y| words.
\end{document}
"""
    found = [part.strip() for part in editable(text, "latex")]
    assert [part for part in found if part] == [
        "My title", "Text", "word", "and", ",", "see", ".", "a link", ".", "one", "Last", "words.",
    ]  # fmt: skip


def test_code_locks_all_but_the_text_of_comments_and_docstrings() -> None:
    text = (
        '#!/usr/bin/env python\nx = "a text"  # A comment with `code`\n# goes on here.\n'
        'def f():\n    """Return a thing.\n\n    Further words.\n\n    >>> f()\n    1\n    """\n'
        "    return 1  # noqa: B018\n"
    )
    assert editable(text, "code") == [
        "A comment with ", "goes on here.", "Return a thing.", "Further words.",
    ]  # fmt: skip
    text = "/* First line\n * second line. */\nint x = 1; // and `y`, see http://a.b\n"
    assert editable(text, "code", "x.c") == ["First line", "second line.", "and ", ", see "]


def test_a_format_is_chosen_by_the_suffix() -> None:
    names = {
        "a.md": "markdown", "a.RST": "rst", "a.tex": "latex", "a.txt": "text", "a": "text",
        "a.py": "code", "a.c": "code", "a.json": "text", "a.unknown": "text",
    }  # fmt: skip
    assert {name: format_of(name) for name in names} == names


def test_what_cannot_be_read_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="Did you mean `markdown`"):
        locked_spans("x", "markdwn")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="rename the file"):
        locked_spans("x", "code", "a.unknown")
    real = builtins.__import__

    def missing(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("linkify_it"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    monkeypatch.delitem(__import__("sys").modules, "reviser.markup.links", raising=False)
    with pytest.raises(MissingExtra, match=r"linkify_it is not installed.*reviser-lm\[markup\]"):
        locked_spans("x", "text")


PIECES = [
    "word", " ", "\n", "\n\n", "\r\n", "\r", "*", "**", "`", "```\n", "~~~", "# ", "- ", "> ", "|",
    "---", "[", "](", ")", "<b>", "http://a.b", "$", "\\", "{", "}", "\\begin{verbatim}",
    "\\end{x}",
    "\\emph{", "%", "::", ".. note:: ", ":ref:`", '"""', "'''", ">>> ", "/*", "*/", "//", "é", "😀",
    "\0", "\t", "    ", "1. ", "=====", "!!! note", "[^1]:", "def f():", "x@y.org",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.sampled_from(FORMATS))
def test_spans_are_in_order_apart_and_within_any_text(text: str, language: Format) -> None:
    spans = locked_spans(text, language, "x.py")
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(one[1] < two[0] for one, two in pairwise(spans))


words = st.lists(st.sampled_from(["one", "two é", "😀", "`c`", "**b**", "don't"]), min_size=1).map(
    " ".join
)


@given(st.lists(st.tuples(words, st.lists(words, max_size=3), st.sampled_from(["```", "~~~~"])),
                min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))  # fmt: skip
def test_every_fenced_block_is_locked(
    blocks: list[tuple[str, list[str], str]], newline: str
) -> None:
    text, fenced = "", []
    for prose, lines, fence in blocks:
        text += f"Prose {prose}{newline}{newline}"
        block = newline.join([f"{fence}py", *lines, fence])
        fenced.append((len(text), len(text) + len(block)))
        text += f"{block}{newline}{newline}"
    spans = locked_spans(text, "markdown")
    assert subtract(fenced, spans) == []
    assert len(spans) >= len(fenced)
    assert complement(spans, len(text))  # and the prose is not


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))),
       st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))  # fmt: skip
def test_spans_are_subtracted_as_sets(one: list[Any], two: list[Any]) -> None:
    def members(spans: list[Any]) -> set[int]:
        return {n for start, end in spans for n in range(start, end)}

    found = subtract(one, two)
    assert members(found) == members(one) - members(two)
    assert members(complement(joined(one), 40)) == {*range(40)} - members(one)


def test_an_excerpt_leads_back_to_its_document() -> None:
    excerpt = Excerpt("# one\n# two", [(2, 6), (8, 11)])
    assert excerpt.text == "one\ntwo"
    assert excerpt.back([(0, 3), (2, 6)]) == [(2, 5), (4, 6), (8, 10)]


@pytest.mark.parametrize("name", DOCS)
def test_nothing_in_locked_markup_of_our_own_pages_changes(name: str) -> None:
    """A random editor, which may edit everywhere else, does what it likes."""
    draft = (ROOT / name).read_text("utf-8")[:6000]
    spans = locked_spans(draft, format_of(name), name)
    task = Revise(draft, locked=spans, min_edit_probability=0.0)
    revision = reviser().run(task, DecodeConfig(max_actions=40, stop_bias=-1.0))
    assert len(revision.changes) > 5
    for change in revision.changes:
        for start, end in spans:
            assert not (change.start < end and start < change.end), change
            assert not start < change.start == change.end < end, change
    for rollout in revision.rollouts:
        assert all(proof.before == proof.after for proof in rollout.locked)
