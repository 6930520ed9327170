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
 * The channel of the generated stubs. Adds the credential and the session to every call, and retries unary calls with the
 * same idempotency key until their outcome is known.
 *
 * <p>A unary call runs while the stub half-closes it, on the caller's thread, and throws a {@link TeamwireException} there.
 * So this channel only supports blocking stubs.
 */
final class Calls extends Channel {
    /** How long one attempt may take, in addition to the time that the request asks the coordinator to wait. */
    static final int ATTEMPT_SECONDS = 10;

    /**
     * When the caller of a call that waits stops waiting: no attempt begins later, and none asks the coordinator to wait
     * longer.
     */
    static final CallOptions.Key<Deadline> UNTIL = CallOptions.Key.create("teamwire-until");

    /** How long a call may take, with all of its attempts, unless the program sets a deadline. */
    private static final int PATIENCE_SECONDS = 600;

    /** An attempt that breaks after this time has waited at a coordinator, if the call is one that waits. */
    private static final long WAITED_MIN_MS = 1_000;

    private static final Metadata.Key<String> AUTHORIZATION = key("authorization");
    private static final Metadata.Key<String> SESSION = key("teamwire-session");
    private static final System.Logger LOG = System.getLogger("io.teamwire");

    /**
     * The session that calls carry.
     *
     * @param id empty before the first session
     * @param isReopening whether the subscription is opening another one, which supersedes this one
     */
    record Session(String id, boolean isReopening) {}

    final Channels channels;
    private final Map<String, String> settings;
    private volatile Session session = new Session("", false);

    /** How long a call may take, in seconds. For tests. */
    volatile int patience = PATIENCE_SECONDS;

    Calls(Channels channels, Map<String, String> settings) {
        this.channels = channels;
        this.settings = settings;
    }

    @Override
    public String authority() {
        return channels.channel().authority();
    }

