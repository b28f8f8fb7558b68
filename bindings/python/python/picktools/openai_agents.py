"""An adapter for the OpenAI Agents SDK that offers the model only the tools that the conversation needs.

>>> import agents
>>> from picktools.openai_agents import narrow
>>> agent = narrow(agents.Agent(name="clerk", tools=[]), k=8)
"""

import asyncio
import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ._narrowing import Narrowing, OfferedTool

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
    """Returns a copy of an agent that offers its model fewer tools, also of its MCP servers.

    The input of a run decides. The first message of the user adds the `k` best tools, a later one at most `k` fitting
    tools. The list is constant during a run, and only grows in a run that continues it. Nothing is remembered, so an
    agent can serve many conversations. Also offered are the tools in `keep`, the tool that the agent's `tool_choice`
    names, deferred tools, and tools that are not functions, such as `WebSearchTool`. Narrow the agents of handoffs
    separately. `model` is that of `Engine`, `options` are those of `Engine.pick`.

    With `access`, excluded functions are never offered, and every failure ends the run. Without `access`, all tools
    are offered if picking fails, and the logger `picktools` reports the reason.
    """
    narrowing = Narrowing(k, access, keep, model, options)
    kind = type(agent)

    async def get_all_tools(self: "Agent[Any]", run_context: "RunContextWrapper[Any]") -> "list[Tool]":
        offered = [_offered_tool(tool) for tool in await kind.get_all_tools(self, run_context)]
        choice = self.model_settings.tool_choice
        forced = {choice} - _NOT_NAMES if isinstance(choice, str) else set()
        turn_input = run_context.turn_input
        return await asyncio.to_thread(narrowing.narrow, offered, turn_input, forced, replay=True)

    narrowed = copy.copy(agent)
    # The SDK calls `get_all_tools` before each turn, and `Agent.clone` keeps the class.
    narrowed.__class__ = type(kind.__name__, (kind,), {"get_all_tools": get_all_tools, "__doc__": kind.__doc__})
    return narrowed


def _offered_tool(tool: Any) -> OfferedTool:
    from agents import FunctionTool

    if not isinstance(tool, FunctionTool):
        return OfferedTool(None, None, None, tool)
    return OfferedTool(tool.name, tool.description, tool.params_json_schema, tool, stays=tool.defer_loading)
