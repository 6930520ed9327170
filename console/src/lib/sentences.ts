/** What the history says, in words. Agents have written parts of it, so show these texts with `Text.svelte`. */

import { v1 } from "@teamwire/client";
import { exitName } from "./format.js";
import { permission } from "./text.js";
import { workLine } from "./work/words.js";

/** The texts of a message. */
export interface Said {
  /** Empty: it has none. */
  readonly summary: string;
  readonly text: string;
}

/** The fields that hold the text of a message: each kind has one of them. */
const TEXTS = ["content", "reason", "plan", "feedback", "text"];

export function said({ body }: v1.Message): Said {
  if (body.case === "permissionRequest") {
    return {
      summary: permission(body.value, body.value.detail),
      text: `${body.value.detail}\n\ndescribed as: ${body.value.summary}`,
    };
  }
  if (body.case === "reviewRequest") {
    const { taskId, summary, result, work, mergeOnApproval } = body.value;
    const merge = mergeOnApproval ? "\n\nOnce it is approved, the commit is merged." : "";
    const text = [work && workLine(work), result].filter(Boolean).join("\n\n");
    return { summary: `task #${taskId}: ${summary}`, text: `${text}${merge}` };
  }
  const parts: Readonly<Record<string, unknown>> = { ...body.value };
  const part = (name: string) => (typeof parts[name] === "string" ? parts[name] : "");
  return { summary: part("summary"), text: TEXTS.map(part).find((text) => text !== "") ?? "" };
}

/** How many characters of a message one line has. */
const GIST_MAX = 200;

const ASKS: Readonly<Record<string, string>> = {
  shutdownRequest: "asks for a shutdown",
  planApprovalRequest: "submits a plan",
  permissionRequest: "asks for permission",
  reviewRequest: "asks for a review",
};

const ANSWERS: Readonly<Record<string, readonly [approved: string, rejected: string]>> = {
  shutdownResponse: ["approves the shutdown", "rejects the shutdown"],
  planApprovalResponse: ["approves the plan", "rejects the plan"],
  permissionResponse: ["gives permission", "refuses permission"],
  reviewResponse: ["approves the work", "rejects the work"],
};

/** Returns what a message says, in one line, after the name of its sender. */
export function gist(message: v1.Message): string {
  const { body } = message;
  const { summary, text } = said(message);
  const [approved, rejected] = ANSWERS[body.case ?? ""] ?? [];
  const isApproval = !!body.value && "approve" in body.value && body.value.approve;
  const act = (isApproval ? approved : rejected) ?? ASKS[body.case ?? ""];
  const about = summary || text;
  return (act ? `${act}${about && `: ${about}`}` : about || requestNoun(message)).slice(0, GIST_MAX);
}

/** How many recipients a line names. */
const NAMED_MAX = 3;

function messageLine(message: v1.Message): string {
  const { sender, recipients } = message;
  const to = recipients.length > NAMED_MAX ? `${recipients.length} members` : recipients.join(", ");
  return `${actorName(sender)} → ${to || "the operator"}: ${gist(message)}`;
}

/** Returns who has sent something, within a sentence. */
export function senderName(sender: v1.Sender | undefined): string {
  if (sender?.kind === v1.SenderKind.OPERATOR) return "the operator";
  if (sender?.kind === v1.SenderKind.COORDINATOR) return "the coordinator";
  return sender?.name ?? "an observer";
}

/** Returns who has done something, at the beginning of a sentence. */
function actorName(actor: v1.Sender | undefined): string {
  return actor?.kind === v1.SenderKind.MEMBER ? actor.name : capital(senderName(actor));
}

function capital(text: string): string {
  return `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}`;
}

const REQUESTS: Readonly<Record<string, string>> = {
  shutdownRequest: "shutdown request",
  planApprovalRequest: "plan",
  permissionRequest: "permission request",
  reviewRequest: "review request",
  spawnOrder: "order to start a member",
};

/** Returns what a message asks for. Empty if it asks for nothing. */
export function requestNoun({ body }: v1.Message): string {
  return REQUESTS[body.case ?? ""] ?? "";
}

