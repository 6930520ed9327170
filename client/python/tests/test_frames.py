"""Calls in frames, with a scripted coordinator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

import grpc
import pytest

import teamwire
from teamwire._identity import Identity
from teamwire.v1 import call_pb2, message_pb2, team_pb2

T = TypeVar("T")


def run(test: Awaitable[T]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(test, 30)

    return asyncio.run(bounded())


class Coordinator:
    """Carries this many frames, all sends, and ends the stream with the next one: with a status, or with OK."""

    def __init__(self, answers: int, end: grpc.StatusCode | None) -> None:
        self.answers, self.end = answers, end
        self.carried: list[call_pb2.CallFrame] = []
        self.alone: list[str] = []

    async def carry(
        self, requests: AsyncIterator[call_pb2.CarryRequest], context: Any
    ) -> AsyncIterator[call_pb2.CarryResponse]:
        await context.send_initial_metadata(())
        async for message in requests:
            replies = []
            for frame in message.calls:
                self.carried.append(frame)
                if len(self.carried) > self.answers:
                    if self.end:
                        await context.abort(self.end, "cut")
                    return
                reply = message_pb2.SendResponse(message_id=str(frame.sequence)).SerializeToString()
                replies.append(call_pb2.ReplyFrame(sequence=frame.sequence, reply=reply[:1]))
                status = call_pb2.CallStatus()
                replies.append(call_pb2.ReplyFrame(sequence=frame.sequence, reply=reply[1:], status=status))
            yield call_pb2.CarryResponse(replies=replies)

    async def send(self, request: message_pb2.SendRequest, _: Any) -> message_pb2.SendResponse:
        self.alone.append(request.idempotency_key)
        return message_pb2.SendResponse(message_id="alone")

    async def delete_team(self, request: team_pb2.DeleteTeamRequest, _: Any) -> team_pb2.DeleteTeamResponse:
        self.alone.append(request.team)
        return team_pb2.DeleteTeamResponse()


async def serving(coordinator: Coordinator) -> tuple[grpc.aio.Server, teamwire.AsyncClient]:
    server = grpc.aio.server()
    unary = grpc.unary_unary_rpc_method_handler
    services: dict[str, dict[str, Any]] = {
        "CallService": {
            "Carry": grpc.stream_stream_rpc_method_handler(
                coordinator.carry, call_pb2.CarryRequest.FromString, call_pb2.CarryResponse.SerializeToString
            )
        },
        "MessageService": {
            "Send": unary(
                coordinator.send, message_pb2.SendRequest.FromString, message_pb2.SendResponse.SerializeToString
            )
        },
        "TeamService": {
            "DeleteTeam": unary(
                coordinator.delete_team,
                team_pb2.DeleteTeamRequest.FromString,
                team_pb2.DeleteTeamResponse.SerializeToString,
            )
        },
    }
    for name, methods in services.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"teamwire.v1.{name}", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, teamwire.AsyncClient(Identity(f"http://127.0.0.1:{port}", "twm:acme:ann:s", "acme"))


async def send_until_carried(coordinator: Coordinator, client: teamwire.AsyncClient) -> None:
    while not coordinator.carried:
        await client.send("bob", "s", "c")


def test_calls_travel_in_frames_once_a_connection_has_carried_a_few() -> None:
    async def test() -> None:
        coordinator = Coordinator(1_000, None)
        server, client = await serving(coordinator)
        await send_until_carried(coordinator, client)
        alone = len(coordinator.alone)
        assert alone >= 8
        sent = await asyncio.gather(*[client.send("bob", "s", "c") for _ in range(100)])
        assert len({reply.message_id for reply in sent}) == 100
        await client.send("bob", "s", "x" * 20_000)
        assert (len(coordinator.carried), len(coordinator.alone)) == (101, alone + 1)
        await client.close()
        await server.stop(None)

    run(test())


def test_a_frame_that_was_not_taken_is_repeated_whatever_the_call() -> None:
    async def test() -> None:
        coordinator = Coordinator(1, None)
        server, client = await serving(coordinator)
        await send_until_carried(coordinator, client)
        await client.teams.DeleteTeam(team_pb2.DeleteTeamRequest())
        assert (coordinator.carried[-1].method.rpartition("/")[2], coordinator.alone[-1]) == ("DeleteTeam", "acme")
        await client.close()
        await server.stop(None)

    run(test())


def test_a_frame_whose_stream_breaks_is_repeated_if_the_call_may_be() -> None:
    async def test() -> None:
        coordinator = Coordinator(1, grpc.StatusCode.RESOURCE_EXHAUSTED)
        server, client = await serving(coordinator)
        await send_until_carried(coordinator, client)
        await client.send("bob", "s", "c", idempotency_key="one-key")
        assert (len(coordinator.carried), coordinator.alone[-1]) == (2, "one-key")
        coordinator.carried.clear()
        await send_until_carried(coordinator, client)
        with pytest.raises(teamwire.Error) as failed:
            await client.teams.DeleteTeam(team_pb2.DeleteTeamRequest())
        assert failed.value.is_outcome_unknown
        assert not failed.value.is_retryable
        await client.close()
        await server.stop(None)

    run(test())
