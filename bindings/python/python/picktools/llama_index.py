"""Tool picking for LlamaIndex agents: `FunctionAgent(tool_retriever=ToolRetriever(tools, k=8), ...)`."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from llama_index.core.objects import ObjectRetriever
from llama_index.core.schema import QueryType
from llama_index.core.tools import BaseTool, FunctionTool

from ._native import Catalog, Engine, Selection

if TYPE_CHECKING:
    from ._native import AccessDict


class ToolRetriever(ObjectRetriever[BaseTool]):
    """Returns the `k` tools that a request needs.

    `access` is the access policy of the caller. Without it, unsafe tools are not returned. `policies` has the policies
    of tools by name: `{"refund": {"allowed_roles": ["finance"], "safe": False}}`. `model` and `options` are those of
    `Engine` and `Engine.pick`.
    """

    def __init__(
        self,
        tools: Iterable[BaseTool | Callable[..., Any]],
        k: int = 8,
        access: "AccessDict | None" = None,
        model: Any = "static",
        policies: dict[str, dict[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        # The base class is not initialised, because this retriever has no node retriever.
        items = [tool if isinstance(tool, BaseTool) else FunctionTool.from_defaults(tool) for tool in tools]
        definitions = [{**_definition(tool), **(policies or {}).get(tool.metadata.get_name(), {})} for tool in items]
        self.k, self.access, self.options = k, access, options
        self._tools = {tool.metadata.get_name(): tool for tool in items}
        self._engine = Engine(Catalog.from_tools(definitions), model)

    def retrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """Returns the tools for a request, best first."""
        query, options = self._query_and_options(str_or_query_bundle)
        return self._selected_tools(self._engine.pick(query, self.k, access=self.access, **options))

    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """Returns the tools for a request, best first."""
        query, options = self._query_and_options(str_or_query_bundle)
        return self._selected_tools(await self._engine.apick(query, self.k, access=self.access, **options))

    def _query_and_options(self, request: QueryType) -> tuple[str, dict[str, Any]]:
        query = request if isinstance(request, str) else request.query_str
        # Before it runs a tool, an agent retrieves it by name, so this tool must be returned.
        named = [tool.id for tool in self._engine.catalog if tool.name == query]
        always = [*self.options.get("always_include", ()), *named]
        return query, {**self.options, "always_include": always}

    def _selected_tools(self, selection: Selection) -> list[BaseTool]:
        return [self._tools[tool.name] for tool in selection.shown]


def _definition(tool: BaseTool) -> dict[str, Any]:
    metadata = tool.metadata
    return {
        "name": metadata.get_name(),
        "description": metadata.description,
        "parameters": metadata.get_parameters_dict(),
    }
