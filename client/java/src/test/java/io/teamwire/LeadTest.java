package io.teamwire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import io.teamwire.v1.CreateTeamRequest;
import io.teamwire.v1.CreateTeamResponse;
import io.teamwire.v1.DeleteTeamRequest;
import io.teamwire.v1.DeleteTeamResponse;
import io.teamwire.v1.ExitReport;
import io.teamwire.v1.ForceStopRequest;
import io.teamwire.v1.ForceStopResponse;
import io.teamwire.v1.InviteRequest;
import io.teamwire.v1.InviteResponse;
import io.teamwire.v1.ListMembersRequest;
import io.teamwire.v1.ListMembersResponse;
import io.teamwire.v1.Member;
import io.teamwire.v1.MemberState;
import io.teamwire.v1.MessageServiceGrpc.MessageServiceImplBase;
import io.teamwire.v1.Request;
import io.teamwire.v1.RequestServiceGrpc.RequestServiceImplBase;
import io.teamwire.v1.RequestState;
import io.teamwire.v1.SendRequest;
import io.teamwire.v1.SendResponse;
import io.teamwire.v1.SetLeadRequest;
import io.teamwire.v1.SetLeadResponse;
import io.teamwire.v1.Team;
import io.teamwire.v1.TeamServiceGrpc.TeamServiceImplBase;
import io.teamwire.v1.WaitForDecisionRequest;
import io.teamwire.v1.WaitForDecisionResponse;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a lead does, against a scripted coordinator. */
@Timeout(20)
class LeadTest {
    /** The answers to come. The last of each kind repeats. */
    private final Deque<RequestState> decisions = new ArrayDeque<>();

    private final Deque<ListMembersResponse> pages = new ArrayDeque<>();
    private final List<String> tokens = Collections.synchronizedList(new ArrayList<>());
    private final List<String> waits = Collections.synchronizedList(new ArrayList<>());
    private final List<Duration> asked = Collections.synchronizedList(new ArrayList<>());

    /** How many calls of WaitForDecision fail. */
    private volatile int breaks;

    private volatile Runnable beforeLastBreak = () -> {};
    private boolean isPending;
    private Server server;
    private Teamwire me;

