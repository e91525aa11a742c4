"""The server: documents and commands of an editor in, diagnostics and edits out.

The server has no editing logic of its own: it turns documents into `Revise`, `Infill` and
`Continue` tasks. The model loads once, in a thread; a check waits for it, the editor never does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from reviser.errors import ConfigError, DataError, ReviserError
from reviser.lsp.checker import Checker
from reviser.lsp.documents import (
    Paragraph,
    Positions,
    Segment,
    apply_changes,
    paragraphs,
    parse_again,
    placed,
    prompt_start,
)
from reviser.lsp.settings import (
    IGNORED,
    WORDS,
    Settings,
    add_user_entry,
    editor_settings,
    find_settings,
    user_entries,
)
from reviser.lsp.suggestions import (
    ADD_WORD,
    FIX_ALL,
    IGNORE,
    NAME,
    actions_for,
    diagnostic_of,
    shown,
)
from reviser.writing.changes import Change
from reviser.writing.tasks import GAP, Continue, Infill, Task

if TYPE_CHECKING:
    from reviser.model import Reviser

log = logging.getLogger("reviser.lsp")
FILL, CONTINUE = "reviser.fillGap", "reviser.continueHere"
PAUSE = 0.25
"""Seconds between two messages with new suggestions, at least."""
LONGEST = 1_000_000
"""Characters of a document that is checked. A model needs hours for a longer one."""


@dataclass
class Document:
    """An open document, and the suggestions for it."""

    uri: str
    version: int
    lines: Positions
    edited: int = 0
    """Offset of the last change; the paragraphs nearest to it are checked first."""
    parsed: Sequence[Segment] = ()
    """Segments of the text, or of an earlier version of it, from which the next parse starts."""
    words: tuple[str, ...] = ()
    """The dictionary with which the segments were made."""
    changes: tuple[Change, ...] = ()
    """Suggestions, in characters of `checked`."""
    checked: str | None = None
    """The text to which the suggestions belong; they are offered only while it is unchanged."""
    task: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        """The text as the client has it."""
        return self.lines.text

    @property
    def path(self) -> Path:
        """The file's path; for a document that was never saved, one that does not exist."""
        return Path(uris.to_fs_path(self.uri) or "untitled")

    def stop(self) -> None:
        """Cancel the check that is running."""
        if self.task is not None:
            self.task.cancel()


