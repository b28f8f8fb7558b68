#!/usr/bin/env python3
"""Ranks the requests of a benchmark folder with one rival, in a process of its own; scripts/scoreboard.py starts it.

usage: rivals.py RIVAL TOOLS QUERIES RUN

Reads tools.jsonl and queries.jsonl, writes a TREC run, and prints the seconds of each request and of the preparation as
one line of JSON. Where a rival reads tools as such, it gets them whole; where it reads text, that of `text` below.
"""

import asyncio
import hashlib
import http.server
import importlib.metadata
import json
import os
import re
import sys
import threading
import time

K = 10  # how many tools each ranks
WEIGHTS = os.environ.get("SCOREBOARD_WEIGHTS", "")
VECTORS = os.environ.get("SCOREBOARD_VECTORS", "")  # empty: nothing is kept


def words_of(name):
    """A name with its parts apart: `read_file` and `readFile` are two words each."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", re.sub(r"[_\-./:]+", " ", name))


def parameters_of(schema):
    """Names and descriptions of the parameters of a schema, nested ones too."""
    properties = schema.get("properties")
    for name, value in properties.items() if isinstance(properties, dict) else ():
        yield words_of(name)
        if isinstance(value, dict):
            yield str(value.get("description", ""))
            yield from parameters_of(value)
            yield from parameters_of(value["items"]) if isinstance(value.get("items"), dict) else ()


def text(tool):
    """What stands for a tool where a rival takes texts. Of four variants (name as it is, name in words, that with the source,
    that with parameters) this one was the best for rank-bm25 and model2vec, on eight small sets and on two folds of written ones."""
    return " ".join([f"{words_of(tool['name'])}: {tool['description']}", *filter(None, parameters_of(tool["parameters"]))])


def unique_names(tools):
    """Ids by name, for rivals that know tools by name; what two servers call the same gets its server's name before it."""
    ids = {}
    for tool in tools:
        name = tool["name"] if tool["name"] not in ids else f"{tool['source']}_{tool['name']}"
        number = 1
        while name in ids:
            number += 1
            name = f"{tool['name']}_{number}"
        ids[name] = tool["id"]
    return ids


class FastMcp:
    """The search of its transform, without server and protocol around it; the method is what its search tool calls."""

    package = "fastmcp"

    def prepare(self, tools):
        from fastmcp.server.transforms.search import BM25SearchTransform
        from fastmcp.tools.base import Tool

        self.ids = unique_names(tools)
        pairs = zip(self.ids, tools)
        self.tools = [Tool(name=n, description=t["description"], parameters=t["parameters"]) for n, t in pairs]
        self.transform = BM25SearchTransform(max_results=K)
        self.loop = asyncio.new_event_loop()
        self.rank("tool", K)  # the first search builds the index

    def rank(self, query, k):
        found = self.loop.run_until_complete(self.transform._search(self.tools, query))
        return [self.ids[tool.name] for tool in found[:k]]


class Dehydrator:
    package = "dehydrator"

    def prepare(self, tools):
        from dehydrator import ToolIndex

        self.ids = unique_names(tools)
        pairs = zip(self.ids, tools)
        definitions = [{"name": n, "description": t["description"], "input_schema": t["parameters"]} for n, t in pairs]
        self.index = ToolIndex(definitions, top_k=K)

    def rank(self, query, k):
        return [self.ids[name] for name in self.index.search(query)[:k]]


class RankBm25:
    """BM25Okapi with its own constants; the package leaves it to its user what a word is."""

    package = "rank-bm25"

    def prepare(self, tools):
        from rank_bm25 import BM25Okapi

        self.ids = [tool["id"] for tool in tools]
        self.index = BM25Okapi([self.words(text(tool)) for tool in tools])

    @staticmethod
    def words(line):
        return re.findall(r"[a-z0-9]+", line.lower())

    def rank(self, query, k):
        return best(self.index.get_scores(self.words(query)), self.ids, k)


