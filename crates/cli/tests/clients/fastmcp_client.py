"""The client of FastMCP, driven by steps in JSON on standard input; prints an outcome in JSON per step.

fastmcp_client.py stdio COMMAND ARGUMENTS... | fastmcp_client.py http URL [KEY]; ELICIT is accept, decline or nothing, and MODE legacy for a
revision before 2026-07-28.
"""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

ASKED = []
CHANGED = asyncio.Event()


def shown(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def elicit(message, response_type, params, context):
    ASKED.append(message)
    if os.environ["ELICIT"] != "accept":
        return ElicitResult(action=os.environ["ELICIT"])
    schema = getattr(params, "requested_schema", None) or params.requestedSchema
    return ElicitResult(action="accept", content={name: name == "run" or "blue" for name in schema["properties"]})


async def heard(message):
    if "ToolListChanged" in repr(message) or "tools/list_changed" in repr(message):
        CHANGED.set()


async def step(client, step):
    do = step["do"]
    if do == "list":
        return {"tools": [shown(tool) for tool in await client.list_tools()]}
    if do == "call":
        told = []

        async def progress(done, total, message):
            told.append([done, total, message])

        call = client.call_tool_mcp(step["name"], step.get("arguments", {}), progress_handler=progress)
        if "cancel_after" in step:
            task = asyncio.ensure_future(call)
            await asyncio.sleep(step["cancel_after"])
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return {"cancelled": True}
            return {"cancelled": False}
        result = shown(await call)
        return {**result, "progress": told} if step.get("progress") else result
    if do == "asked":
        return {"asked": ASKED}
    if do == "read_resource":
        return {"contents": [shown(part) for part in await client.read_resource(step["uri"])]}
    if do == "get_prompt":
        return shown(await client.get_prompt(step["name"], step.get("arguments")))
    if do == "wait_list_changed":
        # A notification of an earlier change may be pending.
        while True:
            await asyncio.wait_for(CHANGED.wait(), 10)
            CHANGED.clear()
            if "tool" not in step or any(tool.name == step["tool"] for tool in await client.list_tools()):
                return {"changed": True}
    raise ValueError(do)


async def main():
    if sys.argv[1] == "stdio":
        transport = StdioTransport(sys.argv[2], sys.argv[3:], env=dict(os.environ))
    else:
        headers = {"Authorization": f"Bearer {sys.argv[3]}"} if len(sys.argv) > 3 else {}
        transport = StreamableHttpTransport(sys.argv[2], headers=headers)
    handlers = {"elicitation_handler": elicit} if os.environ.get("ELICIT") else {}
    mode = os.environ.get("MODE", "auto")
    async with Client(transport, mode=mode, message_handler=heard, **handlers) as client:
        print(json.dumps({"serverInfo": shown(client.server_info), "protocol": client.protocol_version}), flush=True)
        for line in sys.stdin:
            try:
                made = await step(client, json.loads(line))
            except Exception as error:
                details = getattr(error, "error", None)
                code = getattr(details, "code", 0)
                made = {"error": {"code": code, "message": repr(error)}}
            print(json.dumps(made), flush=True)


asyncio.run(main())
