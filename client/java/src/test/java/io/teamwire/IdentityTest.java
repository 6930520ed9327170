package io.teamwire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class IdentityTest {
    private static final String SECRET = "0123456789abcdef0123456789abcdef";
    private static final String TOKEN = "twj:acme:4ed8:" + SECRET;
    private static final String HEX = "ab".repeat(32);

    @TempDir
    private Path directory;

    /** Finds the identity with a context file of alice and bob in acme, and bob in beta, and none else. */
    private Identity find(String current, String variables) throws IOException {
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
        return find(Files.writeString(directory.resolve("context.json"), text), variables);
    }

    private static Identity find(Path context, String variables) {
        var all = new HashMap<>(Map.of("TEAMWIRE_CONTEXT", context.toString()));
        for (var variable : variables == null ? new String[0] : variables.split(" ")) {
            all.put("TEAMWIRE_" + variable.split("=", 2)[0], variable.split("=", 2)[1]);
        }
        return Identity.find(all::get);
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
    void whoever_is_named_is_chosen(String current, String variables, String chosen) throws IOException {
        assertEquals(chosen, find(current, variables).credential());
    }

    @ParameterizedTest
    @CsvSource({",", ", AS=bob", "alice@acme, AS=carl", "alice@acme, AS=alice@beta", ", TEAM=acme", ", TEAM=gamma"})
    void nobody_is_guessed(String current, String variables) {
        var message = assertThrows(TeamwireException.class, () -> find(current, variables))
                .getMessage();
        assertTrue(message.contains("TEAMWIRE_AS") && message.contains("alice@acme, Bob@acme, Bob@beta"), message);
    }

    @Test
    void the_environment_goes_before_the_context_file() throws IOException {
        var identity = find("alice@acme", "ADDRESS=http://there CA=mine.pem KEY=k");
        assertEquals("http://there", identity.address());
        assertEquals(new Identity.Tls("mine.pem", null, "k", null), identity.tls());
        assertEquals("its.pem", find("alice@acme", null).tls().ca());
        assertEquals("http://127.0.0.1:7420", find("alice@acme", "CREDENTIAL=x").address());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "[]", "{", "{\"identities\": 7}", "null", "{\"current\": {}}"})
    void a_file_without_identities_is_told(String text) throws IOException {
        var path = Files.writeString(directory.resolve("bad.json"), text);
        var message =
                assertThrows(TeamwireException.class, () -> find(path, null)).getMessage();
        assertTrue(message.contains("bad.json"), message);
        assertThrows(TeamwireException.class, () -> find(directory.resolve("none.json"), null));
    }

    @Test
    void a_join_string_goes_before_the_environment() {
        var environment = Map.of("TEAMWIRE_ADDRESS", "http://e", "TEAMWIRE_CA", "e.pem", "TEAMWIRE_TEAM", "other");
        var joining = Identity.joining(TOKEN + "@https://a:1,https://b:2+sha256:" + HEX, environment::get);
        assertEquals(
                new Identity("https://a:1,https://b:2", "", TOKEN, new Identity.Tls(null, null, null, HEX)), joining);
        assertEquals(
                "e.pem",
                Identity.joining(TOKEN + "@https://a", environment::get).tls().ca());
        assertEquals("http://e", Identity.joining(TOKEN, environment::get).address());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "twm:acme:bob:" + SECRET + "@https://a", // no join token
                TOKEN + "@",
                TOKEN + "@https://a+",
                TOKEN + "@https://a+sha256:abc",
                TOKEN + "@http://a+sha256:abababababababababababababababababababababababababababababababab",
                TOKEN + "@https://a@https://b",
                TOKEN + "@https://a,ftp://b+sha256:abababababababababababababababababababababababababababababababab",
                TOKEN + "\n",
                "twj:acme:x:" + SECRET + "é",
            })
    void a_malformed_join_string_is_refused_without_telling_it(String text) {
        var thrown = assertThrows(TeamwireException.class, () -> {
            var joining = Identity.joining(text.strip().equals(TOKEN) ? TOKEN + " x" : text, name -> null);
            new Links(joining.address(), joining.tls());
        });
        assertFalse(thrown.toString().contains(SECRET), thrown.toString());
    }

    @Test
    void secrets_are_not_in_texts() {
        var tls = new Identity.Tls("ca", "cert", SECRET, HEX);
        assertFalse((new Identity("http://a", "t", TOKEN, tls) + "" + tls).contains(SECRET));
        try (var me = Teamwire.builder().credential("twm:acme:bob:" + SECRET).connect()) {
            assertEquals("Teamwire[bob@acme at http://127.0.0.1:7420]", me.toString());
        }
    }
}
