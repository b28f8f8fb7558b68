"""The forms of calls in `fixtures/calls/forms.json`, as the Python package reads them."""

import decimal
import json
import pathlib

import picktools
import pytest
from conftest import REPOSITORY

FORMS = json.loads((REPOSITORY / "fixtures" / "calls" / "forms.json").read_text())


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> picktools.Engine:
    path: pathlib.Path = tmp_path_factory.mktemp("forms") / "tools.jsonl"
    lines = []
    for server, tools in FORMS["servers"].items():
        for tool in tools:
            native = {
                "name": tool["name"],
                "source": server,
                "description": tool["description"],
                "parameters": tool["inputSchema"],
                "annotations": tool["annotations"],
            }
            lines.append(json.dumps(native))
    path.write_text("\n".join(lines))
    return picktools.Engine(picktools.Catalog.open(path))


def outcome(call: picktools.Call) -> dict[str, object]:
    answer = call.to_dict()
    if answer["status"] == "ready":
        return {"tool": answer["tool"], "expected": answer["arguments"]}
    code = answer["error"]["code"]
    return {"refused": "invalid_arguments" if code in ("invalid", "malformed") else code}


@pytest.mark.parametrize("form", FORMS["forms"], ids=lambda form: form["title"])
def test_call_form_has_its_outcome(engine: picktools.Engine, form: dict[str, object]) -> None:
    (call,) = engine.validate([{"name": form["name"], "arguments": form["arguments"]}])
    expected = {key: form[key] for key in ("tool", "expected", "refused") if key in form}
    assert outcome(call) == expected


LONG = 12345678901234567890123
LONG_DECIMAL = decimal.Decimal("0.12345678901234567890123")


@pytest.mark.parametrize("number", [LONG, -LONG, LONG_DECIMAL, float("nan"), float("inf")], ids=str)
@pytest.mark.parametrize("provider", [None, "anthropic", "gemini"])
def test_unfit_number_is_refused(engine: picktools.Engine, number: object, provider: str | None) -> None:
    arguments = {"minTotal": number, "ids": [1]}
    calls: object = [{"name": "list_orders", "arguments": arguments}]
    translation = None
    if provider is not None:
        translation = engine.translate(provider)
        name = next(name for name, tool in translation.names.items() if tool == "orders/list_orders")
        calls = {
            "anthropic": {"content": [{"type": "tool_use", "id": "1", "name": name, "input": arguments}]},
            "gemini": {
                "candidates": [
                    {"content": {"parts": [{"functionCall": {"name": name, "args": arguments}}]}}
                ]
            },
        }[provider]
    (call,) = engine.validate(calls, translation=translation)
    assert call.status == "refused"
    assert call.message is not None and str(number) in call.message.replace("NaN", "nan")
    assert "minTotal" in call.message


@pytest.mark.parametrize("number", [LONG, LONG_DECIMAL, decimal.Decimal("7")], ids=str)
def test_number_for_text_keeps_its_digits(engine: picktools.Engine, number: object) -> None:
    (call,) = engine.validate([{"name": "get_order", "arguments": {"order_id": number}}])
    assert call.arguments == {"order_id": str(number)}


def test_decimal_is_a_number(engine: picktools.Engine) -> None:
    arguments = {"minTotal": decimal.Decimal("4.50"), "limit": decimal.Decimal("7")}
    (call,) = engine.validate([{"name": "list_orders", "arguments": arguments}])
    assert call.arguments == {"minTotal": 4.5, "limit": 7}
