/** What changes after it was said, or was said before what is loaded: receipts, requests, and messages that are answered. */

import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Client, v1 } from "@teamwire/client";
import { SvelteMap } from "svelte/reactivity";
import type { MessageEntry } from "./entries.js";

/** How many calls run at a time. */
const CALLS_MAX = 4;

/** How old a message may be, in milliseconds, to change between being loaded and being shown. */
const RECENT_MS = 30_000;

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
      // After the end, work returns at once and leaves what is wanted: the loop would not end.
      while (!this.#stop.aborted && this.#running < CALLS_MAX && this.#wanted.size > this.#running) void this.#work();
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
  /** When a message was last read here, by its id, in milliseconds of `performance.now()`. */
  readonly #readAt = new Map<string, number>();
  /** What each recipient looked like last, and when that changed. Zero: it has not since it was first seen. */
  readonly #signs = new Map<string, { readonly signs: string; readonly at: number }>();
  readonly #openedAt = Date.now();
  readonly #stop = new AbortController();

  constructor(client: Client, team: string) {
    const { signal } = this.#stop;
    this.messages = new Reader(signal, (messageId, stop) => {
      this.#readAt.set(messageId, performance.now());
      return client.messages.getMessage({ team, messageId }, { signal: stop });
    });
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

  /** Notes what recipients look like. Reads those receipts again that may have changed with them. */
  note(recipients: readonly (readonly [name: string, signs: string])[]): void {
    for (const [name, signs] of recipients) {
      const before = this.#signs.get(name);
      if (before?.signs !== signs) this.#signs.set(name, { signs, at: before ? performance.now() : 0 });
    }
    for (const [id, entry] of this.#shown) if (this.#isStale(id, entry)) this.messages.want(id);
  }

  #isStale(id: string, entry: MessageEntry): boolean {
    const { sentAt } = entry.event.value;
    const isRecent = sentAt !== undefined && timestampMs(sentAt) > this.#openedAt - RECENT_MS;
    const since = this.#readAt.get(id) ?? (isRecent ? -1 : 0);
    return this.receipts(entry).some(
      (receipt) => !isFinal(receipt) && (this.#signs.get(receipt.recipient)?.at ?? 0) > since,
    );
  }

  close(): void {
    this.#stop.abort();
  }
}
