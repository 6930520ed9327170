package io.teamwire;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.protobuf.StatusProto;
import java.net.ConnectException;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.Comparator;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLHandshakeException;

/**
 * A refused call, a call with unknown outcome, or invalid settings. The message says what to do.
 *
 * <p>With a {@link #reason()}, the coordinator refused; without one, the error has another cause, such as a broken
 * connection.
 */
public final class TeamwireException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The codes that, without a reason, leave the outcome of the call unknown. */
    private static final Set<Code> UNKNOWN =
            Set.of(Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.UNKNOWN);

    private final Code code;
    private String reason = "";
    private String field = "";

    @SuppressWarnings("serial") // Map.copyOf returns a serializable map.
    private Map<String, String> metadata = Map.of();

    private Duration retryAfter = Duration.ZERO;
    private boolean isOutcomeUnknown;
    private boolean isOnce;

    TeamwireException(Code code, String message) {
        super(message);
        this.code = code;
    }

    private TeamwireException(Code code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /**
     * Converts an error of a generated stub.
     *
     * <p>Unary calls on the stubs of {@link Teamwire} already throw this exception; streaming calls, such as
     * {@code history().followHistory}, throw gRPC's.
     */
    public static TeamwireException of(Throwable thrown) {
        if (thrown instanceof TeamwireException already) {
            return already;
        }
        var status = Status.fromThrowable(thrown);
        // After a broken connection, the description shows Netty's pipeline. The longest message of a cause names the
        // fault.
        var description = Objects.requireNonNullElse(status.getDescription(), "")
                .replaceFirst("\\s*Channel Pipeline: \\[.*]", "");
        var detail = causes(status.getCause())
                .map(Throwable::getMessage)
                .filter(Objects::nonNull)
                .max(Comparator.comparingInt(String::length));
        var message = detail.map(text -> description + ": " + text).orElse(description);
        var error = new TeamwireException(status.getCode(), message, thrown);
        error.readDetails(status, Status.trailersFromThrowable(thrown));
        return error;
    }

    /** Reads the protocol's details. Skips unknown and malformed ones. */
    private void readDetails(Status status, Metadata trailers) {
        try {
            for (var detail :
                    StatusProto.fromStatusAndTrailers(status, trailers).getDetailsList()) {
                if (detail.is(ErrorInfo.class)) {
                    var info = detail.unpack(ErrorInfo.class);
                    var isOurs = info.getDomain().equals("teamwire");
                    reason = isOurs ? info.getReason() : reason;
                    metadata = isOurs ? Map.copyOf(info.getMetadataMap()) : metadata;
                } else if (detail.is(BadRequest.class)) {
                    var violations = detail.unpack(BadRequest.class).getFieldViolationsList();
                    field = violations.isEmpty() ? "" : violations.get(0).getField();
                } else if (detail.is(RetryInfo.class)) {
                    var delay = detail.unpack(RetryInfo.class).getRetryDelay();
                    // Limit it to a day, which is long enough and fits into a sleep.
                    retryAfter = Duration.ofSeconds(Math.min(delay.getSeconds(), 86_400), delay.getNanos());
                }
            }
        } catch (InvalidProtocolBufferException | IllegalArgumentException | ArithmeticException e) {
            addSuppressed(e);
        }
    }

    /** Returns why the coordinator refused, such as {@code AGENT_NOT_FOUND}. Empty if no coordinator did. */
    public String reason() {
        return reason;
    }

    /** Returns the gRPC code. */
    public Code code() {
        return code;
    }

    /** Returns the request field at fault. Empty if there is none. */
    public String field() {
        return field;
    }

    /** Returns facts for a program, such as the id of a pending request. */
    public Map<String, String> metadata() {
        return metadata;
    }

    /** Returns the delay that the coordinator asks for before a retry. Zero if it asks for none. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** Returns whether the same call, with the same idempotency key, may succeed later without a change. */
    public boolean isRetryable() {
        var passes = reason.isEmpty() ? isRetried(true) && !isTlsFailure() : Policy.isRetryable(reason);
        return passes && !(isOutcomeUnknown && isOnce);
    }

    /**
     * Returns whether the call may have been carried out all the same. Repeating it with the same idempotency key is safe.
     */
    public boolean isOutcomeUnknown() {
        return isOutcomeUnknown;
    }

    /** Records what the error of the last attempt means for the call. */
    void conclude(String method, boolean hasMaybeChanged) {
        isOnce = Policy.isOnce(method);
        isOutcomeUnknown = hasMaybeChanged && leavesOpen();
    }

    /** Returns whether an attempt that failed may have changed something. */
    boolean mayHaveChanged(String method) {
        return mayBeDone() && !Policy.isRead(method);
    }

    /** Returns whether an attempt failed because its connection broke, and did not run out of time. */
    boolean isBroken() {
        return reason.isEmpty() && mayBeDone() && code != Code.DEADLINE_EXCEEDED;
    }

    private boolean mayBeDone() {
        if (!reason.isEmpty()) {
            return Policy.isOutcomeUnknown(reason) && !"true".equals(metadata.get("nothing_changed"));
        }
        return UNKNOWN.contains(code) && !isTlsFailure() && !has(ConnectException.class);
    }

    /**
     * Returns whether the failure says nothing about what earlier attempts did. Any other refusal of the same idempotency key
     * shows that none was carried out.
     */
    private boolean leavesOpen() {
        return reason.isEmpty() || Policy.isRetried(reason) || Policy.isOutcomeUnknown(reason);
    }

    /** Returns whether to retry. {@code mayRepeat}: carrying out the call twice does no harm. */
    boolean isRetried(boolean mayRepeat) {
        var isPassing = reason.isEmpty() ? UNKNOWN.contains(code) : Policy.isRetried(reason);
        return isPassing && (mayRepeat || !mayBeDone());
    }

    /** Returns whether a new connection, to another coordinator if there is one, may help. */
    boolean isConnectionFailure() {
        return reason.equals("DRAINING") || reason.isEmpty() && UNKNOWN.contains(code);
    }

    /** Returns whether either side refused TLS, or the server does not support it. A cut handshake does not count. */
    boolean isTlsFailure() {
        return has(GeneralSecurityException.class) || has(SSLException.class) && !has(SSLHandshakeException.class);
    }

    private boolean has(Class<? extends Throwable> kind) {
        return causes(getCause()).anyMatch(kind::isInstance);
    }

    private static Stream<Throwable> causes(Throwable thrown) {
        return Stream.iterate(thrown, Objects::nonNull, Throwable::getCause);
    }
}
