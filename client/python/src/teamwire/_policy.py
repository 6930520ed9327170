"""What the protocol's options say of refusals and calls. Written by `cargo xtask generate`."""

RETRIED = {
    "DRAINING",
    "DURABILITY_NOT_REACHED",
    "RATE_LIMITED",
    "STORE_FULL",
    "STORE_UNAVAILABLE",
}
"""The reasons for which a client repeats a call."""

RETRYABLE = {
    "ANSWERER_LOST",
    "DRAINING",
    "DURABILITY_NOT_REACHED",
    "INBOX_FULL",
    "NO_HOST_FITS",
    "RATE_LIMITED",
    "RUNNER_SILENT",
    "SLOW_CONSUMER",
    "STORE_FULL",
    "STORE_UNAVAILABLE",
}
"""The reasons for which a refused call may succeed later, without a change."""

OUTCOME_UNKNOWN = {
    "DURABILITY_NOT_REACHED",
    "INTERNAL",
    "STORE_UNAVAILABLE",
}
"""The reasons for which a refused call may have changed something."""

REOPENED = {
    "DRAINING",
    "DURABILITY_NOT_REACHED",
    "INTERNAL",
    "RATE_LIMITED",
    "SLOW_CONSUMER",
    "STORE_FULL",
    "STORE_UNAVAILABLE",
}
"""The reasons after which a subscription opens another session."""

READ = {
    "Diagnose",
    "GetCaller",
    "GetLastTurn",
    "GetMessage",
    "GetRequest",
    "GetTask",
    "GetTeam",
    "ListActivity",
    "ListAuditChains",
    "ListAuditEntries",
    "ListCredentials",
    "ListEventSubscriptions",
    "ListHistory",
    "ListHosts",
    "ListInbox",
    "ListMembers",
    "ListPermissionRules",
    "ListRequests",
    "ListTasks",
    "ListTeams",
    "ReadTranscript",
    "ReadWork",
    "WaitForDecision",
}
"""The calls that change nothing."""

ONCE = {
    "DeleteTeam",
    "SetBudget",
    "SetLead",
    "UsePermissionRule",
}
"""The calls that must not be repeated while their outcome is unknown."""

SECRET = {
    "CreateObserver",
    "CreateSignInCode",
    "CreateTeam",
    "Invite",
    "Join",
    "SignIn",
    "TakeOrder",
}
"""The calls whose reply carries a credential, so that their idempotency key must be unguessable."""

WAITS = {
    "ClaimNextTask": ("wait", 0, 60),
    "ListActivity": ("wait", 0, 60),
    "ReadTranscript": ("wait", 0, 30),
    "WaitForDecision": ("timeout", 30, 60),
}
"""The calls that wait: the field that says how long, the default and the maximum, in seconds."""
