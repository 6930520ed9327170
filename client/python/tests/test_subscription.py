"""Subscriptions, against a scripted coordinator."""

import asyncio
import functools
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

import teamwire
from teamwire import _subscription
from teamwire.v1 import message_pb2
from teamwire.v1.message_pb2_grpc import add_MessageServiceServicer_to_server

IDS = [str(uuid.UUID(int=n)) for n in range(4)]
HEARTBEAT = duration_pb2.Duration(nanos=100_000_000)
OPENED = message_pb2.StreamResponse(opened=message_pb2.SessionOpened(session_id="s", heartbeat_interval=HEARTBEAT))
SILENCE = 60.0
SHUTDOWN = message_pb2.ShutdownRequest(reason="done")
APPROVED = message_pb2.StreamResponse(
    closing=message_pb2.SessionClosing(reason=message_pb2.CLOSE_REASON_SHUTDOWN_APPROVED, request_id="r")
)


def delivery(n: int, **body: Any) -> message_pb2.StreamResponse:
    message = message_pb2.Message(id=IDS[n], **(body or {"message": message_pb2.DirectMessage(content=str(n))}))
    return message_pb2.StreamResponse(delivery=message_pb2.Delivery(message=message, delivery_count=1))


def superseded() -> bytes:
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason="SESSION_SUPERSEDED", domain="teamwire"))
    return status_pb2.Status(code=10, message="another", details=[packed]).SerializeToString()


class Coordinator:
    """Sends each session its frames; a number is a pause in seconds, an event one until it is set, a code aborts it."""

    Send = GetMessage = ListInbox = None

    def __init__(self, *sessions: list[Any]) -> None:
        self.sessions = iter(sessions)
        self.acks: list[list[str]] = []
        self.acked: asyncio.Queue[list[str]] = asyncio.Queue()
        self.acks_lost = 0
        self.is_superseded = False
        self.ack_takes = 0.0
        self.instances: list[str] = []

    async def Stream(self, request: message_pb2.StreamRequest, context: Any) -> AsyncIterator[Any]:
        self.instances.append(request.instance_id)
        for frame in next(self.sessions):
            if isinstance(frame, float):
                await asyncio.sleep(frame)
            elif isinstance(frame, asyncio.Event):
                await frame.wait()
            elif isinstance(frame, grpc.StatusCode):
                await context.abort(frame, "scripted")
            else:
                yield frame

    async def Ack(self, request: message_pb2.AckRequest, context: Any) -> message_pb2.AckResponse:
        self.acks.append(list(request.message_ids))
        self.acked.put_nowait(self.acks[-1])
        await asyncio.sleep(self.ack_takes)
        if self.is_superseded:
            await context.abort(grpc.StatusCode.ABORTED, "another", (("grpc-status-details-bin", superseded()),))
        if self.acks_lost:
            self.acks_lost -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        return message_pb2.AckResponse()


