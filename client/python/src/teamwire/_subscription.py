"""Subscribes to the caller's inbox: reconnects, hands out each message once, and acknowledges in the background."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import math
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import grpc
from grpc import StatusCode as Code

from ._calls import ATTEMPT, LOG, Calls, Error, delays, within
from ._policy import REOPENED
from .v1 import message_pb2, options_pb2
from .v1.message_pb2_grpc import MessageServiceStub

_REMEMBERED = 4096
_IDS_IN_A_CALL = 1000
# A call that acknowledges begins at the earliest this many seconds after the one before began, unless it is urgent.
_PAUSE = 0.02
# If that call was slow, because the coordinator is busy, so many times as long as it took, up to so many seconds.
_PAUSE_IN_CALLS, _PAUSE_MAX = 8, 0.1
# Half of the messages that a session may leave unacknowledged: that many acknowledgements are urgent.
_URGENT_FROM = 32
_SETTLED_AFTER = 10.0
_FLUSH_AT_THE_END = 2.0

# How a subscription ends, by the last frame of a session or the reason of a refusal.
_ENDS = {
    message_pb2.CLOSE_REASON_SHUTDOWN_APPROVED: "shutdown_approved",
    message_pb2.CLOSE_REASON_SUPERSEDED: "superseded",
    message_pb2.CLOSE_REASON_TEAM_DELETED: "team_deleted",
    message_pb2.CLOSE_REASON_MEMBER_STOPPED: "member_stopped",
    message_pb2.CLOSE_REASON_DATA_LOST: "data_lost",
    "SESSION_SUPERSEDED": "superseded",
    "TEAM_NOT_FOUND": "team_deleted",
    "MEMBER_STOPPED": "member_stopped",
}
# The field that holds the text of each kind of message.
_CONTENT = {
    kind.name: kind.GetOptions().Extensions[options_pb2.kind_policy].text
    for kind in message_pb2.Message.DESCRIPTOR.oneofs_by_name["body"].fields
}
# Codes that, without a reason, another attempt would meet again.
_FINAL = {Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.UNAUTHENTICATED, Code.UNIMPLEMENTED}


@dataclass(frozen=True)
class End:
    """How a subscription ended."""

    reason: str
    """`shutdown_approved`, `superseded`, `team_deleted`, `member_stopped` or `data_lost`."""
    request_id: str = ""
    """The approved request, with `shutdown_approved`."""


@dataclass(frozen=True)
class Message:
    """A message from the inbox."""

    id: str
    type: str
    """Its kind, such as `shutdown_request` or `notice`. Empty for a kind newer than this client."""
    sender: str
    """The sending member's name, or `operator` or `coordinator`."""
    summary: str
    content: str
    """Its text: the content, the reason, the plan, or the feedback."""
    request_id: str
    """The request that it makes or answers. Empty if there is none."""
    delivery_count: int
    """How many sessions have, or may have, delivered it. Above 1, an earlier process may have seen it."""
    proto: message_pb2.Message = field(repr=False)
    """The message as the coordinator sent it."""
    _ack: Callable[[str], None] = field(repr=False, compare=False)

    def ack(self) -> None:
        """Acknowledges it as processed. Returns at once; safe to call from any thread."""
        self._ack(self.id)


def _message(delivery: message_pb2.Delivery, ack: Callable[[str], None]) -> Message:
    proto, count = delivery.message, delivery.delivery_count
    kind = proto.WhichOneof("body") or ""
    body = getattr(proto, kind, None)
    content = getattr(body, _CONTENT.get(kind, ""), "")
    summary = getattr(body, "summary", "")
    return Message(proto.id, kind, proto.sender.name, summary, content, proto.request_id, count, proto, ack)


