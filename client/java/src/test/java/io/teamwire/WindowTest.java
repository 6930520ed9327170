package io.teamwire;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.teamwire.Window.Seen;
import org.junit.jupiter.api.Test;

class WindowTest {
    @Test
    void a_message_is_new_once() {
        var window = new Window(8);
        assertEquals(Seen.NEVER, window.deliver("a"));
        assertEquals(Seen.HANDED, window.deliver("a"));
        window.ack("a");
        assertEquals(Seen.ACKED, window.deliver("a"));
    }

    @Test
    void the_oldest_is_forgotten_when_the_window_is_full() {
        var window = new Window(2);
        for (var id : new String[] {"a", "b", "c"}) {
            assertEquals(Seen.NEVER, window.deliver(id));
        }
        assertEquals(Seen.HANDED, window.deliver("c"));
        assertEquals(Seen.NEVER, window.deliver("a"));
    }
}
