/** What the entries of a history are about, in words. */

import { v1 } from "@teamwire/client";
import { exitName } from "../../lib/format.js";

const {
  CancelCause,
  DeadLetterCause,
  MemberState,
  RequestKind,
  RequestState,
  SenderKind,
  TaskEventKind,
  TeamEventKind,
} = v1;

/** The kinds of entries that a person can choose. */
export const KINDS = ["messages", "requests", "events", "notices"] as const;
export type Kind = (typeof KINDS)[number];

export type MessageEntry = v1.HistoryEntry & { event: { case: "message"; value: v1.Message } };

export function isMessage(entry: v1.HistoryEntry): entry is MessageEntry {
  return entry.event.case === "message";
}

export function kindOf({ event }: v1.HistoryEntry): Kind {
  if (event.case === "decision") return "requests";
  if (event.case !== "message") return "events";
  const { body, requestId } = event.value;
  if (body.case === "notice") return "notices";
  return requestId || body.case === "spawnOrder" ? "requests" : "messages";
}

/** Returns whether a message answers a request. */
export function isAnswer({ body }: v1.Message): boolean {
  return body.case === "shutdownResponse" || body.case === "planApprovalResponse" || body.case === "permissionResponse";
}

/** Returns whether a message makes a request. */
export function isRequest(message: v1.Message): boolean {
  return message.body.case === "spawnOrder" || (message.requestId !== "" && !isAnswer(message));
}

/** The texts of a message. */
export interface Said {
  /** Empty: it has none. */
  readonly summary: string;
  readonly text: string;
}

export function said({ body }: v1.Message): Said {
  switch (body.case) {
    case "message":
    case "broadcast":
      return { summary: body.value.summary, text: body.value.content };
    case "shutdownRequest":
    case "shutdownResponse":
    case "permissionResponse":
      return { summary: "", text: body.value.reason };
    case "planApprovalRequest":
      return { summary: body.value.summary, text: body.value.plan };
    case "planApprovalResponse":
      return { summary: "", text: body.value.feedback };
    case "permissionRequest":
      return { summary: `${body.value.tool}: ${body.value.summary}`, text: body.value.detail };
    case "spawnOrder":
      return { summary: body.value.summary, text: "" };
    case "notice":
      return { summary: "", text: body.value.text };
    default:
      return { summary: "", text: "" };
  }
}

/** Returns a message in one line. */
export function preview(message: v1.Message): string {
  const { summary, text } = said(message);
  return (summary || text || requestNoun(message)).slice(0, 200);
}

export function senderName(sender: v1.Sender | undefined): string {
  if (sender?.kind === SenderKind.OPERATOR) return "the operator";
  if (sender?.kind === SenderKind.COORDINATOR) return "the coordinator";
  return sender?.name ?? "someone";
}

const REQUESTS: Readonly<Record<string, string>> = {
  shutdownRequest: "shutdown request",
  planApprovalRequest: "plan",
  permissionRequest: "permission request",
  spawnOrder: "order to start a member",
};

/** Returns what a message asks for. */
export function requestNoun({ body }: v1.Message): string {
  return REQUESTS[body.case ?? ""] ?? "";
}

/** What each state of a request is called, and how it looks. */
export const REQUEST_STATE: Readonly<Record<number, readonly [name: string, look: string]>> = {
  [RequestState.PENDING]: ["awaits an answer", "warn"],
  [RequestState.APPROVED]: ["approved", "good"],
  [RequestState.REJECTED]: ["rejected", "bad"],
  [RequestState.EXPIRED]: ["expired", ""],
  [RequestState.CANCELLED]: ["cancelled", ""],
};

const CANCELLED: Readonly<Record<number, string>> = {
  [CancelCause.TARGET_REPLACED]: "a new life of the member has begun",
  [CancelCause.TARGET_EXITED]: "the member has exited",
  [CancelCause.FORCED]: "the member was stopped by force",
  [CancelCause.NEWER_PLAN]: "the author has submitted a newer plan",
  [CancelCause.WITHDRAWN]: "the member has withdrawn it",
};

/** Returns why a request has the state that it has. */
export function stateReason(request: v1.Request): string {
  if (request.state === RequestState.CANCELLED) return CANCELLED[request.cancelCause] ?? "";
  return request.state === RequestState.EXPIRED ? "no one answered in time" : request.reason;
}

const ASKED: Readonly<Record<number, string>> = {
  [RequestKind.SHUTDOWN]: "the shutdown of",
  [RequestKind.PLAN_APPROVAL]: "the plan of",
  [RequestKind.PERMISSION]: "the permission request of",
  [RequestKind.SPAWN]: "the order to start",
};

