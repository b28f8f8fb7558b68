"""Tests of the engine from Python."""

import asyncio
import os
import pathlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable

import picktools
import pytest
from conftest import REPOSITORY, WORKPLACE

MEETING = {"name": "book_room", "description": "Books a meeting room", "parameters": {}}
WEATHER = {"name": "get_forecast", "description": "Weather for the coming days", "parameters": {}}
REFUND = {
    "name": "refund",
    "description": "Sends a customer their money back",
    "parameters": {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]},
    "allowed_roles": ["finance"],
}


def small() -> picktools.Engine:
    return picktools.Engine(picktools.Catalog.from_tools([MEETING, WEATHER, REFUND]))


def test_pick_has_tool_score_and_reason(engine: picktools.Engine) -> None:
    selection = engine.pick("make this picture smaller", 2)
    assert [pick.tool.id for pick in selection] == ["media/resize-image", "media/generate-image"]
    first = selection[0]
    assert 0.5 < first.score <= 1 and "picture" in first.reason and first.provenance
    assert selection[-1].tool == selection.picks[1].tool and len(selection) == 2
    assert first.tool.parameters and first.tool.source == "media" and not first.tool.is_unsafe
    assert selection.to_dict()["picks"][0]["tool"]["id"] == "media/resize-image"
    assert set(selection.timings) >= {"keyword", "semantic"} and selection.degraded == []


def test_access_limits_picks_and_calls() -> None:
    engine = small()
    anyone = engine.pick("give the customer the money back")
    assert "refund" not in [pick.tool.id for pick in anyone] and anyone.ineligible["counts"] == {"role": 1}
    clerk = engine.pick("give the customer the money back", access={"roles": ["finance"]})
    assert clerk[0].tool.id == "refund"
    call = {"id": "1", "name": "refund", "arguments": '{"amount": 5,}'}
    assert [result.status for result in engine.validate([call])] == ["refused"]
    (result,) = engine.validate([call], access={"roles": ["finance"]})
    assert (result.status, result.arguments, result.id) == ("ready", {"amount": 5}, "1")
    (wrong,) = engine.validate({"name": "refund", "arguments": {}}, access={"roles": ["finance"]})
    assert wrong.status == "refused" and wrong.tool is None and "amount" in (wrong.message or "")


def test_transcript_is_a_request(engine: picktools.Engine) -> None:
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "What can I do?"},
        {"role": "user", "content": "make this picture smaller"},
    ]
    assert engine.pick(messages)[0].tool.id == "media/resize-image"


def test_parallel_picks_equal_sequential_ones(engine: picktools.Engine) -> None:
    requests = ["book a room", "send an email to Ada", "restart the server", "what is new in the chat?"]
    alone = [engine.pick(request).to_json() for request in requests]
    assert [selection.to_json() for selection in engine.pick_batch(requests)] == alone

    async def awaited() -> list[str]:
        return [selection.to_json() for selection in await asyncio.gather(*map(engine.apick, requests))]

    assert asyncio.run(awaited()) == alone
    threads: list[list[str]] = []
    work = [
        threading.Thread(target=lambda: threads.append([engine.pick(r).to_json() for r in requests])) for _ in range(4)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert threads == [alone] * 4


def test_tool_call_validates_the_provider_answer(engine: picktools.Engine) -> None:
    sent: list[str] = []

    def ask(tools: list[dict[str, object]]) -> dict[str, object]:
        names = [tool["name"] for tool in tools]
        sent.extend(map(str, names))
        call = {"type": "tool_use", "id": "t1", "name": names[0], "input": {"to": ["ada@example.org"]}}
        return {"type": "message", "role": "assistant", "content": [call], "stop_reason": "tool_use"}

    (call,) = engine.tool_call("send an email to Ada", ask, "anthropic", 2)
    assert 1 <= len(sent) <= 2 and call.name == sent[0]
    translation = engine.translate("openai", ["mail/send_email"])
    assert [tool["function"]["name"] for tool in translation.tools] == ["send_email"]
    assert translation.names == {"send_email": "mail/send_email"}
    other = {"name": "post_message", "arguments": {"channel": "#a", "text": "b"}}
    assert engine.validate([other])[0].status == "ready"
    assert engine.validate([other], translation=translation)[0].status == "refused", "the tool was not shown"


def test_validate_reads_calls_in_text_on_request() -> None:
    weather = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"name": "weather", "description": "Weather", "parameters": weather}]
    engine = picktools.Engine(picktools.Catalog.from_tools(tools))
    translation = engine.translate("openai")
    text = 'Let me look.\n<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
    answer = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    assert engine.validate(answer, translation=translation) == []
    (call,) = engine.validate(answer, translation=translation, text_calls=True)
    assert (call.status, call.arguments) == ("ready", {"city": "Oslo"})


