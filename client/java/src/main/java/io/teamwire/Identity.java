package io.teamwire;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import io.grpc.Status.Code;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Who calls, where, and whom it trusts there. Its text leaves the secrets out.
 *
 * @param address one or several, with commas between them
 * @param team goes into every request that leaves its own open; empty: the credential says it
 * @param credential what is presented to the coordinator
 * @param tls used with {@code https}
 */
record Identity(String address, String team, String credential, Tls tls) {
    private static final Pattern JOIN_STRING =
            Pattern.compile("(twj:[^:@]+:[^:@]+:[A-Za-z0-9]{16,128})@([^@+]+)(?:\\+(?:sha256:)?([0-9a-fA-F]{64}))?");

    /**
     * Whom to trust, and what to show. Each part but the fingerprint is PEM or the path of a file; null: not given.
     *
     * @param ca the only authorities to trust; without it the one with the fingerprint, or else the system's
     * @param cert the client's certificate
     * @param key the key of that certificate
     * @param fingerprint the SHA-256 of a certificate in the coordinator's chain
     */
    record Tls(String ca, String cert, String key, String fingerprint) {
        @Override
        public String toString() {
            return "Tls";
        }
    }

    /** The context file. What is absent is null. */
    private record Context(String current, List<Kept> identities) {}

    private record Kept(String team, String member, String address, String credential, Tls tls) {
        String name() {
            return member + "@" + team;
        }

        boolean is(String who) {
            return who.equalsIgnoreCase(who.contains("@") ? name() : member);
        }
    }

    Identity {
        if (!credential.matches("[!-~]+")) {
            throw new TeamwireException(
                    Code.UNAUTHENTICATED,
                    "The credential has characters that no credential has. Use it as it was given.");
        }
    }

    /** Finds out who calls: from variables, and from the context file where they hold no credential. */
    static Identity find(UnaryOperator<String> variables) {
        var kept = given(variables, "TEAMWIRE_CREDENTIAL")
                .map(credential -> new Kept(null, null, null, credential, null))
                .orElseGet(() -> choose(variables));
        var tls = Objects.requireNonNullElse(kept.tls, new Tls(null, null, null, null));
        return new Identity(
                given(variables, "TEAMWIRE_ADDRESS")
                        .or(() -> Optional.ofNullable(kept.address))
                        .orElse("http://127.0.0.1:7420"),
                given(variables, "TEAMWIRE_TEAM").orElse(""),
                kept.credential,
                new Tls(
                        given(variables, "TEAMWIRE_CA").orElse(tls.ca),
                        given(variables, "TEAMWIRE_CERT").orElse(tls.cert),
                        given(variables, "TEAMWIRE_KEY").orElse(tls.key),
                        tls.fingerprint));
    }

    /** Reads a join string. What it says goes before the variables. */
    static Identity joining(String text, UnaryOperator<String> variables) {
        if (!text.contains("@")) {
            var said = Map.of("TEAMWIRE_CREDENTIAL", text.strip(), "TEAMWIRE_TEAM", "");
            return find(name -> said.getOrDefault(name, variables.apply(name)));
        }
        var parts = JOIN_STRING.matcher(text.strip());
        if (!parts.matches()
                || parts.group(3) != null
                        && !Address.list(parts.group(2)).get(0).isTls()) {
            throw new TeamwireException(
                    Code.INVALID_ARGUMENT,
                    "The join string is malformed. Paste it as `teamwire invite` printed it, from its first to its last"
                            + " character.");
        }
        var said =
                Map.of("TEAMWIRE_CREDENTIAL", parts.group(1), "TEAMWIRE_ADDRESS", parts.group(2), "TEAMWIRE_TEAM", "");
        var found = find(name -> said.getOrDefault(name, variables.apply(name)));
        var ca = parts.group(3) == null ? found.tls.ca : null;
        return new Identity(
                found.address, "", found.credential, new Tls(ca, found.tls.cert, found.tls.key, parts.group(3)));
    }

    /** Chooses among the identities of the context file. Never a guess. */
    private static Kept choose(UnaryOperator<String> variables) {
        var path = given(variables, "TEAMWIRE_CONTEXT").map(Path::of).orElseGet(() -> given(
                        variables, "XDG_CONFIG_HOME")
                .map(Path::of)
                .orElseGet(() -> Path.of(given(variables, "HOME").orElse(System.getProperty("user.home")), ".config"))
                .resolve("teamwire/context.json"));
        var context = read(path);
        var all = Optional.ofNullable(context.identities).stream()
                .flatMap(List::stream)
                .filter(kept -> kept != null
                        && Stream.of(kept.team, kept.member, kept.credential).allMatch(Objects::nonNull))
                .toList();
        var team = given(variables, "TEAMWIRE_TEAM");
        var ofTeam = all.stream()
                .filter(kept -> team.map(kept.team::equalsIgnoreCase).orElse(true))
                .toList();
        var who = given(variables, "TEAMWIRE_AS");
        var named = who.or(() -> Optional.ofNullable(context.current)).stream()
                .flatMap(name -> ofTeam.stream().filter(kept -> kept.is(name)))
                .toList();
        var possible = named.isEmpty() && who.isEmpty() ? ofTeam : named;
        // The latest of those with one name, which are at several coordinators, stands first.
        if (possible.stream()
                        .map(kept -> kept.name().toLowerCase(Locale.ROOT))
                        .distinct()
                        .count()
                != 1) {
            var names = all.stream().map(Kept::name).collect(Collectors.joining(", "));
            throw new TeamwireException(
                    Code.UNAUTHENTICATED,
                    all.isEmpty()
                            ? "There is no identity in %s. Join a team with `teamwire join`, or set TEAMWIRE_CREDENTIAL."
                                    .formatted(path)
                            : "It is not clear who you are. Set TEAMWIRE_AS to an identity of %s, which holds: %s."
                                    .formatted(path, names));
        }
        return possible.get(0);
    }

    private static Context read(Path path) {
        try {
            var context = new Gson().fromJson(Files.readString(path), Context.class);
            return Objects.requireNonNullElse(context, new Context(null, null));
        } catch (NoSuchFileException e) {
            return new Context(null, null);
        } catch (IOException e) {
            throw new TeamwireException(Code.UNAUTHENTICATED, path + " cannot be read: " + e.getMessage());
        } catch (JsonParseException e) {
            throw new TeamwireException(Code.UNAUTHENTICATED, path + " is no context file. Mend it or move it away.");
        }
    }

    Identity withCredential(String credential) {
        return new Identity(address, team, credential, tls);
    }

    private static Optional<String> given(UnaryOperator<String> variables, String name) {
        return Optional.ofNullable(variables.apply(name)).filter(value -> !value.isEmpty());
    }

    @Override
    public String toString() {
        return "Identity at " + address;
    }
}
