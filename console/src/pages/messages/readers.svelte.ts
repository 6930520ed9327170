/** What changes after it was said, or was said before what is loaded: receipts, requests, and messages that are answered. */

import { type Client, v1 } from "@teamwire/client";
import { SvelteMap } from "svelte/reactivity";
import type { MessageEntry } from "./entries.js";

/** How many calls run at a time. */
const CALLS_MAX = 4;

/** How long wishes are gathered before they are read, in milliseconds. */
const GATHER_MS = 200;

const FINAL: ReadonlySet<v1.ReceiptState> = new Set([v1.ReceiptState.PROCESSED, v1.ReceiptState.DEAD_LETTERED]);

export function isFinal(receipt: v1.Receipt): boolean {
  return FINAL.has(receipt.state);
}

/** Reads things by their ids: each once at a time, and few at a time. */
export class Reader<T> {
  /** The latest state of what was read. Null: the coordinator does not have it, or does not show it. */
  readonly latest = new SvelteMap<string, T | null>();
  readonly #read: (id: string, signal: AbortSignal) => Promise<T>;
  readonly #stop: AbortSignal;
  readonly #wanted = new Set<string>();
  #running = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(stop: AbortSignal, read: (id: string, signal: AbortSignal) => Promise<T>) {
    this.#stop = stop;
    this.#read = read;
  }

  /** Reads something soon, again if it was read before. */
  want(id: string): void {
    this.#wanted.add(id);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      while (this.#running < CALLS_MAX && this.#wanted.size > this.#running) void this.#work();
    }, GATHER_MS);
  }

  /** Reads something unless it was read before. */
  need(id: string): void {
    if (!this.latest.has(id)) this.want(id);
  }

  async #work(): Promise<void> {
    this.#running++;
    for (const id of this.#wanted) {
      if (this.#stop.aborted) break;
      this.#wanted.delete(id);
      try {
        this.latest.set(id, await this.#read(id, this.#stop));
      } catch {
        // What was read before is still the best that is known.
        if (!this.#stop.aborted && !this.latest.has(id)) this.latest.set(id, null);
      }
    }
    this.#running--;
  }
}

/** Reads what the rows of a page need besides the history. */
export class Readers {
  readonly messages: Reader<v1.GetMessageResponse>;
  readonly requests: Reader<v1.Request | undefined>;
  readonly #shown = new Map<string, MessageEntry>();
  readonly #stop = new AbortController();

  constructor(client: Client, team: string) {
    const { signal } = this.#stop;
    this.messages = new Reader(signal, (messageId, stop) =>
      client.messages.getMessage({ team, messageId }, { signal: stop }),
    );
    this.requests = new Reader(
      signal,
      async (requestId, stop) => (await client.requests.getRequest({ team, requestId }, { signal: stop })).request,
    );
  }

  /** Returns the receipts of a message, as far as they are known. */
  receipts(entry: MessageEntry): readonly v1.Receipt[] {
    return this.messages.latest.get(entry.event.value.id)?.receipts ?? entry.receipts;
  }

  /** Keeps the receipts of a message current while it is on the page. Returns what ends that. */
  show(entry: MessageEntry): () => void {
    const { id } = entry.event.value;
    this.#shown.set(id, entry);
    return () => this.#shown.delete(id);
  }

  /** Reads the receipts again that may have changed, because something about their recipients has. */
  changed(recipients: ReadonlySet<string>): void {
    for (const [id, entry] of this.#shown) {
      if (this.receipts(entry).some((receipt) => !isFinal(receipt) && recipients.has(receipt.recipient)))
        this.messages.want(id);
    }
  }

  close(): void {
    this.#stop.abort();
  }
}
