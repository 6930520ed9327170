"""The client for programs without asyncio: runs the asyncio client on an event loop in a background thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import grpc

from ._blocking import blocking, run
from ._client import AsyncClient, connect, join, join_host
from ._helpers import BlockingHelpers
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


class _Channel:
    """Acts as the channel of the generated stubs for programs without asyncio."""

    def __init__(self, aio: AsyncClient) -> None:
        self._calls = aio._calls

    def unary_unary(self, method: str, **how: Any) -> Callable[..., Any]:
        call = self._calls.unary_unary(method, **how)
        return lambda request, **options: run(call(request, **options))

    def unary_stream(self, method: str, **how: Any) -> Callable[..., Any]:
        stream = self._calls.unary_stream(method, **how)
        return lambda request, **options: _iterate(stream(request, **options))


def _iterate(frames: Any) -> Iterator[Any]:
    async def step() -> Any:
        return await anext(frames, None)

    try:
        while frame := run(step()):
            yield frame
    finally:
        run(frames.aclose())


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

    next = blocking(AsyncSubscription.next)
    flush = blocking(AsyncSubscription.flush)
    close = blocking(AsyncSubscription.close)


class Client(BlockingHelpers):
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
        return cls(run(join(join_string, name, **options)))

    @classmethod
    def join_host(cls, join_string: str, name: str = "", **options: Any) -> Client:
        """Joins a team as a host; see `join_host`."""
        return cls(run(join_host(join_string, name, **options)))

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
        return Client(run(self._aio.create_team(name, lead)))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def subscribe(self) -> Subscription:
        """Subscribes to the caller's inbox; see AsyncClient.subscribe."""

        async def subscribe() -> AsyncSubscription:
            return self._aio.subscribe()

        return Subscription(run(subscribe()))

    close = blocking(AsyncClient.close)
    send = blocking(AsyncClient.send)
    reply = blocking(AsyncClient.reply)
    wait_decision = blocking(AsyncClient.wait_decision)
    members = blocking(AsyncClient.members)
    all_hosts = blocking(AsyncClient.all_hosts)
    request_shutdown = blocking(AsyncClient.request_shutdown)
    shutdown = blocking(AsyncClient.shutdown)
    leave = blocking(AsyncClient.leave)