class Server(LanguageServer):
    """The language server of one editor."""

    def __init__(self, load: Callable[[str], Reviser], model: str | None) -> None:
        from reviser import __version__

        super().__init__(NAME, __version__)
        self.documents: dict[str, Document] = {}
        self.editor = Settings()
        """The settings that the editor sent."""
        self._load, self._model = load, model
        self._checker: asyncio.Future[Checker] | None = None
        self._last_error = ""

    @property
    def encoding(self) -> str:
        """The units in which the client counts."""
        return str(getattr(self.server_capabilities.position_encoding, "value", None)
                   or self.server_capabilities.position_encoding or "utf-16")  # fmt: skip

    def settings_of(self, document: Document) -> Settings:
        """Return the settings of a document's project, with the user's own entries."""
        settings = find_settings(document.path, self.editor)
        words = tuple(sorted({*settings.words, *user_entries(WORDS)}))
        ignore = tuple(sorted({*settings.ignore, *user_entries(IGNORED)}))
        return replace(settings, words=words, ignore=ignore)

    def show_error(self, error: Exception) -> None:
        """Show a sentence to the user, unless it was the last one: each change may bring it."""
        if str(error) == self._last_error:
            return
        self._last_error = str(error)
        params = types.ShowMessageParams(types.MessageType.Error, f"Reviser: {error}")
        self.window_show_message(params)

    # -- the model ------------------------------------------------------------------------------

    async def checker(self, settings: Settings) -> Checker:
        """Return the model once it is loaded; the first call starts to load it."""
        if self._checker is None:
            name = self._model or settings.model
            if name is None:
                raise ConfigError(
                    "No model is set. Start the server with: reviser lsp -m MODEL, or write model ="
                    " ... to [tool.reviser] in pyproject.toml."
                )
            self._checker = asyncio.ensure_future(
                asyncio.to_thread(lambda: Checker(self._load(name)))
            )
        loading = self._checker
        try:
            return await asyncio.shield(loading)
        except Exception:
            if self._checker is loading:
                self._checker = None  # the next call loads it again; the reason may be gone
            raise

    # -- checks ---------------------------------------------------------------------------------

    def schedule(self, document: Document, *, delay: float | None = None) -> None:
        """Check a document after a pause; an older check of it is cancelled."""
        document.stop()
        document.task = asyncio.ensure_future(self._check(document, delay))

    async def _check(self, document: Document, delay: float | None) -> None:
        try:
            settings = self.settings_of(document)
            await asyncio.sleep(settings.delay if delay is None else delay)
            if settings.ignores(document.path):
                return
            checker = await self.checker(settings)
            version, lines = document.version, document.lines
            if len(lines.text) > LONGEST:
                self._publish(document, lines, version, [], checker, settings)
                raise DataError(
                    f"{document.path.name!r} has more than {LONGEST:,} characters, so it is not"
                    " checked. Split it, or add it to `ignore-files`."
                )
            known = document.parsed if document.words == settings.words else ()
            document.parsed = await asyncio.to_thread(
                parse_again, lines.text, document.path, settings.words, known
            )
            document.words = settings.words
            found = list(placed(document.parsed))
            missing = [each for each in found if checker.known(each[1], settings) is None]
            missing.sort(key=lambda each: _distance(each[0], each[1], document.edited))
            self._publish(document, lines, version, found, checker, settings)
            is_new, shown_at = False, time.monotonic()
            for _, paragraph in missing:
                changes = await checker.check(paragraph, settings)
                is_new = is_new or bool(changes)
                # Each message has all suggestions of the document, so one per paragraph would be
                # too many for a long document.
                if is_new and time.monotonic() - shown_at > PAUSE:
                    self._publish(document, lines, version, found, checker, settings)
                    is_new, shown_at = False, time.monotonic()
            if is_new:
                self._publish(document, lines, version, found, checker, settings)
        except Exception as error:  # nobody awaits this task
            if not isinstance(error, ReviserError):
                log.exception("The check of %s failed.", document.uri)
            self.show_error(error)

    def _publish(
        self, document: Document, lines: Positions, version: int,
        found: Sequence[tuple[int, Paragraph]], checker: Checker, settings: Settings,
    ) -> None:  # fmt: skip
        """Show what is known about the paragraphs of a document."""
        if document.version != version:
            return
        document.checked = lines.text
        moved = (
            change.moved(start)
            for start, each in found
            for change in checker.known(each, settings) or ()
        )
        document.changes = tuple(
            change for change in moved if shown(lines.text, change) not in settings.ignore
        )
        diagnostics = [diagnostic_of(lines, change) for change in document.changes]
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(document.uri, diagnostics, version)
        )

    # -- quick fixes ----------------------------------------------------------------------------

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return the quick fixes of a range, and one that fixes everything."""
        document = self.documents.get(params.text_document.uri)
        if document is None or document.checked != document.text:
            return []
        lines = document.lines
        span = lines.offset(params.range.start), lines.offset(params.range.end)
        return actions_for(document.uri, document.changes, lines, span, params.context.only)

    # -- commands -------------------------------------------------------------------------------

    def find_document(self, uri: str) -> Document:
        """Return an open document, or refuse the request."""
        if uri not in self.documents:
            raise JsonRpcInvalidParams(f"The document {uri!r} is not open.")
        return self.documents[uri]

    async def write(self, document: Document, task: Task, start: int, end: int) -> str:
        """Run a task on a span of a document and stream its edits into the buffer.

        Typing stops it: then the document is not what the last edit left.
        """
        sent = document.text
        settings = self.settings_of(document)
        model = (await self.checker(settings)).model
        writing = await asyncio.to_thread(model.stream, task)
        before, after = sent[:start], sent[end:]
        edits = aiter(writing)
        is_done = False
        while not is_done:
            try:
                edit = await anext(edits)
                if not (edit.inserted or edit.removed):
                    continue
            except StopAsyncIteration:
                is_done = True
            if document.text != sent:
                writing.cancel()
                return "cancelled"
            text = before + writing.text + after
            if text == sent:
                continue
            applied = await self._apply(document, sent, text)
            if not applied:
                writing.cancel()
                return "refused"
            sent = text
            await self._until(document, sent)
        return "done"

    async def _apply(self, document: Document, old: str, new: str) -> bool:
        """Ask the client to replace the part of a text that differs."""
        low, most = 0, min(len(old), len(new))
        while low < most and old[low] == new[low]:
            low += 1
        same = 0
        while same < most - low and old[-1 - same] == new[-1 - same]:
            same += 1
        span = Positions(old, self.encoding).range(low, len(old) - same)
        edit = types.TextEdit(span, new[low : len(new) - same])
        params = types.ApplyWorkspaceEditParams(
            types.WorkspaceEdit(changes={document.uri: [edit]}), label="Reviser"
        )
        return (await self.workspace_apply_edit_async(params)).applied

    async def _until(self, document: Document, text: str) -> None:
        """Wait until the client has reported its own edit; it may do so after its answer."""
        for _ in range(200):  # two seconds
            if document.text == text:
                return
            await asyncio.sleep(0.01)


def make_server(load: Callable[[str], Reviser], model: str | None = None) -> Server:
    """Return a server whose model the function `load` opens, when the first document needs it."""
    server = Server(load, model)

    @server.feature(types.INITIALIZE)
    def initialize(ls: Server, params: types.InitializeParams) -> None:
        try:
            ls.editor = editor_settings(params.initialization_options)
        except ReviserError as error:
            ls.show_error(error)

    @server.feature(types.INITIALIZED)
    async def initialized(ls: Server, _: types.InitializedParams) -> None:
        if model is not None:
            try:
                await ls.checker(Settings())
            except ReviserError as error:
                ls.show_error(error)

    @server.feature(types.SHUTDOWN)
    def shutdown(ls: Server, _: None) -> None:
        for document in ls.documents.values():
            document.stop()

    _add_documents(server)
    _add_commands(server)
    return server


def _add_documents(server: Server) -> None:
    """Add what an editor tells of its documents, and asks about them."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        lines = Positions(item.text, ls.encoding)
        document = ls.documents[item.uri] = Document(item.uri, item.version, lines)
        ls.schedule(document, delay=0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        document = ls.documents.get(params.text_document.uri)
        if document is not None:
            document.lines, document.edited = apply_changes(document.lines, params.content_changes)
            document.version = params.text_document.version
            ls.schedule(document)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        document = ls.documents.pop(params.text_document.uri, None)
        if document is not None:
            document.stop()
            empty = types.PublishDiagnosticsParams(document.uri, [])
            ls.text_document_publish_diagnostics(empty)

    kinds = [types.CodeActionKind.QuickFix, FIX_ALL]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(kinds))
    def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        return ls.actions(params)


