/** What is wrong with a team, and what to do about it, as far as the watched team and its recent history tell. */

import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { v1 } from "@teamwire/client";
import { count, exitName, span } from "../../lib/format.js";
import { permission } from "../../lib/text.js";
import { type Page, type Params } from "../../route.svelte.js";
import { hasFailed, hasNoLease, isUnread } from "../team/attention.js";
import { hasEnded } from "../team/entries.js";

/** How long something can take before it counts as a problem, in milliseconds. As for `teamwire doctor`. */
const PATIENCE_MS = 30_000;

/** How long ago something may have happened to be mentioned, in milliseconds. */
const RECENT_MS = 3_600_000;

export interface Finding {
  readonly isProblem: boolean;
  readonly key: string;
  /** What is wrong. May contain what an agent wrote. */
  readonly text: string;
  /** What to do next. */
  readonly next: string;
  /** Where to do it. */
  readonly link?: { readonly text: string; readonly page: Page; readonly params: Params };
}

export interface View {
  readonly members: Iterable<v1.Member>;
  readonly hosts: Iterable<v1.Host>;
  readonly requests: Iterable<v1.Request>;
  /** The newest part of the history, the oldest first. */
  readonly history: readonly v1.HistoryEntry[];
  /** In milliseconds. */
  readonly now: number;
}

/** Returns what is wrong, problems first. */
export function findings(view: View): Finding[] {
  const members = [...view.members];
  const found = [
    ...members.flatMap((member) => ofMember(member, view)),
    ...[...view.hosts].flatMap((host) => ofHost(host, members, view.now)),
    ...[...view.requests].flatMap((request) => ofRequest(request, view.now)),
    ...ofHistory(view),
  ];
  return found.sort((a, b) => Number(b.isProblem) - Number(a.isProblem));
}

function ofMember(member: v1.Member, { now, history }: View): Finding[] {
  const { name, state, inboxDepth, failedTurns } = member;
  const since = ageOf(member.stateSince, now);
  const unread = count(inboxDepth, "message");
  const areWaiting = inboxDepth === 1n ? "is waiting" : "are waiting";
  const link = { text: `See ${name}`, page: "member" as const, params: { name } };
  const found: Finding[] = [];
  const problem = (kind: string, text: string, next: string, isProblem = true) =>
    found.push({ isProblem, key: `${kind} ${name}`, text, next, link });
  if (state === v1.MemberState.LOST) {
    problem(
      "lost",
      `${name} has been lost for ${span(since)}: its lease has run out. ${inboxDepth > 0n ? `${unread} ${areWaiting} in its inbox.` : ""}`,
      "If it is still needed, start its program again: it then receives its messages. If not, stop it by force.",
    );
  }
  if (state === v1.MemberState.EXITED && hasFailed(member) && member.exit) {
    const waiting = inboxDepth > 0n ? `, and left ${unread} unprocessed` : "";
    const next = "If it is still needed, start it again: it then receives its messages.";
    problem("failed", `${name}'s program failed (${exitName(member.exit)})${waiting}.`, next, inboxDepth > 0n);
  }
  if (state === v1.MemberState.STOPPING && since >= PATIENCE_MS) {
    problem(
      "not exited",
      `${name} should have exited ${span(since)} ago, but has not reported its exit.`,
      `Find its process${member.attributes?.host ? ` on ${member.attributes.host}` : ""}, and end it. Stopping it by force revokes its credential.`,
    );
  }
  if (failedTurns && failedTurns.count > 0 && ageOf(failedTurns.since, now) >= PATIENCE_MS) {
    problem(
      "failing",
      `${name}'s program has failed for ${span(ageOf(failedTurns.since, now))}, ${count(failedTurns.count, "time")} in a row: ${failedTurns.error}`,
      "See its activity. If it doesn't recover, stop it, fix the cause, and start it again.",
    );
  }
  if (hasNoLease(member)) {
    problem(
      "lease",
      `${name}'s lease has run out.`,
      "It will soon count as lost unless it makes a call: check its machine and its network.",
    );
  }
  if (hasEnded(state) || state === v1.MemberState.LOST) return found;
  if (member.inboxFull) {
    problem(
      "full",
      `${name}'s inbox is full (${unread}), so more messages are refused.`,
      member.connected
        ? "Its program does not acknowledge what it receives. A shutdown request still reaches it; then start it again."
        : "Start its program again: it then receives its messages.",
    );
  } else if (inboxDepth > 0n && isUnread(member) && since >= PATIENCE_MS) {
    problem("unread", `No process reads ${name}'s inbox: ${unread} ${areWaiting}.`, "Start its program again.");
  } else if (inboxDepth > 0n && isStuck(member, history)) {
    problem(
      "stuck",
      `${name} has not processed its messages for too long: ${unread} ${areWaiting}.`,
      "It may still be working on them. Ask it, or see its activity.",
    );
  } else if (inboxDepth > 0n && member.connected && state === v1.MemberState.IDLE && since >= PATIENCE_MS) {
    problem(
      "idle",
      `${name} has been idle for ${span(since)} although ${unread} ${areWaiting} in its inbox.`,
      "Its program may not acknowledge what it receives. Ask it, or see its activity.",
    );
  }
  return found;
}

