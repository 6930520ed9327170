/** The clipboard. */

import { toasts } from "./toasts.svelte.js";

/** Copies a text and says so. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toasts.show(`${what} copied`);
  } catch {
    // Browsers give no clipboard to a page that is neither on this machine nor encrypted.
    toasts.show(`This browser does not let the page copy. ${what}: ${text}`, true);
  }
}
