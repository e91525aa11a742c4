"""The server: calls of tools in, edits out, on standard input and output.

The server has no editing logic of its own: it turns arguments into `Revise` and `Infill` tasks. The
model starts to load with the server, in a thread; the first call waits for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from reviser.agents.edits import Edits, edits_of_fills, edits_of_revision
from reviser.agents.tools import TOOLS, Arguments, Fill
from reviser.errors import ConfigError, ReviserError, did_you_mean
from reviser.writing.tasks import Infill, Revise

if TYPE_CHECKING:
    from reviser.model import Reviser

_READ_ONLY = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)


class Tools:
    """The tools of one server, with the model that runs them."""

    def __init__(self, load: Callable[[], Reviser], *, writes: bool = True) -> None:
        self._load = load
        self.kinds = {n: kind for n, kind in TOOLS.items() if writes or kind is not Fill}
        """The arguments of each tool; a proofreader fills no gaps."""
        self._model: asyncio.Future[Reviser] | None = None

    def start_loading(self) -> asyncio.Future[Reviser]:
        """Load the model in the background, unless it is loading or loaded."""
        if self._model is None or (self._model.done() and self._model.exception()):
            self._model = asyncio.ensure_future(asyncio.to_thread(self._load))
        return self._model

    async def list(self, *_: Any) -> types.ListToolsResult:
        """Return the tools with their schemas."""
        output = Edits.model_json_schema()
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=arguments.description,
                    input_schema=arguments.model_json_schema(),
                    output_schema=output,
                    annotations=_READ_ONLY,
                )
                for name, arguments in self.kinds.items()
            ]
        )

    async def call(self, _: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run a tool; an error of ours is a result that says what was wrong."""
        try:
            edits = await self.run(params.name, params.arguments or {})
        except ReviserError as error:
            return types.CallToolResult(content=[_text(str(error))], is_error=True)
        return types.CallToolResult(
            content=[_text(edits.model_dump_json())], structured_content=edits.model_dump()
        )

    async def run(self, name: str, values: dict[str, Any]) -> Edits:
        """Return the edits that a tool suggests."""
        arguments = parse_arguments(name, values, self.kinds)
        make: Callable[[], Revise | Infill] = arguments.task
        task = await asyncio.to_thread(make)  # parsers may take a while
        model = await asyncio.shield(self.start_loading())
        config = arguments.config()
        if isinstance(task, Infill):
            return edits_of_fills(task, await model.arun(task, config))
        return edits_of_revision(task, await model.arun(task, config))


def parse_arguments(
    name: str, values: dict[str, Any], kinds: Mapping[str, type[Arguments]] = TOOLS
) -> Arguments:
    """Return the arguments of a tool, or refuse them with one sentence."""
    kind = kinds.get(name)
    if kind is None:
        raise ConfigError(f"`{name}` is not a tool. {did_you_mean(name, kinds)}")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            known = did_you_mean(field, kind.model_fields)
            raise ConfigError(f"`{field}` is not an argument of {name}. {known}") from error
        raise ConfigError(f"The argument `{field}` of {name}: {first['msg']}.") from error


def refusal(error: ValidationError) -> types.JSONRPCError:
    """Return the answer to a message that cannot be read, with the number of its request."""
    problems = error.errors()
    if any(problem["type"] == "json_invalid" for problem in problems):
        code, message = types.PARSE_ERROR, (
            "This message cannot be read as JSON in UTF-8. A text must not contain half of a"
            " surrogate pair, such as \\ud800 alone."
        )  # fmt: skip
    else:
        code, message = types.INVALID_REQUEST, "This message is not a request of JSON-RPC 2.0."
    numbers = (_number(problem["input"]) for problem in problems)
    return types.JSONRPCError(
        jsonrpc="2.0",
        id=next((number for number in numbers if number is not None), None),
        error=types.ErrorData(code=code, message=message),
    )


def _number(message: Any) -> int | str | None:
    """Return the number of a message that was refused, if it has one that can be sent back."""
    # Half of a surrogate pair, which JavaScript sends, is JSON for Python but not for pydantic.
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        number = (json.loads(message) if isinstance(message, str | bytes) else message)["id"]
        if type(number) is int or (type(number) is str and number.encode()):
            return number
    return None


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def make_server(tools: Tools) -> Server[Any]:
    """Return a server of these tools."""
    from reviser import __version__

    return Server("reviser", version=__version__, on_list_tools=tools.list, on_call_tool=tools.call)


async def serve(load: Callable[[], Reviser], *, writes: bool = True) -> None:
    """Serve the tools on standard input and output until the client closes it."""
    tools = Tools(load, writes=writes)
    loading = tools.start_loading()
    server = make_server(tools)
    # The package drops what it cannot read without an answer, so its client would wait for ever.
    send, readable = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with stdio_server() as (read, write), asyncio.TaskGroup() as tasks:

        async def forward() -> None:
            async with send:
                async for message in read:
                    if isinstance(message, ValidationError):
                        await write.send(SessionMessage(refusal(message)))
                    else:
                        await send.send(message)

        tasks.create_task(forward())
        await server.run(readable, write, server.create_initialization_options())
    if loading.done():
        loading.exception()  # a failure was reported with each call