    @Override
    public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
        return method.getType() == MethodType.UNARY
                ? new Unary<>(method, options)
                : on(channels.channel(), session.id, new Metadata()).newCall(method, options);
    }

    /** Returns a channel that adds the headers to its calls. */
    Channel on(Channel channel, String session, Metadata more) {
        var headers = new Metadata();
        headers.merge(more);
        headers.put(AUTHORIZATION, "Bearer " + settings.get(Settings.CREDENTIAL));
        if (!session.isEmpty()) {
            headers.put(SESSION, session);
        }
        return ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers));
    }

    /** Records that the subscription has opened a session. */
    void opened(String id) {
        session = new Session(id, false);
    }

    /** Records whether the subscription is opening another session. */
    void reopening(boolean isReopening) {
        session = new Session(session.id, isReopening);
    }

    /** Returns whether TLS has failed at every address since the start, so that retrying is pointless. */
    boolean isHopeless(TeamwireException failure, int attempts) {
        return failure.isTlsFailure() && session.id.isEmpty() && channels.areTried(attempts);
    }

    /**
     * Returns how many milliseconds to wait after this many attempts: a random time between 0 and a bound that doubles from
     * 100 ms to 5 s, so that clients that lost the same coordinator do not return all at once.
     */
    static long delay(int attempts, TeamwireException failure) {
        var bound = Math.min(5_000, 100L << Math.min(attempts - 1, 6));
        // A draining coordinator asks clients to switch to another one, not to wait.
        var asked =
                failure.reason().equals("DRAINING") ? 0 : failure.retryAfter().toMillis();
        return Math.max(asked, ThreadLocalRandom.current().nextLong(bound + 1));
    }

    /** Makes a call, and retries it as its effect and the deadline allow. */
    private <Q, A> A persist(MethodDescriptor<Q, A> method, CallOptions options, Metadata headers, Q request) {
        var own = options.getDeadline();
        var giveUp = own == null ? Deadline.after(patience, TimeUnit.SECONDS) : own;
        var end = options.getOption(UNTIL);
        var hasMaybeChanged = false;
        for (var attempts = 1; ; attempts++) {
            var channel = channels.channel();
            var began = session;
            var tried = System.nanoTime();
            var asked = end == null ? request : limitWait(method.getBareMethodName(), request, end);
            var wait = waits(method.getBareMethodName(), (Message) asked);
            var until = Deadline.after(ATTEMPT_SECONDS + wait, TimeUnit.SECONDS);
            try {
                var limited = options.withDeadline(own == null ? until : until.minimum(own));
                return ClientCalls.blockingUnaryCall(on(channel, began.id, headers), method, limited, asked);
            } catch (StatusRuntimeException thrown) {
                var failure = TeamwireException.of(thrown);
                channels.leave(channel, failure);
                // Our own reconnecting subscription, not another process, has superseded the session.
                var isOvertaken = failure.reason().equals("SESSION_SUPERSEDED")
                        && (session.isReopening || !session.id.equals(began.id));
                var waited = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - tried);
                if (own == null && wait > 0 && failure.isBroken() && waited >= WAITED_MIN_MS) {
                    // Another outage begins.
                    giveUp = Deadline.after(patience, TimeUnit.SECONDS);
                    attempts = 1;
                }
                var last = end == null ? giveUp : giveUp.minimum(end);
                var delay = delay(attempts, failure);
                hasMaybeChanged |= failure.mayHaveChanged(method.getBareMethodName());
                failure.conclude(method.getBareMethodName(), hasMaybeChanged);
                if (!(isOvertaken || failure.isRetried(!Policy.isOnce(method.getBareMethodName())))
                        || isHopeless(failure, attempts)
                        || delay >= last.timeRemaining(TimeUnit.MILLISECONDS)
                        || Context.current().isCancelled()) {
                    throw failure;
                }
                LOG.log(Level.DEBUG, "retrying {0} in {1} ms: {2}", method.getBareMethodName(), delay, failure);
                try {
                    // Throws at once if the program has interrupted the thread.
                    Thread.sleep(delay);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw failure;
                }
            }
        }
    }

    /** Returns how many seconds a request asks the coordinator to wait before it answers. */
    private static long waits(String method, Message request) {
        var wait = Policy.waitOf(method);
        var field = request.getDescriptorForType().findFieldByName(wait.field());
        if (field == null || !request.hasField(field)) {
            return wait.absent();
        }
        var asked = (Duration) request.getField(field);
        return Math.max(0, Math.min(wait.most(), asked.getSeconds() + (asked.getNanos() > 0 ? 1 : 0)));
    }

    /** Returns a request that asks the coordinator to wait only for what is left of the time. */
    @SuppressWarnings("unchecked")
    private static <Q> Q limitWait(String method, Q request, Deadline end) {
        var field = ((Message) request)
                .getDescriptorForType()
                .findFieldByName(Policy.waitOf(method).field());
        var left = Math.max(0, end.timeRemaining(TimeUnit.NANOSECONDS));
        var wait = Duration.newBuilder().setSeconds(left / 1_000_000_000).setNanos((int) (left % 1_000_000_000));
        return (Q) ((Message) request).toBuilder().setField(field, wait.build()).build();
    }

    /** Fills in the team and the idempotency key where the program left them empty. */
    @SuppressWarnings("unchecked")
    private <Q> Q fill(Q request, boolean isSecret) {
        var filled = ((Message) request).toBuilder();
        var key = isSecret ? UUID.randomUUID() : uuidV7();
        Map.of("team", settings.getOrDefault(Settings.TEAM, ""), "idempotency_key", key.toString())
                .forEach((name, value) -> {
                    var field = filled.getDescriptorForType().findFieldByName(name);
                    if (field != null && filled.getField(field).equals("")) {
                        filled.setField(field, value);
                    }
                });
        return (Q) filled.build();
    }

    /** Returns a UUID version 7. It sorts by time, so it is the cheapest for a coordinator to store. */
    private static UUID uuidV7() {
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

        /** Does nothing: the call is complete when {@link #halfClose()} returns. */
        @Override
        public void cancel(String message, Throwable cause) {}
    }
}
