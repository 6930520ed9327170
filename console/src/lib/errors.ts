/** Errors in words. */

import { TeamwireError } from "@teamwire/client";

/** Says what went wrong, for the person. The coordinator's refusals already say what to do next. */
export function words(error: unknown): string {
  if (error instanceof TeamwireError) {
    if (error.reason === undefined) return "The coordinator does not answer. The page tries again.";
    return error.rawMessage;
  }
  return error instanceof Error ? error.message : String(error);
}
