/** A stretch of the team's history: loaded page by page from where it was opened, and followed at its end. */

import { create } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { type Client, TeamwireError, v1 } from "@teamwire/client";
import { words } from "./lib/errors.js";

/** How many entries a page should have, about. */
const PAGE = 200;

/** How many entries the coordinator returns in one reply at most. */
const REPLY_MAX = 1_000;

/** How many entries one step backwards covers at most: what the coordinator looks through for one reply. */
const STEP_MAX = 10_000;

/** How many entries are looked through without finding one, before the person is asked whether to go on. */
const LOOKED_MAX = 50_000;

/** How many entries are kept while new ones arrive. Older ones are loaded again when they are scrolled to. */
const KEPT_MAX = 20_000;

export interface Filter {
  /** Only what this member sent, received, answered or is the subject of. Empty: everything. */
  readonly member?: string;
  readonly messagesOnly?: boolean;
  /** Only entries in which this was said. Empty: all. */
  readonly text?: string;
  /** Which of these entries the page shows. It is asked how far to load, and leaves nothing out. */
  readonly shows?: (entry: v1.HistoryEntry) => boolean;
}

export class History {
  /** The oldest first, without gaps except for what the filter leaves out. */
  entries = $state.raw<readonly v1.HistoryEntry[]>([]);
  /** Everything newer is loaded, and what happens is appended. */
  isLive = $state(false);
  isLoading = $state(false);
  /** When the oldest entry was made that was looked at. Set if the last step backwards found nothing, and there is more. */
  searchedTo = $state.raw<Timestamp>();
  /** Why the history cannot be read, for the person. Empty: it can. */
  problem = $state("");
  /** Set while the reader is elsewhere than at the end: no entry is dropped. */
  isPinned = false;
  /** Every entry above this sequence and up to `#last` is loaded or left out by the filter. */
  #before = $state(0n);
  #last = 0n;
  #step: bigint;
  readonly #client: Client;
  readonly #team: string;
  readonly #filter: v1.HistoryFilter;
  readonly #shows: (entry: v1.HistoryEntry) => boolean;
  #stop = new AbortController();
  #stream = new AbortController();

  constructor(client: Client, team: string, filter: Filter = {}) {
    this.#client = client;
    this.#team = team;
    const { member = "", messagesOnly = false, text = "", shows = () => true } = filter;
    this.#filter = create(v1.HistoryFilterSchema, { member, messagesOnly, text, includeReceipts: true });
    this.#shows = shows;
    this.#step = BigInt(text ? 10 * PAGE : PAGE);
  }

  /** Everything older is loaded. */
  get isComplete(): boolean {
    return this.#before === 0n;
  }

  /** Loads what is around a sequence, or the newest page, and follows the history once its end is reached. */
  async open(at?: bigint): Promise<void> {
    this.close();
    const { signal } = (this.#stop = new AbortController());
    this.entries = [];
    this.isLive = false;
    this.isLoading = true;
    this.searchedTo = undefined;
    await this.#guarded(signal, async () => {
      const all = { team: this.#team, newest: true, pageSize: 1 };
      const end = (await this.#client.history.listHistory(all, { signal })).lastSequence;
      this.#before = this.#last = at === undefined || at > end ? end : at > 0n ? at - 1n : 0n;
      this.isLive = this.#last === end;
    });
    if (this.isLive) void this.#follow(signal);
    else if (!this.problem) await this.newer();
    if (!signal.aborted && !this.problem) await this.older();
  }

  /** Returns whether an entry with this sequence is among what is loaded, unless the filter leaves it out. */
  covers(sequence: bigint): boolean {
    return sequence > this.#before && (this.isLive || sequence <= this.#last);
  }

  /** Loads older entries, until there is one to show or very many were looked through. */
  async older(): Promise<void> {
    if (this.isLoading || this.isComplete) return;
    this.isLoading = true;
    this.searchedTo = undefined;
    const { signal } = this.#stop;
    await this.#guarded(signal, async () => {
      let found = 0;
      const start = this.#before;
      while (found === 0 && !this.isComplete && start - this.#before < LOOKED_MAX) found = await this.#back(signal);
      if (found === 0 && !this.isComplete) this.searchedTo = await this.#timeAfter(this.#before, signal);
    });
  }

