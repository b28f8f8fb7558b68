"""Tool picking for LangChain agents: `create_agent(model, tools, middleware=[ToolPicker(k=8)])`."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse, ModelRequest
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command
from typing_extensions import NotRequired

from ._native import Catalog, Engine
from ._policy import HINTS, policy


class ToolPickerState(AgentState[Any]):
    """The state of an agent, with the names of the tools offered in the thread."""

    picktools_offered: NotRequired[Annotated[list[str], PrivateStateAttr]]


class ToolPicker(AgentMiddleware[ToolPickerState, Any, Any]):
    """Offers the model the `k` tools that the last message of the user needs.

    Tools that were offered earlier in the thread stay in their places, so the provider's prompt cache stays valid. The
    tools in `keep` are always offered, and so are provider tools (dictionaries). `access` is the access policy of the
    caller, or a function that returns it for a request. Without it, unsafe tools are not offered. The policy of a tool
    is in its `metadata`: `{"picktools": {"allowed_roles": ["finance"], "safe": False}}`, or MCP's hints. `model` and
    `options` are those of `Engine` and `Engine.pick`.
    """

    state_schema = ToolPickerState

    def __init__(
        self,
        k: int = 8,
        access: Mapping[str, Any] | Callable[[ModelRequest[Any]], Any] | None = None,
        keep: Sequence[str] = (),
        model: Any = "static",
        **options: Any,
    ) -> None:
        super().__init__()
        self.k, self.access, self.keep, self.options = k, access, list(keep), options
        self._engine = lru_cache(maxsize=8)(lambda text: Engine(Catalog.from_tools(json.loads(text)), model))

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Narrows the tools of a call of the model."""
        narrowed, update = self._narrow(request)
        return ExtendedModelResponse(handler(narrowed), update)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Narrows the tools of a call of the model."""
        narrowed, update = await asyncio.to_thread(self._narrow, request)
        return ExtendedModelResponse(await handler(narrowed), update)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Runs a tool that was offered, and refuses others."""
        return _refusal(request) or handler(request)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Runs a tool that was offered, and refuses others."""
        return _refusal(request) or await handler(request)

    def _narrow(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], Command[Any] | None]:
        tools = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
        if not tools:
            return request, None
        engine = self._engine(json.dumps([_definition(tool) for tool in tools.values()], default=str))
        access: Any = self.access(request) if callable(self.access) else self.access
        human = [message for message in request.messages if isinstance(message, HumanMessage)]
        query = [{"role": "user", "content": str(message.text)} for message in human]
        answers = [message for message in request.messages if isinstance(message, AIMessage)]
        called = [call["name"] for answer in answers for call in answer.tool_calls]
        previous: Any = request.state.get("picktools_offered") or []
        fixed = list(dict.fromkeys([*self.keep, *(name for name in previous if name in tools)]))
        # A tool in `always_include` is picked, unless it is excluded.
        allowed = engine.pick(query, len(fixed) or 1, access=access, always_include=fixed)
        offered = [name for name in fixed if name in {pick.tool.name for pick in allowed}]
        selection = engine.pick(query, self.k, access=access, **{"in_use": called, **self.options})
        offered += [tool.name for tool in selection.shown if tool.name not in offered]
        provider_tools = [tool for tool in request.tools if isinstance(tool, dict)]
        shown: list[Any] = [tools[name] for name in offered] + provider_tools
        return request.override(tools=shown), Command(update={"picktools_offered": offered})


def _refusal(request: Any) -> ToolMessage | None:
    call, offered = request.tool_call, request.state.get("picktools_offered") or ()
    text = f"{call['name']} was not offered; call one of the offered tools"
    refusal = ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")
    return None if request.tool is None or call["name"] in offered else refusal


def _definition(tool: BaseTool) -> dict[str, Any]:
    metadata = tool.metadata or {}
    hints = {hint: metadata[hint] for hint in HINTS if isinstance(metadata.get(hint), bool)}
    return {**convert_to_openai_tool(tool), "annotations": hints, **policy(metadata)}
