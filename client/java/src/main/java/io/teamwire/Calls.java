package io.teamwire;

import com.google.protobuf.Duration;
import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.lang.System.Logger.Level;
import java.util.Map;
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
    /** How long one attempt may take, besides the time that its request has the coordinator wait. */
    private static final int ATTEMPT_SECONDS = 10;

    /** How long a call takes at most where the program has not said it. */
    private static final int PATIENCE_SECONDS = 600;

    private static final Metadata.Key<String> AUTHORIZATION = key("authorization");
    private static final Metadata.Key<String> SESSION = key("teamwire-session");
    private static final System.Logger LOG = System.getLogger("io.teamwire");

    /**
     * The session that calls belong to.
     *
     * @param id empty: there never was one
     * @param isReopening the subscription opens another one, which ends this
     */
    record Session(String id, boolean isReopening) {}

    final Links links;
    private final Map<String, String> settings;
    private volatile Session session = new Session("", false);

    Calls(Links links, Map<String, String> settings) {
        this.links = links;
        this.settings = settings;
    }

    @Override
    public String authority() {
        return links.channel().authority();
    }

    @Override
    public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
        return method.getType() == MethodType.UNARY
                ? new Unary<>(method, options)
                : on(links.channel(), session.id, new Metadata()).newCall(method, options);
    }

    /** Returns a channel that dresses its calls. */
    Channel on(Channel link, String session, Metadata more) {
        var headers = new Metadata();
        headers.merge(more);
        headers.put(AUTHORIZATION, "Bearer " + settings.get(Settings.CREDENTIAL));
        if (!session.isEmpty()) {
            headers.put(SESSION, session);
        }
        return ClientInterceptors.intercept(link, MetadataUtils.newAttachHeadersInterceptor(headers));
    }

    /** Notes that the subscription has opened a session. */
    void opened(String id) {
        session = new Session(id, false);
    }

    /** Notes that the subscription opens another session, or has given up to. */
    void reopening(boolean isReopening) {
        session = new Session(session.id, isReopening);
    }

    /** Returns whether TLS stands in the way everywhere, and did from the start: somebody must change something. */
    boolean isHopeless(TeamwireException failure, int attempts) {
        return failure.isInsecure() && session.id.isEmpty() && links.areTried(attempts);
    }

    /**
     * Returns how many milliseconds to wait after so many attempts: a random time between 0 and a bound that doubles from
     * 100 ms to 5 s, so that clients which lost the same coordinator do not come back in step.
     */
    static long delay(int attempts, TeamwireException failure) {
        var bound = Math.min(5_000, 100L << Math.min(attempts - 1, 6));
        // One that drains asks to be left, and another one is there.
        var asked =
                failure.reason().equals("DRAINING") ? 0 : failure.retryAfter().toMillis();
        return Math.max(asked, ThreadLocalRandom.current().nextLong(bound + 1));
    }

    /** Makes one call, as often as its effect and the program's patience allow. */
    private <Q, A> A persist(MethodDescriptor<Q, A> method, CallOptions options, Metadata headers, Q request) {
        var patience = Deadline.after(PATIENCE_SECONDS, TimeUnit.SECONDS);
        var deadline = options.getDeadline() == null ? patience : options.getDeadline();
        for (var attempts = 1; ; attempts++) {
            var link = links.channel();
            var began = session;
            var until = Deadline.after(
                    ATTEMPT_SECONDS + waits(method.getBareMethodName(), (Message) request), TimeUnit.SECONDS);
            try {
                var limited = options.withDeadline(until.minimum(deadline));
                return ClientCalls.blockingUnaryCall(on(link, began.id, headers), method, limited, request);
            } catch (StatusRuntimeException thrown) {
                var failure = TeamwireException.of(thrown);
                links.leave(link, failure);
                // A subscription that reconnects ends its own earlier session, and nobody else has taken over.
                var isOvertaken = failure.reason().equals("SESSION_SUPERSEDED")
                        && (session.isReopening || !session.id.equals(began.id));
                var delay = delay(attempts, failure);
                if (!(isOvertaken || failure.isPassing(!Policy.isOnce(method.getBareMethodName())))
                        || isHopeless(failure, attempts)
                        || delay >= deadline.timeRemaining(TimeUnit.MILLISECONDS)
                        || Context.current().isCancelled()) {
                    throw failure;
                }
                LOG.log(Level.DEBUG, "{0} again in {1} ms: {2}", method.getBareMethodName(), delay, failure);
                try {
                    // Throws at once where the program has interrupted the call.
                    Thread.sleep(delay);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw failure;
                }
            }
        }
    }

    /** Returns how many seconds a request has the coordinator wait before it answers. */
    private static long waits(String method, Message request) {
        var wait = Policy.waitOf(method);
        var field = request.getDescriptorForType().findFieldByName(wait.field());
        if (field == null || !request.hasField(field)) {
            return wait.absent();
        }
        return Math.max(0, Math.min(wait.most(), ((Duration) request.getField(field)).getSeconds() + 1));
    }

    /** Puts in what the program may leave out: the team, and a key that is the same for all attempts. */
    @SuppressWarnings("unchecked")
    private <Q> Q fill(Q request, boolean isSecret) {
        var filled = ((Message) request).toBuilder();
        var key = isSecret ? UUID.randomUUID() : uuidOfNow();
        Map.of("team", settings.getOrDefault(Settings.TEAM, ""), "idempotency_key", key.toString())
                .forEach((name, value) -> {
                    var field = filled.getDescriptorForType().findFieldByName(name);
                    if (field != null && filled.getField(field).equals("")) {
                        filled.setField(field, value);
                    }
                });
        return (Q) filled.build();
    }

    /** Makes a UUID of version 7, which sorts by time: the cheapest for a coordinator to keep. */
    private static UUID uuidOfNow() {
        var random = ThreadLocalRandom.current();
        var time = System.currentTimeMillis() << 16 | 0x7000 | random.nextInt(1 << 12);
        return new UUID(time, random.nextLong() >>> 2 | Long.MIN_VALUE);
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
            this.request = fill(request, Policy.isSecret(method.getBareMethodName()));
        }

        @Override
        public void halfClose() {
            listener.onMessage(persist(method, options, headers, request));
            listener.onClose(Status.OK, new Metadata());
        }

        @Override
        public void request(int messages) {}

        /** There is nothing to cancel: it is over when {@link #halfClose()} returns. */
        @Override
        public void cancel(String message, Throwable cause) {}
    }
}