def test_resolve_equals_the_program(engine: picktools.Engine) -> None:
    assert engine.resolve("post_message")["tool"] == "chat/post_message"
    assert engine.resolve("postMessage")["tool"] == "chat/post_message"
    assert "mail/send_email" in engine.resolve("send_email")["candidates"]
    assert engine.resolve("no such tool")["suggestions"] is not None


def test_update_and_learn_return_new_engines() -> None:
    engine = small()
    more = engine.update(put=[{"name": "play_song", "description": "Plays music", "parameters": {}}], remove=["refund"])
    assert [tool.id for tool in more.catalog] == ["book_room", "get_forecast", "play_song"] and len(engine.catalog) == 3
    assert more.pick("some music please")[0].tool.id == "play_song"
    learned = engine.learn([("get_forecast", "do I need an umbrella for Oslo?")])
    assert "similar to a request it served" in learned.pick("take an umbrella or not")[0].reason
    with_examples = picktools.Engine(engine.catalog, examples=[("get_forecast", "do I need an umbrella for Oslo?")])
    assert with_examples.pick("take an umbrella or not")[0].tool.id == "get_forecast"


def test_saved_and_pickled_engines_pick_the_same(tmp_path: pathlib.Path, engine: picktools.Engine) -> None:
    expected = engine.pick("make this picture smaller").to_json()
    engine.save(tmp_path / "index")
    opened = picktools.Engine(picktools.Catalog.open(tmp_path / "index"))
    assert opened.pick("make this picture smaller").to_json() == expected
    assert pickle.loads(pickle.dumps(engine)).pick("make this picture smaller").to_json() == expected
    learned = small().learn([("get_forecast", "do I need an umbrella for Oslo?")])
    restored = pickle.loads(pickle.dumps(learned))
    assert restored.pick("an umbrella?").to_json() == learned.pick("an umbrella?").to_json()


def test_python_models_rank(catalog: picktools.Catalog) -> None:
    numpy = pytest.importorskip("numpy")

    def letters(texts: list[str]) -> object:
        return numpy.array([[text.lower().count(letter) + 0.1 for letter in "abcdefghijklmnop"] for text in texts])

    class Encoder:
        def encode(self, texts: list[str]) -> object:
            return letters(texts)

    arrays = picktools.Engine(catalog, letters)
    lists = picktools.Engine(catalog, lambda texts: letters(texts).tolist())  # type: ignore[attr-defined]
    encoder = picktools.Engine(catalog, Encoder(), model_name="letters")
    assert arrays.stats["dimensions"] == 16 and encoder.stats["model"] == "python/letters"
    ranked = [[(p.tool.id, p.score) for p in e.pick("send an email", mode="semantic")] for e in (arrays, lists, encoder)]
    assert len(ranked[0]) == 3 and ranked[0] == ranked[1] == ranked[2]
    assert picktools.Engine(catalog, None).stats["dimensions"] is None
    assert picktools.Engine(catalog, "tuned").pick("send an email")[0].tool.id == "mail/send_email"


def test_scorer_of_the_caller_ranks() -> None:
    engine = small()
    seen: list[tuple[str, list[str]]] = []

    def by_length(query: str, tools: list[picktools.Tool]) -> list[float]:
        seen.append((query, [tool.id for tool in tools]))
        return [1 / len(tool.name) for tool in tools]

    selection = engine.pick("weather of the coming days", scorer=by_length)
    assert [pick.tool.id for pick in selection] == ["book_room", "get_forecast"] and selection.scorer == "by_length"
    # The access policy is decided before the scorer runs.
    assert seen == [("weather of the coming days", ["book_room", "get_forecast"])] and selection.ineligible["total"] == 1
    assert engine.pick("weather of the coming days", scorer=by_length).to_json() == selection.to_json()
    assert engine.pick_batch(["weather of the coming days"], scorer=by_length)[0].to_json() == selection.to_json()
    assert asyncio.run(awaited(engine, by_length)).to_json() == selection.to_json()
    assert engine.pick("weather of the coming days", scorer=None)[0].tool.id == "get_forecast"
    engine.pick("weather of the coming days", scorer=by_length, shortlist=1)
    assert seen[-1][1] == ["get_forecast"]
    reasoned = engine.pick("anything", scorer=lambda query, tools: ((0.5, f"it is {tool.name}") for tool in tools))
    assert reasoned[0].reason == "it is book_room"
    scores = picktools.evaluate(engine, {"q": "rain"}, {"q": {"book_room": 1}}, measures=["Success@1"], scorer=by_length)
    assert scores["mean"] == {"Success@1": 1.0}, "of the tools without a role it has the shortest name"


