/** Requests in words, and how they are answered. */

import { TeamwireError, v1 } from "@teamwire/client";
import { isForBudget } from "../../lib/budget.js";
import { words } from "../../lib/errors.js";
import { CANCELLED } from "../../lib/sentences.js";
import { oneLine, permission } from "../../lib/text.js";
import { toasts } from "../../lib/toasts.svelte.js";
import { type Caller, session } from "../../session.svelte.js";
import { team } from "../../team.svelte.js";

const KINDS: Readonly<Record<number, string>> = {
  [v1.RequestKind.SHUTDOWN]: "shutdown",
  [v1.RequestKind.PLAN_APPROVAL]: "plan",
  [v1.RequestKind.PERMISSION]: "permission",
  [v1.RequestKind.SPAWN]: "order",
  [v1.RequestKind.REVIEW]: "review",
};

export function kindName(request: v1.Request): string {
  return isForBudget(request) ? "budget" : (KINDS[request.kind] ?? "request");
}

/** Returns who asks. */
export function asker(request: v1.Request): string {
  const isOfOther = request.kind === v1.RequestKind.SHUTDOWN || request.kind === v1.RequestKind.SPAWN;
  return isOfOther ? (request.requester?.name ?? "") : request.member;
}

/** Returns what is asked for, in one line. An agent may have written it. */
export function title(request: v1.Request): string {
  switch (request.kind) {
    case v1.RequestKind.SHUTDOWN:
      return `Shut ${request.member} down`;
    case v1.RequestKind.SPAWN:
      return `Start ${request.member}${request.spawn ? ` as ${request.spawn.profile}` : ""}`;
    case v1.RequestKind.PERMISSION:
      return isForBudget(request)
        ? `More budget for ${request.member}: ${request.summary}`
        : permission(request, request.content);
    case v1.RequestKind.REVIEW:
      return `Task #${request.taskId}: ${request.summary}`;
    default:
      return request.summary || `A ${kindName(request)}`;
  }
}

/** Returns who can answer. */
export function answerer(request: v1.Request): string {
  switch (request.kind) {
    case v1.RequestKind.SHUTDOWN:
      return request.member;
    case v1.RequestKind.PERMISSION:
    case v1.RequestKind.REVIEW:
      return request.approver || team.team?.lead || "the lead";
    case v1.RequestKind.SPAWN:
      return `host ${request.approver}`;
    default:
      return team.team?.lead || "the lead";
  }
}

/** Says what an answer means. */
export function meaning(request: v1.Request): string {
  const { member } = request;
  switch (request.kind) {
    case v1.RequestKind.SHUTDOWN:
      return `Approving ends ${member}: its process is stopped, and the claims that it holds return to the board. A rejection keeps it alive.`;
    case v1.RequestKind.PLAN_APPROVAL:
      return team.members.get(member)?.attributes?.planModeRequired
        ? `Approving lets ${member} claim tasks and carry out this plan. A rejection sends it your reason.`
        : `Approving tells ${member} to carry out this plan. A rejection sends it your reason.`;
    case v1.RequestKind.PERMISSION:
      if (isForBudget(request))
        return `Approving raises each budget that is used up, by what you enter here, or else by itself once more, and ${member} goes on. If you reject it, or no one answers by the deadline, ${member} stays paused until its budget is raised.`;
      return `Approving lets ${member} do what is shown here. If you reject it, or no one answers by the deadline, it is refused.`;
    case v1.RequestKind.REVIEW: {
      const branch = request.work?.baseBranch || "its base branch";
      const merge = request.mergeOnApproval
        ? `, and the runner of ${member} merges this commit into ${oneLine(branch)}`
        : "; nothing is merged";
      return `Approving completes task #${request.taskId}${merge}. A rejection returns the task to ${member}, with your reason.`;
    }
    default:
      return `The host starts ${member}, or refuses. There is nothing to answer here.`;
  }
}

