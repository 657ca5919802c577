"""The tools, resources and prompts that the conformance suite asks for (2026-07-28, stdio, standard library only)."""

import json
import sys
import threading
import time

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FORM = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
# Keywords of JSON Schema 2020-12 that are to arrive as they are.
KEYWORDS = {
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
TEXT = {"uri": "test://static-text", "name": "static-text", "mimeType": "text/plain"}
BINARY = {"uri": "test://static-binary", "name": "static-binary", "mimeType": "image/png"}
RESOURCES = [TEXT, BINARY]
TEMPLATES = [{"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}]


def argument(name):
    return {"name": name, "description": f"The {name}", "required": True}


PROMPTS = [
    {"name": "test_simple_prompt", "description": "A prompt without arguments"},
    {"name": "test_prompt_with_arguments", "description": "Repeats its arguments", "arguments": [argument("arg1"), argument("arg2")]},
    {"name": "test_prompt_with_embedded_resource", "description": "A resource", "arguments": [argument("resourceUri")]},
    {"name": "test_prompt_with_image", "description": "An image"},
    {"name": "test_input_required_result_prompt", "description": "Asks back first"},
]

LOCK = threading.Lock()
META = "io.modelcontextprotocol/"


def text(words):
    return {"type": "text", "text": words}


def resource(uri, words):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": words}}


def form(message, properties, required=()):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def sampling(words):
    params = {"messages": [{"role": "user", "content": text(words)}], "maxTokens": 100}
    return {"method": "sampling/createMessage", "params": params}


STRING = {"type": "string"}
ROOTS = {"method": "roots/list"}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEA", "mimeType": "audio/wav"}
TITLED = [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
ENUMS = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}
# Tools that answer at once, with this content.
CONTENT = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_reconnection": [text("The stream of this call may be resumed.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AUDIO],
    "test_embedded_resource": [resource("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", '{"test":"data","value":123}'),
    ],
}
NAME = form("What is your name?", {"name": STRING}, ["name"])
# Tools that ask first: what, round by round.
QUESTIONS = {
    "test_sampling": [{"ask": sampling("a prompt")}],
    "test_missing_capability": [{"ask": sampling("a prompt")}],
    "test_elicitation": [{"ask": form("Who are you?", {"username": STRING, "email": STRING}, ["username", "email"])}],
    "test_elicitation_sep1034_defaults": [{"ask": form("Please review the defaults", DEFAULTS)}],
    "test_elicitation_sep1330_enums": [{"ask": form("Please choose", ENUMS)}],
    "test_input_required_result_elicitation": [{"user_name": NAME}],
    "test_input_required_result_sampling": [{"capital_question": sampling("What is the capital of France?")}],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [{"confirm": form("Please confirm", {"ok": {"type": "boolean"}}, ["ok"])}],
    "test_input_required_result_multiple_inputs": [{"user_name": NAME, "greeting": sampling("Greet"), "client_roots": ROOTS}],
    "test_input_required_result_multi_round": [
        {"step1": form("Step 1: What is your name?", {"name": STRING}, ["name"])},
        {"step2": form("Step 2: What is your favorite color?", {"color": STRING}, ["color"])},
    ],
    "test_input_required_result_tampered_state": [{"confirm": form("Confirm?", {"ok": {"type": "boolean"}}, ["ok"])}],
    "confirm_delete": [{"confirm": form("Delete it?", {"confirm": {"type": "boolean"}})}],
    "multi_input": [{"first": form("First?", {"name": STRING}), "second": form("Second?", {"name": STRING})}],
    "test_tool_with_task": [{"user_name": NAME}],
    "test_input_required_result_capabilities": [{"ask": sampling("a prompt"), "or": NAME}],
}
ABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
JOBS = ["greet", "slow_compute", "failing_job", "protocol_error_job"]
OTHERS = ["test_error_handling", "test_tool_with_logging", "test_tool_with_progress", *JOBS]
ARGUMENTS = {**{name: STRING for name in ["prompt", "message", "name", "label", "filename"]}, "seconds": {"type": "number"}}


def call(name, params):
    if name in CONTENT:
        return {"content": CONTENT[name]}
    if name in QUESTIONS:
        abilities = params["_meta"].get(f"{META}clientCapabilities", {})
        done = int(params.get("requestState") or 0)
        rounds = QUESTIONS[name]
        if done < len(rounds):
            asked = {key: one for key, one in rounds[done].items() if ABILITIES[one["method"]] in abilities}
            if not asked:
                return {"content": [text("the client cannot be asked")], "isError": True}
            return {"resultType": "input_required", "inputRequests": asked, "requestState": str(done + 1)}
        return {"content": [text(f"The answer is {json.dumps(params.get('inputResponses'))}, state-ok")]}
    if name == "greet":
        return {"content": [text(f"Hello, {params['arguments']['name']}!")]}
    if name == "slow_compute":
        time.sleep(params["arguments"]["seconds"])
        return {"content": [text("computed")]}
    if name == "failing_job":
        time.sleep(1)
        return {"content": [text("the job failed")], "isError": True}
    if name == "protocol_error_job":
        return {"error": {"code": -32603, "message": "the job broke the protocol"}}
    if name == "test_error_handling":
        return {"content": [text("This tool intentionally returns an error for testing")], "isError": True}
    for step in range(3):
        if name == "test_tool_with_logging":
            notify("notifications/message", {"level": "info", "data": f"Tool execution, step {step}"})
        else:
            token = params["_meta"]["progressToken"]
            notify("notifications/progress", {"progressToken": token, "progress": step * 50, "total": 100})
        time.sleep(0.06)
    return {"content": [text("done")]}


def notify(method, params):
    send({"jsonrpc": "2.0", "method": method, "params": params})


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def read(uri):
    if uri == TEXT["uri"]:
        return {**TEXT, "text": "This is the content of the static text resource."}
    if uri == BINARY["uri"]:
        return {**BINARY, "blob": PNG}
    parts = uri.split("/")
    if uri.startswith("test://template/") and len(parts) == 5:
        data = {"id": parts[3], "templateTest": True, "data": f"Data for ID: {parts[3]}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
    return None


def prompt(name, arguments):
    if name == "test_prompt_with_arguments":
        content = f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"
    elif name == "test_prompt_with_embedded_resource":
        resource = {"uri": arguments["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content."}
        return [{"type": "resource", "resource": resource}, "Please process the embedded resource above."]
    elif name == "test_prompt_with_image":
        return [{"type": "image", "data": PNG, "mimeType": "image/png"}, "Please analyze the image above."]
    else:
        content = "This is a simple prompt for testing."
    return [content]


def handle(message):
    method, params = message["method"], message.get("params") or {}
    info = {"name": "fixture", "version": "1"}
    capabilities = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        schema = {"type": "object", "properties": ARGUMENTS}
        names = [*CONTENT, *QUESTIONS, *OTHERS]
        tools = [{"name": name, "description": f"The tool {name}", "inputSchema": schema} for name in names]
        return {"tools": [*tools, {"name": "json_schema_2020_12_tool", "description": "Keywords", "inputSchema": KEYWORDS}]}
    if method == "tools/call":
        return call(params["name"], params)
    if method == "resources/list":
        return {"resources": RESOURCES}
    if method == "resources/templates/list":
        return {"resourceTemplates": TEMPLATES}
    if method == "prompts/list":
        return {"prompts": PROMPTS}
    if method == "resources/read":
        content = read(params["uri"])
        return {"contents": [content]} if content else None
    if method == "completion/complete":
        return {"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}}
    if method == "prompts/get":
        if params["name"] == "test_input_required_result_prompt" and not params.get("inputResponses"):
            form = {"mode": "form", "message": "What context should the prompt use?", "requestedSchema": FORM}
            question = {"method": "elicitation/create", "params": form}
            return {"resultType": "input_required", "inputRequests": {"user_context": question}, "requestState": "1"}
        texts = prompt(params["name"], params.get("arguments") or {})
        blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in texts]
        return {"messages": [{"role": "user", "content": block} for block in blocks]}
    return None


def answer(message):
    result = handle(message)
    if result is None:
        outcome = {"error": {"code": -32602, "message": f"nothing for {message['method']}"}}
    elif "error" in result:
        outcome = result
    else:
        outcome = {"result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}}
    send({"jsonrpc": "2.0", "id": message["id"], **outcome})


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
