"""An MCP server behind the gateway, whose tools succeed and fail in the ways that their names state.

It speaks one JSON-RPC message a line: an SDK would refuse to misbehave. What happens to it is appended to the file that
UPSTREAM_LOG names, a line of JSON each; the file that UPSTREAM_CHANGES names changes its tools while it runs:
{"descriptions": {NAME: TEXT}, "add": [DEFINITION], "remove": [NAME], "instructions": TEXT}.
"""

import json
import os
import sys
import threading
import time

LOCK = threading.Lock()
CANCELLED = {}
ANSWERS = {}
COUNT = [0]
GROWN = []
CHANGES = os.environ.get("UPSTREAM_CHANGES")


def log(event, **more):
    path = os.environ.get("UPSTREAM_LOG")
    if path:
        with LOCK, open(path, "a") as file:
            file.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")


def write(text):
    with LOCK:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def text(*texts, **more):
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


def ask(method, params):
    """Asks the client something and waits for its answer."""
    id = f"ask-{time.monotonic_ns()}"
    ANSWERS[id] = arrived = {"event": threading.Event()}
    send({"id": id, "method": method, "params": params})
    arrived["event"].wait(20)
    return arrived.get("answer", "nobody answered")


def progress(token, step, total=None, message=None):
    params = {"progressToken": token, "progress": step}
    params.update({key: value for key, value in (("total", total), ("message", message)) if value is not None})
    send({"method": "notifications/progress", "params": params})


def wait(id, seconds):
    """Sleeps, unless the call is cancelled."""
    CANCELLED.setdefault(id, threading.Event()).wait(seconds)


