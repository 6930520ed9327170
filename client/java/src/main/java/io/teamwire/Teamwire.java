package io.teamwire;

import io.grpc.Deadline;
import io.teamwire.v1.Broadcast;
import io.teamwire.v1.DirectMessage;
import io.teamwire.v1.ExitReport;
import io.teamwire.v1.HistoryServiceGrpc;
import io.teamwire.v1.HistoryServiceGrpc.HistoryServiceBlockingStub;
import io.teamwire.v1.JoinRequest;
import io.teamwire.v1.LeaveRequest;
import io.teamwire.v1.Message;
import io.teamwire.v1.MessageServiceGrpc;
import io.teamwire.v1.MessageServiceGrpc.MessageServiceBlockingStub;
import io.teamwire.v1.PlanApprovalRequest;
import io.teamwire.v1.PlanApprovalResponse;
import io.teamwire.v1.Request;
import io.teamwire.v1.RequestServiceGrpc;
import io.teamwire.v1.RequestServiceGrpc.RequestServiceBlockingStub;
import io.teamwire.v1.RequestState;
import io.teamwire.v1.SendRequest;
import io.teamwire.v1.SendResponse;
import io.teamwire.v1.ShutdownResponse;
import io.teamwire.v1.TaskServiceGrpc;
import io.teamwire.v1.TaskServiceGrpc.TaskServiceBlockingStub;
import io.teamwire.v1.TeamServiceGrpc;
import io.teamwire.v1.TeamServiceGrpc.TeamServiceBlockingStub;
import io.teamwire.v1.WaitForDecisionRequest;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A member of a team, or another caller, at one of the coordinators that share a store.
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
 *     if (inbox.ending().orElseThrow().getReason() == CLOSE_REASON_SHUTDOWN_APPROVED) {
 *         me.leave(0);
 *     }
 * }
 * }</pre>
 *
 * <p>Every call of the protocol is there on the generated stubs: {@link #messages()}, {@link #teams()},
 * {@link #requests()}, {@link #tasks()}, {@link #history()}. A call blocks its thread, is tried again with the same
 * idempotency key until its outcome is known or 10 minutes are over (or what the stub's {@code withDeadlineAfter} says),
 * and throws a {@link TeamwireException}. What streams is tried once, and throws gRPC's own exceptions, which
 * {@link TeamwireException#of} reads.
 *
 * <p>Safe for use by several threads. It connects when it is first used, and again whenever it must.
 */
public final class Teamwire implements AutoCloseable {
    private final Map<String, String> settings;
    private final Links links;
    private final Calls calls;

    private Teamwire(Map<String, String> settings, Links links) {
        this.settings = settings;
        this.links = links;
        calls = new Calls(links, settings);
    }

    /** Makes a client of whom the environment, or else the context file, names. Nothing is sent yet. */
    public static Teamwire connect() {
        return connect(Map.of());
    }

    /**
     * Makes a client of whom the program names.
     *
     * @param settings go before the environment, by the names of its variables: {@code TEAMWIRE_ADDRESS},
     *     {@code TEAMWIRE_CREDENTIAL}, {@code TEAMWIRE_TEAM}, {@code TEAMWIRE_CA}, {@code TEAMWIRE_CERT},
     *     {@code TEAMWIRE_KEY}, {@code TEAMWIRE_CONTEXT}, {@code TEAMWIRE_AS}; an empty one is not set
     */
    public static Teamwire connect(Map<String, String> settings) {
        var all = Settings.find(settings, System.getenv());
        return new Teamwire(all, new Links(all));
    }

    /**
     * Joins a team with what {@code teamwire invite} has printed, and makes a client of the new member.
     *
     * @param name the name to bear; may be empty when the invitation is bound to one
     */
    public static Teamwire join(String joinString, String name) {
        var stranger = connect(Settings.joining(joinString));
        try {
            var request = JoinRequest.newBuilder().setName(name).build();
            var member = new HashMap<>(stranger.settings);
            member.put(Settings.CREDENTIAL, stranger.teams().join(request).getCredential());
            return new Teamwire(member, stranger.links);
        } catch (RuntimeException e) {
            stranger.close();
            throw e;
        }
    }

    /** Returns the member's name, or an empty text for what is no member. */
    public String member() {
        // A credential says in clear what it is for: KIND:TEAM:WHO:SECRET.
        var parts = settings.get(Settings.CREDENTIAL).split(":");
        return parts.length == 4 && parts[0].equals("twm") ? parts[2] : "";
    }

    /** Returns the calls on messages. */
    public MessageServiceBlockingStub messages() {
        return MessageServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the calls on teams and their members. */
    public TeamServiceBlockingStub teams() {
        return TeamServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the calls on requests. */
    public RequestServiceBlockingStub requests() {
        return RequestServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the calls on the task board. */
    public TaskServiceBlockingStub tasks() {
        return TaskServiceGrpc.newBlockingStub(calls);
    }

    /** Returns the calls on the history. */
    public HistoryServiceBlockingStub history() {
        return HistoryServiceGrpc.newBlockingStub(calls);
    }

    /**
     * Subscribes to the caller's own inbox. An older subscription of the same member ends, and calls are refused once
     * another process has taken over.
     */
    public Subscription subscribe() {
        return new Subscription(calls);
    }

    /** Sends one message of any kind. */
    public SendResponse send(SendRequest.Builder message) {
        return messages().send(message.build());
    }

    /** Sends a text to one member. */
    public SendResponse message(String recipient, String summary, String content) {
        return send(direct(recipient, summary, content));
    }

    /** Answers a message, with a text to its sender. */
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

    /** Approves the shutdown that the caller was asked for, which is recorded when this returns: end the process. */
    public SendResponse approveShutdown(String requestId) {
        return answerShutdown(requestId, true, "");
    }

    /** Refuses the shutdown that the caller was asked for. */
    public SendResponse rejectShutdown(String requestId, String reason) {
        return answerShutdown(requestId, false, reason);
    }

    private SendResponse answerShutdown(String requestId, boolean approve, String reason) {
        var answer = ShutdownResponse.newBuilder().setRequestId(requestId).setApprove(approve);
        return send(SendRequest.newBuilder().setShutdownResponse(answer.setReason(reason)));
    }

    /** Asks the lead to approve a plan, and returns the request's id. */
    public String submitPlan(String plan, String summary) {
        var request = PlanApprovalRequest.newBuilder().setPlan(plan).setSummary(summary);
        return send(SendRequest.newBuilder().setPlanApprovalRequest(request)).getRequestId();
    }

    /** Answers the plan of a member. */
    public SendResponse answerPlan(String author, String requestId, boolean approve, String feedback) {
        var answer = PlanApprovalResponse.newBuilder().setRecipient(author).setRequestId(requestId);
        answer.setApprove(approve).setFeedback(feedback);
        return send(SendRequest.newBuilder().setPlanApprovalResponse(answer));
    }

    /** Waits until a request is decided, and returns it; still pending when this time is over. */
    public Request waitDecision(String requestId, Duration patience) {
        var end = Deadline.after(patience.toMillis(), TimeUnit.MILLISECONDS);
        while (true) {
            // A call waits for 60 s at most.
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

    /** Ends the member's life, and says with which code its process ends: the last thing that it does. */
    public void leave(int code) {
        var exit = ExitReport.newBuilder().setCode(code);
        teams().leave(LeaveRequest.newBuilder().setExit(exit).build());
    }

    /** Ends every call and subscription at once. */
    @Override
    public void close() {
        links.close();
    }

    @Override
    public String toString() {
        return "Teamwire[" + member() + " at " + settings.get(Settings.ADDRESS) + "]";
    }
}
