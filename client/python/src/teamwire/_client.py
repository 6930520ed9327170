"""The client for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, replace
from typing import Any, cast

from ._calls import PATIENCE, Calls, Error, within
from ._helpers import Helpers
from ._identity import Identity, Tls, find, joining
from ._subscription import AsyncSubscription, Message
from .v1 import (
    access_pb2_grpc,
    audit_pb2_grpc,
    history_pb2_grpc,
    host_pb2,
    host_pb2_grpc,
    message_pb2,
    message_pb2_grpc,
    request_pb2,
    request_pb2_grpc,
    task_pb2_grpc,
    team_pb2,
    watch_pb2_grpc,
)
from .v1.team_pb2_grpc import TeamServiceStub

_PAGE_SIZE_MAX = 1000
_EXIT_DELAY_MIN, _EXIT_DELAY_MAX = 0.1, 1.0


@dataclass(frozen=True)
class Shutdown:
    """How a shutdown ended."""

    request: request_pb2.Request
    """The request, with its decision. Still pending if the time ran out first."""
    exit: message_pb2.ExitReport | None
    """How the member's process ended. None: it has not exited in time, or no exit was reported."""


class AsyncClient(Helpers):
    """A client for one credential, usually a member's. Connects on first use, and reconnects when needed.

    `teams`, `messages`, `requests`, `tasks`, `hosts`, `watches`, `access`, `audit` and `history` have every call of
    the protocol, as coroutines: `await me.tasks.ListTasks(...)`. Each takes `timeout`, the limit for all attempts
    together, in seconds (default: `patience`; 0 makes one attempt), and raises Error.
    """

    def __init__(self, identity: Identity, patience: float = PATIENCE) -> None:
        self._calls = Calls(identity, patience)
        self._subscriptions: list[AsyncSubscription] = []
        channel = self._calls.channel
        self.access = access_pb2_grpc.AccessServiceStub(channel)
        self.audit = audit_pb2_grpc.AuditServiceStub(channel)
        self.history = history_pb2_grpc.HistoryServiceStub(channel)
        self.hosts = host_pb2_grpc.HostServiceStub(channel)
        self.messages = message_pb2_grpc.MessageServiceStub(channel)
        self.requests = request_pb2_grpc.RequestServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)
        self.teams = TeamServiceStub(channel)
        self.watches = watch_pb2_grpc.WatchServiceStub(channel)

    @property
    def name(self) -> str:
        """The caller's name. Empty if the credential is not a member's."""
        return self.identity.member

    @property
    def team(self) -> str:
        """The caller's team. Empty for an operator that has chosen none."""
        return self.identity.team or self.identity.credential_team

    @property
    def identity(self) -> Identity:
        """The credential and the address. The `credential` is a secret; keep it to resume after a restart."""
        return self._calls.identity

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the subscriptions, then the connection and every call in flight."""
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))
        await self._calls.close()

    def subscribe(self) -> AsyncSubscription:
        """Subscribes to the caller's inbox; an older subscription of the same member ends. Needs a running event loop.

        From now on, calls carry its session: the coordinator refuses them once another process has taken over.
        """
        subscription = AsyncSubscription(self._calls)
        self._subscriptions.append(subscription)
        return subscription

    async def send(
        self, recipient: str, summary: str, content: str, *, in_reply_to: str = "", idempotency_key: str = ""
    ) -> message_pb2.SendResponse:
        """Sends a text to one member; `team-lead` is the lead. The summary is one line of at most 200 characters."""
        body = message_pb2.DirectMessage(recipient=recipient, summary=summary, content=content)
        return await self._send(message=body, in_reply_to=in_reply_to, idempotency_key=idempotency_key)

    async def reply(self, message: Message, summary: str, content: str) -> message_pb2.SendResponse:
        """Sends a text to the sender of a message."""
        return await self.send(message.sender, summary, content, in_reply_to=message.id)

    async def create_team(self, name: str, lead: str = "") -> AsyncClient:
        """Creates a team as an operator. Returns the client of its lead, whose name defaults to `lead`."""
        reply = await self.teams.CreateTeam(team_pb2.CreateTeamRequest(name=name, lead_name=lead))
        return AsyncClient(replace(self.identity, credential=reply.credential, team=""), self._calls.patience)

    async def all_hosts(self) -> list[host_pb2.Host]:
        """Lists all hosts in the order in which they first joined, including those that have exited."""
        hosts: list[host_pb2.Host] = []
        request = host_pb2.ListHostsRequest(page_size=_PAGE_SIZE_MAX)
        while True:
            page = await self.hosts.ListHosts(request)
            hosts += page.hosts
            if not page.next_page_token:
                return hosts
            request.page_token = page.next_page_token

    async def members(self) -> list[team_pb2.Member]:
        """Lists all members in the order in which they first joined, including those that have exited."""
        members: list[team_pb2.Member] = []
        request = team_pb2.ListMembersRequest(page_size=_PAGE_SIZE_MAX)
        while True:
            page = await self.teams.ListMembers(request)
            members += page.members
            if not page.next_page_token:
                return members
            request.page_token = page.next_page_token

    async def request_shutdown(self, member: str, reason: str = "") -> str:
        """Asks a member to shut down. Returns the id of the request, or of the one that is already pending."""
        body = message_pb2.ShutdownRequest(recipient=member, reason=reason)
        try:
            return (await self._send(shutdown_request=body)).request_id
        except Error as error:
            if error.reason == "SHUTDOWN_PENDING" and "request_id" in error.metadata:
                return error.metadata["request_id"]
            raise

    async def shutdown(self, member: str, reason: str = "", timeout: float = PATIENCE) -> Shutdown:
        """Asks a member to shut down, and waits for its decision and, unless it refuses, its exit.

        Returns after `timeout` seconds at the latest. Joins a request that is already pending for the member.
        """
        give_up = time.monotonic() + timeout
        request_id = await self.request_shutdown(member, reason)
        request = await self.wait_decision(request_id, max(0.0, give_up - time.monotonic()))
        exit_ = None
        if request.state in (request_pb2.REQUEST_STATE_APPROVED, request_pb2.REQUEST_STATE_CANCELLED):
            # A coordinator that does not answer must not make the wait longer.
            with contextlib.suppress(asyncio.TimeoutError):
                exit_ = await within(max(0.0, give_up - time.monotonic()), self._wait_exit(request))
        return Shutdown(request, exit_)

    async def _wait_exit(self, request: request_pb2.Request) -> message_pb2.ExitReport | None:
        """Waits until the life of the member that was asked has ended, and returns how."""
        delay = _EXIT_DELAY_MIN
        while True:
            for member in await self.members():
                if (member.name.lower(), member.incarnation) == (request.member.lower(), request.incarnation):
                    break
            else:
                return None
            if member.state in (team_pb2.MEMBER_STATE_EXITED, team_pb2.MEMBER_STATE_LOST):
                return member.exit if member.HasField("exit") else None
            await asyncio.sleep(delay)
            delay = min(2 * delay, _EXIT_DELAY_MAX)

    async def _send(self, **parts: Any) -> message_pb2.SendResponse:
        return await self.messages.Send(message_pb2.SendRequest(**parts))

    async def wait_decision(self, request_id: str, timeout: float) -> request_pb2.Request:
        """Waits until a request is decided and returns it; after `timeout` seconds returns it still pending."""
        give_up = time.monotonic() + timeout
        while True:
            asked = request_pb2.WaitForDecisionRequest(request_id=request_id)
            # A coordinator that does not answer must not make the wait longer.
            request = (await cast(Any, self.requests.WaitForDecision)(asked, until=give_up)).request
            left = give_up - time.monotonic()
            if request.state != request_pb2.REQUEST_STATE_PENDING or left <= 0:
                return cast(request_pb2.Request, request)
            # A draining coordinator may answer early.
            await asyncio.sleep(min(left, 0.1))

    async def leave(self, code: int = 0) -> None:
        """Ends the member's life with an exit code: it becomes `exited`, and the lead is notified. Call it last."""
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))
        await self.teams.Leave(team_pb2.LeaveRequest(exit=message_pb2.ExitReport(code=code)))


