"""The official Python client, driven by steps in JSON on standard input; prints an outcome in JSON per step.

official.py stdio COMMAND ARGUMENTS... | official.py http URL [KEY]; ELICIT is accept, decline or nothing.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import ClientSession, MCPError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


class Client:
    def __init__(self):
        self.changes = asyncio.Event()
        self.logs = []
        self.asked = []

    async def heard(self, message):
        if isinstance(message, types.ToolListChangedNotification) or "list_changed" in json.dumps(str(message)):
            self.changes.set()

    async def logged(self, params):
        self.logs.append({"level": params.level, "logger": params.logger, "data": params.data})

    async def elicit(self, context, params):
        self.asked.append(params.message)
        if os.environ["ELICIT"] != "accept":
            return types.ElicitResult(action=os.environ["ELICIT"])
        names = params.requested_schema["properties"] if hasattr(params, "requested_schema") else {}
        return types.ElicitResult(action="accept", content={name: name == "run" or "blue" for name in names})

    async def step(self, session, step):
        do = step["do"]
        if do == "list":
            tools, cursor = [], None
            while True:
                page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor:
                    return {"tools": tools}
        if do == "call":
            heard = []

            async def progress(done, total, message):
                heard.append([done, total, message])

            call = session.call_tool(
                step["name"],
                step.get("arguments", {}),
                read_timeout_seconds=step.get("timeout", 60),
                progress_callback=progress if step.get("progress") else None,
            )
            if "cancel_after" in step:
                task = asyncio.ensure_future(call)
                await asyncio.sleep(step["cancel_after"])
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    return {"cancelled": True}
                return {"cancelled": False}
            result = await call
            answer = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            return {**answer, "progress": heard} if step.get("progress") else answer
        if do == "together":
            return {"together": await asyncio.gather(*(self.outcome(session, each) for each in step["steps"]))}
        if do == "wait_list_changed":
            # A notification of an earlier change may be pending.
            while True:
                await asyncio.wait_for(self.changes.wait(), step.get("timeout", 10))
                self.changes.clear()
                if "tool" not in step or any(tool.name == step["tool"] for tool in (await session.list_tools()).tools):
                    return {"changed": True}
        if do == "resources":
            result = await session.list_resources()
        elif do == "templates":
            result = await session.list_resource_templates()
        elif do == "read_resource":
            result = await session.read_resource(step["uri"])
        elif do == "prompts":
            result = await session.list_prompts()
        elif do == "get_prompt":
            result = await session.get_prompt(step["name"], step.get("arguments"))
        elif do == "complete":
            ref = types.PromptReference(type="ref/prompt", name=step["prompt"])
            result = await session.complete(ref, {"name": step["name"], "value": step["value"]})
        elif do == "level":
            result = await session.set_logging_level(step["level"])
        elif do == "logs":
            await asyncio.sleep(step.get("after", 0.2))
            return {"logs": self.logs}
        elif do == "asked":
            return {"asked": self.asked}
        elif do == "run":
            # An external event happens between two steps.
            process = await asyncio.create_subprocess_exec(*step["command"])
            return {"rc": await process.wait()}
        elif do == "sleep":
            await asyncio.sleep(step["seconds"])
            return {}
        else:
            raise ValueError(do)
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def outcome(self, session, step):
        try:
            return await self.step(session, step)
        except MCPError as error:
            return {"error": {"code": error.error.code, "message": error.error.message}}
        except Exception as error:
            return {"error": {"code": 0, "message": repr(error)}}

    async def run(self, read, write):
        elicit = self.elicit if os.environ.get("ELICIT") else None
        session = ClientSession(
            read, write, message_handler=self.heard, logging_callback=self.logged, elicitation_callback=elicit
        )
        async with session:
            hello = await session.initialize()
            print(json.dumps(hello.model_dump(mode="json", by_alias=True, exclude_none=True)), flush=True)
            for line in sys.stdin:
                print(json.dumps(await self.outcome(session, json.loads(line))), flush=True)


async def main():
    client = Client()
    if sys.argv[1] == "stdio":
        environment = {name: value for name, value in os.environ.items()}
        server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=environment)
        async with stdio_client(server) as (read, write):
            await client.run(read, write)
    else:
        headers = {"Authorization": f"Bearer {sys.argv[3]}"} if len(sys.argv) > 3 else {}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            async with streamable_http_client(sys.argv[2], http_client=http) as (read, write, *_):
                await client.run(read, write)


asyncio.run(main())
