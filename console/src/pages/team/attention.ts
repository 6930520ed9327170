/** What needs a person's attention, how urgently, and why. */

import { v1 } from "@teamwire/client";
import { isForBudget } from "../../lib/budget.js";
import { count, exitName, millis } from "../../lib/format.js";
import { permission, sentence } from "../../lib/text.js";

/** Why a person should look at something. */
export interface Need {
  /** How urgent it is, 1 to 5. */
  readonly rank: number;
  /** Why, in words. May contain what an agent wrote. */
  readonly reason: string;
}

/** Returns why a member needs attention. Undefined: it does not. */
export function memberNeed(member: v1.Member, requests: ReadonlyMap<string, v1.Request>): Need | undefined {
  const { state, failedTurns, inboxDepth } = member;
  const unread = count(inboxDepth, "message");
  if (state === v1.MemberState.LOST) {
    const waiting = inboxDepth > 0n ? `, ${unread} waiting` : "";
    return { rank: 5, reason: `Lost: its lease has run out${waiting}. Start its program again, or stop it.` };
  }
  if (state === v1.MemberState.EXITED) {
    return hasFailed(member) && member.exit
      ? { rank: 2, reason: `Its program failed: ${exitName(member.exit)}.` }
      : undefined;
  }
  const needs: Need[] = [];
  const need = (rank: number, reason: string) => needs.push({ rank, reason });
  if (failedTurns && failedTurns.count > 0)
    need(4, `${count(failedTurns.count, "turn")} failed in a row: ${failedTurns.error}`);
  if (member.inboxFull) need(4, `Its inbox is full (${unread}) and accepts no more.`);
  if (member.program?.trouble) need(3, sentence(member.program.trouble));
  const asked = member.pendingPermissions.flatMap((id) => requests.get(id) ?? []);
  const [request] = asked;
  const more = asked.length > 1 ? ` (and ${count(asked.length - 1, "other request")})` : "";
  if (request && isForBudget(request)) need(3, `Asks for more budget${more}.`);
  else if (request) need(3, `Asks for permission: ${permission(request, request.content)}${more}`);
  if (member.pendingPlan) need(3, "Waits for the answer to its plan.");
  if (hasNoLease(member)) need(3, "Its lease has run out. It will soon count as lost unless it makes a call.");
  if (inboxDepth > 0n && isUnread(member)) need(2, `No process reads its inbox: ${unread} waiting.`);
  const rank = Math.max(0, ...needs.map((one) => one.rank));
  return rank ? { rank, reason: needs.map(({ reason }) => reason).join(" ") } : undefined;
}

/** Returns why a member needs someone that leads the team, apart from its requests. Undefined: it does not. */
export function memberTrouble(member: v1.Member): Need | undefined {
  const { state, failedTurns, inboxDepth, program } = member;
  if (state === v1.MemberState.LOST) {
    const waiting = inboxDepth > 0n ? `, with ${count(inboxDepth, "message")} waiting` : "";
    return { rank: 5, reason: `is lost${waiting}` };
  }
  if (state === v1.MemberState.EXITED) return undefined;
  if (failedTurns && failedTurns.count > 0)
    return { rank: 4, reason: `${count(failedTurns.count, "turn")} failed in a row: ${failedTurns.error}` };
  return program?.trouble ? { rank: 3, reason: program.trouble } : undefined;
}

/** Returns whether no process reads the inbox of a member that should have one. */
export function isUnread(member: v1.Member): boolean {
  const isThere = [v1.MemberState.JOINED, v1.MemberState.ACTIVE, v1.MemberState.IDLE].includes(member.state);
  return isThere && member.liveness === v1.Liveness.ATTACHED && !member.connected;
}

/** Returns whether the lease of a member that should hold one has run out. */
export function hasNoLease(member: v1.Member): boolean {
  const { leaseLeft, state } = member;
  const isThere =
    [v1.MemberState.ACTIVE, v1.MemberState.IDLE].includes(state) && member.liveness === v1.Liveness.ATTACHED;
  return isThere && (!leaseLeft || (leaseLeft.seconds <= 0n && leaseLeft.nanos <= 0));
}

/** Returns whether a member's program ended by itself, without an approved shutdown, by a signal or with a code other than 0. */
export function hasFailed(member: v1.Member): boolean {
  const { exit } = member;
  if (member.state !== v1.MemberState.EXITED || !exit) return false;
  const wasEnded = exit.runnerAction === v1.RunnerAction.SIGTERM || exit.runnerAction === v1.RunnerAction.SIGKILL;
  return (exit.signal > 0 || (exit.code ?? 0) !== 0) && !wasEnded && exit.approvedRequestId === "";
}

/** Returns why a host needs attention. `running`: how many of its members are not known to have ended. */
export function hostNeed(host: v1.Host, running: number): Need | undefined {
  if (host.state === v1.MemberState.LOST) {
    return running > 0
      ? {
          rank: 5,
          reason: `Lost, with ${count(running, "member")}, which may still be running. Start it again: it finds them.`,
        }
      : { rank: 3, reason: "Lost: its lease has run out. Start it again, or stop it." };
  }
  if (host.state === v1.MemberState.EXITED) return undefined;
  if (host.offer && host.offer.profiles.length === 0)
    return { rank: 2, reason: "It offers no profile, so it can start no one." };
  return undefined;
}

/** Returns why an order has failed. Undefined: it has not. */
export function orderNeed(order: v1.Request): Need | undefined {
  const host = order.approver || "the host";
  switch (order.state) {
    case v1.RequestState.REJECTED:
      return { rank: 4, reason: `${host} did not start it: ${order.reason}` };
    case v1.RequestState.EXPIRED:
      return { rank: 4, reason: `${host} did not start it in time.` };
    default:
      return undefined;
  }
}

/** Returns the latest order of each name if it has failed after a moment, in milliseconds. */
export function failedOrders(orders: Iterable<v1.Request>, since: number): v1.Request[] {
  const latest = new Map<string, v1.Request>();
  for (const order of orders) {
    const known = latest.get(order.member);
    if (order.kind === v1.RequestKind.SPAWN && (!known || millis(order.createdAt) > millis(known.createdAt))) {
      latest.set(order.member, order);
    }
  }
  return [...latest.values()].filter((order) => orderNeed(order) && millis(order.decidedAt ?? order.expiresAt) > since);
}
