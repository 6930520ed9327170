package io.teamwire;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status.Code;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.TrustManager;

/** The ways to the coordinators: one channel at a time, to any of several that share a store. */
final class Links implements AutoCloseable {
    /** The largest reply that is read: 1,000 messages of 64 KiB each, and room. */
    private static final int REPLY_BYTES_MAX = 80 << 20;

    private final List<Address> addresses;
    private final Identity.Tls tls;
    private final TrustManager byFingerprint;
    private ManagedChannel channel;
    private int dialled;
    private boolean isClosed;

    /** Fails when a certificate or a key cannot be read. They are read again for every channel. */
    Links(String address, Identity.Tls tls) {
        // Shuffled, so that the clients spread themselves.
        addresses = new ArrayList<>(Address.list(address));
        Collections.shuffle(addresses);
        this.tls = tls;
        byFingerprint = tls.ca() == null && tls.fingerprint() != null ? new ByFingerprint(tls.fingerprint()) : null;
        credentials();
    }

    /** Returns the present channel, or makes one to the next address. Nothing is sent yet. */
    synchronized ManagedChannel channel() {
        if (isClosed) {
            throw new IllegalStateException("the client is closed");
        }
        if (channel == null) {
            channel = Grpc.newChannelBuilder(
                            "dns:///"
                                    + addresses
                                            .get(dialled++ % addresses.size())
                                            .authority(),
                            credentials())
                    .maxInboundMessageSize(REPLY_BYTES_MAX)
                    .keepAliveTime(20, TimeUnit.SECONDS)
                    .keepAliveTimeout(10, TimeUnit.SECONDS)
                    .keepAliveWithoutCalls(true)
                    .disableServiceConfigLookUp()
                    .defaultServiceConfig(Map.of(
                            "loadBalancingConfig", List.of(Map.of("pick_first", Map.of("shuffleAddressList", true)))))
                    .build();
        }
        return channel;
    }

    /** Gives a channel up after this failure, if another one may do better. What is under way on it may go on. */
    synchronized void judge(ManagedChannel failed, TeamwireException failure) {
        if (failure.isOfConnection() && failed == channel) {
            channel.shutdown();
            channel = null;
        }
    }

    private ChannelCredentials credentials() {
        if (!addresses.get(0).isTls()) {
            return InsecureChannelCredentials.create();
        }
        var builder = TlsChannelCredentials.newBuilder();
        try {
            if (tls.ca() != null) {
                builder.trustManager(pem(tls.ca()));
            } else if (byFingerprint != null) {
                builder.trustManager(byFingerprint);
            }
            if (tls.cert() != null || tls.key() != null) {
                builder.keyManager(pem(tls.cert()), pem(tls.key()));
            }
            return builder.build();
        } catch (IOException e) {
            throw new TeamwireException(Code.INVALID_ARGUMENT, "TLS cannot be set up: " + e);
        }
    }

    private static InputStream pem(String text) throws IOException {
        return text.contains("-----BEGIN")
                ? new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8))
                : Files.newInputStream(Path.of(text));
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        if (channel != null) {
            channel.shutdownNow();
        }
    }
}
