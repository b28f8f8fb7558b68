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
    """Shows clients two tools in place of all: one that searches, by picktools, and one that calls what was found.

    `access` says who asks; it may be a function that is called for each request. What it excludes is not found, listed
    or called. Without it nothing is found that is marked unsafe. What a tool may be used for stands in its
    `annotations` and its `meta`: `{"picktools": {"allowed_roles": ["finance"]}}`. `model` and `options` are those of
    `Engine` and `Engine.pick`, `settings` those of FastMCP's own search transforms. Add it after all that rename.
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
        """Puts the two tools, and those that are always visible, in place of all."""
        try:
            get_context()
        except RuntimeError:  # The server starts, looks at some of its tools, and lists none.
            return await super().transform_tools([])
        return await super().transform_tools(self._allowed(tools) if self._always_visible else tools)

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: Any = None) -> Tool | None:
        """Gives a tool to run, unless an access that was given excludes it."""
        tool = await super().get_tool(name, call_next, version=version)
        own = (self._search_tool_name, self._call_tool_name)
        if tool is None or self._access is None or name in own or not is_model_visible(tool):
            return tool
        allowed = await self.get_tool_catalog(get_context(), run_middleware=False)
        return tool if any(other.name == name for other in allowed) else None

    async def get_tool_catalog(self, ctx: Context, *, run_middleware: bool = True) -> Sequence[Tool]:
        return self._allowed(await super().get_tool_catalog(ctx, run_middleware=run_middleware))

    def _make_search_tool(self) -> Tool:
        every = super().get_tool_catalog

        async def search_tools(
            query: Annotated[str, "What is to be done, in plain words"],
            ctx: Context = None,  # type: ignore[assignment]
        ) -> str | list[dict[str, Any]]:
            """Finds tools by what they do; the best come first, as in a list of tools."""
            found: str | list[dict[str, Any]] = await self._render_results(await self._search(await every(ctx), query))
            return found

        return Tool.from_function(fn=search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        k = self._max_results + len(self._always_visible)
        picked = await self._built(tools).apick(query, k, access=self._asks(), **self._options)
        names = [tool.name for tool in picked.shown if tool.name not in self._always_visible][: self._max_results]
        return [tool for name in names for tool in tools if tool.name == name]

    def _allowed(self, tools: Sequence[Tool]) -> list[Tool]:
        engine = self._built(tools)
        ids = [tool.id for tool in engine.catalog]  # What is always included is picked, unless it is excluded.
        names = {pick.tool.name for pick in engine.pick("", len(ids) or 1, access=self._asks(), always_include=ids)}
        return [tool for tool in tools if tool.name in names]

    def _asks(self) -> "AccessDict | None":
        return self._access() if callable(self._access) else self._access

    def _built(self, tools: Sequence[Tool]) -> Engine:
        return self._engine(json.dumps([_definition(tool) for tool in tools], default=str))


def _definition(tool: Tool) -> dict[str, Any]:
    shown = tool.to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "icons"})
    return {**shown, "tags": sorted(tool.tags), **policy(tool.meta)}
