"""The way of a call through the gateway: the stages, the ways to end early, and what the audit log records."""

from .flow import CENTRE, MIDDLE, RIGHT, WIDTH, Flow, headed, headings, legend, note
from .svg import arrow, box, card, picture, text

TITLE = "The way of a call through the gateway, from the client's message to the answer."
HEIGHT = 984
GATEWAY = "crates/gateway/src/"
# The functions that the picture shows.
NAMES = [
    (GATEWAY + "handler/tool_calls.rs", "handle_call"),
    ("crates/http/src/api/call.rs", "call"),
    (GATEWAY + "calls.rs", "CallRunner::run"),
    (GATEWAY + "journal.rs", "Journal::ready"),
    (GATEWAY + "calls/resolve.rs", "ResolvedCall::new"),
    (GATEWAY + "calls/record.rs", "CallRecorder::begin"),
    (GATEWAY + "calls/authorise.rs", "AuthorisedCall"),
    (GATEWAY + "calls/authorise.rs", "authorise"),
    (GATEWAY + "calls/validate.rs", "HydratedCall"),
    (GATEWAY + "calls/validate.rs", "validate"),
    (GATEWAY + "calls/confirm.rs", "ConfirmedCall"),
    (GATEWAY + "calls/confirm.rs", "confirm"),
    (GATEWAY + "calls/send.rs", "send"),
    (GATEWAY + "relay.rs", "relay"),
    (GATEWAY + "calls/result.rs", "bound_and_scan"),
    (GATEWAY + "calls/runner.rs", "CallOutcome"),
    (GATEWAY + "calls/record.rs", "CallRecorder::finish"),
    (GATEWAY + "journal/thread.rs", "JournalWriter"),
    (GATEWAY + "handler/tool_calls.rs", "list_outcome"),
    (GATEWAY + "refusal.rs", "Refusal::result"),
]
LEGEND = [
    (20, "stage", "a stage, with its file in crates/gateway/src"),
    (320, "stop", "a refusal"),
    (416, "warning", "the client answers and calls again"),
    (690, "audit", "the audit log"),
]
GAP = 32
# The distance between the frame of `CallRunner::run` and the stages in it.
FRAME = 14
# The vertical line along which early ends reach the record.
RAIL = 890


def entries(flow):
    """Draws the two messages with which a call arrives. Returns the place of their centre."""
    width = MIDDLE[1] / 2 - 6
    messages = [("POST /v1/call", "crates/http/src/api"), ("Handler::handle_call", "MCP, tool_calls.rs")]
    for place, (name, file) in enumerate(messages):
        x = MIDDLE[0] + (width + 12) * place
        flow.parts += card(x, 48, width, [(name, "mono"), (file, "small")])
        flow.parts.append(arrow([(x + width / 2, 94), (x + width / 2, 123)]))
    flow.parts.append(text(CENTRE, 114, "ToolCall", "name middle"))
    flow.y = 160
    return 71


def stage(flow, function, file, summary, label=None, style="stage"):
    return flow.step([(function, "mono"), (summary, "small")], style, GAP, label, file)


def early_ends(flow, y, *cards):
    """Draws early ends, and their way to the line that reaches the record."""
    for place in flow.ends(y, *cards):
        flow.parts.append(arrow([(RIGHT[0] + RIGHT[1], place), (RAIL, place)], "stop", "thin", head=False))


def checks(flow):
    """Draws the stages before a call runs. Returns the place of the first early end with a record."""
    y = stage(flow, "Journal::ready", "journal.rs", "can the audit log be written?")
    flow.ends(y, refusal("not_audited: answered at once,", "without a record"))
    first = stage(flow, "ResolvedCall::new", "calls/resolve.rs", "the tool that the name means, and its server")
    early_ends(flow, first, refusal("invalid_arguments: the server of", "the tool is unclear"))
    stage(flow, "CallRecorder::begin", "calls/record.rs", "from here on, a dropped call is recorded", "ResolvedCall", "audit")
    y = stage(flow, "authorise", "calls/authorise.rs", "the role may run the tool, and a server has it")
    early_ends(flow, y, refusal("unknown_tool, ambiguous_tool,", "not_allowed, quarantined,", "not_carried, upstream_down"))
    flow.inputs(y, headed("Upstreams", "the server of the tool"))
    y = stage(flow, "validate", "calls/validate.rs", "the arguments fit the schema, after repairs", "AuthorisedCall")
    early_ends(flow, y, refusal("invalid_arguments, cancelled"))
    flow.inputs(y, headed("Hydrator, repairer", "schemas; a model, if set"))
    y = stage(flow, "confirm", "calls/confirm.rs", "an unsafe call needs an approval", "HydratedCall")
    early_ends(flow, y, question("The client asks a person first"), refusal("not_confirmed: denied or pending"))
    flow.inputs(y, headed("Approvals", "by session, client, operator"), note("Audit log: the approval", style="audit"))
    return first


def run(flow):
    """Draws the stages from the message to the server on. Returns the place of the last one."""
    y = stage(flow, "send", "calls/send.rs, relay.rs", "by the server's own name of the tool", "ConfirmedCall")
    early_ends(flow, y, question("The server asks the client"), refusal("busy, timed_out, cancelled,", "not_carried, upstream_*"))
    flow.inputs(y, headed("Upstream", "progress, questions, result"))
    y = stage(flow, "bound_and_scan", "calls/result.rs", "cut to the limits; instructions are marked", "CallToolResult")
    early_ends(flow, y, refusal("result_blocked"))
    flow.inputs(y, headed("Settings", "limits of results, scan"))
    y = stage(flow, "CallRecorder::finish", "calls/record.rs", "done, failed, asked, or the code of a refusal", "CallOutcome", "audit")
    flow.inputs(y, headed("Audit log: the call", "by journal/thread.rs", style="audit"))
    return y


def refusal(*lines):
    return note(*lines, style="stop")


def question(*lines):
    return note(*lines, style="warning")


def draw(_root):
    flow = Flow(48)
    y = entries(flow)
    flow.inputs(y, headed("Registry", "snapshot, view of the role"))
    flow.ends(y, note("search_tools, describe_tool and", "read_result are answered here"))
    first = checks(flow)
    last = run(flow)
    flow.parts.append(arrow([(RAIL, first), (RAIL, last), (MIDDLE[0] + MIDDLE[1] + 3, last)], "stop", "thin"))
    flow.parts.append(text(RIGHT[0], last - 8, "all these ends are recorded", "small"))
    answer = [("Handler::list_outcome, Refusal::result", "mono"), ("the result; of a refusal, a text for the model", "small")]
    flow.step(answer, "box", GAP)
    x, width = MIDDLE
    frame = [
        box(x - FRAME, 126, width + 2 * FRAME, last - 126 + 23 + FRAME, "group"),
        text(x, 147, "CallRunner::run", "name"),
        text(x + width - 10, 147, "calls.rs", "small end"),
    ]
    parts = headings("What it uses", "The gateway", "Where it can end early") + frame + flow.parts
    return picture(WIDTH, HEIGHT, TITLE, parts + legend(HEIGHT - 20, LEGEND))
