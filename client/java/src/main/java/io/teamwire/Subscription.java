package io.teamwire;

import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusException;
import io.teamwire.Ending.How;
import io.teamwire.v1.AckRequest;
import io.teamwire.v1.CloseReason;
import io.teamwire.v1.MessageServiceGrpc;
import io.teamwire.v1.StreamRequest;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A subscription to one's own inbox: each message once, through reconnects, shutdown requests before the others.
 *
 * <p>It reads the inbox at all times, on a daemon thread, and reconnects by itself. The iteration is over when the
 * subscription has ended, and {@link #ending()} says how; it throws a {@link TeamwireException} when the coordinator
 * refuses for good. What is not acknowledged when the process ends comes again in the next one.
 */
public final class Subscription implements Iterable<Delivery>, AutoCloseable {
    /** How long a session may take to open. */
    private static final Duration OPEN_MAX = Duration.ofSeconds(10);

    /** How long a session must have held for its loss to be no sign of a coordinator in trouble. */
    private static final Duration SETTLED_AFTER = Duration.ofSeconds(10);

    /** How long the acknowledgements that still wait may take when it is closed. */
    private static final Duration CLOSE_MAX = Duration.ofSeconds(1);

    /** How many messages wait for the program at most. Then nothing more is read, so that the coordinator waits. */
    private static final int DELIVERIES_MAX = 256;

    /** How many messages are remembered. */
    private static final int WINDOW_IDS_MAX = 4_096;

    /** How many ids one call takes. */
    private static final int IDS_IN_A_CALL_MAX = 1_000;

    private static final Map<String, How> ENDS = Map.of(
            "SESSION_SUPERSEDED", How.SUPERSEDED,
            "TEAM_NOT_FOUND", How.TEAM_DELETED,
            "MEMBER_STOPPED", How.MEMBER_STOPPED);

    private static final Map<CloseReason, How> CLOSES = Map.of(
            CloseReason.CLOSE_REASON_SHUTDOWN_APPROVED, How.SHUTDOWN_APPROVED,
            CloseReason.CLOSE_REASON_SUPERSEDED, How.SUPERSEDED,
            CloseReason.CLOSE_REASON_TEAM_DELETED, How.TEAM_DELETED,
            CloseReason.CLOSE_REASON_MEMBER_STOPPED, How.MEMBER_STOPPED);

    /** The refusals that another session may not meet with. */
    private static final Set<String> PASSING = Set.of("INTERNAL", "SLOW_CONSUMER");

    /** The codes that something answers with that is no coordinator, or a proxy that does not let us through. */
    private static final Set<Code> FINAL = Set.of(
            Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.PERMISSION_DENIED, Code.UNAUTHENTICATED, Code.UNIMPLEMENTED);

    private static final Duration FOREVER = Duration.ofDays(36_500);

    private static final System.Logger LOG = System.getLogger("io.teamwire");

    private final Calls calls;
    private final StreamRequest request;
    private final Thread reader = thread("teamwire-inbox", this::read);
    private final Thread acker = thread("teamwire-acks", this::acknowledge);

    // What follows is guarded by this.
    private final Deque<Delivery> shutdowns = new ArrayDeque<>();
    private final Deque<Delivery> others = new ArrayDeque<>();
    private final Window window = new Window(WINDOW_IDS_MAX);
    private final Set<String> unconfirmed = new LinkedHashSet<>();
    private boolean isOver;
    private Ending ending;
    private TeamwireException refusal;
    private TeamwireException acksRefusal;

    Subscription(Calls calls) {
        this.calls = calls;
        request = StreamRequest.newBuilder()
                .setInstanceId(UUID.randomUUID().toString())
                .build();
        calls.reopening(true);
        reader.start();
        acker.start();
    }

    /** Returns how it has ended. Empty: it has not, or by {@link #close()} or an error. */
    public synchronized Optional<Ending> ending() {
        return Optional.ofNullable(ending);
    }

    /**
     * Waits for the next message. Empty: none came in this time, or the subscription is over.
     *
     * <p>Throws a {@link TeamwireException} when the coordinator has refused for good.
     */
    public synchronized Optional<Delivery> next(Duration patience) {
        await(patience, () -> isOver || !shutdowns.isEmpty() || !others.isEmpty());
        if (refusal != null) {
            throw refusal;
        }
        var next = isOver ? null : shutdowns.isEmpty() ? others.poll() : shutdowns.poll();
        notifyAll();
        return Optional.ofNullable(next);
    }

    /** Iterates over the messages as they come, until the subscription is over. All iterators share them. */
    @Override
    public Iterator<Delivery> iterator() {
        return new Iterator<>() {
            private Optional<Delivery> next = Optional.empty();

            @Override
            public boolean hasNext() {
                next = next.or(() -> Subscription.this.next(FOREVER));
                return next.isPresent();
            }

            @Override
            public Delivery next() {
                var delivery = hasNext() ? next : Optional.<Delivery>empty();
                next = Optional.empty();
                return delivery.orElseThrow(NoSuchElementException::new);
            }
        };
    }

    /** Returns the messages as they come, until the subscription is over. */
    public Stream<Delivery> stream() {
        return StreamSupport.stream(spliterator(), false);
    }

    /** Takes an acknowledgement, to be sent in the background. */
    synchronized void ack(String messageId) {
        window.ack(messageId);
        unconfirmed.add(messageId);
        notifyAll();
    }

    /**
     * Waits until the coordinator has confirmed every acknowledgement so far, through reconnects. Throws a
     * {@link TeamwireException} when it refuses them for good.
     */
    public synchronized void flush() {
        await(FOREVER, this::isSettled);
        if (!unconfirmed.isEmpty()) {
            throw acksRefusal;
        }
    }

    /** Ends the subscription. Acknowledgements that wait are given a second to be confirmed. */
    @Override
    public void close() {
        synchronized (this) {
            isOver = true;
            notifyAll();
            try {
                await(CLOSE_MAX, this::isSettled);
            } catch (TeamwireException interrupted) {
                LOG.log(Level.DEBUG, "acknowledgements are dropped", interrupted);
            }
        }
        reader.interrupt();
        acker.interrupt();
    }

    private boolean isSettled() {
        return unconfirmed.isEmpty() || acksRefusal != null;
    }

    private void await(Duration patience, BooleanSupplier isDone) {
        var end = Deadline.after(patience.toMillis(), TimeUnit.MILLISECONDS);
        try {
            while (!isDone.getAsBoolean() && !end.isExpired()) {
                wait(Math.max(1, end.timeRemaining(TimeUnit.MILLISECONDS)));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TeamwireException(Code.CANCELLED, "The thread was interrupted.");
        }
    }

    /** Reads sessions one after the other, until one ends for good. */
    private void read() {
        var delays = new Delays();
        try {
            while (true) {
                var began = System.nanoTime();
                var link = calls.links.channel();
                try {
                    end(session(link), null);
                    return;
                } catch (TeamwireException lost) {
                    calls.links.judge(link, lost);
                    if (ENDS.containsKey(lost.reason())) {
                        end(new Ending(ENDS.get(lost.reason()), ""), null);
                        return;
                    }
                    if (isFinal(lost)) {
                        end(null, lost);
                        return;
                    }
                    if (System.nanoTime() - began > SETTLED_AFTER.toNanos()) {
                        delays.reset();
                    }
                    calls.reopening(true);
                    var delay = delays.after(lost);
                    LOG.log(Level.DEBUG, "the session is lost, another one in {0}: {1}", delay, lost);
                    Thread.sleep(delay.toMillis());
                }
            }
        } catch (InterruptedException | IllegalStateException e) {
            end(null, null); // It was closed, or the client was.
        }
    }

    private static boolean isFinal(TeamwireException lost) {
        return lost.reason().isEmpty()
                ? FINAL.contains(lost.code())
                : !lost.isPassing(true) && !PASSING.contains(lost.reason());
    }

    private void end(Ending ending, TeamwireException refusal) {
        calls.reopening(false);
        synchronized (this) {
            this.ending = ending;
            this.refusal = refusal;
            isOver = true;
            notifyAll();
        }
    }

    /** Opens one session and reads it to its end for good. Throws what else has ended it. */
    private Ending session(ManagedChannel link) throws InterruptedException {
        // Outside of the earlier session, which is about to be ended by this one.
        var call = MessageServiceGrpc.newBlockingV2Stub(calls.on(link, "", new Metadata())).stream(request);
        var silenceMax = OPEN_MAX.toMillis();
        try {
            while (true) {
                var frame = call.read(silenceMax, TimeUnit.MILLISECONDS);
                if (frame == null) {
                    throw new TeamwireException(Code.UNAVAILABLE, "the stream ended without a reason");
                }
                switch (frame.getFrameCase()) {
                    case OPENED -> {
                        silenceMax = Math.max(1_000, 3L * frame.getOpened().getHeartbeatIntervalMs());
                        calls.opened(frame.getOpened().getSessionId());
                    }
                    case DELIVERY -> deliver(frame.getDelivery());
                    case CLOSING -> {
                        var closing = frame.getClosing();
                        if (!CLOSES.containsKey(closing.getReason())) {
                            // It drains, or says something that came after this version.
                            throw new TeamwireException(Code.UNAVAILABLE, closing.getDetail());
                        }
                        return new Ending(CLOSES.get(closing.getReason()), closing.getRequestId());
                    }
                    default -> {} // A heartbeat, or a kind of frame that came after this version.
                }
            }
        } catch (StatusException e) {
            throw TeamwireException.of(e);
        } catch (TimeoutException e) {
            throw new TeamwireException(Code.DEADLINE_EXCEEDED, "nothing heard for " + silenceMax + " ms");
        } finally {
            call.cancel("the session is over", null);
        }
    }

    private synchronized void deliver(io.teamwire.v1.Delivery delivery) throws InterruptedException {
        var message = delivery.getMessage();
        switch (window.deliver(message.getId())) {
            case ACKED -> ack(message.getId());
            case HANDED -> {}
            case NEVER -> {
                while (shutdowns.size() + others.size() >= DELIVERIES_MAX) {
                    wait();
                }
                (message.hasShutdownRequest() ? shutdowns : others)
                        .add(new Delivery(message, delivery.getSequence(), delivery.getDeliveryCount(), this));
                notifyAll();
            }
        }
    }

    /** Sends what is acknowledged, until the coordinator says for good that it will not have it. */
    private void acknowledge() {
        var delays = new Delays();
        var messages = MessageServiceGrpc.newBlockingStub(calls);
        try {
            while (true) {
                var ids = unconfirmed();
                try {
                    messages.ack(AckRequest.newBuilder().addAllMessageIds(ids).build());
                    confirmed(ids);
                    delays.reset();
                } catch (TeamwireException refused) {
                    if (isFinal(refused)) {
                        endAcks(refused);
                        return;
                    }
                    Thread.sleep(delays.after(refused).toMillis());
                }
            }
        } catch (InterruptedException | IllegalStateException e) {
            endAcks(new TeamwireException(Code.CANCELLED, "The inbox is closed."));
        }
    }

    private synchronized List<String> unconfirmed() throws InterruptedException {
        while (unconfirmed.isEmpty()) {
            wait();
        }
        return unconfirmed.stream().limit(IDS_IN_A_CALL_MAX).toList();
    }

    private synchronized void confirmed(List<String> ids) {
        unconfirmed.removeAll(ids);
        notifyAll();
    }

    private synchronized void endAcks(TeamwireException refusal) {
        acksRefusal = refusal;
        notifyAll();
    }

    private static Thread thread(String name, Runnable task) {
        var thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }
}
