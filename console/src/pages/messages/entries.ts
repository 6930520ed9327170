/** The kinds of entries of a history. */

import { v1 } from "@teamwire/client";

/** The kinds of entries that a person can choose. */
export const KINDS = ["messages", "requests", "events"] as const;
export type Kind = (typeof KINDS)[number];

/** What people and agents said to each other, which is shown unless the person chooses something else. */
const CONVERSATION: readonly Kind[] = ["messages", "requests"];

/** Returns the kinds that an address names. */
export function kindsOf(param: string): ReadonlySet<Kind> {
  const named = KINDS.filter((kind) => param === "all" || param.split(",").includes(kind));
  return new Set(named.length > 0 ? named : CONVERSATION);
}

/** Returns what an address says if these kinds are chosen. */
export function kindsParam(kinds: readonly Kind[]): string {
  if (kinds.length === KINDS.length) return "all";
  const text = kinds.join();
  return text === CONVERSATION.join() ? "" : text;
}

export type MessageEntry = v1.HistoryEntry & { event: { case: "message"; value: v1.Message } };

export function isMessage(entry: v1.HistoryEntry): entry is MessageEntry {
  return entry.event.case === "message";
}

export function kindOf({ event }: v1.HistoryEntry): Kind {
  if (event.case === "decision") return event.value.kind === v1.RequestKind.SPAWN ? "events" : "requests";
  if (event.case !== "message") return "events";
  const { body, requestId } = event.value;
  // No one talks there: the coordinator reports, and a host gets an order.
  if (body.case === "notice" || body.case === "spawnOrder") return "events";
  return requestId ? "requests" : "messages";
}

/** Returns whether an entry is a notice of the coordinator's. */
export function isNotice({ event }: v1.HistoryEntry): boolean {
  return event.case === "message" && event.value.body.case === "notice";
}

const ANSWERS = new Set(["shutdownResponse", "planApprovalResponse", "permissionResponse", "reviewResponse"]);

/** Returns whether a message answers a request. */
export function isAnswer({ body }: v1.Message): boolean {
  return ANSWERS.has(body.case ?? "");
}

/** Returns whether a message makes a request. */
export function isRequest(message: v1.Message): boolean {
  return message.body.case === "spawnOrder" || (message.requestId !== "" && !isAnswer(message));
}
