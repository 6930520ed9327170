"""The client for programs without asyncio: runs the asyncio client on an event loop in a background thread."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import grpc

from ._client import AsyncClient, connect, join, join_host
from ._identity import Identity
from ._subscription import AsyncSubscription, End, Message
from .v1 import (
    access_pb2_grpc,
    audit_pb2_grpc,
    history_pb2_grpc,
    host_pb2_grpc,
    message_pb2_grpc,
    request_pb2_grpc,
    task_pb2_grpc,
    team_pb2_grpc,
    watch_pb2_grpc,
)

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Returns the event loop that all clients share: gRPC supports only one well. It lives as long as the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="teamwire", daemon=True).start()
    return loop


def _run(coroutine: Coroutine[Any, Any, _R]) -> _R:
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except BaseException:
        # Such as KeyboardInterrupt. Cancelling a finished coroutine does nothing.
        future.cancel()
        raise


def _blocking(method: Callable[Concatenate[_T, _P], Coroutine[Any, Any, _R]]) -> Callable[Concatenate[Any, _P], _R]:
    """Returns a blocking version of a coroutine method, for a class that wraps its object in `_aio`."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return _run(method(self._aio, *args, **kwargs))

    return functools.update_wrapper(call, method)


class _Channel:
    """Acts as the channel of the generated stubs for programs without asyncio."""

    def __init__(self, aio: AsyncClient) -> None:
        self._calls = aio._calls

    def unary_unary(self, method: str, **how: Any) -> Callable[..., Any]:
        call = self._calls.unary_unary(method, **how)
        return lambda request, **options: _run(call(request, **options))

    def unary_stream(self, method: str, **how: Any) -> Callable[..., Any]:
        stream = self._calls.unary_stream(method, **how)
        return lambda request, **options: _iterate(stream(request, **options))


def _iterate(frames: Any) -> Iterator[Any]:
    async def step() -> Any:
        return await anext(frames, None)

    try:
        while frame := _run(step()):
            yield frame
    finally:
        _run(frames.aclose())


class Subscription:
    """The messages of the inbox: `for message in subscription`. When the loop ends, `end` says why."""

    def __init__(self, aio: AsyncSubscription) -> None:
        self._aio = aio
        self.ack = aio.ack

    @property
    def end(self) -> End | None:
        """Why it ended. None if it has not ended, was closed, or ended with the error that was raised."""
        return self._aio.end

    def __iter__(self) -> Iterator[Message]:
        while message := self.next():
            yield message

    next = _blocking(AsyncSubscription.next)
    flush = _blocking(AsyncSubscription.flush)
    close = _blocking(AsyncSubscription.close)


class Client:
    """AsyncClient for programs without asyncio. Safe for concurrent use by several threads."""

    def __init__(self, aio: AsyncClient | None = None, **options: Any) -> None:
        """Wraps a client from `connect`, or calls `connect` with these options."""
        self._aio = aio or connect(**options)
        channel = cast(grpc.Channel, _Channel(self._aio))
        self.access = access_pb2_grpc.AccessServiceStub(channel)
        self.audit = audit_pb2_grpc.AuditServiceStub(channel)
        self.history = history_pb2_grpc.HistoryServiceStub(channel)
        self.hosts = host_pb2_grpc.HostServiceStub(channel)
        self.messages = message_pb2_grpc.MessageServiceStub(channel)
        self.requests = request_pb2_grpc.RequestServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)
        self.teams = team_pb2_grpc.TeamServiceStub(channel)
        self.watches = watch_pb2_grpc.WatchServiceStub(channel)

    @classmethod
    def join(cls, join_string: str, name: str = "", **options: Any) -> Client:
        """Joins a team; see `join`."""
        return cls(_run(join(join_string, name, **options)))

    @classmethod
    def join_host(cls, join_string: str, name: str = "", **options: Any) -> Client:
        """Joins a team as a host; see `join_host`."""
        return cls(_run(join_host(join_string, name, **options)))

    @property
    def name(self) -> str:
        """The caller's name. Empty if the credential is not a member's."""
        return self._aio.name

    @property
    def team(self) -> str:
        """The caller's team. Empty for an operator that has chosen none."""
        return self._aio.team

    @property
    def identity(self) -> Identity:
        """The credential and the address. The `credential` is a secret; keep it to resume after a restart."""
        return self._aio.identity

    def create_team(self, name: str, lead: str = "") -> Client:
        """Creates a team as an operator; see AsyncClient.create_team."""
        return Client(_run(self._aio.create_team(name, lead)))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def subscribe(self) -> Subscription:
        """Subscribes to the caller's inbox; see AsyncClient.subscribe."""

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
    request_permission = _blocking(AsyncClient.request_permission)
    answer_permission = _blocking(AsyncClient.answer_permission)
    withdraw_request = _blocking(AsyncClient.withdraw_request)
    wait_decision = _blocking(AsyncClient.wait_decision)
    invite = _blocking(AsyncClient.invite)
    members = _blocking(AsyncClient.members)
    invite_host = _blocking(AsyncClient.invite_host)
    spawn = _blocking(AsyncClient.spawn)
    all_hosts = _blocking(AsyncClient.all_hosts)
    update_host = _blocking(AsyncClient.update_host)
    take_order = _blocking(AsyncClient.take_order)
    refuse_order = _blocking(AsyncClient.refuse_order)
    report_exit = _blocking(AsyncClient.report_exit)
    request_shutdown = _blocking(AsyncClient.request_shutdown)
    shutdown = _blocking(AsyncClient.shutdown)
    force_stop = _blocking(AsyncClient.force_stop)
    hand_over = _blocking(AsyncClient.hand_over)
    delete_team = _blocking(AsyncClient.delete_team)
    leave = _blocking(AsyncClient.leave)
