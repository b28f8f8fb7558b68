"""An adapter for OpenAI's client that sends only the tools that the conversation needs.

>>> import openai
>>> from picktools.openai import narrow
>>> client = narrow(openai.OpenAI(api_key="…"), k=8)
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from ._narrowing import ClientParts, Narrowing, NarrowingClient, OfferedTool, narrow_request, plain

__all__ = ["narrow"]

C = TypeVar("C")

_PARTS = ClientParts(
    inner=frozenset(
        {"beta", "chat", "completions", "responses", "input_tokens", "with_raw_response", "with_streaming_response"}
    ),
    methods=frozenset({"count", "create", "parse", "stream"}),
)


def narrow(
    client: C,
    *,
    k: int = 8,
    access: Mapping[str, Any] | None = None,
    keep: Iterable[str] = (),
    model: Any = "static",
    **options: Any,
) -> C:
    """Returns a wrapper of an OpenAI client, sync or async, that sends fewer tools.

    `chat.completions` and `responses` send the `k` best tools for the first message of the user. Later messages add
    fitting tools. Everything else is unchanged. A wrapper is for one conversation: sent tools stay, and new ones are
    added at the end, so the provider's prompt cache stays valid. Wrappers are cheap and share engines. Also sent are
    the tools in `keep`, the tools that `tool_choice` names, deferred tools (`defer_loading`), and tools of the
    provider, such as `web_search`. `model` is that of `Engine`, `options` are those of `Engine.pick`.

    With `access`, excluded tools are never sent, and every failure is raised: `ArgumentError` if `tool_choice` names an
    excluded tool. `access` applies to functions, not to tools of the provider. Every other method, such as
    `beta.assistants.create` or `post`, raises it if it sends tools. The file of a batch is not read. Without `access`,
    all tools are sent if picking fails, and the logger `picktools` reports the reason.
    """
    narrowing = Narrowing(k, access, keep, model, options)

    def narrowed(request: dict[str, Any]) -> dict[str, Any]:
        return narrow_request(narrowing, request, _offered_tool, "messages" if "messages" in request else "input")

    parts = _PARTS._replace(is_guarded=narrowing.access is not None)
    return cast(C, NarrowingClient(client, narrowed, parts))


def _offered_tool(tool: Any) -> OfferedTool:
    """Reads a tool of Chat Completions, with a member `function`, or of Responses, without it."""
    entry = plain(tool)
    function = entry.get("function", entry) if isinstance(entry, dict) and entry.get("type") == "function" else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return OfferedTool(None, None, None, tool)
    is_deferred = bool(entry.get("defer_loading"))
    parameters = function.get("parameters")
    return OfferedTool(function["name"], function.get("description"), parameters, tool, stays=is_deferred)
