"""The tools, prompts and resources that npm @modelcontextprotocol/conformance requires of a server, built on PyPI `mcp`.

usage: conformance.py [--http PORT]

Over HTTP it listens on 127.0.0.1, path /mcp, and prints its port.
"""

import argparse
import json
import socket
import warnings

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError

warnings.simplefilter("ignore")

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA=="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
NO_ARGUMENTS = {"type": "object", "properties": {}}
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

TOOLS = {}


def text(text):
    return {"type": "text", "text": text}


def embedded(uri, kind, text):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}}


def tool(description, schema=NO_ARGUMENTS):
    def register(function):
        definition = {"name": function.__name__, "description": description, "inputSchema": schema}
        TOOLS[function.__name__] = (types.Tool.model_validate(definition), function)
        return function

    return register


def one(name):
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


@tool("Returns a text")
async def test_simple_text(_ctx, _arguments):
    return [text("This is a simple text response for testing.")]


@tool("Returns an image")
async def test_image_content(_ctx, _arguments):
    return [IMAGE]


@tool("Returns a sound")
async def test_audio_content(_ctx, _arguments):
    return [{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}]


@tool("Returns an embedded resource")
async def test_embedded_resource(_ctx, _arguments):
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@tool("Returns a text, an image and an embedded resource")
async def test_multiple_content_types(_ctx, _arguments):
    data = json.dumps({"test": "data", "value": 123}, separators=(",", ":"))
    resource = embedded("test://mixed-content-resource", "application/json", data)
    return [text("Multiple content types test:"), IMAGE, resource]


@tool("Writes three messages to the client's log")
async def test_tool_with_logging(ctx, _arguments):
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"]:
        if message != "Tool execution started":
            await anyio.sleep(0.05)
        await ctx.session.send_log_message("info", message, related_request_id=ctx.request_id)
    return [text("Logged three messages.")]


@tool("Fails")
async def test_error_handling(_ctx, _arguments):
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool("Reports its progress")
async def test_tool_with_progress(ctx, _arguments):
    for progress in [0, 50, 100]:
        if progress:
            await anyio.sleep(0.05)
        await ctx.session.report_progress(progress, 100)
    return [text("Reported progress.")]


@tool("Asks the client's model", one("prompt"))
async def test_sampling(ctx, arguments):
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=arguments["prompt"]))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return [text(f"LLM response: {getattr(answer.content, 'text', answer.content)}")]


async def elicit(ctx, message, properties, required=()):
    """Asks the user, and returns the answer as text."""
    schema = {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content or {})}"


@tool("Asks the user for a name and an address", one("message"))
async def test_elicitation(ctx, arguments):
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return [text(f"User response: {await elicit(ctx, arguments['message'], properties, ['username', 'email'])}")]


@tool("Asks the user with defaults of all primitive types")
async def test_elicitation_sep1034_defaults(ctx, _arguments):
    properties = {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "description": "Verification status", "default": True},
    }
    answer = await elicit(ctx, "Please review the defaults", properties)
    return [text(f"Elicitation completed: {answer}")]


@tool("Asks the user with all kinds of choices")
async def test_elicitation_sep1330_enums(ctx, _arguments):
    plain = ["option1", "option2", "option3"]

    def titled(noun):
        ordinals = ["First", "Second", "Third"]
        return [{"const": f"value{n}", "title": f"{ordinal} {noun}"} for n, ordinal in enumerate(ordinals, 1)]

    legacy = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    properties = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", **legacy},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }
    answer = await elicit(ctx, "Please choose", properties)
    return [text(f"Elicitation completed: {answer}")]


@tool("Closes its stream before it answers, so that the client must come back")
async def test_reconnection(ctx, _arguments):
    if ctx.close_sse_stream:
        await ctx.close_sse_stream()
        await anyio.sleep(0.1)
    return [text("Reconnection test completed.")]


