"""Sends of the tools of a request to OpenAI only those that the conversation needs.

>>> import openai
>>> from picktools.openai import narrow
>>> client = narrow(openai.OpenAI(api_key="…"), k=8)
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from ._narrowing import Client, Narrowing, Offered, Parts, narrow_request, plain

__all__ = ["narrow"]

C = TypeVar("C")

_PARTS = Parts(
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
    """Returns a stand-in for a client of OpenAI, sync or async, that sends few of the tools it is given.

    `chat.completions` and `responses` send the `k` best for the first message of the user, and later ones bring what
    fits them; all else is the client's. A stand-in is for one conversation: the tools that it sent stay, and new ones
    come after them, so that what the provider has cached stays good. It costs little, and engines are shared. Beyond
    `k` go those in `keep`, those that `tool_choice` names or that wait for a search (`defer_loading`), and the
    provider's own, such as `web_search`. `model` is the engine's, `options` are those of `Engine.pick`.

    With `access`, tools that it excludes are never sent, few or not, and whatever fails is raised: `ArgumentError`
    where `tool_choice` names one of them. It is held against functions; what is the provider's own passes. Without, all
    tools go on where picking fails, and the logger `picktools` tells why.
    """
    narrowing = Narrowing(k, access, keep, model, options)

    def narrowed(request: dict[str, Any]) -> dict[str, Any]:
        return narrow_request(narrowing, request, _offered, "messages" if "messages" in request else "input")

    return cast(C, Client(client, narrowed, _PARTS))


def _offered(tool: Any) -> Offered:
    """Reads a tool as Chat Completions has it, in a member `function`, or as Responses has it, without."""
    entry = plain(tool)
    function = entry.get("function", entry) if isinstance(entry, dict) and entry.get("type") == "function" else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return Offered(None, None, None, tool)
    waits = bool(entry.get("defer_loading"))
    return Offered(function["name"], function.get("description"), function.get("parameters"), tool, stays=waits)
