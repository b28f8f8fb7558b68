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
    """Gives the `k` tools that a request needs.

    `access` says who asks; without it nothing is given that is marked unsafe. `policies` says by the name of a tool
    what it may be used for: `{"refund": {"allowed_roles": ["finance"], "safe": False}}`. `model` and `options` are
    those of `Engine` and `Engine.pick`.
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
        # There is no retriever of nodes behind this one.
        made = [tool if isinstance(tool, BaseTool) else FunctionTool.from_defaults(tool) for tool in tools]
        definitions = [{**_definition(tool), **(policies or {}).get(tool.metadata.get_name(), {})} for tool in made]
        self.k, self.access, self.options = k, access, options
        self._tools = {tool.metadata.get_name(): tool for tool in made}
        self._engine = Engine(Catalog.from_tools(definitions), model)

    def retrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """Gives the tools for a request, the best first."""
        query, options = self._asked(str_or_query_bundle)
        return self._given(self._engine.pick(query, self.k, access=self.access, **options))

    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """Gives the tools for a request, the best first."""
        query, options = self._asked(str_or_query_bundle)
        return self._given(await self._engine.apick(query, self.k, access=self.access, **options))

    def _asked(self, asked: QueryType) -> tuple[str, dict[str, Any]]:
        query = asked if isinstance(asked, str) else asked.query_str
        # An agent that is about to run a tool asks for it by its name, and must not get others only.
        named = [tool.id for tool in self._engine.catalog if tool.name == query]
        always = [*self.options.get("always_include", ()), *named]
        return query, {**self.options, "always_include": always}

    def _given(self, selection: Selection) -> list[BaseTool]:
        return [self._tools[tool.name] for tool in selection.shown]


def _definition(tool: BaseTool) -> dict[str, Any]:
    metadata = tool.metadata
    return {
        "name": metadata.get_name(),
        "description": metadata.description,
        "parameters": metadata.get_parameters_dict(),
    }
