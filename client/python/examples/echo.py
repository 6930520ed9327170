"""A minimal teammate: echoes every message, and exits when its shutdown is approved.

TEAMWIRE_JOIN=JOIN_STRING python examples/echo.py NAME
"""

import asyncio
import os
import sys

import teamwire


async def main() -> None:
    join, name = os.environ.get("TEAMWIRE_JOIN"), (*sys.argv[1:], os.environ.get("TEAMWIRE_NAME", ""))[0]
    async with await teamwire.join(join, name) if join else teamwire.connect() as me:
        inbox = me.subscribe()
        async for message in inbox:
            if message.type == "shutdown_request":
                await me.approve_shutdown(message.request_id)
            elif message.type == "message":
                await me.reply(message, "an echo", f"You said: {message.content}")
            message.ack()
        if inbox.end and inbox.end.reason == "shutdown_approved":
            await me.leave()


asyncio.run(main())
