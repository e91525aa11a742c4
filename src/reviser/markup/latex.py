r"""LaTeX, read by pylatexenc.

Text is what stands in the document's body and in the arguments of commands that take text, such as
\section and \emph. Math, verbatim text, all other commands and their arguments are locked.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pylatexenc import latexwalker as walker
from pylatexenc.macrospec import (
    EnvironmentSpec,
    MacroStandardArgsParser,
    ParsedVerbatimArgs,
    std_macro,
)

from reviser.markup.spans import Span, Unreadable, line_breaks, plain_lines, subtract

_TEXT_MACROS = {
    "author", "caption", "chapter", "emph", "enquote", "footnote", "footnotetext", "href",
    "paragraph", "part", "section", "subparagraph", "subsection", "subsubsection", "textbf",
    "textit", "textmd", "textnormal", "textrm", "textsc", "textsf", "textsl", "textup", "title",
    "underline",
}  # fmt: skip
"""Commands whose last argument is text."""
_MORE_MACROS = {"enquote": "*{", "href": "{{", "textmd": "{", "textnormal": "{", "textup": "{"}
_CODE = ("Verbatim", "comment", "listing", "lstlisting", "minted", "verbatim", "verbatim*")
_LOCKED_ENVIRONMENTS = {
    *_CODE, "align", "align*", "alignat", "alignat*", "displaymath", "eqnarray", "eqnarray*",
    "equation", "equation*", "filecontents", "flalign", "flalign*", "gather", "gather*", "math",
    "multline", "multline*", "picture", "tabbing", "thebibliography", "tikzpicture",
}  # fmt: skip


class _Code(MacroStandardArgsParser):  # type: ignore[misc]
    """The content of an environment with code, up to its own end."""

    def __init__(self, name: str) -> None:
        super().__init__(argspec="{")
        self._end = rf"\end{{{name}}}"

    def parse_args(self, w: Any, pos: int, parsing_state: Any = None) -> tuple[Any, int, int]:
        """Return everything before the end of the environment as one argument."""
        end = w.s.find(self._end, pos)
        end = len(w.s) if end < 0 else end
        node = w.make_node(
            walker.LatexCharsNode,
            parsing_state=parsing_state,
            chars=w.s[pos:end],
            pos=pos,
            len=end - pos,
        )
        return ParsedVerbatimArgs(verbatim_chars_node=node), pos, end - pos


_TOKENS, _MORE_TOKENS = 3, 1000
"""Tokens for each character of a text, and more for any text. Documents need less than one."""
_DEEPEST = 40
"""Groups and environments inside each other, for each of which the parser calls itself."""


class _Walker(walker.LatexWalker):  # type: ignore[misc]
    """A parser that raises Unreadable."""

    def __init__(self, text: str) -> None:
        super().__init__(text, latex_context=_context(), tolerant_parsing=True)
        self._left = _MORE_TOKENS + _TOKENS * len(text)
        self._depth = 0

    def get_token(self, *args: Any, **settings: Any) -> Any:
        """Count the token, and return it."""
        self._left -= 1
        if self._left < 0:
            raise Unreadable
        return super().get_token(*args, **settings)

    def get_latex_nodes(self, *args: Any, **settings: Any) -> Any:
        """Count the groups that are open, and return the nodes of one."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable
        try:
            return super().get_latex_nodes(*args, **settings)
        finally:
            self._depth -= 1


@cache
def _context() -> Any:
    context = walker.get_default_latex_context_db()
    context.add_context_category(
        "reviser",
        prepend=True,
        macros=[std_macro(name, arguments) for name, arguments in _MORE_MACROS.items()],
        environments=[EnvironmentSpec(name, args_parser=_Code(name)) for name in _CODE],
    )
    return context


def editable_spans(text: str) -> list[Span]:
    """Return the spans of a LaTeX document that are text."""
    plain = plain_lines(text)
    try:
        nodes = _Walker(plain).get_latex_nodes()[0]
    except IndexError as error:  # the parser's own, if a text ends with \\verb
        raise Unreadable("cannot be parsed") from error
    documents = [each for each in nodes if getattr(each, "environmentname", "") == "document"]
    editable: list[Span] = []
    groups = [each.nodelist for each in documents] or [nodes]
    while groups:
        has_command = False  # the groups after a command are its arguments
        for node in groups.pop() or ():
            if node is None or (has_command and node.isNodeType(walker.LatexGroupNode)):
                continue
            has_command = False
            if node.isNodeType(walker.LatexCharsNode):
                editable.append((node.pos, node.pos + node.len))
            elif node.isNodeType(walker.LatexGroupNode):
                groups.append(node.nodelist)
            elif node.isNodeType(walker.LatexEnvironmentNode):
                if node.environmentname not in _LOCKED_ENVIRONMENTS:
                    groups.append(node.nodelist)
            elif node.isNodeType(walker.LatexMacroNode):
                arguments = list(node.nodeargd.argnlist or ()) if node.nodeargd else []
                if node.macroname in _TEXT_MACROS and arguments:
                    groups.append([arguments[-1]])
                has_command = not arguments and node.macroname not in ("item", "\\")
    return subtract(editable, line_breaks(plain, editable))
