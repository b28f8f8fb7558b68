"""Calls that wait for approval, and results for the model."""

import time
from typing import Any

import picktools
import pytest

TOOLS = [
    {
        "name": "pay_bill",
        "description": "Pays a bill",
        "parameters": {
            "type": "object",
            "properties": {"amount": {"type": "integer"}},
            "required": ["amount"],
        },
        "safety": {"required_approvals": ["finance"]},
    },
    {
        "name": "get_bill",
        "description": "Shows a bill",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "string"}},
            "required": ["number"],
        },
    },
]


@pytest.fixture(scope="module")
def engine() -> picktools.Engine:
    return picktools.Engine(picktools.Catalog.from_tools(TOOLS))


def answer(*calls: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """An answer of Anthropic with calls: id, name, input."""
    return {"content": [{"type": "tool_use", "id": call_id, "name": name, "input": given} for call_id, name, given in calls]}


def test_waiting_call_has_its_id_and_reason(engine: picktools.Engine) -> None:
    (call,) = engine.validate([{"id": "call_7", "name": "pay_bill", "arguments": {"amount": "5"}}])
    assert (call.status, call.id, call.arguments) == ("needs_approval", "call_7", {"amount": 5})
    assert call.awaits == "it must be approved by finance"
    assert call.to_dict()["id"] == "call_7"


def test_approved_call_is_ready_once(engine: picktools.Engine) -> None:
    approvals = picktools.Approvals()
    (call,) = engine.validate([{"id": "call_7", "name": "pay_bill", "arguments": {"amount": 5}}])
    ticket = approvals.add(call)
    ((waiting_ticket, waiting),) = approvals.waiting
    assert (waiting_ticket, waiting.id, waiting.arguments) == (ticket, "call_7", {"amount": 5})
    ready = approvals.approve(ticket)
    assert (ready.status, ready.id, ready.awaits) == ("ready", "call_7", None)
    assert approvals.waiting == []
    for decide in (approvals.approve, approvals.deny):
        with pytest.raises(picktools.ArgumentError, match="decided already"):
            decide(ticket)


def test_results_have_the_form_of_the_provider(engine: picktools.Engine) -> None:
    translation = engine.translate("anthropic")
    approvals = picktools.Approvals(60)
    calls = engine.validate(
        answer(
            ("a", "get_bill", {"number": "12"}),
            ("b", "pay_bill", {"amount": 5}),
            ("c", "pay_bill", {"amount": 6}),
            ("d", "get_bil", {"number": "12"}),
        ),
        translation=translation,
    )
    shown, paid, denied, refused = calls
    paid = approvals.approve(approvals.add(paid))
    denied = approvals.deny(approvals.add(denied))
    outcomes = [shown.result({"total": 5}), paid.failed("the bank is closed"), denied.failed(), refused.failed()]
    (message,) = picktools.results("anthropic", outcomes)
    parts = {part["tool_use_id"]: part for part in message["content"]}
    assert parts["a"]["content"] == '{"total":5}'
    assert (parts["b"]["content"], parts["b"]["is_error"]) == ("the bank is closed", True)
    assert (parts["c"]["content"], parts["c"]["is_error"]) == ("the call was not approved", True)
    assert "get_bill" in parts["d"]["content"] and parts["d"]["is_error"]


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "gemini", "ollama", "mcp"])
def test_every_provider_has_results(engine: picktools.Engine, provider: Any) -> None:
    (call,) = engine.validate([{"id": "call_7", "name": "get_bill", "arguments": {"number": "12"}}])
    (result,) = picktools.results(provider, [call.result("five")])
    assert "five" in str(result)
    assert picktools.results(provider, []) == []


def test_result_without_an_id_is_refused_where_the_provider_needs_one(engine: picktools.Engine) -> None:
    (call,) = engine.validate([{"name": "get_bill", "arguments": {"number": "12"}}])
    with pytest.raises(picktools.ArgumentError, match="id"):
        picktools.results("openai", [call.result("five")])


def test_waiting_call_expires(engine: picktools.Engine) -> None:
    approvals = picktools.Approvals(lifetime=0.01)
    (call,) = engine.validate([{"name": "pay_bill", "arguments": {"amount": 5}}])
    ticket = approvals.add(call)
    time.sleep(0.05)
    assert approvals.waiting == []
    with pytest.raises(picktools.ArgumentError, match="expired"):
        approvals.approve(ticket)


def test_calls_are_used_only_in_their_state(engine: picktools.Engine) -> None:
    ready, waiting, refused = engine.validate(
        [
            {"name": "get_bill", "arguments": {"number": "12"}},
            {"name": "pay_bill", "arguments": {"amount": 5}},
            {"name": "pay_bill", "arguments": {}},
        ]
    )
    approvals = picktools.Approvals()
    for call in (ready, refused):
        with pytest.raises(picktools.ArgumentError, match="need approval"):
            approvals.add(call)
    for call in (waiting, refused):
        with pytest.raises(picktools.ArgumentError, match="cannot run"):
            call.result("done")
    with pytest.raises(picktools.ArgumentError, match="why"):
        ready.failed()


def test_values_of_a_wrong_type_are_refused(engine: picktools.Engine) -> None:
    any_engine: Any = engine
    approvals: Any = picktools.Approvals()
    results: Any = picktools.results
    (call,) = any_engine.validate([{"name": "get_bill", "arguments": {"number": "12"}}])
    for use in (
        lambda: approvals.add({"name": "pay_bill"}),
        lambda: approvals.approve("1"),
        lambda: approvals.deny(None),
        lambda: picktools.Approvals("long"),  # type: ignore[arg-type]
        lambda: results("openai", [call]),
        lambda: call.failed(7),
    ):
        with pytest.raises(picktools.ArgumentTypeError):
            use()
    with pytest.raises(picktools.ArgumentError, match="lifetime"):
        picktools.Approvals(-1)
