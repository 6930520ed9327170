"""What the drivers share: the load, the clock, and the output that the benchmark reads.

A driver runs once per process of a measurement: as the server if that is a Python program, as the receiver, and as the
sender. Instants are nanoseconds of the system's monotonic clock, which all processes share.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

# The length of a content in characters, as in all other scenarios.
CONTENT = 500

# How often the receiver prints its count, in seconds.
REPORT_INTERVAL = 0.02


def text() -> str:
    """Returns a content."""
    return f"{time.monotonic_ns():020}".ljust(CONTENT, "x")


class Arrivals:
    """The count of received messages."""

    count = 0

    def record(self, content: str) -> None:
        """Counts a message, whose content must be complete."""
        if len(content) != CONTENT:
            raise ValueError(f"a content of {len(content)} characters")
        self.count += 1

    async def report(self) -> None:
        """Prints the instant and the count periodically, until the process is killed."""
        print("ready", flush=True)
        while True:
            print("at", time.monotonic_ns(), self.count, flush=True)
            await asyncio.sleep(REPORT_INTERVAL)


async def forever() -> None:
    """Waits until the process is killed."""
    await asyncio.Event().wait()


async def send(call: Callable[[], Awaitable[object]]) -> None:
    """Calls in a closed loop and prints the latencies. The command line names callers, warm-up and length in seconds."""
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
