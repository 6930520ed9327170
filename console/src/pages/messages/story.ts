/** The rows that a history is shown in. */

import type { v1 } from "@teamwire/client";
import { isMessage, isNotice, type Kind, kindOf, type MessageEntry } from "./entries.js";

/** One entry, or a run of notices that is shown as one line. */
export type Row =
  | { readonly key: bigint; readonly entry: v1.HistoryEntry }
  | { readonly key: bigint; readonly notices: readonly MessageEntry[] };

export interface Story {
  readonly rows: readonly Row[];
  /** The loaded messages by their ids. */
  readonly messages: ReadonlyMap<string, MessageEntry>;
  /** The loaded decisions by the ids of their requests. */
  readonly decisions: ReadonlyMap<string, v1.Request>;
  /** How many of the loaded messages answer a message. */
  readonly replies: ReadonlyMap<string, number>;
}

/** What the person wants to see. */
export interface Choice {
  readonly kinds: ReadonlySet<Kind>;
  /** Every notice is a row. Otherwise, only those in `unfolded` are. */
  readonly allNotices: boolean;
  /** The first sequences of the runs that the person has unfolded. */
  readonly unfolded: ReadonlySet<bigint>;
  /** Only the thread that this message begins. Empty: everything. */
  readonly thread: string;
}

/** Arranges entries in rows, with each decision at its request. */
export function tell(entries: readonly v1.HistoryEntry[], choice: Choice): Story {
  const messages = new Map<string, MessageEntry>();
  const decisions = new Map<string, v1.Request>();
  const replies = new Map<string, number>();
  for (const entry of entries) {
    if (entry.event.case === "decision") decisions.set(entry.event.value.id, entry.event.value);
    if (!isMessage(entry)) continue;
    const { id, inReplyTo } = entry.event.value;
    messages.set(id, entry);
    if (inReplyTo) replies.set(inReplyTo, (replies.get(inReplyTo) ?? 0) + 1);
  }
  const isShown = (entry: v1.HistoryEntry) => {
    if (choice.thread) return isMessage(entry) && rootOf(entry.event.value, messages) === choice.thread;
    if (!choice.kinds.has(kindOf(entry))) return false;
    // The message that carries an answer is the line of the decision.
    return entry.event.case !== "decision" || !messages.has(entry.event.value.answerMessageId);
  };
  return { rows: fold(entries.filter(isShown), choice), messages, decisions, replies };
}

/** Makes one row of each run of notices. */
function fold(entries: readonly v1.HistoryEntry[], { allNotices, unfolded }: Choice): Row[] {
  const rows: Row[] = [];
  let run: MessageEntry[] = [];
  const close = () => {
    const [first] = run;
    if (first && !unfolded.has(first.sequence)) rows.push({ key: first.sequence, notices: run });
    else rows.push(...run.map((entry) => ({ key: entry.sequence, entry })));
    run = [];
  };
  for (const entry of entries) {
    if (!allNotices && isMessage(entry) && isNotice(entry)) {
      run.push(entry);
      continue;
    }
    close();
    rows.push({ key: entry.sequence, entry });
  }
  close();
  return rows;
}

/** Returns the id of the first message of a thread, as far as it is loaded. */
export function rootOf(message: v1.Message, messages: ReadonlyMap<string, MessageEntry>): string {
  let at = message;
  // A message can only answer one that was there before, but what a client sends is not checked.
  for (let steps = 0; at.inReplyTo && steps < 1_000; steps++) {
    const above = messages.get(at.inReplyTo);
    if (!above) return at.inReplyTo;
    at = above.event.value;
  }
  return at.id;
}
