"""Agents with OpenAI's client and the fake provider."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai")

import fake_provider  # noqa: E402
from fake_provider import TOOLS, Provider, schema  # noqa: E402

import picktools  # noqa: E402
from picktools.openai import narrow  # noqa: E402

K = 5
CHAT: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": schema(arguments)}}
    for name, text, arguments in TOOLS
]
RESPONSES = [{"type": "function", "strict": False, **tool["function"]} for tool in CHAT]
NAMES = [name for name, _, _ in TOOLS]
FORECAST = "Will it rain in Oslo tomorrow?"
PARCEL = "Where is my parcel number 77?"
REFUND = "Thanks. And give the customer of payment 7 the money back"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with fake_provider.serve() as provider:
        yield provider


def client(provider: Provider) -> Any:
    return openai.OpenAI(api_key="none", base_url=provider.url + "/v1", max_retries=0)


def async_client(provider: Provider) -> Any:
    return openai.AsyncOpenAI(api_key="none", base_url=provider.url + "/v1", max_retries=0)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ask(client: Any, messages: list[Any], **more: Any) -> Any:
    return client.chat.completions.create(model="fake", messages=messages, **{"tools": CHAT, **more})


def calls_forecast(names: list[str]) -> tuple[str, dict[str, str]]:
    assert "get_forecast" in names
    return "get_forecast", {"city": "Oslo"}


def test_agent_on_chat_completions_calls_the_right_tool(provider: Provider) -> None:
    provider.choose = calls_forecast
    agent, messages, called = narrow(client(provider), k=K), [user(FORECAST)], []
    while True:
        message = ask(agent, messages).choices[0].message
        # The client's object, not JSON.
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            called.append((call.function.name, json.loads(call.function.arguments)))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
    assert message.content == "done"
    assert called == [("get_forecast", {"city": "Oslo"})]
    assert len(provider.sent) == 2 and provider.sent[0] == provider.sent[1]
    assert len(provider.sent[0]) <= K
    # Sent tools and all other members are unchanged.
    assert all(tool in CHAT for tool in provider.requests[0]["tools"])
    assert provider.requests[0]["messages"] == [user(FORECAST)] and provider.requests[0]["model"] == "fake"


def test_agent_on_responses_calls_the_right_tool(provider: Provider) -> None:
    provider.choose = calls_forecast
    agent, said, called = narrow(client(provider), k=K), [user(FORECAST)], []
    while True:
        response = agent.responses.create(model="fake", input=said, tools=RESPONSES)
        said += response.output
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        for call in calls:
            called.append((call.name, json.loads(call.arguments)))
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": "rain"})
    assert response.output_text == "done"
    assert called == [("get_forecast", {"city": "Oslo"})]
    assert provider.sent[0] == provider.sent[1] and len(provider.sent[0]) <= K


def test_plain_text_and_stored_conversations_are_narrowed(provider: Provider) -> None:
    agent = narrow(client(provider), k=K)
    agent.responses.create(model="fake", input=FORECAST, tools=RESPONSES)
    result = [{"type": "function_call_output", "call_id": "call_1", "output": "rain"}]
    agent.responses.create(model="fake", input=result, previous_response_id="resp_1", tools=RESPONSES)
    assert len(provider.sent[0]) <= K and "get_forecast" in provider.sent[0]
    assert provider.sent[1] == provider.sent[0]


def test_async_client_sends_few_tools(provider: Provider) -> None:
    provider.choose = calls_forecast

    async def run() -> None:
        async with narrow(async_client(provider), k=K) as agent:
            message = (await ask(agent, [user(FORECAST)])).choices[0].message
            assert message.tool_calls[0].function.name == "get_forecast"
            response = await agent.responses.create(model="fake", input=FORECAST, tools=RESPONSES)
            assert response.output[0].name == "get_forecast"
            raw = await agent.chat.completions.with_raw_response.create(
                model="fake", messages=[user(FORECAST)], tools=CHAT
            )
            assert raw.parse().choices[0].message.tool_calls[0].function.name == "get_forecast"
            streamed = agent.chat.completions.with_streaming_response
            async with streamed.create(model="fake", messages=[user(FORECAST)], tools=CHAT) as answer:
                assert "get_forecast" in await answer.text()

    asyncio.run(run())
    assert len(provider.sent) == 4 and all(len(names) <= K for names in provider.sent)


def test_tool_list_only_grows(provider: Provider) -> None:
    agent = narrow(client(provider), k=2)
    messages: list[Any] = [user(FORECAST)]
    ask(agent, messages)
    messages += [{"role": "assistant", "content": "No."}, user(REFUND)]
    ask(agent, messages)
    ask(agent, messages, tools=list(reversed(CHAT)))
    first, second, third = provider.sent
    assert "refund_payment" in second and second[: len(first)] == first
    assert len(first) < len(second) <= 4
    assert third == second, "the order of the offered tools does not matter"


def test_wrappers_share_engines_but_not_conversations(provider: Provider) -> None:
    ask(narrow(client(provider), k=1), [user(FORECAST)])
    ask(narrow(client(provider), k=1), [user(PARCEL)])
    assert provider.sent == [["get_forecast"], ["track_parcel"]]


def test_short_or_empty_tool_list_is_unchanged(provider: Provider) -> None:
    agent = narrow(client(provider), k=K)
    ask(agent, [user(FORECAST)], tools=CHAT[5 : 5 + K])
    agent.chat.completions.create(model="fake", messages=[user(FORECAST)])
    ask(agent, [user(FORECAST)], tools=openai.omit)
    assert provider.requests[0]["tools"] == CHAT[5 : 5 + K]
    assert "tools" not in provider.requests[1] and "tools" not in provider.requests[2]


def test_forced_kept_and_provider_tools_stay(provider: Provider) -> None:
    agent = narrow(client(provider), k=1, keep=["set_alarm", "not_there"])
    choice = {"type": "function", "function": {"name": "merge_branch"}}
    ask(agent, [user(FORECAST)], tool_choice=choice)
    assert set(provider.sent[0]) == {"get_forecast", "set_alarm", "merge_branch"}
    own = [*RESPONSES[:10], {"type": "web_search"}, *RESPONSES[10:]]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "find_route"}]}
    fresh = narrow(client(provider), k=1)
    fresh.responses.create(model="fake", input=FORECAST, tools=own, tool_choice=allowed)
    assert set(provider.sent[1]) == {"web_search", "get_forecast", "find_route"}


def test_excluded_tool_is_never_sent(provider: Provider) -> None:
    access = {"exclude": ["delete_account"]}
    agent = narrow(client(provider), k=K, access=access, keep=["delete_account"])
    wants = [user("Delete the account of user 9 for good with delete_account")]
    ask(agent, wants)
    ask(agent, [*wants, {"role": "assistant", "content": "Really?"}, user("yes, delete_account")])
    ask(agent, wants, tools=CHAT[5:8])
    narrow(client(provider), k=50, access=access).responses.create(model="fake", input="x", tools=RESPONSES)
    agent.with_options(timeout=9).chat.completions.with_raw_response.create(model="fake", messages=wants, tools=CHAT)
    assert len(provider.sent) == 5 and all(names and "delete_account" not in names for names in provider.sent)
    assert provider.sent[2] == ["refund_payment", "translate_text"]
    assert len(provider.sent[3]) == len(NAMES) - 1


def test_failure_with_access_sends_nothing(provider: Provider) -> None:
    agent = narrow(client(provider), k=K, access={"exclude": ["delete_account"]})
    forced = {"type": "function", "function": {"name": "delete_account"}}
    with pytest.raises(picktools.ArgumentError, match="delete_account"):
        ask(agent, [user(FORECAST)], tool_choice=forced)
    with pytest.raises(picktools.ArgumentError):
        ask(agent, [user(FORECAST)], tools=[*CHAT, CHAT[0]])
    with pytest.raises(picktools.ArgumentError):
        ask(agent, [user(FORECAST)], extra_body={"tools": CHAT})
    with pytest.raises(picktools.PicktoolsError):
        ask(narrow(client(provider), k=K, access={"exclude": ["no_such_tool"]}), [user(FORECAST)])
    assert provider.requests == []


def test_many_excluded_tools_are_never_sent(provider: Provider) -> None:
    function = {"description": "Tells the weather", "parameters": schema([])}
    many = [{"type": "function", "function": {"name": f"weather_{number}", **function}} for number in range(120)]
    hidden = [f"weather_{number}" for number in range(110)]
    agent = narrow(client(provider), k=100, access={"exclude": hidden}, keep=hidden)
    ask(agent, [user("weather")], tools=many)
    assert sorted(provider.sent[0]) == sorted(f"weather_{number}" for number in range(110, 120))


def test_failure_without_access_sends_all_tools(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    def fails(texts: list[str]) -> Any:
        raise RuntimeError("no model today")

    ask(narrow(client(provider), k=K, model=fails), [user(FORECAST)])
    ask(narrow(client(provider), k=K), [user(FORECAST)], tools=[*CHAT, CHAT[0]])
    ask(narrow(client(provider), k=K), [{"role": "system", "content": "Be kind"}])
    assert provider.sent == [NAMES, [*NAMES, NAMES[0]], NAMES]
    assert [record.name for record in caplog.records].count("picktools") == 2


def test_misspelt_option_raises_with_and_without_access(provider: Provider) -> None:
    with pytest.raises(picktools.ArgumentError, match="min_scor"):
        ask(narrow(client(provider), k=K, min_scor=0.5), [user(FORECAST)])
    assert provider.requests == []


def test_k_below_one_raises(provider: Provider) -> None:
    with pytest.raises(picktools.ArgumentError, match="at least one"):
        narrow(client(provider), k=0)
