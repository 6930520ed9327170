"""Retries, idempotency keys, and the errors of calls."""

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


def test_an_error_carries_all_details_of_the_refusal() -> None:
    error = teamwire.Error.of(refusal("AGENT_NOT_FOUND", CODE.NOT_FOUND))
    assert (error.reason, error.code(), error.message) == ("AGENT_NOT_FOUND", CODE.NOT_FOUND, "no")
    assert (error.field, error.metadata, error.retry_after) == ("recipient", {"a": "b"}, 0.02)
    assert str(error) == "AGENT_NOT_FOUND: no"


@pytest.mark.parametrize("details", [b"", b"\xff\xff", b"\x1a\x02\x0a\x00"])
def test_undecodable_details_are_skipped(details: bytes) -> None:
    error = teamwire.Error.of(failure(CODE.NOT_FOUND, details=details))
    assert (error.reason, error.field, str(error)) == ("", "", "NOT_FOUND: no")


def test_a_reason_from_another_domain_is_ignored() -> None:
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
def test_unknown_outcomes_and_not_now_are_retried(error: grpc.aio.AioRpcError, repeatable: bool, once: bool) -> None:
    assert is_retried(teamwire.Error.of(error), "Send") is repeatable
    assert is_retried(teamwire.Error.of(error), "DeleteTeam") is once


@pytest.mark.parametrize("text", ["Tls handshake failed", "Custom verification check failed", "Unwrap failed"])
def test_a_tls_failure_is_permanent_unless_a_call_succeeded_before(text: str) -> None:
    insecure = failure(CODE.UNAVAILABLE, f"failed to connect to all addresses; {text}")
    calls = Coordinator(insecure)
    with pytest.raises(teamwire.Error, match="UNAUTHENTICATED: The TLS handshake failed"):
        run(MessageServiceStub(calls.channel).Send(message_pb2.SendRequest()))
    calls = Coordinator(message_pb2.SendResponse(), insecure, message_pb2.SendResponse())
    for _ in range(2):
        run(MessageServiceStub(calls.channel).Send(message_pb2.SendRequest()))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="cancellation of the task cannot be detected")
def test_closing_the_client_fails_a_call_in_flight_without_cancelling_its_task() -> None:
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


def test_delays_grow_up_to_the_maximum() -> None:
    bounds = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    for _ in range(50):
        assert all(0 <= delay <= bound for delay, bound in zip(delays(), bounds, strict=False))


def test_idempotency_keys_sort_by_time() -> None:
    keys = [uuid7() for _ in range(100)]
    assert len(set(keys)) == 100
    assert [key[:13] for key in keys] == sorted(key[:13] for key in keys)
    assert {(str(uuid.UUID(key)), key[14], key[19] in "89ab") for key in keys} == {(key, "7", True) for key in keys}


