"""Tools of MCP servers, by the official client: `catalog(session)` reads them, `call(session, call)` runs one."""

from typing import Any

from mcp import ClientSession
from mcp.types import CallToolResult, PaginatedRequestParams

from ._native import Call, Catalog
from .errors import ArgumentError, PicktoolsError


async def catalog(session: ClientSession, source: str | None = None, **options: Any) -> Catalog:
    """Reads all tools of a server, page by page.

    `source` is what you call the server; what it calls itself does not count. `options` are those of
    `Catalog.from_mcp`: a tool that cannot be read is left out, and stands in the catalog's `notices`.
    """
    tools: list[dict[str, Any]] = []
    cursors: set[str] = set()
    page = await session.list_tools()
    while True:
        tools.extend(tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return Catalog.from_mcp(tools, source=source, **options)
        if cursor in cursors:
            raise PicktoolsError(f"the server gives the page {cursor!r} of its tools twice")
        cursors.add(cursor)
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))


async def call(session: ClientSession, call: Call) -> CallToolResult:
    """Runs a call that is ready, as `Engine.validate` says, by its tool's own name; any other is refused."""
    if call.status != "ready" or call.tool is None:
        raise ArgumentError(f"the call of {call.name} is not ready but {call.status}: {call.message}", "call")
    return await session.call_tool(call.tool.name, call.arguments or {})
