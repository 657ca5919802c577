"""An MCP server (2025-11-25, standard library only) that sends worst-case messages.

`hostile.py lists MODE` is hostile in its lists, `hostile.py answers` in the answers of its tool `attack`, by its argument
`kind`; `hostile.py http PORT` is the second over Streamable HTTP, where `over` selects a body or an event for the answer.
`hostile.py chance SEED` randomises both: each list is different, and the answer of its tool `attack` depends on `seed`.
"""

import http.server
import json
import os
import random
import sys
import threading

MIB = 1 << 20
LOCK = threading.Lock()
PRIVATE = "$serde_json::private::"
ESCAPED = "\\u0024serde_json::private::"


def zeros(size):
    return "[" + "0," * (size // 2 - 1) + "0]"


def repeated(part, size):
    return "[" + ",".join([part] * (size // (len(part) + 1))) + "]"


def nested(levels, inner):
    return "[" * levels + inner + "]" * levels


def structured(text):
    return '{"content":[],"structuredContent":{"value":%s}}' % text


def texts(words):
    return json.dumps({"content": [{"type": "text", "text": words}]})


# The result of a call as text, by kind.
RESULTS = {
    "plain": lambda: texts("fine"),
    "zeros": lambda: structured(zeros(15 * MIB)),
    "zeros of 4 MiB": lambda: structured(zeros(4 * MIB)),
    "zeros in text": lambda: texts(zeros(9 * MIB)),
    "nested zeros": lambda: structured(nested(118, zeros(8 * MIB))),
    "lists of one": lambda: structured(repeated("[0]", 12 * MIB)),
    "objects of one": lambda: structured(repeated('{"":0}', 12 * MIB)),
    "empty objects": lambda: structured(repeated("{}", 12 * MIB)),
    "empty texts": lambda: structured(repeated('""', 12 * MIB)),
    "chains": lambda: structured(repeated(nested(100, "0"), 12 * MIB)),
    "keys": lambda: structured("{" + ",".join('"%x":0' % n for n in range(1000000)) + "}"),
    "one key a million times": lambda: structured("{" + '"a":0,' * 2000000 + '"a":0}'),
    "a long text": lambda: texts("x" * (15 * MIB)),
    "a long text inside": lambda: structured('"%s"' % ("x" * (15 * MIB))),
    "a long key": lambda: structured('{"%s":1}' % ("x" * (15 * MIB))),
    "a long number": lambda: structured("1" * (15 * MIB)),
    "rows": lambda: structured(repeated('{"id":1,"name":"a row","state":"open"}', 2 * MIB)),
    "long numbers": lambda: structured(repeated("1" * 100000, 9 * MIB)),
    "deep": lambda: structured(nested(1000000, "0")),
    "deep in text": lambda: texts(nested(1000000, "0")),
    "blocks": lambda: '{"content":%s}' % repeated('{"type":"text","text":""}', 14 * MIB),
    "links": lambda: '{"content":%s}' % repeated('{"type":"resource_link","uri":"x:1","name":"x"}', 8 * MIB),
    "images": lambda: '{"content":%s}' % repeated('{"type":"image","data":"%s","mimeType":"image/png"}' % ("A" * 100000), 14 * MIB),
    "a large image": lambda: '{"content":[{"type":"image","data":"%s","mimeType":"image/png"}]}' % ("A" * 14 * MIB),
    "errors": lambda: '{"isError":true,"content":%s}' % repeated('{"type":"text","text":"no"}', 4 * MIB),
    "a long error": lambda: '{"isError":true,"content":[{"type":"text","text":"%s"}]}' % ("x" * 9 * MIB),
    "an error with zeros": lambda: '{"isError":true,"content":[],"structuredContent":{"a":%s}}' % zeros(4 * MIB),
    "escapes": lambda: texts("\u0001" * (2 * MIB)),
    "braces": lambda: texts("{" * (9 * MIB)),
    "raw value": lambda: structured('{"%sRawValue":"[1,2]"}' % PRIVATE),
    "number": lambda: structured('{"%sNumber":"1"}' % PRIVATE),
    "escaped raw value": lambda: structured('{"%sRawValue":"[1,2]"}' % ESCAPED),
    "second key": lambda: structured('{"a":1,"%sNumber":"1"}' % PRIVATE),
    "deep raw value": lambda: structured(nested(50, '{"a":{"%sRawValue":"%s"}}' % (PRIVATE, "[" * 1000))),
    "number in meta": lambda: '{"content":[],"_meta":{"%sNumber":"1"}}' % PRIVATE,
    "raw value in text": lambda: texts('{"%sRawValue":"[1,2]"}' % PRIVATE),
    "number in words": lambda: texts("the key %sNumber is reserved" % PRIVATE),
    "raw value as a large result": lambda: structured('[{"%sRawValue":"1"},"%s"]' % (PRIVATE, "x" * 2 * MIB)),
    "no result": lambda: zeros(4 * MIB),
    "a text as result": lambda: json.dumps(zeros(4 * MIB)),
    "17 MiB": lambda: texts("x" * (17 * MIB)),
    "70 MiB": lambda: texts("x" * (70 * MIB)),
    "beside 17 MiB": lambda: texts("fine"),
}

# Extra lines before a plain answer, with their number.
BESIDES = {
    "large notifications": ('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%s}}', 8),
    "large unknown notifications": ('{"jsonrpc":"2.0","method":"x/y","params":{"a":%s}}', 8),
    "large progress": ('{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":1,"a":%s}}', 8),
    "answers to nobody": ('{"jsonrpc":"2.0","id":999999,"result":{"a":%s}}', 8),
    "errors to nobody": ('{"jsonrpc":"2.0","id":999999,"error":{"code":1,"message":"x","data":%s}}', 8),
    "answers without number": ('{"jsonrpc":"2.0","id":%s,"result":{}}', 6),
    "large questions": ('{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1,"messages":%s}}', 8),
    "large batches": ("%s", 6),
    "large junk": ('{"a":%s}', 8),
}


# Fragments that may trouble a parser, renderer or index.
WORDS = ["a", "create", "createIssue", "x" * 70, "password", "\u202e", "\u200b", "\u0000", "\x1b[2J", "\ufeff", "\U000e0001",
         "İ", "語", "😀", "a" + "\u0300" * 9, "{", "}", "`", "*/", "\"\"\"", "\\", "\n", "\r", "%", "../", "$ref", "<<EMAIL:1>>",
         "ghp_" + "a1" * 20, "a@example.com", "", " "]
PATTERNS = ["^a", "(a+)+$", "(?=a)(a|a)*b", "\\w{200}", "\\p{L}{50}{20}", "[", "(((((a{9}){9}){9}){9}){9})", "^.{0,9999}$", ".*.*.*=.*"]
KEYWORDS = ["type", "enum", "const", "required", "pattern", "patternProperties", "format", "items", "prefixItems", "allOf", "anyOf",
            "oneOf", "not", "if", "then", "properties", "additionalProperties", "$ref", "$dynamicRef", "uniqueItems", "multipleOf",
            "minItems", "minLength", "default", "examples", "description", "title", "unevaluatedProperties", "dependentSchemas", "$id"]


def size(rng, most):
    return rng.randint(1, rng.choice([2, 5, 20, 200, most]))


def words(rng, most):
    return "".join(rng.choice(WORDS) * (size(rng, 300) if rng.random() < 0.2 else 1) for _ in range(rng.randint(0, 5)))[:most]


def value(rng, depth=4):
    """JSON text: repeated, nested, odd, with duplicate keys."""
    kind = rng.randint(0, 9) if depth else rng.randint(0, 4)
    if kind == 0:
        return json.dumps(words(rng, 20000))
    if kind < 4:
        odd = ["0", "-0.0", "1e400", "1E-999999", "9" * size(rng, 5000), "null", "true", "[]", "{}", '""', "4111111111111111"]
        return rng.choice(odd)
    if kind == 4:
        return json.dumps(value(rng, depth - 1)) if depth else "0"
    inner = value(rng, depth - 1)
    most = max(1, 300000 // (len(inner) + 1))
    if kind < 7:
        return "[" + ",".join([inner] * min(most, size(rng, 3000))) + "]"
    if kind == 7:
        return nested(rng.choice([3, 60, 119, 127, 128, 500]), inner)
    key = json.dumps(words(rng, 500))
    return "{" + ",".join("%s:%s" % (key if rng.random() < 0.2 else '"k%d"' % n, inner) for n in range(min(most, size(rng, 400)))) + "}"


def part(rng, depth):
    if not depth or rng.random() < 0.1:
        return rng.choice([True, False, None, 7, [], {}, {"$ref": "#"}, {"type": "string"}, {"$ref": "#/$defs/d0"}])
    return dict(keyword(rng, depth - 1) for _ in range(rng.randint(1, 4)))


def again(rng, item, most):
    """A list of such values, of about 20 kB at most: lists are nested."""
    return [item] * min(size(rng, most), 1 + 20000 // (len(json.dumps(item)) + 1))


def keyword(rng, depth):
    key = rng.choice(KEYWORDS)
    if key in ("allOf", "anyOf", "oneOf", "prefixItems"):
        return key, again(rng, part(rng, depth), 50)
    if key in ("enum", "examples"):
        return key, again(rng, words(rng, 200), 2000)
    if key == "required":
        return key, ["r%d" % n for n in range(size(rng, 3000))]
    if key == "pattern":
        return key, rng.choice(PATTERNS)
    if key in ("properties", "dependentSchemas"):
        return key, {rng.choice(WORDS) + str(n): item for n, item in enumerate(again(rng, part(rng, depth), 60))}
    if key == "patternProperties":
        return key, {rng.choice(PATTERNS): part(rng, depth)}
    if key in ("$ref", "$dynamicRef", "$id"):
        return key, rng.choice(["#", "#/$defs/d0", "#/$defs/d3", "#/properties/a", "http://127.0.0.1:1/x", "x" * 9000])
    if key in ("type", "format"):
        return key, rng.choice(["object", "string", "array", ["string", "null"], "regex", "uri", 5])
    if key in ("minItems", "minLength", "multipleOf"):
        return key, rng.choice([0, 1, 1000, 10 ** 18, 0.1, -1])
    if key in ("default", "const"):
        return key, json.loads(rng.choice(["null", "[[0]]", '{"a":{"a":1}}', '"' + "x" * 3000 + '"']))
    if key in ("description", "title"):
        return key, words(rng, 3000)
    return key, part(rng, depth)


def definition(rng, number):
    """A tool with a schema of its own, whose definitions refer to each other."""
    link = rng.choice(["allOf", "anyOf", "oneOf", "properties", "items", "none"])
    count = size(rng, 100)
    defs = {}
    for at in range(count):
        following = {"$ref": "#/$defs/d%d" % ((at + 1) % (count + 1))}
        whole = {"properties": {"a": following, "b": following}}
        defs["d%d" % at] = whole if link == "properties" else {"items": following} if link == "items" else \
            part(rng, 2) if link == "none" else {link: [following, following]}
    defs["d%d" % count] = {"type": "object"}
    schema = dict(keyword(rng, 3) for _ in range(rng.randint(0, 4)))
    schema.update({"$defs": defs, "type": rng.choice(["object", "object", "object", "string", None])})
    schema.setdefault("properties", {"a": {"$ref": "#/$defs/d0"}, "b": part(rng, 3)})
    made = {"name": "t%d" % number if rng.random() < 0.7 else words(rng, 3000), "inputSchema": schema}
    for key in ("title", "description"):
        if rng.random() < 0.3:
            made[key] = words(rng, 50000)
    if rng.random() < 0.2:
        made["outputSchema"] = schema
    if rng.random() < 0.1:
        made[rng.choice(["name", "inputSchema", "annotations", "_meta"])] = rng.choice([None, 5, "x", [], {"a": "x" * 9000}])
    return json.dumps(made)


def made_up(method, rng):
    key = {"tools/list": "tools", "resources/list": "resources", "prompts/list": "prompts"}.get(method, "resourceTemplates")
    entries = [definition(rng, number) for number in range(size(rng, 40))] if key == "tools" else \
        [value(rng, 2) for _ in range(rng.randint(0, 3))] + ['{"uri":%s,"name":%s,"uriTemplate":%s}' % tuple(
            json.dumps(words(rng, 300)) for _ in range(3)) for _ in range(size(rng, 200))]
    if key == "tools":
        entries = [json.dumps(tool("attack")), json.dumps(tool("renew"))] + entries
    if rng.random() < 0.05:
        entries.append(value(rng))
    return '{"%s":[%s]}' % (key, ",".join(entries))


def answered(seed):
    """A result determined by a seed."""
    rng = random.Random(seed)
    kind = rng.randint(0, 5)
    if kind == 0:
        return structured(value(rng))
    if kind == 1:
        return texts(value(rng))
    if kind == 2:
        return '{"content":%s}' % value(rng)
    if kind == 3:
        return '{"isError":true,"content":[{"type":"text","text":%s}],"structuredContent":%s}' % (json.dumps(words(rng, 50000)), value(rng))
    block = '{"type":%s,"text":%s,"data":%s,"mimeType":%s,"uri":%s,"name":"x"}' % tuple(
        rng.choice([json.dumps(rng.choice(["text", "image", "audio", "resource", "resource_link"])), json.dumps(words(rng, 5000)),
                    value(rng, 1)]) for _ in range(5))
    return '{"content":%s}' % repeated(block, min(2 * MIB, len(block) * size(rng, 500) + 1))


def write(line):
    with LOCK:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def send(message):
    write(json.dumps(message))


def answer(identifier, result):
    write('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(identifier), result))


def attack(identifier, kind):
    if kind in RESULTS:
        return answer(identifier, RESULTS[kind]())
    if kind in BESIDES:
        line, times = BESIDES[kind]
        line = line % zeros(5 * MIB)
        for _ in range(times):
            write(line)
    elif kind == "a flood of questions":
        for number in range(3000):
            params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            send({"jsonrpc": "2.0", "id": "e%d" % number, "method": "elicitation/create", "params": params})
    elif kind == "a flood of notes":
        for _ in range(20000):
            write('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}')
    elif kind == "a flood of changes":
        for _ in range(5000):
            write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    elif kind == "a line without end":
        with LOCK:
            for _ in range(300):
                sys.stdout.write("x" * MIB)
            sys.stdout.write("\n")
    elif kind == "an error with zeros in its data":
        error = '{"code":1,"message":"no","data":%s}' % zeros(12 * MIB)
        return write('{"jsonrpc":"2.0","id":%s,"error":%s}' % (json.dumps(identifier), error))
    elif kind == "an error with a private key":
        error = '{"code":1,"message":"no","data":{"%sRawValue":"[]"}}' % PRIVATE
        return write('{"jsonrpc":"2.0","id":%s,"error":%s}' % (json.dumps(identifier), error))
    elif kind == "the same answer often":
        for _ in range(12):
            answer(identifier, structured('"%s"' % ("x" * (8 * MIB))))
        return
    answer(identifier, RESULTS["plain"]())


SCHEMA = {"type": "object", "properties": {"kind": {"type": "string"}, "any": {}}}


def tool(name, **more):
    return {"name": name, "description": "Does it.", "inputSchema": SCHEMA, **more}


def page(mode, method, cursor):
    """The result of a list as text."""
    key = {"tools/list": "tools", "resources/list": "resources", "prompts/list": "prompts"}.get(method, "resourceTemplates")
    number = int(cursor or 0)
    more = ',"nextCursor":"%d"' % (number + 1)
    good = json.dumps(tool("good"))
    if mode == "later" and not os.path.exists(os.environ["HOSTILE_MARK"]):
        return '{"tools":[%s]}' % good
    if mode in ("pages", "later"):
        large = json.dumps(tool("t%d" % number, title="x" * (15 * MIB)))
        return '{"tools":[%s]%s}' % (large, more)
    if mode == "endless":
        return '{"tools":[%s]%s}' % (json.dumps(tool("t%d" % number)), more)
    if mode == "empty pages":
        return '{"tools":[]%s}' % more
    if mode == "circle":
        return '{"tools":[%s],"nextCursor":"%d"}' % (good, (number + 1) % 3)
    if mode == "tiny":
        return '{"tools":[%s]}' % ",".join('{"name":"t%d"}' % n for n in range(200000))
    if mode == "many":
        return '{"tools":[%s]%s}' % (",".join('{"name":"t%d"}' % (number * 1000 + n) for n in range(1000)), more)
    if mode == "zeros":
        return '{"tools":[%s]}' % json.dumps(tool("z")).replace('"any": {}', '"any": {"enum": %s}' % zeros(12 * MIB))
    if mode == "nested":
        return '{"tools":[%s]}' % json.dumps(tool("n")).replace('"any": {}', '"any": {"default": %s}' % nested(100, zeros(MIB)))
    if mode == "cursor":
        return '{"tools":[%s],"nextCursor":"%s"}' % (good, "9" * (8 << 10))
    if mode == "private":
        return '{"tools":[%s]}' % json.dumps(tool("p", _meta={PRIVATE + "RawValue": "[]"}))
    if mode == "no list":
        return '{"tools":%s}' % ('"%s"' % ("x" * (4 * MIB)))
    if mode == "others" and method != "tools/list":
        entry = {"resources": '{"uri":"x:%d","name":"%s"}', "prompts": '{"name":"p%d","title":"%s"}'}
        form = entry.get(key, '{"uriTemplate":"x:%d/{a}","name":"%s"}')
        return '{"%s":[%s]%s}' % (key, ",".join(form % (number * 100 + n, "x" * 50000) for n in range(100)), more)
    tools = json.dumps(tool("attack")) if mode == "answers" else good
    return '{"%s":[%s]}' % (key, tools if key == "tools" else "")


def result(mode, request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        offers = {"tools": {"listChanged": True}}
        if mode in ("others", "chance"):
            offers.update(resources={}, prompts={})
        info = {"protocolVersion": "2025-11-25", "capabilities": offers, "serverInfo": {"name": "hostile", "version": "1"}}
        return json.dumps(info)
    if method.endswith("/list"):
        return made_up(method, CHANCE) if mode == "chance" else page(mode, method, params.get("cursor"))
    if method == "ping":
        return "{}"
    return None


def stdio(mode):
    for line in sys.stdin:
        request = json.loads(line)
        identifier, method = request.get("id"), request.get("method")
        if method is None or identifier is None:
            continue
        if method == "tools/call":
            arguments = request["params"].get("arguments") or {}
            if request["params"].get("name") == "renew":
                send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                answer(identifier, RESULTS["plain"]())
            elif mode == "chance":
                answer(identifier, answered(arguments.get("kind")))
            elif arguments.get("kind") == "now":
                open(os.environ["HOSTILE_MARK"], "w").close()
                send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
                answer(identifier, RESULTS["plain"]())
            else:
                attack(identifier, arguments.get("kind"))
            continue
        found = result(mode, request)
        if found is None:
            send({"jsonrpc": "2.0", "id": identifier, "error": {"code": -32601, "message": "no " + method}})
        else:
            answer(identifier, found)


def beside(size):
    """An event with a notification, and one with a request."""
    asked = '{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"a":"%s"}}' % ("x" * size)
    told = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}' % ("x" * size)
    return "data: %s\n\ndata: %s\n\n" % (asked, told)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(405, "text/plain", b"")

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        identifier, method = request.get("id"), request.get("method")
        if identifier is None or method is None:
            return self.reply(202, "text/plain", b"")
        over = "body"
        if method == "tools/call":
            arguments = request["params"].get("arguments") or {}
            found, over = RESULTS[arguments["kind"]](), arguments.get("any")
        else:
            found = result("answers", request)
        if found is None:
            text = json.dumps({"jsonrpc": "2.0", "id": identifier, "error": {"code": -32601, "message": "no"}})
        else:
            text = '{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(identifier), found)
        if over == "event":
            before = beside(17 * MIB) if method == "tools/call" and arguments["kind"] == "beside 17 MiB" else ""
            body = "%sevent: message\ndata: %s\n\n" % (before, text)
            return self.reply(200, "text/event-stream", body.encode())
        self.reply(200, "application/json", text.encode())

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


CHANCE = random.Random(sys.argv[2] if sys.argv[1] == "chance" else 0)
if sys.argv[1] == "http":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
else:
    stdio(sys.argv[2] if sys.argv[1] == "lists" else sys.argv[1])