def _is_on(loop: asyncio.AbstractEventLoop) -> bool:
    """Returns whether the caller runs on this loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class AsyncSubscription:
    """The messages of the inbox: `async for message in subscription`. When the loop ends, `end` says why."""

    def __init__(self, calls: Calls) -> None:
        self.end: End | None = None
        """Why it ended. None if it has not ended, was closed, or ended with the error that was raised."""
        self._calls = calls
        self._request = message_pb2.StreamRequest(instance_id=str(uuid.uuid4()))
        self._shutdowns: collections.deque[Message] = collections.deque()
        self._inbox: collections.deque[Message] = collections.deque()
        self._is_acked: dict[str, bool] = {}
        self._unconfirmed: dict[str, None] = {}
        self._failure: Error | None = None
        self._is_over = self._are_acks_over = False
        self._loop = asyncio.get_running_loop()
        # Done at the next change, and then replaced: an event's waiter would miss a change before its first step.
        self._change: asyncio.Future[None] = self._loop.create_future()
        # How many flushes wait, and what is set when acknowledgements may have become urgent.
        self._flushes = 0
        self._hurry = asyncio.Event()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._acknowledge())]
        calls.settled.clear()

    def __aiter__(self) -> AsyncSubscription:
        return self

    async def __anext__(self) -> Message:
        if message := await self.next():
            return message
        raise StopAsyncIteration

    async def next(self, timeout: float | None = None) -> Message | None:
        """Waits for the next message; shutdown requests come first. None: it has ended, see `end`.

        Raises Error, once, if the coordinator refuses permanently, and asyncio.TimeoutError after `timeout` seconds.
        Cancelling it loses no message.
        """
        await asyncio.sleep(0)  # Yield to other tasks even if a message is always ready.
        await self._until(lambda: self._is_over or bool(self._shutdowns or self._inbox), timeout)
        if not self._is_over:
            return (self._shutdowns or self._inbox).popleft()
        failure, self._failure = self._failure, None
        if failure:
            raise failure
        return None

    def ack(self, message_id: str) -> None:
        """Acknowledges a message as processed. Returns at once; safe to call from any thread.

        After a pause, it is sent at once. Those that follow within 20 ms share a call, or within
        up to 100 ms if the coordinator is busy. `flush` does not wait for them.
        """
        try:
            if message_id not in self._is_acked:
                # The coordinator would refuse the whole batch for one malformed id.
                message_id = str(uuid.UUID(message_id))
            if _is_on(self._loop):
                self._take_ack(message_id)
            else:
                self._loop.call_soon_threadsafe(self._take_ack, message_id)
        except (ValueError, RuntimeError) as error:
            LOG.warning("not acknowledged: %s", error)

    async def flush(self) -> None:
        """Waits, through reconnects, until every acknowledgement so far is confirmed.

        Raises Error if the subscription has ended and they can no longer be confirmed.
        """
        await asyncio.sleep(0)  # Let acknowledgements from other threads arrive.
        taken = set(self._unconfirmed)
        self._flushes += 1
        self._hurry.set()
        try:
            await self._until(lambda: self._are_acks_over or taken.isdisjoint(self._unconfirmed))
        finally:
            self._flushes -= 1
        if not taken.isdisjoint(self._unconfirmed):
            raise Error("The subscription has ended, and unconfirmed acknowledgements are lost.", Code.CANCELLED)

    async def close(self) -> None:
        """Closes the subscription. If connected, first waits up to 2 s for acknowledgements to be confirmed."""
        if self._calls.settled.is_set():
            with contextlib.suppress(Error, asyncio.TimeoutError):
                await within(_FLUSH_AT_THE_END, self.flush())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._finish(None)

    async def _until(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        """Waits until the condition holds. Raises asyncio.TimeoutError after `seconds`."""
        began = time.monotonic()
        while not condition():
            left = None if seconds is None else max(began + seconds - time.monotonic(), 0)
            done, _ = await asyncio.wait({self._change}, timeout=left)
            if not done:
                raise asyncio.TimeoutError

    def _pulse(self) -> None:
        """Wakes every waiter of `_until`."""
        self._change.set_result(None)
        self._change = self._loop.create_future()

    def _finish(self, end: End | Error | None) -> None:
        self._failure = end if isinstance(end, Error) else None
        self.end = end if isinstance(end, End) else self.end
        # A stopping member may still acknowledge.
        self._is_over, self._are_acks_over = True, not (isinstance(end, End) and end.reason == "shutdown_approved")
        self._calls.settled.set()
        self._hurry.set()
        self._pulse()

    async def _read(self) -> None:
        """Opens sessions, one after the other, until the subscription ends."""
        waits = delays()
        while True:
            began = time.monotonic()
            if end := await self._session():
                return self._finish(end)
            self._calls.settled.clear()
            if time.monotonic() - began >= _SETTLED_AFTER:
                waits = delays()
            await asyncio.sleep(next(waits))

    async def _session(self) -> End | Error | None:
        """Opens a session and reads it to its end. Returns None if another session should be opened."""
        link, stream = None, None
        try:
            link = await self._calls.link()
            # Outside the previous session, which this one supersedes.
            stream = MessageServiceStub(link).Stream(self._request, metadata=self._calls.metadata(""))
            frames, silence = aiter(stream), ATTEMPT
            while frame := await self._take_all(frames, silence):
                if frame.HasField("opened"):
                    silence = max(3 * frame.opened.heartbeat_interval.ToTimedelta().total_seconds(), 1.0)
                    self._calls.opened(frame.opened.session_id)
                elif how := _ENDS.get(frame.closing.reason):
                    return End(how, frame.closing.request_id)
            # The coordinator is draining, or the stream ended without a reason.
            self._calls.leave(link)
        except asyncio.TimeoutError:
            LOG.debug("the session is silent")
            self._calls.leave(link)
        except (Error, grpc.aio.AioRpcError) as failure:
            error = self._calls.judge(failure, link)
            LOG.debug("the session has ended: %s", error)
            if how := _ENDS.get(error.reason):
                return End(how)
            if error.reason not in REOPENED if error.reason else error.code() in _FINAL:
                return error
        finally:
            if stream:
                stream.cancel()
        return None

    async def _take_all(
        self, frames: AsyncIterator[message_pb2.StreamResponse], silence: float
    ) -> message_pb2.StreamResponse | None:
        """Queues deliveries up to the next frame of another kind, and returns that frame. None if the stream has ended.

        Raises asyncio.TimeoutError if no frame arrives for `silence` seconds.
        """
        heard = time.monotonic()

        async def take() -> message_pb2.StreamResponse | None:
            nonlocal heard
            async for frame in frames:
                if not frame.HasField("delivery"):
                    return frame
                heard = time.monotonic()
                self._take(frame.delivery)
            return None

        # One task and one timer for many messages, not one per message.
        taking = asyncio.create_task(take())
        try:
            while (left := heard + silence - time.monotonic()) > 0:
                await asyncio.wait({taking}, timeout=left)
                if taking.done():
                    return taking.result()
            raise asyncio.TimeoutError
        finally:
            taking.cancel()

    def _take(self, delivery: message_pb2.Delivery) -> None:
        """Queues a new message. Acknowledges again one that the program has acknowledged."""
        message = _message(delivery, self.ack)
        is_acked = self._is_acked.get(message.id)
        if is_acked:
            self._take_ack(message.id)
        elif is_acked is None:
            self._remember(message.id, False)
            (self._shutdowns if message.type == "shutdown_request" else self._inbox).append(message)
            self._pulse()

    def _take_ack(self, message_id: str) -> None:
        self._remember(message_id, True)
        self._unconfirmed[message_id] = None
        if len(self._unconfirmed) >= _URGENT_FROM:
            self._hurry.set()
        self._pulse()

    def _remember(self, message_id: str, is_acked: bool) -> None:
        """Remembers the latest ids. A forgotten message is handed out again if it is redelivered."""
        self._is_acked[message_id] = is_acked
        if len(self._is_acked) > _REMEMBERED:
            oldest = next(iter(self._is_acked))
            del self._is_acked[oldest]

    async def _acknowledge(self) -> None:
        """Sends acknowledgements in batches until the coordinator refuses them permanently."""
        stub = MessageServiceStub(self._calls.channel)
        due = self._loop.time()
        while not self._are_acks_over:
            await self._until(lambda: bool(self._unconfirmed))
            await self._pause(due)
            batch = list(self._unconfirmed)[:_IDS_IN_A_CALL]
            began = self._loop.time()
            due = began + _PAUSE
            try:
                # A call of the session, so that it is retried in the next one.
                await stub.Ack(message_pb2.AckRequest(message_ids=batch), timeout=math.inf)
            except Error as error:
                LOG.debug("not acknowledged: %s", error)
                self._are_acks_over = error.reason in _ENDS or error.code() in _FINAL
                if error.reason == "SESSION_SUPERSEDED" and not self._is_over:
                    if self._calls.settled.is_set():
                        # Another process holds the inbox. Even behind a silent stream, ours must not take it back.
                        self._tasks[0].cancel()
                        self._finish(End("superseded"))
                        return
                    # Our own next session may have superseded this one, although no answer has come.
                    self._are_acks_over = False
                await asyncio.sleep(0 if self._are_acks_over else 1)
            else:
                took = self._loop.time() - began
                due = began + max(_PAUSE, min(_PAUSE_IN_CALLS * took, _PAUSE_MAX))
                for message_id in batch:
                    self._unconfirmed.pop(message_id, None)
            self._pulse()

    async def _pause(self, due: float) -> None:
        """Waits until the time `due`, or until what waits is urgent."""
        while not self._is_urgent() and (left := due - self._loop.time()) > 0:
            self._hurry.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(left, self._hurry.wait())

    def _is_urgent(self) -> bool:
        return self._flushes > 0 or self._is_over or len(self._unconfirmed) >= _URGENT_FROM
