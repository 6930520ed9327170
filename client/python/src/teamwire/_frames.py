"""Calls that travel as frames of one stream, which costs a fraction of what calls cost."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from google.protobuf import duration_pb2

from .v1 import call_pb2

_METHOD = "/teamwire.v1.CallService/Carry"

FRAME_BYTES_MAX = 16 * 1024
"""How many bytes a request may have that travels as a frame."""

_OPEN = 10.0
"""How long a coordinator may take to open a stream, in seconds."""

_CHECK = 15.0
"""How often a stream is checked, in seconds: it is closed if nothing has happened since the last time."""

_MESSAGE_FRAMES = 64
_MESSAGE_BYTES = 16 * 1024
"""A message gets no further frame once it has this many frames, or this many bytes of requests."""


def calls_before() -> int:
    """Returns how many calls a connection makes one by one before further ones travel as frames."""
    with contextlib.suppress(ValueError):
        return int(os.environ.get("TEAMWIRE_CALLS_BEFORE_FRAMES", ""))
    return 8


class NotTakenError(Exception):
    """The stream has ended, and the coordinator has not taken the frame."""


class _Waiting:
    """A call that waits for its reply."""

    __slots__ = ("parts", "reply", "timer")

    def __init__(self, reply: asyncio.Future[bytes], timer: asyncio.TimerHandle) -> None:
        self.parts: list[bytes] = []
        self.reply = reply
        self.timer = timer


class Frames:
    """The stream of a connection."""

    def __init__(self, link: grpc.aio.Channel) -> None:
        self._link = link
        self._waiting: dict[int, _Waiting] = {}
        self._sequence = 0
        self._queue: list[call_pb2.CallFrame] = []
        self._has_frames = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_open = False
        self.is_over = False

    def start(self, metadata: Iterable[tuple[str, str]]) -> None:
        """Opens the stream. Until it is open, calls are made one by one."""
        self._task = asyncio.get_running_loop().create_task(self._run(grpc.aio.Metadata(*metadata)))

    def close(self) -> None:
        """Ends the stream. The outcome of calls without a reply is unknown."""
        if self._task:
            self._task.cancel()

    async def call(self, method: str, request: bytes, session_id: str, timeout: float) -> bytes:
        """Makes a call, and returns its encoded reply."""
        if self.is_over:
            raise NotTakenError
        self._sequence += 1
        sequence, loop = self._sequence, asyncio.get_running_loop()
        reply: asyncio.Future[bytes] = loop.create_future()
        self._waiting[sequence] = _Waiting(reply, loop.call_later(timeout, self._expire, sequence, timeout))
        frame = call_pb2.CallFrame(sequence=sequence, method=method, request=request, session=session_id)
        frame.timeout.CopyFrom(duration_pb2.Duration(seconds=int(timeout), nanos=int(timeout % 1 * 1e9)))
        self._queue.append(frame)
        self._has_frames.set()
        try:
            return await reply
        finally:
            waiting = self._waiting.pop(sequence, None)
            if waiting:
                waiting.timer.cancel()

    def _expire(self, sequence: int, timeout: float) -> None:
        text = f"no answer within {timeout:g} s"
        self._fail(self._waiting.pop(sequence), _status(grpc.StatusCode.DEADLINE_EXCEEDED, text))

    async def _run(self, metadata: grpc.aio.Metadata) -> None:
        carry: Any = self._link.stream_stream(
            _METHOD,
            request_serializer=call_pb2.CarryRequest.SerializeToString,
            response_deserializer=call_pb2.CarryResponse.FromString,
        )
        stream = carry(self._messages(), metadata=metadata)
        end: Exception = NotTakenError()
        try:
            await asyncio.wait_for(stream.initial_metadata(), _OPEN)
            self.is_open = True
            async for message in stream:
                for frame in message.replies:
                    self._receive(frame)
        except (grpc.aio.AioRpcError, asyncio.TimeoutError) as failure:
            # Why the stream failed says nothing about its calls.
            code = failure.code() if isinstance(failure, grpc.aio.AioRpcError) else grpc.StatusCode.UNAVAILABLE
            end = _status(grpc.StatusCode.UNAVAILABLE, f"the stream of calls failed: {code.name}")
        except asyncio.CancelledError:
            end = _status(grpc.StatusCode.CANCELLED, "the stream of calls was closed")
            raise
        finally:
            self.is_over = True
            stream.cancel()
            waiting, self._waiting = self._waiting, {}
            for call in waiting.values():
                self._fail(call, end)

    async def _messages(self) -> AsyncIterator[call_pb2.CarryRequest]:
        """Yields what waits, in as few messages as possible. Ends when nothing has happened for a while."""
        seen = 0
        while True:
            if not self._queue:
                self._has_frames.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._has_frames.wait(), _CHECK)
                if not self._queue:
                    if seen == self._sequence and not self._waiting:
                        self.is_over = True
                        return
                    seen = self._sequence
                    continue
            count = size = 0
            for frame in self._queue[:_MESSAGE_FRAMES]:
                count, size = count + 1, size + len(frame.request)
                if size >= _MESSAGE_BYTES:
                    break
            calls, self._queue = self._queue[:count], self._queue[count:]
            yield call_pb2.CarryRequest(calls=calls)

    def _receive(self, frame: call_pb2.ReplyFrame) -> None:
        # A call that no one waits for was given up.
        waiting = self._waiting.get(frame.sequence)
        if not waiting:
            return
        if not frame.HasField("status"):
            waiting.parts.append(frame.reply)
            return
        del self._waiting[frame.sequence]
        if frame.status.code == 0:
            waiting.timer.cancel()
            if not waiting.reply.done():
                waiting.reply.set_result(b"".join([*waiting.parts, frame.reply]) if waiting.parts else frame.reply)
            return
        code = next((code for code in grpc.StatusCode if code.value[0] == frame.status.code), grpc.StatusCode.UNKNOWN)
        self._fail(waiting, _status(code, frame.status.message, frame.status.details))

    def _fail(self, waiting: _Waiting, failure: Exception) -> None:
        waiting.timer.cancel()
        if not waiting.reply.done():
            waiting.reply.set_exception(failure)


def _status(code: grpc.StatusCode, text: str, details: bytes = b"") -> grpc.aio.AioRpcError:
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", details))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, text)
