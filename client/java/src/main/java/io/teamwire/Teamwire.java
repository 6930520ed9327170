package io.teamwire;

import io.grpc.Deadline;
import io.teamwire.v1.AccessServiceGrpc;
import io.teamwire.v1.AccessServiceGrpc.AccessServiceBlockingStub;
import io.teamwire.v1.AuditServiceGrpc;
import io.teamwire.v1.AuditServiceGrpc.AuditServiceBlockingStub;
import io.teamwire.v1.Broadcast;
import io.teamwire.v1.CreateTeamRequest;
import io.teamwire.v1.DeleteTeamRequest;
import io.teamwire.v1.DirectMessage;
import io.teamwire.v1.ExitReport;
import io.teamwire.v1.ForceStopRequest;
import io.teamwire.v1.HistoryServiceGrpc;
import io.teamwire.v1.HistoryServiceGrpc.HistoryServiceBlockingStub;
import io.teamwire.v1.Host;
import io.teamwire.v1.HostOffer;
import io.teamwire.v1.HostServiceGrpc;
import io.teamwire.v1.HostServiceGrpc.HostServiceBlockingStub;
import io.teamwire.v1.InviteRequest;
import io.teamwire.v1.InviteResponse;
import io.teamwire.v1.JoinRequest;
import io.teamwire.v1.LeaveRequest;
import io.teamwire.v1.ListHostsRequest;
import io.teamwire.v1.ListMembersRequest;
import io.teamwire.v1.Member;
import io.teamwire.v1.MemberState;
import io.teamwire.v1.Message;
import io.teamwire.v1.MessageServiceGrpc;
import io.teamwire.v1.MessageServiceGrpc.MessageServiceBlockingStub;
import io.teamwire.v1.PermissionRequest;
import io.teamwire.v1.PermissionResponse;
import io.teamwire.v1.PlanApprovalRequest;
import io.teamwire.v1.PlanApprovalResponse;
import io.teamwire.v1.RefuseOrderRequest;
import io.teamwire.v1.ReportExitRequest;
import io.teamwire.v1.Request;
import io.teamwire.v1.RequestServiceGrpc;
import io.teamwire.v1.RequestServiceGrpc.RequestServiceBlockingStub;
import io.teamwire.v1.RequestState;
import io.teamwire.v1.SendRequest;
import io.teamwire.v1.SendResponse;
import io.teamwire.v1.SetLeadRequest;
import io.teamwire.v1.ShutdownRequest;
import io.teamwire.v1.ShutdownResponse;
import io.teamwire.v1.SpawnRequest;
import io.teamwire.v1.SpawnResponse;
import io.teamwire.v1.TakeOrderRequest;
import io.teamwire.v1.TakeOrderResponse;
import io.teamwire.v1.TaskServiceGrpc;
import io.teamwire.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import io.teamwire.v1.Team;
import io.teamwire.v1.TeamServiceGrpc;
import io.teamwire.v1.TeamServiceGrpc.TeamServiceBlockingStub;
import io.teamwire.v1.UpdateHostRequest;
import io.teamwire.v1.WaitForDecisionRequest;
import io.teamwire.v1.WatchServiceGrpc;
import io.teamwire.v1.WatchServiceGrpc.WatchServiceBlockingStub;
import io.teamwire.v1.WithdrawRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * A client for one credential, usually a member's, of one or more coordinators that share a store.
 *
 * <pre>{@code
 * try (var me = Teamwire.connect(); var inbox = me.subscribe()) {
 *     for (var delivery : inbox) {
 *         var message = delivery.message();
 *         switch (message.getBodyCase()) {
 *             case MESSAGE -> me.reply(message, "an echo", "You said: " + message.getMessage().getContent());
 *             case SHUTDOWN_REQUEST -> me.approveShutdown(message.getRequestId());
 *             default -> {}
 *         }
 *         delivery.ack();
 *     }
 *     if (inbox.end().orElseThrow().reason() == End.Reason.SHUTDOWN_APPROVED) {
 *         me.leave(0);
 *     }
 * }
 * }</pre>
 *
 * <p>The generated stubs have every call of the protocol: {@link #messages()}, {@link #teams()}, {@link #requests()},
 * {@link #tasks()}, {@link #hosts()}, {@link #watches()}, {@link #history()}. A call blocks its thread, is retried with the
 * same idempotency key until its outcome is known or 10 minutes (or the stub's {@code withDeadlineAfter}) have passed, and throws a {@link TeamwireException}.
 * Streaming calls are not retried, and throw gRPC's exceptions, which {@link TeamwireException#of} converts.
 *
 * <p>Safe for concurrent use. Connects on first use, and reconnects when needed.
 */
public final class Teamwire implements AutoCloseable {
    private static final int PAGE_SIZE_MAX = 1_000;

    /** The first and the longest delay between two looks at a member that is exiting, in milliseconds. */
    private static final long EXIT_DELAY_MIN_MS = 100;

    private static final long EXIT_DELAY_MAX_MS = 1_000;

    private final Map<String, String> settings;
    private final Channels channels;
    private final Calls calls;

    private Teamwire(Map<String, String> settings, Channels channels) {
        this.settings = settings;
        this.channels = channels;
        calls = new Calls(channels, settings);
    }

    /** Creates a client from the environment, else the context file. Does not connect yet. */
    public static Teamwire connect() {
        return connect(Map.of());
    }

    /**
     * Creates a client from settings, then the environment, then the context file. Does not connect yet.
     *
     * @param settings override environment variables by name: {@code TEAMWIRE_ADDRESS}, {@code TEAMWIRE_CREDENTIAL},
     *     {@code TEAMWIRE_TEAM}, {@code TEAMWIRE_CA}, {@code TEAMWIRE_CERT}, {@code TEAMWIRE_KEY},
     *     {@code TEAMWIRE_CONTEXT}, {@code TEAMWIRE_AS}; an empty one counts as unset
     */
    public static Teamwire connect(Map<String, String> settings) {
        var given = new HashMap<>(settings);
        given.values().removeIf(String::isEmpty);
        return open(given);
    }

    private static Teamwire open(Map<String, String> options) {
        var all = Settings.find(options, System.getenv());
        return new Teamwire(all, new Channels(all));
    }

    /**
     * Joins a team with the join string that {@code teamwire invite} prints, and returns the new member's client.
     *
     * @param name the member's name; may be empty if the join token is bound to one
     */
    public static Teamwire join(String joinString, String name) {
        return join(joinString, JoinRequest.newBuilder().setName(name).build());
    }

    /**
     * Joins a team as a host with the join string that {@code teamwire invite --host} prints, and returns the host's client.
     *
     * @param name the host's name; may be empty if the join token is bound to one
     */
    public static Teamwire joinHost(String joinString, String name) {
        return join(
                joinString, JoinRequest.newBuilder().setName(name).setHost(true).build());
    }

    private static Teamwire join(String joinString, JoinRequest request) {
        var joining = open(Settings.joining(joinString));
        try {
            var member = new HashMap<>(joining.settings);
            member.put(Settings.CREDENTIAL, joining.teams().join(request).getCredential());
            return new Teamwire(member, joining.channels);
        } catch (RuntimeException e) {
            joining.close();
            throw e;
        }
    }

    /** Returns the caller's name. Empty if the credential is not a member's. */
    public String name() {
        // A credential names its kind and owner in clear text: KIND:TEAM:NAME:SECRET.
        var parts = settings.get(Settings.CREDENTIAL).split(":");
        return parts.length == 4 && parts[0].equals("twm") ? parts[2] : "";
    }

    /** Returns the caller's team. Empty for an operator that has chosen none. */
    public String team() {
        var parts = settings.get(Settings.CREDENTIAL).split(":");
        return settings.getOrDefault(Settings.TEAM, parts.length == 4 ? parts[1] : "");
    }

    /** Returns the stub for messages. */
    public MessageServiceBlockingStub messages() {
        return MessageServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for teams and members. */
    public TeamServiceBlockingStub teams() {
        return TeamServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for requests. */
    public RequestServiceBlockingStub requests() {
        return RequestServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for the task board. */
    public TaskServiceBlockingStub tasks() {
        return TaskServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for watching a team. */
    public WatchServiceBlockingStub watches() {
        return WatchServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for signing in to the console, and for credentials. */
    public AccessServiceBlockingStub access() {
        return AccessServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for the audit log. */
    public AuditServiceBlockingStub audit() {
        return AuditServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for hosts and orders. */
    public HostServiceBlockingStub hosts() {
        return HostServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for the history. */
    public HistoryServiceBlockingStub history() {
        return HistoryServiceGrpc.newBlockingStub(calls);
    }

    /**
     * Subscribes to the caller's inbox. An older subscription of the same member ends. From now on, calls carry the session:
     * the coordinator refuses them once another process has taken over.
     */
    public Subscription subscribe() {
        return subscribe(Subscription.PAUSE);
    }

    /** Subscribes with another pause between calls that acknowledge. */
    Subscription subscribe(Duration pause) {
        return new Subscription(calls, pause);
    }

    /** Sends one message of any kind. */
    public SendResponse send(SendRequest.Builder message) {
        return messages().send(message.build());
    }

    /** Sends a text to one member; {@code team-lead} is the lead. */
    public SendResponse send(String recipient, String summary, String content) {
        return send(direct(recipient, summary, content));
    }

    /** Replies to the sender of a message. */
    public SendResponse reply(Message to, String summary, String content) {
        return send(direct(to.getSender().getName(), summary, content).setInReplyTo(to.getId()));
    }

    private static SendRequest.Builder direct(String recipient, String summary, String content) {
        var message = DirectMessage.newBuilder().setRecipient(recipient).setSummary(summary);
        return SendRequest.newBuilder().setMessage(message.setContent(content));
    }

    /** Sends a text to every other member. */
    public SendResponse broadcast(String summary, String content) {
        var broadcast = Broadcast.newBuilder().setSummary(summary).setContent(content);
        return send(SendRequest.newBuilder().setBroadcast(broadcast));
    }

    /** Approves the caller's shutdown. Returns once the approval is recorded; the subscription then ends. */
    public SendResponse approveShutdown(String requestId) {
        return answerShutdown(requestId, true, "");
    }

    /** Rejects the caller's shutdown. */
    public SendResponse rejectShutdown(String requestId, String reason) {
        return answerShutdown(requestId, false, reason);
    }

    private SendResponse answerShutdown(String requestId, boolean approve, String reason) {
        var answer = ShutdownResponse.newBuilder().setRequestId(requestId).setApprove(approve);
        return send(SendRequest.newBuilder().setShutdownResponse(answer.setReason(reason)));
    }

    /** Asks the lead to approve a plan. Returns the request id, for {@link #waitDecision}. */
    public String submitPlan(String plan, String summary) {
        var request = PlanApprovalRequest.newBuilder().setPlan(plan).setSummary(summary);
        return send(SendRequest.newBuilder().setPlanApprovalRequest(request)).getRequestId();
    }

    /** Approves or rejects a member's plan. */
    public SendResponse answerPlan(String author, String requestId, boolean approve, String feedback) {
        var answer = PlanApprovalResponse.newBuilder().setRecipient(author).setRequestId(requestId);
        answer.setApprove(approve).setFeedback(feedback);
        return send(SendRequest.newBuilder().setPlanApprovalResponse(answer));
    }

    /**
     * Asks for permission to use a tool. Returns the request id, for {@link #waitDecision}.
     *
     * @param approver the member that is asked; if empty, the lead
     */
    public String requestPermission(String approver, String tool, String summary, String detail) {
        var request = PermissionRequest.newBuilder().setRecipient(approver).setTool(tool);
        request.setSummary(summary).setDetail(detail);
        return send(SendRequest.newBuilder().setPermissionRequest(request)).getRequestId();
    }

    /** Approves or rejects another member's permission request. */
    public SendResponse answerPermission(String requestId, boolean approve, String reason) {
        var answer = PermissionResponse.newBuilder().setRequestId(requestId).setApprove(approve);
        return send(SendRequest.newBuilder().setPermissionResponse(answer.setReason(reason)));
    }

    /** Withdraws a permission request of the caller's. Returns the request; if it was decided before, it is unchanged. */
    public Request withdrawRequest(String requestId) {
        var withdraw = WithdrawRequest.newBuilder().setRequestId(requestId);
        return requests().withdraw(withdraw.build()).getRequest();
    }

    /** Waits until a request is decided and returns it; after this time returns it still pending. */
    public Request waitDecision(String requestId, Duration patience) {
        var end = Deadline.after(patience.toMillis(), TimeUnit.MILLISECONDS);
        while (true) {
            // The coordinator limits how long one call waits.
            var seconds = Math.max(0, end.timeRemaining(TimeUnit.SECONDS) + 1);
            var timeout = com.google.protobuf.Duration.newBuilder().setSeconds(seconds);
            var question =
                    WaitForDecisionRequest.newBuilder().setRequestId(requestId).setTimeout(timeout);
            var request = requests().waitForDecision(question.build()).getRequest();
            if (request.getState() != RequestState.REQUEST_STATE_PENDING || end.isExpired()) {
                return request;
            }
        }
    }

    /** Creates a team as an operator, and returns the client of its lead, whose name is {@code lead}. */
    public Teamwire createTeam(String name) {
        return createTeam(name, "");
    }

    /** Creates a team as an operator, and returns the client of its lead. Close both clients. */
    public Teamwire createTeam(String name, String lead) {
        var request = CreateTeamRequest.newBuilder().setName(name).setLeadName(lead);
        var member = new HashMap<>(settings);
        member.put(Settings.CREDENTIAL, teams().createTeam(request.build()).getCredential());
        member.remove(Settings.TEAM);
        return new Teamwire(member, new Channels(member));
    }

    /**
     * Creates a join token. The reply has the join string to pass to {@link #join}, the join token, and when it expires. {@link
     * #teams()} has more options.
     *
     * @param name the name to join under; if empty, any free one
     */
    public InviteResponse invite(String name) {
        return teams().invite(InviteRequest.newBuilder().setMember(name).build());
    }

    /** Lists all members in the order in which they first joined, including those that have exited. */
    public List<Member> members() {
        var members = new ArrayList<Member>();
        var request = ListMembersRequest.newBuilder().setPageSize(PAGE_SIZE_MAX);
        do {
            var page = teams().listMembers(request.build());
            members.addAll(page.getMembersList());
            request.setPageToken(page.getNextPageToken());
        } while (!request.getPageToken().isEmpty());
        return members;
    }

    /**
     * Creates a join token for a host.
     *
     * @param name the name to join under; if empty, any free one
     */
    public InviteResponse inviteHost(String name) {
        return teams().invite(
                        InviteRequest.newBuilder().setMember(name).setHost(true).build());
    }

    /**
     * Orders a member from a host. The reply has the member, which is still spawning, and the order as its request: {@link
     * #waitDecision} waits for the start. {@link #hosts()} has more options.
     *
     * @param prompt its first message; may be empty
     * @param host if empty, the coordinator chooses one
     */
    public SpawnResponse spawn(String name, String profile, String prompt, String host) {
        var request = SpawnRequest.newBuilder().setName(name).setProfile(profile);
        return hosts().spawn(request.setPrompt(prompt).setHost(host).build());
    }

    /** Lists all hosts in the order in which they first joined, including those that have exited. */
    public List<Host> allHosts() {
        var hosts = new ArrayList<Host>();
        var request = ListHostsRequest.newBuilder().setPageSize(PAGE_SIZE_MAX);
        do {
            var page = hosts().listHosts(request.build());
            hosts.addAll(page.getHostsList());
            request.setPageToken(page.getNextPageToken());
        } while (!request.getPageToken().isEmpty());
        return hosts;
    }

    /** Says what the caller, a host, offers from now on. Returns the host after the change. */
    public Host updateHost(HostOffer offer) {
        return hosts().updateHost(UpdateHostRequest.newBuilder().setOffer(offer).build())
                .getHost();
    }

    /**
     * Takes an order that the caller, a host, has in its inbox as a spawn order. The reply has the order as its request, and the
     * join token of the member to start, a secret. The token of an earlier call is void.
     */
    public TakeOrderResponse takeOrder(String requestId) {
        return hosts().takeOrder(
                        TakeOrderRequest.newBuilder().setRequestId(requestId).build());
    }

    /** Refuses an order as a host. Returns the order, which is still pending if another host has it now. */
    public Request refuseOrder(String requestId, String reason, boolean tryAnotherHost) {
        var refusal = RefuseOrderRequest.newBuilder().setRequestId(requestId).setReason(reason);
        return hosts().refuseOrder(refusal.setTryAnotherHost(tryAnotherHost).build())
                .getRequest();
    }

    /**
     * Reports that nothing runs anymore of the member that the caller, a host, started for this order.
     *
     * @param exit how it ended, if known
     */
    public void reportExit(String requestId, Optional<ExitReport> exit) {
        var report = ReportExitRequest.newBuilder().setRequestId(requestId);
        exit.ifPresent(report::setExit);
        hosts().reportExit(report.build());
    }

    /** Asks a member to shut down. Returns the id of the request, or of the one that is already pending. */
    public String requestShutdown(String member, String reason) {
        var request = ShutdownRequest.newBuilder().setRecipient(member).setReason(reason);
        try {
            return send(SendRequest.newBuilder().setShutdownRequest(request)).getRequestId();
        } catch (TeamwireException refused) {
            var pending = refused.metadata().get("request_id");
            if (!refused.reason().equals("SHUTDOWN_PENDING") || pending == null) {
                throw refused;
            }
            return pending;
        }
    }

    /**
     * Asks a member to shut down, and waits for its decision and, unless it refuses, its exit. Returns after this time at the
     * latest. Joins a request that is already pending for the member.
     */
    public Shutdown shutdown(String member, String reason, Duration patience) {
        var end = Deadline.after(patience.toMillis(), TimeUnit.MILLISECONDS);
        var request = waitDecision(requestShutdown(member, reason), patience);
        var ends = request.getState() == RequestState.REQUEST_STATE_APPROVED
                || request.getState() == RequestState.REQUEST_STATE_CANCELLED;
        return new Shutdown(request, ends ? waitExit(request, end) : Optional.empty());
    }

    /** Waits until the life of the member that was asked has ended, and returns how. */
    private Optional<ExitReport> waitExit(Request request, Deadline end) {
        for (var delay = EXIT_DELAY_MIN_MS; ; delay = Math.min(2 * delay, EXIT_DELAY_MAX_MS)) {
            var asked = members().stream()
                    .filter(member -> member.getName().equalsIgnoreCase(request.getMember())
                            && member.getIncarnation() == request.getIncarnation())
                    .findFirst();
            var state = asked.map(Member::getState).orElse(MemberState.MEMBER_STATE_LOST);
            if (state == MemberState.MEMBER_STATE_EXITED || state == MemberState.MEMBER_STATE_LOST) {
                return asked.filter(Member::hasExit).map(Member::getExit);
            }
            if (end.isExpired()) {
                return Optional.empty();
            }
            try {
                Thread.sleep(Math.max(0, Math.min(delay, end.timeRemaining(TimeUnit.MILLISECONDS))));
            } catch (InterruptedException e) {
                throw Subscription.interrupted();
            }
        }
    }

    /** Stops a member at once, without asking it. Returns the member after the change. */
    public Member forceStop(String member, String reason) {
        var request = ForceStopRequest.newBuilder().setMember(member).setReason(reason);
        return teams().forceStop(request.build()).getMember();
    }

    /** Makes another member the lead. Returns the team after the change. */
    public Team handOver(String member) {
        return teams().setLead(SetLeadRequest.newBuilder().setMember(member).build())
                .getTeam();
    }

    /** Deletes a team and everything in it. Refused while a member other than the caller is live. */
    public void deleteTeam(String name) {
        teams().deleteTeam(DeleteTeamRequest.newBuilder().setTeam(name).build());
    }

    /** Ends the member's life with the exit code of its process. Call it last. */
    public void leave(int code) {
        var exit = ExitReport.newBuilder().setCode(code);
        teams().leave(LeaveRequest.newBuilder().setExit(exit).build());
    }

    /** Ends every call and subscription at once. */
    @Override
    public void close() {
        channels.close();
    }

    @Override
    public String toString() {
        return "Teamwire[" + name() + " at " + settings.get(Settings.ADDRESS) + "]";
    }
}
