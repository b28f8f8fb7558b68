"""Invalid input raises an exception that names the argument."""

import pathlib
from collections.abc import Callable
from typing import Any

import picktools
import pytest

NAN = float("nan")
DEEP: list[Any] = []
DEEP.append(DEEP)

PICKS: list[tuple[str, dict[str, Any], str]] = [
    ("no text", {"query": 5}, "query"),
    ("nothing", {"query": None}, "query"),
    ("bytes", {"query": b"send"}, "query"),
    ("half a character", {"query": "send \ud800"}, "query"),
    ("half a character in a message", {"query": [{"role": "user", "content": "\udfff"}]}, "query"),
    ("messages within themselves", {"query": DEEP}, "query"),
    ("an object", {"query": object()}, "query"),
    ("no picks", {"k": 0}, "k"),
    ("fewer than none", {"k": -1}, "k"),
    ("a number as text", {"k": "3"}, "k"),
    ("a truth", {"k": True}, "k"),
    ("a large number", {"k": 2**70}, "k"),
    ("a misspelt option", {"max_per_sorce": 1}, "max_per_sorce"),
    ("a score above 1", {"min_score": 1.5}, "min_score"),
    ("a score that is none", {"min_score": NAN}, "min_score"),
    ("a mode that is none", {"mode": "hybird"}, "mode"),
    ("less than no time", {"timeout_ms": -5}, "timeout_ms"),
    ("a misspelt access", {"access": {"allow_unsave": True}}, "access"),
    ("roles as text", {"access": {"roles": "admin"}}, "access"),
    ("an access that is a list", {"access": ["admin"]}, "access"),
    ("an unknown tool", {"access": {"exclude": ["no such tool"]}}, "access"),
    ("an unknown tool", {"always_include": ["no such tool"]}, "always_include"),
    ("an unknown fallback", {"fallbacks": ["no such tool"]}, "fallbacks"),
    ("an invalid glob", {"fallbacks": ["["]}, "fallbacks"),
    ("no reranker", {"rerank": "always"}, "rerank"),
    ("a scorer that is a name", {"scorer": "bm25"}, "scorer"),
    ("no scorer for a shortlist", {"shortlist": 5}, "shortlist"),
    ("a shortlist of nothing", {"scorer": min, "shortlist": 0}, "shortlist"),
    ("a shortlist as text", {"scorer": min, "shortlist": "5"}, "shortlist"),
]


@pytest.mark.parametrize(("what", "given", "argument"), PICKS, ids=[f"{what}: {a}" for what, _, a in PICKS])
def test_invalid_pick_names_the_argument(engine: picktools.Engine, what: str, given: dict[str, Any], argument: str) -> None:
    for pick in (engine.pick, lambda query, **rest: engine.pick_batch([query], **rest)):
        with pytest.raises(picktools.ArgumentError) as raised:
            pick(**{"query": "send an email", **given})
        assert raised.value.argument in (argument, "queries" if argument == "query" else argument)
        assert str(raised.value)


