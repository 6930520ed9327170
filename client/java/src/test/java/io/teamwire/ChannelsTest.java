package io.teamwire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ChannelsTest {
    @ParameterizedTest
    @CsvSource({
        "host                       , host:80",
        "HTTPS://Host               , host:443 over TLS",
        "'http://a:1, b:2/'         , a:1 b:2",
        "https://[::1]:7420         , [::1]:7420 over TLS",
        "'https://a,https://b:65535', a:443 over TLS b:65535 over TLS",
        "unix:///A%20b/c.sock       , /A b/c.sock socket",
    })
    void addresses_are_parsed(String text, String expected) {
        var read = Channels.addresses(text).stream()
                .map(address -> address.place() + (address.isTls() ? " over TLS" : address.isSocket() ? " socket" : ""))
                .collect(Collectors.joining(" "));
        assertEquals(expected, read);
    }

    @ParameterizedTest
    @ValueSource(strings = {"http://[::1]:7420", "https://[2001:db8::1]", "https://host:1"})
    void every_kind_of_address_gets_a_channel(String text) {
        try (var channels = new Channels(Map.of(Settings.ADDRESS, text))) {
            assertEquals(
                    Channels.addresses(text).get(0).place(), channels.channel().authority());
        }
    }

    @Test
    void another_user_may_listen_only_where_no_one_else_can() throws IOException {
        var path = Files.createTempFile("teamwire", ".sock");
        Sockets.refuseForeign(0, path);
        Sockets.refuseForeign((int) Files.getAttribute(Path.of("/proc/self"), "unix:uid"), path);
        assertThrows(IOException.class, () -> Sockets.refuseForeign(65_534, path));
        Files.delete(path);
        // Only root can change it.
        Sockets.refuseForeign(65_534, Path.of("/etc/passwd"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                ",",
                "http://",
                "ftp://a",
                "http://a:0",
                "http://a:65536",
                "http://a:",
                "http://a/path",
                "http://user@a",
                "http://a b",
                "::1",
                "https://a,http://b",
                "unix://a",
                "unix:///",
                "unix:///a/",
                "unix:///a%00",
                "unix:///a,http://b",
                "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a",
            })
    void a_malformed_address_is_refused(String text) {
        assertThrows(TeamwireException.class, () -> Channels.addresses(text));
    }
}
