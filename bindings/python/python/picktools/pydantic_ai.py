"""Shows the model of an agent of Pydantic AI only the tools that the conversation needs.

>>> from pydantic_ai import Agent
>>> from pydantic_ai.capabilities import PrepareTools
>>> from picktools.pydantic_ai import prepare
>>> agent = Agent("openai:gpt-5", capabilities=[PrepareTools(prepare(k=8))])
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._narrowing import Narrowing, Offered

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
    """Returns a function that prepares the tools of each step: for `PrepareTools`, and for `prepared` of a toolset.

    The conversation decides: the user's first message brings the `k` best tools, a later one at most `k` that fit. So
    the list is the same through a run, and only grows from one to the next that continues it. Nothing is remembered,
    and the function may serve many agents. Beyond `k` go the tools in `keep`, those that wait for a search, and those
    of the framework's own. `model` is the engine's, `options` are those of `Engine.pick`.

    With `access`, tools that it excludes are never offered, few or not, and whatever fails ends the run. Without, all
    tools are offered where picking fails, and the logger `picktools` tells why.
    """
    narrowing = Narrowing(k, access, keep, model, options)

    async def prepare_tools(ctx: "RunContext[Any]", tool_defs: "list[ToolDefinition]") -> "list[ToolDefinition]":
        offered = [_offered(tool) for tool in tool_defs]
        return await asyncio.to_thread(narrowing.narrow, offered, _said(ctx), replay=True)

    return prepare_tools


def _offered(tool: "ToolDefinition") -> Offered:
    # A kind marks what the framework itself brings, such as its search.
    stays = tool.defer_loading or tool.tool_kind is not None
    return Offered(tool.name, tool.description, tool.parameters_json_schema, tool, stays)


def _said(ctx: "RunContext[Any]") -> list[dict[str, Any]]:
    """The conversation: what the user said and which tools were called. A prompt that is not in it yet comes last."""
    said: list[dict[str, Any]] = []
    for message in ctx.messages:
        for part in message.parts:
            if part.part_kind == "user-prompt":
                said.append({"role": "user", "content": _text(part.content)})
            elif part.part_kind == "tool-call":
                function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
                call = {"id": part.tool_call_id, "type": "function", "function": function}
                said.append({"role": "assistant", "content": None, "tool_calls": [call]})
    prompt = {"role": "user", "content": _text(ctx.prompt)}
    return said if prompt in said else [*said, prompt]


def _text(content: Any) -> str:
    """The text of a prompt, whose other parts are pictures and the like."""
    parts = [content] if isinstance(content, str) else content or ()
    texts = (part if isinstance(part, str) else getattr(part, "content", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
