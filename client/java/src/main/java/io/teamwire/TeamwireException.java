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
 * A call was refused, or its outcome is not known, or the client cannot be made. The message says what to do.
 *
 * <p>With a {@link #reason()} the coordinator has refused; without one it comes from elsewhere, such as a broken
 * connection.
 */
public final class TeamwireException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The codes that say, without a reason, that the outcome is not known. */
    private static final Set<Code> UNKNOWN =
            Set.of(Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.UNKNOWN);

    private final Code code;
    private String reason = "";
    private String field = "";

    @SuppressWarnings("serial") // What Map.copyOf makes is serializable.
    private Map<String, String> metadata = Map.of();

    private Duration retryAfter = Duration.ZERO;

    TeamwireException(Code code, String message) {
        super(message);
        this.code = code;
    }

    private TeamwireException(Code code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /**
     * Reads an error of a generated stub.
     *
     * <p>The stubs of {@link Teamwire} throw this exception by themselves; only what streams, such as
     * {@code history().followHistory}, throws gRPC's own.
     */
    public static TeamwireException of(Throwable thrown) {
        if (thrown instanceof TeamwireException already) {
            return already;
        }
        var status = Status.fromThrowable(thrown);
        // Of a broken connection the description tells Netty's pipeline. What was wrong is said by one of its causes:
        // by
        // the one that says the most.
        var said = Objects.requireNonNullElse(status.getDescription(), "")
                .replaceFirst("\\s*Channel Pipeline: \\[.*]", "");
        var detail = causes(status.getCause())
                .map(Throwable::getMessage)
                .filter(Objects::nonNull)
                .max(Comparator.comparingInt(String::length));
        var message = detail.map(text -> said + ": " + text).orElse(said);
        var error = new TeamwireException(status.getCode(), message, thrown);
        error.readDetails(status, Status.trailersFromThrowable(thrown));
        return error;
    }

    /** Takes what can be read of the details; what is none of the protocol's is left alone. */
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
                    // A day is as good as never, and can be slept.
                    retryAfter = Duration.ofSeconds(Math.min(delay.getSeconds(), 86_400), delay.getNanos());
                }
            }
        } catch (InvalidProtocolBufferException | IllegalArgumentException | ArithmeticException e) {
            addSuppressed(e);
        }
    }

    /** Returns why the coordinator refused, such as {@code AGENT_NOT_FOUND}. Empty: it comes from elsewhere. */
    public String reason() {
        return reason;
    }

    /** Returns the gRPC code. */
    public Code code() {
        return code;
    }

    /** Returns the field of the request that is at fault. Empty: none. */
    public String field() {
        return field;
    }

    /** Returns what else the coordinator says of the reason. */
    public Map<String, String> metadata() {
        return metadata;
    }

    /** Returns how long the coordinator asks to wait before the next attempt. Zero: it does not say. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** Returns whether to try again. {@code mayRepeat}: the call does no harm when it is carried out twice. */
    boolean isPassing(boolean mayRepeat) {
        if (!reason.isEmpty()) {
            return Policy.isRetried(reason) && (mayRepeat || Policy.isNotDone(reason));
        }
        return UNKNOWN.contains(code) && (mayRepeat || has(ConnectException.class));
    }

    /** Returns whether another connection, to another coordinator where there is one, may do better. */
    boolean isOfConnection() {
        return reason.equals("DRAINING") || reason.isEmpty() && UNKNOWN.contains(code);
    }

    /** Returns whether TLS was refused, here or there, or is not spoken there; not whether it was cut off. */
    boolean isInsecure() {
        return has(GeneralSecurityException.class) || has(SSLException.class) && !has(SSLHandshakeException.class);
    }

    private boolean has(Class<? extends Throwable> kind) {
        return causes(getCause()).anyMatch(kind::isInstance);
    }

    private static Stream<Throwable> causes(Throwable thrown) {
        return Stream.iterate(thrown, Objects::nonNull, Throwable::getCause);
    }
}