class Model2Vec:
    package = "model2vec"

    def prepare(self, tools):
        from model2vec import StaticModel

        self.ids = [tool["id"] for tool in tools]
        self.model = StaticModel.from_pretrained(f"{WEIGHTS}/potion-base-8M")
        self.vectors = unit(self.model.encode([text(tool) for tool in tools]))

    def rank(self, query, k):
        return best(self.vectors @ unit(self.model.encode([query]))[0], self.ids, k)


class MiniLm:
    package = "fastembed"

    def prepare(self, tools):
        self.ids = [tool["id"] for tool in tools]
        self.embed = minilm()
        self.vectors = kept([text(tool) for tool in tools], self.embed)

    def rank(self, query, k):
        return best(self.vectors @ self.embed([query])[0], self.ids, k)


class BigTool:
    """The default retrieval function of its agent, over the store and the texts of its README, without the agent around it."""

    package = "langgraph-bigtool"

    def prepare(self, tools):
        from langgraph.store.base import PutOp
        from langgraph.store.memory import InMemoryStore
        from langgraph_bigtool.tools import get_default_retrieval_tool

        self.store = InMemoryStore(index={"embed": cached(minilm()), "dims": DIMENSIONS, "fields": ["description"]})
        described = lambda tool: {"description": f"{tool['name']}: {tool['description']}"}
        self.store.batch([PutOp(("tools",), tool["id"], described(tool)) for tool in tools])
        self.retrieve, _ = get_default_retrieval_tool(("tools",), limit=K)

    def rank(self, query, k):
        return self.retrieve(query, store=self.store)[:k]


class LiteLlm:
    """The semantic filter of its MCP gateway, without the proxy around it. The embedding model is an endpoint on this machine. The
    threshold of 0.3 is meant for another model and is 0 here, as picktools measures without its threshold, too."""

    package = "litellm"

    def prepare(self, tools):
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it is fetched
        from litellm import Router
        from litellm.proxy._experimental.mcp_server.semantic_tool_filter import SemanticMCPToolFilter

        model = {"model": "openai/minilm", "api_base": embedding_endpoint(cached(minilm())), "api_key": "none"}
        router = Router(model_list=[{"model_name": "minilm", "litellm_params": model}], timeout=3600)
        self.ids = unique_names(tools)
        pairs = zip(self.ids, tools)
        self.tools = [{"name": n, "description": t["description"] or n, "parameters": t["parameters"]} for n, t in pairs]
        self.filter = SemanticMCPToolFilter("minilm", router, top_k=K, similarity_threshold=0)
        self.filter._build_router(self.tools)  # as at the start of the proxy
        self.loop = asyncio.new_event_loop()

    def rank(self, query, k):
        found = self.loop.run_until_complete(self.filter.filter_tools(query, self.tools))
        if len(found) > K:
            raise SystemExit(f"the filter did not filter {query!r}")
        return [self.ids[tool["name"]] for tool in found[:k]]


class SemanticRouter:
    """A route for each tool, with its text as the only utterance."""

    package = "semantic-router"

    def prepare(self, tools):
        from semantic_router import IndexedRouter, Route
        from semantic_router.encoders import DenseEncoder

        embed = cached(minilm())

        class LocalEncoder(DenseEncoder):
            def __call__(self, docs):
                return embed(docs)

            async def acall(self, docs):
                return embed(docs)

        routes = [Route(name=tool["id"], utterances=[text(tool)]) for tool in tools]
        self.router = IndexedRouter(encoder=LocalEncoder(name="minilm"), routes=routes, top_k=K)

    def rank(self, query, k):
        return [choice.name for choice in self.router(query, limit=k)]


class LlamaIndexBm25:
    """Its defaults: stems and stop words of English."""

    package = "llama-index-retrievers-bm25"

    def prepare(self, tools):
        from llama_index.core.schema import TextNode
        from llama_index.retrievers.bm25 import BM25Retriever

        nodes = [TextNode(id_=tool["id"], text=text(tool)) for tool in tools]
        self.retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=K)

    def rank(self, query, k):
        return [found.node.node_id for found in self.retriever.retrieve(query)[:k]]


