"""A language client with one buffer, for a server in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from reviser.lsp.documents import Positions

TESTS = Path(__file__).parents[1]


class Editor:
    """A client with one buffer, which it changes as an editor would."""

    def __init__(self, client: LanguageClient, path: Path) -> None:
        self.client = client
        self.uri = path.as_uri()
        self.text, self.version = "", 0
        self.diagnostics: list[types.Diagnostic] = []
        self.shown_version = 0
        """Version of the buffer to which the diagnostics belong."""
        self.shown_count = 0
        """How often the server has sent diagnostics."""
        self.messages: list[str] = []
        self.progress: list[Any] = []
        """The values of `$/progress`, from the first one on."""
        self.published = asyncio.Condition()
        self.applied: list[str] = []
        self.refuses = False
        self.titles: list[str] = []
        """Titles of the actions that were offered last."""

    async def open(self, text: str) -> None:
        self.text, self.version = text, 1
        item = types.TextDocumentItem(self.uri, "markdown", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, start: int, end: int, text: str) -> None:
        """Replace a span of the buffer and report it."""
        span = Positions(self.text).range(start, end)
        self.text = self.text[:start] + text + self.text[end:]
        self.version += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, self.uri),
                [types.TextDocumentContentChangePartial(span, text)],
            )
        )

    def apply(self, edits: list[types.TextEdit]) -> None:
        positions = Positions(self.text)
        spans = [(positions.offset(e.range.start), positions.offset(e.range.end), e.new_text)
                 for e in edits]  # fmt: skip
        for start, end, text in sorted(spans, reverse=True):
            self.change(start, end, text)

    async def until(self, test: Callable[[Editor], bool], seconds: float = 60) -> None:
        async with self.published:
            await asyncio.wait_for(self.published.wait_for(lambda: test(self)), seconds)

    async def actions(self, only: list[Any] | None = None) -> list[types.CodeAction]:
        whole = Positions(self.text).range(0, len(self.text))
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(self.uri), whole,
                types.CodeActionContext([], only=only),
            )
        )  # fmt: skip
        self.titles = [each.title for each in found or []]
        # This client's library takes an action with a command for a bare command.
        return [each for each in found or [] if isinstance(each, types.CodeAction)]

    async def command(self, name: str, *arguments: Any) -> Any:
        return await self.client.workspace_execute_command_async(
            types.ExecuteCommandParams(name, [self.uri, *arguments])
        )

    def marked(self) -> list[str]:
        positions = Positions(self.text)
        return [
            self.text[positions.offset(d.range.start) : positions.offset(d.range.end)]
            for d in self.diagnostics
        ]


def with_editor(
    work: Callable[[Editor], Awaitable[None]],
    path: Path,
    *arguments: str,
    seconds: float = 240,
    options: object = None,
    **environment: str,
) -> None:
    """Run a test with a server in a process of its own."""

    async def run() -> None:
        words = ("support.judging", "lsp", *arguments)
        async with editing(path, *words, options=options, **environment) as editor:
            await work(editor)

    asyncio.run(asyncio.wait_for(run(), seconds))


@asynccontextmanager
async def editing(
    path: Path, *command: str, options: object = None, **environment: str
) -> AsyncIterator[Editor]:
    """Start `python -m` with a command that is a language server; yield an editor for a file."""
    client = LanguageClient("test", "1")
    editor = Editor(client, path)

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    async def publish(params: types.PublishDiagnosticsParams) -> None:
        if params.uri != editor.uri:
            return
        async with editor.published:
            editor.diagnostics = list(params.diagnostics)
            editor.shown_version = params.version or 0
            editor.shown_count += 1
            editor.published.notify_all()

    @client.feature(types.WINDOW_SHOW_MESSAGE)
    async def show(params: types.ShowMessageParams) -> None:
        async with editor.published:
            editor.messages.append(params.message)
            editor.published.notify_all()

    @client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
    def create(_: types.WorkDoneProgressCreateParams) -> None:
        """Agree to show how far the server is."""

    @client.feature(types.PROGRESS)
    async def progress(params: types.ProgressParams) -> None:
        async with editor.published:
            editor.progress.append(params.value)
            editor.published.notify_all()

    @client.feature(types.WORKSPACE_APPLY_EDIT)
    def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        if editor.refuses:
            return types.ApplyWorkspaceEditResult(applied=False)
        for edits in (params.edit.changes or {}).values():
            editor.apply(list(edits))
        editor.applied.append(editor.text)
        return types.ApplyWorkspaceEditResult(applied=True)

    path_of_modules = os.pathsep.join(filter(None, [str(TESTS), *sys.path]))
    own = {"OMP_NUM_THREADS": "1", "XDG_CONFIG_HOME": str(path.parent / "config")}
    more = {"PYTHONPATH": path_of_modules, **own, **environment}
    await client.start_io(sys.executable, "-m", *command, env={**os.environ, **more})
    try:
        await client.initialize_async(
            types.InitializeParams(
                types.ClientCapabilities(
                    window=types.WindowClientCapabilities(work_done_progress=True)
                ),
                initialization_options=options,
            )
        )
        client.initialized(types.InitializedParams())
        yield editor
        await client.shutdown_async(None)
        client.exit(None)
    except BaseException:
        assert client._server is not None
        client._server.kill()  # a server that is not asked to exit waits for the next request
        raise
    finally:
        await client.stop()
