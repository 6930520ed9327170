"""The Python client's conformance driver; tests/conformance/README.md defines its protocol."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import teamwire
from teamwire.v1 import message_pb2, request_pb2, task_pb2, team_pb2

Json = dict[str, Any]

# The field of each kind of message that holds the scenarios' `content`.
CONTENT = {
    "message": "content",
    "broadcast": "content",
    "shutdown_request": "reason",
    "shutdown_response": "reason",
    "plan_approval_request": "plan",
    "plan_approval_response": "feedback",
}


class Driver:
    """Runs the commands, one method each."""

    me: teamwire.Client
    inbox: teamwire.Subscription

    def connect(self) -> Json:
        self.me = teamwire.Client()
        return self._identity()

    def join(self, string: str, name: str = "") -> Json:
        self.me = teamwire.Client.join(string, name)
        return self._identity()

    def _identity(self) -> Json:
        team = self.me.teams.GetTeam(team_pb2.GetTeamRequest()).team.name
        return {"member": self.me.identity.member, "team": team}

    def send(self, message: Json, key: str = "") -> Json:
        request = message_pb2.SendRequest(idempotency_key=key, in_reply_to=message.pop("in_reply_to", ""))
        kind = message.pop("type", "")
        if kind in CONTENT:
            if "content" in message:
                message[CONTENT[kind]] = message.pop("content")
            body = getattr(request, kind)
            body.SetInParent()
            for name, value in message.items():
                setattr(body, name, value)
        return self._sent(self.me.messages.Send(request))

    def _sent(self, reply: message_pb2.SendResponse) -> Json:
        return {
            "message_id": reply.message_id,
            "request_id": reply.request_id,
            "recipients": list(reply.recipients),
            "replayed": reply.replayed,
            "warnings": list(reply.warnings),
        }

    def subscribe(self) -> Json:
        self.inbox = self.me.subscribe()
        return {}

    def next(self, seconds: float = 20) -> Json:
        try:
            message = self.inbox.next(timeout=seconds)
        except asyncio.TimeoutError:
            return {"nothing": True}
        if message:
            return {"message": self._shown(message)}
        if not self.inbox.end:
            raise RuntimeError("the subscription has already ended")
        return {"ended": self.inbox.end.how, "request_id": self.inbox.end.request_id}

    def _shown(self, message: teamwire.Message) -> Json:
        body = getattr(message.proto, message.type)
        notice = message_pb2.NoticeKind.Name(body.kind) if message.type == "notice" else ""
        shown = {
            "id": message.id,
            "type": message.type,
            "from": message.sender,
            "recipient": getattr(body, "recipient", ""),
            "summary": message.summary,
            "content": message.content,
            "request_id": message.request_id,
            "in_reply_to": message.proto.in_reply_to,
            "notice": notice.removeprefix("NOTICE_KIND_").lower(),
            "delivery_count": message.delivery_count,
        }
        approve = {"approve": body.approve} if message.type.endswith("_response") else {}
        return {name: value for name, value in shown.items() if value} | approve

    def ack(self, message_id: str) -> Json:
        self.inbox.ack(message_id)
        return {}

    def flush(self) -> Json:
        self.inbox.flush()
        return {}

    def approve_shutdown(self, request_id: str) -> Json:
        return self._sent(self.me.approve_shutdown(request_id))

    def reject_shutdown(self, request_id: str, reason: str) -> Json:
        return self._sent(self.me.reject_shutdown(request_id, reason))

    def wait_decision(self, request_id: str, seconds: float = 20) -> Json:
        request = self.me.wait_decision(request_id, seconds)
        state = request_pb2.RequestState.Name(request.state)
        return {"state": state.removeprefix("REQUEST_STATE_").lower(), "reason": request.reason}

    def receipts(self, message_id: str) -> Json:
        reply = self.me.messages.GetMessage(message_pb2.GetMessageRequest(message_id=message_id))
        name = message_pb2.ReceiptState.Name
        return {each.recipient: name(each.state).removeprefix("RECEIPT_STATE_").lower() for each in reply.receipts}

    def create_task(self, subject: str, blocked_by: list[int] | None = None) -> Json:
        request = task_pb2.CreateTaskRequest(subject=subject, blocked_by=blocked_by or [])
        return {"task_id": self.me.tasks.CreateTask(request).task.id}

    def claim_next(self) -> Json:
        reply = self.me.tasks.ClaimNextTask(task_pb2.ClaimNextTaskRequest())
        if not reply.HasField("claim"):
            return {}
        task = reply.claim.task
        return {"task_id": task.id, "subject": task.subject, "claim_token": reply.claim.token}

    def complete_task(self, task_id: int, claim_token: str) -> Json:
        self.me.tasks.CompleteTask(task_pb2.CompleteTaskRequest(task_id=task_id, claim_token=claim_token))
        return {}

    def members(self) -> Json:
        reply = self.me.teams.ListMembers(team_pb2.ListMembersRequest())
        name = team_pb2.MemberState.Name
        return {member.name: name(member.state).removeprefix("MEMBER_STATE_").lower() for member in reply.members}

    def leave(self, code: int = 0) -> Json:
        self.me.leave(code)
        return {}


def answer(driver: Driver, line: str) -> Json:
    try:
        command = json.loads(line)
        do: Callable[..., Json] = getattr(driver, command.pop("do"))
        return {"ok": do(**command)}
    except teamwire.Error as error:
        if not error.reason:
            return {"failed": str(error)}
        refused = {"reason": error.reason, "code": error.code().name, "field": error.field, "message": error.message}
        return {"refused": {name: value for name, value in refused.items() if value or name != "field"}}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


logging.basicConfig(level=os.environ.get("TEAMWIRE_LOG", "WARNING").upper())
driver = Driver()
for line in sys.stdin:
    print(json.dumps(answer(driver, line)), flush=True)
if hasattr(driver, "me"):
    driver.me.close()
