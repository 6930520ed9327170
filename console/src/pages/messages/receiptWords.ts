/** How far a message got, in words. */

import { v1 } from "@teamwire/client";
import { date } from "../../lib/format.js";
import { DEAD_LETTER } from "../../lib/sentences.js";

/** The name of a state, which is also the class of its mark. */
export function receiptState({ state }: v1.Receipt): "queued" | "delivered" | "processed" | "dead-letter" {
  switch (state) {
    case v1.ReceiptState.DELIVERED:
      return "delivered";
    case v1.ReceiptState.PROCESSED:
      return "processed";
    case v1.ReceiptState.DEAD_LETTERED:
      return "dead-letter";
    default:
      return "queued";
  }
}

export const MARKS = { queued: "○", delivered: "◐", processed: "✓", "dead-letter": "✕" } as const;

/** Returns what a receipt says: `ann: processed at 10:31:07`. */
export function receiptWords(receipt: v1.Receipt): string {
  const state = receiptState(receipt);
  const at = (date(receipt.finishedAt) ?? date(receipt.deliveredAt))?.toLocaleTimeString("en", { hour12: false });
  const times = receipt.deliveryCount > 1 ? `, delivered ${receipt.deliveryCount} times` : "";
  switch (state) {
    case "queued":
      return `${receipt.recipient}: queued`;
    case "dead-letter":
      return `${receipt.recipient}: dead letter: ${DEAD_LETTER[receipt.deadLetterCause] ?? "unknown reason"}${times}`;
    default:
      return `${receipt.recipient}: ${state}${at ? ` at ${at}` : ""}${times}`;
  }
}
