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
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** The ways to the coordinators: a channel to each of those that share a store, of which one is in use at a time. */
final class Links implements AutoCloseable {
    /** The largest reply that is read: 1,000 messages of 64 KiB each, and room. */
    private static final int REPLY_BYTES_MAX = 80 << 20;

    /** Of a name with several addresses, tries them in any order. */
    private static final Map<String, ?> SPREAD =
            Map.of("loadBalancingConfig", List.of(Map.of("pick_first", Map.of("shuffleAddressList", true))));

    private static final Pattern ADDRESS = Pattern.compile(
            "(?:(https?)://)?([a-z0-9._-]{1,253}|\\[[0-9a-f:.]{2,45}])(?::(\\d{1,5}))?/?", Pattern.CASE_INSENSITIVE);

    /** Where a coordinator is. The authority is {@code HOST:PORT}. */
    record Address(boolean isTls, String authority) {}

    private final List<ManagedChannel> channels;
    private int current;
    private boolean isClosed;

    /** Sends nothing yet. Fails when an address, a certificate or a key cannot be used. */
    Links(Map<String, String> settings) {
        var addresses = new ArrayList<>(addresses(settings.get(Settings.ADDRESS)));
        // So that clients spread themselves.
        Collections.shuffle(addresses);
        try {
            var isTls = addresses.get(0).isTls();
            var credentials = isTls ? credentials(settings) : InsecureChannelCredentials.create();
            channels =
                    addresses.stream().map(each -> channel(each, credentials)).toList();
        } catch (IOException | RuntimeException e) {
            throw new TeamwireException(Code.INVALID_ARGUMENT, "TLS cannot be set up: " + e);
        }
    }

    /** Reads 1 to 16 addresses with commas between them: all with TLS, or all without. */
    static List<Address> addresses(String text) {
        var addresses = Stream.of(text.split(",", 17)).map(Links::address).toList();
        if (addresses.size() > 16
                || addresses.stream().map(Address::isTls).distinct().count() > 1) {
            throw malformed();
        }
        return addresses;
    }

    private static Address address(String text) {
        var parts = ADDRESS.matcher(text.strip());
        if (!parts.matches()) {
            throw malformed();
        }
        var isTls = "https".equalsIgnoreCase(parts.group(1));
        var port = parts.group(3) == null ? isTls ? 443 : 80 : Integer.parseInt(parts.group(3));
        if (port < 1 || port > 65_535) {
            throw malformed();
        }
        return new Address(isTls, parts.group(2).toLowerCase(Locale.ROOT) + ":" + port);
    }

    /** Leaves the text out: somebody may have pasted a join string, which is secret. */
    private static TeamwireException malformed() {
        return new TeamwireException(
                Code.INVALID_ARGUMENT,
                "TEAMWIRE_ADDRESS is no address of a coordinator. Write https://HOST:PORT, or up to 16 with commas between"
                        + " them, or all with http, with ports from 1 to 65535.");
    }

    /** Returns an address as gRPC takes it: a URI, in whose path the brackets of IPv6 may not stand. */
    private static String target(Address address) {
        return "dns:///" + address.authority().replace("[", "%5B").replace("]", "%5D");
    }

    private static ManagedChannel channel(Address address, ChannelCredentials credentials) {
        return Grpc.newChannelBuilder(target(address), credentials)
                .maxInboundMessageSize(REPLY_BYTES_MAX)
                .keepAliveTime(20, TimeUnit.SECONDS)
                .keepAliveTimeout(10, TimeUnit.SECONDS)
                .keepAliveWithoutCalls(true)
                .disableServiceConfigLookUp()
                .defaultServiceConfig(SPREAD)
                .build();
    }

    private static ChannelCredentials credentials(Map<String, String> settings) throws IOException {
        var builder = TlsChannelCredentials.newBuilder();
        if (settings.containsKey(Settings.CA)) {
            builder.trustManager(pem(settings.get(Settings.CA)));
        } else if (settings.containsKey(Settings.FINGERPRINT)) {
            builder.trustManager(new ByFingerprint(settings.get(Settings.FINGERPRINT)));
        }
        if (settings.containsKey(Settings.CERT) != settings.containsKey(Settings.KEY)) {
            throw new IOException("a client certificate and its key go together, and only one of them is given");
        }
        if (settings.containsKey(Settings.CERT)) {
            builder.keyManager(pem(settings.get(Settings.CERT)), pem(settings.get(Settings.KEY)));
        }
        return builder.build();
    }

    private static InputStream pem(String text) throws IOException {
        return text.contains("-----BEGIN")
                ? new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8))
                : Files.newInputStream(Path.of(text));
    }

    /** Returns the channel in use. It connects when it is called on. */
    synchronized ManagedChannel channel() {
        if (isClosed) {
            throw new IllegalStateException("The client is closed.");
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

    /** Returns whether every coordinator has been tried so many times. */
    boolean areTried(int attempts) {
        return attempts >= channels.size();
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        channels.forEach(ManagedChannel::shutdownNow);
    }
}
