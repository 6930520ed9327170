"""What is tried again, and what goes along."""

import asyncio
import itertools
import socket
import sys
import uuid
from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

import teamwire
from teamwire._calls import Calls, delays, is_retried, uuid7
from teamwire._identity import Identity
from teamwire.v1 import message_pb2, task_pb2, team_pb2
from teamwire.v1.message_pb2_grpc import MessageServiceStub
from teamwire.v1.task_pb2_grpc import TaskServiceStub
from teamwire.v1.team_pb2_grpc import TeamServiceStub

CODE = grpc.StatusCode
T = TypeVar("T")


def failure(code: CODE, text: str = "no", details: bytes | None = None) -> grpc.aio.AioRpcError:
    trailing = grpc.aio.Metadata(*([("grpc-status-details-bin", details)] if details is not None else []))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, text)


def refusal(reason: str, code: CODE = CODE.UNAVAILABLE, domain: str = "teamwire") -> grpc.aio.AioRpcError:
    violation = error_details_pb2.BadRequest.FieldViolation(field="recipient")
    status = status_pb2.Status(message="no")
    for part in (
        error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata={"a": "b"}),
        error_details_pb2.BadRequest(field_violations=[violation]),
        error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=20_000_000)),
    ):
        packed = any_pb2.Any()
        packed.Pack(part)
        status.details.append(packed)
    return failure(code, details=status.SerializeToString())


def test_an_error_carries_all_that_the_coordinator_says() -> None:
    error = teamwire.Error.of(refusal("AGENT_NOT_FOUND", CODE.NOT_FOUND))
    assert (error.reason, error.code(), error.message) == ("AGENT_NOT_FOUND", CODE.NOT_FOUND, "no")
    assert (error.field, error.metadata, error.retry_after) == ("recipient", {"a": "b"}, 0.02)
    assert str(error) == "AGENT_NOT_FOUND: no"


@pytest.mark.parametrize("details", [b"", b"\xff\xff", b"\x1a\x02\x0a\x00"])
def test_details_that_cannot_be_read_are_left_out(details: bytes) -> None:
    error = teamwire.Error.of(failure(CODE.NOT_FOUND, details=details))
    assert (error.reason, error.field, str(error)) == ("", "", "NOT_FOUND: no")


def test_a_reason_of_somebody_else_is_none() -> None:
    assert teamwire.Error.of(refusal("DRAINING", CODE.NOT_FOUND, "elsewhere")).reason == ""


@pytest.mark.parametrize(
    ("error", "repeatable", "once"),
    [
        (failure(CODE.UNAVAILABLE), True, False),
        (failure(CODE.DEADLINE_EXCEEDED), True, False),
        (failure(CODE.CANCELLED), True, False),
        (failure(CODE.UNKNOWN), True, False),
        (failure(CODE.INTERNAL), False, False),
        (failure(CODE.UNIMPLEMENTED), False, False),
        (failure(CODE.UNAVAILABLE, "failed to connect to all addresses; last error: refused"), True, True),
        (failure(CODE.UNAUTHENTICATED), False, False),
        (refusal("STORE_UNAVAILABLE"), True, False),
        (refusal("DURABILITY_NOT_REACHED"), True, False),
        (refusal("DRAINING"), True, True),
        (refusal("RATE_LIMITED", CODE.RESOURCE_EXHAUSTED), True, True),
        (refusal("INBOX_FULL", CODE.RESOURCE_EXHAUSTED), False, False),
        (refusal("INTERNAL", CODE.INTERNAL), False, False),
        (refusal("SESSION_SUPERSEDED", CODE.ABORTED), False, False),
        (refusal("CREDENTIAL_INVALID", CODE.UNAUTHENTICATED), False, False),
    ],
)
def test_what_is_tried_again(error: grpc.aio.AioRpcError, repeatable: bool, once: bool) -> None:
    assert is_retried(teamwire.Error.of(error), "Send") is repeatable
    assert is_retried(teamwire.Error.of(error), "DeleteTeam") is once


@pytest.mark.parametrize("text", ["Tls handshake failed", "Custom verification check failed", "Unwrap failed"])
def test_a_coordinator_that_cannot_be_trusted_is_given_up_unless_it_was_fine_before(text: str) -> None:
    insecure = failure(CODE.UNAVAILABLE, f"failed to connect to all addresses; {text}")
    calls = Coordinator(insecure)
    with pytest.raises(teamwire.Error, match="UNAUTHENTICATED: There is no secure connection"):
        done(MessageServiceStub(calls.channel).Send(message_pb2.SendRequest()))
    calls = Coordinator(message_pb2.SendResponse(), insecure, message_pb2.SendResponse())
    for _ in range(2):
        done(MessageServiceStub(calls.channel).Send(message_pb2.SendRequest()))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the second half cannot be told")
