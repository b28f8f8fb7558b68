"""Agents of the OpenAI Agents SDK and the fake provider."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

agents = pytest.importorskip("agents")
openai = pytest.importorskip("openai")

import fake_provider  # noqa: E402
from fake_provider import TOOLS, Provider, schema  # noqa: E402

import picktools  # noqa: E402
from picktools.openai_agents import narrow  # noqa: E402

K = 5
ROUTE = "How do I get from the station to the museum on foot?"


@pytest.fixture
def provider() -> Iterator[Provider]:
    agents.set_tracing_disabled(True)
    with fake_provider.serve() as provider:
        yield provider


def run(provider: Provider, agent: Any, *turns: str) -> Any:
    """Runs an agent on each message of the user, with the earlier conversation."""

    async def all_turns() -> Any:
        said: list[Any] = []
        async with openai.AsyncOpenAI(api_key="none", base_url=provider.url + "/v1", max_retries=0) as client:
            for turn in turns:
                model = agents.OpenAIResponsesModel("fake", client)
                said.append({"role": "user", "content": turn})
                result = await agents.Runner.run(agent, said, run_config=agents.RunConfig(model=model))
                said = result.to_input_list()
        return result

    return asyncio.run(all_turns())


def make_agent(called: list[Any], names: list[str] | None = None, **more: Any) -> Any:
    def tool(name: str, text: str, arguments: list[str]) -> Any:
        async def invoke(context: Any, given: str) -> str:
            called.append((name, given))
            return "left, then right"

        return agents.FunctionTool(name, text, schema(arguments), invoke)

    tools = [tool(*entry) for entry in TOOLS if names is None or entry[0] in names]
    return agents.Agent(name="guide", instructions="Help", tools=[*tools, *more.pop("own", [])], **more)


def calls_route(names: list[str]) -> tuple[str, dict[str, str]]:
    assert "find_route" in names
    return "find_route", {"start": "station", "end": "museum"}


def test_agent_calls_the_right_tool(provider: Provider) -> None:
    provider.choose = calls_route
    called: list[Any] = []
    whole = make_agent(called)
    result = run(provider, narrow(whole, k=K), ROUTE)
    assert result.final_output == "done"
    assert called == [("find_route", '{"start": "station", "end": "museum"}')]
    assert len(provider.sent) == 2 and provider.sent[0] == provider.sent[1]
    assert len(provider.sent[0]) <= K
    run(provider, whole, ROUTE)
    assert len(provider.sent[2]) == len(TOOLS), "the agent that was given is as it was"


def test_tool_list_only_grows(provider: Provider) -> None:
    agent = narrow(make_agent([]), k=K)
    run(provider, agent, ROUTE, "Thanks. And play a song by Nina Simone")
    run(provider, agent, "Where is my parcel?")
    first, second, other = provider.sent
    assert second[: len(first)] == first and len(first) < len(second) <= 2 * K
    assert "find_route" in first and "play_song" in second
    assert "track_parcel" in other and len(other) <= K, "another conversation starts afresh"


def test_session_history_is_part_of_the_conversation(provider: Provider) -> None:
    agent = narrow(make_agent([]), k=K)

    async def turns() -> None:
        async with openai.AsyncOpenAI(api_key="none", base_url=provider.url + "/v1", max_retries=0) as client:
            config = agents.RunConfig(model=agents.OpenAIResponsesModel("fake", client))
            session = agents.SQLiteSession("visit")
            for turn in (ROUTE, "And play a song by Nina Simone"):
                await agents.Runner.run(agent, turn, session=session, run_config=config)

    asyncio.run(turns())
    first, second = provider.sent
    assert second[: len(first)] == first and "play_song" in second


def test_short_tool_list_is_unchanged(provider: Provider) -> None:
    run(provider, narrow(make_agent([], ["get_forecast", "water_plants"]), k=K), ROUTE)
    assert provider.sent == [["get_forecast", "water_plants"]]


def test_forced_kept_and_provider_tools_stay(provider: Provider) -> None:
    settings = agents.ModelSettings(tool_choice="play_song")
    agent = narrow(make_agent([], own=[agents.WebSearchTool()], model_settings=settings), k=1, keep=["set_alarm"])
    run(provider, agent, ROUTE)
    assert set(provider.sent[0]) == {"web_search", "find_route", "play_song", "set_alarm"}


def test_excluded_tool_is_never_offered(provider: Provider) -> None:
    access = {"exclude": ["find_route"]}
    run(provider, narrow(make_agent([]), k=K, access=access, keep=["find_route"]), ROUTE, "find_route again")
    run(provider, narrow(make_agent([], ["find_route", "play_song"]), k=K, access=access), ROUTE)
    assert len(provider.sent) == 3 and all(names and "find_route" not in names for names in provider.sent)
    forced = make_agent([], model_settings=agents.ModelSettings(tool_choice="find_route"))
    with pytest.raises(picktools.ArgumentError, match="find_route"):
        run(provider, narrow(forced, k=K, access=access), ROUTE)
    assert len(provider.requests) == 3


def test_clone_is_narrowed_and_disabled_tool_is_not_offered(provider: Provider) -> None:
    whole = make_agent([])
    whole.tools[11].is_enabled = False
    run(provider, narrow(whole, k=K).clone(instructions="Help well"), ROUTE)
    assert len(provider.sent[0]) <= K and "find_route" not in provider.sent[0]
