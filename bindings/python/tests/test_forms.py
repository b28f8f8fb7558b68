"""The forms of calls in `fixtures/calls/forms.json`, as the Python package reads them."""

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


def test_long_number_is_refused(engine: picktools.Engine) -> None:
    call = {"name": "get_order", "arguments": {"order_id": 12345678901234567890123}}
    with pytest.raises(picktools.errors.ArgumentError, match="more than 64 bits"):
        engine.validate([call])
