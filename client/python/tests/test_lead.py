"""What a lead does, against a scripted coordinator."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

import teamwire
from teamwire.v1 import message_pb2, request_pb2, team_pb2
from teamwire.v1.message_pb2_grpc import add_MessageServiceServicer_to_server
from teamwire.v1.request_pb2_grpc import add_RequestServiceServicer_to_server
from teamwire.v1.team_pb2_grpc import add_TeamServiceServicer_to_server

LEAD = "twm:acme:lead:0123456789abcdef"
OPERATOR = "two:0123456789abcdef"


class Coordinator:
    """Answers with the replies that a test sets, one list for each call; the last one repeats. Records the requests.

    A number is the time after which the call breaks, in seconds.
    """

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.requests: list[Any] = []

    def __getattr__(self, call: str) -> Callable[[Any, Any], Awaitable[Any]]:
        if call.startswith("_"):
            raise AttributeError(call)

        async def answer(request: Any, context: Any) -> Any:
            self.requests.append(request)
            answers = self.answers[call]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, float):
                await asyncio.sleep(answer)
                answer = grpc.StatusCode.UNAVAILABLE
            if isinstance(answer, grpc.StatusCode):
                await context.abort(answer, "no")
            if isinstance(answer, status_pb2.Status):
                context.set_trailing_metadata((("grpc-status-details-bin", answer.SerializeToString()),))
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no")
            return answer

        return answer


def run(coordinator: Coordinator, credential: str, test: Callable[[teamwire.AsyncClient], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        server = grpc.aio.server()
        add_MessageServiceServicer_to_server(cast(Any, coordinator), server)
        add_RequestServiceServicer_to_server(cast(Any, coordinator), server)
        add_TeamServiceServicer_to_server(cast(Any, coordinator), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with teamwire.connect(f"http://127.0.0.1:{port}", credential, team="acme") as me:
                return await test(me)
        finally:
            await server.stop(None)

    return asyncio.run(asyncio.wait_for(main(), 30))


def decided(state: Any) -> request_pb2.WaitForDecisionResponse:
    request = request_pb2.Request(id="req_1", member="Ann", incarnation=2, state=state, reason="why")
    return request_pb2.WaitForDecisionResponse(request=request)


def page(token: str, *members: team_pb2.Member) -> team_pb2.ListMembersResponse:
    return team_pb2.ListMembersResponse(members=members, next_page_token=token)


def ann(state: Any, incarnation: int = 2) -> team_pb2.Member:
    exit_ = message_pb2.ExitReport(code=3) if state == team_pb2.MEMBER_STATE_EXITED else None
    return team_pb2.Member(name="Ann", incarnation=incarnation, state=state, exit=exit_)


def test_a_shutdown_waits_for_the_decision_and_the_exit_through_all_pages() -> None:
    coordinator = Coordinator(
        Send=[message_pb2.SendResponse(request_id="req_1")],
        WaitForDecision=[decided(request_pb2.REQUEST_STATE_PENDING), decided(request_pb2.REQUEST_STATE_APPROVED)],
        ListMembers=[
            page("more", team_pb2.Member(name="lead")),
            page("", ann(team_pb2.MEMBER_STATE_STOPPING)),
            page("more", team_pb2.Member(name="lead")),
            page("", ann(team_pb2.MEMBER_STATE_EXITED)),
        ],
    )
    ended = run(coordinator, LEAD, lambda me: me.shutdown("ann", "done", 20))
    assert ended.request.state == request_pb2.REQUEST_STATE_APPROVED
    assert ended.exit.code == 3
    asked = coordinator.requests[0].shutdown_request
    assert (asked.recipient, asked.reason) == ("ann", "done")
    assert [r.page_token for r in coordinator.requests if isinstance(r, team_pb2.ListMembersRequest)] == [
        "",
        "more",
    ] * 2


def test_a_rejected_shutdown_has_no_exit_and_a_pending_one_is_joined() -> None:
    detail = any_pb2.Any()
    detail.Pack(
        error_details_pb2.ErrorInfo(reason="SHUTDOWN_PENDING", domain="teamwire", metadata={"request_id": "req_9"})
    )
    coordinator = Coordinator(
        Send=[status_pb2.Status(code=9, details=[detail])],
        WaitForDecision=[decided(request_pb2.REQUEST_STATE_REJECTED)],
    )
    ended = run(coordinator, LEAD, lambda me: me.shutdown("ann"))
    assert (ended.request.reason, ended.exit) == ("why", None)
    assert coordinator.requests[1].request_id == "req_9"


def test_a_shutdown_ends_without_an_exit_if_a_new_life_has_begun_or_the_time_is_over() -> None:
    for member, timeout in ((ann(team_pb2.MEMBER_STATE_ACTIVE, 3), 20.0), (ann(team_pb2.MEMBER_STATE_STOPPING), 0.0)):
        coordinator = Coordinator(
            Send=[message_pb2.SendResponse(request_id="req_1")],
            WaitForDecision=[decided(request_pb2.REQUEST_STATE_APPROVED)],
            ListMembers=[page("", member)],
        )
        ended = run(coordinator, LEAD, lambda me, timeout=timeout: me.shutdown("ann", "", timeout))  # type: ignore[misc]
        assert ended.exit is None


def test_a_shutdown_ends_in_time_without_an_exit_if_the_coordinator_is_gone() -> None:
    coordinator = Coordinator(
        Send=[message_pb2.SendResponse(request_id="req_1")],
        WaitForDecision=[decided(request_pb2.REQUEST_STATE_APPROVED)],
        ListMembers=[page("", ann(team_pb2.MEMBER_STATE_STOPPING)), grpc.StatusCode.UNAVAILABLE],
    )
    ended = run(coordinator, LEAD, lambda me: me.shutdown("ann", "", 1))
    assert (ended.request.state, ended.exit) == (request_pb2.REQUEST_STATE_APPROVED, None)


def test_a_wait_for_a_decision_ends_in_time_if_the_coordinator_is_gone() -> None:
    coordinator = Coordinator(WaitForDecision=[grpc.StatusCode.UNAVAILABLE])
    with pytest.raises(teamwire.Error, match="UNAVAILABLE: no"):
        run(coordinator, LEAD, lambda me: asyncio.wait_for(me.wait_decision("req_1", 1), 8))


def test_a_wait_that_broke_asks_only_for_the_rest_of_its_time() -> None:
    coordinator = Coordinator(
        WaitForDecision=[grpc.StatusCode.UNAVAILABLE, decided(request_pb2.REQUEST_STATE_APPROVED)]
    )
    run(coordinator, LEAD, lambda me: me.wait_decision("req_1", 20))
    first, second = (request.timeout.ToTimedelta() for request in coordinator.requests)
    assert second < first


def test_an_outage_during_a_wait_counts_from_its_own_first_failure() -> None:
    coordinator = Coordinator(WaitForDecision=[0.0, 1.2, decided(request_pb2.REQUEST_STATE_APPROVED)])

    async def test(me: teamwire.AsyncClient) -> Any:
        me._calls.patience = 1.0
        return await me.wait_decision("req_1", 20)

    assert run(coordinator, LEAD, test).state == request_pb2.REQUEST_STATE_APPROVED


def test_an_operator_creates_a_team_and_gets_the_client_of_its_lead() -> None:
    coordinator = Coordinator(
        CreateTeam=[team_pb2.CreateTeamResponse(credential="twm:blue:zoe:0123456789abcdef")],
        Invite=[team_pb2.InviteResponse(join_string="twj@a")],
    )

    async def test(operator: teamwire.AsyncClient) -> None:
        assert (operator.name, operator.team) == ("", "acme")
        async with await operator.create_team("blue", "zoe") as zoe:
            assert (zoe.name, zoe.team) == ("zoe", "blue")
            assert (await zoe.invite("bob")).join_string == "twj@a"

    run(coordinator, OPERATOR, test)
    create, invite = coordinator.requests
    assert (create.name, create.lead_name, invite.member, invite.team) == ("blue", "zoe", "bob", "")


def test_a_lead_stops_a_member_hands_over_and_deletes_the_team() -> None:
    coordinator = Coordinator(
        ForceStop=[team_pb2.ForceStopResponse(member=ann(team_pb2.MEMBER_STATE_STOPPING))],
        SetLead=[team_pb2.SetLeadResponse(team=team_pb2.Team(lead="ann"))],
        DeleteTeam=[team_pb2.DeleteTeamResponse()],
    )

    async def test(me: teamwire.AsyncClient) -> None:
        assert (await me.force_stop("ann", "stuck")).state == team_pb2.MEMBER_STATE_STOPPING
        assert (await me.hand_over("ann")).lead == "ann"
        await me.delete_team("acme")

    run(coordinator, LEAD, test)
    stop, lead, delete = coordinator.requests
    assert (stop.member, stop.reason, lead.member, delete.team) == ("ann", "stuck", "ann", "acme")