def run(coordinator: Coordinator, test: Callable[[teamwire.AsyncClient], Any]) -> Any:
    async def main() -> Any:
        server = grpc.aio.server()
        add_MessageServiceServicer_to_server(cast(Any, coordinator), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with teamwire.connect(f"http://127.0.0.1:{port}", "twm:t:a:0123456789abcdef") as me:
                return await test(me)
        finally:
            await server.stop(None)

    return asyncio.run(asyncio.wait_for(main(), 30))


def test_each_message_is_handed_out_once_shutdowns_first_and_acks_are_resent() -> None:
    broken = [OPENED, delivery(0), delivery(1), delivery(2, shutdown_request=SHUTDOWN), grpc.StatusCode.UNAVAILABLE]
    coordinator = Coordinator(broken, [OPENED, delivery(1), delivery(0), delivery(3), SILENCE])
    coordinator.acks_lost = 1

    async def test(me: teamwire.AsyncClient) -> list[str]:
        inbox = me.subscribe()
        await asyncio.sleep(0.3)
        messages = [await inbox.next(), await inbox.next()]
        assert messages[1]
        messages[1].ack()
        messages += [await inbox.next(), await inbox.next()]
        await inbox.flush()
        with pytest.raises(asyncio.TimeoutError):
            await inbox.next(timeout=0.1)
        return [message.id for message in messages if message]

    assert run(coordinator, test) == [IDS[2], IDS[0], IDS[1], IDS[3]]
    assert all(ids == [IDS[0]] for ids in coordinator.acks)
    assert len(coordinator.acks) >= 2
    assert len(coordinator.instances) == 2
    assert len(set(coordinator.instances)) == 1


def test_the_end_is_a_value_and_iteration_stops() -> None:
    async def test(me: teamwire.AsyncClient) -> list[Any]:
        inbox = me.subscribe()
        ids = [message.id async for message in inbox]
        return [ids, inbox.end, await inbox.next()]

    # Messages not yet read stay in the coordinator's inbox.
    ids, end, after = run(Coordinator([OPENED, APPROVED]), test)
    assert (ids, end, after) == ([], teamwire.End("shutdown_approved", "r"), None)


def test_a_flush_without_acknowledgements_sends_none() -> None:
    coordinator = Coordinator([OPENED, SILENCE])

    async def test(me: teamwire.AsyncClient) -> None:
        inbox = me.subscribe()
        await inbox.flush()
        with pytest.raises(asyncio.TimeoutError):
            await inbox.next(timeout=0.1)

    run(coordinator, test)
    assert coordinator.acks == []


def test_quick_acknowledgements_share_a_call_unless_they_are_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    # So long that only the first acknowledgement and urgent ones are sent.
    monkeypatch.setattr(_subscription, "_PAUSE", 3600.0)
    ends = asyncio.Event()
    coordinator = Coordinator([OPENED, ends, APPROVED])

    async def test(me: teamwire.AsyncClient) -> None:
        inbox = me.subscribe()

        def ack(count: int) -> list[str]:
            ids = [str(uuid.uuid4()) for _ in range(count)]
            for message_id in ids:
                inbox.ack(message_id)
            return ids

        first = ack(1)
        assert await coordinator.acked.get() == first
        waiting = ack(31)
        await inbox.flush()
        assert await coordinator.acked.get() == waiting
        half_of_the_window = ack(32)
        assert await coordinator.acked.get() == half_of_the_window
        last = ack(2)
        ends.set()
        assert await coordinator.acked.get() == last

    run(coordinator, test)


def time_of_two_acknowledgements(ack_takes: float) -> float:
    coordinator = Coordinator([OPENED, SILENCE])
    coordinator.ack_takes = ack_takes

    async def test(me: teamwire.AsyncClient) -> float:
        inbox, began = me.subscribe(), time.monotonic()
        for message_id in IDS[:2]:
            inbox.ack(message_id)
            assert await coordinator.acked.get() == [message_id]
        return time.monotonic() - began

    return float(run(coordinator, test))


def test_without_a_flush_the_next_call_begins_20_ms_after_the_one_before() -> None:
    assert time_of_two_acknowledgements(ack_takes=0) >= 0.02


def test_after_a_slow_call_the_next_one_begins_up_to_100_ms_after_it() -> None:
    assert time_of_two_acknowledgements(ack_takes=0.0125) >= 0.1


def test_a_permanent_refusal_is_raised_once() -> None:
    async def test(me: teamwire.AsyncClient) -> None:
        inbox = me.subscribe()
        with pytest.raises(teamwire.Error, match="PERMISSION_DENIED"):
            await inbox.next()
        assert (await inbox.next(), inbox.end) == (None, None)
        inbox.ack(IDS[0])
        with pytest.raises(teamwire.Error, match="acknowledgements are lost"):
            await inbox.flush()

    run(Coordinator([OPENED, grpc.StatusCode.PERMISSION_DENIED]), test)


def test_a_superseded_acknowledgement_ends_a_subscription_whose_stream_is_silent() -> None:
    async def test(me: teamwire.AsyncClient) -> None:
        inbox = me.subscribe()
        if message := await inbox.next():
            message.ack()
        assert (await inbox.next(), inbox.end) == (None, teamwire.End("superseded"))

    coordinator = Coordinator([OPENED, delivery(0), SILENCE], [OPENED, delivery(1), SILENCE])
    coordinator.is_superseded = True
    run(coordinator, test)
    assert len(coordinator.instances) == 1


def test_a_silent_session_is_replaced() -> None:
    async def test(me: teamwire.AsyncClient) -> None:
        inbox = me.subscribe()
        assert [message.id async for message in inbox] == []

    coordinator = Coordinator([OPENED, SILENCE], [OPENED, APPROVED])
    run(coordinator, test)
    assert len(coordinator.instances) == 2


def test_every_frame_restarts_the_silence_timer() -> None:
    async def test(me: teamwire.AsyncClient) -> list[str]:
        return [message.id async for message in me.subscribe()]

    coordinator = Coordinator([OPENED, 0.6, delivery(0), 0.6, delivery(1), 0.2, APPROVED])
    assert run(coordinator, test) == IDS[:2]
    assert len(coordinator.instances) == 1


def test_one_of_several_waiters_gets_the_message() -> None:
    async def test(me: teamwire.AsyncClient) -> list[Any]:
        inbox = me.subscribe()
        waiting = [inbox.next(timeout=1.0), inbox.next(timeout=1.0)]
        return await asyncio.gather(*waiting, return_exceptions=True)

    first, second = run(Coordinator([OPENED, 0.2, delivery(0), SILENCE]), test)
    assert (first.id, type(second)) == (IDS[0], asyncio.TimeoutError)


def test_a_message_that_arrives_as_the_wait_begins_is_handed_out() -> None:
    async def test(me: teamwire.AsyncClient) -> list[str]:
        inbox = me.subscribe()
        loop = asyncio.get_running_loop()
        ids = []
        for steps in range(len(IDS)):
            # It arrives after this many steps of the loop.
            arrive: Callable[[], object] = functools.partial(inbox._take, delivery(steps).delivery)
            for _ in range(steps):
                arrive = functools.partial(loop.call_soon, arrive)
            loop.call_soon(arrive)
            message = await inbox.next(timeout=5)
            assert message
            ids.append(message.id)
        return ids

    assert run(Coordinator([OPENED, SILENCE]), test) == IDS


def test_other_tasks_run_while_messages_are_waiting() -> None:
    async def test(me: teamwire.AsyncClient) -> list[str]:
        inbox, turns = me.subscribe(), []
        await asyncio.sleep(0.3)
        async for message in inbox:
            turns.append(message.id)
            asyncio.get_running_loop().call_soon(turns.append, "others")
            if message.id == IDS[2]:
                break
        return list(turns)

    frames = [OPENED, *(delivery(n) for n in range(3)), SILENCE]
    assert run(Coordinator(frames), test) == [IDS[0], "others", IDS[1], "others", IDS[2]]


def test_an_acknowledgement_after_its_loop_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(me: teamwire.AsyncClient) -> teamwire.Message | None:
        return await me.subscribe().next()

    message = run(Coordinator([OPENED, delivery(0), SILENCE]), test)
    message.ack()
    assert "not acknowledged: Event loop is closed" in caplog.text


def test_a_malformed_message_id_is_not_acknowledged() -> None:
    async def test(me: teamwire.AsyncClient) -> None:
        inbox = me.subscribe()
        inbox.ack("nonsense")
        inbox.ack(IDS[1].upper())
        await inbox.flush()
        await asyncio.to_thread(inbox.ack, IDS[2])
        await inbox.flush()

    coordinator = Coordinator([OPENED, SILENCE])
    run(coordinator, test)
    assert coordinator.acks == [[IDS[1]], [IDS[2]]]


def test_the_window_remembers_a_bounded_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teamwire._subscription._REMEMBERED", 2)

    async def test(me: teamwire.AsyncClient) -> list[str]:
        inbox = me.subscribe()
        return [message.id for _ in range(4) if (message := await inbox.next())]

    coordinator = Coordinator([OPENED, delivery(0), delivery(1), delivery(1), delivery(2), delivery(0), SILENCE])
    assert run(coordinator, test) == [IDS[0], IDS[1], IDS[2], IDS[0]]
