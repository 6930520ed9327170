"""grpcio with teamwire's generated code: what any client of a gRPC server costs in Python."""

import asyncio
import os
import sys
import uuid

import grpc
import load
from teamwire.v1 import message_pb2
from teamwire.v1.message_pb2_grpc import MessageServiceStub


async def main() -> None:
    """Plays the role that the command line names (receive or send), at an address."""
    how, address = sys.argv[1:3]
    metadata = [("authorization", f"Bearer {os.environ['BENCH_CREDENTIAL']}")]
    async with grpc.aio.insecure_channel(address.removeprefix("http://")) as channel:
        messages = MessageServiceStub(channel)

        async def send() -> None:
            text = message_pb2.DirectMessage(recipient="inbox-0", summary="a message", content=load.text())
            request = message_pb2.SendRequest(idempotency_key=str(uuid.uuid4()), message=text)
            await messages.Send(request, metadata=metadata)

        if how == "send":
            await load.send(send)
            return
        arrivals, taken = load.Arrivals(), []

        async def acknowledge() -> None:
            while True:
                ids = taken[:]
                taken.clear()
                await messages.Ack(message_pb2.AckRequest(message_ids=ids), metadata=metadata)
                await asyncio.sleep(load.REPORT_INTERVAL)

        others = [asyncio.create_task(arrivals.report()), asyncio.create_task(acknowledge())]
        async for frame in messages.Stream(message_pb2.StreamRequest(), metadata=metadata):
            if frame.HasField("delivery"):
                arrivals.record(frame.delivery.message.message.content)
                taken.append(frame.delivery.message.id)
        for other in others:
            other.cancel()


asyncio.run(main())
