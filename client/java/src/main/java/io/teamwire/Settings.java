package io.teamwire;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import io.grpc.Status.Code;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Finds out who calls, where, and whom it trusts there. All of it has the name of its environment variable. */
final class Settings {
    static final String ADDRESS = "TEAMWIRE_ADDRESS";
    static final String CREDENTIAL = "TEAMWIRE_CREDENTIAL";
    static final String TEAM = "TEAMWIRE_TEAM";
    static final String CA = "TEAMWIRE_CA";
    static final String CERT = "TEAMWIRE_CERT";
    static final String KEY = "TEAMWIRE_KEY";

    /** The SHA-256 of a certificate in the coordinator's chain: trusted where there is no CA. */
    static final String FINGERPRINT = "TEAMWIRE_FINGERPRINT";

    private static final Pattern JOIN_STRING =
            Pattern.compile("(twj:[^:@]+:[^:@]+:[A-Za-z0-9]{16,128})@([^@+]+)(?:\\+(?:sha256:)?([0-9a-fA-F]{64}))?");

    /** The context file. What is absent is null. */
    private record Context(String current, List<Kept> identities) {}

    private record Kept(String team, String member, String address, String credential, Map<String, String> tls) {
        static boolean isWhole(Kept kept) {
            return kept != null && kept.team != null && kept.member != null && kept.credential != null;
        }

        String name() {
            return member + "@" + team;
        }

        boolean is(String who) {
            return who.equalsIgnoreCase(who.contains("@") ? name() : member);
        }
    }

    private Settings() {}

    /**
     * Puts together what the program says, then the environment, then the context file where nobody gives a credential.
     * What is empty is not set.
     */
    static Map<String, String> find(Map<String, String> said, Map<String, String> environment) {
        var all = new HashMap<>(environment);
        all.putAll(said);
        all.values().removeIf(String::isEmpty);
        if (!all.containsKey(CREDENTIAL)) {
            var kept = choose(all);
            all.put(CREDENTIAL, kept.credential);
            Optional.ofNullable(kept.address).ifPresent(address -> all.putIfAbsent(ADDRESS, address));
            Optional.ofNullable(kept.tls)
                    .ifPresent(tls -> tls.forEach(
                            (part, value) -> all.putIfAbsent("TEAMWIRE_" + part.toUpperCase(Locale.ROOT), value)));
        }
        if (!all.get(CREDENTIAL).matches("[!-~]+")) {
            throw refuse("The credential has characters that no credential has. Use it as it was given.");
        }
        all.putIfAbsent(ADDRESS, "http://127.0.0.1:7420");
        return all;
    }

    /** Takes a join string apart, into what a program could have said. */
    static Map<String, String> joining(String text) {
        if (!text.contains("@")) {
            return Map.of(CREDENTIAL, text.strip(), TEAM, "");
        }
        var parts = JOIN_STRING.matcher(text.strip());
        var isTls = parts.matches() && parts.group(2).toLowerCase(Locale.ROOT).startsWith("https:");
        if (!parts.matches() || parts.group(3) != null && !isTls) {
            throw refuse("The join string is malformed. Paste it as `teamwire invite` printed it, from its first to its"
                    + " last character.");
        }
        var said = new HashMap<>(Map.of(CREDENTIAL, parts.group(1), ADDRESS, parts.group(2), TEAM, ""));
        if (parts.group(3) != null) {
            said.putAll(Map.of(FINGERPRINT, parts.group(3), CA, ""));
        }
        return said;
    }

    /** Chooses among the identities of the context file. Never a guess. */
    private static Kept choose(Map<String, String> all) {
        var path = contextFile(all);
        var context = read(path);
        var team = all.get(TEAM);
        var who = all.get("TEAMWIRE_AS");
        var known = context.identities.stream().filter(Kept::isWhole).toList();
        var ofTeam = known.stream()
                .filter(kept -> team == null || team.equalsIgnoreCase(kept.team))
                .toList();
        var name = who == null ? context.current : who;
        var named =
                ofTeam.stream().filter(kept -> name != null && kept.is(name)).toList();
        var possible = named.isEmpty() && who == null ? ofTeam : named;
        var names = possible.stream().map(kept -> kept.name().toLowerCase(Locale.ROOT));
        if (names.distinct().count() != 1) {
            throw refuse("It is not clear who you are. Join a team with `teamwire join`, or set TEAMWIRE_CREDENTIAL, or"
                    + " TEAMWIRE_AS to an identity of " + path + ", which holds: "
                    + known.stream().map(Kept::name).collect(Collectors.joining(", ")));
        }
        // Those of one name are at several coordinators: the latest stands first.
        return possible.get(0);
    }

    private static Path contextFile(Map<String, String> all) {
        var home = all.getOrDefault("HOME", System.getProperty("user.home"));
        var otherwise = Path.of(all.getOrDefault("XDG_CONFIG_HOME", home + "/.config"), "teamwire", "context.json");
        return Path.of(all.getOrDefault("TEAMWIRE_CONTEXT", otherwise.toString()));
    }

    private static Context read(Path path) {
        try {
            var context = new Gson().fromJson(Files.readString(path), Context.class);
            return context == null || context.identities == null ? new Context(null, List.of()) : context;
        } catch (NoSuchFileException e) {
            return new Context(null, List.of());
        } catch (IOException | JsonParseException e) {
            throw refuse(path + " is no context file that can be read. Mend it or move it away.");
        }
    }

    private static TeamwireException refuse(String message) {
        return new TeamwireException(Code.UNAUTHENTICATED, message);
    }
}
