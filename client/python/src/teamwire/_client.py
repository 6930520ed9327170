"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ._calls import PATIENCE, Calls
from ._identity import Identity, Tls, find, joining
from ._subscription import AsyncSubscription, Message
from .v1 import history_pb2_grpc, message_pb2, message_pb2_grpc, request_pb2, request_pb2_grpc, task_pb2_grpc, team_pb2
from .v1.team_pb2_grpc import TeamServiceStub

_SUMMARY_CHARS_MAX = 200
_WAIT_MAX = 60


class AsyncClient:
    """A client for one credential, usually a member's. Connects on first use, and reconnects when needed.

    `teams`, `messages`, `requests`, `tasks` and `history` have every call of the protocol, as coroutines:
    `await me.tasks.ListTasks(...)`. Each takes `timeout`, the limit for all attempts together, in seconds
    (default: `patience`; 0 makes one attempt), and raises Error.
    """

    def __init__(self, identity: Identity, patience: float = PATIENCE) -> None:
        self._calls = Calls(identity, patience)
        self._subscriptions: list[AsyncSubscription] = []
        channel = self._calls.channel
        self.history = history_pb2_grpc.HistoryServiceStub(channel)
        self.messages = message_pb2_grpc.MessageServiceStub(channel)
        self.requests = request_pb2_grpc.RequestServiceStub(channel)
        self.tasks = task_pb2_grpc.TaskServiceStub(channel)
        self.teams = TeamServiceStub(channel)

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
        self, recipient: str, content: str, *, summary: str, in_reply_to: str = "", idempotency_key: str = ""
    ) -> message_pb2.SendResponse:
        """Sends a text to one member; `team-lead` is the lead. The summary is one line of at most 200 characters."""
        body = message_pb2.DirectMessage(recipient=recipient, summary=summary, content=content)
        return await self._send(message=body, in_reply_to=in_reply_to, idempotency_key=idempotency_key)

    async def reply(self, message: Message, content: str, *, summary: str = "") -> message_pb2.SendResponse:
        """Replies to the sender of a message."""
        summary = summary or f"Re: {message.summary}"[:_SUMMARY_CHARS_MAX].strip()
        return await self.send(message.sender, content, summary=summary, in_reply_to=message.id)

    async def broadcast(self, content: str, *, summary: str) -> message_pb2.SendResponse:
        """Sends a text to every other member: to all of them, or after an error to none."""
        return await self._send(broadcast=message_pb2.Broadcast(summary=summary, content=content))

    async def approve_shutdown(self, request_id: str) -> message_pb2.SendResponse:
        """Approves the caller's shutdown, then ends the subscription. Exit after it has ended."""
        return await self._send(shutdown_response=message_pb2.ShutdownResponse(request_id=request_id, approve=True))

    async def reject_shutdown(self, request_id: str, reason: str) -> message_pb2.SendResponse:
        """Rejects the caller's shutdown."""
        body = message_pb2.ShutdownResponse(request_id=request_id, approve=False, reason=reason)
        return await self._send(shutdown_response=body)

    async def submit_plan(self, plan: str, *, summary: str = "") -> str:
        """Asks the lead to approve a plan. Returns the request id, for `wait_decision`."""
        body = message_pb2.PlanApprovalRequest(plan=plan, summary=summary)
        return (await self._send(plan_approval_request=body)).request_id

    async def answer_plan(
        self, author: str, request_id: str, approve: bool, feedback: str = ""
    ) -> message_pb2.SendResponse:
        """Approves or rejects a member's plan."""
        body = message_pb2.PlanApprovalResponse(recipient=author, request_id=request_id, approve=approve)
        body.feedback = feedback
        return await self._send(plan_approval_response=body)

    async def _send(self, **parts: Any) -> message_pb2.SendResponse:
        return await self.messages.Send(message_pb2.SendRequest(**parts))

    async def wait_decision(self, request_id: str, timeout: float) -> request_pb2.Request:
        """Waits until a request is decided and returns it; after `timeout` seconds returns it still pending."""
        give_up = time.monotonic() + timeout
        while True:
            left = max(0.0, give_up - time.monotonic())
            asked = request_pb2.WaitForDecisionRequest(request_id=request_id)
            asked.timeout.FromTimedelta(timedelta(seconds=min(left, _WAIT_MAX)))
            request = (await self.requests.WaitForDecision(asked)).request
            if request.state != request_pb2.REQUEST_STATE_PENDING or not left:
                return request
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
    client = AsyncClient(joining(join_string, tls), patience)
    try:
        reply = await client.teams.Join(team_pb2.JoinRequest(name=name))
    except BaseException:
        await client.close()
        raise
    client._calls.identity = replace(client.identity, credential=reply.credential)
    return client
