"""An MCP server whose tools go right and wrong in the ways that their names tell. It speaks one JSON-RPC message a line."""

import json
import os
import subprocess
import sys
import threading
import time

LOCK = threading.Lock()
CANCELLED = {}
LOG = sys.argv[1]


def log(text):
    with LOCK, open(LOG, "a") as file:
        file.write(text + "\n")


def send(message):
    text = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with LOCK:
        sys.stdout.write(text)
        sys.stdout.flush()


def text(*texts, **more):
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


def call(name, arguments, token):
    if name == "echo":
        time.sleep(arguments.get("seconds", 0))
        return text(arguments.get("text", ""))
    if name == "progress":
        for step in range(1, 101):
            params = {"progressToken": token, "progress": step, "total": 100, "message": f"step {step}"}
            send({"method": "notifications/progress", "params": params})
        return text("done")
    if name == "structured":
        return text('{"n": 1}', structuredContent={"n": 1})
    if name == "parts":
        return {
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
                {"type": "audio", "data": "A" * 2_000_000, "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "size": 12},
                {"type": "resource", "resource": {"uri": "file:///b", "text": "bee"}},
                {"type": "hologram", "uri": "x"},
            ]
        }
    if name == "long":
        return text("x" * 3_000_000)
    if name == "fails":
        return text("no such city; try Bergen", isError=True)
    if name == "dies":
        print("out of memory\nbye", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "huge":
        return text("x" * 20_000_000)
    if name == "pid":
        child = subprocess.Popen(["sleep", "600"])
        return text(f"{os.getpid()} {child.pid}")
    raise KeyError(name)


def answer(message):
    params = message["params"]
    if params["name"] == "invalid":
        return send({"id": message["id"], "error": {"code": -32602, "message": "city is required"}})
    if params["name"] == "hangs":
        log(f"hangs {message['id']}")
        return None
    token = (params.get("_meta") or {}).get("progressToken")
    send({"id": message["id"], "result": call(params["name"], params.get("arguments") or {}, token)})


log("started")
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "notifications/cancelled":
        log(f"cancelled {message['params']['requestId']}")
    if "id" not in message:
        continue
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "tools", "version": "1"},
        }
        send({"id": message["id"], "result": result})
    elif method == "tools/call":
        threading.Thread(target=answer, args=(message,), daemon=True).start()
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})
