package io.teamwire;

import io.grpc.Status.Code;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Where a coordinator is.
 *
 * @param isTls spoken over TLS
 * @param authority {@code HOST:PORT}, an IPv6 address in brackets
 */
record Address(boolean isTls, String authority) {
    private static final Pattern FORM = Pattern.compile(
            "(?:(https?)://)?([a-z0-9._-]{1,253}|\\[[0-9a-f:.]{2,45}])(?::(\\d{1,5}))?/?", Pattern.CASE_INSENSITIVE);

    /** Reads 1 to 16 addresses with commas between them: all with TLS, or all without. */
    static List<Address> list(String text) {
        var addresses = Stream.of(text.split(",", 17)).map(Address::of).toList();
        if (addresses.stream().map(Address::isTls).distinct().count() > 1) {
            throw malformed("it mixes http and https");
        }
        if (addresses.size() > 16) {
            throw malformed("it lists more than 16");
        }
        return addresses;
    }

    private static Address of(String text) {
        var parts = FORM.matcher(text.strip());
        if (!parts.matches()) {
            throw malformed("it has another form");
        }
        var isTls = "https".equalsIgnoreCase(parts.group(1));
        var port = parts.group(3) == null ? isTls ? 443 : 80 : Integer.parseInt(parts.group(3));
        if (port < 1 || port > 65_535) {
            throw malformed("the port must be 1 to 65535");
        }
        return new Address(isTls, parts.group(2).toLowerCase(Locale.ROOT) + ":" + port);
    }

    /** Leaves the text out: somebody may have pasted a join string, which is secret. */
    private static TeamwireException malformed(String why) {
        return new TeamwireException(
                Code.INVALID_ARGUMENT,
                "The address of the coordinator cannot be used: " + why
                        + ". Write https://HOST:PORT or http://HOST:PORT, up to 16 with commas between them.");
    }
}
