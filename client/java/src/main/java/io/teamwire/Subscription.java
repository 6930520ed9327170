package io.teamwire;

import io.grpc.Channel;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusException;
import io.teamwire.v1.AckRequest;
import io.teamwire.v1.CloseReason;
import io.teamwire.v1.MessageServiceGrpc;
import io.teamwire.v1.StreamRequest;
import io.teamwire.v1.StreamResponse;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Collections;
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
 * A subscription to the caller's inbox. Hands out each message once, through reconnects, and shutdown requests first.
 *
 * <p>It reads the inbox continuously on a daemon thread, and reconnects by itself. Iteration stops when the subscription
 * ends, and {@link #end()} says how; it throws a {@link TeamwireException} if the coordinator refuses permanently.
 * Messages that are unacknowledged when the process exits are redelivered to the next one.
 */
public final class Subscription implements Iterable<Delivery>, AutoCloseable {
    /** How long a session may take to open. */
    private static final long OPEN_MAX_MS = 10_000;

    /** How long a session must last before its loss resets the delays. */
    private static final long SETTLED_AFTER_NS = 10_000_000_000L;

    /** How many message ids are remembered. A forgotten message is handed out again if it is redelivered. */
    private static final int WINDOW_IDS_MAX = 4_096;

    /** How many messages one call may acknowledge. */
    private static final int IDS_IN_A_CALL_MAX = 1_000;

    /**
     * The shortest time between the beginnings of two calls that acknowledge, unless the second one is urgent. All clients
     * wait equally long.
     */
    static final Duration PAUSE = Duration.ofMillis(20);

    /** The longest such time. */
    static final Duration PAUSE_MAX = Duration.ofMillis(100);

    /** How many times as long as the first call took. It is slow if the coordinator is busy, and fewer calls help it then. */
    static final int PAUSE_IN_CALLS = 8;

    /** From how many waiting acknowledgements on they are urgent: half of what a session may leave unacknowledged. */
    static final int URGENT_FROM = 32;

    /** The ends, by the reason of a refusal. */
    private static final Map<String, End.Reason> REFUSED = Map.of(
            "SESSION_SUPERSEDED", End.Reason.SUPERSEDED,
            "TEAM_NOT_FOUND", End.Reason.TEAM_DELETED,
            "MEMBER_STOPPED", End.Reason.MEMBER_STOPPED);

    /** The ends, by the close reason of a session. After any other reason, another session follows. */
    private static final Map<CloseReason, End.Reason> CLOSED = Map.of(
            CloseReason.CLOSE_REASON_SHUTDOWN_APPROVED, End.Reason.SHUTDOWN_APPROVED,
            CloseReason.CLOSE_REASON_SUPERSEDED, End.Reason.SUPERSEDED,
            CloseReason.CLOSE_REASON_TEAM_DELETED, End.Reason.TEAM_DELETED,
            CloseReason.CLOSE_REASON_MEMBER_STOPPED, End.Reason.MEMBER_STOPPED,
            CloseReason.CLOSE_REASON_DATA_LOST, End.Reason.DATA_LOST);

    /** The codes that, without a reason, come from a server that is not a coordinator, or from a proxy that refuses us. */
    private static final Set<Code> FINAL = Set.of(
            Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.UNAUTHENTICATED, Code.UNIMPLEMENTED);

    private static final Duration FOREVER = Duration.ofDays(36_500);

    private static final System.Logger LOG = System.getLogger("io.teamwire");

    /** Marks the end of the subscription in the queue. */
    private final Delivery over = new Delivery(null, 0, 0, this);

    /**
     * The messages that wait for the program. The session's credit bounds them. Adding one never waits, or a shutdown request
     * and the end could not get past messages that the program does not take.
     */
    private final BlockingDeque<Delivery> queue = new LinkedBlockingDeque<>();

    /** The latest messages, and whether each is acknowledged. */
    private final Map<String, Boolean> window = window(WINDOW_IDS_MAX);

    /** Unconfirmed acknowledgements. */
    private final Set<String> waiting = ConcurrentHashMap.newKeySet();

    /** Guards the two below, and is notified when what waits may have become urgent. */
    private final Object urgency = new Object();

    /** How many flushes wait. */
    private int flushes;

    /** Whether the subscription has ended, or is closing. */
    private boolean isEnding;

    /** When the next call may begin. Only the acker's thread uses it. */
    private long due = System.nanoTime();

    private final Duration pause;
    private final Thread reader = daemon(this::read);
    private final ExecutorService acker = Executors.newSingleThreadExecutor(Subscription::daemon);
    private final Calls calls;
    private End end;
    private volatile TeamwireException refusal;
    /** Set when an acknowledgement was refused because another process holds the inbox. */
    private volatile boolean isSuperseded;

    Subscription(Calls calls, Duration pause) {
        this.calls = calls;
        this.pause = pause;
        calls.reopening(true);
        reader.start();
    }

    /** Returns how it ended. Empty if it has not ended, was closed, or ended with the error that was thrown. */
    public Optional<End> end() {
        // The queue holds no messages once a caller sees the end.
        synchronized (over) {
            return Optional.ofNullable(end);
        }
    }

    /**
     * Waits for the next message. Returns empty after this time, or if the subscription has ended.
     *
     * <p>Throws a {@link TeamwireException} if the coordinator has refused permanently.
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
        queue.offerFirst(over); // For the next caller.
        if (refusal != null) {
            throw refusal;
        }
        return Optional.empty();
    }

    /** Returns the messages, in order of arrival, until the subscription ends. */
    public Stream<Delivery> stream() {
        return Stream.generate(() -> next(FOREVER))
                .takeWhile(Optional::isPresent)
                .map(Optional::get);
    }

    /** Iterates over the messages, in order of arrival, until the subscription ends. */
    @Override
    public Iterator<Delivery> iterator() {
        return stream().iterator();
    }

    /**
     * Acknowledges a message in the background. Does nothing after {@link #close()}.
     *
     * <p>After a pause, it is sent at once. Those that follow within 20 ms share a call, or within up to 100 ms if the
     * coordinator is busy. {@link #flush()} does not wait for them.
     */
    public void ack(String messageId) {
        window.put(messageId, true);
        waiting.add(messageId);
        if (waiting.size() >= URGENT_FROM) {
            synchronized (urgency) {
                urgency.notifyAll();
            }
        }
        if (!acker.isShutdown()) {
            acker.submit(this::sendAcks);
        }
    }

    /**
     * Waits, through reconnects, until the coordinator has confirmed every acknowledgement so far. Throws a
     * {@link TeamwireException} if it refuses them permanently.
     */
    public void flush() {
        addFlushes(1);
        try {
            acker.submit(this::sendAcks).get();
        } catch (ExecutionException e) {
            throw TeamwireException.of(e.getCause());
        } catch (InterruptedException e) {
            throw interrupted();
        } finally {
            addFlushes(-1);
        }
    }

    private void addFlushes(int added) {
        synchronized (urgency) {
            flushes += added;
            urgency.notifyAll();
        }
    }

    private void beginEnding() {
        synchronized (urgency) {
            isEnding = true;
            urgency.notifyAll();
        }
    }

    /** Waits until the next call is due, or what waits is urgent. */
    private void pause() {
        synchronized (urgency) {
            try {
                long left;
                while (flushes == 0
                        && !isEnding
                        && waiting.size() < URGENT_FROM
                        && (left = due - System.nanoTime()) > 0) {
                    TimeUnit.NANOSECONDS.timedWait(urgency, left);
                }
            } catch (InterruptedException e) {
                throw interrupted();
            }
        }
    }

    /** Sends the unconfirmed acknowledgements until all are confirmed. */
    private void sendAcks() {
        while (!waiting.isEmpty()) {
            pause();
            var began = System.nanoTime();
            due = began + pause.toNanos();
            var ids = waiting.stream().limit(IDS_IN_A_CALL_MAX).toList();
            try {
                MessageServiceGrpc.newBlockingStub(calls)
                        .withDeadlineAfter(FOREVER.toDays(), TimeUnit.DAYS)
                        .ack(AckRequest.newBuilder().addAllMessageIds(ids).build());
            } catch (TeamwireException refused) {
                if (refused.reason().equals("SESSION_SUPERSEDED")) {
                    // If the stream is silent, its reader must not take the inbox back.
                    isSuperseded = true;
                    reader.interrupt();
                }
                throw refused;
            }
            var slow = Math.min(PAUSE_IN_CALLS * (System.nanoTime() - began), PAUSE_MAX.toNanos());
            due = began + Math.max(pause.toNanos(), slow);
            waiting.removeAll(ids);
        }
    }

    /** Ends the subscription. First waits up to 1 s for acknowledgements to be confirmed. */
    @Override
    public void close() {
        beginEnding();
        reader.interrupt();
        acker.shutdown();
        try {
            acker.awaitTermination(1, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        acker.shutdownNow();
    }

    /** Runs sessions, one after the other, until the subscription ends. */
    private void read() {
        var request = StreamRequest.newBuilder()
                .setInstanceId(UUID.randomUUID().toString())
                .build();
        End reached = null;
        try {
            for (var attempts = 0; reached == null && refusal == null; ) {
                var began = System.nanoTime();
                var channel = calls.channels.channel();
                try {
                    reached = session(channel, request);
                } catch (TeamwireException lost) {
                    calls.channels.leave(channel, lost);
                    attempts = System.nanoTime() - began > SETTLED_AFTER_NS ? 1 : attempts + 1;
                    var reason = REFUSED.get(lost.reason());
                    if (reason != null) {
                        reached = new End(reason, "");
                    } else if (isFinal(lost) || calls.isHopeless(lost, attempts)) {
                        refusal = lost;
                    } else {
                        var delay = Calls.delay(attempts, lost);
                        LOG.log(Level.DEBUG, "lost the session, opening another one in {0} ms: {1}", delay, lost);
                        calls.reopening(true);
                        Thread.sleep(delay);
                    }
                }
            }
        } catch (InterruptedException | IllegalStateException e) {
            LOG.log(Level.DEBUG, "the inbox or the client was closed");
        } finally {
            calls.reopening(false);
            beginEnding();
            synchronized (over) {
                end = reached == null && isSuperseded ? new End(End.Reason.SUPERSEDED, "") : reached;
                queue.clear();
                queue.offerFirst(over);
            }
        }
    }

    private static long millis(com.google.protobuf.Duration duration) {
        return duration.getSeconds() * 1_000 + duration.getNanos() / 1_000_000;
    }

    private static boolean isFinal(TeamwireException lost) {
        return lost.reason().isEmpty() ? FINAL.contains(lost.code()) : !Policy.isReopened(lost.reason());
    }

    /** Opens a session and reads it to its end. Throws if another session should follow, or an error ended it. */
    private End session(Channel channel, StreamRequest request) throws InterruptedException {
        // Outside the previous session, which this one supersedes.
        var stub = MessageServiceGrpc.newBlockingV2Stub(calls.on(channel, "", new Metadata()));
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
                        var reason = CLOSED.get(closing.getReason());
                        if (reason == null) {
                            throw new TeamwireException(Code.UNAVAILABLE, closing.getDetail());
                        }
                        return new End(reason, closing.getRequestId());
                    }
                    default -> {} // A heartbeat, or a frame newer than this client.
                }
            }
            throw new TeamwireException(Code.UNAVAILABLE, "the stream ended without a reason");
        } catch (StatusException e) {
            throw TeamwireException.of(e);
        } catch (TimeoutException e) {
            throw new TeamwireException(Code.DEADLINE_EXCEEDED, "no frame for " + silenceMax + " ms");
        } finally {
            frames.cancel("the session is over", null);
        }
    }

    private void deliver(io.teamwire.v1.Delivery delivery) {
        var message = delivery.getMessage();
        var wasAcked = window.putIfAbsent(message.getId(), false);
        if (wasAcked != null && wasAcked) {
            ack(message.getId());
        } else if (wasAcked == null) {
            var fresh = new Delivery(message, delivery.getSequence(), delivery.getDeliveryCount(), this);
            if (message.hasShutdownRequest()) {
                queue.addFirst(fresh);
            } else {
                queue.addLast(fresh);
            }
        }
    }

    @SuppressWarnings("serial") // Never serialized.
    static Map<String, Boolean> window(int idsMax) {
        return Collections.synchronizedMap(new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
                return size() > idsMax;
            }
        });
    }

    static TeamwireException interrupted() {
        Thread.currentThread().interrupt();
        return new TeamwireException(Code.CANCELLED, "The thread was interrupted.");
    }

    private static Thread daemon(Runnable task) {
        var thread = new Thread(task, "teamwire");
        thread.setDaemon(true);
        return thread;
    }
}
