"""A subscription to one's own inbox, through reconnects: each message once, with acknowledgements in the background."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import grpc

from ._calls import ATTEMPT, Calls, delays
from ._errors import Error
from .v1 import message_pb2
from .v1.message_pb2_grpc import MessageServiceStub

_LOG = logging.getLogger("teamwire")

_REMEMBERED = 4096
_IDS_IN_A_CALL = 1000
_SETTLED_AFTER = 10.0
_FLUSH_AT_THE_END = 2.0

How = Literal["shutdown_approved", "superseded", "team_deleted", "member_stopped"]

_CLOSED: dict[int, How] = {
    message_pb2.CLOSE_REASON_SHUTDOWN_APPROVED: "shutdown_approved",
    message_pb2.CLOSE_REASON_SUPERSEDED: "superseded",
    message_pb2.CLOSE_REASON_TEAM_DELETED: "team_deleted",
    message_pb2.CLOSE_REASON_MEMBER_STOPPED: "member_stopped",
}
_REFUSED: dict[str, How] = {
    "SESSION_SUPERSEDED": "superseded",
    "TEAM_NOT_FOUND": "team_deleted",
    "MEMBER_STOPPED": "member_stopped",
}
# What passes: these reasons, and without a reason all codes but these.
_PASSING = {"STORE_UNAVAILABLE", "DURABILITY_NOT_REACHED", "DRAINING", "RATE_LIMITED", "SLOW_CONSUMER", "INTERNAL"}
_FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
}
_CONTENT = {
    "shutdown_request": "reason",
    "shutdown_response": "reason",
    "plan_approval_request": "plan",
    "plan_approval_response": "feedback",
    "notice": "text",
}


@dataclass(frozen=True)
class End:
    """Why a subscription is over."""

    how: How
    request_id: str = ""
    """With `shutdown_approved`: the request that was approved."""


@dataclass(frozen=True)
class Message:
    """A message out of the inbox."""

    proto: message_pb2.Message = field(repr=False)
    """All that the coordinator says of it."""
    delivery_count: int
    """How many sessions have delivered it or may have. Over 1: an earlier process may have seen it."""
    _ack: Callable[[str], None] = field(repr=False, compare=False)

    @property
    def id(self) -> str:
        return self.proto.id

    @property
    def sender(self) -> str:
        """The name of the member that sent it; or `operator` or `coordinator`."""
        return self.proto.sender.name

    @property
    def type(self) -> str:
        """One of the six kinds, such as `shutdown_request`, or `notice`. Empty: a kind newer than this client."""
        return self.proto.WhichOneof("body") or ""

    @property
    def content(self) -> str:
        """Its text: what was written, the reason, the plan, or the feedback."""
        return self._part(_CONTENT.get(self.type, "content"))

    @property
    def summary(self) -> str:
        return self._part("summary")

    @property
    def approve(self) -> bool | None:
        """What an answer says. None: it is no answer."""
        return getattr(self.proto, self.type).approve if self.type.endswith("_response") else None

    @property
    def request_id(self) -> str:
        """The request that it makes or answers. Empty: none."""
        return self.proto.request_id

    def __str__(self) -> str:
        return f"{self.type} {self.id} from {self.sender}: {self.summary}"

    def ack(self) -> None:
        """Says that it is processed, and returns at once. May be called from any thread."""
        self._ack(self.id)

    def _part(self, name: str) -> str:
        return str(getattr(getattr(self.proto, self.type, None), name, ""))


class Window:
    """The latest messages that were handed out, and whether each was acknowledged."""

    def __init__(self, size: int = _REMEMBERED) -> None:
        self._is_acked: dict[str, bool] = {}
        self._size = size

    def deliver(self, message_id: str) -> bool | None:
        """Notes that a message has come in. None: it is new; or whether it was acknowledged before."""
        known = self._is_acked.get(message_id)
        if known is None:
            self._note(message_id, False)
        return known

    def ack(self, message_id: str) -> None:
        self._note(message_id, True)

    def _note(self, message_id: str, is_acked: bool) -> None:
        self._is_acked[message_id] = is_acked
        if len(self._is_acked) > self._size:
            del self._is_acked[next(iter(self._is_acked))]


class AsyncSubscription:
    """The inbox as it fills: `async for message in subscription`. When that ends, `end` says why."""

    def __init__(self, calls: Calls) -> None:
        self.end: End | None = None
        """Why it is over. None: it is not, or it was closed, or it ended with the error that was raised."""
        self._calls = calls
        self._stub = MessageServiceStub(calls.channel)
        self._request = message_pb2.StreamRequest(instance_id=str(uuid.uuid4()))
        self._urgent: collections.deque[Message] = collections.deque()
        self._others: collections.deque[Message] = collections.deque()
        self._window = Window()
        self._unproven: dict[str, None] = {}
        self._failure: Error | None = None
        self._is_over = False
        self._is_deaf = False
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._acknowledge())]
        calls.settled.clear()

    def __aiter__(self) -> AsyncSubscription:
        return self

    async def __anext__(self) -> Message:
        message = await self.next()
        if message is None:
            raise StopAsyncIteration
        return message

    async def next(self, timeout: float | None = None) -> Message | None:
        """Returns the next message, a shutdown request before others. None: the subscription has ended, see `end`.

        Raises Error once when the coordinator refuses for good, and asyncio.TimeoutError after `timeout` seconds. May
        be cancelled without loss.
        """
        await asyncio.wait_for(self._until(lambda: self._is_over or bool(self._urgent or self._others)), timeout)
        if self._is_over:
            failure, self._failure = self._failure, None
            if failure:
                raise failure
            return None
        return (self._urgent or self._others).popleft()

    def ack(self, message_id: str) -> None:
        """Says that a message is processed, and returns at once. May be called from any thread."""
        try:
            # One malformed id would have the coordinator refuse all those that it is sent with.
            message_id = str(uuid.UUID(message_id))
        except ValueError:
            _LOG.warning("not acknowledged, for it is no message's id: %.64r", message_id)
            return
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self._take_ack, message_id)

    async def flush(self) -> None:
        """Waits until every acknowledgement so far is confirmed, through reconnects.

        Raises Error when the subscription has ended in a way that none can be confirmed any more.
        """
        await asyncio.sleep(0)  # What was acknowledged a moment ago is taken by then.
        taken = set(self._unproven)
        await self._until(lambda: self._is_deaf or taken.isdisjoint(self._unproven))
        if not taken.isdisjoint(self._unproven):
            raise Error("The subscription has ended, and acknowledgements are lost.", grpc.StatusCode.CANCELLED)

    async def close(self) -> None:
        """Ends it from this side. Gives acknowledgements that are not confirmed 2 s, if there is a connection."""
        if self._calls.settled.is_set():
            with contextlib.suppress(Error, asyncio.TimeoutError):
                await asyncio.wait_for(self.flush(), _FLUSH_AT_THE_END)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._finish(None)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._changed.wait()

    def _pulse(self) -> None:
        """Wakes all that wait for a change."""
        self._changed.set()
        self._changed.clear()

    def _finish(self, end: End | Error | None) -> None:
        if isinstance(end, Error):
            self._failure = end
        elif end:
            self.end = end
        self._is_over = True
        # A member that is stopping may still say what it has processed.
        self._is_deaf |= not (isinstance(end, End) and end.how == "shutdown_approved")
        self._calls.settled.set()
        self._pulse()

    async def _read(self) -> None:
        """Opens one session after the other, until one ends for good."""
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
        """Opens a session and reads it to its end. None: another one is to be opened."""
        link, stream = None, None
        try:
            link = await self._calls.link()
            # Without a session's id: this one ends the earlier one.
            stream = MessageServiceStub(link).Stream(self._request, metadata=self._calls.metadata(""))
            frames, silence = aiter(stream), ATTEMPT
            while frame := await asyncio.wait_for(anext(frames, None), silence):
                kind = frame.WhichOneof("frame")
                if kind == "opened":
                    silence = max(3 * frame.opened.heartbeat_interval_ms / 1000, 1.0)
                    self._calls.session_id = frame.opened.session_id
                    self._calls.settled.set()
                    self._pulse()
                elif kind == "delivery":
                    self._take(frame.delivery)
                elif kind == "closing":
                    if how := _CLOSED.get(frame.closing.reason):
                        return End(how, frame.closing.request_id)
                    break
            self._calls.leave(link)
            return None
        except asyncio.TimeoutError:
            _LOG.debug("nothing is heard of the coordinator")
            self._calls.leave(link)
            return None
        except (Error, grpc.aio.AioRpcError) as failure:
            return _ending(self._calls.judge(failure, link))
        finally:
            if stream:
                stream.cancel()

    def _take(self, delivery: message_pb2.Delivery) -> None:
        """Queues a message that is new. One that was acknowledged is acknowledged again."""
        message = Message(delivery.message, delivery.delivery_count, self.ack)
        is_acked = self._window.deliver(message.id)
        if is_acked:
            self._take_ack(message.id)
        elif is_acked is None:
            (self._urgent if message.type == "shutdown_request" else self._others).append(message)
            self._pulse()

    def _take_ack(self, message_id: str) -> None:
        self._window.ack(message_id)
        self._unproven[message_id] = None
        if len(self._unproven) > _REMEMBERED:
            # Its message comes again in a later session.
            del self._unproven[next(iter(self._unproven))]
        self._pulse()

    async def _acknowledge(self) -> None:
        """Sends what is taken, many at a time, until the coordinator says for good that it will not have it."""
        waits = delays()
        while True:
            await self._until(lambda: self._is_deaf or bool(self._unproven))
            await self._calls.settled.wait()
            if self._is_deaf:
                return None
            session_id, batch = self._calls.session_id, list(self._unproven)[:_IDS_IN_A_CALL]
            try:
                request = message_pb2.AckRequest(session_id=session_id, message_ids=batch)
                await self._stub.Ack(request, timeout=0)
            except Error as error:
                if self._calls.session_id != session_id:
                    continue
                if error.code() in _FINAL or error.reason in _REFUSED:
                    _LOG.debug("acknowledgements are dropped: %s", error)
                    self._is_deaf = True
                    return self._pulse()
                await asyncio.sleep(next(waits))
            else:
                waits = delays()
                for message_id in batch:
                    self._unproven.pop(message_id, None)
                self._pulse()


def _ending(error: Error) -> End | Error | None:
    """Reads how a session ended. None: another one is to be opened."""
    if how := _REFUSED.get(error.reason):
        return End(how)
    is_passing = error.reason in _PASSING if error.reason else error.code() not in _FINAL
    _LOG.debug("the session has ended: %s", error)
    return None if is_passing and not error.is_insecure else error
