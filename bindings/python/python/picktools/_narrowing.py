"""The common parts of the adapters: the choice of the tools to send, and a wrapper of clients that sends only those."""

import asyncio
import copy
import inspect
import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from . import ArgumentError, Catalog, Engine

log = logging.getLogger("picktools")

ENGINES = 16
"""The number of cached engines, one for each list of tools."""
CONVERSATIONS = 64
"""The number of tool lists whose sent tools are remembered."""

_engines: OrderedDict[tuple[int, str, object], tuple[Engine, object]] = OrderedDict()
_engines_lock = threading.Lock()


class OfferedTool(NamedTuple):
    """A tool that the caller offers. A tool without a name is defined by the provider, and is always sent."""

    name: str | None
    description: str | None
    parameters: Any
    value: Any
    stays: bool = False


def plain(value: Any) -> Any:
    """Converts a value to JSON types. Models are dumped, and other values become None."""

    def dump(value: Any) -> Any:
        if isinstance(value, type):
            return None
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if hasattr(value, "to_dict"):
            return value.to_dict()
        return dict(value) if isinstance(value, Mapping) else None

    return json.loads(json.dumps(value, default=dump))


def names_in_choice(choice: Any) -> set[str]:
    """Returns the names of the tools in a `tool_choice`, in the format of any provider."""
    if not isinstance(choice, Mapping):
        return set()
    names = {choice["name"]} if isinstance(choice.get("name"), str) else set()
    for inner in (choice.get("function"), choice.get("allowed_tools"), *(choice.get("tools") or ())):
        names |= names_in_choice(inner)
    return names


def conversation_prefixes(query: Any) -> list[Any]:
    """Returns the conversation up to each message of the user that has text."""
    if isinstance(query, str):
        return [query] if query.strip() else []
    return [query[: index + 1] for index, message in enumerate(query or ()) if _is_request(message)]


def _is_request(message: Any) -> bool:
    if not isinstance(message, Mapping) or message.get("role") != "user":
        return False
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return any(isinstance(text, str) and text.strip() for text in texts)


def _engine(tools: str, model: Any) -> Engine:
    # An engine may be unusable in a forked process.
    key = (os.getpid(), tools, model if model is None or isinstance(model, str) else id(model))
    with _engines_lock:
        if key in _engines:
            _engines.move_to_end(key)
            return _engines[key][0]
    engine = Engine(Catalog.from_tools(json.loads(tools)), model)
    with _engines_lock:
        # The model is stored too, so that no other object can get its id.
        _engines[key] = (engine, model)
        while len(_engines) > ENGINES:
            _engines.popitem(last=False)
    return engine


