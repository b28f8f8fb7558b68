"""Methods that the wrapped clients do not narrow: with `access` they refuse tools, and work without them."""

import asyncio
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

import fake_provider  # noqa: E402
from fake_provider import TOOLS, Provider, schema  # noqa: E402

import picktools  # noqa: E402
import picktools.anthropic  # noqa: E402
import picktools.openai  # noqa: E402
from picktools._narrowing import guarded  # noqa: E402

FUNCTIONS = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": schema(arguments)}}
    for name, text, arguments in TOOLS
]
OWN = [{"name": name, "description": text, "input_schema": schema(arguments)} for name, text, arguments in TOOLS]
ACCESS = {"exclude": ["delete_account"]}
BATCH = [{"custom_id": "1", "params": {"model": "fake", "max_tokens": 9, "messages": [], "tools": OWN}}]

Send = Callable[[Any], Any]

OPENAI: list[Send] = [
    lambda client: client.beta.assistants.create(model="fake", tools=FUNCTIONS),
    lambda client: client.beta.assistants.update("a", tools=iter(FUNCTIONS)),
    lambda client: client.beta.threads.runs.create("t", assistant_id="a", tools=FUNCTIONS),
    lambda client: client.beta.threads.runs.stream(thread_id="t", assistant_id="a", tools=FUNCTIONS),
    lambda client: client.beta.threads.create_and_run(assistant_id="a", tools=FUNCTIONS),
    lambda client: client.beta.threads.runs.create("t", assistant_id="a", extra_body={"tools": FUNCTIONS}),
    lambda client: client.with_options(timeout=9).beta.assistants.create(model="fake", tools=FUNCTIONS),
    lambda client: client.copy().beta.threads.create_and_run(assistant_id="a", tools=FUNCTIONS),
    lambda client: client.with_raw_response.beta.assistants.create(model="fake", tools=FUNCTIONS),
    lambda client: client.beta.assistants.with_raw_response.create(model="fake", tools=FUNCTIONS),
    lambda client: client.beta.threads.runs.with_streaming_response.create("t", assistant_id="a", tools=FUNCTIONS),
    lambda client: client.batches.create(
        input_file_id="f", endpoint="/v1/responses", completion_window="24h", extra_body={"tools": FUNCTIONS}
    ),
    lambda client: client.realtime.client_secrets.create(session={"type": "realtime", "tools": FUNCTIONS}),
    lambda client: client.post("/chat/completions", body={"tools": FUNCTIONS}, cast_to=object),
    lambda client: client.post("/chat/completions", body={"functions": FUNCTIONS}, cast_to=object),
]
ANTHROPIC: list[Send] = [
    lambda client: client.messages.batches.create(requests=BATCH),
    lambda client: client.messages.batches.create(requests=iter(BATCH)),
    lambda client: client.beta.messages.batches.create(requests=tuple(BATCH)),
    lambda client: client.messages.batches.with_raw_response.create(requests=BATCH),
    lambda client: client.messages.batches.with_streaming_response.create(requests=BATCH),
    lambda client: client.with_raw_response.messages.batches.create(requests=BATCH),
    lambda client: client.with_options(timeout=9).messages.batches.create(requests=BATCH),
    lambda client: client.post("/v1/messages", body={"tools": OWN}, cast_to=object),
    lambda client: client.messages.batches.create(requests=[], extra_body={"tools": OWN}),
]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with fake_provider.serve() as provider:
        yield provider


def wrapped(provider: Provider, name: str, access: Any) -> Any:
    """Returns a wrapped client by the name of its class."""
    if "OpenAI" in name:
        client = getattr(openai, name)(api_key="none", base_url=provider.url + "/v1", max_retries=0)
        return picktools.openai.narrow(client, access=access)
    client = getattr(anthropic, name)(api_key="none", base_url=provider.url, max_retries=0)
    return picktools.anthropic.narrow(client, access=access)


@pytest.mark.parametrize("name", ["OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic"])
def test_unknown_method_with_tools_is_refused(provider: Provider, name: str) -> None:
    client = wrapped(provider, name, ACCESS)
    for number, send in enumerate(OPENAI if "OpenAI" in name else ANTHROPIC):

        async def run(send: Send = send) -> None:
            result = send(client)
            if hasattr(result, "__await__"):
                await result

        with pytest.raises(picktools.ArgumentError, match="access does not apply") as error:
            asyncio.run(run())
            pytest.fail(f"{name} {number} was sent")
        assert error.value.argument == "tools"
    assert provider.requests == []


def test_unknown_method_without_tools_is_sent(provider: Provider) -> None:
    client = wrapped(provider, "OpenAI", ACCESS)
    client.beta.threads.runs.create("t", assistant_id="a", tools=openai.omit)
    client.beta.assistants.create(model="fake", tools=[])
    client.moderations.with_raw_response.create(input="x")
    with client.moderations.with_streaming_response.create(input="x") as response:
        assert response.status_code == 200
    assert len(provider.requests) == 4
    assert client.base_url.path == "/v1/" and client.max_retries == 0

    async def run() -> None:
        client = wrapped(provider, "AsyncOpenAI", ACCESS)
        await client.beta.threads.runs.create("t", assistant_id="a")
        await client.moderations.create(input="x")

    asyncio.run(run())
    assert len(provider.requests) == 6


def test_unknown_method_without_access_is_unchanged(provider: Provider) -> None:
    client = wrapped(provider, "OpenAI", None)
    client.beta.assistants.create(model="fake", tools=FUNCTIONS)
    assert client.beta.assistants.__class__ is openai.resources.beta.Assistants
    assert provider.requests[0]["tools"] == FUNCTIONS


def test_connection_of_unknown_method_refuses_tools() -> None:
    sent: list[Any] = []

    class Connection:
        def __init__(self) -> None:
            self.session = self

        def update(self, **event: Any) -> None:
            sent.append(event)

        async def __aenter__(self) -> "Connection":
            return self

        async def __aexit__(self, *error: Any) -> None:
            sent.append("closed")

        async def enter(self) -> "Connection":
            return self

    Connection.__module__ = "openai.resources.realtime.realtime"
    part = guarded(types.SimpleNamespace, "types")
    assert part is types.SimpleNamespace, "a class is data"

    async def run() -> None:
        connect = guarded(lambda: Connection(), "realtime.connect")
        async with connect() as connection:
            connection.session.update(session={"tools": []})
            with pytest.raises(picktools.ArgumentError, match="realtime.connect.session.update"):
                connection.session.update(session={"tools": FUNCTIONS})
        connection = await connect().enter()
        with pytest.raises(picktools.ArgumentError, match="update"):
            connection.session.update(session={"tools": FUNCTIONS})

    asyncio.run(run())
    assert sent == [{"session": {"tools": []}}, "closed"]


def test_file_of_unknown_method_is_not_read_ahead(tmp_path: Any) -> None:
    path = tmp_path / "batch.jsonl"
    path.write_text("{}\n")
    with path.open("rb") as file:
        upload = guarded(lambda file: file.read(), "files.create")
        assert upload(file=file) == b"{}\n"
