"""A server that answers with numbers as they are written, and tells the digits that it is sent.

`get` and `get_text` answer {"x": n} for the text n, as structured content and as text; `put` answers its arguments with every number as
text.
"""

import json
import sys


def tool(name, properties, output=None):
    schema = {"type": "object", "properties": properties}
    return {"name": name, "inputSchema": schema, **({"outputSchema": output} if output else {})}


WORD = {"type": "string"}
TOOLS = [
    tool("get", {"n": WORD}),
    tool("get_text", {"n": WORD}),
    tool("put", {"x": {}, "list": {}}),
    tool("find", {"id": {"type": "integer", "format": "int64"}, "ids": {"type": "array", "items": {"type": "integer", "maximum": 2**63 - 1}}, "page": {"type": "integer"}},
         {"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 18446744073709551615}}}),
]


def call(name, arguments):
    if name == "put":
        return '{"content":[{"type":"text","text":%s}]}' % json.dumps(json.dumps(arguments))
    if name == "find":
        return '{"content":[],"structuredContent":{"id":18446744073709551615}}'
    body = '{"x": %s}' % arguments["n"]
    text = '"content":[{"type":"text","text":%s}]' % json.dumps(body)
    return "{%s}" % (text if name == "get_text" else text + ',"structuredContent":' + body)


for line in sys.stdin:
    message = json.loads(line, parse_int=str, parse_float=str)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = json.dumps({"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "resources": {}}, "serverInfo": {"name": "exact", "version": "1"}})
    elif method == "tools/list":
        result = json.dumps({"tools": TOOLS})
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments", {}))
    elif method == "resources/list":
        result = json.dumps({"resources": [{"uri": "exact://x", "name": "x", "mimeType": "application/json"}]})
    elif method == "resources/read":
        result = json.dumps({"contents": [{"uri": "exact://x", "mimeType": "application/json", "text": '{"x": 1915883588174806058}'}]})
    else:
        print('{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}' % message["id"], flush=True)
        continue
    print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (message["id"], result), flush=True)
