/** What programs have used. */

import { v1 } from "@teamwire/client";
import { compact, money } from "./format.js";

/** Returns how many tokens a program has read and written. */
export function tokens(usage: v1.Usage | undefined): bigint {
  return usage ? usage.inputTokens + usage.outputTokens : 0n;
}

/** Returns tokens and cost in words. Empty: nothing was used. */
export function usageName(used: bigint, micros: bigint): string {
  if (used === 0n && micros === 0n) return "";
  return `${compact(used)} tokens${micros > 0n ? `, ${money(micros)}` : ""}`;
}
