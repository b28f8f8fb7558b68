"""Tools of MCP servers with the official client: `catalog(session)` reads them, `call(session, call)` runs one."""

from typing import Any

from mcp import ClientSession
from mcp.types import CallToolResult, PaginatedRequestParams

from ._native import Call, Catalog
from .errors import ArgumentError, PicktoolsError


async def catalog(session: ClientSession, source: str | None = None, **options: Any) -> Catalog:
    """Reads all tools of a server, page by page.

    `source` is your name for the server. `options` are those of `Catalog.from_mcp`. Invalid tools are omitted and
    reported in the `notices` of the catalog.
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
            raise PicktoolsError(f"the server returned the page {cursor!r} of its tools twice")
        cursors.add(cursor)
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))


async def call(session: ClientSession, call: Call) -> CallToolResult:
    """Runs a call from `Engine.validate` by its tool's name. A call that is not ready is refused."""
    if call.status != "ready" or call.tool is None:
        raise ArgumentError(f"the call of {call.name} is {call.status}, not ready: {call.message}", "call")
    return await session.call_tool(call.tool.name, call.arguments or {})
