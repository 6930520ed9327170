package io.teamwire;

/**
 * How a subscription ended.
 *
 * @param reason why
 * @param requestId the approved request, with {@link Reason#SHUTDOWN_APPROVED}; otherwise empty
 */
public record End(Reason reason, String requestId) {
    /** Why a subscription ended. */
    public enum Reason {
        /** The caller has approved its own shutdown. */
        SHUTDOWN_APPROVED,
        /** Another process holds the inbox. */
        SUPERSEDED,
        /** The team was deleted. */
        TEAM_DELETED,
        /** The lead stopped the member by force, or its exit was reported. */
        MEMBER_STOPPED,
        /** The coordinator's store lost the team and everything in it. */
        DATA_LOST
    }
}