@tool("Tool with JSON Schema 2020-12 features", SCHEMA_2020_12)
async def json_schema_2020_12_tool(_ctx, arguments):
    return [text(json.dumps(arguments))]


async def list_tools(_ctx, _params):
    return types.ListToolsResult(tools=[definition for definition, _ in TOOLS.values()])


async def call_tool(ctx, params):
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    try:
        content = await TOOLS[params.name][1](ctx, params.arguments or {})
    except Exception as fault:
        return types.CallToolResult.model_validate({"content": [text(str(fault))], "isError": True})
    return types.CallToolResult.model_validate({"content": content})


RESOURCES = [
    ("test://static-text", "text/plain", {"text": "This is the content of the static text resource."}),
    ("test://static-binary", "image/png", {"blob": PIXEL}),
    ("test://watched-resource", "text/plain", {"text": "This resource can be subscribed to."}),
]


async def list_resources(_ctx, _params):
    resources = [
        {"uri": uri, "name": uri[7:], "description": f"The resource {uri[7:]}", "mimeType": kind}
        for uri, kind, _ in RESOURCES
    ]
    return types.ListResourcesResult.model_validate({"resources": resources})


async def list_templates(_ctx, _params):
    template = {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "Data by id",
        "mimeType": "application/json",
    }
    return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [template]})


def content_of(uri):
    for known, kind, content in RESOURCES:
        if known == uri:
            return kind, content
    if uri.startswith("test://template/") and uri.endswith("/data"):
        name = uri[len("test://template/") : -len("/data")]
        data = {"id": name, "templateTest": True, "data": f"Data for ID: {name}"}
        return "application/json", {"text": json.dumps(data, separators=(",", ":"))}
    raise MCPError(types.INVALID_PARAMS, f"Resource not found: {uri}", {"uri": uri})


async def read_resource(_ctx, params):
    kind, content = content_of(str(params.uri))
    contents = [{"uri": str(params.uri), "mimeType": kind, **content}]
    return types.ReadResourceResult.model_validate({"contents": contents})


async def accept(_ctx, _params):
    return types.EmptyResult()


PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
}


async def list_prompts(_ctx, _params):
    prompts = [
        {
            "name": name,
            "description": f"The prompt {name}",
            "arguments": [{"name": argument, "description": "A text", "required": True} for argument in arguments],
        }
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult.model_validate({"prompts": prompts})


async def get_prompt(_ctx, params):
    given = params.arguments or {}
    missing = [argument for argument in PROMPTS.get(params.name, []) if argument not in given]
    if params.name not in PROMPTS or missing:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt {params.name} or missing arguments {missing}")
    if params.name == "test_simple_prompt":
        parts = [text("This is a simple prompt for testing.")]
    elif params.name == "test_prompt_with_arguments":
        parts = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
    elif params.name == "test_prompt_with_embedded_resource":
        resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
        parts = [resource, text("Please process the embedded resource above.")]
    else:
        parts = [IMAGE, text("Please analyze the image above.")]
    return types.GetPromptResult.model_validate({"messages": [{"role": "user", "content": part} for part in parts]})


async def complete(_ctx, params):
    values = [word for word in ["paris", "park", "party"] if word.startswith(params.argument.value)]
    completion = types.Completion(values=values, total=len(values), has_more=False)
    return types.CompleteResult(completion=completion)


class Events(EventStore):
    """Stores sent events, so that a reconnecting client receives the missed ones."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self.events):
            return None
        last = int(last_event_id)
        stream = self.events[last - 1][0]
        for number, (stream_id, message) in enumerate(self.events[last:], last + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


server = Server(
    "conformance",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=accept,
    on_unsubscribe_resource=accept,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=accept,
)


async def serve_stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(port):
    listener = socket.create_server(("127.0.0.1", port))
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


options = argparse.ArgumentParser()
options.add_argument("--http", type=int)
options = options.parse_args()
if options.http is None:
    anyio.run(serve_stdio)
else:
    serve_http(options.http)
