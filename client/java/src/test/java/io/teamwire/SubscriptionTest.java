package io.teamwire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.Test;

class SubscriptionTest {
    @Test
    void the_oldest_message_is_forgotten_when_the_window_is_full() {
        var window = Subscription.window(2);
        for (var id : new String[] {"a", "b", "c"}) {
            assertNull(window.putIfAbsent(id, false));
        }
        assertEquals(false, window.putIfAbsent("c", false));
        assertNull(window.putIfAbsent("a", false));
    }
}
