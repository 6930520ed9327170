"""Plays an agent program: starts `teamwire mcp` with the official client, and calls a tool for each line that it reads."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def text_of(result) -> str:
    return "".join(content.text for content in result.content)


async def main() -> None:
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        greeting = await session.initialize()
        tools = (await session.list_tools()).tools
        first = {"instructions": greeting.instructions, "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]}
        print(json.dumps(first), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            call = json.loads(line)
            result = await session.call_tool(call["tool"], call["arguments"])
            print(json.dumps({"text": text_of(result), "is_error": bool(result.is_error)}), flush=True)


asyncio.run(main())