class Narrowing:
    """Decides which tools are sent. Each list of tools is a conversation, and a sent tool stays in it."""

    def __init__(self, k: int, access: Any, keep: Iterable[str], model: Any, options: Mapping[str, Any]) -> None:
        if k < 1:
            raise ArgumentError("k is less than 1; ask for at least one tool", "k")
        # The caller must not change the access policy later.
        self.access = copy.deepcopy(access)
        self.k, self.keep, self.model = k, frozenset(keep), model
        self.options = {"reasons": False, **options}
        self._lists: OrderedDict[str, tuple[frozenset[str], list[str]]] = OrderedDict()
        self._lock = threading.Lock()

    def narrow(
        self, tools: Sequence[OfferedTool], query: Any, forced: Collection[str] = (), *, replay: bool = False
    ) -> list[Any]:
        """Returns the values of the tools to send: those of the provider, then the others in the order of need.

        With `replay` they are computed from the complete conversation, and nothing is remembered.
        """
        functions = [tool for tool in tools if tool.name is not None]
        if not functions or (self.access is None and len(functions) <= self.k):
            return [tool.value for tool in tools]
        try:
            names = self._names(functions, query, forced, replay)
        except Exception as error:
            # An invalid option is an error of every request.
            is_invalid_option = isinstance(error, ArgumentError) and error.argument in (*self.options, "model")
            if self.access is not None or is_invalid_option:
                raise
            log.warning("picking failed, all tools are sent: %s", error)
            return [tool.value for tool in tools]
        values = {tool.name: tool.value for tool in functions}
        return [tool.value for tool in tools if tool.name is None] + [values[name] for name in names]

    def _names(self, functions: Sequence[OfferedTool], query: Any, forced: Collection[str], replay: bool) -> list[str]:
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
            raise ArgumentError("the catalog changed the names of the tools", "tools")
        with self._lock:
            stored = self._lists.get(key)
        excluded, sent = stored if stored is not None else (self._excluded(engine), [])
        for name in forced:
            if name in excluded:
                raise ArgumentError(f"tool_choice names the tool {name!r}, which access excludes", "tool_choice")
        visible = [name for name in definitions if name not in excluded]
        prefixes = conversation_prefixes(plain(query))
        if not prefixes and not sent:
            return visible
        fixed = {*self.keep, *forced, *(str(tool.name) for tool in functions if tool.stays)}
        names = [] if replay else list(sent)
        for turn in prefixes if replay else prefixes[-1:]:
            needed = fixed | set(visible if len(visible) <= self.k else self._pick(engine, turn, bool(names)))
            names += [name for name in visible if name in needed and name not in names]
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

    def _pick(self, engine: Engine, query: Any, is_later: bool) -> list[str]:
        """Picks the best tools for the first message without a threshold, and only fitting tools for a later one."""
        options = {"min_score": 0.02 if is_later else 0.0, **self.options}
        selection = engine.pick(query, self.k, access=self.access, **options)
        return [pick.tool.name for pick in (*selection.picks, *selection.required)]

    def _excluded(self, engine: Engine) -> frozenset[str]:
        """Returns the excluded tools. Picks with every tool in `always_include`, and reads the ineligible ones."""
        excluded: set[str] = set()
        if self.access is not None:
            names = {tool.id: tool.name for tool in engine.catalog}
            ids = list(names)
            # A selection lists at most 50 ineligible tools.
            for start in range(0, len(ids), 25):
                options: dict[str, Any] = {"always_include": ids[start : start + 25], "mode": "keyword", "reasons": False}
                ineligible = engine.pick("a", 25, access=self.access, **options).ineligible
                excluded.update(names[tool["tool_id"]] for tool in ineligible["tools"])
        return frozenset(excluded)


Narrow: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class NarrowingClient:
    """Wraps a client, or a part of one. Methods that send tools send fewer.

    Without `access`, everything else is unchanged. With it, calls of other methods are refused if they send tools.
    """

    def __init__(self, target: Any, narrow: Narrow, parts: "ClientParts", lazy: bool = False, path: str = "") -> None:
        self._target, self._narrow, self._parts = target, narrow, parts
        self._lazy, self._path = lazy, path

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        path = f"{self._path}.{name}".lstrip(".")
        if name in self._parts.inner:
            is_lazy = self._lazy or name == "with_streaming_response"
            return NarrowingClient(value, self._narrow, self._parts, is_lazy, path)
        if name in self._parts.copies:
            return lambda *args, **kwargs: NarrowingClient(value(*args, **kwargs), self._narrow, self._parts)
        if name in self._parts.methods and callable(value):
            return self._narrowed_method(value)
        return guarded(value, path) if self._parts.is_guarded and not name.startswith("_") else value

    def _narrowed_method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def send(*args: Any, **request: Any) -> Any:
            return method(*args, **self._narrow(request))

        async def send_async(*args: Any, **request: Any) -> Any:
            return await method(*args, **await asyncio.to_thread(self._narrow, request))

        # A method that sends its request when it is entered wraps a coroutine, but is not one.
        is_async = not self._lazy and inspect.iscoroutinefunction(inspect.unwrap(method))
        return send_async if is_async else send

    def __enter__(self) -> "NarrowingClient":
        self._target.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._target.__exit__(*error)

    async def __aenter__(self) -> "NarrowingClient":
        await self._target.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._target.__aexit__(*error)


