/** The kinds of entries of a history. */

import type { v1 } from "@teamwire/client";

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