/** What each state of a request is called, and how it looks. */
export const REQUEST_STATE: Readonly<Record<number, readonly [name: string, look: string]>> = {
  [v1.RequestState.PENDING]: ["awaits an answer", "warn"],
  [v1.RequestState.APPROVED]: ["approved", "good"],
  [v1.RequestState.REJECTED]: ["rejected", "bad"],
  [v1.RequestState.EXPIRED]: ["expired", ""],
  [v1.RequestState.CANCELLED]: ["cancelled", ""],
};

/** Why a request can no longer be answered. */
export const CANCELLED: Readonly<Record<number, string>> = {
  [v1.CancelCause.TARGET_REPLACED]: "its member has begun a new life",
  [v1.CancelCause.TARGET_EXITED]: "its member has exited",
  [v1.CancelCause.FORCED]: "its member was stopped by force",
  [v1.CancelCause.NEWER_PLAN]: "its author has submitted a newer plan",
  [v1.CancelCause.WITHDRAWN]: "its author has withdrawn it",
  [v1.CancelCause.NEWER_COMMIT]: "the owner of the task has a newer commit",
  [v1.CancelCause.TASK_CHANGED]: "its task was completed, released, reassigned or deleted",
};

/** Returns why a request has the state that it has. */
export function stateReason(request: v1.Request): string {
  if (request.state === v1.RequestState.CANCELLED) return CANCELLED[request.cancelCause] ?? "";
  return request.state === v1.RequestState.EXPIRED ? "no one answered in time" : request.reason;
}

const DECIDED: Readonly<Record<number, string>> = {
  [v1.RequestKind.SHUTDOWN]: "shutdown",
  [v1.RequestKind.PLAN_APPROVAL]: "plan",
  [v1.RequestKind.PERMISSION]: "permission request",
  [v1.RequestKind.REVIEW]: "review",
};

function decision(request: v1.Request): string {
  const isOrder = request.kind === v1.RequestKind.SPAWN;
  const what = isOrder
    ? `order to start ${request.member}`
    : `${request.member}'s ${DECIDED[request.kind] ?? "request"}`;
  const [state = "decided"] = REQUEST_STATE[request.state] ?? [];
  const reason = stateReason(request);
  const tail = reason ? `: ${reason}` : "";
  return request.decidedBy
    ? `${actorName(request.decidedBy)} ${state} ${isOrder ? "the " : ""}${what}${tail}`
    : `${isOrder ? "The " : ""}${what} ${state === "expired" ? "" : "was "}${state}${tail}`;
}

/** Why a message became a dead letter. */
export const DEAD_LETTER: Readonly<Record<number, string>> = {
  [v1.DeadLetterCause.DELIVERY_LIMIT]: "it was delivered too many times without being processed",
  [v1.DeadLetterCause.TARGET_REPLACED]: "it asked an earlier life of the member to shut down",
  [v1.DeadLetterCause.INBOX_FULL]: "the inbox was full",
  [v1.DeadLetterCause.MEMBER_REMOVED]: "the member exited long ago and was removed from the team",
  [v1.DeadLetterCause.REPLACED]: "a newer notice has replaced it",
  [v1.DeadLetterCause.NOT_STARTED]: "the member was never started",
  [v1.DeadLetterCause.REQUEST_OVER]: "the request that it made was over",
  [v1.DeadLetterCause.SENDER_STOPPED]: "its sender was stopped by force",
};

const MEMBER: Readonly<Record<number, string>> = {
  [v1.MemberState.JOINED]: "joined",
  [v1.MemberState.ACTIVE]: "is active",
  [v1.MemberState.IDLE]: "is idle",
  [v1.MemberState.STOPPING]: "is ending",
  [v1.MemberState.EXITED]: "exited",
  [v1.MemberState.LOST]: "was lost: its lease has run out",
  [v1.MemberState.AWAY]: "is away",
  [v1.MemberState.SPAWNING]: "was ordered from a host",
};