/** Says why a caller cannot answer a pending request. */
export function whyNot(caller: Caller | undefined, request: v1.Request): string {
  if (request.kind === v1.RequestKind.SPAWN) return `Waiting for ${answerer(request)}.`;
  if (caller?.readOnly) return "This sign-in can only read.";
  if (request.kind === v1.RequestKind.SHUTDOWN) return `Only ${request.member} can answer.`;
  if (request.kind === v1.RequestKind.PLAN_APPROVAL) return "Only the lead or the operator can answer a plan.";
  return request.member === caller?.member
    ? `Waiting for ${answerer(request)}: you asked.`
    : "Only the member that was asked, the lead or the operator can answer.";
}

/** Says what has become of a request. */
export function outcome(request: v1.Request): string {
  const by = request.decidedBy ? ` by ${request.decidedBy.name}` : "";
  switch (request.state) {
    case v1.RequestState.APPROVED:
      return `approved${by}`;
    case v1.RequestState.REJECTED:
      return `rejected${by}`;
    case v1.RequestState.EXPIRED:
      return "expired without an answer";
    case v1.RequestState.CANCELLED:
      return `cancelled: ${CANCELLED[request.cancelCause] ?? "it can no longer be answered"}`;
    default:
      return "pending";
  }
}

/** The refusals which say that an answer came too late. */
const LATE = new Set(["ALREADY_DECIDED", "REQUEST_EXPIRED", "REQUEST_CANCELLED"]);

/** By how much to raise the budgets that are used up. Zero in both: each by itself once more. */
export interface Raise {
  readonly costUsdMicros: bigint;
  readonly tokens: bigint;
}

/** Answers a request. Says how it went, also if someone else was faster. Returns whether the request is answered. */
export async function answer(request: v1.Request, approve: boolean, reason: string, raise?: Raise): Promise<boolean> {
  const { client, caller } = session;
  if (!client || !caller) return false;
  let isLate = false;
  try {
    await client.messages.send({ team: team.name, body: body(request, approve, reason, raise) });
  } catch (error) {
    isLate = error instanceof TeamwireError && LATE.has(error.reason ?? "");
    if (!isLate) {
      if (!session.hasEnded(error)) toasts.show(words(error), true);
      return false;
    }
  }
  // If someone else gave the same answer first, this call succeeds, too, so only the request tells whose answer counted.
  const decided = await read(request.id).catch(() => undefined);
  const isMine = !isLate && (!decided || isBy(caller, decided.decidedBy));
  if (isMine) toasts.show(approve ? "Approved." : "Rejected.");
  else if (decided?.state === v1.RequestState.CANCELLED)
    toasts.show(`Your answer came too late: the request is ${outcome(decided)}.`);
  else
    toasts.show(decided ? `Your answer came second: the request is ${outcome(decided)}.` : "Your answer came second.");
  return true;
}

/** Reads a request in full. */
export async function read(requestId: string, signal?: AbortSignal): Promise<v1.Request | undefined> {
  const reply = await session.client?.requests.getRequest({ team: team.name, requestId }, signal ? { signal } : {});
  return reply?.request;
}

function isBy(caller: Caller, by: v1.Sender | undefined): boolean {
  return caller.kind === "operator"
    ? by?.kind === v1.SenderKind.OPERATOR
    : by?.name.toLowerCase() === caller.member.toLowerCase();
}

function body({ kind, id, member, work }: v1.Request, approve: boolean, reason: string, raise?: Raise) {
  const addBudget = approve && raise && (raise.costUsdMicros > 0n || raise.tokens > 0n) ? { addBudget: raise } : {};
  switch (kind) {
    case v1.RequestKind.SHUTDOWN:
      return { case: "shutdownResponse", value: { requestId: id, approve, reason } } as const;
    case v1.RequestKind.PLAN_APPROVAL:
      return {
        case: "planApprovalResponse",
        value: { recipient: member, requestId: id, approve, feedback: reason },
      } as const;
    case v1.RequestKind.REVIEW:
      return {
        case: "reviewResponse",
        // The approval is for what was shown.
        value: { requestId: id, approve, reason, commit: work?.head ?? "" },
      } as const;
    default:
      return { case: "permissionResponse", value: { requestId: id, approve, reason, ...addBudget } } as const;
  }
}
