"""Names and patterns of excluded tools in `fixtures/names/patterns.json`, as the Python package reads them."""

import json
from typing import Any

import picktools
import pytest
from conftest import REPOSITORY

TABLE = json.loads((REPOSITORY / "fixtures" / "names" / "patterns.json").read_text())


@pytest.fixture(scope="module")
def engine() -> picktools.Engine:
    return picktools.Engine(picktools.Catalog.from_tools(TABLE["tools"]))


@pytest.mark.parametrize("case", TABLE["patterns"], ids=lambda case: case["pattern"])
def test_excluded_pattern_matches_its_tools(engine: picktools.Engine, case: dict[str, Any]) -> None:
    access: Any = {"exclude": [case["pattern"]]}
    if not case["tools"]:
        with pytest.raises(picktools.ArgumentError, match="exclude names"):
            engine.pick("handle things", access=access)
        with pytest.raises(picktools.ArgumentError, match="exclude names"):
            engine.validate([], access=access)
        return
    selection = engine.pick("handle things", access=access)
    assert sorted(tool["tool_id"] for tool in selection.ineligible["tools"]) == case["tools"]
    calls = [{"name": f"{tool['source']}/{tool['name']}", "arguments": {}} for tool in TABLE["tools"]]
    validated = engine.validate(calls, access=access)
    refused = [call["name"] for call, result in zip(calls, validated, strict=True) if result.status == "refused"]
    assert sorted(refused) == case["tools"]
