/** What the person searches for, which texts below a page mark. */

import { getContext, setContext } from "svelte";

const KEY = Symbol("searched");

/** Marks a text wherever it is found in the components below this one. */
export function markSearched(text: () => string): void {
  setContext(KEY, text);
}

/** Returns what to mark. */
export function searched(): () => string {
  return getContext<(() => string) | undefined>(KEY) ?? (() => "");
}