MODELS: list[tuple[str, Any]] = [
    ("no model", "statik"),
    ("a number", 7),
    ("without the method", object()),
    ("it raises", lambda texts: 1 // 0),
    ("it gives nothing", lambda texts: None),
    ("it gives no list", lambda texts: "vectors"),
    ("it gives too few", lambda texts: []),
    ("it gives too many", lambda texts: [[1.0]] * (len(texts) + 1)),
    ("vectors of nothing", lambda texts: [[] for _ in texts]),
    ("no number", lambda texts: [[NAN, 1.0]] * len(texts)),
    ("no end", lambda texts: [[float("inf"), 1.0]] * len(texts)),
    ("no length", lambda texts: [[0.0, 0.0]] * len(texts)),
    ("texts", lambda texts: [["a", "b"]] * len(texts)),
    ("one row", lambda texts: [1.0, 2.0]),
    ("it takes nothing", lambda: [[1.0]]),
    ("different lengths", lambda texts: [[1.0] * (1 + len(text) % 3) for text in texts]),
]


@pytest.mark.parametrize("model", [model for _, model in MODELS], ids=[what for what, _ in MODELS])
def test_failing_model_raises(catalog: picktools.Catalog, model: Any) -> None:
    with pytest.raises((picktools.ArgumentError, picktools.ModelError)) as raised:
        picktools.Engine(catalog, model)
    assert raised.value.argument == "model" and "model" in str(raised.value)


def test_array_of_wrong_shape_raises(catalog: picktools.Catalog) -> None:
    numpy = pytest.importorskip("numpy")
    for shape in [(), (4,), (1, 0), (1, 2, 3), (0, 4)]:
        with pytest.raises(picktools.ModelError) as raised:
            picktools.Engine(catalog, lambda texts, shape=shape: numpy.ones(shape))
        assert isinstance(raised.value.__cause__, picktools.ArgumentError)
    with pytest.raises(picktools.ModelError):
        picktools.Engine(catalog, lambda texts: numpy.array([["a"]] * len(texts)))


def test_model_error_has_the_exception_as_its_cause(catalog: picktools.Catalog) -> None:
    def later(texts: list[str]) -> list[list[float]]:
        if texts != ["text"]:
            raise ZeroDivisionError("by nothing")
        return [[1.0, 2.0]]

    with pytest.raises(picktools.ModelError) as raised:
        picktools.Engine(catalog, later)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_model_failing_on_a_request_is_degraded(catalog: picktools.Catalog) -> None:
    failing = False

    def model(texts: list[str]) -> list[list[float]]:
        if failing:
            raise RuntimeError("out of order")
        return [[1.0, float(len(text))] for text in texts]

    engine = picktools.Engine(catalog, model)
    failing = True
    selection = engine.pick("send an email")
    assert selection[0].tool.id == "mail/send_email" and "out of order" in str(selection.degraded)


@pytest.mark.parametrize("model", ["static", lambda texts: [[1.0, float(len(text))] for text in texts]])
def test_exception_in_progress_ends_the_build(catalog: picktools.Catalog, model: Any) -> None:
    def report(done: int, all: int) -> None:
        raise ValueError("no")

    with pytest.raises(picktools.ArgumentError) as raised:
        picktools.Engine(catalog, model, on_progress=report)
    assert raised.value.argument == "on_progress" and isinstance(raised.value.__cause__, ValueError)


OTHERS: list[tuple[str, Callable[[picktools.Engine], object], str | None]] = [
    ("no catalog", lambda e: picktools.Engine(5), "catalog"),  # type: ignore[arg-type]
    ("no path", lambda e: picktools.Catalog.open(5), "paths"),  # type: ignore[arg-type]
    ("no paths", lambda e: picktools.Catalog.open(), "paths"),
    ("a file that is not there", lambda e: picktools.Catalog.open("no/such/file.json"), None),
    ("text for tools", lambda e: picktools.Catalog.from_tools("[]"), "tools"),
    ("a number for tools", lambda e: picktools.Catalog.from_tools(5), "tools"),  # type: ignore[arg-type]
    ("an object among tools", lambda e: picktools.Catalog.from_tools([object()]), "tools"),
    ("a key that is no text", lambda e: picktools.Catalog.from_tools([{5: "x"}]), None),
    ("a name that is none", lambda e: picktools.Catalog.from_tools([{"name": 5}]), None),
    ("two of a name", lambda e: picktools.Catalog.from_tools([{"name": "a", "parameters": {}}] * 2), None),
    ("conflicts that are none", lambda e: picktools.Catalog.from_tools([], conflicts="no"), "conflicts"),  # type: ignore[arg-type]
    ("text for sources", lambda e: picktools.Catalog.from_tools([], untrusted_sources="ab"), "untrusted_sources"),
    ("no result", lambda e: picktools.Catalog.from_mcp({"nothing": []}), "tools"),
    ("no document", lambda e: picktools.Catalog.from_openapi({"a": 1}), "document"),
    ("no progress", lambda e: picktools.Engine(e.catalog, on_progress=5), "on_progress"),  # type: ignore[arg-type]
    ("no skills", lambda e: picktools.Engine(e.catalog, skills="no/such/folder"), "skills"),
    ("examples of one", lambda e: picktools.Engine(e.catalog, examples=[("a",)]), "examples"),  # type: ignore[list-item]
    ("no provider", lambda e: e.translate("opnai"), "provider"),  # type: ignore[arg-type]
    ("no tool", lambda e: e.translate("openai", ["no such tool"]), "tools"),
    ("no translation", lambda e: e.validate([], translation=5), "translation"),  # type: ignore[arg-type]
    ("a call without a name", lambda e: e.validate([{"arguments": {}}]), "calls"),
    ("a call that is text", lambda e: e.validate("call"), "calls"),
    ("an id that is no text", lambda e: e.validate([{"name": "a", "id": 5}]), "calls"),
    ("nobody to ask", lambda e: e.tool_call("a", 5), "ask"),  # type: ignore[arg-type]
    ("an answer that is none", lambda e: e.tool_call("send an email", lambda tools: {"a": 1}), "calls"),
    ("a tool that is not there", lambda e: e.update(remove=["no such tool"]), "remove"),
    ("no tools to put", lambda e: e.update(put=5), "put"),  # type: ignore[arg-type]
    ("served by one", lambda e: e.learn([("a", 5)]), "served"),  # type: ignore[list-item]
    ("no engine", lambda e: picktools.evaluate(5, {}, {}), "engine"),  # type: ignore[arg-type]
    ("a measure that is none", lambda e: picktools.evaluate(e, {}, {}, measures=["best"]), "measures"),
    ("grades that are none", lambda e: picktools.evaluate(e, {"a": "b"}, {"a": {"t": "x"}}), "qrels"),  # type: ignore[dict-item]
]


@pytest.mark.parametrize(("what", "work", "argument"), OTHERS, ids=[what for what, _, _ in OTHERS])
def test_invalid_call_names_the_argument(
    engine: picktools.Engine, what: str, work: Callable[[picktools.Engine], object], argument: str | None
) -> None:
    with pytest.raises(picktools.PicktoolsError) as raised:
        work(engine)
    assert getattr(raised.value, "argument", None) == argument or argument is None


def test_long_text_is_truncated(engine: picktools.Engine) -> None:
    assert len(engine.pick("send an email " * 700_000)) > 0
    huge = [{"name": "big", "description": "word " * 2_000_000, "parameters": {}}]
    with pytest.raises(picktools.CatalogError):
        picktools.Catalog.from_tools([*huge, {"name": 5}])


def test_damaged_index_raises(tmp_path: pathlib.Path, engine: picktools.Engine) -> None:
    engine.save(tmp_path / "index")
    for file in (tmp_path / "index").iterdir():
        if file.stat().st_size > 1000:
            file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(picktools.PicktoolsError):
        picktools.Engine(picktools.Catalog.open(tmp_path / "index")).pick("send an email")
    with pytest.raises(picktools.SavedIndexError):
        engine.save("/proc/no/such/folder")
