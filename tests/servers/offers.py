"""An MCP server (2025-11-25, stdio, standard library only) whose lists besides the tools are odd, late or missing.

Arguments: `odd` lists hostile and colliding names over several pages; `silent` never answers `resources/list`;
`refusing` answers `prompts/list` with an error, and `resources/list` with method not found.
"""

import json
import sys

MODE = sys.argv[1]

ODD = [
    {"uri": "x://b", "name": "Notes?.md", "description": "two\nlines \u202e and `ticks`", "mimeType": "text/plain", "size": 3},
    {"uri": "x://a", "name": "notes*.MD"},
    {"uri": "x://up", "name": "../../etc/passwd"},
    {"uri": "x://no-name"},
    {"uri": "x://b", "name": "twice"},
    {"uri": "x://bad\u200buri", "name": "invisible"},
    {"name": "no uri"},
    7,
    {"uri": "x://query?a=b&c=*", "name": "query"},
]
PROMPTS = [
    {"name": "a b/c", "description": "*Odd* name", "arguments": [{"name": "x-y", "required": True}, {"name": "z"}, 3]},
    {"name": "A b?c"},
]

IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png", "annotations": {"audience": ["user"]}}
CONTENT = {
    "mixed": {"content": [{"type": "text", "text": '{"n": 1}'}, IMAGE], "structuredContent": {"n": 1}},
    "sound": {"content": [{"type": "audio", "data": "c291bmQ=", "mimeType": "audio/wav"}]},
    "linked": {
        "content": [
            {"type": "resource_link", "uri": "x://a", "name": "a", "description": "the first"},
            {"type": "resource_link", "uri": "https://example.com/b", "name": "b"},
        ]
    },
    "embedded": {
        "content": [
            {"type": "resource", "resource": {"uri": "x://text", "mimeType": "text/plain", "text": "a long text"}},
            {"type": "resource", "resource": {"uri": "x://blob", "mimeType": "image/gif", "blob": "R0lG"}},
        ]
    },
    "large": {"content": [{"type": "image", "data": "A" * 2_000_000, "mimeType": "image/png"}]},
}


def answer(identifier, **fields):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": identifier, **fields}) + "\n")
    sys.stdout.flush()


def error(identifier, code, message):
    answer(identifier, error={"code": code, "message": message})


def handle(message):
    method, identifier, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize":
        info = {"name": "offers", "version": "1"}
        capabilities = {"tools": {}, "resources": {}, "prompts": {}}
        answer(identifier, result={"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
    elif method == "tools/list":
        answer(identifier, result={"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("tool", *CONTENT)]})
    elif method == "tools/call":
        answer(identifier, result=CONTENT[params["name"]])
    elif method == "resources/list":
        if MODE == "silent":
            return
        if MODE == "refusing":
            error(identifier, -32601, "no such method")
            return
        page = int(params.get("cursor") or 0)
        following = {"nextCursor": str(page + 1)} if page + 1 < len(ODD) else {}
        answer(identifier, result={"resources": ODD[page : page + 1], **following})
    elif method == "resources/templates/list":
        answer(identifier, result={"resourceTemplates": [{"name": "t", "uriTemplate": "x://{+anything}"}]})
    elif method == "prompts/list":
        if MODE == "refusing":
            error(identifier, -32603, "the prompts are on fire")
            return
        answer(identifier, result={"prompts": PROMPTS})
    elif method == "resources/read":
        uri = params["uri"]
        if uri in ("x://up", "x://no-nmae"):
            error(identifier, -32002, "no such resource")
        elif uri == "x://two":
            contents = [{"uri": "x://two/1", "text": "one"}, {"uri": "x://two/2", "blob": "AAEC", "mimeType": "image/png"}]
            answer(identifier, result={"contents": contents})
        else:
            answer(identifier, result={"contents": [{"uri": uri, "text": f"text of {uri}\nsecond line"}]})
    elif method == "prompts/get":
        text = json.dumps([params["name"], params.get("arguments")])
        answer(identifier, result={"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
    elif identifier is not None:
        error(identifier, -32601, f"no {method}")


for line in sys.stdin:
    if line.strip():
        handle(json.loads(line))
