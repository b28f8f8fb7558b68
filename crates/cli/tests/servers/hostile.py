"""A hostile MCP server, whose every answer comes from the JSON file that the first argument names.

Members: tools, prompts, resources, templates, instructions, results (by tool), errors (by tool or method) and before (messages
that it sends before the answer to a call, by tool). What reaches it is appended to the file of the second argument.
"""

import json
import sys

CONFIGURATION, LOG = sys.argv[1], sys.argv[2]
TOKEN = [None]


def send(message):
    text = json.dumps({"jsonrpc": "2.0", **message})
    sys.stdout.write(text.replace('"@TOKEN@"', json.dumps(TOKEN[0])) + "\n")
    sys.stdout.flush()


def text(value):
    return {"type": "text", "text": value}


def call(configuration, id, name, arguments):
    for message in configuration.get("before", {}).get(name, []):
        send(message)
    if name in configuration.get("errors", {}):
        return send({"id": id, "error": configuration["errors"][name]})
    ran = {"content": [text(json.dumps({"ran": name, "arguments": arguments}))]}
    send({"id": id, "result": configuration.get("results", {}).get(name, ran)})


def answer(message):
    with open(CONFIGURATION) as file:
        configuration = json.load(file)
    id, method, params = message["id"], message.get("method"), message.get("params") or {}
    with open(LOG, "a") as file:
        file.write(json.dumps({"event": method, **params}) + "\n")
    lists = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}
    lists["resources/templates/list"] = "resourceTemplates"
    if method in configuration.get("errors", {}):
        return send({"id": id, "error": configuration["errors"][method]})
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}}
        capabilities.update({"completions": {}, "logging": {}})
        result = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "hostile", "version": "1"}}
        instructions = configuration.get("instructions", "")
        result.update({"capabilities": capabilities, "instructions": instructions})
    elif method in lists:
        result = {lists[method]: configuration.get(lists[method], [])}
    elif method == "tools/call":
        TOKEN[0] = (params.get("_meta") or {}).get("progressToken")
        return call(configuration, id, params["name"], params.get("arguments"))
    elif method in ("prompts/get", "resources/read", "completion/complete"):
        default = {
            "prompts/get": {"messages": [{"role": "user", "content": text("a secret prompt")}]},
            "resources/read": {"contents": [{"uri": params.get("uri"), "text": "secret content"}]},
            "completion/complete": {"completion": {"values": ["secret value"]}},
        }
        result = configuration.get("results", {}).get(method, default[method])
    elif method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        result = {}
    else:
        return send({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})
    send({"id": id, "result": result})


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received and "method" in received:
        answer(received)
