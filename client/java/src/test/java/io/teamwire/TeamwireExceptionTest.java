package io.teamwire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.net.ConnectException;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class TeamwireExceptionTest {
    static StatusRuntimeException refusal(Code code, String reason, Message... more) {
        var info = ErrorInfo.newBuilder()
                .setDomain("teamwire")
                .setReason(reason)
                .putMetadata("request_id", "req_1")
                .build();
        var status =
                Status.newBuilder().setCode(code.value()).setMessage("Do this.").addDetails(Any.pack(info));
        for (var detail : more) {
            status.addDetails(Any.pack(detail));
        }
        return StatusProto.toStatusRuntimeException(status.build());
    }

    @Test
    void details_are_read() {
        var error = TeamwireException.of(refusal(
                Code.RESOURCE_EXHAUSTED,
                "RATE_LIMITED",
                BadRequest.newBuilder()
                        .addFieldViolations(
                                BadRequest.FieldViolation.newBuilder().setField("content"))
                        .build(),
                RetryInfo.newBuilder()
                        .setRetryDelay(Duration.newBuilder().setNanos(250_000_000))
                        .build()));
        assertEquals("RATE_LIMITED", error.reason());
        assertEquals(Code.RESOURCE_EXHAUSTED, error.code());
        assertEquals("Do this.", error.getMessage());
        assertEquals("content", error.field());
        assertEquals(Map.of("request_id", "req_1"), error.metadata());
        assertEquals(250, error.retryAfter().toMillis());
    }

    @Test
    void unknown_and_malformed_details_are_skipped() {
        var strange = Status.newBuilder()
                .setCode(Code.NOT_FOUND.value())
                .addDetails(Any.pack(ErrorInfo.newBuilder()
                        .setDomain("elsewhere")
                        .setReason("X")
                        .build()))
                .addDetails(Any.pack(RetryInfo.newBuilder()
                        .setRetryDelay(
                                Duration.newBuilder().setSeconds(Long.MAX_VALUE).setNanos(Integer.MAX_VALUE))
                        .build()))
                .addDetails(Any.newBuilder()
                        .setTypeUrl("type.googleapis.com/google.rpc.ErrorInfo")
                        .setValue(ByteString.copyFromUtf8("\u0007\u0007\u0007")));
        var error = TeamwireException.of(StatusProto.toStatusRuntimeException(strange.build()));
        assertEquals("", error.reason());
        assertEquals(86_402, error.retryAfter().toSeconds());

        var trailers = new Metadata();
        trailers.put(Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER), new byte[] {7, 7, 7});
        assertEquals(
                Code.ABORTED,
                TeamwireException.of(io.grpc.Status.ABORTED.asRuntimeException(trailers))
                        .code());
        assertEquals(
                Code.UNKNOWN, TeamwireException.of(new Exception("no gRPC")).code());
    }

    @ParameterizedTest
    @CsvSource({
        // reason, retried, also if the call has no key, at another address
        "STORE_UNAVAILABLE, true, false, false",
        "DURABILITY_NOT_REACHED, true, false, false",
        "DRAINING, true, true, true",
        "RATE_LIMITED, true, true, false",
        "INBOX_FULL, false, false, false",
        "AGENT_NOT_FOUND, false, false, false",
        "A_LATER_REASON, false, false, false",
    })
    void only_not_now_reasons_are_retried(
            String reason, boolean isRetried, boolean alsoOnce, boolean isConnectionFailure) {
        var error = TeamwireException.of(refusal(Code.UNAVAILABLE, reason));
        assertEquals(isRetried, error.isRetried(true));
        assertEquals(alsoOnce, error.isRetried(false));
        assertEquals(isConnectionFailure, error.isConnectionFailure());
    }

    @ParameterizedTest
    @EnumSource(
            value = Code.class,
            names = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"})
    void four_codes_leave_the_outcome_unknown(Code code) {
        var error = TeamwireException.of(code.toStatus().asRuntimeException());
        assertTrue(error.isRetried(true) && error.isConnectionFailure());
        assertFalse(error.isRetried(false));
        var notSent = code.toStatus().withCause(new ConnectException("refused"));
        assertTrue(TeamwireException.of(notSent.asRuntimeException()).isRetried(false));
    }

    @ParameterizedTest
    @EnumSource(
            value = Code.class,
            mode = EnumSource.Mode.EXCLUDE,
            names = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"})
    void other_codes_are_final(Code code) {
        assertFalse(TeamwireException.of(code.toStatus().asRuntimeException()).isRetried(true));
    }

    @Test
    void delays_grow_and_respect_the_retry_delay() {
        var failure = TeamwireException.of(io.grpc.Status.UNAVAILABLE.asRuntimeException());
        var bounds = new int[] {100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000};
        for (var attempts = 1; attempts <= bounds.length; attempts++) {
            assertTrue(Calls.delay(attempts, failure) <= bounds[attempts - 1]);
        }
        assertTrue(Calls.delay(Integer.MAX_VALUE, failure) <= 5_000);
        var asked = RetryInfo.newBuilder()
                .setRetryDelay(Duration.newBuilder().setSeconds(7))
                .build();
        var limited = refusal(Code.RESOURCE_EXHAUSTED, "RATE_LIMITED", asked);
        assertEquals(7_000, Calls.delay(1, TeamwireException.of(limited)));
        var draining = refusal(Code.UNAVAILABLE, "DRAINING", asked);
        assertTrue(Calls.delay(1, TeamwireException.of(draining)) <= 100);
    }
}
