package io.teamwire;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import io.grpc.Status.Code;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
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

/** Resolves the credential, the address and the TLS settings, under the names of their environment variables. */
final class Settings {
    static final String ADDRESS = "TEAMWIRE_ADDRESS";
    static final String CREDENTIAL = "TEAMWIRE_CREDENTIAL";
    static final String TEAM = "TEAMWIRE_TEAM";
    static final String CA = "TEAMWIRE_CA";
    static final String CERT = "TEAMWIRE_CERT";
    static final String KEY = "TEAMWIRE_KEY";

    /** The SHA-256 of the certificate in the coordinator's chain to trust. Ignored with a CA. */
    static final String FINGERPRINT = "TEAMWIRE_FINGERPRINT";

    private static final Pattern JOIN_STRING =
            Pattern.compile("(twj:[^:@]+:[^:@]+:[A-Za-z0-9]{16,128})@([^@+]+)(?:\\+(?:sha256:)?([0-9a-fA-F]{64}))?");

    /** The context file. Absent fields are null. */
    private record Context(String current, List<Identity> identities) {}

    private record Identity(String team, String member, String address, String credential, Map<String, String> tls) {
        static boolean isWhole(Identity identity) {
            return identity != null && identity.team != null && identity.member != null && identity.credential != null;
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
     * Merges the settings. Precedence, highest to lowest: options, environment and, if neither has a credential, the context
     * file. An empty variable counts as unset; an empty option unsets the variable.
     */
    static Map<String, String> find(Map<String, String> options, Map<String, String> environment) {
        var all = new HashMap<>(environment);
        all.putAll(options);
        all.values().removeIf(String::isEmpty);
        checkWithinRunner(options.getOrDefault(CREDENTIAL, environment.getOrDefault(CREDENTIAL, "")), environment);
        if (!all.containsKey(CREDENTIAL)) {
            var identity = choose(all);
            if (!all.containsKey(ADDRESS)
                    && identity.address != null
                    && Channels.addresses(identity.address).stream().anyMatch(Channels.Address::isUnproven)) {
                throw refuse(identity.name() + " was saved for " + identity.address
                        + ", where any program on this machine can"
                        + " listen, so its credential is not sent there unasked. If the coordinator is there, set"
                        + " TEAMWIRE_ADDRESS.");
            }
            all.put(CREDENTIAL, identity.credential);
            Optional.ofNullable(identity.address).ifPresent(address -> all.putIfAbsent(ADDRESS, address));
            Optional.ofNullable(identity.tls)
                    .ifPresent(tls -> tls.forEach(
                            (part, value) -> all.putIfAbsent("TEAMWIRE_" + part.toUpperCase(Locale.ROOT), value)));
            if (isHttps(identity.address) && isHttp(all.get(ADDRESS))) {
                throw refuse(
                        identity.name() + " was saved for " + identity.address + ", so its credential is not sent over"
                                + " http. Write the address with https://, or leave it out (TEAMWIRE_ADDRESS).");
            }
        }
        if (!all.get(CREDENTIAL).matches("[!-~]+")) {
            throw refuse("The credential has invalid characters. Paste it exactly as it was issued.");
        }
        all.putIfAbsent(ADDRESS, defaultAddress(all));
        return all;
    }

    /** Returns the socket of this user's coordinator, in its state directory. */
    private static String defaultAddress(Map<String, String> all) {
        var home = all.getOrDefault("HOME", System.getProperty("user.home"));
        var otherwise = Path.of(all.getOrDefault("XDG_STATE_HOME", home + "/.local/state"), "teamwire");
        var state = all.getOrDefault("TEAMWIRE_STATE_DIR", otherwise.toString());
        try {
            return "unix://"
                    + new URI(null, null, state + "/coordinator.sock", null)
                            .getRawPath()
                            .replace(",", "%2C");
        } catch (URISyntaxException e) {
            throw refuse("TEAMWIRE_STATE_DIR is not a path.");
        }
    }

    private static boolean isHttp(String address) {
        return Channels.addresses(address).get(0).scheme().equals("http");
    }

    private static boolean isHttps(String address) {
        return address != null && address.strip().toLowerCase(Locale.ROOT).startsWith("https:");
    }

    /**
     * Throws if a runner started this process and anything selects another identity than the runner's member. This prevents
     * mistakes, such as a program that loses its credential and then acts as the person who started it.
     */
    private static void checkWithinRunner(String credential, Map<String, String> environment) {
        if (environment.getOrDefault("TEAMWIRE_RUN", "").isEmpty()) {
            return;
        }
        var own = environment.getOrDefault(CREDENTIAL, "");
        if (own.isEmpty()) {
            throw refuse(
                    "This process runs under `teamwire run`, so it may only act as the runner's member, but"
                            + " TEAMWIRE_CREDENTIAL is not set. Run it with the environment that the runner gave to its program.");
        }
        var parts = own.split(":");
        var isMember = parts.length == 4 && parts[0].equals("twm");
        var team = isMember ? parts[1] : "";
        var member = isMember ? parts[2] : "";
        var named = (environment.getOrDefault("TEAMWIRE_AS", "") + "@").split("@", 3);
        var setMember = environment.getOrDefault("TEAMWIRE_MEMBER", "");
        var isOwn = isMember && credential.equals(own);
        var isNamed = agrees(setMember, member) && agrees(named[0], member);
        if (!isOwn || !isNamed || !agrees(environment.get(TEAM), team) || !agrees(named[1], team)) {
            throw refuse("This process runs under `teamwire run` as " + (setMember.isEmpty() ? member : setMember)
                    + ", and may act as no other identity. Use no other credential, join string or name (--as, TEAMWIRE_AS),"
                    + " and keep TEAMWIRE_CREDENTIAL as the runner set it.");
        }
    }

    private static boolean agrees(String selected, String own) {
        return selected == null || selected.isEmpty() || selected.equalsIgnoreCase(own);
    }

    /** Parses a join string into options. */
    static Map<String, String> joining(String text) {
        if (!text.contains("@")) {
            return Map.of(CREDENTIAL, text.strip(), TEAM, "");
        }
        var parts = JOIN_STRING.matcher(text.strip());
        var isTls = parts.matches() && parts.group(2).toLowerCase(Locale.ROOT).startsWith("https:");
        if (!parts.matches() || parts.group(3) != null && !isTls) {
            throw refuse("The join string is malformed. Paste all of it, exactly as `teamwire invite` printed it.");
        }
        var options = new HashMap<>(Map.of(CREDENTIAL, parts.group(1), ADDRESS, parts.group(2), TEAM, ""));
        if (parts.group(3) != null) {
            options.putAll(Map.of(FINGERPRINT, parts.group(3), CA, ""));
        }
        return options;
    }

    /** Selects an identity of the context file. Never guesses. */
    private static Identity choose(Map<String, String> all) {
        var path = contextFile(all);
        var context = read(path);
        var team = all.get(TEAM);
        var who = all.get("TEAMWIRE_AS");
        var known = context.identities.stream().filter(Identity::isWhole).toList();
        var ofTeam = known.stream()
                .filter(identity -> team == null || team.equalsIgnoreCase(identity.team))
                .toList();
        var name = who == null ? context.current : who;
        var named = ofTeam.stream()
                .filter(identity -> name != null && identity.is(name))
                .toList();
        var possible = named.isEmpty() && who == null ? ofTeam : named;
        var names = possible.stream().map(identity -> identity.name().toLowerCase(Locale.ROOT));
        if (names.distinct().count() != 1) {
            throw refuse("Cannot select an identity. Join a team with `teamwire join`, set TEAMWIRE_CREDENTIAL, or set"
                    + " TEAMWIRE_AS to an identity of " + path + ", which has: "
                    + known.stream().map(Identity::name).collect(Collectors.joining(", ")));
        }
        // Identities with one name belong to several coordinators; the latest is first.
        return possible.get(0);
    }

    private static Path contextFile(Map<String, String> all) {
        var home = all.getOrDefault("HOME", System.getProperty("user.home"));
        var otherwise = Path.of(all.getOrDefault("XDG_CONFIG_HOME", home + "/.config"), "teamwire", "context.json");
        return Path.of(all.getOrDefault("TEAMWIRE_CONTEXT", otherwise.toString()));
    }

    private static Context read(Path path) {
        try {
            refuseShared(path);
            var context = new Gson().fromJson(Files.readString(path), Context.class);
            return context == null || context.identities == null ? new Context(null, List.of()) : context;
        } catch (NoSuchFileException e) {
            return new Context(null, List.of());
        } catch (IOException | JsonParseException e) {
            throw refuse(path + " is not a valid context file. Fix it or delete it.");
        }
    }

    /**
     * Throws if other users can read or change a file, or could have planted it. Root's passes whatever its mode: container
     * platforms mount files so.
     */
    private static void refuseShared(Path path) throws IOException {
        if (!path.getFileSystem().supportedFileAttributeViews().contains("unix")) {
            return;
        }
        var owner = (int) Files.getAttribute(path, "unix:uid");
        var mode = (int) Files.getAttribute(path, "unix:mode") & 0777;
        // Only root can read another user's private file, so this needs no user id.
        var amRoot = System.getProperty("user.name").equals("root");
        if (amRoot ? owner != 0 || (mode & 077) != 0 : owner != 0 && (mode & 077) != 0) {
            throw refuse("Other users can access " + path + " (mode " + Integer.toOctalString(mode)
                    + "), so it is not trusted." + " If only you have written there, make it private: chmod 600 "
                    + path);
        }
    }

    private static TeamwireException refuse(String message) {
        return new TeamwireException(Code.UNAUTHENTICATED, message);
    }
}
