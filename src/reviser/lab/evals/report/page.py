"""A page of headings, paragraphs, tables, figures and texts, as HTML and as Markdown.

Both renderers read the same blocks, so they cannot disagree. All content of a block is text: none
of it ever becomes markup. This module knows nothing about records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from reviser.lab.evals.plots import escaped, visible


@dataclass(frozen=True)
class Span:
    """A stretch of text."""

    text: str
    title: str = ""
    """The tooltip: for an estimate, its method and n."""
    kind: str = ""
    """`code`, `strong`, `number` for a measurement, or empty for plain text."""


Words = tuple[Span, ...]
"""The content of a paragraph or a cell."""


def words(*parts: str | Span) -> Words:
    """Join text and spans into one run."""
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


@dataclass(frozen=True)
class Heading:
    """A heading that opens a section."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of sentences."""

    content: Words


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a header; the first cell of a row names it."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    note: Words = ()
    prose: bool = False
    """True if cells hold words that may wrap, not numbers."""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.header) for row in self.rows), self.caption


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture, with its numbers as a table unless one is already next to it."""

    svg: str
    caption: str
    numbers: Table | None = None


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The continuations of one prompt by several systems."""

    prompt: str
    written: tuple[tuple[str, str], ...]
    """Pairs of system and text."""


Block = Heading | Paragraph | Table | Figure | Texts


@dataclass(frozen=True, kw_only=True)
class Page:
    """A title and all blocks, in order."""

    title: str
    blocks: tuple[Block, ...]


# -- HTML -----------------------------------------------------------------------------------------