def connect(
    address: str = "", credential: str = "", *, team: str = "", tls: Tls | None = None, patience: float = PATIENCE
) -> AsyncClient:
    """Creates a client: `async with teamwire.connect() as me`. What is not given comes from the environment, then from
    the context file. Raises ValueError if it is missing or malformed.
    """
    return AsyncClient(find(address, credential, team, tls), patience)


async def join(join_string: str, name: str = "", *, tls: Tls | None = None, patience: float = PATIENCE) -> AsyncClient:
    """Joins a team with the join string that `teamwire invite` prints: `async with await teamwire.join(...) as me`.

    The name is optional if the token is bound to one. Raises ValueError for a malformed string, and Error.
    """
    return await _join(team_pb2.JoinRequest(name=name), join_string, tls, patience)


async def join_host(
    join_string: str, name: str = "", *, tls: Tls | None = None, patience: float = PATIENCE
) -> AsyncClient:
    """Joins a team as a host, with the join string that `teamwire invite --host` prints. Otherwise like `join`."""
    return await _join(team_pb2.JoinRequest(name=name, host=True), join_string, tls, patience)


async def _join(request: team_pb2.JoinRequest, join_string: str, tls: Tls | None, patience: float) -> AsyncClient:
    client = AsyncClient(joining(join_string, tls), patience)
    try:
        reply = await client.teams.Join(request)
    except BaseException:
        await client.close()
        raise
    client._calls.identity = replace(client.identity, credential=reply.credential)
    return client
