package io.teamwire;

import static io.teamwire.TeamwireExceptionTest.refusal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Message;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import io.teamwire.v1.AckRequest;
import io.teamwire.v1.AckResponse;
import io.teamwire.v1.CloseReason;
import io.teamwire.v1.DeleteTeamRequest;
import io.teamwire.v1.DeleteTeamResponse;
import io.teamwire.v1.JoinRequest;
import io.teamwire.v1.JoinResponse;
import io.teamwire.v1.MessageServiceGrpc.MessageServiceImplBase;
import io.teamwire.v1.SendRequest;
import io.teamwire.v1.SendResponse;
import io.teamwire.v1.SessionClosing;
import io.teamwire.v1.SessionOpened;
import io.teamwire.v1.ShutdownRequest;
import io.teamwire.v1.StreamRequest;
import io.teamwire.v1.StreamResponse;
import io.teamwire.v1.TeamServiceGrpc.TeamServiceImplBase;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client against answers that a real coordinator rarely gives. */
@Timeout(20)
class FakeCoordinatorTest {
    /** The failures of the next calls. When it is empty, calls succeed. */
    private final Queue<StatusRuntimeException> failures = new ConcurrentLinkedQueue<>();

    private final List<Message> requests = Collections.synchronizedList(new ArrayList<>());
    private final List<Metadata> headers = Collections.synchronizedList(new ArrayList<>());
    private final BlockingQueue<String> acked = new LinkedBlockingQueue<>();
    private final BlockingQueue<StreamObserver<StreamResponse>> sessions = new LinkedBlockingQueue<>();
    /** What the fake does before it answers a call of Send. */
    private volatile Runnable beforeSend = () -> {};

    /** What the fake does before it answers a call of Ack. */
    private volatile Runnable beforeAckReply = () -> {};

    private Server server;
    private Teamwire me;

