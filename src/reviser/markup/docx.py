"""Word documents: their text, and changes to it as tracked changes.

The main part is read with its byte offsets, and only the runs that change are written again. All
other bytes of it, and all other files of the package, stay as they are. Headers, footnotes and text
boxes are not read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from xml.parsers import expat
from xml.sax.saxutils import escape
from zipfile import BadZipFile, ZipFile

from reviser.errors import DataError
from reviser.markup.spans import Span, joined

PART = "word/document.xml"
LARGEST = 1 << 28
"""Bytes of the main part, unpacked."""
DEEPEST = 400
"""Elements that an element may lie in."""
BREAK = "\n\n"
"""Stands between two paragraphs."""
OBJECT = "\ufffc"
"""Stands for what is no text, such as a picture or the mark of a footnote."""
_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011"}
_NO_CHARACTER = ("lastRenderedPageBreak", "instrText", "fldChar")
_SKIPPED = ("del", "moveFrom", "AlternateContent")
_EDITABLE = ("hyperlink", "smartTag", "sdt", "sdtContent")
"""Elements of a paragraph in which tracked changes are allowed; not those of somebody else."""
_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")


@dataclass
class _Element:
    name: str
    attributes: dict[str, str]
    start: int
    end: int = 0
    text: str = ""
    children: list[_Element] = field(default_factory=list)


@dataclass
class _Run:
    """Characters with one format: its children, with the text that each stands for."""

    element: _Element
    at: int
    """Offset of its first character in the text of the document."""
    pieces: list[tuple[_Element, str]]

    @property
    def end(self) -> int:
        return self.at + sum(len(text) for _, text in self.pieces)


class Docx:
    """A Word document: the text of its body, with `locked` spans that cannot be changed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            with ZipFile(BytesIO(data)) as package:
                if package.getinfo(PART).file_size > LARGEST:
                    raise DataError("The Word document is too large to be read.")
                self._xml = package.read(PART)
            root = _parse(self._xml)
        except (BadZipFile, KeyError, expat.ExpatError, NotImplementedError, RuntimeError) as error:
            raise DataError(f"This is not a Word document that can be read: {error}.") from error
        self._prefix = root.name.rpartition("document")[0]
        self._runs: list[_Run] = []
        self._parts: list[str] = []
        self._length = self._fields = 0
        locked: list[Span] = []
        self._read(root, locked, is_locked=False)
        self.text, self.locked = "".join(self._parts), joined(sorted(locked))

    def _read(self, parent: _Element, locked: list[Span], *, is_locked: bool) -> None:
        """Read the text below an element."""
        for each in parent.children:
            name = each.name.rpartition(":")[2]
            if name == "r":
                self._read_run(each, locked, is_locked=is_locked)
            elif name == "p":
                if self._parts:
                    locked.append(self._add(BREAK))
                self._read(each, locked, is_locked=False)
                self._parts.append("")  # an empty paragraph is one, too
            elif name not in _SKIPPED:
                is_inside = parent.name.endswith((":p", *_EDITABLE)) and name not in _EDITABLE
                self._read(each, locked, is_locked=is_locked or is_inside)

    def _read_run(self, element: _Element, locked: list[Span], *, is_locked: bool) -> None:
        run = _Run(element, self._length, [])
        for child in element.children:
            name = child.name.rpartition(":")[2]
            if name == "t":
                keeps = child.attributes.get("xml:space") == "preserve"
                text = child.text if keeps else child.text.strip(" \t\n")
            elif name in ("rPr", *_NO_CHARACTER):
                text = ""
            else:
                text = _CHARACTERS.get(name, OBJECT)
            if name == "fldChar":
                kind = child.attributes.get(f"{self._prefix}fldCharType")
                self._fields += {"begin": 1, "end": -1}.get(kind or "", 0)
            if name != "rPr":
                run.pieces.append((child, text))
            span = self._add(text)
            if text and (is_locked or self._fields > 0 or name != "t"):
                locked.append(span)
        if run.end > run.at:
            self._runs.append(run)

    def _add(self, text: str) -> Span:
        self._parts.append(text)
        self._length += len(text)
        return self._length - len(text), self._length

    def tracked(self, changes: Iterable[tuple[int, int, str]], author: str = "Reviser") -> bytes:
        """Return the document with tracked changes: spans of the text, and what replaces them."""
        edits: dict[int, list[tuple[int, int, str, _Run]]] = {}
        starts = [run.at for run in self._runs]
        for start, end, after in changes:
            # An insertion has the format of the text before it in its paragraph, if it has some.
            first = max(0, bisect_right(starts, start) - 1)
            if start == end and first and self._runs[first - 1].end == start:
                first -= not any(low < start <= high for low, high in self.locked)
            last = max(first, bisect_right(starts, end - 1) - 1)
            for n in range(first, last + 1):
                run = self._runs[n]
                low, high = max(start, run.at), min(end, run.end)
                new = after if n == last else ""
                edit = low - run.at, max(low, high) - run.at, new, self._runs[first]
                edits.setdefault(n, []).append(edit)
        writer = _Writer(self._xml, self._prefix, author)
        parts, done = [], 0
        for n, spans in sorted(edits.items()):
            run = self._runs[n]
            parts += [self._xml[done : run.element.start], writer.run(run, spans)]
            done = run.element.end
        xml = b"".join([*parts, self._xml[done:]])
        target = BytesIO()
        with ZipFile(BytesIO(self._data)) as old, ZipFile(target, "w") as new_package:
            for info in old.infolist():
                new_package.writestr(info, xml if info.filename == PART else old.read(info))
        return target.getvalue()


