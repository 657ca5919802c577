"""The official Python client, version 1, over Streamable HTTP: lists the tools, a folder, and runs a script."""

import asyncio
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def main(url):
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as client:
        await client.initialize()
        tools = (await client.list_tools()).tools
        listing = (await client.call_tool("ls", {})).content[0].text
        code = {"language": "javascript", "code": "await people.list_teams(); return 42"}
        value = (await client.call_tool("execute", code)).content[0].text
        print(f"{len(tools)} tools; {'people' if 'people/' in listing else listing}; {value.split()[0]}")


asyncio.run(main(sys.argv[1]))