/** Returns a decision in one line. */
export function decision(request: v1.Request): string {
  const what = `${ASKED[request.kind] ?? "the request of"} ${request.member}`;
  const [state = "decided"] = REQUEST_STATE[request.state] ?? [];
  const reason = stateReason(request);
  const tail = reason ? `: ${reason}` : "";
  return request.decidedBy
    ? `${senderName(request.decidedBy)} ${state} ${what}${tail}`
    : `${what[0]?.toUpperCase()}${what.slice(1)} ${state === "expired" ? "" : "was "}${state}${tail}`;
}

export const DEAD_LETTER: Readonly<Record<number, string>> = {
  [DeadLetterCause.DELIVERY_LIMIT]: "it was delivered too many times without being processed",
  [DeadLetterCause.TARGET_REPLACED]: "it asked an earlier life of the member to shut down",
  [DeadLetterCause.INBOX_FULL]: "the inbox was full",
  [DeadLetterCause.MEMBER_REMOVED]: "the member exited long ago and was removed from the team",
  [DeadLetterCause.REPLACED]: "a newer notice has replaced it",
  [DeadLetterCause.NOT_STARTED]: "the member was never started",
};

const MEMBER: Readonly<Record<number, string>> = {
  [MemberState.JOINED]: "joined",
  [MemberState.ACTIVE]: "is active",
  [MemberState.IDLE]: "is idle",
  [MemberState.STOPPING]: "is ending",
  [MemberState.EXITED]: "exited",
  [MemberState.LOST]: "was lost: its lease has run out",
  [MemberState.AWAY]: "is away",
  [MemberState.SPAWNING]: "was ordered from a host",
};

function memberEvent(event: v1.MemberEvent): string {
  const life = event.incarnation > 1n ? ` (life ${event.incarnation})` : "";
  const parts = [`${event.member}${life} ${MEMBER[event.state] ?? "has another state"}`];
  if (event.forcedBy) parts.push(`stopped by force by ${senderName(event.forcedBy)}`);
  if (event.exit) parts.push(exitName(event.exit));
  if (event.detail) parts.push(event.detail);
  return parts.join(", ");
}

function teamEvent({ kind, actor, member }: v1.TeamEvent): string {
  const who = senderName(actor);
  switch (kind) {
    case TeamEventKind.CREATED:
      return `${who} created the team`;
    case TeamEventKind.LEAD_CHANGED:
      return `${who} made ${member} the lead`;
    case TeamEventKind.INVITED:
      return `${who} invited ${member || "a member"}`;
    case TeamEventKind.OBSERVER_CREATED:
      return `${who} created an observer's credential`;
    case TeamEventKind.WRITES_LOST:
      return "The store has lost changes that were confirmed";
    case TeamEventKind.SIGNED_IN:
      return `${who} signed in to the console`;
    case TeamEventKind.CREDENTIAL_REVOKED:
      return `${who} revoked a credential${member ? ` of ${member}` : ""}`;
    default:
      return "Something happened to the team";
  }
}

function taskEvent({ kind, taskId, subject, actor, owner, detail }: v1.TaskEvent): string {
  const [who, task] = [senderName(actor), `task #${taskId}, ${subject}`];
  const tail = detail ? `: ${detail}` : "";
  switch (kind) {
    case TaskEventKind.CREATED:
      return `${who} created ${task}${tail}`;
    case TaskEventKind.ASSIGNED:
      return `${who} assigned ${task}, to ${owner}${tail}`;
    case TaskEventKind.CLAIMED:
      return `${owner} claimed ${task}${tail}`;
    case TaskEventKind.COMPLETED:
      return `${who} completed ${task}${tail}`;
    case TaskEventKind.RELEASED:
      return `${who} released ${task}${tail}`;
    case TaskEventKind.LAPSED:
      return `The claim of ${owner || "its owner"} lapsed on ${task}${tail}`;
    case TaskEventKind.DELETED:
      return `${who} deleted ${task}${tail}`;
    default:
      return `${who} changed ${task}${tail}`;
  }
}

/** Returns an event in one line. */
export function eventLine({ event }: v1.HistoryEntry): string {
  switch (event.case) {
    case "member":
      return memberEvent(event.value);
    case "team":
      return teamEvent(event.value);
    case "task":
      return taskEvent(event.value);
    case "decision":
      return decision(event.value);
    case "deadLetter":
      return `A message to ${event.value.recipient} was given up: ${DEAD_LETTER[event.value.cause] ?? "no reason is known"}`;
    default:
      return "Something that this page does not know";
  }
}
