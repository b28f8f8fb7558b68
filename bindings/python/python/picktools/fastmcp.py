"""A search transform for FastMCP servers: `server.add_transform(PicktoolsSearchTransform())`."""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from fastmcp.apps.config import is_model_visible
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.server.transforms import GetToolNext
from fastmcp.server.transforms.search.base import BaseSearchTransform
from fastmcp.tools.base import Tool

from ._native import Catalog, Engine
from ._policy import policy

if TYPE_CHECKING:
    from ._native import AccessDict


class PicktoolsSearchTransform(BaseSearchTransform):
    """Shows clients two tools instead of all: one that searches with picktools, and one that calls a tool.

    `access` is the access policy of the caller, or a function that returns it for each request. Excluded tools are not
    found, listed or called. Without `access`, unsafe tools are not found. The policy of a tool is in its `annotations`
    and its `meta`: `{"picktools": {"allowed_roles": ["finance"]}}`. `model` and `options` are those of `Engine` and
    `Engine.pick`, `settings` those of FastMCP's search transforms. Add it after transforms that rename tools.
    """

    def __init__(
        self,
        *,
        access: "AccessDict | Callable[[], AccessDict | None] | None" = None,
        model: Any = "static",
        options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._access, self._options = access, options or {}
        self._engine = lru_cache(8)(lambda text: Engine(Catalog.from_tools(json.loads(text), conflicts="warn"), model))

    async def transform_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Replaces all tools with the two tools and the always visible ones."""
        try:
            get_context()
        except RuntimeError:  # The server is starting, and lists no tools to clients.
            return await super().transform_tools([])
        return await super().transform_tools(self._allowed(tools) if self._always_visible else tools)

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: Any = None) -> Tool | None:
        """Returns a tool to run, unless `access` excludes it."""
        tool = await super().get_tool(name, call_next, version=version)
        own_names = (self._search_tool_name, self._call_tool_name)
        if tool is None or self._access is None or name in own_names or not is_model_visible(tool):
            return tool
        allowed = await self.get_tool_catalog(get_context(), run_middleware=False)
        return tool if any(other.name == name for other in allowed) else None

    async def get_tool_catalog(self, ctx: Context, *, run_middleware: bool = True) -> Sequence[Tool]:
        return self._allowed(await super().get_tool_catalog(ctx, run_middleware=run_middleware))

    def _make_search_tool(self) -> Tool:
        get_all_tools = super().get_tool_catalog

        async def search_tools(
            query: Annotated[str, "The task, in plain words"],
            ctx: Context = None,  # type: ignore[assignment]
        ) -> str | list[dict[str, Any]]:
            """Finds tools by what they do, best first."""
            tools = await self._search(await get_all_tools(ctx), query)
            results: str | list[dict[str, Any]] = await self._render_results(tools)
            return results

        return Tool.from_function(fn=search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        k = self._max_results + len(self._always_visible)
        selection = await self._engine_for(tools).apick(query, k, access=self._caller_access(), **self._options)
        names = [tool.name for tool in selection.shown if tool.name not in self._always_visible][: self._max_results]
        return [tool for name in names for tool in tools if tool.name == name]

    def _allowed(self, tools: Sequence[Tool]) -> list[Tool]:
        engine = self._engine_for(tools)
        # A tool in `always_include` is picked, unless it is excluded.
        ids = [tool.id for tool in engine.catalog]
        selection = engine.pick("", len(ids) or 1, access=self._caller_access(), always_include=ids)
        names = {pick.tool.name for pick in selection}
        return [tool for tool in tools if tool.name in names]

    def _caller_access(self) -> "AccessDict | None":
        return self._access() if callable(self._access) else self._access

    def _engine_for(self, tools: Sequence[Tool]) -> Engine:
        return self._engine(json.dumps([_definition(tool) for tool in tools], default=str))


def _definition(tool: Tool) -> dict[str, Any]:
    definition = tool.to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return {**definition, "tags": sorted(tool.tags), **policy(tool.meta)}
