package io.teamwire;

/**
 * Why a subscription is over, for good.
 *
 * @param how what has happened
 * @param requestId with {@code SHUTDOWN_APPROVED} the request that was approved, else empty
 */
public record Ending(How how, String requestId) {
    /** What ends a subscription. */
    public enum How {
        /** The member's approval of its own shutdown is recorded: end the process now. */
        SHUTDOWN_APPROVED,
        /** Another process holds the inbox. */
        SUPERSEDED,
        /** The team is no more. */
        TEAM_DELETED,
        /** The lead stopped the member by force, or its exit was reported: end the process at once. */
        MEMBER_STOPPED
    }
}
