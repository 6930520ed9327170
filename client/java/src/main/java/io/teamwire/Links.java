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

/** The ways to the coordinators: a channel to each of those that share a store, of which one is in use at a time. */
final class Links implements AutoCloseable {
    /** The largest reply that is read: 1,000 messages of 64 KiB each, and room. */
    private static final int REPLY_BYTES_MAX = 80 << 20;

    private static final Map<String, ?> SPREAD =
            Map.of("loadBalancingConfig", List.of(Map.of("pick_first", Map.of("shuffleAddressList", true))));

    private final List<ManagedChannel> channels;
    private int current;
    private boolean hasConnected;
    private boolean isClosed;

    /** Sends nothing yet. Fails when a certificate or a key cannot be used. */
    Links(String address, Identity.Tls tls) {
        var addresses = new ArrayList<>(Address.list(address));
        // So that clients spread themselves.
        Collections.shuffle(addresses);
        try {
            var credentials = addresses.get(0).isTls() ? credentials(tls) : InsecureChannelCredentials.create();
            channels =
                    addresses.stream().map(each -> channel(each, credentials)).toList();
        } catch (IOException | RuntimeException e) {
            throw new TeamwireException(Code.INVALID_ARGUMENT, "There can be no connection to " + address + ": " + e);
        }
    }

    private static ManagedChannel channel(Address address, ChannelCredentials credentials) {
        return Grpc.newChannelBuilder("dns:///" + address.authority(), credentials)
                .maxInboundMessageSize(REPLY_BYTES_MAX)
                .keepAliveTime(20, TimeUnit.SECONDS)
                .keepAliveTimeout(10, TimeUnit.SECONDS)
                .keepAliveWithoutCalls(true)
                .disableServiceConfigLookUp()
                .defaultServiceConfig(SPREAD)
                .build();
    }

    /** Returns the channel in use. It connects when it is called on. */
    synchronized ManagedChannel channel() {
        if (isClosed) {
            throw new IllegalStateException("the client is closed");
        }
        return channels.get(current);
    }

    /**
     * Has the next call go to the next coordinator, over a new connection, if that may do better after this failure.
     * What is under way on the old one goes on.
     */
    synchronized void leave(ManagedChannel failed, TeamwireException failure) {
        if (failure.isOfConnection() && failed == channels.get(current)) {
            failed.enterIdle();
            current = (current + 1) % channels.size();
        }
    }

    /** Notes that a coordinator has answered. Whatever is wrong with one later may be put right again. */
    synchronized void connected() {
        hasConnected = true;
    }

    /** Returns whether TLS stands in the way, and will until somebody changes something. */
    synchronized boolean isHopeless(TeamwireException failure) {
        return !hasConnected && failure.isInsecure();
    }

    private static ChannelCredentials credentials(Identity.Tls tls) throws IOException {
        var builder = TlsChannelCredentials.newBuilder();
        if (tls.ca() != null) {
            builder.trustManager(pem(tls.ca()));
        } else if (tls.fingerprint() != null) {
            builder.trustManager(new ByFingerprint(tls.fingerprint()));
        }
        if (tls.cert() != null && tls.key() != null) {
            builder.keyManager(pem(tls.cert()), pem(tls.key()));
        } else if (tls.cert() != null || tls.key() != null) {
            throw new IOException("a client certificate goes with its key; only one of them is given");
        }
        return builder.build();
    }

    private static InputStream pem(String text) throws IOException {
        return text.contains("-----BEGIN")
                ? new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8))
                : Files.newInputStream(Path.of(text));
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        channels.forEach(ManagedChannel::shutdownNow);
    }
}