class _Writer:
    """Writes runs with tracked changes."""

    def __init__(self, xml: bytes, prefix: str, author: str) -> None:
        self._xml, self._prefix = xml, prefix
        self._number = max((int(each) for each in re.findall(rb':id="(\d+)"', xml)), default=0)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._by = f'{prefix}author="{escape(author)}" {prefix}date="{now}"'

    def run(self, run: _Run, edits: Sequence[tuple[int, int, str, _Run]]) -> bytes:
        """Return a run with spans of its characters replaced, each with the format of some run."""
        parts, done = [], 0
        for start, end, after, format_of in edits:
            parts.append(self._slice(run, done, start))
            if start < end:
                parts.append(self._mark("del", self._slice(run, start, end, "delText")))
            if after:
                parts.append(self._mark("ins", self._wrapped(format_of, self._text("t", after))))
            done = end
        return b"".join([*parts, self._slice(run, done, run.end - run.at + 1)])

    def _mark(self, kind: str, content: bytes) -> bytes:
        self._number += 1
        tag = f"{self._prefix}{kind}"
        opened = f'<{tag} {self._prefix}id="{self._number}" {self._by}>'
        return opened.encode() + content + f"</{tag}>".encode()

    def _slice(self, run: _Run, start: int, end: int, tag: str = "t") -> bytes:
        """Return some characters of a run as a run of their own."""
        content, at = b"", 0
        for element, text in run.pieces:
            low, high = max(start, at), min(end, at + len(text))
            if element.name == f"{self._prefix}t":
                content += self._text(tag, text[low - at : high - at]) if low < high else b""
            elif start <= at < end:
                content += self._xml[element.start : element.end]
            at += len(text)
        return self._wrapped(run, content) if content else b""

    def _wrapped(self, run: _Run, content: bytes) -> bytes:
        """Return content as a run with the attributes and properties of another."""
        opened = _TAG.match(self._xml, run.element.start)
        assert opened is not None
        properties = [each for each in run.element.children if each.name.endswith(":rPr")]
        own = b"".join(self._xml[each.start : each.end] for each in properties)
        return opened[0] + own + content + f"</{run.element.name}>".encode()

    def _text(self, tag: str, text: str) -> bytes:
        name = f"{self._prefix}{tag}"
        return f'<{name} xml:space="preserve">{escape(text)}</{name}>'.encode()


def _parse(xml: bytes) -> _Element:
    """Return the root of a document, whose elements know their bytes."""
    top = _Element("", {}, 0)
    path, parser = [top], expat.ParserCreate("UTF-8")

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(path) > DEEPEST:
            raise DataError(f"The Word document has elements in {DEEPEST} others.")
        element = _Element(name, attributes, parser.CurrentByteIndex)
        path[-1].children.append(element)
        path.append(element)

    def end(_: str) -> None:
        element, at = path.pop(), parser.CurrentByteIndex
        opened = _TAG.match(xml, element.start)
        is_closed = opened is not None and opened[0].endswith(b"/>")
        element.end = at if is_closed else xml.index(b">", at) + 1

    def text(data: str) -> None:
        path[-1].text += data

    def refuse(*_: object) -> None:
        raise DataError("The Word document has a document type declaration, which none needs.")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, refuse
    parser.Parse(xml, True)
    return top.children[0]