/** Returns whether the coordinator has told the lead in this life of a member that it does not process its messages. */
function isStuck(member: v1.Member, history: readonly v1.HistoryEntry[]): boolean {
  const from = member.joinedAt ? timestampMs(member.joinedAt) : 0;
  return history.some(({ at, event }) => {
    const body = event.case === "message" ? event.value.body : undefined;
    if (body?.case !== "notice" || body.value.kind !== v1.NoticeKind.UNPROCESSED) return false;
    return body.value.member === member.name && at !== undefined && timestampMs(at) > from;
  });
}

function ofHost(host: v1.Host, members: readonly v1.Member[], now: number): Finding[] {
  const { name, state, offer } = host;
  const since = span(ageOf(host.stateSince, now));
  const finding = (isProblem: boolean, kind: string, text: string, next: string): Finding[] => {
    const link = { text: `See ${name}`, page: "member" as const, params: { name } };
    return [{ isProblem, key: `${kind} ${name}`, text, next, link }];
  };
  if (state === v1.MemberState.EXITED) return [];
  if (state === v1.MemberState.LOST) {
    const its = members.filter((member) => member.spawnedOn === name && !hasEnded(member.state));
    if (its.length === 0) {
      const next = "If it is still needed, start `teamwire host` on it again. If not, stop it by force.";
      return finding(false, "host lost", `The host ${name} has been lost for ${since}.`, next);
    }
    const named = its.slice(0, 5).map((member) => member.name);
    if (its.length > named.length) named.push(`${its.length - named.length} more`);
    return finding(
      true,
      "host lost",
      `The host ${name} has been lost for ${since}, and is responsible for ${named.join(", ")}. They may still be running.`,
      `Start \`teamwire host\` on ${name} again: it finds the members that it started.`,
    );
  }
  if (!offer) {
    if (ageOf(host.joinedAt, now) < PATIENCE_MS) return [];
    const next = `Check the output of \`teamwire host\` on ${name}, and restart it.`;
    return finding(true, "no offer", `The host ${name} has not declared what it offers.`, next);
  }
  if (offer.profiles.length === 0) {
    const next = `Install an agent program on ${name}, or add a profile to its host.toml; then restart it.`;
    return finding(false, "no profile", `The host ${name} offers no profile, so it can start no one.`, next);
  }
  if (host.slotsUsed >= offer.slots) {
    const next = "Orders go to other hosts. To start more on it, restart it with more --slots.";
    return finding(false, "no slots", `All ${offer.slots} slots of the host ${name} are taken.`, next);
  }
  return [];
}

function ofRequest(request: v1.Request, now: number): Finding[] {
  const { id, kind, member: name, approver } = request;
  const age = ageOf(request.createdAt, now);
  if (age < PATIENCE_MS) return [];
  const waits = span(age);
  const decide = { text: "Answer it", page: "approvals" as const, params: { member: name } };
  const see = { text: `See ${name}`, page: "member" as const, params: { name } };
  const finding = (text: string, next: string, link: Finding["link"]): Finding[] => [
    { isProblem: true, key: `request ${id}`, text, next, ...(link && { link }) },
  ];
  switch (kind) {
    case v1.RequestKind.PLAN_APPROVAL:
      return finding(
        `${name}'s plan has waited ${waits} for an answer.`,
        "The lead or the operator answers it.",
        decide,
      );
    case v1.RequestKind.PERMISSION: {
      const who = approver ? `${approver}, the lead` : "The lead";
      return finding(
        `${name} has waited ${waits} for permission: ${permission(request, request.content)}.`,
        `${who} or the operator answers it.`,
        decide,
      );
    }
    case v1.RequestKind.SHUTDOWN:
      return finding(
        `${name} has not answered its shutdown request in ${waits}.`,
        "Wait for it, or stop it by force.",
        see,
      );
    case v1.RequestKind.SPAWN:
      return finding(
        `${name} was ordered ${waits} ago from ${approver}, and has not started.`,
        `Wait for it. Or cancel the order by stopping ${name} by force, and choose another host.`,
        see,
      );
    default:
      return [];
  }
}

function ofHistory({ history, now }: View): Finding[] {
  const found: Finding[] = [];
  const recent = history.filter(({ at }) => ageOf(at, now) < RECENT_MS);
  const dead = recent.flatMap(({ event }) => {
    const isLost =
      event.case === "deadLetter" &&
      [v1.DeadLetterCause.DELIVERY_LIMIT, v1.DeadLetterCause.MEMBER_REMOVED].includes(event.value.cause);
    return isLost ? [event.value.recipient] : [];
  });
  if (dead.length > 0) {
    const names = [...new Set(dead)].slice(0, 5).join(", ");
    found.push({
      isProblem: false,
      key: "dead letters",
      text: `${count(dead.length, "message")} for ${names} became ${dead.length === 1 ? "a dead letter" : "dead letters"} in the last hour, unprocessed.`,
      next: `If ${dead.length === 1 ? "it still matters, send it" : "they still matter, send them"} again.`,
      link: { text: "See the messages", page: "messages", params: { member: dead.at(-1) } },
    });
  }
  const lost = recent.filter(({ event }) => event.case === "team" && event.value.kind === v1.TeamEventKind.WRITES_LOST);
  if (lost.length > 0) {
    found.push({
      isProblem: true,
      key: "lost writes",
      text: `The store has lost changes that the coordinator had confirmed, ${span(ageOf(lost.at(-1)?.at, now))} ago.`,
      next: "Compare the board and the latest messages with what the members did, and repeat what is missing. The operator finds the cause in the store's log.",
    });
  }
  return found;
}

function ageOf(at: Timestamp | undefined, now: number): number {
  return at ? Math.max(0, now - timestampMs(at)) : 0;
}