def to_html(page: Page) -> str:
    """Render one HTML file that needs no other file, no network and no script."""
    title = escaped(_line(page.title))
    sections = [block.text for block in page.blocks if isinstance(block, Heading)]
    links = "".join(f'<li><a href="#{_slug(text)}">{escaped(text)}</a></li>' for text in sections)
    body = "\n".join(_html(block) for block in page.blocks)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n"
        + (f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n' if links else "")
        + f"{body}\n</main>\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f'<h{level} id="{_slug(text)}">{escaped(text)}</h{level}>'
        case Paragraph(content):
            return f"<p>{_html_words(content)}</p>"
        case Table():
            return _html_table(block)
        case Figure(svg=svg, caption=caption, numbers=numbers):
            drawn = f'<div class="box" tabindex="0">{svg}</div>'
            text = f"<figcaption>{escaped(_line(caption))}</figcaption>"
            if numbers:
                table = _html_table(numbers)
                text += f"<details><summary>Its numbers</summary>{table}</details>"
            return f'<figure class="plot">{drawn}{text}</figure>'
        case Texts(prompt=prompt, written=written):
            each = "".join(
                f"<div><h3>{escaped(_line(name))}</h3>{_html_text(text)}</div>"
                for name, text in written
            )
            return (
                f'<section class="texts"><div class="prompt"><h3>Prompt</h3>{_html_text(prompt)}'
                f'</div><div class="written">{each}</div></section>'
            )


def _html_words(content: Words) -> str:
    return "".join(map(_html_span, content))


def _html_span(span: Span) -> str:
    text = escaped(_line(span.text))
    if span.kind in ("code", "strong"):
        text = f"<{span.kind}>{text}</{span.kind}>"
    return f'<span title="{escaped(span.title)}">{text}</span>' if span.title else text


def _html_text(text: str) -> str:
    return f'<blockquote dir="auto">{escaped(text)}</blockquote>'


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escaped(_line(name))}</th>' for name in table.header)
    rows = "\n".join(
        f'<tr><th scope="row">{_html_words(first)}</th>'
        + "".join(f"<td>{_html_words(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in table.rows
    )
    note = f'<p class="note">{_html_words(table.note)}</p>' if table.note else ""
    kind = ' class="prose"' if table.prose else ""
    caption = f"<span>{escaped(_line(table.caption))}</span>"
    return (
        f'<div class="box" tabindex="0"><table{kind}>\n<caption>{caption}</caption>'
        f"\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>{note}"
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


_STYLE = """
:root {
  color-scheme: light dark;
  --back: #ffffff; --ink: #1b1b1f; --faint: #5b5d66; --line: #d9dae0; --shade: #f4f5f7;
  --series-0: #0072b2; --series-1: #c44f00; --series-2: #00815c; --series-3: #aa4499;
  --series-4: #806000; --series-5: #555555;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #16171b; --ink: #e8e9ed; --faint: #a3a6b1; --line: #3a3c45; --shade: #202228;
    --series-0: #56b4e9; --series-1: #f0954c; --series-2: #35c596; --series-3: #e09bd0;
    --series-4: #d8b83f; --series-5: #b5b5b5;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere;
}
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.3rem; line-height: 1.25; margin: 3rem 0 .75rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: .85rem; margin: 0 0 .3rem; color: var(--faint); font-weight: 600; }
p { max-width: 44rem; margin: 0 0 1rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; padding: 0;
  margin: 0 0 1.5rem; font-size: .9rem; }
a { color: var(--series-0); }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .9em;
  white-space: nowrap; }
.box { overflow-x: auto; margin: 0 0 .5rem; }
.box:focus-visible { outline: 2px solid var(--series-0); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
caption span { display: block; position: sticky; left: 0; width: max-content;
  max-width: min(100vw - 2rem, 60rem); }
th, td { text-align: left; vertical-align: top; padding: .35rem 1.25rem .35rem 0;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { color: var(--faint); font-weight: 600; border-bottom: 2px solid var(--line);
  vertical-align: bottom; }
tbody th { font-weight: 500; }
th { white-space: normal; overflow-wrap: anywhere; min-width: 6.5rem; max-width: 20rem; }
tbody th { min-width: 7.5rem; }
.prose th, .prose td { white-space: normal; min-width: 9rem; max-width: 24rem;
  overflow-wrap: anywhere; }
.prose tbody th { min-width: 6.5rem; }
td span[title], p span[title] { text-decoration: underline dotted var(--line);
  text-underline-offset: .2em; cursor: help; white-space: nowrap; }
.note { color: var(--faint); font-size: .85rem; margin: 0 0 1.5rem; }
.plot { margin: 1rem 0 1.5rem; }
.plot svg { display: block; width: 100%; min-width: 560px; max-width: 760px; height: auto; }
figcaption { color: var(--faint); font-size: .85rem; max-width: 44rem; margin: .25rem 0; }
details { margin: .25rem 0; }
summary { cursor: pointer; font-size: .85rem; color: var(--series-0); }
.texts { margin: 0 0 2rem; }
.written { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr));
  margin-top: .75rem; }
blockquote { margin: 0; padding: .6rem .8rem; background: var(--shade); border-radius: 4px;
  white-space: pre-wrap; unicode-bidi: isolate; font-size: .95rem; }
.prompt blockquote { border-left: 3px solid var(--series-0); border-radius: 0 4px 4px 0; }
@media print { .box { overflow: visible; } }
"""


# -- Markdown -------------------------------------------------------------------------------------

_MARKS = re.compile(r"[\\`*_\[\]~$#!^&<>|]|://|(?<=www)\.", re.IGNORECASE)
"""Characters with a meaning in Markdown; an address would become a link."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_OPENS = re.compile(r"[-+]|\d+[.)](?=\s)")
"""Characters that open a list or a rule at the start of a paragraph."""


def to_markdown(page: Page) -> str:
    """Render GitHub's Markdown, with the numbers of figures instead of pictures."""
    blocks = [f"# {_escaped(page.title)}", *map(_markdown, page.blocks)]
    return "\n\n".join(blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_escaped(text)}"
        case Paragraph(content):
            return _markdown_paragraph(content)
        case Table():
            return _markdown_table(block)
        case Figure(caption=caption, numbers=numbers):
            text = f"*Figure, drawn in the HTML page:* {_escaped(caption)}"
            return f"{text}\n\n{_markdown_table(numbers)}" if numbers else text
        case Texts(prompt=prompt, written=written):
            parts = [("Prompt", prompt), *written]
            return "\n\n".join(f"**{_escaped(name)}**\n\n{_fenced(text)}" for name, text in parts)


def _markdown_paragraph(content: Words) -> str:
    text = _markdown_words(content).lstrip()
    if opening := _OPENS.match(text):
        at = opening.end() - 1
        return f"{text[:at]}\\{text[at:]}"
    return text


def _markdown_words(content: Words) -> str:
    return "".join(map(_markdown_span, content))


def _markdown_span(span: Span) -> str:
    text = _escaped(span.text)
    if span.kind == "number":
        return text.replace("\\", "")  # brackets of an interval open no link
    if span.kind == "code":
        return f"`{span.text}`" if not re.search(r"[`|\n]", span.text) else text
    return f"**{text}**" if span.kind == "strong" else text


def _markdown_table(table: Table) -> str:
    lines = [
        f"**{_escaped(table.caption)}**",
        "",
        _row(map(_escaped, table.header)),
        _row(["---"] * len(table.header)),
        *(_row(map(_markdown_words, row)) for row in table.rows),
    ]
    if table.note:
        lines += ["", _markdown_paragraph(table.note)]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _fenced(text: str) -> str:
    """Return a code block whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{visible(text)}\n{fence}"


def _escaped(text: str) -> str:
    return _MARKS.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), _line(text))


def _line(text: str) -> str:
    """Return the text on one line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def titles(rows: Iterable[Sequence[Words]]) -> list[str]:
    """Return the distinct tooltips of the cells of some rows, in order."""
    spans = chain.from_iterable(chain.from_iterable(rows))
    return list(dict.fromkeys(span.title for span in spans if span.title))