async def awaited(engine: picktools.Engine, scorer: Callable[[str, list[picktools.Tool]], list[float]]) -> picktools.Selection:
    return await engine.apick("weather of the coming days", scorer=scorer)


@pytest.mark.parametrize(
    ("scorer", "reason"),
    [
        (lambda query, tools: 1 // 0, "ZeroDivisionError"),
        (lambda query, tools: [0.5], "gave 1 scores for 2 tools"),
        (lambda query, tools: [0.5] * 3, "gave 3 scores for 2 tools"),
        (lambda query, tools: None, "TypeError"),
        (lambda query, tools: ["good"] * 2, "TypeError"),
        (lambda query: [0.5], "TypeError"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"timeout_ms": 5000}])
def test_fault_of_a_scorer_is_reported(scorer: Callable[..., list[float]], reason: str, options: dict[str, int]) -> None:
    selection = small().pick("weather of the coming days", scorer=scorer, **options)
    assert [pick.tool.id for pick in selection] == ["book_room", "get_forecast"], "the order of the catalog stays"
    (degraded,) = selection.degraded
    assert degraded["stage"] == "scorer" and reason in degraded["reason"]
    fallback = small().pick("weather of the coming days", scorer=scorer, shortlist=2, **options)
    assert fallback[0].tool.id == "get_forecast" and reason in fallback.degraded[0]["reason"]


def test_score_that_is_no_number_leaves_its_tool_out() -> None:
    selection = small().pick("weather of the coming days", scorer=lambda query, tools: [float("nan"), 0.5])
    assert [pick.tool.id for pick in selection] == ["get_forecast"] and selection.degraded == []
    assert "book_room" in selection.scorer_errors[0]


def test_late_scorer_is_not_waited_for() -> None:
    late = threading.Event()

    def wait(query: str, tools: list[picktools.Tool]) -> list[float]:
        late.wait(30)
        return [1.0] * len(tools)

    selection = small().pick("weather of the coming days", scorer=wait, timeout_ms=100)
    late.set()
    assert "deadline" in selection.degraded[0]["reason"] and len(selection) == 2


def test_mcp_and_openapi_become_catalogs() -> None:
    tool = {"name": "now", "description": "Tells the time", "inputSchema": {"type": "object"}, "safe": True}
    catalog = picktools.Catalog.from_mcp({"tools": [tool]}, source="clock")
    assert [tool.id for tool in catalog] == ["clock/now"] and "safe" not in catalog["clock/now"].to_dict()
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": "https://pets.example"}],
        "paths": {"/pets": {"get": {"operationId": "listPets", "summary": "Lists pets", "responses": {}}}},
    }
    assert [tool.name for tool in picktools.Catalog.from_openapi(document)] == ["listPets"]
    assert "book_room" in picktools.Catalog.from_tools([MEETING])
    assert picktools.check([MEETING, MEETING])["findings"]


def test_evaluate_scores_a_ranking(engine: picktools.Engine) -> None:
    queries = {"a": "send an email", "b": "make this picture smaller"}
    qrels = {"a": {"mail/send_email": 1}, "b": {"mail/send_email": 1}}
    scores = picktools.evaluate(engine, queries, qrels, measures=["Success@1"])
    assert scores["mean"] == {"Success@1": 0.5}
    assert scores["per_query"] == {"a": {"Success@1": 1.0}, "b": {"Success@1": 0.0}}


def test_evaluate_ranks_unsafe_tools_and_counts_ineligible_ones() -> None:
    tools = [
        {"name": "delete_disk", "description": "Deletes a disk", "parameters": {}, "annotations": {"destructiveHint": True}},
        {"name": "list_disks", "description": "Lists all disks", "parameters": {}},
    ]
    engine = picktools.Engine(picktools.Catalog.from_tools(tools, source="cloud"))
    queries, qrels = {"a": "delete the old disk"}, {"a": {"cloud/delete_disk": 1}}
    scores = picktools.evaluate(engine, queries, qrels, measures=["Success@1"])
    assert scores["mean"] == {"Success@1": 1.0}
    assert "ineligible" not in scores
    scores = picktools.evaluate(engine, queries, qrels, measures=["Success@1"], access={})
    assert scores["mean"] == {"Success@1": 0.0}
    assert scores["ineligible"]["counts"] == {"unsafe": 1}
    assert scores["ineligible"]["unreachable_queries"] == 1