  /** Loads the next newer page, and follows the history if that is its end. */
  async newer(): Promise<void> {
    if (this.isLoading || this.isLive) return;
    this.isLoading = true;
    const { signal } = this.#stop;
    await this.#guarded(signal, async () => {
      for (let found = 0; found === 0 && !this.isLive;) {
        const page = await this.#list(this.#last, PAGE, "", signal);
        found = page.entries.filter(this.#shows).length;
        this.#last = page.lastSequence;
        this.entries = [...this.entries, ...page.entries];
        this.isLive = page.nextPageToken === "";
      }
    });
    if (this.isLive && !signal.aborted) void this.#follow(signal);
  }

  /** Opens the stream of new entries again, because the connection may be broken without the stream showing it. */
  renew(): void {
    this.#stream.abort();
  }

  close(): void {
    this.#stop.abort();
    this.#stream.abort();
  }

  /** Ends a load in the same moment in which its last entries appear: a list asks for more when either changes. */
  async #guarded(signal: AbortSignal, load: () => Promise<void>): Promise<void> {
    try {
      await load();
      if (!signal.aborted) this.problem = "";
    } catch (error) {
      if (!signal.aborted) this.problem = words(error);
    } finally {
      if (!signal.aborted) this.isLoading = false;
    }
  }

  /** Goes one step back. Returns how many of its entries are shown. */
  async #back(signal: AbortSignal): Promise<number> {
    const high = this.#before;
    const low = high > this.#step ? high - this.#step : 0n;
    const size = Math.min(Number(this.#step), REPLY_MAX);
    const entries: v1.HistoryEntry[] = [];
    for (let token = "", isFirst = true; isFirst || token; isFirst = false) {
      const page = await this.#list(low, size, token, signal);
      entries.push(...page.entries.filter(({ sequence }) => sequence <= high));
      token = page.lastSequence >= high ? "" : page.nextPageToken;
    }
    this.entries = [...entries, ...this.entries];
    this.#before = low;
    const shown = entries.filter(this.#shows).length;
    // The next step should find about a page.
    if (shown < PAGE / 4)
      this.#step = min(4n * this.#step, this.#filter.text || this.#filter.member ? STEP_MAX : REPLY_MAX);
    else if (shown > 2 * PAGE) this.#step = BigInt(PAGE);
    return shown;
  }

  async #list(after: bigint, pageSize: number, pageToken: string, signal: AbortSignal) {
    const request = { team: this.#team, filter: this.#filter, afterSequence: after, pageSize, pageToken };
    const page = await this.#client.history.listHistory(request, { signal });
    signal.throwIfAborted();
    return page;
  }

  /** Returns when the first entry after a sequence was made, whatever the filter says. */
  async #timeAfter(sequence: bigint, signal: AbortSignal): Promise<Timestamp | undefined> {
    const request = { team: this.#team, afterSequence: sequence, pageSize: 1 };
    return (await this.#client.history.listHistory(request, { signal })).entries[0]?.at;
  }

  /** Appends what happens from now on, over one stream after the other, while the page is visible. */
  async #follow(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      await untilVisible(stop);
      this.#stream = new AbortController();
      const { signal } = this.#stream;
      const hide = () => document.hidden && this.#stream.abort();
      document.addEventListener("visibilitychange", hide);
      try {
        await this.#append(AbortSignal.any([stop, signal]), stop);
      } catch (error) {
        if (stop.aborted) return;
        // The store is older than what is shown.
        if (error instanceof TeamwireError && error.reason === "CURSOR_AHEAD") return this.open();
        if (!signal.aborted && isFinal(error)) {
          this.problem = words(error);
          return;
        }
      } finally {
        document.removeEventListener("visibilitychange", hide);
      }
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, 200 + Math.random() * 800));
    }
  }

  async #append(signal: AbortSignal, stop: AbortSignal): Promise<void> {
    let arrived: v1.HistoryEntry[] = [];
    const flush = () => {
      if (arrived.length === 0 || stop.aborted) return;
      const all = [...this.entries, ...arrived];
      arrived = [];
      const excess = all.length - KEPT_MAX;
      if (excess > KEPT_MAX / 10 && !this.isPinned && !this.isLoading) {
        all.splice(0, excess);
        this.#before = (all[0]?.sequence ?? 1n) - 1n;
      }
      this.entries = all;
    };
    try {
      const request = { team: this.#team, filter: this.#filter, afterSequence: this.#last };
      for await (const { entry } of this.#client.history.followHistory(request, { signal })) {
        if (!entry) continue;
        if (arrived.push(entry) === 1) requestAnimationFrame(flush);
        this.#last = entry.sequence;
      }
    } finally {
      flush();
    }
  }
}

/** Returns the sequence of the first entry that was made at this time or later; if there is none, of the last entry. */
export async function sequenceAt(client: Client, team: string, time: Date): Promise<bigint> {
  let { lastSequence: high } = await client.history.listHistory({ team, newest: true, pageSize: 1 });
  let low = 1n;
  while (low < high) {
    const middle = (low + high) / 2n;
    // The caller may not see the entry in the middle, but then it sees the next one.
    const { entries } = await client.history.listHistory({ team, afterSequence: middle - 1n, pageSize: 1 });
    const [entry] = entries;
    if (!entry?.at || timestampDate(entry.at) >= time) high = middle;
    else low = entry.sequence + 1n;
  }
  return low;
}

function min(a: bigint, b: number): bigint {
  return a < b ? a : BigInt(b);
}

async function untilVisible(stop: AbortSignal): Promise<void> {
  while (document.hidden && !stop.aborted) {
    await new Promise((resolve) => {
      const options = { once: true, signal: stop };
      document.addEventListener("visibilitychange", resolve, options);
      stop.addEventListener("abort", resolve, { once: true });
    });
  }
}

/** Returns whether a stream that failed so will never work again. */
function isFinal(error: unknown): boolean {
  return (
    error instanceof TeamwireError && error.reason !== undefined && !error.isRetryable && error.reason !== "DRAINING"
  );
}
