"""Calls: over one connection at a time, to any of several coordinators, each tried again until its outcome is known."""

from __future__ import annotations

import asyncio
import collections
import copy
import itertools
import logging
import random
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import grpc
from google.protobuf.message import Message as ProtoMessage

from ._errors import Error
from ._identity import Identity
from ._trust import Trust
from .v1 import request_pb2, task_pb2

_LOG = logging.getLogger("teamwire")

PATIENCE = 600.0
"""How long a call may take in all, in seconds."""

ATTEMPT = 10.0
"""How long one attempt may take, in seconds, besides what the coordinator was asked to wait."""

_OPTIONS: list[tuple[str, Any]] = [
    # 1,000 messages of 64 KiB each, and room.
    ("grpc.max_receive_message_length", 80 << 20),
    # One that has vanished is found within 30 s, also between two frames of a quiet stream.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A new channel is a new connection, and does not wait for what another one has met with.
    ("grpc.use_local_subchannel_pool", 1),
    # How long a connection may take to be there; the name of this option says something else.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config", '{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}'),
]

_OUTCOME_UNKNOWN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
}
_NOT_NOW = {"STORE_UNAVAILABLE", "DURABILITY_NOT_REACHED", "DRAINING", "RATE_LIMITED"}
_NOT_DONE = {"DRAINING", "RATE_LIMITED"}
_ONCE = {"DeleteTeam", "SetLead"}
_UNGUESSABLE = {"Join", "CreateTeam"}


def delays() -> Iterator[float]:
    """How long to wait before each further attempt, in seconds, with full jitter."""
    bounds = itertools.chain((0.1 * 2**n for n in range(6)), itertools.repeat(5.0))
    return (random.uniform(0, bound) for bound in bounds)  # noqa: S311


def is_retried(error: Error, call: str) -> bool:
    """Whether a call, by its name in the protocol, may be made again."""
    if error.is_insecure:
        return False
    if error.is_unsent or error.reason in _NOT_DONE:
        return True
    is_passing = error.reason in _NOT_NOW if error.reason else error.code() in _OUTCOME_UNKNOWN
    return is_passing and call not in _ONCE