def test_notebook_table_is_escaped() -> None:
    tool = {"name": "x<script>", "id": "x<script>", "description": "Plays <b>music</b>", "parameters": {}}
    table = picktools.Engine(picktools.Catalog.from_tools([tool])).pick("play music")._repr_html_()
    assert "<script>" not in table and "x&lt;script&gt;" in table


@pytest.mark.parametrize("request_", [line for line in (REPOSITORY / "bindings/python/tests/requests.txt").read_text().splitlines()])
def test_json_equals_the_output_of_the_program(request_: str, engine: picktools.Engine, program: pathlib.Path) -> None:
    command = [program, "pick", request_, "--catalog", WORKPLACE, "--json"]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert engine.pick(request_).to_json(pretty=True) + "\n" == output


def in_child(work: Callable[[], bool]) -> bool:
    """Runs work in a forked process. Returns true if it returned true in time."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    done = threading.Event()
    status: list[int] = []

    def wait() -> None:
        status.append(os.waitpid(child, 0)[1])
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    if not done.wait(60):
        os.kill(child, 9)
        return False
    return status == [0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_process_works_or_raises(engine: picktools.Engine, catalog: picktools.Catalog) -> None:
    expected = engine.pick("send an email").to_json()
    tuned = picktools.Engine(catalog, "tuned")

    def refuses(work: Callable[[], object]) -> bool:
        try:
            work()
        except picktools.ForkedError:
            return True
        return False

    assert in_child(lambda: engine.pick("send an email").to_json() == expected)
    assert in_child(lambda: len(picktools.Engine(catalog).pick_batch(["send an email"])[0]) > 0)
    assert in_child(lambda: len(engine.update(put=[MEETING]).catalog) == 221)
    assert in_child(lambda: refuses(lambda: tuned.pick("send an email")))
    assert in_child(lambda: refuses(lambda: engine.pick("send an email", timeout_ms=100)))


def test_interrupt_ends_a_long_build() -> None:
    script = """
import picktools, signal, threading, time, os
# A background process may ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
tools = [{"name": f"t{n}", "description": f"Does {n}", "parameters": {}} for n in range(20000)]
catalog = picktools.Catalog.from_tools(tools)
def slow(texts):
    time.sleep(0.2 * (len(texts) > 1))
    return [[1.0, float(len(text))] for text in texts]
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
started = time.monotonic()
try:
    picktools.Engine(catalog, slow)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - started < 8)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert result.stdout == "interrupted True\n", result.stderr


def test_refused_skills_are_reported(tmp_path: pathlib.Path) -> None:
    for name, description in {"story": "Writes: stories", "quoted": "'It's a tool: yes'"}.items():
        (tmp_path / name).mkdir()
        text = f"---\nname: {name}\ndescription: {description}\n---\nDo it.\n"
        (tmp_path / name / "SKILL.md").write_text(text)
    (tmp_path / "other").mkdir()
    other = "---\nname: other\ndescription: Other.\nallowed-tools: no_such_tool\n---\nDo it.\n"
    (tmp_path / "other" / "SKILL.md").write_text(other)
    catalog = picktools.Catalog.from_tools([{"name": "a", "description": "b", "parameters": {}}])
    engine = picktools.Engine(catalog, skills=tmp_path)
    notices = engine.skill_notices
    assert len(notices) == 3
    assert any("story" in notice and "read as plain text" in notice for notice in notices)
    assert any("quoted" in notice and "line 3" in notice for notice in notices)
    assert any("no_such_tool" in notice for notice in notices)
    assert engine.learn([("a", "b")]).skill_notices == notices
    assert picktools.Engine(catalog).skill_notices == []


def test_catalog_without_schemas_needs_a_mode() -> None:
    tools = [{"name": "a", "description": "b"}]
    with pytest.raises(picktools.CatalogError, match="allow_no_schema=MODE"):
        picktools.Catalog.from_tools(tools)
    assert len(picktools.Catalog.from_tools(tools, allow_no_schema="read-only")) == 1
    with pytest.raises(picktools.ArgumentError, match="human-approval"):
        picktools.Catalog.from_tools(tools, allow_no_schema="sometimes")