class Coordinator(Calls):
    """Gives the next of its answers to each call, and records the attempts."""

    def __init__(self, *answers: Any, team: str = "", patience: float = 60.0) -> None:
        super().__init__(Identity("a,b", "twm:t:a:0123456789abcdef", team), patience)
        self.answers = iter(answers)
        self.attempts: list[tuple[Any, float, dict[str, str]]] = []

    async def link(self) -> Any:
        return self

    def unary_unary(self, method: str, **how: Any) -> Any:
        if not how.pop("attempt", False):
            return super().unary_unary(method, attempt=True, **how)

        async def attempt(request: Any, timeout: float, metadata: list[tuple[str, str]]) -> Any:
            self.attempts.append((request, timeout, dict(metadata)))
            answer = next(self.answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return attempt


def run(call: Awaitable[T]) -> T:
    async def wait() -> T:
        return await call

    return asyncio.run(wait())


def test_all_attempts_share_one_key_and_the_callers_request_is_not_modified() -> None:
    calls = Coordinator(failure(CODE.UNAVAILABLE), refusal("RATE_LIMITED"), message_pb2.SendResponse(), team="t")
    request = message_pb2.SendRequest(broadcast=message_pb2.Broadcast(content="x"))
    run(MessageServiceStub(calls.channel).Send(request))
    sent, timeout, metadata = calls.attempts[0]
    assert len(calls.attempts) == 3
    assert {attempt.idempotency_key for attempt, _, _ in calls.attempts} == {sent.idempotency_key}
    assert (sent.idempotency_key[14], sent.team, request.idempotency_key, request.team) == ("7", "t", "", "")
    assert (timeout, metadata) == (10.0, {"authorization": "Bearer twm:t:a:0123456789abcdef"})


def test_a_given_key_is_kept_and_the_key_of_a_join_is_unguessable() -> None:
    calls = Coordinator(message_pb2.SendResponse(), team_pb2.JoinResponse())
    run(MessageServiceStub(calls.channel).Send(message_pb2.SendRequest(idempotency_key="mine", team="u")))
    run(TeamServiceStub(calls.channel).Join(team_pb2.JoinRequest()))
    (sent, *_), (joined, *_) = calls.attempts
    assert (sent.idempotency_key, sent.team, joined.idempotency_key[14]) == ("mine", "u", "4")


def test_retries_stop_when_patience_runs_out() -> None:
    calls = Coordinator(*itertools.repeat(failure(CODE.UNAVAILABLE), 100))
    send = MessageServiceStub(calls.channel).Send
    with pytest.raises(teamwire.Error, match="UNAVAILABLE"):
        run(send(message_pb2.SendRequest(), timeout=0))
    assert len(calls.attempts) == 1
    with pytest.raises(teamwire.Error, match="UNAVAILABLE"):
        run(send(message_pb2.SendRequest(), timeout=0.5))
    assert len(calls.attempts) > 2


def nothing_changed(reason: str, code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    part = error_details_pb2.ErrorInfo(reason=reason, domain="teamwire", metadata={"nothing_changed": "true"})
    packed = any_pb2.Any()
    packed.Pack(part)
    return failure(code, details=status_pb2.Status(details=[packed]).SerializeToString())


BROKEN = failure(CODE.UNAVAILABLE)
UNSENT = failure(CODE.UNAVAILABLE, "failed to connect to all addresses; last error: refused")


@pytest.mark.parametrize(
    ("answers", "is_unknown", "is_retryable"),
    [
        ([refusal("INBOX_FULL", CODE.RESOURCE_EXHAUSTED)], False, True),
        ([refusal("AGENT_NOT_FOUND", CODE.NOT_FOUND)], False, False),
        ([BROKEN, refusal("AGENT_NOT_FOUND", CODE.NOT_FOUND)], False, False),
        ([BROKEN] * 50, True, True),
        ([UNSENT] * 50, False, True),
        ([BROKEN] + [UNSENT] * 50, True, True),
        ([nothing_changed("STORE_UNAVAILABLE", CODE.UNAVAILABLE)] * 50, False, True),
        ([BROKEN] + [nothing_changed("STORE_UNAVAILABLE", CODE.UNAVAILABLE)] * 50, True, True),
        ([BROKEN] + [refusal("RATE_LIMITED", CODE.RESOURCE_EXHAUSTED)] * 50, True, True),
        ([refusal("INTERNAL", CODE.INTERNAL)], True, False),
        ([nothing_changed("INTERNAL", CODE.INTERNAL)], False, False),
        ([BROKEN, nothing_changed("INTERNAL", CODE.INTERNAL)], True, False),
    ],
)
def test_an_error_says_whether_the_outcome_is_unknown_and_a_repetition_may_help(
    answers: list[Exception], is_unknown: bool, is_retryable: bool
) -> None:
    with pytest.raises(teamwire.Error) as raised:
        run(MessageServiceStub(Coordinator(*answers).channel).Send(message_pb2.SendRequest(), timeout=0.3))
    assert (raised.value.is_outcome_unknown, raised.value.is_retryable) == (is_unknown, is_retryable)


def test_a_call_without_a_key_is_not_repeated_while_its_outcome_is_unknown_and_a_read_has_no_outcome() -> None:
    teams = TeamServiceStub(Coordinator(BROKEN, BROKEN).channel)
    with pytest.raises(teamwire.Error) as deleted:
        run(teams.DeleteTeam(team_pb2.DeleteTeamRequest()))
    assert (deleted.value.is_outcome_unknown, deleted.value.is_retryable) == (True, False)
    with pytest.raises(teamwire.Error) as read:
        run(teams.GetTeam(team_pb2.GetTeamRequest(), timeout=0))
    assert (read.value.is_outcome_unknown, read.value.is_retryable) == (False, True)


def test_a_call_superseded_by_our_own_next_session_is_retried() -> None:
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
    assert [metadata["teamwire-session"] for _, _, metadata in calls.attempts] == ["old", "new"]
    # Without our own newer session, another process holds the inbox.
    with pytest.raises(teamwire.Error, match="SESSION_SUPERSEDED"):
        run(MessageServiceStub(Coordinator(superseded).channel).Send(message_pb2.SendRequest()))


def test_an_attempt_lasts_as_long_as_the_request_asks_the_coordinator_to_wait() -> None:
    calls = Coordinator(task_pb2.ClaimNextTaskResponse())
    request = task_pb2.ClaimNextTaskRequest(wait=duration_pb2.Duration(seconds=30))
    run(TaskServiceStub(calls.channel).ClaimNextTask(request))
    assert calls.attempts[0][1] >= 40