class GraphToolCall:
    """Keywords, graph and annotations, which is its default; a model is an option of it."""

    package = "graph-tool-call"

    def prepare(self, tools):
        from graph_tool_call import ToolGraph

        self.ids = unique_names(tools)
        pairs = zip(self.ids, tools)
        listed = [{"name": n, "description": t["description"], "inputSchema": t["parameters"], "annotations": t.get("annotations") or {}}
                  for n, t in pairs]
        self.graph = ToolGraph()
        self.graph.ingest_mcp_tools(listed)
        self.rank("tool", K)  # the first search builds the index

    def rank(self, query, k):
        return [self.ids[tool.name] for tool in self.graph.retrieve(query, top_k=k)[:k]]


DIMENSIONS = 384  # of MiniLM


def minilm():
    """A function from texts to vectors, by MiniLM on fastembed."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        model="minilm", pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(url="file:none"), dim=DIMENSIONS,
        model_file="model.onnx",
    )
    model = TextEmbedding("minilm", specific_model_path=f"{WEIGHTS}/minilm", threads=1, cuda=False)
    return lambda texts: list(model.embed(texts, batch_size=32))


def cached(embed):
    """The same as lists of numbers, for rivals that embed the tools themselves; only vectors of several texts are kept."""
    return lambda texts: [vector.tolist() for vector in (kept(texts, embed) if len(texts) > 1 else embed(texts))]


def embedding_endpoint(embed):
    """The address of an OpenAI-compatible endpoint on this machine, which answers until the process ends."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            texts = [asked] if isinstance(asked, str) else asked
            data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(embed(texts))]
            usage = {"prompt_tokens": 0, "total_tokens": 0}
            body = json.dumps({"object": "list", "model": "minilm", "data": data, "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def kept(texts, embed):
    """Vectors of texts, from the folder SCOREBOARD_VECTORS where they were made before: 16,000 tools take half an hour on a processor."""
    import numpy

    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    file = f"{VECTORS}/{digest}.npy"
    if VECTORS and os.path.exists(file):
        return numpy.load(file)
    # Texts of a length stand together, so that little is padded.
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    vectors = numpy.empty((len(texts), DIMENSIONS), numpy.float32)
    vectors[order] = embed([texts[place] for place in order])
    if VECTORS:
        numpy.save(f"{file}.new.npy", vectors)
        os.replace(f"{file}.new.npy", file)
    return vectors


def unit(vectors):
    import numpy

    return vectors / numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def best(scores, ids, k):
    import numpy

    return [ids[place] for place in numpy.argsort(-scores, kind="stable")[:k]]


RIVALS = {
    "fastmcp": FastMcp,
    "dehydrator": Dehydrator,
    "rank-bm25": RankBm25,
    "llama-index-retrievers-bm25": LlamaIndexBm25,
    "graph-tool-call": GraphToolCall,
    "model2vec": Model2Vec,
    "fastembed": MiniLm,
    "langgraph-bigtool": BigTool,
    "litellm": LiteLlm,
    "semantic-router": SemanticRouter,
}


def main(rival, tools, queries, run):
    read = lambda path: [json.loads(line) for line in open(path, encoding="utf-8")]
    tools, queries, ranking = read(tools), read(queries), RIVALS[rival]()
    started = time.perf_counter()
    ranking.prepare(tools)
    prepared, seconds = time.perf_counter() - started, []
    with open(run, "w", encoding="utf-8") as file:
        for query in queries:
            started = time.perf_counter()
            ids = ranking.rank(query["text"], K)
            seconds.append(time.perf_counter() - started)
            file.writelines(f"{query['id']} Q0 {each} {place} {1 / place:.6f} {rival}\n" for place, each in enumerate(ids, 1))
    version = importlib.metadata.version(ranking.package)
    print(json.dumps({"version": version, "prepare": prepared, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
