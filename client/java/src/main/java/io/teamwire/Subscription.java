package io.teamwire;

import io.grpc.Channel;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusException;
import io.teamwire.v1.AckRequest;
import io.teamwire.v1.CloseReason;
import io.teamwire.v1.MessageServiceGrpc;
import io.teamwire.v1.SessionClosing;
import io.teamwire.v1.StreamRequest;
import io.teamwire.v1.StreamResponse;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingDeque;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

/**
 * A subscription to one's own inbox: each message once, through reconnects, shutdown requests before the others.
 *
 * <p>It reads the inbox at all times, on a daemon thread, and reconnects by itself. The iteration is over when the
 * subscription has ended, and {@link #ending()} says why; it throws a {@link TeamwireException} when the coordinator
 * refuses for good. What is not acknowledged when the process ends comes again in the next one.
 */
public final class Subscription implements Iterable<Delivery>, AutoCloseable {
    /** How long a session may take to open. */
    private static final long OPEN_MAX_MS = 10_000;

    /** How long a session must have held for its loss to be no sign of a coordinator in trouble. */
    private static final long SETTLED_AFTER_NS = 10_000_000_000L;

    /** How many messages wait for the program at most. Then nothing more is read, so that the coordinator waits. */
    private static final int DELIVERIES_MAX = 256;

    /** How many messages are remembered. When one that was forgotten comes again, it is handed out again. */
    private static final int WINDOW_IDS_MAX = 4_096;

    /** How many ids one call takes. */
    private static final int IDS_IN_A_CALL_MAX = 1_000;

    /** The refusals that end a subscription with a value. */
    private static final Map<String, CloseReason> ENDS = Map.of(
            "SESSION_SUPERSEDED", CloseReason.CLOSE_REASON_SUPERSEDED,
            "TEAM_NOT_FOUND", CloseReason.CLOSE_REASON_TEAM_DELETED,
            "MEMBER_STOPPED", CloseReason.CLOSE_REASON_MEMBER_STOPPED);

    /** How a session is closed, by a coordinator that drains or is newer than this, without ending the subscription. */
    private static final Set<CloseReason> GOES_ON = EnumSet.of(
            CloseReason.CLOSE_REASON_DRAINING, CloseReason.CLOSE_REASON_UNSPECIFIED, CloseReason.UNRECOGNIZED);

    /** What something answers, without a reason, that is no coordinator, or a proxy that does not let us through. */
    private static final Set<Code> FINAL = Set.of(
            Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.UNAUTHENTICATED, Code.UNIMPLEMENTED);

    private static final Duration FOREVER = Duration.ofDays(36_500);

    private static final System.Logger LOG = System.getLogger("io.teamwire");

    /** Stands in the queue once the subscription is over. */
    private final Delivery over = new Delivery(null, 0, 0, this);

    private final BlockingDeque<Delivery> queue = new LinkedBlockingDeque<>(DELIVERIES_MAX);

    /** Each of the latest messages, and whether it was acknowledged. */
    private final Map<String, Boolean> window = window(WINDOW_IDS_MAX);

    /** What was acknowledged and is not confirmed. */
    private final Set<String> waiting = ConcurrentHashMap.newKeySet();

    private final Thread reader = daemon(this::read);
    private final ExecutorService acker = Executors.newSingleThreadExecutor(Subscription::daemon);
    private final Calls calls;
    private volatile SessionClosing ending;
    private volatile TeamwireException refusal;

    Subscription(Calls calls) {
        this.calls = calls;
        calls.reopening(true);
        reader.start();
    }

    /** Returns why it has ended. Empty: it has not, or by {@link #close()} or an error. */
    public Optional<SessionClosing> ending() {
        return Optional.ofNullable(ending);
    }

