package io.teamwire;

import io.teamwire.v1.Broadcast;
import io.teamwire.v1.DeleteTeamRequest;
import io.teamwire.v1.ExitReport;
import io.teamwire.v1.ForceStopRequest;
import io.teamwire.v1.Host;
import io.teamwire.v1.HostOffer;
import io.teamwire.v1.HostServiceGrpc.HostServiceBlockingStub;
import io.teamwire.v1.InviteRequest;
import io.teamwire.v1.InviteResponse;
import io.teamwire.v1.Member;
import io.teamwire.v1.MessageServiceGrpc.MessageServiceBlockingStub;
import io.teamwire.v1.PermissionRequest;
import io.teamwire.v1.PermissionResponse;
import io.teamwire.v1.PlanApprovalRequest;
import io.teamwire.v1.PlanApprovalResponse;
import io.teamwire.v1.RefuseOrderRequest;
import io.teamwire.v1.ReportExitRequest;
import io.teamwire.v1.Request;
import io.teamwire.v1.RequestServiceGrpc.RequestServiceBlockingStub;
import io.teamwire.v1.ReviewResponse;
import io.teamwire.v1.SendRequest;
import io.teamwire.v1.SendResponse;
import io.teamwire.v1.SetLeadRequest;
import io.teamwire.v1.ShutdownResponse;
import io.teamwire.v1.SpawnRequest;
import io.teamwire.v1.SpawnResponse;
import io.teamwire.v1.TakeOrderRequest;
import io.teamwire.v1.TakeOrderResponse;
import io.teamwire.v1.Team;
import io.teamwire.v1.TeamServiceGrpc.TeamServiceBlockingStub;
import io.teamwire.v1.UpdateHostRequest;
import io.teamwire.v1.WithdrawRequest;
import java.util.Optional;

/** The helpers that make one call. Written by {@code cargo xtask generate} from {@code client/helpers.toml}. */
abstract class Helpers {
    public abstract HostServiceBlockingStub hosts();

    public abstract MessageServiceBlockingStub messages();

    public abstract RequestServiceBlockingStub requests();

    public abstract TeamServiceBlockingStub teams();

    /**
     * Sends a text to every other member: to all of them, or after an error to none.
     */
    public SendResponse broadcast(String summary, String content) {
        var body = Broadcast.newBuilder();
        body.setSummary(summary);
        body.setContent(content);
        return messages().send(SendRequest.newBuilder().setBroadcast(body).build());
    }

    /**
     * Approves the caller's shutdown. Returns once the approval is recorded; the subscription then ends.
     */
    public SendResponse approveShutdown(String requestId) {
        var body = ShutdownResponse.newBuilder();
        body.setRequestId(requestId);
        body.setApprove(true);
        return messages().send(SendRequest.newBuilder().setShutdownResponse(body).build());
    }

    /**
     * Rejects the caller's shutdown.
     */
    public SendResponse rejectShutdown(String requestId, String reason) {
        var body = ShutdownResponse.newBuilder();
        body.setRequestId(requestId);
        body.setReason(reason);
        body.setApprove(false);
        return messages().send(SendRequest.newBuilder().setShutdownResponse(body).build());
    }

    /**
     * Asks the lead to approve a plan. Returns the id of the request, for {@code waitDecision}.
     */
    public String submitPlan(String plan, String summary) {
        var body = PlanApprovalRequest.newBuilder();
        body.setPlan(plan);
        body.setSummary(summary);
        return messages().send(SendRequest.newBuilder().setPlanApprovalRequest(body).build()).getRequestId();
    }

    /**
     * Approves or rejects a member's plan.
     */
    public SendResponse answerPlan(String author, String requestId, boolean approve, String feedback) {
        var body = PlanApprovalResponse.newBuilder();
        body.setRecipient(author);
        body.setRequestId(requestId);
        body.setApprove(approve);
        body.setFeedback(feedback);
        return messages().send(SendRequest.newBuilder().setPlanApprovalResponse(body).build());
    }

    /**
     * Asks for permission to use a tool. An empty {@code approver} means the lead. Returns the id of the request,
     * for {@code waitDecision}.
     */
    public String requestPermission(String approver, String tool, String summary, String detail) {
        var body = PermissionRequest.newBuilder();
        body.setRecipient(approver);
        body.setTool(tool);
        body.setSummary(summary);
        body.setDetail(detail);
        return messages().send(SendRequest.newBuilder().setPermissionRequest(body).build()).getRequestId();
    }

