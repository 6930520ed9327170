/** What the history says: the lives of members, and the team as it was at a moment. */

import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { v1 } from "@teamwire/client";
import { sentence } from "../../lib/sentences.js";

/** A stretch of a member's life in one state. */
export interface Stretch {
  readonly member: string;
  readonly incarnation: bigint;
  readonly state: v1.MemberState;
  /** In milliseconds. */
  readonly from: number;
  /** In milliseconds. Undefined: it lasts. */
  to: number | undefined;
}

/** A message on its way to one recipient. */
export interface Arrow {
  readonly sequence: bigint;
  readonly from: string;
  readonly to: string;
  readonly sentAt: number;
  /** When the recipient processed it or, before that, got it. Undefined: not yet. */
  readonly arrivedAt: number | undefined;
  readonly text: string;
}

/** A member at a moment. */
export interface MemberThen {
  state: v1.MemberState;
  incarnation: bigint;
  /** How many of its messages it had not processed. */
  waiting: number;
}

/** A task at a moment. */
export interface TaskThen {
  subject: string;
  status: v1.TaskStatus;
  owner: string;
}

/** The team as it was. */
export interface Moment {
  readonly members: Map<string, MemberThen>;
  readonly tasks: Map<bigint, TaskThen>;
  /** The requests that were pending: what each asks for, and of which member. */
  readonly requests: Map<string, string>;
  /** The newest entry until then. */
  last: v1.HistoryEntry | undefined;
}

export function timeOf(entry: v1.HistoryEntry): number {
  return millis(entry.at) ?? 0;
}

function millis(at: Timestamp | undefined): number | undefined {
  return at && timestampMs(at);
}

/** How many recipients of one message get an arrow. */
const ARROWS_MAX = 40;

/** Returns the messages between members of some entries. */
export function arrowsOf(entries: readonly v1.HistoryEntry[]): Arrow[] {
  return entries.flatMap((entry) => {
    if (entry.event.case !== "message") return [];
    const { sender, recipients } = entry.event.value;
    return recipients.slice(0, ARROWS_MAX).map((to) => {
      const receipt = entry.receipts.find(({ recipient }) => recipient === to);
      return {
        sequence: entry.sequence,
        from: sender?.name ?? "",
        to,
        sentAt: timeOf(entry),
        arrivedAt: millis(receipt?.finishedAt ?? receipt?.deliveredAt),
        text: sentence(entry),
      };
    });
  });
}

/** Returns the stretches of all lives that some entries tell of, in order. */
export function stretchesOf(entries: readonly v1.HistoryEntry[]): Stretch[] {
  const all: Stretch[] = [];
  const open = new Map<string, Stretch>();
  for (const entry of entries) {
    if (entry.event.case !== "member") continue;
    const { member, state, incarnation } = entry.event.value;
    const before = open.get(member);
    if (before) before.to = timeOf(entry);
    open.delete(member);
    if (state === v1.MemberState.EXITED) continue;
    const stretch: Stretch = { member, incarnation, state, from: timeOf(entry), to: undefined };
    all.push(stretch);
    open.set(member, stretch);
  }
  return all;
}

/** Returns the team as it was at a time in milliseconds. Exact if the entries begin with the first of the team. */
export function momentAt(entries: readonly v1.HistoryEntry[], ms: number): Moment {
  const moment: Moment = { members: new Map(), tasks: new Map(), requests: new Map(), last: undefined };
  for (const entry of entries) {
    if (timeOf(entry) > ms) break;
    apply(moment, entry, ms);
    moment.last = entry;
  }
  return moment;
}

function apply(moment: Moment, entry: v1.HistoryEntry, ms: number): void {
  switch (entry.event.case) {
    case "message":
      return applyMessage(moment, entry, entry.event.value, ms);
    case "decision":
      moment.requests.delete(entry.event.value.id);
      return;
    case "member": {
      const { member, state, incarnation } = entry.event.value;
      const then = memberOf(moment, member);
      then.state = state;
      then.incarnation = incarnation;
      return;
    }
    case "task":
      return applyTask(moment, entry.event.value);
  }
}

function applyMessage(moment: Moment, entry: v1.HistoryEntry, message: v1.Message, ms: number): void {
  for (const { recipient, finishedAt } of entry.receipts) {
    if ((millis(finishedAt) ?? Number.POSITIVE_INFINITY) > ms) memberOf(moment, recipient).waiting++;
  }
  const asked = ASKED[message.body.case ?? ""];
  if (asked) moment.requests.set(message.requestId, `${asked} of ${message.sender?.name}`);
}

/** The kinds of message that make a request. */
const ASKED: Readonly<Record<string, string>> = {
  shutdownRequest: "a shutdown request",
  planApprovalRequest: "a plan",
  permissionRequest: "a permission request",
  reviewRequest: "a review",
  spawnOrder: "a spawn order",
};

function applyTask(moment: Moment, { kind, taskId, subject, owner }: v1.TaskEvent): void {
  if (kind === v1.TaskEventKind.DELETED) {
    moment.tasks.delete(taskId);
    return;
  }
  const before = moment.tasks.get(taskId) ?? { status: v1.TaskStatus.PENDING, owner: "" };
  const status = STATUS_AFTER[kind] ?? before.status;
  // After a review, its owner has it again, or no one has.
  const ended = owner ? v1.TaskStatus.IN_PROGRESS : v1.TaskStatus.PENDING;
  const isOwned =
    kind === v1.TaskEventKind.UPDATED || kind === v1.TaskEventKind.CREATED ? before.owner || owner : owner;
  const isBack = kind === v1.TaskEventKind.RELEASED || kind === v1.TaskEventKind.LAPSED;
  moment.tasks.set(taskId, {
    subject,
    status: kind === v1.TaskEventKind.REVIEW_ENDED ? ended : status,
    owner: isBack ? "" : isOwned,
  });
}

const STATUS_AFTER: Readonly<Record<number, v1.TaskStatus>> = {
  [v1.TaskEventKind.CLAIMED]: v1.TaskStatus.IN_PROGRESS,
  [v1.TaskEventKind.IN_REVIEW]: v1.TaskStatus.IN_REVIEW,
  [v1.TaskEventKind.COMPLETED]: v1.TaskStatus.COMPLETED,
  [v1.TaskEventKind.RELEASED]: v1.TaskStatus.PENDING,
  [v1.TaskEventKind.LAPSED]: v1.TaskStatus.PENDING,
};

function memberOf(moment: Moment, name: string): MemberThen {
  const known = moment.members.get(name);
  if (known) return known;
  const then: MemberThen = { state: v1.MemberState.JOINED, incarnation: 1n, waiting: 0 };
  moment.members.set(name, then);
  return then;
}
