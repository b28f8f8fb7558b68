"""Agents with Anthropic's client and the fake provider."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

anthropic = pytest.importorskip("anthropic")

import fake_provider  # noqa: E402
from fake_provider import TOOLS, Provider, schema  # noqa: E402

import picktools  # noqa: E402
from picktools.anthropic import narrow  # noqa: E402

K = 5
OWN = [{"name": name, "description": text, "input_schema": schema(arguments)} for name, text, arguments in TOOLS]
REFUND = "The customer wants the money of payment 31 back"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with fake_provider.serve() as provider:
        yield provider


def client(provider: Provider) -> Any:
    return anthropic.Anthropic(api_key="none", base_url=provider.url, max_retries=0)


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ask(client: Any, messages: list[Any], **more: Any) -> Any:
    return client.messages.create(model="fake", max_tokens=9, messages=messages, **{"tools": OWN, **more})


def calls_refund(names: list[str]) -> tuple[str, dict[str, str]]:
    assert "refund_payment" in names
    return "refund_payment", {"payment": "31"}


def test_agent_calls_the_right_tool(provider: Provider) -> None:
    provider.choose = calls_refund
    agent, messages, called = narrow(client(provider), k=K), [user(REFUND)], []
    while True:
        answer = ask(agent, messages, system="You are a clerk")
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        called += [(call.name, call.input) for call in calls]
        messages.append(user([{"type": "tool_result", "tool_use_id": call.id, "content": "paid"} for call in calls]))
    assert answer.content[0].text == "done"
    assert called == [("refund_payment", {"payment": "31"})]
    assert len(provider.sent) == 2 and provider.sent[0] == provider.sent[1]
    assert len(provider.sent[0]) <= K
    assert all(tool in OWN for tool in provider.requests[0]["tools"])
    assert provider.requests[0]["system"] == "You are a clerk"


def test_streams_and_token_counts_send_few_tools(provider: Provider) -> None:
    agent = narrow(client(provider), k=K)
    with agent.messages.stream(model="fake", max_tokens=9, messages=[user(REFUND)], tools=OWN) as stream:
        assert "".join(stream.text_stream) == "done"
    agent.messages.count_tokens(model="fake", messages=[user(REFUND)], tools=OWN)
    assert "refund_payment" in provider.sent[0] and len(provider.sent[0]) <= K
    assert provider.sent[1] == provider.sent[0]


def test_async_client_sends_few_tools(provider: Provider) -> None:
    async def run() -> None:
        whole = anthropic.AsyncAnthropic(api_key="none", base_url=provider.url, max_retries=0)
        async with narrow(whole, k=K) as agent:
            assert (await ask(agent, [user(REFUND)])).content[0].text == "done"
            stream = agent.messages.stream(model="fake", max_tokens=9, messages=[user(REFUND)], tools=OWN)
            async with stream as events:
                assert await events.get_final_text() == "done"

    asyncio.run(run())
    assert len(provider.sent) == 2
    assert all("refund_payment" in names and len(names) <= K for names in provider.sent)


def test_tool_runner_is_narrowed(provider: Provider) -> None:
    ran = []

    def tool(name: str, text: str) -> Any:
        def function(payment: str) -> str:
            ran.append((name, payment))
            return "paid"

        return anthropic.beta_tool(function, name=name, description=text)

    provider.choose = calls_refund
    tools = [tool(name, text) for name, text, _ in TOOLS]
    agent = narrow(client(provider), k=K)
    runner = agent.beta.messages.tool_runner(model="fake", max_tokens=9, messages=[user(REFUND)], tools=tools)
    assert runner.until_done().content[0].text == "done"
    assert ran == [("refund_payment", "31")]
    # The provider stores the conversation with its tools.
    assert len(provider.sent[0]) <= K and provider.sent[1] == []


def test_tool_list_grows_and_cache_mark_moves_to_its_end(provider: Provider) -> None:
    marked = [*OWN[:-1], {**OWN[-1], "cache_control": {"type": "ephemeral"}}]
    agent, messages = narrow(client(provider), k=3), [user(REFUND)]
    ask(agent, messages, tools=marked)
    messages += [{"role": "assistant", "content": "Done."}, user("Now wake me up at seven")]
    ask(agent, messages, tools=marked)
    first, second = provider.sent
    assert second[: len(first)] == first and len(first) < len(second) <= 6 and "set_alarm" in second
    for request in provider.requests:
        assert [tool.get("cache_control") for tool in request["tools"][:-1]] == [None] * (len(request["tools"]) - 1)
        assert request["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" in marked[-1], "what the caller gave is not changed"


def test_short_tool_list_is_unchanged(provider: Provider) -> None:
    few = [{**OWN[3], "cache_control": {"type": "ephemeral"}}, *OWN[5:8]]
    ask(narrow(client(provider), k=K), [user(REFUND)], tools=few)
    assert provider.requests[0]["tools"] == few


def test_forced_kept_and_provider_tools_stay(provider: Provider) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    agent = narrow(client(provider), k=1, keep=["set_alarm"])
    ask(agent, [user(REFUND)], tools=[*OWN, search], tool_choice={"type": "tool", "name": "play_song"})
    assert set(provider.sent[0]) == {"web_search", "refund_payment", "set_alarm", "play_song"}


def test_excluded_tool_is_never_sent(provider: Provider) -> None:
    agent = narrow(client(provider), k=K, access={"exclude": ["refund_payment"]}, keep=["refund_payment"])
    ask(agent, [user(REFUND)])
    ask(agent, [user(REFUND)], tools=OWN[4:7])
    agent.beta.messages.thread(model="fake", max_tokens=9, tools=OWN).send(user(REFUND))
    assert all(names and "refund_payment" not in names for names in provider.sent) and len(provider.sent) == 3
    with pytest.raises(picktools.ArgumentError, match="refund_payment"):
        ask(agent, [user(REFUND)], tool_choice={"type": "tool", "name": "refund_payment"})
    assert len(provider.requests) == 3
