"""The MCP server, with the package's own client over stdio, and what its edits promise."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters

from reviser.agents.server import Tools, parse_arguments
from reviser.core.actions import ActionVocab
from reviser.core.codec import Codec
from reviser.errors import ConfigError
from reviser.markup import locked_spans
from reviser.model import Reviser, load
from reviser.models.editing import Editing
from support import fuzz, small_tokenizers
from support.correcting import FILL
from support.random_engine import RandomEngine

TESTS = Path(__file__).parents[1]
PAGE = "# A page\n\n😀 It is teh end of Teh teh.\n\n```\nteh code\n```\n\nSee `teh` and teh rest.\n"
CORRECTING = ("-m", "support.correcting_command")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def applied(text: str, found: dict[str, Any]) -> str:
    """Apply edits as the guide tells a client to, with all of its checks."""
    assert sha256(text) == found["text_sha256"]
    result, kept, at = text, [], 0
    for edit in found["edits"]:
        assert text[edit["start"] : edit["end"]] == edit["before"]
        assert text[: edit["start"]].count("\n") + 1 == edit["line"]
        # An edit may begin or end where locked text does, but holds none of it.
        assert not any(low < edit["end"] and edit["start"] < high for low, high in found["locked"])
        kept.append(text[at : edit["start"]])
        at = edit["end"]
    assert sha256("".join([*kept, text[at:]])) == found["unchanged_sha256"]
    for edit in reversed(found["edits"]):
        result = result[: edit["start"]] + edit["after"] + result[edit["end"] :]
    assert sha256(result) == found["result_sha256"]
    return result


def with_client(
    work: Callable[[Client], Awaitable[None]],
    *words: str,
    folder: Path | None = None,
    **variables: str,
) -> None:
    """Run a test with a server in a process of its own."""

    async def run() -> None:
        path = os.pathsep.join(filter(None, [str(TESTS), *sys.path]))
        own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", **variables}
        server = StdioServerParameters(
            command=sys.executable, args=list(words), env=own, cwd=folder
        )
        async with Client(server) as client:
            await work(client)

    asyncio.run(asyncio.wait_for(run(), 240))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def error(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    [content] = result.content
    assert content.type == "text"
    return content.text


def test_the_tools_return_edits_and_refuse_wrong_arguments_with_a_sentence() -> None:
    async def work(client: Client) -> None:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert [*tools] == ["proofread", "infill", "revise_selection"]
        assert tools["proofread"].input_schema["additionalProperties"] is False
        assert "text_sha256" in str(tools["infill"].output_schema)

        found = await call(client, "proofread", text=PAGE, file_name="a.md", locked=["Teh teh"])
        wanted = PAGE.replace("is teh", "is the").replace("and teh", "and the")
        assert applied(PAGE, found) == wanted
        assert [edit["line"] for edit in found["edits"]] == [3, 9]
        assert found["is_complete"]
        assert PAGE not in str(found)
        plain = await call(client, "proofread", text=PAGE)
        assert applied(PAGE, plain) == PAGE.replace("teh", "the")

        text = "Ben was a {} boy. He had a {} dog."
        found = await call(client, "infill", text=text)
        first, second = text.index("{}"), text.rindex("{}")
        assert [edit["start"] for edit in found["edits"]] == [first, second]
        assert applied(text, found).startswith(f"Ben was a {FILL}")
        text = "def f(): return {}  # a teh"
        found = await call(client, "infill", text=text, spans=[[24, 27]])
        assert applied(text, found) == f"def f(): return {{}}  # a {FILL}"

        text = "teh one, teh two, teh three"
        for part in ({"selection": "teh two"}, {"start": 9, "end": 16}):
            found = await call(client, "revise_selection", text=text, **part)
            assert applied(text, found) == "teh one, the two, teh three"

        wrong = {
            "`lock` is not an argument of proofread. Did you mean `locked`?": {"lock": ["a"]},
            "The argument `locked` of proofread: Input should be a valid list.": {"locked": 3},
            "locked holds 'b', which does not occur in the draft.": {"locked": ["b"]},
            "precision is 2.0; it must be a number from 0 to 1.": {"precision": 2},
        }
        for sentence, arguments in wrong.items():
            assert await error(client, "proofread", text="a", **arguments) == sentence
        assert "Mark one or more with {}" in await error(client, "infill", text="a")
        assert "`proofred` is not a tool. Did you mean `proofread`?" in await error(
            client, "proofred", text="a"
        )

    with_client(work, *CORRECTING, "mcp", "-m", "test", REVISER_TEST_LOADING="1")


def test_without_a_model_the_tools_proofread_with_a_reason_for_each_edit(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        tools = [each.name for each in (await client.list_tools()).tools]
        assert tools == ["proofread", "revise_selection"]
        found = await call(client, "proofread", text="It is a end of teh page.")
        assert applied("It is a end of teh page.", found) == "It is a end of the page."
        [edit] = found["edits"]
        assert (edit["rule"], edit["category"]) == ("misspelling", "spelling")
        assert edit["message"] == "It is spelt “the”."
        found = await call(client, "proofread", text="teh", min_confidence=0.9)
        assert found["edits"] == []
        found = await call(client, "revise_selection", text="teh teh", start=0, end=3)
        assert applied("teh teh", found) == "the teh"
        assert "`infill` is not a tool." in await error(client, "infill", text="{}")

    (tmp_path / ".reviser.toml").write_text('ignore = ["a-an"]\n')
    with_client(work, "-m", "support.judging", "mcp", folder=tmp_path)


def test_a_model_that_cannot_be_opened_is_reported_with_each_call() -> None:
    async def work(client: Client) -> None:
        for _ in range(2):
            assert await error(client, "proofread", text="a") == (
                "There is no model folder 'missing'."
            )

    with_client(work, *CORRECTING, "mcp", "-m", "missing")


def test_a_message_that_cannot_be_read_is_answered() -> None:
    def request(number: Any, arguments: dict[str, Any]) -> str:
        params = {"name": "proofread", "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return json.dumps(message)

    hello = {"protocolVersion": "2025-06-18", "capabilities": {},
             "clientInfo": {"name": "a", "version": "1"}}  # fmt: skip
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        request(1, {"text": "teh", "file_name": "\ud800.md"}),
        request("two", {"text": "\udc00"}),
        request(True, {"text": "\ud800"}),
        request("\u00e9", {"text": "\ud800"}),
        '{"jsonrpc": "2.0", "id": 6, "method": 3}',
        '{"id": 7, "method": "tools/list"}',
        '"words"',
        '{"jsonrpc": "2.0", "id": 4',
        "[" * 5000,
        request(5, {"text": "teh"}),
    ]
    own = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), *sys.path]))}
    command = [sys.executable, *CORRECTING, "mcp", "-m", "test"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=own, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in lines]
        process.stdin.close()
    assert process.returncode == 0
    found = [(each["id"], each.get("error", {}).get("code")) for each in answers]
    refused = [
        (1, -32700), ("two", -32700), ("\u00e9", -32700), (6, -32600), (7, -32600), (None, -32600),
        *[(None, -32700)] * 3,
    ]  # fmt: skip
    assert sorted(found, key=str) == sorted([(0, None), *refused, (5, None)], key=str)


def test_the_command_runs_a_model_folder(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = fuzz.folder_of_a_fresh_model(
        tmp_path / "tiny", tokenizer=small_tokenizers.byte_level()
    )
    Editing().save(folder)
    text = "The cat sat on teh mat."

    async def work(client: Client) -> None:
        found = await call(client, "proofread", text=text, locked=["cat"])
        with load(folder) as model:
            assert applied(text, found) == model.revise(text, locked=["cat"]).text

    with_client(work, "-m", "reviser", "mcp", "-m", str(folder))


# -- what the edits promise -----------------------------------------------------------------------

TOKENIZER = small_tokenizers.byte_level()
VOCAB = ActionVocab.from_tokenizer(TOKENIZER, operators=("delete", "replace"), max_move=8)
WORDS = ["teh ", "cat ", "`code` ", "😀", "*x* ", "\n\n", "[a](http://a.b) ", "é", "# ", "\r\n"]


def scribbler() -> Reviser:
    """A model that edits at random wherever it may."""
    return Reviser(RandomEngine(VOCAB), Codec(TOKENIZER), editing=Editing())


@given(st.lists(st.sampled_from(WORDS), max_size=30).map("".join), st.data())
@settings(deadline=None, max_examples=30)
def test_applying_the_edits_gives_what_revise_returns_and_nothing_locked_changes(
    text: str, data: st.DataObject
) -> None:
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    locks = [word for word in ("cat", "é") if word in text]
    arguments = {"text": text, "file_name": "a.md", "locked": locks}
    spans = [*locks, *locked_spans(text, "markdown")]
    for tool, more, outside in (
        ("proofread", {}, []),
        ("revise_selection", {"start": start, "end": end}, [(0, start), (end, len(text))]),
    ):
        found = asyncio.run(Tools(scribbler).run(tool, arguments | more)).model_dump()
        with scribbler() as model:
            wanted = model.revise(text, locked=[*spans, *outside])
        assert applied(text, found) == wanted.text
        if tool == "revise_selection":
            assert wanted.text.startswith(text[:start])
            assert wanted.text.endswith(text[end:])


@given(st.lists(st.sampled_from(["{}", "a ", "teh", "😀\n"]), max_size=8).map("".join))
@settings(deadline=None, max_examples=10)
def test_applying_the_fills_gives_what_infill_returns(text: str) -> None:
    text += "{}"
    found = asyncio.run(Tools(scribbler).run("infill", {"text": text, "seed": 3})).model_dump()
    with scribbler() as model:
        assert applied(text, found) == model.infill(text, seed=3).text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Give `selection`, or `start` and `end`"),
        ({"start": 1}, "Give `selection`, or `start` and `end`"),
        ({"selection": "a", "start": 1, "end": 2}, "Give `selection`, or `start` and `end`"),
        ({"start": 2, "end": 9}, "The selection 2..9 is not within the text's 7 characters"),
        ({"selection": "x"}, "does not occur in the text"),
        ({"selection": "ana"}, "occurs more than once"),
    ],
)
def test_a_selection_must_be_clear(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_arguments("revise_selection", {"text": "bananas", **arguments}).task()