def uuid7() -> str:
    """A UUID of version 7: it sorts by time, which is the cheapest for a coordinator to keep."""
    random_bits = secrets.randbits(74)
    high = (time.time_ns() // 1_000_000) << 16 | 7 << 12 | random_bits >> 62
    return str(uuid.UUID(int=high << 64 | 2 << 62 | random_bits & (1 << 62) - 1))


class Calls:
    """What the generated stubs take for their channel. Each call becomes as many attempts as it takes."""

    def __init__(self, identity: Identity, patience: float) -> None:
        self.identity = identity
        self.session_id = ""
        """The session that calls belong to, as the subscription keeps it."""
        self.settled = asyncio.Event()
        """Not set: the subscription opens another session, which ends this one."""
        self.settled.set()
        self._patience = patience
        self._addresses = collections.deque(random.sample(identity.addresses, len(identity.addresses)))
        self._link: grpc.aio.Channel | None = None
        self._linking = asyncio.Lock()
        self._trust = Trust(identity.tls)
        self._has_connected = False
        self._is_closed = False

    @property
    def channel(self) -> grpc.aio.Channel:
        """This, as the generated stubs want to have it: they ask no more of a channel than the next two methods."""
        return cast(grpc.aio.Channel, self)

    def unary_unary(self, method: str, **how: Any) -> Callable[..., Any]:
        return partial(self._persist, method, how)

    def unary_stream(self, method: str, **how: Any) -> Callable[..., Any]:
        return partial(self._stream, method, how)

    async def link(self) -> grpc.aio.Channel:
        """Returns the connection to use. Whoever holds it keeps it open, also when others go on over a new one."""
        async with self._linking:
            if self._is_closed:
                raise Error("The client is closed.", grpc.StatusCode.FAILED_PRECONDITION)
            if not self._link:
                address = self._addresses[0]
                if address.is_tls:
                    credentials = await self._trust.credentials(address)
                    self._link = grpc.aio.secure_channel(f"dns:///{address.authority}", credentials, _OPTIONS)
                else:
                    self._link = grpc.aio.insecure_channel(f"dns:///{address.authority}", _OPTIONS)
            return self._link

    def leave(self, link: grpc.aio.Channel | None) -> None:
        """Has the next attempt go to another address, where there is one, over a new connection."""
        if link is self._link:
            self._link = None
            self._addresses.rotate(-1)

    def judge(self, failure: Error | grpc.aio.AioRpcError, link: grpc.aio.Channel | None) -> Error:
        """Says what a failed attempt means, and leaves a link behind that is broken or whose coordinator goes away."""
        error = failure if isinstance(failure, Error) else Error.of(failure)
        if error.reason == "DRAINING" or (not error.reason and error.code() in _OUTCOME_UNKNOWN):
            self.leave(link)
        # Whatever is wrong with one that was fine before may be put right again.
        error.is_insecure &= not self._has_connected
        return error

    def metadata(self, session_id: str) -> list[tuple[str, str]]:
        """What every call carries."""
        session = [("teamwire-session", session_id)] if session_id else []
        return [("authorization", f"Bearer {self.identity.credential}"), *session]

    async def close(self) -> None:
        self._is_closed = True
        if self._link:
            await self._link.close()

    async def _persist(
        self,
        method: str,
        how: dict[str, Any],
        request: ProtoMessage,
        timeout: float | None = None,
        metadata: Iterable[tuple[str, str | bytes]] = (),
    ) -> Any:
        """Makes one call. `timeout` is how long to try in all, in seconds; zero: once."""
        call = method.rpartition("/")[2]
        request = self._complete(request, call)
        give_up = time.monotonic() + (self._patience if timeout is None else timeout)
        waits = delays()
        while True:
            session_id, link = self.session_id, None
            try:
                link = await self.link()
                attempt = link.unary_unary(method, **how)
                carried = [*self.metadata(session_id), *metadata]
                answer = await attempt(request, timeout=ATTEMPT + _asked_to_wait(request), metadata=carried)
            except (Error, grpc.aio.AioRpcError) as failure:
                error = self.judge(failure, link)
            else:
                self._has_connected = True
                return answer
            if error.reason == "SESSION_SUPERSEDED" and await self._has_reopened(session_id):
                continue
            delay = max(next(waits), 0.0 if error.reason == "DRAINING" else error.retry_after)
            if time.monotonic() + delay >= give_up or not is_retried(error, call):
                raise error
            _LOG.debug("%s is tried again in %.1f s: %s", call, delay, error)
            await asyncio.sleep(delay)

    async def _stream(
        self,
        method: str,
        how: dict[str, Any],
        request: ProtoMessage,
        timeout: float | None = None,
        metadata: Iterable[tuple[str, str | bytes]] = (),
    ) -> AsyncIterator[Any]:
        """Reads one stream to its end, and does not open another one."""
        link = await self.link()
        carried = [*self.metadata(self.session_id), *metadata]
        try:
            attempt = link.unary_stream(method, **how)
            async for frame in attempt(self._complete(request, method), timeout=timeout, metadata=carried):
                yield frame
        except (Error, grpc.aio.AioRpcError) as failure:
            raise self.judge(failure, link) from None

    def _complete(self, request: ProtoMessage, call: str) -> Any:
        """Returns a copy with the idempotency key and the team, where they are left open."""
        request = copy.deepcopy(request)
        defaults = {
            "idempotency_key": str(uuid.uuid4()) if call in _UNGUESSABLE else uuid7(),
            "team": self.identity.team,
        }
        for field in defaults.keys() & request.DESCRIPTOR.fields_by_name.keys():
            setattr(request, field, getattr(request, field) or defaults[field])
        return request

    async def _has_reopened(self, refused: str) -> bool:
        """Whether the session that a call was refused in was replaced by one of our own."""
        try:
            await asyncio.wait_for(self.settled.wait(), ATTEMPT)
        except asyncio.TimeoutError:
            return False
        return self.session_id != refused


def _asked_to_wait(request: ProtoMessage) -> float:
    """How long the coordinator waits before it answers, in seconds."""
    if isinstance(request, request_pb2.WaitForDecisionRequest):
        asked = request.timeout.seconds + 1 if request.HasField("timeout") else 30
    else:
        asked = request.wait.seconds + 1 if isinstance(request, task_pb2.ClaimNextTaskRequest) else 0
    return min(max(asked, 0), 60)