    @BeforeEach
    void start() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(new Messages())
                .addService(new Requests())
                .addService(new Teams())
                .build()
                .start();
        me = connect("twm:acme:lead:0123456789abcdef");
    }

    private Teamwire connect(String credential) {
        return Teamwire.connect(
                Map.of("TEAMWIRE_ADDRESS", "http://127.0.0.1:" + server.getPort(), "TEAMWIRE_CREDENTIAL", credential));
    }

    @AfterEach
    void stop() throws InterruptedException {
        me.close();
        server.shutdownNow().awaitTermination();
    }

    private static <A> void answer(A answer, StreamObserver<A> reply) {
        reply.onNext(answer);
        reply.onCompleted();
    }

    private static <A> A next(Deque<A> answers) {
        return answers.size() > 1 ? answers.poll() : answers.peek();
    }

    private final class Messages extends MessageServiceImplBase {
        @Override
        public void send(SendRequest request, StreamObserver<SendResponse> reply) {
            if (isPending) {
                var info = ErrorInfo.newBuilder().setReason("SHUTDOWN_PENDING").setDomain("teamwire");
                var status = com.google.rpc.Status.newBuilder()
                        .setCode(Code.FAILED_PRECONDITION.value())
                        .addDetails(
                                Any.pack(info.putMetadata("request_id", "req_9").build()));
                reply.onError(StatusProto.toStatusRuntimeException(status.build()));
            } else {
                answer(SendResponse.newBuilder().setRequestId("req_1").build(), reply);
            }
        }
    }

    private final class Requests extends RequestServiceImplBase {
        @Override
        public void waitForDecision(WaitForDecisionRequest request, StreamObserver<WaitForDecisionResponse> reply) {
            waits.add(request.getRequestId());
            var timeout = request.getTimeout();
            asked.add(Duration.ofSeconds(timeout.getSeconds(), timeout.getNanos()));
            if (breaks > 0) {
                breaks--;
                if (breaks == 0) {
                    beforeLastBreak.run();
                }
                reply.onError(Status.UNAVAILABLE.withDescription("gone").asRuntimeException());
                return;
            }
            var decided =
                    Request.newBuilder().setMember("ann").setIncarnation(2).setReason("why");
            decided.setState(next(decisions));
            answer(WaitForDecisionResponse.newBuilder().setRequest(decided).build(), reply);
        }
    }

    private final class Teams extends TeamServiceImplBase {
        @Override
        public void listMembers(ListMembersRequest request, StreamObserver<ListMembersResponse> reply) {
            tokens.add(request.getPageToken());
            if (pages.isEmpty()) {
                reply.onError(Status.UNAVAILABLE.asRuntimeException());
            } else {
                answer(next(pages), reply);
            }
        }

        @Override
        public void createTeam(CreateTeamRequest request, StreamObserver<CreateTeamResponse> reply) {
            var credential = "twm:" + request.getName() + ":" + request.getLeadName() + ":0123456789abcdef";
            answer(CreateTeamResponse.newBuilder().setCredential(credential).build(), reply);
        }

        @Override
        public void invite(InviteRequest request, StreamObserver<InviteResponse> reply) {
            answer(
                    InviteResponse.newBuilder()
                            .setJoinString(request.getMember())
                            .build(),
                    reply);
        }

        @Override
        public void forceStop(ForceStopRequest request, StreamObserver<ForceStopResponse> reply) {
            var member = Member.newBuilder().setName(request.getMember()).setLastSummary(request.getReason());
            answer(ForceStopResponse.newBuilder().setMember(member).build(), reply);
        }

        @Override
        public void setLead(SetLeadRequest request, StreamObserver<SetLeadResponse> reply) {
            var team = Team.newBuilder().setLead(request.getMember());
            answer(SetLeadResponse.newBuilder().setTeam(team).build(), reply);
        }

        @Override
        public void deleteTeam(DeleteTeamRequest request, StreamObserver<DeleteTeamResponse> reply) {
            tokens.add("deleted " + request.getTeam());
            answer(DeleteTeamResponse.getDefaultInstance(), reply);
        }
    }

    private static ListMembersResponse page(String token, Member.Builder member) {
        return ListMembersResponse.newBuilder()
                .addMembers(member)
                .setNextPageToken(token)
                .build();
    }

    private static Member.Builder ann(MemberState state, long incarnation) {
        return Member.newBuilder().setName("Ann").setState(state).setIncarnation(incarnation);
    }

    @Test
    void a_shutdown_waits_for_the_decision_and_the_exit_through_all_pages() {
        decisions.addAll(List.of(RequestState.REQUEST_STATE_PENDING, RequestState.REQUEST_STATE_APPROVED));
        var lead = Member.newBuilder().setName("lead");
        var exited = ann(MemberState.MEMBER_STATE_EXITED, 2)
                .setExit(ExitReport.newBuilder().setCode(3));
        pages.addAll(List.of(
                page("more", lead),
                page("", ann(MemberState.MEMBER_STATE_STOPPING, 2)),
                page("more", lead),
                page("", exited)));
        var ended = me.shutdown("ann", "done", Duration.ofSeconds(20));
        assertEquals(RequestState.REQUEST_STATE_APPROVED, ended.request().getState());
        assertEquals(3, ended.exit().orElseThrow().getCode());
        assertEquals(List.of("", "more", "", "more"), tokens);
    }

    @Test
    void a_rejected_shutdown_has_no_exit_and_a_pending_one_is_joined() {
        isPending = true;
        decisions.add(RequestState.REQUEST_STATE_REJECTED);
        var ended = me.shutdown("ann", "", Duration.ofSeconds(20));
        assertEquals("why", ended.request().getReason());
        assertTrue(ended.exit().isEmpty());
        assertEquals(List.of("req_9"), waits);
    }

    @Test
    void a_shutdown_ends_without_an_exit_if_a_new_life_has_begun_or_the_time_is_over() {
        decisions.add(RequestState.REQUEST_STATE_APPROVED);
        pages.add(page("", ann(MemberState.MEMBER_STATE_ACTIVE, 3)));
        assertTrue(me.shutdown("ann", "", Duration.ofSeconds(20)).exit().isEmpty());
        pages.clear();
        pages.add(page("", ann(MemberState.MEMBER_STATE_STOPPING, 2)));
        assertTrue(me.shutdown("ann", "", Duration.ZERO).exit().isEmpty());
    }

    @Test
    void a_shutdown_ends_in_time_without_an_exit_if_the_coordinator_is_gone() {
        decisions.add(RequestState.REQUEST_STATE_APPROVED);
        var ended = me.shutdown("ann", "", Duration.ofSeconds(1));
        assertEquals(RequestState.REQUEST_STATE_APPROVED, ended.request().getState());
        assertTrue(ended.exit().isEmpty());
    }

    @Test
    void a_wait_for_a_decision_ends_in_time_if_the_coordinator_is_gone() {
        breaks = Integer.MAX_VALUE;
        var failure = assertTimeout(
                Duration.ofSeconds(8),
                () -> assertThrows(TeamwireException.class, () -> me.waitDecision("req_1", Duration.ofSeconds(1))));
        assertEquals(Code.UNAVAILABLE, failure.code());
        assertEquals("gone", failure.getMessage());
    }

    @Test
    void a_wait_that_broke_asks_only_for_the_rest_of_its_time() {
        breaks = 1;
        decisions.add(RequestState.REQUEST_STATE_APPROVED);
        me.waitDecision("req_1", Duration.ofSeconds(20));
        assertEquals(2, asked.size());
        assertTrue(asked.get(1).compareTo(asked.get(0)) < 0);
    }

    @Test
    void an_outage_during_a_wait_counts_from_its_own_first_failure() {
        breaks = 2;
        beforeLastBreak = () -> new CompletableFuture<Void>()
                .completeOnTimeout(null, 1_200, TimeUnit.MILLISECONDS)
                .join();
        decisions.add(RequestState.REQUEST_STATE_APPROVED);
        me.calls.patience = 1;
        var decided = me.waitDecision("req_1", Duration.ofSeconds(20));
        assertEquals(RequestState.REQUEST_STATE_APPROVED, decided.getState());
    }

    @Test
    void creating_a_team_returns_the_client_of_its_lead() {
        try (var operator = connect("two:0123456789abcdef");
                var zoe = operator.createTeam("blue", "zoe")) {
            assertEquals(List.of("", ""), List.of(operator.name(), operator.team()));
            assertEquals(List.of("zoe", "blue"), List.of(zoe.name(), zoe.team()));
            assertEquals("ann", zoe.invite("ann").getJoinString());
            assertEquals("stuck", zoe.forceStop("ann", "stuck").getLastSummary());
            assertEquals("ann", zoe.handOver("ann").getLead());
            zoe.deleteTeam("blue");
            assertEquals(List.of("deleted blue"), tokens);
        }
    }
}
