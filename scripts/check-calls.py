#!/usr/bin/env python3
"""Checks translation and calls on a catalog: for each provider, strict and not, the definitions keep the provider's
rules, and a call of each definition with the fewest arguments resolves and validates. Rules and arguments are worked out
here, without the program's code.

usage: scripts/check-calls.py CATALOG PICKTOOLS [--names STRATEGY] [--no-validate]

Needs Python 3 and nothing else. Exits with 1 where a rule is broken or a call is refused.
"""

import argparse
import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROVIDERS = ["openai", "openai-responses", "anthropic", "gemini", "ollama", "mcp"]
NAMES = {
    "openai": r"[a-zA-Z0-9_-]{1,64}", "openai-responses": r"[a-zA-Z0-9_-]{1,64}", "anthropic": r"[a-zA-Z0-9_-]{1,64}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}", "ollama": r"[a-zA-Z0-9_-]{1,64}", "mcp": r"[a-zA-Z0-9_.-]{1,128}",
}
KEYS = {"anthropic": r"[a-zA-Z0-9_.-]{1,64}", "gemini": r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"}
SCHEMA = {"anthropic": "input_schema", "mcp": "inputSchema"}
OPENAI_STRICT = {"type", "description", "properties", "required", "additionalProperties", "items", "enum", "const",
                 "anyOf", "$ref", "$defs", "definitions", "title", "pattern", "format", "multipleOf", "minimum",
                 "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
ANTHROPIC_STRICT = OPENAI_STRICT - {"pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
                                    "exclusiveMaximum", "maxItems"}
GEMINI = {
    "STRING": {"enum", "pattern", "minLength", "maxLength", "format"}, "NUMBER": {"minimum", "maximum", "format"},
    "INTEGER": {"minimum", "maximum", "format"}, "BOOLEAN": set(), "ARRAY": {"items", "minItems", "maxItems"},
    "OBJECT": {"properties", "required", "minProperties", "maxProperties"},
}
GEMINI_FORMATS = {"STRING": {"date-time"}, "NUMBER": {"float", "double"}, "INTEGER": {"int32", "int64"}}
OLLAMA = {"type": (str, list), "description": str, "enum": list, "anyOf": list, "items": dict, "properties": dict,
          "required": list}


# The definitions of a request, and the schema of one.

def definitions(provider, tools):
    if provider in ("openai", "ollama"):
        return [tool["function"] for tool in tools if tool["type"] == "function"]
    if provider == "gemini":
        return [function for group in tools for function in group["functionDeclarations"]]
    return tools


def schema_of(provider, definition):
    return definition.get(SCHEMA.get(provider, "parameters"))


def nodes(schema, place=""):
    if not isinstance(schema, dict):
        return
    yield place, schema
    for keyword in ("properties", "$defs", "definitions", "patternProperties"):
        for key, part in (schema.get(keyword) or {}).items():
            yield from nodes(part, f"{place}/{keyword}/{key}")
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, part in enumerate(schema.get(keyword) or []):
            yield from nodes(part, f"{place}/{keyword}/{index}")
    for keyword in ("items", "additionalProperties", "not"):
        yield from nodes(schema.get(keyword), f"{place}/{keyword}")


# The rules.

def faults(provider, definition):
    if not re.fullmatch(NAMES[provider], definition["name"]):
        yield "the name is refused"
    schema = schema_of(provider, definition)
    if schema is None:
        if provider != "gemini":
            yield "there is no schema"
        return
    if provider.startswith("openai") and len(definition.get("description", "")) > 1024:
        yield "the description is too long"
    root = "OBJECT" if provider == "gemini" else "object"
    if schema.get("type") != root:
        yield "the root is no object"
    if provider != "mcp" and {"anyOf", "oneOf", "allOf", "enum", "not", "$ref"} & schema.keys():
        yield "the root is no plain object"
    for place, node in nodes(schema):
        keys = node.get("properties") or {}
        if provider in KEYS:
            yield from (f"{place}: the key {key!r} is refused" for key in keys if not re.fullmatch(KEYS[provider], key))
        if provider.startswith("openai") and node.get("type") == "array" and "items" not in node:
            yield f"{place}: array schema missing items"
        if definition.get("strict") is True:
            yield from strict_faults(provider, schema, place, node)
        if provider == "gemini":
            yield from gemini_faults(place, node)
        if provider == "ollama":
            for keyword, value in node.items():
                if keyword not in OLLAMA or not isinstance(value, OLLAMA[keyword]):
                    yield f"{place}: {keyword} cannot be decoded"


def strict_faults(provider, schema, place, node):
    openai = provider != "anthropic"
    for keyword in node.keys() - (OPENAI_STRICT if openai else ANTHROPIC_STRICT):
        yield f"{place}: strict mode has no {keyword}"
    if "$ref" in node and (len(node) > 1 or not resolve(schema, node["$ref"])):
        yield f"{place}: the reference is not alone, or leads nowhere"
    if not {"type", "anyOf", "$ref"} & node.keys():
        yield f"{place}: it has no type"
    if node.get("type") in ("object", ["object", "null"]):
        keys, required = set(node.get("properties", {})), node.get("required", [])
        if node.get("additionalProperties") is not False:
            yield f"{place}: it is open"
        if openai and set(required) != keys or not set(required) <= keys or len(set(required)) != len(required):
            yield f"{place}: what is required is not what there is"


def gemini_faults(place, node):
    if "anyOf" in node:
        if len(node) > 1:
            yield f"{place}: anyOf is not alone"
        return
    kind = node.get("type")
    if kind not in GEMINI:
        yield f"{place}: it has no type"
        return
    for field in node.keys() - GEMINI[kind] - {"type", "description", "nullable"}:
        yield f"{place}: {kind} has no {field}"
    if "format" in node and node["format"] not in GEMINI_FORMATS[kind]:
        yield f"{place}: {kind} has no format {node['format']}"
    if not all(isinstance(value, str) and value for value in node.get("enum", [])):
        yield f"{place}: its values are no strings, or empty"
    if kind == "ARRAY" and "items" not in node:
        yield f"{place}: items: missing field"
    if kind == "OBJECT" and not node.get("properties"):
        yield f"{place}: properties: should be non-empty"
    if kind == "OBJECT" and not set(node.get("required", [])) <= set(node.get("properties", {})):
        yield f"{place}: what is required is not defined"


# The fewest arguments.

TEXTS = ["a", "abc", "AB12", "2026-01-31", "2026-01-31T10:00:00Z", "10:00", "10:00:00", "guest@example.org",
         "https://example.org/", "192.0.2.1", "5f0c9f4e-6c3a-4b0e-9d2a-1f2e3d4c5b6a", "P1D", "1", "12", "123", "1234",
         "12345", "1234567890", "AAPL", "USD", "en", "US", "#aabbcc", "+15550100", "example.org"]
FORMATS = {"date": "2026-01-31", "date-time": "2026-01-31T10:00:00Z", "time": "10:00:00Z", "email": "guest@example.org",
           "uri": "https://example.org/", "uuid": "5f0c9f4e-6c3a-4b0e-9d2a-1f2e3d4c5b6a", "ipv4": "192.0.2.1",
           "duration": "P1D", "hostname": "example.org", "ipv6": "2001:db8::1"}


def resolve(root, target):
    for part in target.removeprefix("#").split("/")[1:]:
        root = root.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root


def without(schema, *keywords):
    return {key: value for key, value in schema.items() if key not in keywords}


def merged(whole, parts):
    for part in parts:
        for key, value in part.items():
            if key in ("properties", "required") and key in whole:
                whole[key] = whole[key] | value if isinstance(value, dict) else whole[key] + value
            else:
                whole.setdefault(key, value)
    return whole


def sample(schema, root, depth=0):
    """The fewest arguments; LookupError where there are none."""
    if schema is True or schema == {}:
        return "any"
    if not isinstance(schema, dict) or depth > 40:
        raise LookupError
    if "$ref" in schema:
        return sample(resolve(root, schema["$ref"]), root, depth + 1)
    if schema.get("allOf"):
        parts = [resolve(root, part["$ref"]) if "$ref" in part else part for part in schema["allOf"]]
        return sample(merged(without(schema, "allOf"), parts), root, depth + 1)
    ways = schema.get("anyOf") or schema.get("oneOf")
    if ways and "properties" in schema:
        return sample(merged(without(schema, "anyOf", "oneOf"), ways[:1]), root, depth + 1)
    if ways:
        for way in sorted(ways, key=lambda way: not (isinstance(way, dict) and way.get("type") == "null")):
            try:
                return sample(way, root, depth + 1)
            except LookupError:
                continue
        raise LookupError
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        if schema.get("type") in ("array", "object") and not any(isinstance(value, (list, dict)) for value in schema["enum"]):
            raise LookupError  # nothing is both
        return None if None in schema["enum"] else schema["enum"][0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = "null" if "null" in kind else kind[0]
    kind = kind.lower() if kind else "object" if "properties" in schema else "array" if "items" in schema else "any"
    said = dict(schema)
    if "Constraints: " in schema.get("description", ""):
        said |= json.JSONDecoder().raw_decode(schema["description"].split("Constraints: ", 1)[1])[0]
    if kind == "object":
        properties = schema.get("properties", {})
        members = {key: sample(properties.get(key, True), root, depth + 1) for key in schema.get("required", [])}
        # Null stands for leaving it out, and so does not count.
        for key, part in properties.items():
            if sum(value is not None for value in members.values()) >= said.get("minProperties", 0):
                break
            if isinstance(part.get("type"), list):
                part = part | {"type": [kind for kind in part["type"] if kind != "null"]}
            members[key] = sample(part, root, depth + 1)
        return members
    if kind == "array":
        places = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        return [sample(places[index] if index < len(places) else rest, root, depth + 1)
                for index in range(said.get("minItems", 0))]
    if kind in ("integer", "number"):
        return number(kind, said)
    if kind == "string":
        return text(said)
    return {"boolean": True, "null": None}.get(kind, "any")


def number(kind, said):
    bounds = [said[key] for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
              if isinstance(said.get(key), (int, float)) and not isinstance(said.get(key), bool)]
    for value in itertools.chain([0, 1, 0.5], *([bound, bound + 1, bound - 1, bound + 0.5] for bound in bounds)):
        low, high = said.get("exclusiveMinimum"), said.get("exclusiveMaximum")
        fits = (value >= said.get("minimum", value) and value <= said.get("maximum", value)
                and not (low is True and value == said.get("minimum")) and not (high is True and value == said.get("maximum"))
                and (isinstance(low, bool) or low is None or value > low)
                and (isinstance(high, bool) or high is None or value < high)
                and value % said.get("multipleOf", value or 1) == 0)
        if fits and (kind == "number" or value == int(value)):
            return int(value) if kind == "integer" else value
    raise LookupError


def text(said):
    described = said.get("description", "")
    for kind, json_text in (("an object", "{}"), ("an array", "[]"), ("any value", "any"), ("a value", "any")):
        if described.endswith(f"JSON text of {kind}."):
            return json_text
    for value in [FORMATS.get(said.get("format"), "a"), *TEXTS, "x" * said.get("minLength", 1)]:
        if (said.get("minLength", 0) <= len(value) <= said.get("maxLength", len(value))
                and re.search(said.get("pattern", ""), value)):
            return value
    raise LookupError


# The check.

def run(arguments):
    return subprocess.run(arguments, capture_output=True, text=True)


def impossible(catalog):
    """The tools whose own schemas take nothing at all."""
    file = Path(catalog) / "tools.jsonl"
    found = set()
    for tool in map(json.loads, file.open() if file.exists() else []):
        try:
            sample(tool.get("parameters") or True, tool.get("parameters"))
        except LookupError:
            found.add(tool.get("id"))
    return found


def check(catalog, program, provider, strict, names, validate):
    options = ["--catalog", catalog, "--provider", provider, "--names", names] + ["--strict"] * strict
    done = run([program, "translate", *options, "--json"])
    if done.returncode != 0:
        return f"translate failed: {done.stderr}", []
    report = json.loads(done.stdout)
    broken, calls, left_out = [], [], 0
    left = impossible(catalog) | {change.get("tool") for change in report["changes"]
                                  if change["code"] == "alternatives_merged"}
    found = definitions(provider, report["tools"])
    if len({definition["name"] for definition in found}) != len(found) or len(report["names"]) != len(found):
        broken.append("a name is there twice")
    for definition in found:
        broken += [f"{definition['name']}: {fault}" for fault in faults(provider, definition)]
        tool = report["names"][definition["name"]]
        schema = schema_of(provider, definition)
        try:
            arguments = {} if schema is None else sample(schema, schema)
        except LookupError:
            arguments = None
        # Merged alternatives say in words which arguments go together.
        if arguments is None or tool in left:
            left_out += 1
            continue
        calls.append({"name": definition["name"], "arguments": arguments, "tool": tool})
    strict_ones = sum(definition.get("strict") is True for definition in found)
    refused = []
    if validate:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "calls.jsonl"
            file.write_text("".join(json.dumps(call, ensure_ascii=False) + "\n" for call in calls))
            done = run([program, "validate", *options, "--calls", str(file), "--json"])
        if done.returncode != 0:
            refused.append(f"validate exits with {done.returncode}: {(done.stderr or done.stdout)[:2000]}")
    summary = (f"{len(found)} definitions, {strict_ones} strict, {len(broken)} rules broken, {len(calls)} calls, "
               f"{left_out} left out, {'not validated' if not validate else 'refused' if refused else 'all valid'}")
    return summary, broken + refused


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("catalog", help="catalog file, or folder that holds tools.jsonl")
    arguments.add_argument("picktools", help="the program")
    arguments.add_argument("--names", default="canonical", help="strategy of names")
    arguments.add_argument("--no-validate", action="store_true", help="check the definitions only")
    options = arguments.parse_args()
    failed = False
    for provider in PROVIDERS:
        for strict in (False, True):
            summary, wrong = check(options.catalog, options.picktools, provider, strict, options.names,
                                   not options.no_validate)
            failed |= bool(wrong) or summary.startswith("translate failed")
            print(f"{provider}{' strict' if strict else ''}: {summary}")
            for line in wrong[:10]:
                print(f"  {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
