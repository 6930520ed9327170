"""The helpers that make one call. Written by `cargo xtask generate` from client/helpers.toml."""

from __future__ import annotations

from ._blocking import blocking
from .v1 import (
    host_pb2,
    host_pb2_grpc,
    message_pb2,
    message_pb2_grpc,
    request_pb2,
    request_pb2_grpc,
    team_pb2,
    team_pb2_grpc,
)


class Helpers:
    """Those of AsyncClient."""

    hosts: host_pb2_grpc.HostServiceAsyncStub
    messages: message_pb2_grpc.MessageServiceAsyncStub
    requests: request_pb2_grpc.RequestServiceAsyncStub
    teams: team_pb2_grpc.TeamServiceAsyncStub

    async def broadcast(self, summary: str, content: str) -> message_pb2.SendResponse:
        """Sends a text to every other member: to all of them, or after an error to none."""
        body = message_pb2.Broadcast(summary=summary, content=content)
        return await self.messages.Send(message_pb2.SendRequest(broadcast=body))

    async def approve_shutdown(self, request_id: str) -> message_pb2.SendResponse:
        """Approves the caller's shutdown. Returns once the approval is recorded; the subscription then ends."""
        body = message_pb2.ShutdownResponse(request_id=request_id, approve=True)
        return await self.messages.Send(message_pb2.SendRequest(shutdown_response=body))

    async def reject_shutdown(self, request_id: str, reason: str) -> message_pb2.SendResponse:
        """Rejects the caller's shutdown."""
        body = message_pb2.ShutdownResponse(request_id=request_id, reason=reason, approve=False)
        return await self.messages.Send(message_pb2.SendRequest(shutdown_response=body))

    async def submit_plan(self, plan: str, summary: str = "") -> str:
        """Asks the lead to approve a plan. Returns the id of the request, for `wait_decision`."""
        body = message_pb2.PlanApprovalRequest(plan=plan, summary=summary)
        return (await self.messages.Send(message_pb2.SendRequest(plan_approval_request=body))).request_id

    async def answer_plan(
        self, author: str, request_id: str, approve: bool, feedback: str = ""
    ) -> message_pb2.SendResponse:
        """Approves or rejects a member's plan."""
        body = message_pb2.PlanApprovalResponse(
            recipient=author, request_id=request_id, approve=approve, feedback=feedback
        )
        return await self.messages.Send(message_pb2.SendRequest(plan_approval_response=body))

    async def request_permission(self, approver: str, tool: str, summary: str, detail: str = "") -> str:
        """Asks for permission to use a tool.

        An empty `approver` means the lead. Returns the id of the request, for `wait_decision`.
        """
        body = message_pb2.PermissionRequest(recipient=approver, tool=tool, summary=summary, detail=detail)
        return (await self.messages.Send(message_pb2.SendRequest(permission_request=body))).request_id

    async def answer_permission(self, request_id: str, approve: bool, reason: str = "") -> message_pb2.SendResponse:
        """Approves or rejects another member's permission request."""
        body = message_pb2.PermissionResponse(request_id=request_id, approve=approve, reason=reason)
        return await self.messages.Send(message_pb2.SendRequest(permission_response=body))

    async def answer_review(
        self, request_id: str, approve: bool, reason: str = "", commit: str = ""
    ) -> message_pb2.SendResponse:
        """Approves or rejects the work of another member on a task.

        With `commit`, only if the review is of that commit.
        """
        body = message_pb2.ReviewResponse(request_id=request_id, approve=approve, reason=reason, commit=commit)
        return await self.messages.Send(message_pb2.SendRequest(review_response=body))

    async def withdraw_request(self, request_id: str) -> request_pb2.Request:
        """Withdraws a permission request of the caller's. Returns the request, unchanged if it was decided before."""
        request = request_pb2.WithdrawRequest(request_id=request_id)
        return (await self.requests.Withdraw(request)).request

    async def invite(self, name: str = "") -> team_pb2.InviteResponse:
        """Creates a join token for this name, or, if it is empty, for any free one.

        The reply has the `join_string` to pass to `join`, the `join_token`, and `expires_at`.
        """
        request = team_pb2.InviteRequest(member=name)
        return await self.teams.Invite(request)

    async def invite_host(self, name: str = "") -> team_pb2.InviteResponse:
        """Creates a join token for a host of this name, or, if it is empty, of any free one."""
        request = team_pb2.InviteRequest(member=name, host=True)
        return await self.teams.Invite(request)

    async def spawn(self, name: str, profile: str, prompt: str = "", host: str = "") -> host_pb2.SpawnResponse:
        """Orders a member from a host.

        An empty `host` lets the coordinator choose one. The reply has the `member`, which is still spawning, and the
        order as its `request`: `wait_decision` waits for the start.
        """
        request = host_pb2.SpawnRequest(name=name, profile=profile, prompt=prompt, host=host)
        return await self.hosts.Spawn(request)

    async def update_host(self, offer: host_pb2.HostOffer) -> host_pb2.Host:
        """Says what the caller, a host, offers from now on. Returns the host after the change."""
        request = host_pb2.UpdateHostRequest(offer=offer)
        return (await self.hosts.UpdateHost(request)).host

    async def take_order(self, request_id: str) -> host_pb2.TakeOrderResponse:
        """Takes an order that the caller, a host, has in its inbox.

        The reply has the order as its `request`, and the `join_token` of the member to start, a secret. The token of an
        earlier call is void.
        """
        request = host_pb2.TakeOrderRequest(request_id=request_id)
        return await self.hosts.TakeOrder(request)

    async def refuse_order(self, request_id: str, reason: str, try_another_host: bool = False) -> request_pb2.Request:
        """Refuses an order as a host. Returns the order, which is still pending if another host has it now."""
        request = host_pb2.RefuseOrderRequest(request_id=request_id, reason=reason, try_another_host=try_another_host)
        return (await self.hosts.RefuseOrder(request)).request

    async def report_exit(self, request_id: str, exit: message_pb2.ExitReport | None = None) -> None:
        """Reports that nothing runs anymore of the member that the caller, a host, started for this order.

        Without `exit`, it is unknown how it ended.
        """
        request = host_pb2.ReportExitRequest(request_id=request_id, exit=exit)
        await self.hosts.ReportExit(request)

    async def force_stop(self, member: str, reason: str = "") -> team_pb2.Member:
        """Stops a member at once, without asking it. Returns the member after the change."""
        request = team_pb2.ForceStopRequest(member=member, reason=reason)
        return (await self.teams.ForceStop(request)).member

    async def hand_over(self, member: str) -> team_pb2.Team:
        """Makes another member the lead.

        Returns the team after the change. Not retried while its outcome is unknown.
        """
        request = team_pb2.SetLeadRequest(member=member)
        return (await self.teams.SetLead(request)).team

    async def delete_team(self, name: str) -> None:
        """Deletes a team and everything in it.

        Refused while a member other than the caller is live. Not retried while its outcome is unknown.
        """
        request = team_pb2.DeleteTeamRequest(team=name)
        await self.teams.DeleteTeam(request)


class BlockingHelpers:
    """Those of Client."""

    broadcast = blocking(Helpers.broadcast)
    approve_shutdown = blocking(Helpers.approve_shutdown)
    reject_shutdown = blocking(Helpers.reject_shutdown)
    submit_plan = blocking(Helpers.submit_plan)
    answer_plan = blocking(Helpers.answer_plan)
    request_permission = blocking(Helpers.request_permission)
    answer_permission = blocking(Helpers.answer_permission)
    answer_review = blocking(Helpers.answer_review)
    withdraw_request = blocking(Helpers.withdraw_request)
    invite = blocking(Helpers.invite)
    invite_host = blocking(Helpers.invite_host)
    spawn = blocking(Helpers.spawn)
    update_host = blocking(Helpers.update_host)
    take_order = blocking(Helpers.take_order)
    refuse_order = blocking(Helpers.refuse_order)
    report_exit = blocking(Helpers.report_exit)
    force_stop = blocking(Helpers.force_stop)
    hand_over = blocking(Helpers.hand_over)
    delete_team = blocking(Helpers.delete_team)
