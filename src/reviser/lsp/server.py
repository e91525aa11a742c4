"""The server: documents of an editor in, diagnostics and edits out.

What is sure is shown at once. The judge loads once, in a thread, and adds to it paragraph by
paragraph; the editor never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from reviser.errors import DataError, ReviserError
from reviser.lsp.checker import Checker, alternatives
from reviser.lsp.documents import (
    Paragraph,
    Positions,
    Segment,
    apply_changes,
    parse_again,
    placed,
)
from reviser.lsp.suggestions import (
    ADD_WORD,
    FIX_ALL,
    IGNORE_RULE,
    NAME,
    actions_for,
    diagnostic_of,
)
from reviser.proofread.settings import (
    Settings,
    add_word,
    editor_settings,
    ignore_rule,
    settings_for,
)
from reviser.writing.changes import Change

if TYPE_CHECKING:
    from reviser.model import Reviser

log = logging.getLogger("reviser.lsp")
Open: TypeAlias = Callable[[str | None, Callable[[str], object]], "Reviser"]
"""Opens a proofreader with the judge that a project names, if it does; warns if it has none."""
PAUSE = 0.25
"""Seconds between two messages with new suggestions, at least."""
LONGEST = 1_000_000
"""Characters of a document that is checked. A judge needs hours for a longer one."""


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

    def __init__(self, open_model: Open) -> None:
        from reviser import __version__

        super().__init__(NAME, __version__)
        self.documents: dict[str, Document] = {}
        self.editor = Settings()
        """The settings that the editor sent."""
        self.checker = Checker()
        self._open = open_model
        self._model: asyncio.Future[Reviser] | None = None
        self._last_error = ""

    @property
    def encoding(self) -> str:
        """The units in which the client counts."""
        return str(getattr(self.server_capabilities.position_encoding, "value", None)
                   or self.server_capabilities.position_encoding or "utf-16")  # fmt: skip

    def settings_of(self, document: Document) -> Settings:
        """Return the settings of a document's project, with the user's own words."""
        return settings_for(document.path, self.editor)

    def show_error(
        self, error: Exception | str, kind: types.MessageType = types.MessageType.Error
    ) -> None:
        """Show a sentence to the user, unless it was the last one: each change may bring it."""
        if str(error) == self._last_error:
            return
        self._last_error = str(error)
        self.window_show_message(types.ShowMessageParams(kind, f"Reviser: {error}"))

    # -- the model ------------------------------------------------------------------------------

    async def model(self, settings: Settings) -> Reviser:
        """Return the proofreader once it is loaded; the first call starts to load it."""
        if self._model is None:
            loop = asyncio.get_running_loop()

            def warn(message: str) -> None:
                loop.call_soon_threadsafe(self.show_error, message, types.MessageType.Warning)

            opening = asyncio.to_thread(self._open, settings.judge, warn)
            self._model = asyncio.ensure_future(opening)
        loading = self._model
        try:
            return await asyncio.shield(loading)
        except Exception:
            if self._model is loading:
                self._model = None  # the next call loads it again; the reason may be gone
            raise

    # -- checks ---------------------------------------------------------------------------------

    def schedule(self, document: Document, *, delay: float | None = None) -> None:
        """Check a document after a pause; an older check of it is cancelled."""
        document.stop()
        document.task = asyncio.ensure_future(self._check(document, delay))

    def schedule_all(self) -> None:
        """Check all documents again, after a change of the settings."""
        for document in self.documents.values():
            self.schedule(document, delay=0)

    async def _check(self, document: Document, delay: float | None) -> None:
        try:
            settings = self.settings_of(document)
            await asyncio.sleep(settings.delay if delay is None else delay)
            if settings.ignores(document.path):
                return
            version, lines = document.version, document.lines
            if len(lines.text) > LONGEST:
                self._publish(document, lines, version, [], settings)
                raise DataError(
                    f"{document.path.name!r} has more than {LONGEST:,} characters, so it is not"
                    " checked. Split it, or add it to `ignore-files`."
                )
            document.parsed = await asyncio.to_thread(
                parse_again, lines.text, document.path, document.parsed
            )
            found = list(placed(document.parsed))
            missing = [each for each in found if not self.checker.is_judged(each[1], settings)]
            missing.sort(key=lambda each: _distance(each[0], each[1], document.edited))
            await asyncio.to_thread(self.checker.find_sure, [each for _, each in missing], settings)
            self._publish(document, lines, version, found, settings)
            if missing:
                await self._judge(document, version, found, [each for _, each in missing], settings)
        except Exception as error:  # nobody awaits this task
            if not isinstance(error, ReviserError):
                log.exception("The check of %s failed.", document.uri)
            self.show_error(error)

    async def _judge(
        self, document: Document, version: int, found: Sequence[tuple[int, Paragraph]],
        missing: Sequence[Paragraph], settings: Settings,
    ) -> None:  # fmt: skip
        """Have the judge read paragraphs one after the other, and show what it finds."""
        lines = document.lines
        model = await self.model(settings)
        if model.proofreading is None or model.proofreading.judge is None:
            return
        words = [len(each.text.split()) for each in missing]
        progress = await self._begin_progress(sum(words))
        is_new, shown_at = False, time.monotonic()
        try:
            for number, paragraph in enumerate(missing, 1):
                is_new = await self.checker.judge(paragraph, settings, model) or is_new
                # Each message has all suggestions of the document, so one per paragraph would be
                # too many for a long document.
                if time.monotonic() - shown_at > PAUSE or number == len(missing):
                    self._report_progress(progress, sum(words[:number]), sum(words))
                    if is_new:
                        self._publish(document, lines, version, found, settings)
                    is_new, shown_at = False, time.monotonic()
        finally:
            if progress:
                self.work_done_progress.end(progress, types.WorkDoneProgressEnd())

    async def _begin_progress(self, words: int) -> str:
        """Begin to show how much is judged; return a token, or nothing if the client cannot."""
        window = self.client_capabilities.window
        if window is None or not window.work_done_progress:
            return ""
        token = str(uuid4())
        await self.work_done_progress.create_async(token)
        begin = types.WorkDoneProgressBegin(
            "Proofreading", message=f"0 of {words:,} words", percentage=0
        )
        self.work_done_progress.begin(token, begin)
        return token

    def _report_progress(self, token: str, done: int, words: int) -> None:
        if token:
            share = 100 * done // max(1, words)
            report = types.WorkDoneProgressReport(
                message=f"{done:,} of {words:,} words", percentage=share
            )
            self.work_done_progress.report(token, report)

    def _publish(
        self, document: Document, lines: Positions, version: int,
        found: Sequence[tuple[int, Paragraph]], settings: Settings,
    ) -> None:  # fmt: skip
        """Show what is known about the paragraphs of a document."""
        if document.version != version:
            return
        document.checked = lines.text
        document.changes = tuple(
            change.moved(start)
            for start, each in found
            for change in self.checker.changes(each, settings)
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
        found, settings = list(placed(document.parsed)), self.settings_of(document)

        def others(change: Change) -> list[str]:
            start, paragraph = found[bisect_right(found, change.start, key=itemgetter(0)) - 1]
            return alternatives(paragraph, change.moved(-start), settings)

        return actions_for(document.uri, document.changes, lines, span, params.context.only, others)

    # -- commands -------------------------------------------------------------------------------

    def find_document(self, uri: str) -> Document:
        """Return an open document, or refuse the request."""
        if uri not in self.documents:
            raise JsonRpcInvalidParams(f"The document {uri!r} is not open.")
        return self.documents[uri]


def make_server(open_model: Open) -> Server:
    """Return a server whose model a function opens, when the first document needs it."""
    server = Server(open_model)

    @server.feature(types.INITIALIZE)
    def initialize(ls: Server, params: types.InitializeParams) -> None:
        try:
            ls.editor = editor_settings(params.initialization_options)
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
    """Add the commands of the quick fixes."""

    @server.command(ADD_WORD)
    def add(ls: Server, uri: str, word: str) -> None:
        """Add a word to the user's dictionary."""
        ls.find_document(uri)
        _refusing(lambda: add_word(word))
        ls.schedule_all()

    @server.command(IGNORE_RULE)
    def ignore(ls: Server, uri: str, rule: str) -> None:
        """Add a rule to those that the settings of a document's project ignore."""
        document = ls.find_document(uri)
        if not uris.to_fs_path(uri):
            raise JsonRpcInvalidParams("Save the document first: its folder has the settings.")
        _refusing(lambda: ignore_rule(document.path, rule))
        ls.schedule_all()


def _refusing(work: Callable[[], object]) -> None:
    """Run a command; an error of ours is an answer that says what to do."""
    try:
        work()
    except ReviserError as error:
        raise JsonRpcInvalidParams(str(error)) from error


def _distance(start: int, paragraph: Paragraph, position: int) -> int:
    """Return how far a position is from a paragraph, 0 within it."""
    end = start + len(paragraph.text)
    return max(start - position, position - end, 0)
