package io.teamwire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class SettingsTest {
    private static final String SECRET = "0123456789abcdef0123456789abcdef";
    private static final String TOKEN = "twj:acme:4ed8:" + SECRET;
    private static final String HEX = "ab".repeat(32);

    @TempDir
    private Path directory;

    /** Resolves the settings with a context file of alice@acme, Bob@acme and Bob@beta. */
    private Map<String, String> find(String current, String variables) throws IOException {
        var identities = new StringBuilder();
        for (var name : new String[] {"alice@acme", "Bob@acme", "Bob@beta"}) {
            var parts = name.split("@");
            identities.append(
                    """
                    {"member": "%s", "team": "%s", "address": "https://%s:1", "credential": "%s", "tls": {"ca": "its.pem"}},
                    """
                            .formatted(parts[0], parts[1], parts[1], name));
        }
        var text = "{\"current\": %s, \"identities\": [%s null, {}], \"later\": 1}"
                .formatted(current == null ? null : '"' + current + '"', identities);
        return find(write("context.json", text), variables);
    }

    /** Writes a file that only its owner can access. */
    private Path write(String name, String text) throws IOException {
        var path = Files.writeString(directory.resolve(name), text);
        return Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rw-------"));
    }

    private static Map<String, String> find(Path context, String variables) {
        var all = new HashMap<>(Map.of("TEAMWIRE_CONTEXT", context.toString()));
        for (var variable : variables == null ? new String[0] : variables.split(" ")) {
            all.put("TEAMWIRE_" + variable.split("=", 2)[0], variable.split("=", 2)[1]);
        }
        return Settings.find(Map.of(), all);
    }

    @ParameterizedTest
    @CsvSource({
        "alice@acme,                            , alice@acme",
        "alice@acme, AS=bob@BETA                , Bob@beta",
        "alice@acme, AS=bob TEAM=acme           , Bob@acme",
        "alice@acme, TEAM=beta                  , Bob@beta",
        "bob@acme  , TEAM=ACME                  , Bob@acme",
        "          , AS=ALICE                   , alice@acme",
        "gone@acme , TEAM=beta                  , Bob@beta",
        "alice@acme, CREDENTIAL=twm:a:b:c       , twm:a:b:c",
        "alice@acme, AS= TEAM= CREDENTIAL=      , alice@acme",
    })
    void the_named_identity_is_selected(String current, String variables, String chosen) throws IOException {
        assertEquals(chosen, find(current, variables).get(Settings.CREDENTIAL));
    }

    @ParameterizedTest
    @CsvSource({",", ", AS=bob", "alice@acme, AS=carl", "alice@acme, AS=alice@beta", ", TEAM=acme", ", TEAM=gamma"})
    void no_identity_is_guessed(String current, String variables) {
        var message = assertThrows(TeamwireException.class, () -> find(current, variables))
                .getMessage();
        assertTrue(message.contains("TEAMWIRE_AS") && message.contains("alice@acme, Bob@acme, Bob@beta"), message);
    }

    @Test
    void the_environment_takes_precedence_over_the_context_file() throws IOException {
        var environment = find("alice@acme", "ADDRESS=https://there CA=mine.pem KEY=k");
        assertEquals("https://there", environment.get(Settings.ADDRESS));
        assertEquals("mine.pem", environment.get(Settings.CA));
        assertEquals("its.pem", find("alice@acme", null).get(Settings.CA));
        assertEquals(
                "unix:///state/coordinator.sock",
                find("alice@acme", "CREDENTIAL=x STATE_DIR=/state").get(Settings.ADDRESS));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "[]", "{", "{\"identities\": 7}", "null", "{\"current\": {}}"})
    void a_context_file_without_identities_is_named(String text) throws IOException {
        var path = write("bad.json", text);
        var message =
                assertThrows(TeamwireException.class, () -> find(path, null)).getMessage();
        assertTrue(message.contains("bad.json"), message);
        assertThrows(TeamwireException.class, () -> find(directory.resolve("none.json"), null));
    }

    @Test
    void a_join_string_takes_precedence_over_the_environment() {
        var environment = Map.of("TEAMWIRE_ADDRESS", "http://e", "TEAMWIRE_CA", "e.pem", "TEAMWIRE_TEAM", "other");
        var all = Settings.find(Settings.joining(TOKEN + "@https://a:1,https://b:2+sha256:" + HEX), environment);
        assertEquals("https://a:1,https://b:2", all.get(Settings.ADDRESS));
        assertEquals(HEX, all.get(Settings.FINGERPRINT));
        assertEquals(Set.of(Settings.ADDRESS, Settings.CREDENTIAL, Settings.FINGERPRINT), all.keySet());
        var plain = Settings.find(Settings.joining(TOKEN + "@https://a"), environment);
        assertEquals("e.pem", plain.get(Settings.CA));
        var bare = Settings.find(Settings.joining(TOKEN), environment);
        assertEquals("http://e", bare.get(Settings.ADDRESS));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "twm:acme:bob:" + SECRET + "@https://a", // not a join token
                TOKEN + "@",
                TOKEN + "@https://a+",
                TOKEN + "@https://a+sha256:abc",
                TOKEN + "@http://a+sha256:abababababababababababababababababababababababababababababababab",
                TOKEN + "@https://a@https://b",
                TOKEN + "@https://a,ftp://b+sha256:abababababababababababababababababababababababababababababababab",
                TOKEN + " x",
                "twj:acme:x:" + SECRET + "é",
            })
    void a_malformed_join_string_is_refused_without_quoting_it(String text) {
        var thrown = assertThrows(TeamwireException.class, () -> Teamwire.connect(Settings.joining(text)));
        assertFalse(thrown.toString().contains(SECRET), thrown.toString());
    }

    @Test
    void the_string_form_contains_no_secret() {
        try (var me = Teamwire.connect(Map.of(Settings.CREDENTIAL, "twm:acme:bob:" + SECRET, Settings.ADDRESS, "a"))) {
            assertEquals("Teamwire[bob at a]", me.toString());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"http://127.0.0.1:7420", "localhost:1", "http://[::1]:1"})
    void a_credential_for_plain_loopback_is_not_sent_there_unasked(String address) throws IOException {
        var text =
                "{\"identities\": [{\"member\": \"bob\", \"team\": \"acme\", \"credential\": \"x\", \"address\": \"%s\"}]}"
                        .formatted(address);
        var path = write("context.json", text);
        var thrown = assertThrows(TeamwireException.class, () -> find(path, null));
        assertTrue(thrown.getMessage().contains("any program on this machine can listen"), thrown.getMessage());
        assertEquals(address, find(path, "ADDRESS=" + address).get(Settings.ADDRESS));
    }

    @ParameterizedTest
    @ValueSource(strings = {"http://acme:1", "acme:1", "HTTP://acme:1"})
    void a_credential_saved_for_https_is_not_sent_over_http(String address) {
        var thrown = assertThrows(TeamwireException.class, () -> find("alice@acme", "ADDRESS=" + address));
        assertTrue(thrown.getMessage()
                .startsWith("alice@acme was saved for https://acme:1, so its credential is not sent"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "CREDENTIAL=",
                "CREDENTIAL=twm:acme:lead:" + SECRET,
                "CREDENTIAL=two:" + SECRET + " MEMBER=",
                "TEAM=blue",
                "AS=lead",
                "AS=ann@blue",
            })
    void within_a_runner_every_other_identity_is_refused(String change) {
        var thrown = assertThrows(
                TeamwireException.class,
                () -> find(directory, "RUN=run-1 MEMBER=ann CREDENTIAL=twm:acme:ann:" + SECRET + " " + change));
        assertTrue(thrown.getMessage().contains("runs under `teamwire run`"), thrown.getMessage());
        assertFalse(thrown.getMessage().contains(SECRET), thrown.getMessage());
    }

    @Test
    void within_a_runner_only_the_runners_member_is_used() {
        var own = "twm:acme:ann:" + SECRET;
        var environment = Map.of("TEAMWIRE_RUN", "run-1", "TEAMWIRE_CREDENTIAL", own, "TEAMWIRE_AS", "Ann@Acme");
        assertEquals(own, Settings.find(Map.of(), environment).get(Settings.CREDENTIAL));
        assertEquals(
                own,
                Settings.find(Map.of(Settings.CREDENTIAL, own), environment).get(Settings.CREDENTIAL));
        for (var other : new String[] {"twm:acme:lead:" + SECRET, TOKEN}) {
            var options = Map.of(Settings.CREDENTIAL, other);
            assertThrows(TeamwireException.class, () -> Settings.find(options, environment));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"rw-r--r--", "rw--w----", "rw-----w-"})
    void a_context_file_that_other_users_can_access_is_refused(String mode) throws IOException {
        var path = Files.setPosixFilePermissions(write("context.json", "{}"), PosixFilePermissions.fromString(mode));
        var message =
                assertThrows(TeamwireException.class, () -> find(path, null)).getMessage();
        assertTrue(message.contains("so it is not trusted") && message.contains("chmod 600 " + path), message);
    }
}
