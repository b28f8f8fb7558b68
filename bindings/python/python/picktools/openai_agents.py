"""Shows the model of an agent of the OpenAI Agents SDK only the tools that the conversation needs.

>>> import agents
>>> from picktools.openai_agents import narrow
>>> agent = narrow(agents.Agent(name="clerk", tools=[]), k=8)
"""

import asyncio
import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ._narrowing import Narrowing, Offered

if TYPE_CHECKING:
    from agents import Agent, RunContextWrapper, Tool

__all__ = ["narrow"]

A = TypeVar("A", bound="Agent[Any]")

_NOT_NAMES = {"auto", "required", "none"}


def narrow(
    agent: A,
    *,
    k: int = 8,
    access: Mapping[str, Any] | None = None,
    keep: Iterable[str] = (),
    model: Any = "static",
    **options: Any,
) -> A:
    """Returns a copy of an agent that offers its model few of its tools, those of its MCP servers among them.

    What a run is given decides: the user's first message brings the `k` best tools, a later one at most `k` that fit.
    So the list is the same through a run, and only grows from one to the next that continues it. Nothing is remembered,
    and an agent may serve many conversations. Beyond `k` go the tools in `keep`, the one that the agent's own
    `tool_choice` names, those that wait for a search, and those that are no functions, such as `WebSearchTool`. Agents
    that it hands over to are narrowed on their own. `model` is the engine's, `options` are those of `Engine.pick`.

    With `access`, functions that it excludes are never offered, few or not, and whatever fails ends the run. Without,
    all tools are offered where picking fails, and the logger `picktools` tells why.
    """
    narrowing = Narrowing(k, access, keep, model, options)
    kind = type(agent)

    async def get_all_tools(self: "Agent[Any]", run_context: "RunContextWrapper[Any]") -> "list[Tool]":
        offered = [_offered(tool) for tool in await kind.get_all_tools(self, run_context)]
        choice = self.model_settings.tool_choice
        forced = {choice} - _NOT_NAMES if isinstance(choice, str) else set()
        shown = asyncio.to_thread(narrowing.narrow, offered, run_context.turn_input, forced, replay=True)
        return await shown

    narrowed = copy.copy(agent)
    # The SDK asks the agent for its tools before each turn, and `Agent.clone` keeps the class.
    narrowed.__class__ = type(kind.__name__, (kind,), {"get_all_tools": get_all_tools, "__doc__": kind.__doc__})
    return narrowed


def _offered(tool: Any) -> Offered:
    from agents import FunctionTool

    if not isinstance(tool, FunctionTool):
        return Offered(None, None, None, tool)
    return Offered(tool.name, tool.description, tool.params_json_schema, tool, stays=tool.defer_loading)
