package io.teamwire;

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
 *     if (inbox.ending().orElseThrow().how() == SHUTDOWN_APPROVED) {
 *         me.leave(0);
 *     }
 * }
 * }</pre>
 *
 * <p>Every call of the protocol is there on the generated stubs: {@link #messages()}, {@link #teams()},
 * {@link #requests()}, {@link #tasks()}, {@link #history()}. A call blocks its thread, is tried again with the same
 * idempotency key until its outcome is known or the time of {@link Builder#patience} is over (a stub's own
 * {@code withDeadlineAfter} goes before that), and throws a {@link TeamwireException}. What streams is tried once, and
 * throws gRPC's own exceptions, which {@link TeamwireException#of} reads.
 *
 * <p>Safe for use by several threads. It connects when it is first used, and again whenever it must.
 */
public final class Teamwire implements AutoCloseable {
    /** How long one call waits for a decision at most. */
    private static final Duration WAIT_MAX = Duration.ofSeconds(60);

    private final Links links;
    private final Calls calls;
    private final Identity identity;

    private Teamwire(Links links, Identity identity, Duration patience) {
        this.links = links;
        this.identity = identity;
        calls = new Calls(links, identity, patience);
    }

    /** Makes a client of whom the environment, or else the context file, names. */
    public static Teamwire connect() {
        return builder().connect();
    }

    /**
     * Joins a team with what {@code teamwire invite} has printed, and makes a client of the new member.
     *
     * @param name the name to bear; may be empty when the invitation is bound to one
     */
    public static Teamwire join(String joinString, String name) {
        return builder().join(joinString, name);
    }

    /** Begins a client of which the program says more. */
    public static Builder builder() {
        return new Builder();
    }

    /** Returns the member's name, or an empty text for what is no member. */
    public String member() {
        return ofCredential("twm", 2);
    }

    /** Returns the team's name, or an empty text for an operator that has named none. */
    public String team() {
        return identity.team().isEmpty() ? ofCredential("tw[mjv]", 1) : identity.team();
    }

    /** A credential says in clear what it is for: {@code KIND:TEAM:WHO:SECRET}. */
    private String ofCredential(String kind, int part) {
        var parts = identity.credential().split(":");
        return parts.length == 4 && parts[0].matches(kind) ? parts[part] : "";
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
    public SendResponse send(SendRequest request) {
        return messages().send(request);
    }

    /** Sends a text to one member. */
    public SendResponse message(String recipient, String summary, String content) {
        return send(direct(recipient, summary, content).build());
    }

    /** Answers a message, with a text to its sender. */
    public SendResponse reply(Message message, String summary, String content) {
        return send(direct(message.getSender().getName(), summary, content)
                .setInReplyTo(message.getId())
                .build());
    }

    /** Sends a text to every other member. */
    public SendResponse broadcast(String summary, String content) {
        var broadcast = Broadcast.newBuilder().setSummary(summary).setContent(content);
        return send(SendRequest.newBuilder().setBroadcast(broadcast).build());
    }

    /** Approves the shutdown that the caller was asked for, which is recorded when this returns: end the process. */
    public SendResponse approveShutdown(String requestId) {
        return answerShutdown(requestId, true, "");
    }

    /** Refuses the shutdown that the caller was asked for. */
    public SendResponse rejectShutdown(String requestId, String reason) {
        return answerShutdown(requestId, false, reason);
    }

    /** Asks the lead to approve a plan, and returns the request's id. */
    public String submitPlan(String plan, String summary) {
        var request = PlanApprovalRequest.newBuilder().setPlan(plan).setSummary(summary);
        return send(SendRequest.newBuilder().setPlanApprovalRequest(request).build())
                .getRequestId();
    }

    /** Answers the plan of a member. */
    public SendResponse answerPlan(String author, String requestId, boolean approve, String feedback) {
        var answer = PlanApprovalResponse.newBuilder()
                .setRecipient(author)
                .setRequestId(requestId)
                .setApprove(approve)
                .setFeedback(feedback);
        return send(SendRequest.newBuilder().setPlanApprovalResponse(answer).build());
    }

    /** Waits until a request is decided, and returns it; still pending when this time is over. */
    public Request waitDecision(String requestId, Duration patience) {
        var end = System.nanoTime() + patience.toNanos();
        while (true) {
            var left = Math.max(0, Math.min(WAIT_MAX.toNanos(), end - System.nanoTime()));
            var timeout = com.google.protobuf.Duration.newBuilder()
                    .setSeconds(left / 1_000_000_000)
                    .setNanos((int) (left % 1_000_000_000));
            var request = requests()
                    .waitForDecision(WaitForDecisionRequest.newBuilder()
                            .setRequestId(requestId)
                            .setTimeout(timeout)
                            .build())
                    .getRequest();
            if (request.getState() != RequestState.REQUEST_STATE_PENDING || end - System.nanoTime() <= 0) {
                return request;
            }
        }
    }

    /** Ends the member's life, and says with which code its process ends: the last thing that it does. */
    public void leave(int code) {
        teams().leave(LeaveRequest.newBuilder()
                .setExit(ExitReport.newBuilder().setCode(code))
                .build());
    }

    /** Ends every call and subscription at once. */
    @Override
    public void close() {
        links.close();
    }

    @Override
    public String toString() {
        return "Teamwire[" + member() + "@" + team() + " at " + identity.address() + "]";
    }

    private SendResponse answerShutdown(String requestId, boolean approve, String reason) {
        var answer = ShutdownResponse.newBuilder()
                .setRequestId(requestId)
                .setApprove(approve)
                .setReason(reason);
        return send(SendRequest.newBuilder().setShutdownResponse(answer).build());
    }

    private static SendRequest.Builder direct(String recipient, String summary, String content) {
        return SendRequest.newBuilder()
                .setMessage(DirectMessage.newBuilder()
                        .setRecipient(recipient)
                        .setSummary(summary)
                        .setContent(content));
    }

    /** What a program says of who it is, before the environment and the context file do. */
    public static final class Builder {
        private final Map<String, String> said = new HashMap<>();
        private Duration patience = Duration.ofMinutes(10);

        private Builder() {}

        /** Says where the coordinator is: {@code https://HOST:PORT}, or several with commas between them. */
        public Builder address(String address) {
            return say("TEAMWIRE_ADDRESS", address);
        }

        /** Says with which credential to call. Then the context file is not read. */
        public Builder credential(String credential) {
            return say("TEAMWIRE_CREDENTIAL", credential);
        }

        /** Names the team: an operator must. */
        public Builder team(String team) {
            return say("TEAMWIRE_TEAM", team);
        }

        /** Says which identity of the context file to use: {@code NAME} or {@code NAME@TEAM}. */
        public Builder as(String who) {
            return say("TEAMWIRE_AS", who);
        }

        /** Says which authority to trust: the path of a file, or PEM. */
        public Builder ca(String ca) {
            return say("TEAMWIRE_CA", ca);
        }

        /** Says which certificate to show, with its key (PKCS #8): each the path of a file, or PEM. */
        public Builder certificate(String certificate, String key) {
            return say("TEAMWIRE_CERT", certificate).say("TEAMWIRE_KEY", key);
        }

        /** Says how long a call is tried. Default: 10 minutes. */
        public Builder patience(Duration patience) {
            this.patience = patience;
            return this;
        }

        /** Makes the client. Nothing is sent yet. */
        public Teamwire connect() {
            return client(Identity.find(this::variable));
        }

        /** See {@link Teamwire#join(String, String)}. */
        public Teamwire join(String joinString, String name) {
            var stranger = client(Identity.joining(joinString, this::variable));
            try {
                var joined = stranger.teams()
                        .join(JoinRequest.newBuilder().setName(name).build());
                return new Teamwire(stranger.links, stranger.identity.withCredential(joined.getCredential()), patience);
            } catch (RuntimeException e) {
                stranger.close();
                throw e;
            }
        }

        private Teamwire client(Identity identity) {
            return new Teamwire(new Links(identity.address(), identity.tls()), identity, patience);
        }

        private Builder say(String variable, String value) {
            said.put(variable, value);
            return this;
        }

        private String variable(String name) {
            return said.getOrDefault(name, System.getenv(name));
        }
    }
}
