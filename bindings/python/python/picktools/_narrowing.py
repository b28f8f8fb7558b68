"""What the adapters share: which of the offered tools go on, and a stand-in for a client that sends only those."""

import asyncio
import copy
import inspect
import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from . import ArgumentError, Catalog, Engine

log = logging.getLogger("picktools")

ENGINES = 16
"""How many engines are kept, each for one list of tools."""
CONVERSATIONS = 64
"""For how many lists of tools it is known what was sent."""

_engines: OrderedDict[tuple[int, str, object], tuple[Engine, object]] = OrderedDict()
_engines_lock = threading.Lock()


class Offered(NamedTuple):
    """A tool that is offered. One without a name is the provider's own, and always goes on."""

    name: str | None
    description: str | None
    parameters: Any
    value: Any
    stays: bool = False


def plain(value: Any) -> Any:
    """Returns what JSON can hold of a value; models are dumped, and what cannot be read is left out."""

    def dump(value: Any) -> Any:
        if isinstance(value, type):
            return None
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if hasattr(value, "to_dict"):
            return value.to_dict()
        return dict(value) if isinstance(value, Mapping) else None

    return json.loads(json.dumps(value, default=dump))


def names_in(choice: Any) -> set[str]:
    """Returns the names of the tools that a `tool_choice` is about, in any form that providers have."""
    if not isinstance(choice, Mapping):
        return set()
    found = {choice["name"]} if isinstance(choice.get("name"), str) else set()
    for inner in (choice.get("function"), choice.get("allowed_tools"), *(choice.get("tools") or ())):
        found |= names_in(inner)
    return found


def turns(query: Any) -> list[Any]:
    """Returns the conversation up to each message in which the user says something."""
    if isinstance(query, str):
        return [query] if query.strip() else []
    return [query[: place + 1] for place, message in enumerate(query or ()) if _asks(message)]


def _asks(message: Any) -> bool:
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return False
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return any(isinstance(text, str) and text.strip() for text in texts)


def _engine(tools: str, model: Any) -> Engine:
    # An engine may be of no use in a process that was forked since.
    key = (os.getpid(), tools, model if model is None or isinstance(model, str) else id(model))
    with _engines_lock:
        if key in _engines:
            _engines.move_to_end(key)
            return _engines[key][0]
    engine = Engine(Catalog.from_tools(json.loads(tools)), model)
    with _engines_lock:
        # The model is kept too, so that no other one can get its identity.
        _engines[key] = (engine, model)
        while len(_engines) > ENGINES:
            _engines.popitem(last=False)
    return engine


