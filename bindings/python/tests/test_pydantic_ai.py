"""Agents of Pydantic AI and the fake provider."""

from collections.abc import Iterator
from typing import Any

import pytest

pydantic_ai = pytest.importorskip("pydantic_ai")
pytest.importorskip("openai")

from pydantic_ai.capabilities import PrepareTools  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

import fake_provider  # noqa: E402
from fake_provider import TOOLS, Provider, schema  # noqa: E402

import picktools  # noqa: E402
from picktools.pydantic_ai import prepare  # noqa: E402

K = 5
MONEY = "How much is 100 euros in yen today?"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with fake_provider.serve() as provider:
        yield provider


def toolset(called: list[Any], names: list[str] | None = None) -> Any:
    def tool(name: str, text: str, arguments: list[str]) -> Any:
        def function(**given: str) -> str:
            called.append((name, given))
            return "16,400"

        return pydantic_ai.Tool.from_schema(function, name=name, description=text, json_schema=schema(arguments))

    return pydantic_ai.FunctionToolset([tool(*entry) for entry in TOOLS if names is None or entry[0] in names])


def make_agent(provider: Provider, tools: Any, **options: Any) -> Any:
    model = OpenAIChatModel("fake", provider=OpenAIProvider(base_url=provider.url + "/v1", api_key="none"))
    return pydantic_ai.Agent(model, toolsets=[tools], capabilities=[PrepareTools(prepare(**options))])


def calls_exchange(names: list[str]) -> tuple[str, dict[str, str]]:
    assert "convert_currency" in names
    return "convert_currency", {"amount": "100", "to": "JPY"}


def test_agent_calls_the_right_tool(provider: Provider) -> None:
    provider.choose = calls_exchange
    called: list[Any] = []
    result = make_agent(provider, toolset(called), k=K).run_sync(MONEY)
    assert result.output == "done"
    assert called == [("convert_currency", {"amount": "100", "to": "JPY"})]
    assert len(provider.sent) == 2 and provider.sent[0] == provider.sent[1]
    assert len(provider.sent[0]) <= K


def test_tool_list_only_grows(provider: Provider) -> None:
    agent = make_agent(provider, toolset([]), k=K)
    before = agent.run_sync(["Look at this:", MONEY]).all_messages()
    agent.run_sync("Thanks. Now set an alarm for seven", message_history=before)
    agent.run_sync("Where is my parcel?")
    first, second, other = provider.sent
    assert second[: len(first)] == first and len(first) < len(second) <= 2 * K
    assert "convert_currency" in first and "set_alarm" in second
    assert "track_parcel" in other and len(other) <= K, "another conversation starts afresh"


def test_short_tool_list_is_unchanged(provider: Provider) -> None:
    make_agent(provider, toolset([], ["get_forecast", "water_plants"]), k=K).run_sync(MONEY)
    assert provider.sent == [["get_forecast", "water_plants"]]


def test_kept_tool_stays(provider: Provider) -> None:
    make_agent(provider, toolset([]), k=1, keep=["set_alarm"]).run_sync(MONEY)
    assert sorted(provider.sent[0]) == ["convert_currency", "set_alarm"]


def test_excluded_tool_is_never_offered(provider: Provider) -> None:
    access = {"exclude": ["convert_currency"]}
    agent = make_agent(provider, toolset([]), k=K, access=access, keep=["convert_currency"])
    before = agent.run_sync(MONEY).all_messages()
    agent.run_sync("use convert_currency", message_history=before)
    few = toolset([], ["convert_currency", "play_song"])
    make_agent(provider, few, k=K, access=access).run_sync(MONEY)
    assert len(provider.sent) == 3 and all(names and "convert_currency" not in names for names in provider.sent)
    with pytest.raises(picktools.PicktoolsError):
        make_agent(provider, few, k=K, access={"exclude": ["no_such_tool"]}).run_sync(MONEY)
    assert len(provider.requests) == 3


def test_single_toolset_is_narrowed(provider: Provider) -> None:
    model = OpenAIChatModel("fake", provider=OpenAIProvider(base_url=provider.url + "/v1", api_key="none"))
    narrowed = toolset([]).prepared(prepare(k=2))
    pydantic_ai.Agent(model, toolsets=[narrowed]).run_sync(MONEY)
    assert "convert_currency" in provider.sent[0] and len(provider.sent[0]) <= 2
