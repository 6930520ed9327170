package io.teamwire;

/** What the protocol's options say of refusals and calls. Written by {@code cargo xtask generate}. */
final class Policy {
    private Policy() {}

    /**
     * How long a call waits.
     *
     * @param field the field of its request that says so; empty: it does not wait
     * @param absent how many seconds when the field is absent
     * @param most how many seconds at most
     */
    record Wait(String field, long absent, long most) {}

    /** Returns whether a client repeats a call that was refused for this reason. */
    static boolean isRetried(String reason) {
        return switch (reason) {
            case "DRAINING" -> true;
            case "DURABILITY_NOT_REACHED" -> true;
            case "RATE_LIMITED" -> true;
            case "STORE_FULL" -> true;
            case "STORE_UNAVAILABLE" -> true;
            default -> false;
        };
    }

    /** Returns whether a call that was refused for this reason may succeed later, without a change. */
    static boolean isRetryable(String reason) {
        return switch (reason) {
            case "ANSWERER_LOST" -> true;
            case "DRAINING" -> true;
            case "DURABILITY_NOT_REACHED" -> true;
            case "INBOX_FULL" -> true;
            case "NO_HOST_FITS" -> true;
            case "RATE_LIMITED" -> true;
            case "RUNNER_SILENT" -> true;
            case "SLOW_CONSUMER" -> true;
            case "STORE_FULL" -> true;
            case "STORE_UNAVAILABLE" -> true;
            default -> false;
        };
    }

    /** Returns whether a call that was refused for this reason may have changed something. */
    static boolean isOutcomeUnknown(String reason) {
        return switch (reason) {
            case "DURABILITY_NOT_REACHED" -> true;
            case "INTERNAL" -> true;
            case "STORE_UNAVAILABLE" -> true;
            default -> false;
        };
    }

    /** Returns whether a subscription that ended for this reason opens another session. */
    static boolean isReopened(String reason) {
        return switch (reason) {
            case "DRAINING" -> true;
            case "DURABILITY_NOT_REACHED" -> true;
            case "INTERNAL" -> true;
            case "RATE_LIMITED" -> true;
            case "SLOW_CONSUMER" -> true;
            case "STORE_FULL" -> true;
            case "STORE_UNAVAILABLE" -> true;
            default -> false;
        };
    }

    /** Returns whether this call changes nothing. */
    static boolean isRead(String method) {
        return switch (method) {
            case "Diagnose" -> true;
            case "GetCaller" -> true;
            case "GetLastTurn" -> true;
            case "GetMessage" -> true;
            case "GetRequest" -> true;
            case "GetTask" -> true;
            case "GetTeam" -> true;
            case "ListActivity" -> true;
            case "ListAuditChains" -> true;
            case "ListAuditEntries" -> true;
            case "ListCredentials" -> true;
            case "ListEventSubscriptions" -> true;
            case "ListHistory" -> true;
            case "ListHosts" -> true;
            case "ListInbox" -> true;
            case "ListMembers" -> true;
            case "ListPermissionRules" -> true;
            case "ListRequests" -> true;
            case "ListTasks" -> true;
            case "ListTeams" -> true;
            case "ReadTranscript" -> true;
            case "ReadWork" -> true;
            case "WaitForDecision" -> true;
            default -> false;
        };
    }

    /** Returns whether this call must not be repeated while its outcome is unknown. */
    static boolean isOnce(String method) {
        return switch (method) {
            case "DeleteTeam" -> true;
            case "SetBudget" -> true;
            case "SetLead" -> true;
            case "UsePermissionRule" -> true;
            default -> false;
        };
    }

    /** Returns whether the reply to this call carries a credential, so that its idempotency key must be unguessable. */
    static boolean isSecret(String method) {
        return switch (method) {
            case "CreateObserver" -> true;
            case "CreateSignInCode" -> true;
            case "CreateTeam" -> true;
            case "Invite" -> true;
            case "Join" -> true;
            case "SignIn" -> true;
            case "TakeOrder" -> true;
            default -> false;
        };
    }

    /** Returns how long a call waits. */
    static Wait waitOf(String method) {
        return switch (method) {
            case "ClaimNextTask" -> new Wait("wait", 0, 60);
            case "ListActivity" -> new Wait("wait", 0, 60);
            case "ReadTranscript" -> new Wait("wait", 0, 30);
            case "WaitForDecision" -> new Wait("timeout", 30, 60);
            default -> new Wait("", 0, 0);
        };
    }
}
