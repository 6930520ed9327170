package io.teamwire;

import io.grpc.Context;
import io.grpc.Deadline;
import io.teamwire.v1.AccessServiceGrpc;
import io.teamwire.v1.AccessServiceGrpc.AccessServiceBlockingStub;
import io.teamwire.v1.AuditServiceGrpc;
import io.teamwire.v1.AuditServiceGrpc.AuditServiceBlockingStub;
import io.teamwire.v1.CreateTeamRequest;
import io.teamwire.v1.DirectMessage;
import io.teamwire.v1.ExitReport;
import io.teamwire.v1.HistoryServiceGrpc;
import io.teamwire.v1.HistoryServiceGrpc.HistoryServiceBlockingStub;
import io.teamwire.v1.Host;
import io.teamwire.v1.HostServiceGrpc;
import io.teamwire.v1.HostServiceGrpc.HostServiceBlockingStub;
import io.teamwire.v1.JoinRequest;
import io.teamwire.v1.LeaveRequest;
import io.teamwire.v1.ListHostsRequest;
import io.teamwire.v1.ListMembersRequest;
import io.teamwire.v1.Member;
import io.teamwire.v1.MemberState;
import io.teamwire.v1.Message;
import io.teamwire.v1.MessageServiceGrpc;
import io.teamwire.v1.MessageServiceGrpc.MessageServiceBlockingStub;
import io.teamwire.v1.Request;
import io.teamwire.v1.RequestServiceGrpc;
import io.teamwire.v1.RequestServiceGrpc.RequestServiceBlockingStub;
import io.teamwire.v1.RequestState;
import io.teamwire.v1.SendRequest;
import io.teamwire.v1.SendResponse;
import io.teamwire.v1.ShutdownRequest;
import io.teamwire.v1.TaskServiceGrpc;
import io.teamwire.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import io.teamwire.v1.TeamServiceGrpc;
import io.teamwire.v1.TeamServiceGrpc.TeamServiceBlockingStub;
import io.teamwire.v1.WaitForDecisionRequest;
import io.teamwire.v1.WatchServiceGrpc;
import io.teamwire.v1.WatchServiceGrpc.WatchServiceBlockingStub;
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
public final class Teamwire extends Helpers implements AutoCloseable {
    private static final int PAGE_SIZE_MAX = 1_000;

    /** The first and the longest delay between two looks at a member that is exiting, in milliseconds. */
    private static final long EXIT_DELAY_MIN_MS = 100;

    private static final long EXIT_DELAY_MAX_MS = 1_000;

    private final Map<String, String> settings;
    private final Channels channels;
    final Calls calls;

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
    @Override
    public MessageServiceBlockingStub messages() {
        return MessageServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for teams and members. */
    @Override
    public TeamServiceBlockingStub teams() {
        return TeamServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the stub for requests. */
    @Override
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
    @Override
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

    /** Waits until a request is decided and returns it; after this time returns it still pending. */
    public Request waitDecision(String requestId, Duration patience) {
        var end = Deadline.after(patience.toMillis(), TimeUnit.MILLISECONDS);
        while (true) {
            var question = WaitForDecisionRequest.newBuilder().setRequestId(requestId);
            // A coordinator that does not answer must not make the wait longer.
            var bounded = requests().withOption(Calls.UNTIL, end);
            var request = bounded.waitForDecision(question.build()).getRequest();
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

    /** Lists all members in the order in which they first joined, including those that have exited. */
    public List<Member> members() {
        return members(teams());
    }

    private static List<Member> members(TeamServiceBlockingStub teams) {
        var members = new ArrayList<Member>();
        var request = ListMembersRequest.newBuilder().setPageSize(PAGE_SIZE_MAX);
        do {
            var page = teams.listMembers(request.build());
            members.addAll(page.getMembersList());
            request.setPageToken(page.getNextPageToken());
        } while (!request.getPageToken().isEmpty());
        return members;
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
        var requestId = requestShutdown(member, reason);
        var left = Math.max(0, end.timeRemaining(TimeUnit.MILLISECONDS));
        var request = waitDecision(requestId, Duration.ofMillis(left));
        var ends = request.getState() == RequestState.REQUEST_STATE_APPROVED
                || request.getState() == RequestState.REQUEST_STATE_CANCELLED;
        return new Shutdown(request, ends ? waitExit(request, end) : Optional.empty());
    }

    /** Waits until the life of the member that was asked has ended, and returns how. */
    private Optional<ExitReport> waitExit(Request request, Deadline end) {
        for (var delay = EXIT_DELAY_MIN_MS; ; delay = Math.min(2 * delay, EXIT_DELAY_MAX_MS)) {
            List<Member> members;
            try {
                // A coordinator that does not answer must not make the wait longer.
                members = members(teams().withDeadline(end));
            } catch (TeamwireException failure) {
                var isStopped = Thread.currentThread().isInterrupted()
                        || Context.current().isCancelled();
                if (isStopped || !failure.isRetryable()) {
                    throw failure;
                }
                return Optional.empty(); // the time left is too short for another attempt
            }
            var asked = members.stream()
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