    /**
     * Waits for the next message. Empty: none came in this time, or the subscription is over.
     *
     * <p>Throws a {@link TeamwireException} when the coordinator has refused for good.
     */
    public Optional<Delivery> next(Duration patience) {
        Delivery next;
        try {
            next = queue.poll(patience.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            throw interrupted();
        }
        if (next != over) {
            return Optional.ofNullable(next);
        }
        queue.offerFirst(over); // For whoever asks again.
        if (refusal != null) {
            throw refusal;
        }
        return Optional.empty();
    }

    /** Returns the messages as they come, until the subscription is over. */
    public Stream<Delivery> stream() {
        return Stream.generate(() -> next(FOREVER))
                .takeWhile(Optional::isPresent)
                .map(Optional::get);
    }

    /** Iterates over the messages as they come, until the subscription is over. */
    @Override
    public Iterator<Delivery> iterator() {
        return stream().iterator();
    }

    /** Takes an acknowledgement, to be sent in the background, with others where there are. After the close: in vain. */
    void ack(String messageId) {
        window.put(messageId, true);
        waiting.add(messageId);
        if (!acker.isShutdown()) {
            acker.submit(this::sendAcks);
        }
    }

    /**
     * Waits until the coordinator has confirmed every acknowledgement so far, through reconnects. Throws a
     * {@link TeamwireException} when it refuses them for good.
     */
    public void flush() {
        try {
            acker.submit(this::sendAcks).get();
        } catch (ExecutionException e) {
            throw TeamwireException.of(e.getCause());
        } catch (InterruptedException e) {
            throw interrupted();
        }
    }

    /** Sends what waits, for as long as it takes. */
    private void sendAcks() {
        while (!waiting.isEmpty()) {
            var ids = waiting.stream().limit(IDS_IN_A_CALL_MAX).toList();
            MessageServiceGrpc.newBlockingStub(calls)
                    .withDeadlineAfter(FOREVER.toDays(), TimeUnit.DAYS)
                    .ack(AckRequest.newBuilder().addAllMessageIds(ids).build());
            waiting.removeAll(ids);
        }
    }

    /** Ends the subscription. Acknowledgements that wait are given a second to be confirmed. */
    @Override
    public void close() {
        reader.interrupt();
        acker.shutdown();
        try {
            acker.awaitTermination(1, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        acker.shutdownNow();
    }

    /** Reads sessions one after the other, until one ends for good. */
    private void read() {
        var request = StreamRequest.newBuilder()
                .setInstanceId(UUID.randomUUID().toString())
                .build();
        try {
            for (var attempts = 0; ending == null && refusal == null; ) {
                var began = System.nanoTime();
                var link = calls.links.channel();
                try {
                    ending = session(link, request);
                } catch (TeamwireException lost) {
                    calls.links.leave(link, lost);
                    attempts = System.nanoTime() - began > SETTLED_AFTER_NS ? 1 : attempts + 1;
                    var end = ENDS.get(lost.reason());
                    if (end != null) {
                        ending = SessionClosing.newBuilder()
                                .setReason(end)
                                .setDetail(lost.getMessage())
                                .build();
                    } else if (isFinal(lost) || calls.isHopeless(lost, attempts)) {
                        refusal = lost;
                    } else {
                        var delay = Calls.delay(attempts, lost);
                        LOG.log(Level.DEBUG, "the session is lost, another one in {0} ms: {1}", delay, lost);
                        calls.reopening(true);
                        Thread.sleep(delay);
                    }
                }
            }
        } catch (InterruptedException | IllegalStateException e) {
            LOG.log(Level.DEBUG, "the inbox or the client was closed");
        } finally {
            calls.reopening(false);
            queue.clear();
            queue.offerFirst(over);
        }
    }

    private static long millis(com.google.protobuf.Duration duration) {
        return duration.getSeconds() * 1_000 + duration.getNanos() / 1_000_000;
    }

    private static boolean isFinal(TeamwireException lost) {
        return lost.reason().isEmpty() ? FINAL.contains(lost.code()) : !Policy.isReopened(lost.reason());
    }

    /** Opens one session, and reads it to its end for good. Throws what else has ended it. */
    private SessionClosing session(Channel link, StreamRequest request) throws InterruptedException {
        // Outside of the earlier session, which is about to be ended by this one.
        var stub = MessageServiceGrpc.newBlockingV2Stub(calls.on(link, "", new Metadata()));
        var frames = stub.stream(request);
        var silenceMax = OPEN_MAX_MS;
        try {
            for (StreamResponse frame; (frame = frames.read(silenceMax, TimeUnit.MILLISECONDS)) != null; ) {
                switch (frame.getFrameCase()) {
                    case OPENED -> {
                        silenceMax =
                                Math.max(1_000, 3 * millis(frame.getOpened().getHeartbeatInterval()));
                        calls.opened(frame.getOpened().getSessionId());
                    }
                    case DELIVERY -> deliver(frame.getDelivery());
                    case CLOSING -> {
                        var closing = frame.getClosing();
                        if (GOES_ON.contains(closing.getReason())) {
                            throw new TeamwireException(Code.UNAVAILABLE, closing.getDetail());
                        }
                        return closing;
                    }
                    default -> {} // A heartbeat, or a kind of frame that came after this version.
                }
            }
            throw new TeamwireException(Code.UNAVAILABLE, "the stream ended without a reason");
        } catch (StatusException e) {
            throw TeamwireException.of(e);
        } catch (TimeoutException e) {
            throw new TeamwireException(Code.DEADLINE_EXCEEDED, "nothing heard for " + silenceMax + " ms");
        } finally {
            frames.cancel("the session is over", null);
        }
    }

    private void deliver(io.teamwire.v1.Delivery delivery) throws InterruptedException {
        var message = delivery.getMessage();
        var wasAcked = window.putIfAbsent(message.getId(), false);
        if (wasAcked != null && wasAcked) {
            ack(message.getId());
        } else if (wasAcked == null) {
            var fresh = new Delivery(message, delivery.getSequence(), delivery.getDeliveryCount(), this);
            if (message.hasShutdownRequest()) {
                queue.putFirst(fresh);
            } else {
                queue.putLast(fresh);
            }
        }
    }

    @SuppressWarnings("serial") // Nobody serializes it.
    static Map<String, Boolean> window(int idsMax) {
        return Collections.synchronizedMap(new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
                return size() > idsMax;
            }
        });
    }

    private static TeamwireException interrupted() {
        Thread.currentThread().interrupt();
        return new TeamwireException(Code.CANCELLED, "The thread was interrupted.");
    }

    private static Thread daemon(Runnable task) {
        var thread = new Thread(task, "teamwire");
        thread.setDaemon(true);
        return thread;
    }
}
