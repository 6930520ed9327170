package io.teamwire;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The latest messages that a subscription has handed out, and whether each was acknowledged.
 *
 * <p>When it is full the oldest is forgotten; if that one comes again, it is handed out again, with the delivery count
 * that says so. A coordinator has at most 64 messages unacknowledged in a session.
 */
final class Window {
    /** What is known of a message that has come in. */
    enum Seen {
        NEVER,
        /** It was handed out: the program still has it. */
        HANDED,
        /** It was acknowledged; the coordinator does not know that yet. */
        ACKED
    }

    private final int idsMax;
    private final Map<String, Seen> ids = new LinkedHashMap<>();

    Window(int idsMax) {
        this.idsMax = idsMax;
    }

    /** Notes that a message has come in, and returns what was known of it before. */
    Seen deliver(String id) {
        var seen = ids.getOrDefault(id, Seen.NEVER);
        if (seen == Seen.NEVER) {
            put(id, Seen.HANDED);
        }
        return seen;
    }

    void ack(String id) {
        put(id, Seen.ACKED);
    }

    private void put(String id, Seen seen) {
        ids.put(id, seen);
        if (ids.size() > idsMax) {
            ids.remove(ids.keySet().iterator().next());
        }
    }
}
