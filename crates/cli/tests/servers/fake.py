"""An MCP server that fails in the mode that its argument names. It sends one JSON-RPC message per line."""

import json
import os
import subprocess
import sys
import threading
import time

MODE = sys.argv[1]


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name, **more):
    return {"name": name, "description": f"Does {name}", "inputSchema": {"type": "object"}, **more}


def page(cursor):
    if MODE == "pages":
        number = int(cursor or 0)
        return {"tools": [tool(f"tool_{number}")], **({"nextCursor": str(number + 1)} if number < 4 else {})}
    if MODE == "endless":
        number = int(cursor or 0)
        return {"tools": [tool(f"tool_{number}")], "nextCursor": str(number + 1)}
    if MODE == "circle":
        return {"tools": [tool("again")], "nextCursor": "same"}
    if MODE == "dies_between_pages":
        if cursor:
            print("out of luck", file=sys.stderr)
            os._exit(3)
        return {"tools": [tool("first")], "nextCursor": "1"}
    if MODE == "same_names":
        return {"tools": [tool("twice", description="the first"), tool("twice", description="the second"), tool("once")]}
    if MODE == "odd_schemas":
        schemas = [[], 3, {"$ref": "http://127.0.0.1:1/"}, {"type": "nonsense"}]
        odd = [{"name": f"odd_{number}", "inputSchema": schema} for number, schema in enumerate(schemas)]
        return {"tools": [*odd, {"name": "none"}, "text", tool("sound")]}
    if MODE == "long_description":
        return {"tools": [tool("long", description="x" * 50_000_000)]}
    if MODE == "claims":
        claims = {"source": "mail", "aliases": ["bash"], "safe": True, "untrusted": False, "allowed_roles": []}
        hints = {"readOnlyHint": True, "title": "Friendly"}
        return {"tools": [tool("claims", **claims, annotations=hints, icons=[], _meta={"a": 1})]}
    if MODE == "calls":
        name = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        greet = {"name": "greet", "description": "Greets somebody", "inputSchema": name}
        return {"tools": [greet, tool("wipe", annotations={"destructiveHint": True}), tool("wait")]}
    if MODE == "changes":
        # The tools are listed in a file, one name per line; "die" ends the server.
        with open(sys.argv[2]) as file:
            names = file.read().split()
        if names == ["die"]:
            os._exit(1)
        return {"tools": [tool(name) for name in names]}
    return {"tools": [tool("greet", title="Greet", outputSchema={"type": "object"})]}


def tell_of_changes():
    seen = os.stat(sys.argv[2]).st_mtime_ns
    while True:
        time.sleep(0.02)
        now = os.stat(sys.argv[2]).st_mtime_ns
        if now != seen:
            seen = now
            send({"method": "notifications/tools/list_changed"})


if MODE == "hangs":
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)
if MODE == "waits":
    child = subprocess.Popen(["sleep", "600"])
    with open(sys.argv[2], "w") as file:
        file.write(str(child.pid))
    time.sleep(600)
if MODE == "ends":
    print("no such database\nSECRET line", file=sys.stderr)
    sys.exit(1)
if MODE == "stderr_flood":
    sys.stderr.write("noise " * 2_000_000 + "\nlast words\n")
if MODE == "slow_start":
    # Longer than the time after which a client tries another handshake.
    time.sleep(11)
if MODE == "stdout_logs":
    print("server listening\n{not json}\n\n[1, 2]", flush=True)
if MODE == "children":
    # The child process survives unless the process group is killed.
    child = subprocess.Popen(["sleep", "600"])
    with open(sys.argv[2], "w") as file:
        file.write(str(child.pid))
if MODE == "environment":
    print(json.dumps(sorted(os.environ)), os.getcwd(), file=sys.stderr, flush=True)
    sys.exit(1)

if MODE == "changes":
    threading.Thread(target=tell_of_changes, daemon=True).start()

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if "id" not in message:
        continue
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }
        send({"id": message["id"], "result": result})
    elif method == "tools/list":
        if MODE == "hangs_later":
            time.sleep(600)
        send({"id": message["id"], "result": page((message.get("params") or {}).get("cursor"))})
    elif method == "tools/call":
        called = message["params"]
        if called["name"] == "wait":
            child = subprocess.Popen(["sleep", "600"])
            with open(sys.argv[2], "w") as file:
                file.write(str(child.pid))
            time.sleep(600)
        text = f"Hello {called['arguments']['name']}" if called["name"] == "greet" else "all is gone"
        send({"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}})
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})
if MODE == "stays":
    time.sleep(600)
