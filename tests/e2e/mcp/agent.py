"""Plays an agent program: reaches a member's tools with the official client, and calls one for each line that it reads.

With the path of `teamwire` as its argument, it starts `teamwire mcp`. With a URL, it goes there, and presents the
credential in TEAMWIRE_TOOL_CREDENTIAL; it trusts the certificates in TEAMWIRE_CA, if set.
"""

import asyncio
import contextlib
import json
import os
import ssl
import sys

import httpx2
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


def text_of(result) -> str:
    return "".join(content.text for content in result.content)


@contextlib.asynccontextmanager
async def connected(place: str):
    if not place.startswith("http"):
        server = StdioServerParameters(command=place, args=["mcp"], env=dict(os.environ))
        async with stdio_client(server) as streams:
            yield streams
        return
    headers = {"Authorization": f"Bearer {os.environ['TEAMWIRE_TOOL_CREDENTIAL']}"}
    authority = os.environ.get("TEAMWIRE_CA")
    trusted = ssl.create_default_context(cafile=authority) if authority else True
    async with httpx2.AsyncClient(headers=headers, timeout=120, verify=trusted) as client:
        async with streamable_http_client(place, http_client=client) as streams:
            yield streams


async def lines():
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield json.loads(line)


async def main() -> None:
    calls, call, greeted = lines(), None, False
    while True:
        try:
            async with connected(sys.argv[1]) as (read, write), ClientSession(read, write) as session:
                greeting = await session.initialize()
                tools = (await session.list_tools()).tools
                if not greeted:
                    greeted = True
                    shown = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
                    print(json.dumps({"instructions": greeting.instructions, "tools": shown}), flush=True)
                while call or (call := await anext(calls, None)):
                    meta = {"teamwire/idempotency-key": call["key"]} if "key" in call else None
                    result = await session.call_tool(call["tool"], call["arguments"], meta=meta)
                    if meta and result.is_error and text_of(result).startswith("DRAINING"):
                        # It was not carried out. Nothing tells a client when the next coordinator listens.
                        await asyncio.sleep(0.1)
                        continue
                    call = None
                    print(json.dumps({"text": text_of(result), "is_error": bool(result.is_error)}), flush=True)
                return
        except BaseException:
            # The coordinator has ended, and with it the session of this client. What has a key may be repeated. Nothing
            # tells a client when the next coordinator listens.
            if not greeted or not call or "key" not in call:
                raise
            await asyncio.sleep(0.1)


asyncio.run(main())