def _add_commands(server: Server) -> None:
    """Add the commands that an editor can offer."""

    @server.command(FILL)
    async def fill_gap(ls: Server, uri: str, position: types.Position) -> str:
        """Fill the nearest gap, marked with {}, in the paragraph at a position."""
        document = ls.find_document(uri)
        start, end = _paragraph_at(document, position)
        block = document.text[start:end]
        if GAP not in block:
            raise JsonRpcInvalidParams(f"This paragraph has no gap. Mark one with {GAP}.")
        at = document.lines.offset(position) - start
        gaps = [n for n in range(len(block)) if block.startswith(GAP, n)]
        gap = min(gaps, key=lambda n: abs(n - at))
        task = Infill(block, [(gap, gap + len(GAP))])
        return await _answer(ls.write(document, task, start, end))

    @server.command(CONTINUE)
    async def continue_here(ls: Server, uri: str, position: types.Position) -> str:
        """Continue the text before a position."""
        document = ls.find_document(uri)
        at = document.lines.offset(position)
        start = prompt_start(document.text, at)
        task = Continue(document.text[start:at])
        return await _answer(ls.write(document, task, start, at))

    @server.command(ADD_WORD)
    def add_word(ls: Server, uri: str, word: str) -> None:
        document = ls.find_document(uri)
        add_user_entry(WORDS, word)
        ls.schedule(document, delay=0)

    @server.command(IGNORE)
    def ignore(ls: Server, uri: str, suggestion: str) -> None:
        document = ls.find_document(uri)
        add_user_entry(IGNORED, suggestion)
        ls.schedule(document, delay=0)


def _distance(start: int, paragraph: Paragraph, position: int) -> int:
    """Return how far a position is from a paragraph, 0 within it."""
    end = start + len(paragraph.text)
    return max(start - position, position - end, 0)


def _paragraph_at(document: Document, position: types.Position) -> tuple[int, int]:
    """Return the span of the paragraph at a position; an empty one on a blank line."""
    at = document.lines.offset(position)
    for each in paragraphs(document.text, []):
        if each.start <= at <= each.start + len(each.text):
            return each.start, each.start + len(each.text)
    return at, at


async def _answer(work: Any) -> str:
    """Return the result of a command; an error of ours is an answer that says what to do."""
    try:
        return str(await work)
    except ReviserError as error:
        raise JsonRpcInvalidParams(str(error)) from error
