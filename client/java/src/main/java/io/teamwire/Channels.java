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
import java.net.URI;
import java.net.URISyntaxException;
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

/** One channel to each coordinator that shares the store. One channel is in use at a time. */
final class Channels implements AutoCloseable {
    /** Tries the addresses of a name in random order. */
    private static final Map<String, ?> SPREAD =
            Map.of("loadBalancingConfig", List.of(Map.of("pick_first", Map.of("shuffleAddressList", true))));

    private static final Pattern ADDRESS = Pattern.compile(
            "(?:(https?)://)?([a-z0-9._-]{1,253}|\\[[0-9a-f:.]{2,45}])(?::(\\d{1,5}))?/?", Pattern.CASE_INSENSITIVE);

    /** A host of this machine. */
    private static final Pattern LOOPBACK = Pattern.compile("(?:(?:.*\\.)?localhost|127\\.[0-9.]+|\\[::1]):\\d+");

    /** The address of a coordinator. The place is {@code HOST:PORT} or, with the scheme {@code unix}, the path of a socket. */
    record Address(String scheme, String place) {
        boolean isTls() {
            return scheme.equals("https");
        }

        boolean isSocket() {
            return scheme.equals("unix");
        }

        /** Returns whether any program on this machine could listen there. */
        boolean isUnproven() {
            return scheme.equals("http") && LOOPBACK.matcher(place).matches();
        }
    }

    private final List<ManagedChannel> channels;
    private int current;
    private boolean isClosed;

    /** Does not connect yet. Throws if an address, a certificate or a key is invalid. */
    Channels(Map<String, String> settings) {
        var addresses = new ArrayList<>(addresses(settings.get(Settings.ADDRESS)));
        // Spread clients over the addresses.
        Collections.shuffle(addresses);
        try {
            var isTls = addresses.get(0).isTls();
            var credentials = isTls ? credentials(settings) : InsecureChannelCredentials.create();
            channels =
                    addresses.stream().map(each -> channel(each, credentials)).toList();
        } catch (TeamwireException e) {
            throw e;
        } catch (IOException | RuntimeException e) {
            throw new TeamwireException(Code.INVALID_ARGUMENT, "Cannot set up TLS: " + e);
        }
    }

    /** Parses 1 to 16 addresses, separated by commas, all with the same scheme. */
    static List<Address> addresses(String text) {
        var addresses = Stream.of(text.split(",", 17)).map(Channels::address).toList();
        if (addresses.size() > 16
                || addresses.stream().map(Address::scheme).distinct().count() > 1) {
            throw malformed();
        }
        return addresses;
    }

    private static Address address(String text) {
        if (text.strip().toLowerCase(Locale.ROOT).startsWith("unix://")) {
            return new Address("unix", socketPath(text.strip()));
        }
        var parts = ADDRESS.matcher(text.strip());
        if (!parts.matches()) {
            throw malformed();
        }
        var isTls = "https".equalsIgnoreCase(parts.group(1));
        var port = parts.group(3) == null ? isTls ? 443 : 80 : Integer.parseInt(parts.group(3));
        if (port < 1 || port > 65_535) {
            throw malformed();
        }
        return new Address(isTls ? "https" : "http", parts.group(2).toLowerCase(Locale.ROOT) + ":" + port);
    }

    private static String socketPath(String text) {
        try {
            var uri = new URI(text);
            var path = uri.getPath();
            var isPathOnly = uri.getRawAuthority() == null && uri.getRawQuery() == null && uri.getRawFragment() == null;
            if (isPathOnly && path.startsWith("/") && !path.endsWith("/") && path.indexOf('\0') < 0) {
                return path;
            }
        } catch (URISyntaxException e) {
            // It is malformed.
        }
        throw malformed();
    }

    /** Omits the text: it may be a join string, which is secret. */
    private static TeamwireException malformed() {
        return new TeamwireException(
                Code.INVALID_ARGUMENT,
                "TEAMWIRE_ADDRESS is malformed. Write https://HOST:PORT, http://HOST:PORT or unix:///PATH, with a port from 1"
                        + " to 65535, or up to 16 of one scheme separated by commas.");
    }

    /** Returns an address as a URI for gRPC, with the brackets of IPv6 escaped. */
    private static String target(Address address) {
        return "dns:///" + address.place().replace("[", "%5B").replace("]", "%5D");
    }

    private static ManagedChannel channel(Address address, ChannelCredentials credentials) {
        var builder = address.isSocket()
                ? Sockets.channelBuilder(address.place())
                : Grpc.newChannelBuilder(target(address), credentials);
        return builder.keepAliveTime(20, TimeUnit.SECONDS)
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
            builder.trustManager(new PinnedTrustManager(settings.get(Settings.FINGERPRINT)));
        }
        if (settings.containsKey(Settings.CERT) != settings.containsKey(Settings.KEY)) {
            throw new IOException("a client certificate requires its key: set both TEAMWIRE_CERT and TEAMWIRE_KEY");
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

    /** Returns the current channel. It connects on first use. */
    synchronized ManagedChannel channel() {
        if (isClosed) {
            throw new IllegalStateException("The client is closed.");
        }
        return channels.get(current);
    }

    /**
     * Makes the next call use the next coordinator, over a new connection, if that may help after this failure. Calls in
     * flight on the failed channel continue.
     */
    synchronized void leave(ManagedChannel failed, TeamwireException failure) {
        if (failure.isConnectionFailure() && failed == channels.get(current)) {
            failed.enterIdle();
            current = (current + 1) % channels.size();
        }
    }

    /** Returns whether this many attempts have tried every coordinator. */
    boolean areTried(int attempts) {
        return attempts >= channels.size();
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        channels.forEach(ManagedChannel::shutdownNow);
    }
}
