"""Agents of LlamaIndex with retrieved tools and a scripted model."""

import asyncio
from typing import Any

import picktools
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage, ChatResponse
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import BaseTool, FunctionTool
from picktools.llama_index import ToolRetriever

TOOLS = {
    "tune_telescope": "Points the telescope at a star",
    "open_dome": "Opens the dome of the observatory",
    "close_dome": "Closes the dome of the observatory",
    "take_photo": "Takes a photo of the sky with a long exposure",
    "cool_camera": "Cools the camera down",
    "list_comets": "Lists the comets that can be seen tonight",
    "predict_eclipse": "Tells when the moon covers the sun",
    "measure_brightness": "Measures how bright a star is",
    "name_asteroid": "Gives an asteroid a name",
    "erase_archive": "Erases all photos of the archive",
    "search_archive": "Looks for photos in the archive",
    "book_night": "Reserves a night of observing for somebody",
    "invite_school": "Invites a class of pupils to a tour",
    "sell_ticket": "Sells a ticket for the planetarium",
    "check_clouds": "Tells whether clouds are in the way",
    "log_visit": "Writes a visit into the guest book",
    "repair_mirror": "Orders the mirror to be polished",
    "order_coffee": "Orders coffee for the night shift",
    "heat_office": "Warms up the office",
    "call_taxi": "Calls a taxi for the way home",
}


class ScriptedModel(MockFunctionCallingLLM):
    """Calls the tool `wanted` once, and then answers with text."""

    wanted: str = ""
    offered: list[list[str]] = []

    async def achat_with_tools(  # type: ignore[override]
        self, tools: Any, chat_history: Any = None, **kwargs: Any
    ) -> ChatResponse:
        self.offered.append([tool.metadata.name for tool in tools])
        asked = chat_history[-1].role == "user"
        message = ChatMessage(role="assistant", content="" if asked else "Done.")
        return ChatResponse(message=message, raw={"call": asked, "detail": chat_history[-1].content})

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        raw: Any = response.raw
        given = {"detail": raw["detail"]}
        return [ToolSelection(tool_id="1", tool_name=self.wanted, tool_kwargs=given)] if raw["call"] else []


def observatory(calls: list[tuple[str, str]]) -> list[BaseTool]:
    def make(name: str) -> BaseTool:
        def run(detail: str) -> str:
            calls.append((name, detail))
            return "all right"

        return FunctionTool.from_defaults(run, name=name, description=TOOLS[name])

    return [make(name) for name in TOOLS]


def names(tools: list[BaseTool]) -> list[str | None]:
    return [tool.metadata.name for tool in tools]


def answer(retriever: ToolRetriever, model: ScriptedModel, request: str) -> str:
    async def run() -> str:
        agent = FunctionAgent(llm=model, tool_retriever=retriever, streaming=False)
        return str(await agent.run(user_msg=request))

    return asyncio.run(run())


def test_model_is_offered_the_needed_tools() -> None:
    calls: list[tuple[str, str]] = []
    model, retriever = ScriptedModel(wanted="list_comets", offered=[]), ToolRetriever(observatory(calls), k=4)
    request = "which comets are there to be seen tonight?"
    assert answer(retriever, model, request) == "Done."
    assert calls == [("list_comets", request)]
    assert model.offered and all(len(offered) <= 4 and "list_comets" in offered for offered in model.offered)


def test_excluded_tool_is_neither_offered_nor_called() -> None:
    calls: list[tuple[str, str]] = []
    model = ScriptedModel(wanted="erase_archive", offered=[])
    retriever = ToolRetriever(observatory(calls), k=20, access={"exclude": ["erase_archive"]}, min_score=0.0)
    assert answer(retriever, model, "use erase_archive to erase the photos of the archive") == "Done."
    assert not calls
    assert all("erase_archive" not in offered and "search_archive" in offered for offered in model.offered)
    assert "erase_archive" not in names(retriever.retrieve("erase_archive"))


def test_sync_and_async_retrieval_are_equal() -> None:
    tools = observatory([])
    retriever = ToolRetriever(tools, k=3)
    queries: list[Any] = ["is the sky cloudy tonight?", QueryBundle("is the sky cloudy tonight?")]
    for query in queries:
        found = retriever.retrieve(query)
        assert "check_clouds" in names(found) and len(found) <= 3 and all(tool in tools for tool in found)
        assert asyncio.run(retriever.aretrieve(query)) == found
    assert all(name in names(retriever.retrieve(name)) for name in TOOLS)


def test_policies_apply_to_plain_functions() -> None:
    def polish(detail: str) -> str:
        """Polishes the lens of the telescope"""
        return detail

    policies = {"polish": {"allowed_roles": ["keeper"]}}
    keeper: Any = {"roles": ["keeper"]}
    for access, is_given in [(None, False), (keeper, True)]:
        retriever = ToolRetriever([*observatory([]), polish], k=3, access=access, policies=policies)
        assert ("polish" in names(retriever.retrieve("polish the lens"))) == is_given


def test_unknown_tool_name_raises() -> None:
    retriever = ToolRetriever(observatory([]), access={"exclude": ["erase_archives"]})
    with pytest.raises(picktools.PicktoolsError):
        retriever.retrieve("erase all photos")
