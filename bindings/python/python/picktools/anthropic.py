"""Sends of the tools of a request to Anthropic only those that the conversation needs.

>>> import anthropic
>>> from picktools.anthropic import narrow
>>> client = narrow(anthropic.Anthropic(api_key="…"), k=8)
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from ._narrowing import Client, Narrowing, Offered, Parts, narrow_request, plain

__all__ = ["narrow"]

C = TypeVar("C")

_PARTS = Parts(
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
    """Returns a stand-in for a client of Anthropic, sync or async, that sends few of the tools it is given.

    `messages` and `beta.messages` send the `k` best for the first message of the user, and later ones bring what fits
    them; all else is the client's, `messages.batches` too. A stand-in is for one conversation: the tools that it sent
    stay, and new ones come after them, so that what the provider has cached stays good. It costs little, and engines
    are shared. Beyond `k` go those in `keep`, those that `tool_choice` names or that wait for a search
    (`defer_loading`), and the provider's own, such as `web_search_20250305`. Where tools are marked with
    `cache_control`, the mark goes to the last that is sent. A `tool_runner` and a `thread` have the tools of their
    first messages. `model` is the engine's, `options` are those of `Engine.pick`.

    With `access`, tools that it excludes are never sent, few or not, and whatever fails is raised: `ArgumentError`
    where `tool_choice` names one of them. It is held against one's own tools; what is the provider's passes. Without,
    all tools go on where picking fails, and the logger `picktools` tells why.
    """
    narrowing = Narrowing(k, access, keep, model, options)

    def narrowed(request: dict[str, Any]) -> dict[str, Any]:
        if request.get("tools"):
            request = {**request, "tools": list(request["tools"])}
        changed = narrow_request(narrowing, request, _offered, "messages")
        if changed.get("tools") and changed["tools"] != request["tools"]:
            changed["tools"] = _marked(changed["tools"], request["tools"])
        return changed

    return cast(C, Client(client, narrowed, _PARTS))


def _offered(tool: Any) -> Offered:
    entry = plain(tool)
    own = isinstance(entry, dict) and entry.get("type") in (None, "custom") and isinstance(entry.get("name"), str)
    if not own:
        return Offered(None, None, None, tool)
    waits = bool(entry.get("defer_loading"))
    return Offered(entry["name"], entry.get("description"), entry.get("input_schema"), tool, stays=waits)


def _marked(shown: list[Any], given: list[Any]) -> list[Any]:
    """Where the prompt is to be kept up to a tool, it is kept up to the last of those that are shown."""
    marks = [tool["cache_control"] for tool in given if isinstance(tool, Mapping) and tool.get("cache_control")]
    if not marks or not all(isinstance(tool, Mapping) for tool in shown):
        return shown
    bare = [{name: value for name, value in tool.items() if name != "cache_control"} for tool in shown]
    last = max((place for place, tool in enumerate(bare) if not tool.get("defer_loading")), default=None)
    if last is not None:
        bare[last]["cache_control"] = marks[-1]
    return bare
