"""The official clients of OpenAI and Anthropic, unchanged, over five turns; prints the result of each turn.

models.py WHICH URL STREAM TOOLS TURNS: WHICH is chat, responses or messages; STREAM is stream or whole; TOOLS and TURNS are files.
"""

import json
import sys

import anthropic
import openai

WHICH, URL, STREAM = sys.argv[1], sys.argv[2], sys.argv[3] == "stream"
TOOLS, TURNS = (json.load(open(path, encoding="utf-8")) for path in sys.argv[4:6])
MODEL = "model-1"


def chat(client, talk):
    """Sends one request, and returns the text and the names of the calls."""
    if not STREAM:
        message = client.chat.completions.create(model=MODEL, messages=talk, tools=TOOLS).choices[0].message
    else:
        with client.chat.completions.stream(model=MODEL, messages=talk, tools=TOOLS) as stream:
            message = stream.get_final_completion().choices[0].message
    calls = [{"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
             for call in message.tool_calls or []]
    talk.append({"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})})
    for call in calls:
        assert json.loads(call["function"]["arguments"]) == {"q": "x"}, call
        talk.append({"role": "tool", "tool_call_id": call["id"], "content": "a result"})
    return message.content, [call["function"]["name"] for call in calls]


def responses(client, talk):
    if not STREAM:
        answer = client.responses.create(model=MODEL, input=talk, tools=TOOLS)
    else:
        with client.responses.stream(model=MODEL, input=talk, tools=TOOLS) as stream:
            for _ in stream:
                pass
            answer = stream.get_final_response()
    calls = [item for item in answer.output if item.type == "function_call"]
    talk += [item.model_dump(exclude_none=True, exclude={"parsed_arguments", "parsed"}) for item in answer.output]
    for call in calls:
        assert json.loads(call.arguments) == {"q": "x"}, call
        talk.append({"type": "function_call_output", "call_id": call.call_id, "output": "a result"})
    return answer.output_text, [call.name for call in calls]


def messages(client, talk):
    asked = {"model": MODEL, "max_tokens": 100, "messages": talk, "tools": TOOLS}
    if not STREAM:
        answer = client.messages.create(**asked)
    else:
        with client.messages.stream(**asked) as stream:
            answer = stream.get_final_message()
    calls = [block for block in answer.content if block.type == "tool_use"]
    talk.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
    if calls:
        assert all(call.input == {"q": "x"} for call in calls), calls
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "a result"} for call in calls]
        talk.append({"role": "user", "content": results})
    return "".join(block.text for block in answer.content if block.type == "text"), [call.name for call in calls]


if WHICH == "messages":
    client, ask = anthropic.Anthropic(base_url=URL, api_key="sk-client", max_retries=0), messages
else:
    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="sk-client", max_retries=0)
    ask = chat if WHICH == "chat" else responses
talk, outcomes = [], []
for said in TURNS:
    talk.append({"role": "user", "content": said})
    called = []
    while True:
        text, calls = ask(client, talk)
        called += calls
        if not calls:
            break
    outcomes.append({"said": text, "called": called})
print(json.dumps(outcomes))
