"""Drives an MCP server over stdio with the official Python client, and prints what it saw.

Reads one JSON object from standard input: {mode, command, args, cwd, env, ready, calls}. `ready` lists patterns that
the answer of `ls` must match before the calls are made; `calls` is a list of {tool, arguments}. Prints one JSON object:
{protocol, instructions, tools, answers}, an answer being {text, is_error}.
"""

import asyncio
import json
import re
import sys

from mcp import Client, StdioServerParameters

READY_SECONDS = 60


async def main() -> None:
    asked = json.load(sys.stdin)
    server = StdioServerParameters(**{key: asked[key] for key in ("command", "args", "cwd", "env")})
    async with Client(server, mode=asked["mode"], read_timeout_seconds=120) as client:
        await wait_until_ready(client, asked["ready"])
        tools = await client.list_tools()
        seen = {
            "protocol": client.protocol_version,
            "instructions": client.instructions,
            "tools": [tool.name for tool in tools.tools],
            "answers": [await call(client, one["tool"], one["arguments"]) for one in asked["calls"]],
        }
    print(json.dumps(seen))


async def call(client: Client, tool: str, arguments: dict) -> dict:
    result = await client.call_tool(tool, arguments)
    text = "\n".join(block.text for block in result.content if block.type == "text")
    return {"text": text, "is_error": bool(result.is_error)}


async def wait_until_ready(client: Client, patterns: list[str]) -> None:
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    while True:
        listing = (await call(client, "ls", {}))["text"]
        missing = [pattern for pattern in patterns if not re.search(pattern, listing)]
        if not missing:
            return
        if asyncio.get_running_loop().time() > deadline:
            sys.exit(f"not ready after {READY_SECONDS} s, no line matches {missing}:\n{listing}")
        await asyncio.sleep(0.1)


asyncio.run(main())
