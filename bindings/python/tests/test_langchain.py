"""Agents of LangChain with narrowed tools and a scripted model."""

import asyncio
from typing import Any

import picktools
import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from picktools.langchain import ToolPicker

TOOLS = {
    "water_plants": "Opens the valve of a flower bed for some minutes",
    "mow_lawn": "Sends the robot mower over the grass",
    "play_song": "Plays a song on the loudspeakers of a room",
    "dim_lights": "Sets how bright the lamps of a room are",
    "lock_door": "Locks a door of the house",
    "order_groceries": "Orders food from the supermarket",
    "start_dishwasher": "Starts washing the dishes",
    "read_thermometer": "Tells the temperature in a room",
    "set_alarm": "Wakes somebody at an hour of the morning",
    "send_letter": "Prints a letter and posts it",
    "transfer_money": "Transfers money from the bank account to somebody",
    "show_balance": "Tells how much money is on the bank account",
    "book_dentist": "Makes an appointment at the dentist",
    "find_recipe": "Looks for a recipe to cook with what is in the fridge",
    "translate_text": "Translates text into another language",
    "plan_route": "Finds the way from one place to another by bicycle",
    "feed_cat": "Gives the cat a portion from the feeder",
    "close_blinds": "Lowers the blinds of a window",
    "charge_car": "Charges the battery of the car",
    "vacuum_floor": "Sends the robot over the floor to vacuum",
}


class ScriptedModel(BaseChatModel):
    """Calls the tool `wanted` once, and then answers with text."""

    wanted: str
    offered: list[list[Any]]

    @property
    def _llm_type(self) -> str:
        return "played"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.offered.append([tool.name if isinstance(tool, BaseTool) else tool for tool in tools])
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        call = {"name": self.wanted, "args": {"detail": str(messages[-1].text)}, "id": "1"}
        asked = isinstance(messages[-1], HumanMessage)
        answer = AIMessage(content="", tool_calls=[call]) if asked else AIMessage(content="Done.")
        return ChatResult(generations=[ChatGeneration(message=answer)])


def house(calls: list[tuple[str, str]]) -> list[BaseTool]:
    def make(name: str) -> BaseTool:
        def run(detail: str) -> str:
            calls.append((name, detail))
            return "all right"

        return StructuredTool.from_function(run, name=name, description=TOOLS[name])

    return [make(name) for name in TOOLS]


def ask(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize("is_async", [False, True])
def test_model_is_offered_the_needed_tools(is_async: bool) -> None:
    calls: list[tuple[str, str]] = []
    model, picker = ScriptedModel(wanted="water_plants", offered=[]), ToolPicker(k=4)
    agent = create_agent(model, house(calls), middleware=[picker])
    request = "the flower bed is dry, please water it"
    answer = asyncio.run(agent.ainvoke(ask(request))) if is_async else agent.invoke(ask(request))
    assert answer["messages"][-1].content == "Done."
    assert "picktools_offered" not in answer
    assert calls == [("water_plants", request)]
    first, second = model.offered
    assert len(first) <= 4 and "water_plants" in first
    assert second == first
    assert picker._engine.cache_info().misses == 1


def test_tool_list_of_a_thread_only_grows() -> None:
    calls: list[tuple[str, str]] = []
    model, picker = ScriptedModel(wanted="feed_cat", offered=[]), ToolPicker(k=3)
    agent = create_agent(model, house(calls), middleware=[picker], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "one"}}
    agent.invoke(ask("give the cat its food"), thread)
    model.wanted = "charge_car"
    agent.invoke(ask("charge the battery of my car"), thread)
    before, after = model.offered[0], model.offered[-1]
    assert "charge_car" not in before and "charge_car" in after
    assert after[: len(before)] == before
    assert len(after) <= 6
    agent.invoke(ask("charge the battery of my car"), {"configurable": {"thread_id": "another"}})
    assert len(model.offered[-1]) <= 3
    assert picker._engine.cache_info().misses == 1


