/** Messages in one line. */

import type { v1 } from "@teamwire/client";
import { said } from "../../lib/sentences.js";
import { permission } from "../../lib/text.js";

/** Returns what a message is about, in one line. May contain what an agent wrote. */
export function about(message: v1.Message | undefined): string {
  const body = message?.body;
  switch (body?.case) {
    case "permissionRequest":
      return `asks for permission: ${permission(body.value, body.value.detail)}`;
    case "planApprovalRequest":
      return `asks to approve a plan${body.value.summary ? `: ${body.value.summary}` : ""}`;
    case "reviewRequest":
      return `asks for a review of task #${body.value.taskId}: ${body.value.summary}`;
    case "shutdownRequest":
      return `asks to shut down${body.value.reason ? `: ${body.value.reason}` : ""}`;
    case "shutdownResponse":
    case "permissionResponse":
    case "reviewResponse":
      return `${answer(body.value.approve)}${body.value.reason ? `: ${body.value.reason}` : ""}`;
    case "planApprovalResponse":
      return `${answer(body.value.approve)}${body.value.feedback ? `: ${body.value.feedback}` : ""}`;
    default: {
      const { summary = "", text = "" } = message ? said(message) : {};
      return summary || text || "a message of a kind that this page does not know";
    }
  }
}

function answer(approve: boolean | undefined): string {
  return approve ? "approves" : "rejects";
}

/** Returns the summary of a text that was written without one: its first line, shortened. */
export function summaryOf(content: string): string {
  const line = content.split("\n").find((one) => one.trim() !== "") ?? "";
  const plain = line.replace(/\p{Cc}+/gu, " ").trim();
  return plain.length > 100 ? `${[...plain].slice(0, 99).join("")}…` : plain;
}