class Narrowing:
    """Decides which tools go on. What was sent stays: the tools of one list are a conversation."""

    def __init__(self, k: int, access: Any, keep: Iterable[str], model: Any, options: Mapping[str, Any]) -> None:
        if k < 1:
            raise ArgumentError("ask for at least one tool", "k")
        # What is decided once must not change.
        self.access = copy.deepcopy(access)
        self.k, self.keep, self.model = k, frozenset(keep), model
        self.options = {"reasons": False, **options}
        self._lists: OrderedDict[str, tuple[frozenset[str], list[str]]] = OrderedDict()
        self._lock = threading.Lock()

    def narrow(
        self, tools: Sequence[Offered], query: Any, forced: Collection[str] = (), *, replay: bool = False
    ) -> list[Any]:
        """Returns the values of the tools that go on: those of the provider, then the others as they came to be needed.

        With `replay` they are worked out from the whole conversation, and nothing is remembered.
        """
        functions = [tool for tool in tools if tool.name is not None]
        if not functions or (self.access is None and len(functions) <= self.k):
            return [tool.value for tool in tools]
        try:
            names = self._names(functions, query, forced, replay)
        except Exception as error:
            # What is misspelt once is wrong for each request.
            is_misspelt = isinstance(error, ArgumentError) and error.argument in (*self.options, "model")
            if self.access is not None or is_misspelt:
                raise
            log.warning("all tools are sent, as none can be picked: %s", error)
            return [tool.value for tool in tools]
        values = {tool.name: tool.value for tool in functions}
        return [tool.value for tool in tools if tool.name is None] + [values[name] for name in names]

    def _names(self, functions: Sequence[Offered], query: Any, forced: Collection[str], replay: bool) -> list[str]:
        definitions: dict[str, Any] = {}
        for tool in functions:
            name = str(tool.name)
            if name in definitions:
                raise ArgumentError(f"two tools have the name {name!r}", "tools")
            parameters = tool.parameters or {"type": "object", "properties": {}}
            function = {"name": name, "description": tool.description or "", "parameters": parameters}
            definitions[name] = plain({"type": "function", "function": function})
        key = json.dumps([definitions[name] for name in sorted(definitions)], sort_keys=True)
        engine = _engine(key, self.model)
        if {tool.name for tool in engine.catalog} != set(definitions):
            raise ArgumentError("the names of the tools were not read as they are", "tools")
        with self._lock:
            known = self._lists.get(key)
        excluded, sent = known if known is not None else (self._excluded(engine), [])
        for name in forced:
            if name in excluded:
                raise ArgumentError(f"the tool {name!r} has to be called, and access excludes it", "tool_choice")
        visible = [name for name in definitions if name not in excluded]
        asked = turns(plain(query))
        if not asked and not sent:
            return visible
        fixed = {*self.keep, *forced, *(str(tool.name) for tool in functions if tool.stays)}
        names = [] if replay else list(sent)
        for turn in asked if replay else asked[-1:]:
            wanted = fixed | set(visible if len(visible) <= self.k else self._picked(engine, turn, bool(names)))
            names += [name for name in visible if name in wanted and name not in names]
        names += [name for name in visible if name in fixed and name not in names]
        if replay:
            return names
        with self._lock:
            # Another thread may have sent more in the meantime.
            sent = self._lists.setdefault(key, (excluded, []))[1]
            sent += [name for name in names if name not in sent]
            self._lists.move_to_end(key)
            while len(self._lists) > CONVERSATIONS:
                self._lists.popitem(last=False)
            return list(sent)

    def _picked(self, engine: Engine, query: Any, later: bool) -> list[str]:
        """The first message brings the best tools whatever their scores, a later one those that fit."""
        options = {"min_score": 0.02 if later else 0.0, **self.options}
        selection = engine.pick(query, self.k, access=self.access, **options)
        return [pick.tool.name for pick in (*selection.picks, *selection.required)]

    def _excluded(self, engine: Engine) -> frozenset[str]:
        """Asks for every tool by name: those that are not eligible are told, the ones that are asked for first."""
        excluded: set[str] = set()
        if self.access is not None:
            names = {tool.id: tool.name for tool in engine.catalog}
            ids = list(names)
            # An outcome lists 50 tools at most.
            for start in range(0, len(ids), 25):
                asked = {"always_include": ids[start : start + 25], "mode": "keyword", "reasons": False}
                found = engine.pick("a", 25, access=self.access, **asked).ineligible
                excluded.update(names[tool["tool_id"]] for tool in found["tools"])
        return frozenset(excluded)


Narrow: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class Client:
    """Stands in for a client, or a part of one: methods that send tools send fewer, all else is as it was."""

    def __init__(self, target: Any, narrow: Narrow, parts: "Parts", lazy: bool = False) -> None:
        self._target, self._narrow, self._parts, self._lazy = target, narrow, parts, lazy

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if name in self._parts.inner:
            return Client(value, self._narrow, self._parts, self._lazy or name == "with_streaming_response")
        if name in self._parts.copies:
            return lambda *args, **kwargs: Client(value(*args, **kwargs), self._narrow, self._parts)
        return self._sending(value) if name in self._parts.methods and callable(value) else value

    def _sending(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def send(*args: Any, **request: Any) -> Any:
            return method(*args, **self._narrow(request))

        async def send_async(*args: Any, **request: Any) -> Any:
            return await method(*args, **await asyncio.to_thread(self._narrow, request))

        # What answers a request when it is entered is no coroutine, though it wraps one.
        waits = not self._lazy and inspect.iscoroutinefunction(inspect.unwrap(method))
        return send_async if waits else send

    def __enter__(self) -> "Client":
        self._target.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._target.__exit__(*error)

    async def __aenter__(self) -> "Client":
        await self._target.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._target.__aexit__(*error)


class Parts(NamedTuple):
    """The names of a client's parts that lead to what sends tools, of what copies the client, and of what sends."""

    inner: frozenset[str]
    methods: frozenset[str]
    copies: frozenset[str] = frozenset({"with_options", "copy"})


def narrow_request(
    narrowing: Narrowing, request: dict[str, Any], offer: Callable[[Any], Offered], query: str
) -> dict[str, Any]:
    """Returns a request with the tools that its conversation needs; the member `query` holds the conversation."""
    hidden = request.get("extra_body")
    elsewhere = request.get("functions") or (isinstance(hidden, Mapping) and hidden.get("tools"))
    if narrowing.access is not None and elsewhere:
        raise ArgumentError("access is held against tools only; give all of them as tools", "tools")
    if not request.get("tools"):
        return request
    # What can be gone through but once is kept.
    tools = list(request["tools"])
    said = request.get(query)
    if isinstance(said, Iterable) and not isinstance(said, (str, list, Mapping)):
        said = list(said)
        request = {**request, query: said}
    shown = narrowing.narrow([offer(tool) for tool in tools], said, names_in(request.get("tool_choice")))
    return {**request, "tools": shown}
