"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import TracebackType

from google.protobuf.duration_pb2 import Duration

from ._calls import PATIENCE, Calls, delays
from ._identity import Identity, Tls, from_environment, from_join_string
from ._subscription import AsyncSubscription, Message
from .v1 import message_pb2, request_pb2, team_pb2
from .v1.history_pb2_grpc import HistoryServiceStub
from .v1.message_pb2_grpc import MessageServiceStub
from .v1.request_pb2_grpc import RequestServiceStub
from .v1.task_pb2_grpc import TaskServiceStub
from .v1.team_pb2_grpc import TeamServiceStub

_SUMMARY_CHARS_MAX = 200
_WAIT_MAX = 60


class AsyncClient:
    """A member of a team, or whoever the credential is for. Connects when it is first used, and again when it must.

    `teams`, `messages`, `requests`, `tasks` and `history` have every call of the protocol, as coroutines:
    `await me.tasks.ListTasks(...)`. Each takes `timeout`, how long to try in all, in seconds (by default `patience`; 0:
    once), and raises Error.
    """

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
        self._begin(from_environment(address, credential, team, tls), patience)

    def _begin(self, identity: Identity, patience: float) -> None:
        self._calls = Calls(identity, patience)
        self._subscriptions: list[AsyncSubscription] = []
        channel = self._calls.channel
        self.history = HistoryServiceStub(channel)
        self.messages = MessageServiceStub(channel)
        self.requests = RequestServiceStub(channel)
        self.tasks = TaskServiceStub(channel)
        self.teams = TeamServiceStub(channel)

    @classmethod
    async def join(
        cls,
        join_string: str,
        name: str = "",
        *,
        attributes: team_pb2.MemberAttributes | None = None,
        tls: Tls | None = None,
        patience: float = PATIENCE,
    ) -> AsyncClient:
        """Becomes a member by what `teamwire invite` has printed. The name may be left out where the token has one.

        Keep `identity` to come back as the same member. Raises ValueError for a malformed string, and Error.
        """
        client = cls.__new__(cls)
        client._begin(from_join_string(join_string, tls), patience)
        try:
            reply = await client.teams.Join(team_pb2.JoinRequest(name=name, attributes=attributes))
        except BaseException:
            await client.close()
            raise
        client._calls.identity = replace(client.identity, credential=reply.credential)
        return client

    @property
    def identity(self) -> Identity:
        """Who calls, and where. Its `credential` is a secret."""
        return self._calls.identity

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity.address!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends subscriptions, and the connection with all calls that are under way."""
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))
        await self._calls.close()

    def subscribe(self) -> AsyncSubscription:
        """Subscribes to one's own inbox; an older subscription of the same member ends. Needs a running event loop.

        From now on calls belong to its session: they are refused once another process has taken over.
        """
        subscription = AsyncSubscription(self._calls)
        self._subscriptions.append(subscription)
        return subscription

    async def send(
        self, recipient: str, content: str, *, summary: str, in_reply_to: str = "", idempotency_key: str = ""
    ) -> message_pb2.SendResponse:
        """Sends a text to one member; `team-lead` is the lead. The summary is one line of up to 200 characters."""
        body = message_pb2.DirectMessage(recipient=recipient, summary=summary, content=content)
        return await self.messages.Send(
            message_pb2.SendRequest(message=body, in_reply_to=in_reply_to, idempotency_key=idempotency_key)
        )

    async def reply(self, message: Message, content: str, *, summary: str = "") -> message_pb2.SendResponse:
        """Answers a message, to its sender."""
        summary = summary or f"Re: {message.summary}"[:_SUMMARY_CHARS_MAX].strip()
        return await self.send(message.sender, content, summary=summary, in_reply_to=message.id)

    async def broadcast(self, content: str, *, summary: str) -> message_pb2.SendResponse:
        """Sends a text to every other member: to all, or on any error to none."""
        body = message_pb2.Broadcast(summary=summary, content=content)
        return await self.messages.Send(message_pb2.SendRequest(broadcast=body))

    async def approve_shutdown(self, request_id: str) -> message_pb2.SendResponse:
        """Approves the shutdown that one was asked for: end the process now. The subscription ends by itself."""
        body = message_pb2.ShutdownResponse(request_id=request_id, approve=True)
        return await self.messages.Send(message_pb2.SendRequest(shutdown_response=body))

    async def reject_shutdown(self, request_id: str, reason: str) -> message_pb2.SendResponse:
        """Refuses the shutdown that one was asked for."""
        body = message_pb2.ShutdownResponse(request_id=request_id, approve=False, reason=reason)
        return await self.messages.Send(message_pb2.SendRequest(shutdown_response=body))

    async def submit_plan(self, plan: str, *, summary: str = "") -> str:
        """Asks the lead to approve a plan, and returns the request's id, for `wait_decision`."""
        body = message_pb2.PlanApprovalRequest(plan=plan, summary=summary)
        return (await self.messages.Send(message_pb2.SendRequest(plan_approval_request=body))).request_id

    async def answer_plan(
        self, author: str, request_id: str, approve: bool, feedback: str = ""
    ) -> message_pb2.SendResponse:
        """Answers the plan of a member."""
        body = message_pb2.PlanApprovalResponse(
            recipient=author, request_id=request_id, approve=approve, feedback=feedback
        )
        return await self.messages.Send(message_pb2.SendRequest(plan_approval_response=body))

    async def wait_decision(self, request_id: str, timeout: float) -> request_pb2.Request:
        """Returns a request as soon as it is decided; after `timeout` seconds as it is, still pending."""
        give_up, waits = time.monotonic() + timeout, delays()
        while True:
            left = max(0.0, give_up - time.monotonic())
            asked = (
                Duration(nanos=int(left % 1 * 1e9), seconds=int(left))
                if left < _WAIT_MAX
                else Duration(seconds=_WAIT_MAX)
            )
            reply = await self.requests.WaitForDecision(
                request_pb2.WaitForDecisionRequest(request_id=request_id, timeout=asked)
            )
            if reply.request.state != request_pb2.REQUEST_STATE_PENDING or time.monotonic() >= give_up:
                return reply.request
            # A coordinator that is about to go away may answer early.
            await asyncio.sleep(min(next(waits), max(0.0, give_up - time.monotonic())))

    async def leave(self, code: int = 0) -> None:
        """Says goodbye, the last thing to do: the member becomes `exited` with this code, and the lead is told."""
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))
        await self.teams.Leave(team_pb2.LeaveRequest(exit=message_pb2.ExitReport(code=code)))


connect = AsyncClient
"""`async with teamwire.connect() as me`"""

join = AsyncClient.join
"""`async with await teamwire.join(JOIN_STRING, NAME) as me`"""