def call(id, name, arguments, meta):
    token = meta.get("progressToken")
    if name == "echo":
        wait(id, arguments.get("seconds", 0))
        return text(arguments.get("text", ""))
    if name == "add":
        total = arguments["a"] + arguments["b"]
        return text(json.dumps({"sum": total}), structuredContent={"sum": total})
    if name == "progress":
        for step in range(1, arguments.get("steps", 5) + 1):
            if token is not None:
                progress(token, step, arguments.get("steps", 5), f"step {step}")
                wait(id, arguments.get("pause", 0))
        return text("done")
    if name == "progress_unordered":
        for step in (1, 3, 2, 3, 5):
            progress(token, step)
        return text("done")
    if name == "progress_after":
        send({"id": id, "result": text("done")})
        progress(token, 9)
        return None
    if name == "log_message":
        params = {"level": arguments.get("level", "info"), "logger": "worker", "data": "a line"}
        send({"method": "notifications/message", "params": params})
        return text("done")
    if name == "meta":
        return text(json.dumps(meta))
    if name == "parts":
        return {
            "content": [
                {"type": "text", "text": "see", "annotations": {"audience": ["user"], "priority": 0.5}},
                {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
                {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"},
                {"type": "resource", "resource": {"uri": "file:///b", "text": "bee"}},
            ],
            "_meta": {"example/key": 1},
        }
    if name == "hologram":
        return {"content": [{"type": "text", "text": "see"}, {"type": "hologram", "uri": "x"}]}
    if name == "fails":
        return text("no such city; try Bergen", isError=True)
    if name == "dies":
        print("out of memory\nbye", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "hangs":
        time.sleep(3600)
    if name == "late":
        time.sleep(arguments["seconds"])
        return text("late")
    if name == "twice":
        send({"id": id, "result": text("once")})
        send({"id": id, "result": text("again")})
        return None
    if name == "swapped":
        if isinstance(id, int):
            send({"id": id + 1000, "result": text("not yours")})
        return text("yours")
    if name == "wrong_id":
        send({"id": "nobody", "result": text("whose?")})
        return None
    if name == "huge":
        return text("x" * arguments["bytes"])
    if name == "not_json":
        write("this is no JSON {")
        return text("right")
    if name == "changes":
        GROWN.append({"name": "grown", "description": "Came later", "inputSchema": {"type": "object"}})
        send({"method": "notifications/tools/list_changed"})
        return text("done")
    if name == "storm":
        for step in range(arguments["count"]):
            progress(token, step, None, "x" * 100)
        return text("done")
    if name == "asks":
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
        return text(json.dumps(ask("elicitation/create", {"message": "Which colour?", "requestedSchema": schema})))
    if name in ("count", "delete_everything", "only_reads"):
        COUNT[0] += 1
        return text(str(COUNT[0]))
    if name == "grown":
        return text("grown")
    raise KeyError(name)


def tool(name, description, properties=None, required=None, **more):
    schema = {"type": "object", "properties": properties or {}, "required": required or []}
    return {"name": name, "description": description, "inputSchema": schema, **more}


def number(description="A number"):
    return {"type": "number", "description": description}


TOOLS = [
    tool("echo", "Gives a text back", {"text": {"type": "string"}, "seconds": number()}, ["text"]),
    tool(
        "add",
        "Adds two numbers",
        {"a": number(), "b": number()},
        ["a", "b"],
        outputSchema={"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
    ),
    tool("progress", "Tells how far it is", {"steps": {"type": "integer"}, "pause": number()}),
    tool("progress_unordered", "Tells how far it is, in no order"),
    tool("progress_after", "Tells how far it is after its answer"),
    tool("log_message", "Writes a line to the log", {"level": {"type": "string"}}),
    tool("meta", "Gives back what was said beside the request"),
    tool("parts", "Gives parts of every kind"),
    tool("hologram", "Gives a part of a kind that nobody knows"),
    tool("fails", "Says that it failed"),
    tool("refuses", "Is refused by the protocol"),
    tool("dies", "Ends the server"),
    tool("hangs", "Never answers"),
    tool("late", "Answers after a while, whoever still waits", {"seconds": number()}, ["seconds"]),
    tool("twice", "Answers two times"),
    tool("swapped", "Answers another call first"),
    tool("wrong_id", "Answers nobody"),
    tool("huge", "Gives much text", {"bytes": {"type": "integer"}}, ["bytes"]),
    tool("not_json", "Says what is no JSON, and then answers"),
    tool("changes", "Adds a tool while it is called"),
    tool("storm", "Tells how far it is, often", {"count": {"type": "integer"}}, ["count"]),
    tool("asks", "Asks the person at the client for a colour"),
    tool("count", "Counts how often it was called on this connection"),
    tool("delete_everything", "Deletes all rows of a table", {"name": {"type": "string"}},
         annotations={"destructiveHint": True, "readOnlyHint": False}),
    tool("only_reads", "Counts rows of a table", annotations={"readOnlyHint": True}),
]


def read_changes():
    try:
        with open(CHANGES or "") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def tools():
    listed = [dict(tool) for tool in TOOLS + GROWN]
    changes = read_changes()
    listed = [tool for tool in listed if tool["name"] not in changes.get("remove", [])]
    for tool in listed:
        tool["description"] = changes.get("descriptions", {}).get(tool["name"], tool["description"])
    return listed + changes.get("add", [])


def follow_changes():
    seen = os.stat(CHANGES).st_mtime_ns if os.path.exists(CHANGES) else None
    while True:
        try:
            now = os.stat(CHANGES).st_mtime_ns
        except OSError:
            now = None
        if now != seen:
            send({"method": "notifications/tools/list_changed"})
        seen = now
        time.sleep(0.05)


def answer(message):
    id, method, params = message["id"], message.get("method"), message.get("params") or {}
    try:
        if method == "initialize":
            version = params["protocolVersion"]
            known = version if version in ("2024-11-05", "2025-03-26", "2025-06-18") else "2025-11-25"
            result = {
                "protocolVersion": known,
                "capabilities": {
                    "tools": {"listChanged": True}, "logging": {}, "resources": {}, "prompts": {}, "completions": {},
                },
                "serverInfo": {"name": "upstream", "version": "1"},
                "instructions": read_changes().get("instructions", "Start with the tool echo."),
            }
        elif method == "ping":
            result = {}
        elif method == "logging/setLevel":
            result = {}
        elif method == "tools/list":
            result = {"tools": tools()}
        elif method == "resources/list":
            result = {"resources": [{"uri": "test://a", "name": "a", "mimeType": "text/plain"}]}
        elif method == "resources/templates/list":
            result = {"resourceTemplates": [{"uriTemplate": "test://{name}", "name": "any"}]}
        elif method == "resources/read":
            uri = params["uri"]
            result = {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"content of {uri}"}]}
        elif method == "prompts/list":
            arguments = [{"name": "name", "description": "Whom", "required": True}]
            result = {"prompts": [{"name": "greet", "description": "Greets somebody", "arguments": arguments}]}
        elif method == "prompts/get":
            content = {"type": "text", "text": f"Hello {params.get('arguments', {}).get('name')}"}
            result = {"messages": [{"role": "user", "content": content}]}
        elif method == "completion/complete":
            result = {"completion": {"values": [params["argument"]["value"] + "la"], "total": 1, "hasMore": False}}
        elif method == "tools/call":
            name = params["name"]
            log("call", id=id, name=name, arguments=params.get("arguments"))
            if name == "refuses":
                send({"id": id, "error": {"code": -32602, "message": "the city is not known"}})
                return
            result = call(id, name, params.get("arguments") or {}, params.get("_meta") or {})
            if result is None:
                return
        else:
            send({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})
            return
    except Exception as error:
        send({"id": id, "error": {"code": -32603, "message": repr(error)}})
        return
    send({"id": id, "result": result})


def main():
    log("started")
    if CHANGES:
        threading.Thread(target=follow_changes, daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            waiting = ANSWERS.pop(message["id"], None)
            if waiting:
                waiting["answer"] = message.get("result", message.get("error"))
                waiting["event"].set()
        elif "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        elif message["method"] == "notifications/cancelled":
            id = message["params"].get("requestId")
            log("cancelled", id=id)
            CANCELLED.setdefault(id, threading.Event()).set()
    log("ended")
    os._exit(0)


main()
