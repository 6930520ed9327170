"""What the drivers have in common: the load, the clock, and how they tell what they saw.

A driver is run once for each process of a measurement: as its server, where that is a program in Python, as the
receiver, and as the sender. Instants are those of the system's monotonic clock in nanoseconds, so that processes may be
compared.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

# As many characters as the messages of all other scenarios have.
CONTENT = 500

# How often the receiver tells how many have come, in seconds.
TELL = 0.02


def text() -> str:
    """Writes a content."""
    return f"{time.monotonic_ns():020}".ljust(CONTENT, "x")


class Arrivals:
    """How many have come."""

    count = 0

    def note(self, content: str) -> None:
        """Notes one by its content, which must be whole."""
        if len(content) != CONTENT:
            raise ValueError(f"a content of {len(content)} characters")
        self.count += 1

    async def tell(self) -> None:
        """Prints again and again when there were how many, until the process is ended."""
        print("ready", flush=True)
        while True:
            print("at", time.monotonic_ns(), self.count, flush=True)
            await asyncio.sleep(TELL)


async def forever() -> None:
    """Serves until the process is ended."""
    await asyncio.Event().wait()


async def send(call: Callable[[], Awaitable[object]]) -> None:
    """Calls as the command line says and prints what came of it: callers, seconds to warm up, seconds to measure."""
    callers, warm_up, length = int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
    begin = time.monotonic_ns() + int(warm_up * 1e9)
    end = begin + int(length * 1e9)
    latencies = []

    async def caller() -> None:
        while (called := time.monotonic_ns()) < end:
            await call()
            answered = time.monotonic_ns()
            if begin <= answered < end:
                latencies.append(answered - called)

    await asyncio.gather(*(caller() for _ in range(callers)))
    print("sent", json.dumps({"begin": begin, "end": end, "latencies": latencies}), flush=True)
