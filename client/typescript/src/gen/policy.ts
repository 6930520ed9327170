// Written by `cargo xtask generate`. Do not edit.
/** What the protocol's options say of refusals and calls. */

/** The reasons for which a client repeats a call. */
export const RETRIED: ReadonlySet<string> = new Set([
  "DRAINING",
  "DURABILITY_NOT_REACHED",
  "RATE_LIMITED",
  "STORE_FULL",
  "STORE_UNAVAILABLE",
]);

/** The reasons for which a refused call may succeed later, without a change. */
export const RETRYABLE: ReadonlySet<string> = new Set([
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
]);

/** The reasons for which a refused call may have changed something. */
export const OUTCOME_UNKNOWN: ReadonlySet<string> = new Set([
  "DURABILITY_NOT_REACHED",
  "INTERNAL",
  "STORE_UNAVAILABLE",
]);

/** The reasons after which a subscription opens another session. */
export const REOPENED: ReadonlySet<string> = new Set([
  "DRAINING",
  "DURABILITY_NOT_REACHED",
  "INTERNAL",
  "RATE_LIMITED",
  "SLOW_CONSUMER",
  "STORE_FULL",
  "STORE_UNAVAILABLE",
]);

/** The calls that change nothing. */
export const READ: ReadonlySet<string> = new Set([
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
]);

/** The calls that must not be repeated while their outcome is unknown. */
export const ONCE: ReadonlySet<string> = new Set([
  "DeleteTeam",
  "SetBudget",
  "SetLead",
  "UsePermissionRule",
]);

/** The calls whose reply carries a credential, so that their idempotency key must be unguessable. */
export const SECRET: ReadonlySet<string> = new Set([
  "CreateObserver",
  "CreateSignInCode",
  "CreateTeam",
  "Invite",
  "Join",
  "SignIn",
  "TakeOrder",
]);

/** The calls that wait: the field that says how long, the default and the maximum. */
export const WAITS: ReadonlyMap<string, { field: "timeout" | "wait"; defaultMs: number; maxMs: number }> = new Map([
  ["ClaimNextTask", { field: "wait", defaultMs: 0, maxMs: 60000 }],
  ["ListActivity", { field: "wait", defaultMs: 0, maxMs: 60000 }],
  ["ReadTranscript", { field: "wait", defaultMs: 0, maxMs: 30000 }],
  ["WaitForDecision", { field: "timeout", defaultMs: 30000, maxMs: 60000 }],
]);
