/** What the person does: a call, and a note that says how it went. */

import { session } from "../session.svelte.js";
import { words } from "./errors.js";
import { toasts } from "./toasts.svelte.js";

/** Makes a call and says how it went. Returns the reply; undefined if the call failed. */
export async function act<T>(call: () => Promise<T>, done: string | ((reply: T) => string)): Promise<T | undefined> {
  try {
    const reply = await call();
    const text = typeof done === "string" ? done : done(reply);
    if (text) toasts.show(text);
    return reply;
  } catch (error) {
    // Calls that fail because the person has signed out need no note.
    if (!session.hasEnded(error) && session.client) toasts.show(words(error), true);
    return undefined;
  }
}
