"""An adapter for Pydantic AI that offers the model only the tools that the conversation needs.

>>> from pydantic_ai import Agent
>>> from pydantic_ai.capabilities import PrepareTools
>>> from picktools.pydantic_ai import prepare
>>> agent = Agent("openai:gpt-5", capabilities=[PrepareTools(prepare(k=8))])
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._narrowing import Narrowing, OfferedTool

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition

__all__ = ["prepare"]


def prepare(
    *,
    k: int = 8,
    access: Mapping[str, Any] | None = None,
    keep: Iterable[str] = (),
    model: Any = "static",
    **options: Any,
) -> "Callable[[RunContext[Any], list[ToolDefinition]], Awaitable[list[ToolDefinition]]]":
    """Returns a function that prepares the tools of each step, for `PrepareTools` and for `prepared` of a toolset.

    The conversation decides. The first message of the user adds the `k` best tools, a later one at most `k` fitting
    tools. The list is constant during a run, and only grows in a run that continues it. Nothing is remembered, so the
    function can serve many agents. Also offered are the tools in `keep`, deferred tools, and tools of the framework.
    `model` is that of `Engine`, `options` are those of `Engine.pick`.

    With `access`, excluded tools are never offered, and every failure ends the run. Without `access`, all tools are
    offered if picking fails, and the logger `picktools` reports the reason.
    """
    narrowing = Narrowing(k, access, keep, model, options)

    async def prepare_tools(ctx: "RunContext[Any]", tool_defs: "list[ToolDefinition]") -> "list[ToolDefinition]":
        offered = [_offered_tool(tool) for tool in tool_defs]
        return await asyncio.to_thread(narrowing.narrow, offered, _conversation(ctx), replay=True)

    return prepare_tools


def _offered_tool(tool: "ToolDefinition") -> OfferedTool:
    # Tools of the framework, such as its search, have a kind.
    stays = tool.defer_loading or tool.tool_kind is not None
    return OfferedTool(tool.name, tool.description, tool.parameters_json_schema, tool, stays)


def _conversation(ctx: "RunContext[Any]") -> list[dict[str, Any]]:
    """Returns the messages of the user and the tool calls. A prompt that is not among the messages is added."""
    conversation: list[dict[str, Any]] = []
    for message in ctx.messages:
        for part in message.parts:
            if part.part_kind == "user-prompt":
                conversation.append({"role": "user", "content": _text(part.content)})
            elif part.part_kind == "tool-call":
                function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
                call = {"id": part.tool_call_id, "type": "function", "function": function}
                conversation.append({"role": "assistant", "content": None, "tool_calls": [call]})
    prompt = {"role": "user", "content": _text(ctx.prompt)}
    return conversation if prompt in conversation else [*conversation, prompt]


def _text(content: Any) -> str:
    """Returns the text of a prompt, without other parts such as images."""
    parts = [content] if isinstance(content, str) else content or ()
    texts = (part if isinstance(part, str) else getattr(part, "content", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
