/** A stretch of the team's history: loaded backwards page by page, and followed at its end. */

import { create } from "@bufbuild/protobuf";
import { type Client, TeamwireError, v1 } from "@teamwire/client";
import { words } from "./lib/errors.js";

/** How many entries a page has. */
const PAGE = 200;

/** How many entries are kept while new ones arrive. Older ones are loaded again when they are scrolled to. */
const KEPT_MAX = 20_000;

export interface Filter {
  /** Only what this member sent, received, answered or is the subject of. Empty: everything. */
  readonly member?: string;
  readonly messagesOnly?: boolean;
  /** Only entries in which this was said. Empty: all. */
  readonly text?: string;
}

export class History {
  /** The oldest first, without gaps except for what the filter leaves out. */
  entries = $state.raw<readonly v1.HistoryEntry[]>([]);
  /** Everything older is loaded. */
  isComplete = $state(false);
  isLoading = $state(false);
  /** Why the history cannot be read, for the person. Empty: it can. */
  problem = $state("");
  readonly #client: Client;
  readonly #team: string;
  readonly #filter: v1.HistoryFilter;
  #token = "";
  #isOpen = false;
  #last = 0n;
  #stop = new AbortController();

  constructor(client: Client, team: string, filter: Filter = {}) {
    this.#client = client;
    this.#team = team;
    const { member = "", messagesOnly = false, text = "" } = filter;
    this.#filter = create(v1.HistoryFilterSchema, { member, messagesOnly, text, includeReceipts: true });
  }

  /** Loads the newest page, and follows what comes after it. */
  async open(): Promise<void> {
    await this.older();
    void this.#follow(this.#stop.signal);
  }

  /** Loads the next older page that is not empty. */
  async older(): Promise<void> {
    if (this.isLoading || this.isComplete || this.#stop.signal.aborted) return;
    this.isLoading = true;
    try {
      // A page may be empty: the coordinator looks through a bounded part of the history for each.
      for (let found = 0; found === 0 && !this.isComplete && !this.#stop.signal.aborted;) found = await this.#page();
      this.problem = "";
    } catch (error) {
      if (!this.#stop.signal.aborted) this.problem = words(error);
    } finally {
      this.isLoading = false;
    }
  }

  async #page(): Promise<number> {
    const request = { team: this.#team, filter: this.#filter, newest: true, pageSize: PAGE, pageToken: this.#token };
    const page = await this.#client.history.listHistory(request, { signal: this.#stop.signal });
    if (!this.#isOpen) this.#last = page.lastSequence;
    this.#isOpen = true;
    this.#token = page.nextPageToken;
    this.isComplete = page.nextPageToken === "";
    this.entries = [...page.entries, ...this.entries];
    return page.entries.length;
  }

  /** Appends what happens from now on, over one stream after the other. */
  async #follow(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const arrived: v1.HistoryEntry[] = [];
      const flush = () => {
        if (arrived.length === 0 || stop.aborted) return;
        const all = [...this.entries, ...arrived.splice(0)];
        const excess = all.length - KEPT_MAX;
        // Only the newest are kept; the rest can be read again with another page.
        this.entries = excess > KEPT_MAX / 10 ? all.slice(excess) : all;
      };
      try {
        const request = { team: this.#team, filter: this.#filter, afterSequence: this.#last };
        for await (const { entry } of this.#client.history.followHistory(request, { signal: stop })) {
          if (!entry) continue;
          if (arrived.push(entry) === 1) requestAnimationFrame(flush);
          this.#last = entry.sequence;
        }
      } catch (error) {
        if (stop.aborted) return;
        if (
          error instanceof TeamwireError &&
          error.reason !== undefined &&
          !error.isRetryable &&
          error.reason !== "DRAINING"
        ) {
          this.problem = words(error);
          return;
        }
      } finally {
        flush();
      }
      await new Promise((resolve) => setTimeout(resolve, 200 + Math.random() * 800));
    }
  }

  /** Replaces an entry that has changed, such as a message whose receipts have. */
  replace(entry: v1.HistoryEntry): void {
    const at = this.entries.findIndex(({ sequence }) => sequence === entry.sequence);
    if (at >= 0) this.entries = this.entries.with(at, entry);
  }

  close(): void {
    this.#stop.abort();
  }
}
