"""An adapter for Anthropic's client that sends only the tools that the conversation needs.

>>> import anthropic
>>> from picktools.anthropic import narrow
>>> client = narrow(anthropic.Anthropic(api_key="…"), k=8)
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from ._narrowing import ClientParts, Narrowing, NarrowingClient, OfferedTool, narrow_request, plain

__all__ = ["narrow"]

C = TypeVar("C")

_PARTS = ClientParts(
    inner=frozenset({"beta", "messages", "with_raw_response", "with_streaming_response"}),
    methods=frozenset({"count_tokens", "create", "parse", "stream", "thread", "tool_runner"}),
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
    """Returns a wrapper of an Anthropic client, sync or async, that sends fewer tools.

    `messages` and `beta.messages` send the `k` best tools for the first message of the user. Later messages add
    fitting tools. Everything else is unchanged, also `messages.batches`. A wrapper is for one conversation: sent tools
    stay, and new ones are added at the end, so the provider's prompt cache stays valid. Wrappers are cheap and share
    engines. Also sent are the tools in `keep`, the tools that `tool_choice` names, deferred tools (`defer_loading`),
    and tools of the provider, such as `web_search_20250305`. If tools have a `cache_control`, it moves to the last
    sent tool. A `tool_runner` and a `thread` use the tools of their first messages. `model` is that of `Engine`,
    `options` are those of `Engine.pick`.

    With `access`, excluded tools are never sent, and every failure is raised: `ArgumentError` if `tool_choice` names an
    excluded tool. `access` applies to your own tools, not to those of the provider. Every other method, such as
    `messages.batches.create` or `post`, raises it if it sends tools. Without `access`, all tools are sent if picking
    fails, and the logger `picktools` reports the reason.
    """
    narrowing = Narrowing(k, access, keep, model, options)

    def narrowed(request: dict[str, Any]) -> dict[str, Any]:
        if request.get("tools"):
            request = {**request, "tools": list(request["tools"])}
        changed = narrow_request(narrowing, request, _offered_tool, "messages")
        if changed.get("tools") and changed["tools"] != request["tools"]:
            changed["tools"] = _move_cache_mark(changed["tools"], request["tools"])
        return changed

    parts = _PARTS._replace(is_guarded=narrowing.access is not None)
    return cast(C, NarrowingClient(client, narrowed, parts))


def _offered_tool(tool: Any) -> OfferedTool:
    entry = plain(tool)
    is_custom = isinstance(entry, dict) and entry.get("type") in (None, "custom")
    if not is_custom or not isinstance(entry.get("name"), str):
        return OfferedTool(None, None, None, tool)
    is_deferred = bool(entry.get("defer_loading"))
    schema = entry.get("input_schema")
    return OfferedTool(entry["name"], entry.get("description"), schema, tool, stays=is_deferred)


def _move_cache_mark(shown: list[Any], offered: list[Any]) -> list[Any]:
    """Moves the `cache_control` of the offered tools to the last shown tool that is not deferred."""
    marks = [tool["cache_control"] for tool in offered if isinstance(tool, Mapping) and tool.get("cache_control")]
    if not marks or not all(isinstance(tool, Mapping) for tool in shown):
        return shown
    unmarked = [{name: value for name, value in tool.items() if name != "cache_control"} for tool in shown]
    last = max((index for index, tool in enumerate(unmarked) if not tool.get("defer_loading")), default=None)
    if last is not None:
        unmarked[last]["cache_control"] = marks[-1]
    return unmarked
