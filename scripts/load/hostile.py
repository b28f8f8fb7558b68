"""A hostile MCP server on standard input and output, which misbehaves as long as the file SWITCH exists.

usage: hostile.py SWITCH

While the file exists, the server:

- sends pings, change notifications, log lines, progress reports and answers to nothing, without pause
- has a list of tools that is long and different each time, and lists of resources and prompts without end
- answers late, twice, with another id, with text that is no JSON, or with a result of several megabytes

The server runs with the lowest priority. So the measured times contain what it makes the gateway do, and not its own
processor time.
"""

import itertools
import json
import os
import sys
import threading
import time

SWITCH = sys.argv[1]
LOCK = threading.Lock()
TOKENS = ["unknown"]
COUNTER = itertools.count()
TOOLS = ["slow", "twice", "wrong_id", "not_json", "huge", "chatty"]
LISTED_TOOLS = 1_000
LISTED_ITEMS = 500


def is_active():
    return os.path.exists(SWITCH)


def write(text):
    with LOCK:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def flood():
    """Sends messages of all kinds without pause."""
    while True:
        if not is_active():
            time.sleep(0.1)
            continue
        number = next(COUNTER)
        progress = {"progressToken": TOKENS[-1], "progress": number, "message": "x" * 200}
        messages = [
            {"id": f"ping-{number}", "method": "ping"},
            {"method": "notifications/tools/list_changed"},
            {"method": "notifications/resources/list_changed"},
            {"method": "notifications/message", "params": {"level": "error", "data": "y" * 500}},
            {"method": "notifications/progress", "params": progress},
            {"id": f"nothing-{number}", "result": {}},
        ]
        lines = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
        write("\n".join(lines))


def tools():
    texts = {name: f"Answers {name}" for name in TOOLS}
    if is_active():
        version = next(COUNTER)
        texts.update({f"tool_{number}": f"Does {number}, version {version}" for number in range(LISTED_TOOLS)})
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return [{"name": name, "description": text, "inputSchema": schema} for name, text in texts.items()]


def endless_page(kind):
    """A page that always has a next one."""
    page = next(COUNTER)
    names = [f"{kind}-{page}-{number}" for number in range(LISTED_ITEMS)]
    items = [{"name": name, "uri": f"x://{name}", "uriTemplate": f"x://{name}/{{a}}"} for name in names]
    return {kind: items, "nextCursor": str(page)}


def call(id, name):
    result = {"content": [{"type": "text", "text": "done"}]}
    if not is_active():
        return send({"id": id, "result": result})
    if name == "slow":
        time.sleep(5)
    if name == "not_json":
        write('{"jsonrpc": "2.0", "id": ')
    if name == "wrong_id":
        return send({"id": f"{id}-other", "result": result})
    if name == "huge":
        result["content"][0]["text"] = "z" * (4 << 20)
    if name == "chatty":
        for step in range(2_000):
            send({"method": "notifications/progress", "params": {"progressToken": TOKENS[-1], "progress": step}})
    send({"id": id, "result": result})
    if name == "twice":
        send({"id": id, "result": result})


def answer(message):
    id, method, params = message["id"], message["method"], message.get("params") or {}
    lists = {"resources/list": "resources", "prompts/list": "prompts", "resources/templates/list": "resourceTemplates"}
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "resources": {"listChanged": True}, "prompts": {}, "logging": {}}
        info = {"capabilities": capabilities, "serverInfo": {"name": "hostile", "version": "1"}}
        return send({"id": id, "result": {"protocolVersion": "2025-06-18", **info}})
    if method == "tools/call":
        TOKENS.append((params.get("_meta") or {}).get("progressToken"))
        return call(id, params["name"])
    result = {}
    if method == "tools/list":
        result = {"tools": tools()}
    elif method in lists:
        result = endless_page(lists[method]) if is_active() else {lists[method]: []}
    if is_active() and method != "ping":
        time.sleep(0.5)
    send({"id": id, "result": result})


def main():
    os.nice(19)
    threading.Thread(target=flood, daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
    os._exit(0)


main()