    @BeforeEach
    void start() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(new Messages())
                .addService(new Teams())
                .intercept(new Headers())
                .build()
                .start();
        me = Teamwire.connect(Map.of(
                "TEAMWIRE_ADDRESS",
                "http://127.0.0.1:" + server.getPort(),
                "TEAMWIRE_CREDENTIAL",
                "twm:acme:bob:secret"));
    }

    @AfterEach
    void stop() throws InterruptedException {
        me.close();
        server.shutdownNow().awaitTermination();
    }

    private final class Messages extends MessageServiceImplBase {
        @Override
        public void send(SendRequest request, StreamObserver<SendResponse> reply) {
            beforeSend.run();
            answer(request, SendResponse.getDefaultInstance(), reply);
        }

        @Override
        public void ack(AckRequest request, StreamObserver<AckResponse> reply) {
            acked.addAll(request.getMessageIdsList());
            beforeAckReply.run();
            answer(request, AckResponse.getDefaultInstance(), reply);
        }

        @Override
        public void stream(StreamRequest request, StreamObserver<StreamResponse> session) {
            requests.add(request);
            sessions.add(session);
        }
    }

    private final class Teams extends TeamServiceImplBase {
        @Override
        public void deleteTeam(DeleteTeamRequest request, StreamObserver<DeleteTeamResponse> reply) {
            answer(request, DeleteTeamResponse.getDefaultInstance(), reply);
        }

        @Override
        public void join(JoinRequest request, StreamObserver<JoinResponse> reply) {
            answer(
                    request,
                    JoinResponse.newBuilder().setCredential("twm:acme:carl:new").build(),
                    reply);
        }
    }

    private <A> void answer(Message request, A answer, StreamObserver<A> reply) {
        requests.add(request);
        var failure = failures.poll();
        if (failure != null) {
            reply.onError(failure);
        } else {
            reply.onNext(answer);
            reply.onCompleted();
        }
    }

    private final class Headers implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata metadata, ServerCallHandler<Q, A> next) {
            headers.add(metadata);
            return next.startCall(call, metadata);
        }
    }

    private String header(int call, String name) {
        return headers.get(call).get(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER));
    }

    /** Waits for the client to request a session, and opens it. */
    private StreamObserver<StreamResponse> open(String id, int heartbeatMs) throws InterruptedException {
        var session = sessions.take();
        var interval = com.google.protobuf.Duration.newBuilder()
                .setSeconds(heartbeatMs / 1_000)
                .setNanos(heartbeatMs % 1_000 * 1_000_000);
        var opened = SessionOpened.newBuilder().setSessionId(id).setHeartbeatInterval(interval);
        session.onNext(StreamResponse.newBuilder().setOpened(opened).build());
        return session;
    }

    private static StreamResponse message(String id, boolean isShutdown) {
        var message = io.teamwire.v1.Message.newBuilder().setId(id);
        if (isShutdown) {
            message.setShutdownRequest(ShutdownRequest.getDefaultInstance());
        }
        var delivery = io.teamwire.v1.Delivery.newBuilder().setMessage(message);
        return StreamResponse.newBuilder().setDelivery(delivery).build();
    }

    private static StreamResponse closing(CloseReason reason) {
        var closing = SessionClosing.newBuilder().setReason(reason).setRequestId("req_1");
        return StreamResponse.newBuilder().setClosing(closing).build();
    }

    private static String nextId(Subscription inbox) {
        return inbox.next(Duration.ofSeconds(10)).orElseThrow().message().getId();
    }

    @Test
    void a_call_is_retried_with_its_key_until_it_succeeds() {
        failures.add(Status.UNAVAILABLE.asRuntimeException());
        failures.add(refusal(Code.UNAVAILABLE, "STORE_UNAVAILABLE"));
        failures.add(Status.UNKNOWN.asRuntimeException());
        me.send("lead", "s", "hello");
        assertEquals(4, requests.size());
        assertEquals(1, requests.stream().distinct().count());
        var key = UUID.fromString(((SendRequest) requests.get(0)).getIdempotencyKey());
        assertEquals(7, key.version());
        assertEquals(2, key.variant());
        assertEquals("Bearer twm:acme:bob:secret", header(3, "authorization"));
        assertNull(header(3, "teamwire-session"));
    }

    @Test
    void a_refusal_is_thrown_by_the_generated_stub() {
        failures.add(refusal(Code.RESOURCE_EXHAUSTED, "INBOX_FULL"));
        var request = SendRequest.newBuilder().setIdempotencyKey("mine").build();
        var refused = assertThrows(TeamwireException.class, () -> me.messages().send(request));
        assertEquals("INBOX_FULL", refused.reason());
        assertTrue(refused.isRetryable() && !refused.isOutcomeUnknown());
        assertEquals(List.of(request), requests);
    }

    @Test
    void a_refusal_after_a_broken_connection_shows_that_nothing_was_done() {
        failures.add(Status.UNAVAILABLE.asRuntimeException());
        failures.add(refusal(Code.NOT_FOUND, "AGENT_NOT_FOUND"));
        var refused = assertThrows(TeamwireException.class, () -> me.send("lead", "s", "hello"));
        assertFalse(refused.isOutcomeUnknown() || refused.isRetryable());
    }

    @Test
    void a_busy_coordinator_says_nothing_about_an_earlier_attempt() {
        failures.add(Status.UNAVAILABLE.asRuntimeException());
        failures.addAll(Collections.nCopies(1_000, refusal(Code.RESOURCE_EXHAUSTED, "RATE_LIMITED")));
        var hasty = me.messages().withDeadlineAfter(300, TimeUnit.MILLISECONDS);
        var unknown = assertThrows(TeamwireException.class, () -> hasty.send(SendRequest.getDefaultInstance()));
        assertTrue(unknown.isOutcomeUnknown() && unknown.isRetryable());
    }

    @Test
    void the_outcome_of_a_call_is_unknown_after_an_internal_error() {
        failures.add(refusal(Code.INTERNAL, "INTERNAL"));
        var unknown = assertThrows(TeamwireException.class, () -> me.send("lead", "s", "hello"));
        assertTrue(unknown.isOutcomeUnknown() && !unknown.isRetryable());
    }

    @Test
    void a_call_without_a_key_is_not_retried_while_its_outcome_is_unknown() {
        for (var failure :
                List.of(Status.UNKNOWN.asRuntimeException(), refusal(Code.UNAVAILABLE, "STORE_UNAVAILABLE"))) {
            requests.clear();
            failures.add(refusal(Code.UNAVAILABLE, "DRAINING"));
            failures.add(failure);
            var unknown = assertThrows(
                    TeamwireException.class, () -> me.teams().deleteTeam(DeleteTeamRequest.getDefaultInstance()));
            assertEquals(2, requests.size());
            assertTrue(unknown.isOutcomeUnknown() && !unknown.isRetryable());
        }
    }

    @Test
    void a_join_uses_an_unguessable_key_and_later_calls_its_credential() {
        var token = "twj:acme:1:0123456789abcdef@http://127.0.0.1:" + server.getPort();
        try (var carl = Teamwire.join(token, "carl")) {
            carl.send("lead", "s", "hello");
            assertEquals("carl", carl.name());
            assertEquals("acme", carl.team());
        }
        assertEquals("Bearer twj:acme:1:0123456789abcdef", header(0, "authorization"));
        assertEquals("Bearer twm:acme:carl:new", header(1, "authorization"));
        assertEquals(
                4,
                UUID.fromString(((JoinRequest) requests.get(0)).getIdempotencyKey())
                        .version());
    }

    @Test
    void a_deadline_or_an_interrupt_ends_a_call() {
        failures.addAll(Collections.nCopies(1_000, Status.UNAVAILABLE.asRuntimeException()));
        var hasty = me.messages().withDeadlineAfter(300, TimeUnit.MILLISECONDS);
        var late = assertThrows(TeamwireException.class, () -> hasty.send(SendRequest.getDefaultInstance()));
        assertTrue(late.isOutcomeUnknown() && late.isRetryable());
        Thread.currentThread().interrupt();
        assertThrows(TeamwireException.class, () -> me.send("lead", "s", "hello"));
        assertTrue(Thread.interrupted());
    }

    @Test
    void a_message_is_handed_out_once_and_acknowledged_until_confirmed() throws InterruptedException {
        try (var inbox = me.subscribe()) {
            var session = open("1-a", 60_000);
            session.onNext(message("m1", false));
            session.onNext(message("m2", false));
            inbox.next(Duration.ofSeconds(10)).orElseThrow().ack();
            inbox.flush();
            assertEquals("m1", acked.take());
            assertEquals("1-a", header(headers.size() - 1, "teamwire-session"));
            session.onError(refusal(Code.RESOURCE_EXHAUSTED, "SLOW_CONSUMER"));

            session = open("2-a", 60_000);
            for (var id : List.of("m2", "m3", "s1", "m1")) {
                session.onNext(message(id, id.equals("s1")));
            }
            // Its acknowledgement is resent, so the messages before it have arrived.
            assertEquals("m1", acked.take());
            assertEquals(List.of("s1", "m2", "m3"), List.of(nextId(inbox), nextId(inbox), nextId(inbox)));
            session.onNext(closing(CloseReason.CLOSE_REASON_DRAINING));

            session = open("3-a", 60_000);
            session.onNext(closing(CloseReason.CLOSE_REASON_SHUTDOWN_APPROVED));
            assertEquals(0, inbox.stream().count());
            assertEquals(
                    new End(End.Reason.SHUTDOWN_APPROVED, "req_1"), inbox.end().orElseThrow());
        }
        var subscriptions =
                requests.stream().filter(StreamRequest.class::isInstance).toList();
        assertEquals(3, subscriptions.size());
        assertEquals(1, subscriptions.stream().distinct().count());
    }

    /** The reader used to stop at 256 waiting messages, so that it saw neither a shutdown request nor the end. */
    @Test
    void a_shutdown_request_and_the_end_overtake_unread_messages() throws InterruptedException {
        try (var inbox = me.subscribe()) {
            var session = open("1-a", 60_000);
            session.onNext(message("first", false));
            inbox.next(Duration.ofSeconds(10)).orElseThrow().ack();
            inbox.flush();
            assertEquals("first", acked.take());
            for (var n = 0; n < 300; n++) {
                session.onNext(message("m" + n, false));
            }
            session.onNext(message("s1", true));
            // Once the reader acknowledges this again, it has read everything before it.
            session.onNext(message("first", false));
            assertEquals("first", acked.poll(10, TimeUnit.SECONDS));
            assertEquals("s1", nextId(inbox));

            session.onNext(closing(CloseReason.CLOSE_REASON_SHUTDOWN_APPROVED));
            while (inbox.end().isEmpty()) {
                Thread.onSpinWait();
            }
            assertFalse(inbox.iterator().hasNext());
        }
    }

    @Test
    void a_silent_session_is_replaced_and_a_refused_call_is_retried_in_the_new_one() throws InterruptedException {
        try (var inbox = me.subscribe()) {
            var silent = open("1-a", 1);
            silent.onNext(message("m1", false));
            assertEquals("m1", nextId(inbox));
            // The call begins in the first session, and is refused once the client is in the second one.
            var hasBegun = new CompletableFuture<Void>();
            var isReplaced = new CompletableFuture<Void>();
            beforeSend = () -> {
                hasBegun.complete(null);
                isReplaced.join();
            };
            failures.add(refusal(Code.ABORTED, "SESSION_SUPERSEDED"));
            var sending = CompletableFuture.runAsync(() -> me.send("lead", "s", "hello"));
            hasBegun.join();
            open("2-a", 60_000).onNext(message("m2", false));
            assertEquals("m2", nextId(inbox));
            isReplaced.complete(null);
            sending.join();
            assertEquals("2-a", header(headers.size() - 1, "teamwire-session"));
        }
    }

    @Test
    void a_permanent_refusal_throws_from_the_iteration_and_a_takeover_ends_it() throws InterruptedException {
        try (var inbox = me.subscribe()) {
            sessions.take().onError(refusal(Code.UNAUTHENTICATED, "CREDENTIAL_INVALID"));
            var refused =
                    assertThrows(TeamwireException.class, () -> inbox.iterator().hasNext());
            assertEquals("CREDENTIAL_INVALID", refused.reason());
            assertTrue(inbox.end().isEmpty());
        }
        try (var inbox = me.subscribe()) {
            sessions.take().onError(refusal(Code.ABORTED, "SESSION_SUPERSEDED"));
            assertFalse(inbox.iterator().hasNext());
            assertEquals(new End(End.Reason.SUPERSEDED, ""), inbox.end().orElseThrow());
        }
    }

    @Test
    void a_superseded_acknowledgement_ends_an_inbox_whose_stream_is_silent() throws InterruptedException {
        try (var inbox = me.subscribe()) {
            open("1-a", 60_000).onNext(message("m1", false));
            failures.add(refusal(Code.ABORTED, "SESSION_SUPERSEDED"));
            inbox.ack(nextId(inbox));
            assertFalse(inbox.iterator().hasNext());
            assertEquals(new End(End.Reason.SUPERSEDED, ""), inbox.end().orElseThrow());
            assertTrue(sessions.isEmpty());
        }
    }

    @Test
    void a_flush_without_acknowledgements_sends_none() throws InterruptedException {
        try (var inbox = me.subscribe()) {
            open("1-a", 60_000).onNext(message("m1", false));
            assertEquals("m1", nextId(inbox));
            inbox.flush();
        }
        assertTrue(requests.stream().noneMatch(AckRequest.class::isInstance));
    }

    @Test
    void acknowledgements_in_quick_succession_share_a_call_unless_they_are_urgent() throws InterruptedException {
        // So long that only the first acknowledgement and urgent ones are sent.
        try (var inbox = me.subscribe(Duration.ofHours(1))) {
            var session = open("1-a", 60_000);
            ack(inbox, 1);
            inbox.flush();
            ack(inbox, Subscription.URGENT_FROM - 1);
            inbox.flush();
            ack(inbox, Subscription.URGENT_FROM);
            awaitAcked(2 * Subscription.URGENT_FROM);
            inbox.flush();
            ack(inbox, 2);
            session.onNext(closing(CloseReason.CLOSE_REASON_SHUTDOWN_APPROVED));
            awaitAcked(2);
        }
        var counts = requests.stream()
                .filter(AckRequest.class::isInstance)
                .map(request -> ((AckRequest) request).getMessageIdsCount())
                .toList();
        assertEquals(List.of(1, Subscription.URGENT_FROM - 1, Subscription.URGENT_FROM, 2), counts);
    }

    @Test
    void without_a_flush_the_next_call_begins_20_ms_after_the_one_before() throws InterruptedException {
        assertTrue(nanosOfTwoAcknowledgements() >= Subscription.PAUSE.toNanos());
    }

    @Test
    void after_a_slow_call_the_next_one_begins_up_to_100_ms_after_it() throws InterruptedException {
        // What is tested is how long the call takes.
        var longEnough = Subscription.PAUSE_MAX.toMillis() / Subscription.PAUSE_IN_CALLS + 1;
        beforeAckReply = () -> new CompletableFuture<Void>()
                .completeOnTimeout(null, longEnough, TimeUnit.MILLISECONDS)
                .join();
        assertTrue(nanosOfTwoAcknowledgements() >= Subscription.PAUSE_MAX.toNanos());
    }

    private long nanosOfTwoAcknowledgements() throws InterruptedException {
        try (var inbox = me.subscribe()) {
            open("1-a", 60_000);
            var began = System.nanoTime();
            for (var n = 0; n < 2; n++) {
                ack(inbox, 1);
                awaitAcked(1);
            }
            return System.nanoTime() - began;
        }
    }

    private static void ack(Subscription inbox, int messages) {
        for (var n = 0; n < messages; n++) {
            inbox.ack(UUID.randomUUID().toString());
        }
    }

    private void awaitAcked(int messages) throws InterruptedException {
        for (var n = 0; n < messages; n++) {
            acked.take();
        }
    }

    @Test
    void closing_the_client_ends_every_waiting_call() throws InterruptedException {
        var inbox = me.subscribe();
        open("1-a", 60_000);
        failures.addAll(Collections.nCopies(1_000, Status.UNAVAILABLE.asRuntimeException()));
        var calling = CompletableFuture.runAsync(() -> me.send("lead", "s", "hello"));
        var reading = CompletableFuture.supplyAsync(() -> inbox.iterator().hasNext());
        me.close();
        assertFalse(reading.join());
        assertThrows(CompletionException.class, calling::join);
    }
}
