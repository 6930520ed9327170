"""Makes calls: over one connection at a time, to one of several coordinators, retried until the outcome is known."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import hashlib
import logging
import math
import random
import secrets
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode as Code

from ._frames import FRAME_BYTES_MAX, Frames, NotTakenError, calls_before
from ._identity import Identity, foreign_socket
from ._policy import ONCE, OUTCOME_UNKNOWN, READ, RETRIED, RETRYABLE, SECRET, WAITS

_T = TypeVar("_T")

LOG = logging.getLogger("teamwire")

PATIENCE = 600.0
"""How long a call may take, with all of its attempts, in seconds."""

ATTEMPT = 10.0
"""How long one attempt may take, in seconds, in addition to the time that the request asks the coordinator to wait."""

_WAITED_MIN = 1.0
"""An attempt that breaks after this time, in seconds, has waited at a coordinator, if the call is one that waits."""

_OPTIONS: list[tuple[str, Any]] = [
    # Detect a vanished coordinator within 30 s, even on a quiet stream.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Give each channel its own connection, without the backoff of another channel.
    ("grpc.use_local_subchannel_pool", 1),
    # Despite its name, this option is the connect timeout.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config", '{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}'),
]

_BROKEN = {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.UNKNOWN}

# The texts by which gRPC reports that nothing was sent, and that TLS failed. It has no codes for either.
_UNSENT = "failed to connect"
_INSECURE = ("handshake failed", "verification check failed", "Peer name", "Unwrap failed", "security handshaker")


class Error(grpc.RpcError):
    """A failed call. Its text says what to do."""

    def __init__(self, message: str, code: Code = Code.UNAVAILABLE) -> None:
        super().__init__(message)
        self.message = message
        self._code = code
        self.reason = ""
        """Why the coordinator refused, such as `AGENT_NOT_FOUND`. Empty if no coordinator did."""
        self.field = ""
        """The request field at fault. Empty if there is none."""
        self.metadata: dict[str, str] = {}
        """Facts for a program, such as the id of a pending request."""
        self.retry_after = 0.0
        """After how many seconds to retry. Zero if the coordinator does not say."""
        self.is_outcome_unknown = False
        """Whether the call may have been carried out all the same. Repeating it with the same key is safe then."""
        self._is_once = False

    @property
    def is_retryable(self) -> bool:
        """Whether the same call, with the same idempotency key, may succeed later without a change."""
        passes = self.reason in RETRYABLE if self.reason else self._code in _BROKEN
        return passes and not (self.is_outcome_unknown and self._is_once)

    def __str__(self) -> str:
        return f"{self.reason or self._code.name}: {self.message}"

    def code(self) -> Code:
        """Returns the gRPC code. A method, as in every gRPC error."""
        return self._code

    @classmethod
    def of(cls, failure: grpc.aio.AioRpcError) -> Error:
        """Converts an error of gRPC. Skips details that cannot be decoded."""
        error = cls(failure.details() or "no details", failure.code())
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
    """Returns whether to retry a call, given by its name in the protocol."""
    is_passing = error.reason in RETRIED if error.reason else error.code() in _BROKEN
    return is_passing and not (call in ONCE and _may_be_done(error))


def may_have_changed(error: Error, call: str) -> bool:
    """Returns whether an attempt that failed may have changed something."""
    return call not in READ and _may_be_done(error)


def _may_be_done(error: Error) -> bool:
    if error.reason:
        return error.reason in OUTCOME_UNKNOWN and error.metadata.get("nothing_changed") != "true"
    return error.code() in _BROKEN and _UNSENT not in error.message


def _has_waited(error: Error, seconds: float) -> bool:
    """Returns whether an attempt that failed after this time had reached a coordinator, which waited until it broke."""
    is_broken = not error.reason and _may_be_done(error)
    return is_broken and error.code() != Code.DEADLINE_EXCEEDED and seconds >= _WAITED_MIN


def _leaves_open(error: Error) -> bool:
    """Returns whether an error says nothing about what earlier attempts did.

    Any other refusal of the same idempotency key shows that none was carried out.
    """
    return not error.reason or error.reason in RETRIED | OUTCOME_UNKNOWN


def delays() -> Iterator[float]:
    """Yields the delay before each retry, in seconds, with full jitter."""
    bound = 0.1
    while True:
        yield random.uniform(0, bound)  # noqa: S311
        bound = min(2 * bound, 5.0)


def uuid7() -> str:
    """Returns a UUID version 7. It sorts by time, so it is the cheapest for a coordinator to store."""
    random_bits = secrets.randbits(74)
    high = (time.time_ns() // 1_000_000) << 16 | 7 << 12 | random_bits >> 62
    digits = f"{high << 64 | 2 << 62 | random_bits & (1 << 62) - 1:032x}"
    # The same as str(uuid.UUID(...)), but far cheaper; every call needs one.
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


async def within(seconds: float | None, awaitable: Awaitable[_T]) -> _T:
    """Works like asyncio.wait_for, which before Python 3.12 may swallow the cancellation of its caller."""
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
    """Returns whether the current task is being cancelled. Before Python 3.11 there is no way to know: always False."""
    return bool(getattr(asyncio.current_task(), "cancelling", int)())


class Calls:
    """Acts as the channel of the generated stubs, and retries each call."""

    def __init__(self, identity: Identity, patience: float) -> None:
        self.identity = identity
        self.session_id = ""
        """The subscription's current session, which calls carry. Empty if there is none."""
        self.settled = asyncio.Event()
        """Cleared while the subscription opens another session, which supersedes this one."""
        self.settled.set()
        self.patience = patience
        self._targets = collections.deque(random.sample(identity.targets, len(identity.targets)))
        self._link: grpc.aio.Channel | None = None
        self._frames: Frames | None = None
        self._alone = 0
        """How many calls the link has made one by one."""
        self._calls_before = calls_before()
        self._linking = asyncio.Lock()
        self._pinned = b""
        self._has_connected = self._is_closed = False

    @property
    def channel(self) -> grpc.aio.Channel:
        """This object, typed as the generated stubs require. They use only the next two methods of a channel."""
        return cast(grpc.aio.Channel, self)

    def unary_unary(self, method: str, **how: Any) -> Callable[..., Any]:
        return partial(self._persist, method, how)

    def unary_stream(self, method: str, **how: Any) -> Callable[..., Any]:
        return partial(self._stream, method, how)

    async def link(self) -> grpc.aio.Channel:
        """Returns the current connection. It stays open for its holders after others have moved to a new one."""
        if self._link:
            return self._link
        async with self._linking:
            if self._is_closed:
                raise Error("The client is closed.", Code.INVALID_ARGUMENT)
            if not self._link:
                scheme, host, port = self._targets[0]
                target = f"dns:///[{host}]:{port}" if ":" in host else f"dns:///{host}:{port}"
                if scheme == "unix":
                    try:
                        why = foreign_socket(host)
                    except OSError as error:
                        raise Error(
                            f"{_UNSENT}: no coordinator listens at {host}: {error}.", Code.UNAVAILABLE
                        ) from None
                    if why:
                        raise Error(why, Code.UNAUTHENTICATED)
                    # gRPC's own authority, the path, is not a valid one.
                    options = [*_OPTIONS, ("grpc.default_authority", "localhost")]
                    self._link = grpc.aio.insecure_channel(f"unix:{quote(host)}", options)
                elif scheme == "https":
                    self._link = grpc.aio.secure_channel(target, await self._credentials(host, port), _OPTIONS)
                else:
                    self._link = grpc.aio.insecure_channel(target, _OPTIONS)
            return self._link

    def judge(self, failure: Error | grpc.aio.AioRpcError, link: grpc.aio.Channel | None) -> Error:
        """Converts the error of a failed attempt, and leaves a link that is broken or draining."""
        error = failure if isinstance(failure, Error) else Error.of(failure)
        if not error.reason and not self._has_connected and any(sign in error.message for sign in _INSECURE):
            # Retrying is pointless until someone changes the configuration.
            remedy = "Check the CA (TEAMWIRE_CA), the host name, and the client certificate (TEAMWIRE_CERT)."
            error = Error(f"The TLS handshake failed: {error.message.rstrip('.')}. {remedy}", Code.UNAUTHENTICATED)
        if error.reason == "DRAINING" or (not error.reason and error.code() in _BROKEN):
            self.leave(link)
        return error

    def leave(self, link: grpc.aio.Channel | None) -> None:
        """Makes the next attempt use a new connection, to another address if there is one."""
        if link is self._link:
            self._link, self._frames, self._alone = None, None, 0
            self._targets.rotate(-1)

    def opened(self, session_id: str) -> None:
        """Makes calls carry this session from now on."""
        self.session_id, self._has_connected = session_id, True
        self.settled.set()

    def metadata(self, session_id: str) -> list[tuple[str, str]]:
        """Returns the headers that every call carries."""
        session = [("teamwire-session", session_id)] if session_id else []
        return [("authorization", f"Bearer {self.identity.credential}"), *session]

    async def close(self) -> None:
        self._is_closed = True
        link, self._link = self._link, None
        if self._frames:
            self._frames.close()
        if link:
            await link.close()

    async def _persist(
        self,
        method: str,
        how: dict[str, Any],
        request: Any,
        timeout: float | None = None,
        metadata: Iterable[tuple[str, str | bytes]] = (),
        until: float | None = None,
    ) -> Any:
        """Makes one call. `timeout` limits all attempts together, in seconds; zero makes one attempt.

        `until` is when the caller stops waiting: no attempt begins later, and none asks the coordinator to wait longer.
        """
        call = method.rpartition("/")[2]
        request = self._complete(request, call)
        field, wait, wait_max = WAITS.get(call, ("", 0, 0))
        last = math.inf if until is None else until
        give_up = time.monotonic() + (self.patience if timeout is None else timeout)
        waits = delays()
        has_maybe_changed = False
        while True:
            if until is not None:
                left = max(0.0, until - time.monotonic())
                getattr(request, field).FromTimedelta(timedelta(seconds=min(left, wait_max)))
            if field and request.HasField(field):
                asked = getattr(request, field)
                wait = min(max(0, asked.seconds + (asked.nanos > 0)), wait_max)
            session_id, link, tried = self.session_id, None, time.monotonic()
            try:
                link = await self.link()
                carried = [*self.metadata(session_id), *metadata]
                frames = None if metadata or field else self._carrier(link)
                encoded = how["request_serializer"](request) if frames else b""
                if frames and len(encoded) <= FRAME_BYTES_MAX:
                    answer = how["response_deserializer"](await frames.call(method, encoded, session_id, ATTEMPT))
                else:
                    answer = await link.unary_unary(method, **how)(request, timeout=ATTEMPT + wait, metadata=carried)
            except (Error, grpc.aio.AioRpcError) as failure:
                error = self.judge(failure, link)
            except NotTakenError:
                drained = Error("The coordinator has closed the stream of calls.")
                drained.reason = "DRAINING"
                error = self.judge(drained, link)
            except asyncio.CancelledError:
                # gRPC raises this when the channel is closed. It must not look like the cancellation of the task.
                if not self._is_closed or _is_cancelled():
                    raise
                raise Error("The client is closed.", Code.CANCELLED) from None
            else:
                self._has_connected = True
                return answer
            if error.reason == "SESSION_SUPERSEDED" and await self._has_reopened(session_id):
                continue
            has_maybe_changed |= may_have_changed(error, call)
            if wait and timeout is None and _has_waited(error, time.monotonic() - tried):
                # Another outage begins.
                give_up, waits = time.monotonic() + self.patience, delays()
            delay = max(next(waits), 0.0 if error.reason == "DRAINING" else error.retry_after)
            if time.monotonic() + delay >= min(give_up, last) or not is_retried(error, call):
                error._is_once = call in ONCE
                error.is_outcome_unknown = has_maybe_changed and _leaves_open(error)
                raise error
            LOG.debug("retrying %s in %.1f s: %s", call, delay, error)
            await asyncio.sleep(delay)

    def _carrier(self, link: grpc.aio.Channel) -> Frames | None:
        """Returns the stream that carries a call. None if the call must be made alone; it is counted."""
        if link is not self._link:
            return None
        if self._frames and self._frames.is_over:
            self._frames, self._alone = None, 0
        self._alone += 1
        if not self._frames and self._alone > self._calls_before:
            self._frames = Frames(link)
            self._frames.start(self.metadata(""))
        return self._frames if self._frames and self._frames.is_open else None

    async def _stream(
        self, method: str, how: Any, request: Any, metadata: Iterable[tuple[str, str | bytes]] = (), **options: Any
    ) -> AsyncIterator[Any]:
        """Reads one stream to its end. Does not reopen it."""
        link = await self.link()
        options["metadata"] = [*self.metadata(self.session_id), *metadata]
        try:
            async for frame in link.unary_stream(method, **how)(self._complete(request, ""), **options):
                yield frame
        except grpc.aio.AioRpcError as failure:
            raise self.judge(failure, link) from None

    def _complete(self, request: Any, call: str) -> Any:
        """Returns a copy with the idempotency key and the team filled in where the program left them empty."""
        complete = type(request)()
        complete.CopyFrom(request)
        key = str(uuid.uuid4()) if call in SECRET else uuid7()
        for field, value in (("idempotency_key", key), ("team", self.identity.team)):
            if field in request.DESCRIPTOR.fields_by_name and not getattr(request, field):
                setattr(complete, field, value)
        return complete

    async def _has_reopened(self, refused: str) -> bool:
        """Returns whether our own subscription has replaced the session in which a call was refused."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(ATTEMPT, self.settled.wait())
        return self.settled.is_set() and self.session_id != refused

    async def _credentials(self, host: str, port: int) -> grpc.ChannelCredentials:
        """Reads the certificates. Each connection reads them, because they may have been renewed."""
        tls = self.identity.tls
        try:
            if tls.fingerprint and not tls.ca:
                self._pinned = self._pinned or await _fetch_pinned(host, port, bytes.fromhex(tls.fingerprint[-64:]))
            root = _pem(tls.ca) or self._pinned or await asyncio.to_thread(_authorities)
            if tls.ca:
                # Fail here with a precise error; gRPC has none.
                ssl.create_default_context(cadata=(root or b"").decode("ascii", "replace"))
            return grpc.ssl_channel_credentials(root, _pem(tls.key), _pem(tls.cert))
        except OSError as error:
            raise Error(f"Cannot set up TLS: {error}.", Code.INVALID_ARGUMENT) from None


def _pem(text: str) -> bytes | None:
    if not text:
        return None
    return text.encode() if "-----BEGIN" in text else Path(text).read_bytes()


def _authorities() -> bytes | None:
    """Returns the system's authorities. None if Python finds none; gRPC then uses its own."""
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, found)).encode() or None


async def _fetch_pinned(host: str, port: int, digest: bytes) -> bytes:
    """Returns the certificate in the coordinator's chain that has the fingerprint.

    Does not verify the chain: the real connections do, with this certificate as the only authority.
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
        f"{host}:{port} does not present the certificate that the join string names. Ask for a new join string; if "
        "that does not help, the connection may be intercepted.",
        Code.UNAUTHENTICATED,
    )