function memberEvent(event: v1.MemberEvent): string {
  const life = event.incarnation > 1n ? ` (life ${event.incarnation})` : "";
  const parts = [`${event.member}${life} ${MEMBER[event.state] ?? "has another state"}`];
  if (event.forcedBy) parts.push(`forced by ${senderName(event.forcedBy)}`);
  if (event.exit) parts.push(exitName(event.exit));
  if (event.detail) parts.push(event.detail);
  return parts.join(", ");
}

function teamEvent({ kind, actor, member, readOnly }: v1.TeamEvent): string {
  const who = actorName(actor);
  switch (kind) {
    case v1.TeamEventKind.CREATED:
      return `${who} created the team`;
    case v1.TeamEventKind.LEAD_CHANGED:
      return `${who} made ${member} the lead`;
    case v1.TeamEventKind.INVITED:
      return `${who} invited ${member || "a member"}`;
    case v1.TeamEventKind.OBSERVER_CREATED:
      return `${who} created an observer's credential`;
    case v1.TeamEventKind.WRITES_LOST:
      return "The store has lost changes that were confirmed";
    case v1.TeamEventKind.SIGNED_IN:
      return `${who} signed in to the console${readOnly ? " (read-only)" : ""}`;
    case v1.TeamEventKind.CREDENTIAL_REVOKED:
      return `${who} revoked a credential${member ? ` of ${member}` : ""}`;
    default:
      return "Something happened to the team";
  }
}

function taskEvent({ kind, taskId, subject, actor, owner, detail }: v1.TaskEvent): string {
  const [who, task] = [actorName(actor), `task #${taskId}, ${subject}`];
  const tail = detail ? `: ${detail}` : "";
  switch (kind) {
    case v1.TaskEventKind.CREATED:
      return `${who} created ${task}${tail}`;
    case v1.TaskEventKind.ASSIGNED:
      return `${who} assigned ${task} to ${owner}${tail}`;
    case v1.TaskEventKind.CLAIMED:
      return `${owner} claimed ${task}${tail}`;
    case v1.TaskEventKind.IN_REVIEW:
      return `${owner} completed ${task}, which awaits its review${tail}`;
    case v1.TaskEventKind.REVIEW_ENDED:
      return `The review of ${task} has ended: ${detail || "it is void"}. ${owner ? `${owner} has it again` : "It is back on the board"}`;
    case v1.TaskEventKind.COMPLETED:
      return `${who} completed ${task}${tail}`;
    case v1.TaskEventKind.RELEASED:
      return `${who} released ${task}${tail}`;
    case v1.TaskEventKind.LAPSED:
      return `The claim of ${owner || "its owner"} lapsed on ${task}${tail}`;
    case v1.TaskEventKind.DELETED:
      return `${who} deleted ${task}${tail}`;
    default:
      return `${who} changed ${task}${tail}`;
  }
}

function permissionEvent({ kind, actor, rule, detail }: v1.PermissionEvent): string {
  const [who, number] = [actorName(actor), `permission rule ${rule?.id ?? "?"}`];
  const extent = rule?.command || rule?.path || "any use";
  const permits = `${rule?.member || "every member"} may use ${rule?.tool}: ${extent}`;
  switch (kind) {
    case v1.PermissionEventKind.ADDED:
      return `${who} added ${number}: ${permits}`;
    case v1.PermissionEventKind.REVOKED:
      return `${who} revoked ${number}: ${permits}`;
    case v1.PermissionEventKind.USED:
      return `${who} used ${number}: ${rule?.tool}${detail ? `: ${detail}` : ""}`;
    default:
      return `${who} changed ${number}`;
  }
}

/** Says what an entry of the history is, in one line. */
export function sentence({ event }: v1.HistoryEntry): string {
  switch (event.case) {
    case "message":
      return messageLine(event.value);
    case "member":
      return memberEvent(event.value);
    case "team":
      return teamEvent(event.value);
    case "task":
      return taskEvent(event.value);
    case "decision":
      return decision(event.value);
    case "permission":
      return permissionEvent(event.value);
    case "deadLetter":
      return `A message to ${event.value.recipient} became a dead letter: ${DEAD_LETTER[event.value.cause] ?? "unknown reason"}`;
    default:
      return "Something that this page does not know";
  }
}