    /**
     * Approves or rejects another member's permission request.
     */
    public SendResponse answerPermission(String requestId, boolean approve, String reason) {
        var body = PermissionResponse.newBuilder();
        body.setRequestId(requestId);
        body.setApprove(approve);
        body.setReason(reason);
        return messages().send(SendRequest.newBuilder().setPermissionResponse(body).build());
    }

    /**
     * Approves or rejects the work of another member on a task. With {@code commit}, only if the review is of that
     * commit.
     */
    public SendResponse answerReview(String requestId, boolean approve, String reason, String commit) {
        var body = ReviewResponse.newBuilder();
        body.setRequestId(requestId);
        body.setApprove(approve);
        body.setReason(reason);
        body.setCommit(commit);
        return messages().send(SendRequest.newBuilder().setReviewResponse(body).build());
    }

    /**
     * Withdraws a permission request of the caller's. Returns the request, unchanged if it was decided before.
     */
    public Request withdrawRequest(String requestId) {
        var request = WithdrawRequest.newBuilder();
        request.setRequestId(requestId);
        return requests().withdraw(request.build()).getRequest();
    }

    /**
     * Creates a join token for this name, or, if it is empty, for any free one. The reply has the {@code joinString}
     * to pass to {@code join}, the {@code joinToken}, and {@code expiresAt}.
     */
    public InviteResponse invite(String name) {
        var request = InviteRequest.newBuilder();
        request.setMember(name);
        return teams().invite(request.build());
    }

    /**
     * Creates a join token for a host of this name, or, if it is empty, of any free one.
     */
    public InviteResponse inviteHost(String name) {
        var request = InviteRequest.newBuilder();
        request.setMember(name);
        request.setHost(true);
        return teams().invite(request.build());
    }

    /**
     * Orders a member from a host. An empty {@code host} lets the coordinator choose one. The reply has the {@code
     * member}, which is still spawning, and the order as its {@code request}: {@code waitDecision} waits for the
     * start.
     */
    public SpawnResponse spawn(String name, String profile, String prompt, String host) {
        var request = SpawnRequest.newBuilder();
        request.setName(name);
        request.setProfile(profile);
        request.setPrompt(prompt);
        request.setHost(host);
        return hosts().spawn(request.build());
    }

    /**
     * Says what the caller, a host, offers from now on. Returns the host after the change.
     */
    public Host updateHost(HostOffer offer) {
        var request = UpdateHostRequest.newBuilder();
        request.setOffer(offer);
        return hosts().updateHost(request.build()).getHost();
    }

    /**
     * Takes an order that the caller, a host, has in its inbox. The reply has the order as its {@code request}, and
     * the {@code joinToken} of the member to start, a secret. The token of an earlier call is void.
     */
    public TakeOrderResponse takeOrder(String requestId) {
        var request = TakeOrderRequest.newBuilder();
        request.setRequestId(requestId);
        return hosts().takeOrder(request.build());
    }

    /**
     * Refuses an order as a host. Returns the order, which is still pending if another host has it now.
     */
    public Request refuseOrder(String requestId, String reason, boolean tryAnotherHost) {
        var request = RefuseOrderRequest.newBuilder();
        request.setRequestId(requestId);
        request.setReason(reason);
        request.setTryAnotherHost(tryAnotherHost);
        return hosts().refuseOrder(request.build()).getRequest();
    }

    /**
     * Reports that nothing runs anymore of the member that the caller, a host, started for this order. Without
     * {@code exit}, it is unknown how it ended.
     */
    public void reportExit(String requestId, Optional<ExitReport> exit) {
        var request = ReportExitRequest.newBuilder();
        request.setRequestId(requestId);
        exit.ifPresent(request::setExit);
        hosts().reportExit(request.build());
    }

    /**
     * Stops a member at once, without asking it. Returns the member after the change.
     */
    public Member forceStop(String member, String reason) {
        var request = ForceStopRequest.newBuilder();
        request.setMember(member);
        request.setReason(reason);
        return teams().forceStop(request.build()).getMember();
    }

    /**
     * Makes another member the lead. Returns the team after the change. Not retried while its outcome is unknown.
     */
    public Team handOver(String member) {
        var request = SetLeadRequest.newBuilder();
        request.setMember(member);
        return teams().setLead(request.build()).getTeam();
    }

    /**
     * Deletes a team and everything in it. Refused while a member other than the caller is live. Not retried while
     * its outcome is unknown.
     */
    public void deleteTeam(String name) {
        var request = DeleteTeamRequest.newBuilder();
        request.setTeam(name);
        teams().deleteTeam(request.build());
    }
}