class GuardedPart:
    """Wraps a method or a part of a client that `access` does not cover. Calls that send tools are refused."""

    def __init__(self, target: Any, path: str) -> None:
        self._target, self._path = target, path

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        return value if name.startswith("_") else guarded(value, f"{self._path}.{name}")

    def __call__(self, *args: Any, **request: Any) -> Any:
        args = tuple(_listed(value) for value in args)
        request = {name: _listed(value) for name, value in request.items()}
        if _offers_tools(args) or _offers_tools(request):
            message = f"{self._path} sends tools to which access does not apply; send them with a method that is narrowed"
            raise ArgumentError(message, "tools")
        result = self._target(*args, **request)
        return self._guard_later(result) if inspect.iscoroutine(result) else guarded(result, self._path)

    async def _guard_later(self, result: Any) -> Any:
        return guarded(await result, self._path)

    def __iter__(self) -> Any:
        return iter(self._target)

    def __aiter__(self) -> Any:
        return aiter(self._target)

    def __enter__(self) -> Any:
        return guarded(self._target.__enter__(), self._path)

    def __exit__(self, *error: Any) -> Any:
        return self._target.__exit__(*error)

    async def __aenter__(self) -> Any:
        return guarded(await self._target.__aenter__(), self._path)

    async def __aexit__(self, *error: Any) -> Any:
        return await self._target.__aexit__(*error)


def guarded(value: Any, path: str) -> Any:
    """Returns a method or a part of a client as a guarded part, and data unchanged."""
    _, _, module = type(value).__module__.partition(".")
    is_part = module.split(".")[0] in ("resources", "lib")
    return GuardedPart(value, path) if is_part or inspect.isroutine(value) else value


def _listed(value: Any) -> Any:
    """Returns the list of an iterator, which can be read only once. A file stays."""
    return list(value) if isinstance(value, Iterator) and not hasattr(value, "read") else value


def _offers_tools(value: Any) -> bool:
    """Returns True if a value has tools at any depth, as a request of a batch or the session of a connection has."""
    if hasattr(value, "model_dump") and not isinstance(value, type):
        value = value.model_dump()
    if isinstance(value, Mapping):
        return any((name in ("functions", "tools") and inner) or _offers_tools(inner) for name, inner in value.items())
    is_list = isinstance(value, Collection) and not isinstance(value, (str, bytes, bytearray, type))
    return is_list and any(_offers_tools(inner) for inner in value)


class ClientParts(NamedTuple):
    """The names of a client's members: parts that send tools, methods that send tools, and methods that copy it.

    If it is guarded, other members refuse tools.
    """

    inner: frozenset[str]
    methods: frozenset[str]
    copies: frozenset[str] = frozenset({"with_options", "copy"})
    is_guarded: bool = False


def narrow_request(
    narrowing: Narrowing, request: dict[str, Any], offer: Callable[[Any], OfferedTool], query: str
) -> dict[str, Any]:
    """Returns a request with the tools that its conversation needs. The member `query` is the conversation."""
    extra_body = request.get("extra_body")
    other_tools = request.get("functions") or (isinstance(extra_body, Mapping) and extra_body.get("tools"))
    if narrowing.access is not None and other_tools:
        raise ArgumentError("access applies to `tools` only; give all tools there", "tools")
    if not request.get("tools"):
        return request
    # An iterator can be read only once, so it becomes a list.
    tools = list(request["tools"])
    conversation = request.get(query)
    if isinstance(conversation, Iterable) and not isinstance(conversation, (str, list, Mapping)):
        conversation = list(conversation)
        request = {**request, query: conversation}
    forced = names_in_choice(request.get("tool_choice"))
    shown = narrowing.narrow([offer(tool) for tool in tools], conversation, forced)
    return {**request, "tools": shown}
