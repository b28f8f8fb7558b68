"""A model provider with the APIs of OpenAI and Anthropic. Its model calls the tools that it is configured to call, if they are shown.

provider.py LOG WANTED [ARGUMENTS]: LOG gets each request as a line of JSON; WANTED is a file that has, by what the user says, the names of
the tools to call one after the other, in OpenAI's chat with ARGUMENTS as they stand. Prints its port. What the user says may also be: fault, broken, slow.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOG, WANTED = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
ARGUMENTS = sys.argv[3] if len(sys.argv) > 3 else '{"q": "x"}'
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def texts(content):
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if part.get("type") in ("text", "input_text")]


class Talk:
    """The last user message, the later calls of the assistant, and the shown tools."""

    def __init__(self, path, body):
        self.said, self.called, self.results = "", 0, []
        items = body.get("messages") or body.get("input")
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        for item in items:
            kind, content = item.get("type"), item.get("content")
            if item.get("role") == "user" and texts(content):
                self.said, self.called, self.results = texts(content)[-1], 0, []
            results = [part for part in content if part.get("type") == "tool_result"] if isinstance(content, list) else []
            if item.get("role") == "tool" or kind == "function_call_output":
                results = [item]
            self.results += results
        tools = body.get("tools", [])
        names = [tool.get("function", tool).get("name") for tool in tools if not tool.get("defer_loading")]
        choice = body.get("tool_choice")
        if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
            allowed = choice.get("allowed_tools", choice)["tools"]
            allowed = [tool.get("function", tool).get("name") for tool in allowed]
            names = [name for name in names if name in allowed]
        self.shown = names
        wanted = WANTED.get(self.said, [])
        self.call, self.text = None, "done"
        if len(self.results) < len(wanted):
            name = wanted[len(self.results)]
            if name in names:
                self.call = name
            else:
                self.text = "no such tool: " + name


def chat(talk):
    if talk.call:
        call = {"id": f"call_{len(talk.results)}", "type": "function", "function": {"name": talk.call, "arguments": ARGUMENTS}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    return {"role": "assistant", "content": talk.text}, "stop"


def chat_whole(talk, model):
    message, reason = chat(talk)
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": USAGE}


def chat_stream(talk, model):
    message, reason = chat(talk)
    deltas = [{"role": "assistant", "content": ""}]
    for call in message.get("tool_calls", []):
        function = call["function"]
        deltas.append({"tool_calls": [{"index": 0, **call, "function": {"name": function["name"], "arguments": ""}}]})
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in function["arguments"]]
    deltas += [{"content": letter} for letter in message["content"] or ""]
    for delta in deltas:
        yield None, {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model,
                     "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield None, {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model,
                 "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield None, "[DONE]"


def response(talk, model, status, output):
    return {"id": "r1", "object": "response", "created_at": 1, "model": model, "status": status, "output": output,
            "parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
            "instructions": None, "metadata": {}, "temperature": 1, "top_p": 1}


def response_item(talk):
    if talk.call:
        number = len(talk.results)
        return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": talk.call,
                "arguments": '{"q": "x"}', "status": "completed"}
    text = {"type": "output_text", "text": talk.text, "annotations": []}
    return {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}


def response_stream(talk, model):
    item, number = response_item(talk), 0
    events = [("response.created", {"response": response(talk, model, "in_progress", [])})]
    begun = {**item, "arguments": ""} if talk.call else {**item, "content": []}
    events.append(("response.output_item.added", {"output_index": 0, "item": {**begun, "status": "in_progress"}}))
    at = {"output_index": 0, "item_id": item["id"]}
    if talk.call:
        events += [("response.function_call_arguments.delta", {**at, "delta": part}) for part in item["arguments"]]
        events.append(("response.function_call_arguments.done", {**at, "name": talk.call, "arguments": item["arguments"]}))
    else:
        at["content_index"] = 0
        part = {"type": "output_text", "text": "", "annotations": []}
        events.append(("response.content_part.added", {**at, "part": part}))
        events += [("response.output_text.delta", {**at, "delta": part, "logprobs": []}) for part in talk.text]
        events.append(("response.output_text.done", {**at, "text": talk.text, "logprobs": []}))
        events.append(("response.content_part.done", {**at, "part": item["content"][0]}))
    events.append(("response.output_item.done", {"output_index": 0, "item": item}))
    events.append(("response.completed", {"response": response(talk, model, "completed", [item])}))
    for number, (name, event) in enumerate(events):
        yield name, {"type": name, "sequence_number": number, **event}


def message_block(talk):
    if talk.call:
        return {"type": "tool_use", "id": f"toolu_{len(talk.results)}", "name": talk.call, "input": {"q": "x"}}, "tool_use"
    return {"type": "text", "text": talk.text}, "end_turn"


def message(model, content, reason):
    return {"id": "m1", "type": "message", "role": "assistant", "model": model, "content": content, "stop_reason": reason,
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}


def message_stream(talk, model):
    block, reason = message_block(talk)
    yield "message_start", {"type": "message_start", "message": message(model, [], None)}
    begun = {**block, "input": {}} if talk.call else {**block, "text": ""}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": begun}
    yield "ping", {"type": "ping"}
    for part in '{"q": "x"}' if talk.call else talk.text:
        delta = {"type": "input_json_delta", "partial_json": part} if talk.call else {"type": "text_delta", "text": part}
        yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                            "usage": {"output_tokens": 1}}
    yield "message_stop", {"type": "message_stop"}


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = [[name.lower(), value] for name, value in self.headers.items()]
        entry = {"path": self.path, "headers": headers, "body": raw.decode("utf-8", "replace")}
        with open(LOG, "a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")
        path = self.path.split("?")[0]
        try:
            body = json.loads(raw)
            talk, model = Talk(path, body), body.get("model", "m")
        except (ValueError, AttributeError, TypeError, RecursionError):
            return self.whole(400, {"error": {"type": "invalid_request_error", "message": "it cannot be read"}})
        if talk.said == "fault":
            return self.whole(429, {"error": {"type": "rate_limit_error", "message": "slow down"}}, [("retry-after", "7")])
        if path == "/v1/messages/count_tokens":
            return self.whole(200, {"input_tokens": len(raw)})
        if not body.get("stream"):
            answers = {
                "/v1/chat/completions": lambda: chat_whole(talk, model),
                "/v1/responses": lambda: response(talk, model, "completed", [response_item(talk)]),
                "/v1/messages": lambda: message(model, [message_block(talk)[0]], message_block(talk)[1]),
            }
            return self.whole(200, answers[path]())
        streams = {"/v1/chat/completions": chat_stream, "/v1/responses": response_stream, "/v1/messages": message_stream}
        self.send_response(200)
        for name, value in [("content-type", "text/event-stream; charset=utf-8"), ("transfer-encoding", "chunked"),
                            ("x-request-id", "r-1"), ("picktools-tools", "999/999")]:
            self.send_header(name, value)
        self.end_headers()
        self.chunk(": a comment that is no event\n\n")
        for number, (name, event) in enumerate(streams[path](talk, model)):
            # Events have different line ends, and are split over several chunks.
            head = f"event: {name}\r\n" if name else ""
            text = f"{head}data: {event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)}\r\n\r\n"
            self.chunk(text[: len(text) // 2])
            if talk.said == "slow":
                time.sleep(0.3)
            if talk.said == "broken" and number == 2:
                self.close_connection = True
                return
            self.chunk(text[len(text) // 2 :])
        self.chunk("")

    def whole(self, status, body, headers=()):
        data = json.dumps(body, indent=1).encode()
        self.send_response(status)
        for name, value in [("content-type", "application/json"), ("content-length", str(len(data))),
                            ("x-request-id", "r-1"), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def chunk(self, text):
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
