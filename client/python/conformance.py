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
from teamwire.v1 import history_pb2, host_pb2, message_pb2, request_pb2, task_pb2, team_pb2

Json = dict[str, Any]

# The fields that hold the text of a message.
TEXTS = ("content", "reason", "plan", "feedback", "detail", "text")


class Driver:
    """Runs the commands, one method each."""

    me: teamwire.Client
    inbox: teamwire.Subscription

    def connect(self, credential: str = "", address: str = "") -> Json:
        return self._enter(teamwire.Client(credential=credential, address=address))

    def join(self, string: str, name: str = "") -> Json:
        return self._enter(teamwire.Client.join(string, name))

    def join_host(self, string: str, name: str = "") -> Json:
        return self._enter(teamwire.Client.join_host(string, name))

    def create_team(self, name: str, lead: str) -> Json:
        return self._enter(self.me.create_team(name, lead))

    def _enter(self, me: teamwire.Client) -> Json:
        if hasattr(self, "me"):
            self.me.close()
        self.me = me
        return {"member": me.name, "team": me.team}

    def get_team(self) -> Json:
        team = self.me.teams.GetTeam(team_pb2.GetTeamRequest()).team
        return {"name": team.name, "lead": team.lead}

    def invite(self, name: str) -> Json:
        reply = self.me.invite(name)
        expires_at = reply.expires_at.seconds
        return {"join_token": reply.join_token, "join_string": reply.join_string, "expires_at": expires_at}

    def invite_host(self, name: str) -> Json:
        reply = self.me.invite_host(name)
        return {"join_token": reply.join_token, "join_string": reply.join_string}

    def spawn(self, name: str, profile: str, prompt: str = "", host: str = "") -> Json:
        reply = self.me.spawn(name, profile, prompt, host)
        state = team_pb2.MemberState.Name(reply.member.state).removeprefix("MEMBER_STATE_").lower()
        return {"request_id": reply.request.id, "state": state, "host": reply.request.approver}

    def hosts(self) -> Json:
        return {
            host.name: {
                "state": team_pb2.MemberState.Name(host.state).removeprefix("MEMBER_STATE_").lower(),
                "slots": host.offer.slots,
                "slots_used": host.slots_used,
            }
            for host in self.me.all_hosts()
        }

    def update_host(self, profile: str, slots: int, start_seconds: int = 60) -> Json:
        offered = host_pb2.HostProfile(name=profile)
        offered.start_deadline.FromSeconds(start_seconds)
        return {"host": self.me.update_host(host_pb2.HostOffer(profiles=[offered], slots=slots)).name}

    def take_order(self, request_id: str) -> Json:
        reply = self.me.take_order(request_id)
        order = reply.request
        return {"member": order.member, "profile": order.spawn.profile, "join_token": reply.join_token}

    def refuse_order(self, request_id: str, reason: str, try_another_host: bool = False) -> Json:
        return self._decision(self.me.refuse_order(request_id, reason, try_another_host))

    def report_exit(self, request_id: str, code: int) -> Json:
        self.me.report_exit(request_id, message_pb2.ExitReport(code=code))
        return {}

    def shutdown(self, name: str, reason: str, seconds: float = 20) -> Json:
        ended = self.me.shutdown(name, reason, seconds)
        code = {"code": ended.exit.code} if ended.exit and ended.exit.HasField("code") else {}
        return self._decision(ended.request) | code

    def force_stop(self, name: str, reason: str) -> Json:
        state = team_pb2.MemberState.Name(self.me.force_stop(name, reason).state)
        return {"state": state.removeprefix("MEMBER_STATE_").lower()}

    def hand_over(self, name: str) -> Json:
        return {"lead": self.me.hand_over(name).lead}

    def delete_team(self, name: str) -> Json:
        self.me.delete_team(name)
        return {}

    def submit_plan(self, plan: str, summary: str) -> Json:
        return {"request_id": self.me.submit_plan(plan, summary)}

    def answer_plan(self, name: str, request_id: str, approve: bool, feedback: str) -> Json:
        return self._sent(self.me.answer_plan(name, request_id, approve, feedback))

    def request_permission(self, name: str, tool: str, summary: str, detail: str) -> Json:
        return {"request_id": self.me.request_permission(name, tool, summary, detail)}

    def answer_permission(self, request_id: str, approve: bool, reason: str) -> Json:
        return self._sent(self.me.answer_permission(request_id, approve, reason))

    def answer_review(self, request_id: str, approve: bool, reason: str) -> Json:
        return self._sent(self.me.answer_review(request_id, approve, reason))

    def withdraw_request(self, request_id: str) -> Json:
        return self._decision(self.me.withdraw_request(request_id))

    def list_history(self, page_size: int) -> Json:
        page = self.me.history.ListHistory(history_pb2.ListHistoryRequest(page_size=page_size))
        return {"items": len(page.entries), "more": bool(page.next_page_token)}

    def list_inbox(self, page_size: int) -> Json:
        page = self.me.messages.ListInbox(message_pb2.ListInboxRequest(page_size=page_size))
        return {"items": len(page.deliveries), "more": bool(page.next_page_token)}

    def send(self, message: Json, key: str = "") -> Json:
        request = message_pb2.SendRequest(idempotency_key=key, in_reply_to=message.pop("in_reply_to", ""))
        kind = message.pop("type", "")
        if kind in request.DESCRIPTOR.fields_by_name:
            body = getattr(request, kind)
            body.SetInParent()
            if "content" in message:
                text = next(name for name in TEXTS if name in body.DESCRIPTOR.fields_by_name)
                message[text] = message.pop("content")
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
        return {"ended": self.inbox.end.reason, "request_id": self.inbox.end.request_id}

    def _shown(self, message: teamwire.Message) -> Json:
        body = getattr(message.proto, message.type)
        notice = message_pb2.NoticeKind.Name(body.kind) if message.type == "notice" else ""
        shown = {
            "id": message.id,
            "type": message.type,
            "from": message.sender,
            "recipient": getattr(body, "recipient", ""),
            "tool": getattr(body, "tool", ""),
            "member": body.member if message.type == "spawn_order" else "",
            "profile": body.terms.profile if message.type == "spawn_order" else "",
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
        return self._decision(self.me.wait_decision(request_id, seconds))

    def _decision(self, request: request_pb2.Request) -> Json:
        state = request_pb2.RequestState.Name(request.state)
        return {"state": state.removeprefix("REQUEST_STATE_").lower(), "reason": request.reason}

    def receipts(self, message_id: str) -> Json:
        reply = self.me.messages.GetMessage(message_pb2.GetMessageRequest(message_id=message_id))
        name = message_pb2.ReceiptState.Name
        return {each.recipient: name(each.state).removeprefix("RECEIPT_STATE_").lower() for each in reply.receipts}

    def create_task(self, subject: str, blocked_by: list[int] | None = None, reviewer: str = "") -> Json:
        request = task_pb2.CreateTaskRequest(subject=subject, blocked_by=blocked_by or [], reviewer=reviewer)
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
        name = team_pb2.MemberState.Name
        return {member.name: name(member.state).removeprefix("MEMBER_STATE_").lower() for member in self.me.members()}

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
        refused: Json = {"reason": error.reason, "code": error.code().name, "field": error.field}
        refused |= {"message": error.message, "retryable": error.is_retryable}
        return {"refused": {name: value for name, value in refused.items() if value or name != "field"}}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


logging.basicConfig(level=os.environ.get("TEAMWIRE_LOG", "WARNING").upper())
driver = Driver()
for line in sys.stdin:
    print(json.dumps(answer(driver, line)), flush=True)
if hasattr(driver, "me"):
    driver.me.close()
