"""A local fake of OpenAI and Anthropic, and a catalog for its tests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
Choose = Callable[[list[str]], tuple[str, Json] | None]
"""Gets the names of the sent tools, and returns the name and the arguments of a call."""

TOOLS: list[tuple[str, str, list[str]]] = [
    ("get_forecast", "Tells the weather of the coming days in a city: rain, wind and temperature", ["city"]),
    ("convert_currency", "Converts an amount of money from one currency to another at today's rate", ["amount", "to"]),
    ("book_table", "Reserves a table in a restaurant for an evening", ["restaurant", "guests"]),
    ("send_email", "Sends an e-mail to somebody", ["recipient", "subject", "body"]),
    ("create_invoice", "Writes an invoice to a customer for goods or work", ["customer", "total"]),
    ("refund_payment", "Gives a customer the money of a payment back", ["payment"]),
    ("delete_account", "Deletes the account of a user with all that belongs to it, for good", ["user"]),
    ("translate_text", "Translates a text into another language", ["text", "language"]),
    ("resize_image", "Makes a picture smaller or larger", ["file", "width"]),
    ("play_song", "Plays a song by its title or artist", ["title"]),
    ("set_alarm", "Rings at a given time to wake somebody up", ["time"]),
    ("find_route", "Finds the way between two places by car, by bike or on foot", ["start", "end"]),
    ("track_parcel", "Says where a parcel is and when it will be delivered", ["number"]),
    ("restart_server", "Stops a server and starts it again", ["host"]),
    ("query_database", "Runs a statement of SQL and returns the rows", ["statement"]),
    ("open_ticket", "Opens a ticket for a bug in the tracker", ["title"]),
    ("merge_branch", "Merges one branch of a repository into another", ["source", "target"]),
    ("book_flight", "Books a seat on a plane between two airports", ["origin", "destination"]),
    ("water_plants", "Turns on the sprinklers of the garden for some minutes", ["minutes"]),
    ("compute_taxes", "Works out the income tax that is due for a year", ["year"]),
]


def schema(arguments: list[str]) -> Json:
    properties = {name: {"type": "string"} for name in arguments}
    return {"type": "object", "properties": properties, "required": arguments, "additionalProperties": False}


def tool_name(tool: Json) -> str:
    """Returns the name of a tool in any provider's format, or the type of a provider tool."""
    return str(tool.get("function", tool).get("name") or tool["type"])


class Provider:
    """Records requests. Answers with the call of `choose`, and with a text after a tool result."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self.choose: Choose = lambda names: None
        self.url = ""

    @property
    def sent(self) -> list[list[str]]:
        """Returns the names of the tools of each request."""
        return [[tool_name(tool) for tool in request.get("tools", [])] for request in self.requests]

    def answer(self, path: str, request: Json) -> Json:
        self.requests.append(request)
        call = None if self._has_result(request) else self.choose(self.sent[-1])
        if path.endswith("/chat/completions"):
            return _chat(call)
        if path.endswith("/responses"):
            return _responses(call)
        return {"input_tokens": 1} if path.endswith("/count_tokens") else _anthropic(call)

    @staticmethod
    def _has_result(request: Json) -> bool:
        messages = request.get("messages", request.get("input"))
        last = messages[-1] if isinstance(messages, list) else {}
        content = last.get("content")
        has_block = isinstance(content, list) and any(part.get("type") == "tool_result" for part in content)
        return has_block or last.get("role") == "tool" or last.get("type") == "function_call_output"


def _chat(call: tuple[str, Json] | None) -> Json:
    message: Json = {"role": "assistant", "content": "done"}
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    reason = "stop" if call is None else "tool_calls"
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _responses(call: tuple[str, Json] | None) -> Json:
    text = {"type": "output_text", "text": "done", "annotations": []}
    item: Json = {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": [text]}
    if call is not None:
        item = {"type": "function_call", "id": "f_1", "call_id": "call_1", "name": call[0], "status": "completed"}
        item["arguments"] = json.dumps(call[1])
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "fake",
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {**usage, **details},
    }


def _anthropic(call: tuple[str, Json] | None) -> Json:
    block: Json = {"type": "text", "text": "done"}
    if call is not None:
        block = {"type": "tool_use", "id": "call_1", "name": call[0], "input": call[1]}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [block],
        "stop_reason": "end_turn" if call is None else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(message: Json) -> Iterator[Json]:
    """Yields the stream events of an Anthropic message."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
        delta = {"type": "text_delta", "text": block["text"]}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


@contextmanager
def serve() -> Iterator[Provider]:
    """Serves a provider on a free port until the block ends."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = provider.answer(self.path.split("?")[0], request)
            kind, body = "application/json", json.dumps(answer)
            if request.get("stream") and answer.get("type") == "message":
                kind = "text/event-stream"
                events = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(answer))
                body = "".join(events)
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