def test_called_tool_of_a_transcript_stays() -> None:
    model = ScriptedModel(wanted="charge_car", offered=[])
    call = {"name": "feed_cat", "args": {"detail": "now"}, "id": "0"}
    messages: Any = [
        HumanMessage("give the cat its food"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("all right", tool_call_id="0"),
        HumanMessage("charge the battery of my car"),
    ]
    create_agent(model, house([]), middleware=[ToolPicker(k=1)]).invoke({"messages": messages})
    assert sorted(model.offered[0]) == ["charge_car", "feed_cat"]


def test_excluded_tool_is_never_offered() -> None:
    model = ScriptedModel(wanted="show_balance", offered=[])
    picker = ToolPicker(k=20, access={"exclude": ["transfer_money"]}, keep=["lock_door"], min_score=0.0)
    agent = create_agent(model, house([]), middleware=[picker])
    agent.invoke(ask("use transfer_money to transfer money from the bank account"))
    assert all("transfer_money" not in offered and "lock_door" in offered for offered in model.offered)
    assert "show_balance" in model.offered[0]


@pytest.mark.parametrize("is_async", [False, True])
def test_tool_that_was_not_offered_is_refused(is_async: bool) -> None:
    calls: list[tuple[str, str]] = []
    model = ScriptedModel(wanted="transfer_money", offered=[])
    picker = ToolPicker(k=3, access={"exclude": ["transfer_money"]})
    agent = create_agent(model, house(calls), middleware=[picker])
    question = ask("transfer money to Ada")
    done = asyncio.run(agent.ainvoke(question)) if is_async else agent.invoke(question)
    told = [message for message in done["messages"] if isinstance(message, ToolMessage)]
    assert calls == [] and told[0].status == "error" and "was not offered" in str(told[0].text)


def test_tool_excluded_later_is_no_longer_offered() -> None:
    access: Any = {}
    model = ScriptedModel(wanted="transfer_money", offered=[])
    picker = ToolPicker(k=3, access=lambda request: access, keep=["transfer_money"])
    agent = create_agent(model, house([]), middleware=[picker], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "one"}}
    agent.invoke(ask("transfer money to the dentist"), thread)
    assert "transfer_money" in model.offered[-1]
    access["exclude"] = ["transfer_money"]
    model.wanted = "show_balance"
    agent.invoke(ask("transfer money once more, and tell the balance"), thread)
    assert "transfer_money" not in model.offered[-1]
    assert "show_balance" in model.offered[-1]


def test_roles_and_hints_of_metadata_apply() -> None:
    tools = house([])
    tools[10].metadata = {"picktools": {"allowed_roles": ["owner"]}}
    tools[4].metadata = {"destructiveHint": True}
    owner: Any = {"roles": ["owner"], "allow_unsafe": True}
    for access, is_offered in [(None, False), (owner, True)]:
        model = ScriptedModel(wanted="show_balance", offered=[])
        agent = create_agent(model, tools, middleware=[ToolPicker(k=8, access=access)])
        agent.invoke(ask("transfer money from the bank account and lock the door"))
        assert ("transfer_money" in model.offered[0], "lock_door" in model.offered[0]) == (is_offered, is_offered)


def test_provider_tools_stay() -> None:
    model, native = ScriptedModel(wanted="mow_lawn", offered=[]), {"type": "web_search"}
    agent = create_agent(model, [*house([]), native], middleware=[ToolPicker(k=2)])
    agent.invoke(ask("mow the grass"))
    assert native in model.offered[0] and "mow_lawn" in model.offered[0] and len(model.offered[0]) <= 3


@pytest.mark.parametrize("picker", [ToolPicker(access={"exclude": ["transfer_mony"]}), ToolPicker(keep=["lock_doors"])])
def test_unknown_tool_name_raises(picker: ToolPicker) -> None:
    model = ScriptedModel(wanted="mow_lawn", offered=[])
    with pytest.raises(picktools.PicktoolsError):
        create_agent(model, house([]), middleware=[picker]).invoke(ask("mow the grass"))
    assert not model.offered