def test_a_call_under_way_fails_when_the_client_is_closed_and_its_task_is_not_cancelled() -> None:
    async def close(is_cancelled: bool) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            calls = Calls(Identity(f"127.0.0.1:{silent.getsockname()[1]}", "twm:t:a:0123456789abcdef"), 60)
            call = asyncio.ensure_future(MessageServiceStub(calls.channel).Send(message_pb2.SendRequest()))
            await asyncio.sleep(0.1)
            await calls.close()
            if is_cancelled:
                call.cancel()
            with pytest.raises(asyncio.CancelledError if is_cancelled else teamwire.Error):
                await call
            with pytest.raises(teamwire.Error, match="The client is closed"):
                await MessageServiceStub(calls.channel).Send(message_pb2.SendRequest())

    asyncio.run(close(is_cancelled=False))
    asyncio.run(close(is_cancelled=True))


def test_delays_grow_to_their_bound() -> None:
    bounds = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    for _ in range(50):
        assert all(0 <= delay <= bound for delay, bound in zip(delays(), bounds, strict=False))


def test_keys_sort_by_time() -> None:
    keys = [uuid7() for _ in range(100)]
    assert len(set(keys)) == 100
    assert [key[:13] for key in keys] == sorted(key[:13] for key in keys)
    assert {(str(uuid.UUID(key)), key[14], key[19] in "89ab") for key in keys} == {(key, "7", True) for key in keys}


class Coordinator(Calls):
    """Answers with what it is given, one after the other, and keeps what it was asked."""

    def __init__(self, *answers: Any, team: str = "", patience: float = 60.0) -> None:
        super().__init__(Identity("a,b", "twm:t:a:0123456789abcdef", team), patience)
        self.answers = iter(answers)
        self.asked: list[tuple[Any, float, dict[str, str]]] = []

    async def link(self) -> Any:
        return self

    def unary_unary(self, method: str, **how: Any) -> Any:
        if not how.pop("attempt", False):
            return super().unary_unary(method, attempt=True, **how)

        async def attempt(request: Any, timeout: float, metadata: list[tuple[str, str]]) -> Any:
            self.asked.append((request, timeout, dict(metadata)))
            answer = next(self.answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return attempt


def done(call: Awaitable[T]) -> T:
    async def wait() -> T:
        return await call

    return asyncio.run(wait())


def test_all_attempts_of_a_call_have_one_key_and_the_callers_request_stays_as_it_was() -> None:
    calls = Coordinator(failure(CODE.UNAVAILABLE), refusal("RATE_LIMITED"), message_pb2.SendResponse(), team="t")
    request = message_pb2.SendRequest(broadcast=message_pb2.Broadcast(content="x"))
    done(MessageServiceStub(calls.channel).Send(request))
    sent, timeout, metadata = calls.asked[0]
    assert len(calls.asked) == 3
    assert {attempt.idempotency_key for attempt, _, _ in calls.asked} == {sent.idempotency_key}
    assert (sent.idempotency_key[14], sent.team, request.idempotency_key, request.team) == ("7", "t", "", "")
    assert (timeout, metadata) == (10.0, {"authorization": "Bearer twm:t:a:0123456789abcdef"})


def test_a_key_that_is_given_is_kept_and_that_of_a_join_cannot_be_guessed() -> None:
    calls = Coordinator(message_pb2.SendResponse(), team_pb2.JoinResponse())
    done(MessageServiceStub(calls.channel).Send(message_pb2.SendRequest(idempotency_key="mine", team="u")))
    done(TeamServiceStub(calls.channel).Join(team_pb2.JoinRequest()))
    (sent, *_), (joined, *_) = calls.asked
    assert (sent.idempotency_key, sent.team, joined.idempotency_key[14]) == ("mine", "u", "4")


def test_patience_ends() -> None:
    calls = Coordinator(*itertools.repeat(failure(CODE.UNAVAILABLE), 100))
    send = MessageServiceStub(calls.channel).Send
    with pytest.raises(teamwire.Error, match="UNAVAILABLE"):
        done(send(message_pb2.SendRequest(), timeout=0))
    assert len(calls.asked) == 1
    with pytest.raises(teamwire.Error, match="UNAVAILABLE"):
        done(send(message_pb2.SendRequest(), timeout=0.5))
    assert len(calls.asked) > 2


def test_a_call_that_our_own_next_session_has_ended_is_made_again() -> None:
    async def reconnect(calls: Calls) -> None:
        calls.settled.clear()
        send = asyncio.ensure_future(MessageServiceStub(calls.channel).Send(message_pb2.SendRequest()))
        await asyncio.sleep(0.05)
        calls.session_id = "new"
        calls.settled.set()
        await send

    superseded = refusal("SESSION_SUPERSEDED", CODE.ABORTED)
    calls = Coordinator(superseded, message_pb2.SendResponse())
    calls.session_id = "old"
    asyncio.run(reconnect(calls))
    assert [metadata["teamwire-session"] for _, _, metadata in calls.asked] == ["old", "new"]
    # Without a newer session of our own somebody else holds the inbox.
    with pytest.raises(teamwire.Error, match="SESSION_SUPERSEDED"):
        done(MessageServiceStub(Coordinator(superseded).channel).Send(message_pb2.SendRequest()))


def test_an_attempt_waits_for_as_long_as_the_coordinator_was_asked_to() -> None:
    calls = Coordinator(task_pb2.ClaimNextTaskResponse())
    request = task_pb2.ClaimNextTaskRequest(wait=duration_pb2.Duration(seconds=30))
    done(TaskServiceStub(calls.channel).ClaimNextTask(request))
    assert calls.asked[0][1] >= 40
