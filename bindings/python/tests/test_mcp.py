"""The official MCP client with a server in the same process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import picktools
import pytest

pytest.importorskip("mcp")

from mcp import ClientSession
from mcp.server import Server
from mcp.shared.memory import create_client_server_memory_streams
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool
from picktools import mcp as adapter

PAGE = 6
TOOLS = {
    "list_shelves": "Lists the shelves of the library",
    "lend_book": "Lends a book to a reader until a date",
    "return_book": "Takes a book back from a reader",
    "reserve_book": "Keeps a book for a reader who comes later",
    "search_titles": "Looks for books by words of their titles",
    "search_authors": "Looks for authors by their names",
    "add_reader": "Registers a new reader with name and address",
    "remove_reader": "Deletes a reader and all that is known of them",
    "send_reminder": "Reminds a reader of books that are overdue",
    "charge_fee": "Charges a reader for books that are overdue",
    "open_hours": "Tells when the library is open",
    "book_reading_room": "Reserves a desk in the reading room",
    "order_purchase": "Orders a new book from a shop",
    "scan_page": "Scans a page of a book into a picture",
    "print_label": "Prints the label for the back of a book",
    "repair_binding": "Sends a book with a broken binding to be mended",
    "count_loans": "Counts how many books were lent in a month",
    "suggest_reading": "Suggests books that are like one that was liked",
    "lost_and_found": "Looks for things that readers left behind",
    "weather_outside": "Tells whether it rains before the door",
}


def library(calls: list[tuple[str, Any]], is_endless: bool = False) -> Server[Any]:
    properties = {"reader": {"type": "string"}, "item": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["item"]}
    tools = [Tool(name=name, description=text, input_schema=schema) for name, text in TOOLS.items()]

    async def on_list_tools(context: Any, params: Any) -> ListToolsResult:
        start = int(params.cursor) if params is not None and params.cursor else 0
        end = start + PAGE
        following = "6" if is_endless else str(end) if end < len(tools) else None
        return ListToolsResult(tools=tools[start:end], next_cursor=following)

    async def on_call_tool(context: Any, params: Any) -> CallToolResult:
        calls.append((params.name, params.arguments))
        return CallToolResult(content=[TextContent(type="text", text="done")])

    return Server("library", on_list_tools=on_list_tools, on_call_tool=on_call_tool)


@asynccontextmanager
async def connected(server: Server[Any]) -> AsyncIterator[ClientSession]:
    async with create_client_server_memory_streams() as (client, (reading, writing)):
        serving = asyncio.create_task(server.run(reading, writing, server.create_initialization_options()))
        async with ClientSession(*client) as session:
            await session.initialize()
            yield session
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def test_picked_tool_is_called() -> None:
    calls: list[tuple[str, Any]] = []

    async def run() -> None:
        async with connected(library(calls)) as session:
            catalog = await adapter.catalog(session, source="library")
            assert [tool.name for tool in catalog] == list(TOOLS)
            assert {tool.source for tool in catalog} == {"library"}
            access: Any = {"exclude": ["remove_reader"]}
            engine = picktools.Engine(catalog)
            selection = engine.pick("lend the book Momo to the reader Ada", 3, access=access)
            translation = engine.translate("openai", selection)
            offered = [tool["function"]["name"] for tool in translation.tools]
            name = next(name for name in offered if "lend_book" in name)
            assert len(offered) <= 3
            asked = {"id": "1", "type": "function", "function": {"name": name, "arguments": '{"item": "Momo"}'}}
            answer = {"choices": [{"message": {"role": "assistant", "tool_calls": [asked]}}]}
            [call] = engine.validate(answer, translation=translation, access=access)
            result = await adapter.call(session, call)
            assert result.content[0].text == "done"  # type: ignore[union-attr]

    asyncio.run(run())
    assert calls == [("lend_book", {"item": "Momo"})]


def test_excluded_tool_is_neither_offered_nor_called() -> None:
    calls: list[tuple[str, Any]] = []

    async def run() -> None:
        async with connected(library(calls)) as session:
            engine = picktools.Engine(await adapter.catalog(session))
            selection = engine.pick("use remove_reader to delete Ada", 20, access={"exclude": ["remove_reader"]})
            assert "remove_reader" not in [tool.name for tool in selection.shown]
            asked = {"name": "remove_reader", "arguments": {"item": "Ada"}}
            [call] = engine.validate([asked], access={"exclude": ["remove_reader"]})
            with pytest.raises(picktools.ArgumentError, match="remove_reader"):
                await adapter.call(session, call)
            [call] = engine.validate([{"name": "lend_book", "arguments": {}}])
            with pytest.raises(picktools.ArgumentError, match="lend_book"):
                await adapter.call(session, call)

    asyncio.run(run())
    assert not calls


def test_repeated_page_raises() -> None:
    async def run() -> None:
        async with connected(library([], is_endless=True)) as session:
            with pytest.raises(picktools.PicktoolsError, match="twice"):
                await adapter.catalog(session)

    asyncio.run(run())
