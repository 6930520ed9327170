"""The client for programs without asyncio: the other one, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import grpc

from ._calls import PATIENCE, Calls
from ._client import AsyncClient
from ._identity import Identity, Tls
from ._subscription import AsyncSubscription, End, Message
from .v1 import team_pb2
from .v1.history_pb2_grpc import HistoryServiceStub
from .v1.message_pb2_grpc import MessageServiceStub
from .v1.request_pb2_grpc import RequestServiceStub
from .v1.task_pb2_grpc import TaskServiceStub
from .v1.team_pb2_grpc import TeamServiceStub

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
_END = object()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """The one loop of all clients: gRPC does not like to have several. It ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="teamwire", daemon=True).start()
    return loop


def _run(coroutine: Coroutine[Any, Any, _R]) -> _R:
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except BaseException:
        # Such as KeyboardInterrupt; what has ended by itself is not harmed.
        future.cancel()
        raise


def _blocking(method: Callable[Concatenate[_T, _P], Coroutine[Any, Any, _R]]) -> Callable[Concatenate[Any, _P], _R]:
    """Makes a method of what wraps it in `_aio` out of a method for asyncio."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return _run(method(self._aio, *args, **kwargs))

    return functools.update_wrapper(call, method)


class _Channel:
    """What the generated stubs for programs without asyncio take for their channel."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def unary_unary(self, method: str, **how: Any) -> Callable[..., Any]:
        call = self._calls.unary_unary(method, **how)
        return lambda request, **options: _run(call(request, **options))

    def unary_stream(self, method: str, **how: Any) -> Callable[..., Any]:
        stream = self._calls.unary_stream(method, **how)
        return lambda request, **options: _iterate(stream(request, **options))


def _iterate(frames: AsyncGenerator[Any, None]) -> Iterator[Any]:
    async def step() -> Any:
        return await anext(frames, _END)

    try:
        while (frame := _run(step())) is not _END:
            yield frame
    finally:
        _run(frames.aclose())


class Subscription:
    """The inbox as it fills: `for message in subscription`. When that ends, `end` says why."""

    def __init__(self, subscription: AsyncSubscription) -> None:
        self._aio = subscription

    next = _blocking(AsyncSubscription.next)
    flush = _blocking(AsyncSubscription.flush)
    close = _blocking(AsyncSubscription.close)

    @property
    def end(self) -> End | None:
        """Why it is over. None: it is not, or it was closed, or it ended with the error that was raised."""
        return self._aio.end

    def ack(self, message_id: str) -> None:
        """Says that a message is processed, and returns at once."""
        self._aio.ack(message_id)

    def __iter__(self) -> Iterator[Message]:
        while message := self.next():
            yield message


class Client:
    """The same as AsyncClient, for programs without asyncio. May be used by several threads at once."""

    def __init__(
        self,
        address: str = "",
        credential: str = "",
        *,
        team: str = "",
        tls: Tls | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Says who calls and where; what is left out is found in the environment or the context file.

        Raises ValueError when it is not found, or malformed.
        """
        self._begin(AsyncClient(address, credential, team=team, tls=tls, patience=patience))

    def _begin(self, client: AsyncClient) -> None:
        self._aio = client
        channel = cast(grpc.Channel, _Channel(client._calls))
        self.history = HistoryServiceStub(channel)
        self.messages = MessageServiceStub(channel)
        self.requests = RequestServiceStub(channel)
        self.tasks = TaskServiceStub(channel)
        self.teams = TeamServiceStub(channel)

    @classmethod
    def join(
        cls,
        join_string: str,
        name: str = "",
        *,
        attributes: team_pb2.MemberAttributes | None = None,
        tls: Tls | None = None,
        patience: float = PATIENCE,
    ) -> Client:
        """Becomes a member: see AsyncClient.join."""
        client = cls.__new__(cls)
        client._begin(_run(AsyncClient.join(join_string, name, attributes=attributes, tls=tls, patience=patience)))
        return client

    @property
    def identity(self) -> Identity:
        """Who calls, and where. Its `credential` is a secret."""
        return self._aio.identity

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity.address!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def subscribe(self) -> Subscription:
        """Subscribes to one's own inbox: see AsyncClient.subscribe."""

        async def subscribe() -> AsyncSubscription:
            return self._aio.subscribe()

        return Subscription(_run(subscribe()))

    close = _blocking(AsyncClient.close)
    send = _blocking(AsyncClient.send)
    reply = _blocking(AsyncClient.reply)
    broadcast = _blocking(AsyncClient.broadcast)
    approve_shutdown = _blocking(AsyncClient.approve_shutdown)
    reject_shutdown = _blocking(AsyncClient.reject_shutdown)
    submit_plan = _blocking(AsyncClient.submit_plan)
    answer_plan = _blocking(AsyncClient.answer_plan)
    wait_decision = _blocking(AsyncClient.wait_decision)
    leave = _blocking(AsyncClient.leave)
