"""Calls: over one connection at a time, to any of several coordinators, each tried again until its outcome is known."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import hashlib
import logging
import random
import secrets
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode as Code

from ._identity import Identity
from ._policy import NOT_DONE, ONCE, RETRIED, SECRET, WAITS

_T = TypeVar("_T")

LOG = logging.getLogger("teamwire")

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

_OUTCOME_UNKNOWN = {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.UNKNOWN}

# How gRPC says that nothing was sent, and that TLS stands in the way. There is no code for the one or the other.
_UNSENT = "failed to connect"
_INSECURE = ("handshake failed", "verification check failed", "Peer name", "Unwrap failed", "security handshaker")


class Error(grpc.RpcError):
    """Why a call did not succeed. Its text says what to do."""

    def __init__(self, message: str, code: Code = Code.UNAVAILABLE) -> None:
        super().__init__(message)
        self.message = message
        self._code = code
        self.reason = ""
        """Such as `AGENT_NOT_FOUND`. Empty: it comes from elsewhere, such as a broken connection."""
        self.field = ""
        """The field of the request that is at fault. Empty: none is."""
        self.metadata: dict[str, str] = {}
        """Facts for a program, such as the id of a pending request."""
        self.retry_after = 0.0
        """In how many seconds to try again. Zero: not said."""

    def __str__(self) -> str:
        return f"{self.reason or self._code.name}: {self.message}"

    def code(self) -> Code:
        """The gRPC code; a method, as in every error of gRPC."""
        return self._code

    @classmethod
    def of(cls, failure: grpc.aio.AioRpcError) -> Error:
        """Reads what gRPC raised. Details that cannot be read are left out."""
        error = cls(failure.details() or "It says no more.", failure.code())
        with contextlib.suppress(DecodeError):
            for key, value in failure.trailing_metadata() or ():
                if key == "grpc-status-details-bin" and isinstance(value, bytes):
                    for detail in status_pb2.Status.FromString(value).details:
                        error._add(detail)
        return error

    def _add(self, detail: any_pb2.Any) -> None:
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == "teamwire":
            self.reason, self.metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad) and bad.field_violations:
            self.field = bad.field_violations[0].field
        elif detail.Unpack(retry):
            self.retry_after = max(0.0, retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9)


def is_retried(error: Error, call: str) -> bool:
    """Whether a call, by its name in the protocol, may be made again."""
    if error.reason in NOT_DONE or (error.code() == Code.UNAVAILABLE and _UNSENT in error.message):
        return True
    is_passing = error.reason in RETRIED if error.reason else error.code() in _OUTCOME_UNKNOWN
    return is_passing and call not in ONCE


def delays() -> Iterator[float]:
    """How long to wait before each further attempt, in seconds, with full jitter."""
    bound = 0.1
    while True:
        yield random.uniform(0, bound)  # noqa: S311
        bound = min(2 * bound, 5.0)


def uuid7() -> str:
    """A UUID of version 7: it sorts by time, which is the cheapest for a coordinator to keep."""
    chance = secrets.randbits(74)
    high = (time.time_ns() // 1_000_000) << 16 | 7 << 12 | chance >> 62
    digits = f"{high << 64 | 2 << 62 | chance & (1 << 62) - 1:032x}"
    # What str(uuid.UUID(...)) returns, at a fraction of its price, which every call would pay.
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


async def within(seconds: float | None, awaitable: Awaitable[_T]) -> _T:
    """What asyncio.wait_for does, which before Python 3.12 may swallow that its caller was cancelled."""
    if seconds is None:
        return await awaitable
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
        return task.result()
    finally:
        task.cancel()


def _is_cancelled() -> bool:
    """Whether the present task is cancelled. Before Python 3.11 it cannot be told, and is taken not to be."""
    return bool(getattr(asyncio.current_task(), "cancelling", int)())


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
        self._targets = collections.deque(random.sample(identity.targets, len(identity.targets)))
        self._link: grpc.aio.Channel | None = None
        self._linking = asyncio.Lock()
        self._pinned = b""
        self._has_connected = self._is_closed = False

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
        if self._link:
            return self._link
        async with self._linking:
            if self._is_closed:
                raise Error("The client is closed.", Code.INVALID_ARGUMENT)
            if not self._link:
                is_tls, host, port = self._targets[0]
                target = f"dns:///[{host}]:{port}" if ":" in host else f"dns:///{host}:{port}"
                if is_tls:
                    self._link = grpc.aio.secure_channel(target, await self._credentials(host, port), _OPTIONS)
                else:
                    self._link = grpc.aio.insecure_channel(target, _OPTIONS)
            return self._link

    def judge(self, failure: Error | grpc.aio.AioRpcError, link: grpc.aio.Channel | None) -> Error:
        """Says what a failed attempt means, and leaves a link behind that is broken or whose coordinator goes away."""
        error = failure if isinstance(failure, Error) else Error.of(failure)
        if not error.reason and not self._has_connected and any(sign in error.message for sign in _INSECURE):
            # It will be the same until somebody changes something.
            remedy = "Check the authority (TEAMWIRE_CA), the host's name, and the client's certificate (TEAMWIRE_CERT)."
            error = Error(f"There is no secure connection: {error.message.rstrip('.')}. {remedy}", Code.UNAUTHENTICATED)
        if error.reason == "DRAINING" or (not error.reason and error.code() in _OUTCOME_UNKNOWN):
            self.leave(link)
        return error

    def leave(self, link: grpc.aio.Channel | None) -> None:
        """Has the next attempt go to another address, where there is one, over a new connection."""
        if link is self._link:
            self._link = None
            self._targets.rotate(-1)

    def opened(self, session_id: str) -> None:
        """Has calls belong to this session from now on."""
        self.session_id, self._has_connected = session_id, True
        self.settled.set()

    def metadata(self, session_id: str) -> list[tuple[str, str]]:
        """What every call carries."""
        session = [("teamwire-session", session_id)] if session_id else []
        return [("authorization", f"Bearer {self.identity.credential}"), *session]

    async def close(self) -> None:
        self._is_closed = True
        link, self._link = self._link, None
        if link:
            await link.close()

    async def _persist(
        self,
        method: str,
        how: dict[str, Any],
        request: Any,
        timeout: float | None = None,
        metadata: Iterable[tuple[str, str | bytes]] = (),
    ) -> Any:
        """Makes one call. `timeout` is how long to try in all, in seconds; zero: once."""
        call = method.rpartition("/")[2]
        request = self._complete(request, call)
        field, wait, wait_max = WAITS.get(call, ("", 0, 0))
        if field and request.HasField(field):
            wait = min(max(0, getattr(request, field).seconds + 1), wait_max)
        give_up = time.monotonic() + (self._patience if timeout is None else timeout)
        waits = delays()
        while True:
            session_id, link = self.session_id, None
            try:
                link = await self.link()
                carried = [*self.metadata(session_id), *metadata]
                answer = await link.unary_unary(method, **how)(request, timeout=ATTEMPT + wait, metadata=carried)
            except (Error, grpc.aio.AioRpcError) as failure:
                error = self.judge(failure, link)
            except asyncio.CancelledError:
                # So gRPC says that the channel was closed. To the program it would mean that its own task is cancelled.
                if not self._is_closed or _is_cancelled():
                    raise
                raise Error("The client is closed.", Code.CANCELLED) from None
            else:
                self._has_connected = True
                return answer
            if error.reason == "SESSION_SUPERSEDED" and await self._has_reopened(session_id):
                continue
            delay = max(next(waits), 0.0 if error.reason == "DRAINING" else error.retry_after)
            if time.monotonic() + delay >= give_up or not is_retried(error, call):
                raise error
            LOG.debug("%s is tried again in %.1f s: %s", call, delay, error)
            await asyncio.sleep(delay)

    async def _stream(
        self, method: str, how: Any, request: Any, metadata: Iterable[tuple[str, str | bytes]] = (), **options: Any
    ) -> AsyncIterator[Any]:
        """Reads one stream to its end, and does not open another one."""
        link = await self.link()
        options["metadata"] = [*self.metadata(self.session_id), *metadata]
        try:
            async for frame in link.unary_stream(method, **how)(self._complete(request, ""), **options):
                yield frame
        except grpc.aio.AioRpcError as failure:
            raise self.judge(failure, link) from None

    def _complete(self, request: Any, call: str) -> Any:
        """Returns a copy with the idempotency key and the team, where they are left open."""
        complete = type(request)()
        complete.CopyFrom(request)
        key = str(uuid.uuid4()) if call in SECRET else uuid7()
        for field, value in (("idempotency_key", key), ("team", self.identity.team)):
            if field in request.DESCRIPTOR.fields_by_name and not getattr(request, field):
                setattr(complete, field, value)
        return complete

    async def _has_reopened(self, refused: str) -> bool:
        """Whether the session that a call was refused in was replaced by one of our own."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(ATTEMPT, self.settled.wait())
        return self.settled.is_set() and self.session_id != refused

    async def _credentials(self, host: str, port: int) -> grpc.ChannelCredentials:
        """Reads the certificates, anew for each connection: they may have been renewed."""
        tls = self.identity.tls
        try:
            if tls.fingerprint and not tls.ca:
                self._pinned = self._pinned or await _fetch_pinned(host, port, bytes.fromhex(tls.fingerprint[-64:]))
            root = _pem(tls.ca) or self._pinned or await asyncio.to_thread(_authorities)
            if tls.ca:
                # gRPC would not say what is wrong with it.
                ssl.create_default_context(cadata=(root or b"").decode("ascii", "replace"))
            return grpc.ssl_channel_credentials(root, _pem(tls.key), _pem(tls.cert))
        except OSError as error:
            raise Error(f"TLS cannot be set up: {error}.", Code.INVALID_ARGUMENT) from None


