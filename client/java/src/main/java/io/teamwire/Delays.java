package io.teamwire;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Delays that grow from 100 ms to 5 s, each multiplied with a random number between 0 and 1, so that clients which lost
 * the same coordinator do not come back in step.
 */
final class Delays {
    private int attempts;

    /** Waits before the next attempt after this failure, and no less than the coordinator asks for. */
    void await(TeamwireException failure) throws InterruptedException {
        Thread.sleep(after(failure).toMillis());
    }

    /** Returns how long to wait now. */
    Duration after(TeamwireException failure) {
        var bound = Math.min(5_000, 100L << Math.min(attempts++, 6));
        var delay = Duration.ofMillis(ThreadLocalRandom.current().nextLong(bound + 1));
        // One that drains asks to be left, and another one is there.
        var asked = failure.reason().equals("DRAINING") ? Duration.ZERO : failure.retryAfter();
        return asked.compareTo(delay) > 0 ? asked : delay;
    }

    /** Begins again with the shortest. */
    void reset() {
        attempts = 0;
    }
}
