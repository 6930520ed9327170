package io.teamwire;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.teamwire.v1.ClaimNextTaskRequest;
import io.teamwire.v1.CreateTeamRequest;
import io.teamwire.v1.JoinRequest;
import io.teamwire.v1.TeamServiceGrpc;
import io.teamwire.v1.WaitForDecisionRequest;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * What the generated stubs call through: dresses every call with the credential and the session, and tries unary calls
 * again, with the same idempotency key, until their outcome is known.
 *
 * <p>A unary call is carried out while the stub half-closes it, on the thread of the caller, which gets a
 * {@link TeamwireException} thrown right there. So it is for blocking stubs.
 */
final class Calls extends Channel {
    /** How long one attempt may take, besides what the request has the coordinator wait. */
    private static final Duration ATTEMPT = Duration.ofSeconds(10);

    /** How long a call has the coordinator wait at most. */
    private static final long WAIT_SECONDS_MAX = 60;

    /** What may not be repeated while its outcome is unknown. */
    private static final Set<MethodDescriptor<?, ?>> ONCE =
            Set.of(TeamServiceGrpc.getDeleteTeamMethod(), TeamServiceGrpc.getSetLeadMethod());

    private static final Metadata.Key<String> AUTHORIZATION = key("authorization");
    private static final Metadata.Key<String> SESSION = key("teamwire-session");
    private static final System.Logger LOG = System.getLogger("io.teamwire");

    final Links links;
    private final Identity identity;
    private final Duration patience;

    /** The session that calls belong to. Empty: there never was one. */
    private String session = "";

    /** True while the subscription opens another session, which ends this one. */
    private boolean isReopening;

    Calls(Links links, Identity identity, Duration patience) {
        this.links = links;
        this.identity = identity;
        this.patience = patience;
    }

    @Override
    public String authority() {
        return links.channel().authority();
    }

    @Override
    public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
        return method.getType() == MethodType.UNARY
                ? new Unary<>(method, options)
                : on(links.channel(), session(), new Metadata()).newCall(method, options);
    }

    /** Returns a channel that dresses its calls. */
    Channel on(ManagedChannel link, String session, Metadata headers) {
        headers.put(AUTHORIZATION, "Bearer " + identity.credential());
        if (!session.isEmpty()) {
            headers.put(SESSION, session);
        }
        return ClientInterceptors.intercept(link, MetadataUtils.newAttachHeadersInterceptor(headers));
    }

    private synchronized String session() {
        return session;
    }

    /** Notes that the subscription opens a session, or has given up to. */
    synchronized void reopening(boolean isReopening) {
        this.isReopening = isReopening;
        notifyAll();
    }

    synchronized void opened(String session) {
        this.session = session;
        reopening(false);
    }

    /**
     * Returns whether the session that a refused call was made in has been replaced by one of our own. A subscription
     * that reconnects ends its own earlier session, and nobody else has taken over.
     */
    private synchronized boolean hasReplaced(String refused) throws InterruptedException {
        var end = Deadline.after(ATTEMPT.toMillis(), TimeUnit.MILLISECONDS);
        while (session.equals(refused) && isReopening && !end.isExpired()) {
            wait(Math.max(1, end.timeRemaining(TimeUnit.MILLISECONDS)));
        }
        return !session.equals(refused);
    }

    /** Makes one call, as often as its effect and the client's patience allow. */
    private <Q, A> A persist(MethodDescriptor<Q, A> method, CallOptions options, Metadata headers, Q request) {
        var mine = Deadline.after(patience.toMillis(), TimeUnit.MILLISECONDS);
        var deadline = options.getDeadline() == null ? mine : options.getDeadline();
        var attempt = ATTEMPT.plusSeconds(waits(request)).toMillis();
        var delays = new Delays();
        while (true) {
            var link = links.channel();
            var session = session();
            var dressed = new Metadata();
            dressed.merge(headers);
            var until = Deadline.after(attempt, TimeUnit.MILLISECONDS);
            try {
                return ClientCalls.blockingUnaryCall(
                        on(link, session, dressed), method, options.withDeadline(until.minimum(deadline)), request);
            } catch (StatusRuntimeException thrown) {
                var failure = TeamwireException.of(thrown);
                links.judge(link, failure);
                if (Thread.currentThread().isInterrupted() || Context.current().isCancelled()) {
                    throw failure;
                }
                try {
                    if (failure.reason().equals("SESSION_SUPERSEDED") && hasReplaced(session)) {
                        continue;
                    }
                    var delay = delays.after(failure).toMillis();
                    if (!failure.isPassing(!ONCE.contains(method))
                            || delay >= deadline.timeRemaining(TimeUnit.MILLISECONDS)) {
                        throw failure;
                    }
                    LOG.log(Level.DEBUG, "{0} again in {1} ms: {2}", method.getBareMethodName(), delay, failure);
                    Thread.sleep(delay);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw failure;
                }
            }
        }
    }

    /** Puts in what the program may leave out: the team, and a key that is the same for all attempts. */
    @SuppressWarnings("unchecked")
    private <Q> Q fill(Q request) {
        if (!(request instanceof Message message)) {
            return request;
        }
        // Who repeats a call with its key is given the credential; other keys are the cheapest to keep by time.
        var isSecret = request instanceof JoinRequest || request instanceof CreateTeamRequest;
        var filled = message.toBuilder();
        fill(filled, "team", identity.team());
        fill(filled, "idempotency_key", (isSecret ? UUID.randomUUID() : uuidOfNow()).toString());
        return (Q) filled.build();
    }

    private static void fill(Message.Builder message, String name, String value) {
        var field = message.getDescriptorForType().findFieldByName(name);
        if (field != null && message.getField(field).equals("")) {
            message.setField(field, value);
        }
    }

    /** Makes a UUID of version 7. */
    static UUID uuidOfNow() {
        var random = ThreadLocalRandom.current();
        return new UUID(
                System.currentTimeMillis() << 16 | 0x7000 | random.nextInt(1 << 12),
                random.nextLong() >>> 2 | Long.MIN_VALUE);
    }

    /** Returns how many seconds a request has the coordinator wait before it answers. */
    private static long waits(Object request) {
        long seconds = 0;
        if (request instanceof WaitForDecisionRequest wait) {
            seconds = wait.hasTimeout() ? wait.getTimeout().getSeconds() + 1 : 30;
        } else if (request instanceof ClaimNextTaskRequest claim) {
            seconds = claim.getWait().getSeconds() + 1;
        }
        return Math.max(0, Math.min(WAIT_SECONDS_MAX, seconds));
    }

    private static Metadata.Key<String> key(String name) {
        return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    }

    private final class Unary<Q, A> extends ClientCall<Q, A> {
        private final MethodDescriptor<Q, A> method;
        private final CallOptions options;
        private Listener<A> listener;
        private Metadata headers;
        private Q request;

        Unary(MethodDescriptor<Q, A> method, CallOptions options) {
            this.method = method;
            this.options = options;
        }

        @Override
        public void start(Listener<A> listener, Metadata headers) {
            this.listener = listener;
            this.headers = headers;
        }

        @Override
        public void sendMessage(Q request) {
            this.request = fill(request);
        }

        @Override
        public void halfClose() {
            var reply = persist(method, options, headers, request);
            listener.onMessage(reply);
            listener.onClose(Status.OK, new Metadata());
        }

        @Override
        public void request(int messages) {}

        /** There is nothing to cancel: it is over when {@link #halfClose()} returns. */
        @Override
        public void cancel(String message, Throwable cause) {}
    }
}