def _pem(text: str) -> bytes | None:
    if not text:
        return None
    return text.encode() if "-----BEGIN" in text else Path(text).read_bytes()


def _authorities() -> bytes | None:
    """Returns the system's authorities. None: they are not where Python looks, and gRPC has to do with its own."""
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, found)).encode() or None


async def _fetch_pinned(host: str, port: int, digest: bytes) -> bytes:
    """Returns the certificate of the coordinator's chain that has the fingerprint.

    The chain is not verified here: what is returned is then the only authority for the real connections.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        opening = asyncio.open_connection(host, port, ssl=context, server_hostname=host)
        _, writer = await within(ATTEMPT / 2, opening)
    except (OSError, asyncio.TimeoutError) as error:
        why = _INSECURE[0] if isinstance(error, ssl.SSLError) else _UNSENT
        raise Error(f"{why}: {host}:{port}: {error or 'no answer'}") from None
    session = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    # Public since Python 3.13.
    chain = getattr(session, "get_unverified_chain", None) or session._sslobj.get_unverified_chain
    for shown in chain():
        der = shown if isinstance(shown, bytes) else ssl.PEM_cert_to_DER_cert(shown.public_bytes())
        if hashlib.sha256(der).digest() == digest:
            return ssl.DER_cert_to_PEM_cert(der).encode()
    raise Error(
        f"{host}:{port} does not show the certificate of the fingerprint, so it is another one than the join string is "
        "for. Ask for a new join string; if that does not help, somebody may be in between.",
        Code.UNAUTHENTICATED,
    )
