"""teamwire's Python client: a member that receives and acknowledges, and one that sends to it.

A send returns when the message is stored as its coordinator promises, whether or not anyone receives.
"""

import asyncio
import os
import sys

import load
import teamwire


async def main() -> None:
    """Plays the role that the command line names (receive or send), at an address."""
    how, address = sys.argv[1:3]
    async with teamwire.connect(address, os.environ["BENCH_CREDENTIAL"], team="bench") as me:
        if how == "receive":
            arrivals = load.Arrivals()
            telling = asyncio.create_task(arrivals.report())
            async for message in me.subscribe():
                arrivals.record(message.content)
                message.ack()
            telling.cancel()
        else:
            await load.send(lambda: me.send("inbox-0", "a message of the benchmark", load.text()))


asyncio.run(main())
