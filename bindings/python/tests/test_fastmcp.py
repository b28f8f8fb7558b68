"""FastMCP servers with searched tools and FastMCP's client."""

import asyncio
from typing import Any

import picktools
import pytest

pytest.importorskip("fastmcp")

from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools.base import Tool
from picktools.fastmcp import PicktoolsSearchTransform

TOOLS = {
    "weigh_parcel": "Tells how heavy a parcel is",
    "print_stamp": "Prints a stamp for a letter or a parcel",
    "track_parcel": "Tells where a parcel is on its way",
    "redirect_parcel": "Sends a parcel to another address than it was meant for",
    "destroy_parcel": "Has a parcel destroyed that nobody wants",
    "insure_parcel": "Insures a parcel against loss",
    "schedule_pickup": "Has letters fetched from the house on a day",
    "find_branch": "Looks for the nearest post office",
    "list_holidays": "Lists the days on which no post comes",
    "quote_price": "Tells what it costs to send something abroad",
    "file_complaint": "Complains about a damaged delivery",
    "hold_mail": "Keeps the post back while somebody is on holiday",
    "rent_box": "Rents a post office box",
    "change_address": "Tells the post that somebody has moved",
    "send_telegram": "Sends a telegram",
    "buy_envelopes": "Buys envelopes in a size",
    "count_letters": "Counts the letters of a month",
    "hire_driver": "Looks for a driver for a tour",
    "refuel_van": "Fills the tank of a van",
    "clean_office": "Has the office cleaned",
}


def post(calls: list[tuple[str, str]]) -> FastMCP:
    server: FastMCP = FastMCP("post")

    def make(name: str) -> Tool:
        def run(item: str) -> str:
            calls.append((name, item))
            return "done"

        meta = {"picktools": {"allowed_roles": ["driver"]}} if name == "refuel_van" else None
        return Tool.from_function(run, name=name, description=TOOLS[name], meta=meta)

    for name in TOOLS:
        server.add_tool(make(name))
    return server


async def found(client: Any, query: str) -> list[str]:
    result = await client.call_tool("search_tools", {"query": query})
    return [tool["name"] for tool in result.structured_content["result"]]


def test_tool_is_found_and_called() -> None:
    calls: list[tuple[str, str]] = []
    transform = PicktoolsSearchTransform(max_results=3, always_visible=["find_branch"])

    async def run() -> None:
        server = post(calls)
        server.add_transform(transform)
        async with Client(server) as client:
            assert [tool.name for tool in await client.list_tools()] == ["find_branch", "search_tools", "call_tool"]
            names = await found(client, "where is my parcel now?")
            assert len(names) <= 3 and "track_parcel" in names
            assert "find_branch" not in await found(client, "the nearest post office")
            await client.call_tool("call_tool", {"name": "track_parcel", "arguments": {"item": "A7"}})

    asyncio.run(run())
    assert calls == [("track_parcel", "A7")]
    assert transform._engine.cache_info().misses == 1


def test_excluded_tool_is_neither_found_nor_called() -> None:
    calls: list[tuple[str, str]] = []

    async def run() -> None:
        server = post(calls)
        hidden = ["destroy_parcel", "refuel_van"]
        access: Any = {"exclude": ["destroy_parcel"]}
        server.add_transform(
            PicktoolsSearchTransform(max_results=20, access=access, always_visible=hidden, options={"min_score": 0.0})
        )
        async with Client(server) as client:
            assert [tool.name for tool in await client.list_tools()] == ["search_tools", "call_tool"]
            names = await found(client, "use destroy_parcel, and refuel_van to fill the tank")
            assert names and not set(hidden) & set(names)
            for name in hidden:
                with pytest.raises(ToolError):
                    await client.call_tool("call_tool", {"name": name, "arguments": {"item": "A7"}})
                with pytest.raises(ToolError):
                    await client.call_tool(name, {"item": "A7"})
            await client.call_tool("track_parcel", {"item": "A7"})

    asyncio.run(run())
    assert calls == [("track_parcel", "A7")]


def test_access_may_depend_on_the_request() -> None:
    roles: list[str] = []

    async def run() -> None:
        server = post([])
        server.add_transform(PicktoolsSearchTransform(access=lambda: {"roles": roles}))
        async with Client(server) as client:
            assert "refuel_van" not in await found(client, "fill the tank of the van")
            roles.append("driver")
            assert "refuel_van" in await found(client, "fill the tank of the van")

    asyncio.run(run())


def test_unknown_tool_name_raises() -> None:
    async def run() -> None:
        server = post([])
        transform = PicktoolsSearchTransform(access={"exclude": ["destroy_parcels"]})
        server.add_transform(transform)
        async with Client(server) as client:
            with pytest.raises(ToolError):
                await found(client, "destroy the parcel")
        with pytest.raises(picktools.PicktoolsError):
            transform._allowed(await post([]).list_tools())

    asyncio.run(run())


def test_metadata_cannot_change_the_identity_of_a_tool() -> None:
    async def run() -> None:
        server = post([])
        meta = {"picktools": {"name": "weigh_parcel", "annotations": {}, "source": "owner"}}
        hints: Any = {"destructiveHint": True}
        server.add_tool(Tool.from_function(lambda: "", name="burn_letter", description="Burns a letter", meta=meta))
        server.add_tool(Tool.from_function(lambda: "", name="burn_box", description="Burns a box", annotations=hints))
        server.add_transform(PicktoolsSearchTransform(max_results=20, access={"exclude": ["burn_letter"]}))
        async with Client(server) as client:
            names = await found(client, "burn_letter and burn_box")
            assert "weigh_parcel" in await found(client, "weigh a parcel")
            assert "burn_letter" not in names and "burn_box" not in names

    asyncio.run(run())


def test_server_without_tools_finds_none() -> None:
    async def run() -> None:
        server: FastMCP = FastMCP("empty")
        server.add_transform(PicktoolsSearchTransform(always_visible=["x"]))
        async with Client(server) as client:
            assert len(await client.list_tools()) == 2
            assert await found(client, "anything") == []

    asyncio.run(run())
