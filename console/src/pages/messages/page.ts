/** What the rows of the page share. */

import type { v1 } from "@teamwire/client";
import { getContext, setContext } from "svelte";
import type { Readers } from "./readers.svelte.js";
import type { Story } from "./story.js";

export interface MessagesPage {
  readonly story: Story;
  readonly readers: Readers;
  /** What the person searches for. */
  readonly search: string;
  /** Shows a message where it is in the history. */
  goTo(messageId: string): void;
  /** Begins a reply. Undefined: the person may not write. */
  readonly reply: ((message: v1.Message) => void) | undefined;
}

const KEY = Symbol("messages");

export function setPage(page: MessagesPage): void {
  setContext(KEY, page);
}

export function getPage(): MessagesPage {
  return getContext(KEY);
}
