/** What a member's agent was given, wrote and did, as its runner keeps it: the newest first, then older ones, and new ones live. */

import { type Client, TeamwireError, v1 } from "@teamwire/client";
import { words } from "../../lib/errors.js";
import { session } from "../../session.svelte.js";

/** How many entries one call reads. */
const PAGE = 100;

/** How many entries are kept while the page is open. Each has up to 16 KiB of text. */
export const KEPT_MAX = 1_000;

/** How long one call waits for the next entry, in seconds. */
const WAIT_S = 25n;

/** The sequence that asks for the newest entries. */
const NEWEST = 2n ** 64n - 1n;

/** When to ask again a runner that does not answer, in milliseconds. */
const SILENT_MS = 15_000;

/** The first and the longest delay after other failures, in milliseconds. */
const DELAY_MS = [1_000, 60_000] as const;

/** A wait that ends sooner has not waited, in milliseconds. */
const WAITED_MS_MIN = 500;

export class Transcript {
  /** The oldest first. Their sequences grow. */
  entries = $state.raw<readonly v1.TranscriptEntry[]>([]);
  /** The newest entries have been read. */
  isRead = $state(false);
  isLoading = $state(false);
  /** Why there are no more entries for now, for the person. Empty: there is no reason to tell. */
  problem = $state("");
  #oldest = $state(0n);
  readonly #client: Client;
  readonly #of: { readonly team: string; readonly member: string };

  constructor(client: Client, team: string, member: string) {
    this.#client = client;
    this.#of = { team, member };
  }

  /** No older entry is loaded: the page keeps no more. */
  get isFull(): boolean {
    return this.entries.length >= KEPT_MAX;
  }

  /** The runner has older entries than those loaded. */
  get hasOlder(): boolean {
    const [first] = this.entries;
    return first !== undefined && first.sequence > this.#oldest;
  }

  /** Follows the transcript until it is stopped, or cannot be read in this life. Continues after the last entry if called again. */
  async follow(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      const since = Date.now();
      try {
        const isNews = await this.#next(signal);
        this.problem = "";
        failures = 0;
        if (!isNews && Date.now() - since < WAITED_MS_MIN) await pause(DELAY_MS[0], signal);
      } catch (error) {
        if (signal.aborted || session.hasEnded(error)) return;
        const delay = this.#failed(error, failures++);
        if (delay === undefined) return;
        await pause(delay, signal);
      }
    }
  }

  /** Loads older entries, as many as the page keeps. */
  async older(signal: AbortSignal): Promise<void> {
    const [first] = this.entries;
    if (!first || this.isLoading || !this.hasOlder || this.isFull) return;
    this.isLoading = true;
    try {
      const pageSize = Math.min(PAGE, KEPT_MAX - this.entries.length);
      const page = await this.#read({ beforeSequence: first.sequence, pageSize }, signal);
      // Otherwise, the entries were replaced meanwhile.
      if (this.entries[0] !== first) return;
      const older = growing(page.entries, 0n).filter(({ sequence }) => sequence < first.sequence);
      // A runner that has none has deleted them.
      this.#oldest = older.length > 0 ? page.oldestSequence : first.sequence;
      this.entries = [...older, ...this.entries].slice(-KEPT_MAX);
    } catch (error) {
      if (!signal.aborted && !session.hasEnded(error)) this.#failed(error, 0);
    } finally {
      this.isLoading = false;
    }
  }

  /** Reads the newest page, or waits for what comes after it. Returns whether something came. */
  async #next(signal: AbortSignal): Promise<boolean> {
    const last = this.entries.at(-1)?.sequence ?? 0n;
    const isFirst = !this.isRead;
    const page = await this.#read(
      isFirst ? { beforeSequence: NEWEST } : { afterSequence: last, wait: { seconds: WAIT_S } },
      signal,
    );
    if (page.newestSequence < last) {
      // The member runs on another machine now, which counts from 1.
      this.entries = [];
      this.isRead = false;
      return true;
    }
    this.#oldest = page.oldestSequence;
    const found = growing(page.entries, last);
    if (found.length > 0) this.entries = [...this.entries, ...found].slice(-KEPT_MAX);
    this.isRead = true;
    return isFirst || found.length > 0;
  }

  async #read(what: Parameters<Client["teams"]["readTranscript"]>[0], signal: AbortSignal) {
    const page = await this.#client.teams.readTranscript({ pageSize: PAGE, ...what, ...this.#of }, { signal });
    signal.throwIfAborted();
    return page;
  }

  /** Says why a call failed. Returns after how many milliseconds to try again. Undefined: not in this life. */
  #failed(error: unknown, failures: number): number | undefined {
    const reason = error instanceof TeamwireError ? error.reason : undefined;
    switch (reason) {
      case "RUNNER_SILENT":
        this.problem = `${words(error)} The page asks again every 15 s.`;
        return SILENT_MS;
      case "AGENT_EXITED":
        this.problem = `${this.#of.member} does not run. On the machine where it ran, \`teamwire transcript ${this.#of.member}\` shows what it did.`;
        return undefined;
      case "LEAD_ONLY":
      case "NOT_PERMITTED":
        this.problem = "Only the lead, the operator and the member itself may read a transcript.";
        return undefined;
      default:
        this.problem = words(error);
        return Math.min(DELAY_MS[0] * 2 ** failures, DELAY_MS[1]);
    }
  }
}

/** Returns the entries whose sequences grow from one to the next, as those of an honest runner do. */
function growing(entries: readonly v1.TranscriptEntry[], after: bigint): v1.TranscriptEntry[] {
  let last = after;
  return entries.filter(({ sequence }) => {
    if (sequence <= last) return false;
    last = sequence;
    return true;
  });
}

/** Waits, or returns when it is stopped. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/** A line of the transcript on the page. */
export type Row = { readonly key: string } & (
  | { readonly turn: bigint; readonly incarnation: bigint }
  | {
      readonly entry: v1.TranscriptEntry;
      /** Of a tool call. Undefined: there is none. */
      readonly result?: v1.TranscriptEntry | undefined;
      /** A tool call that has no result yet. */
      readonly isRunning?: boolean;
    }
);

/** Puts each result to its tool call, and marks where another turn begins. */
export function rows(entries: readonly v1.TranscriptEntry[]): Row[] {
  const results = new Map<v1.TranscriptEntry, v1.TranscriptEntry>();
  /** The calls of the current turn without a result, by their id. */
  const open = new Map<string, v1.TranscriptEntry>();
  const joined = new Set<v1.TranscriptEntry>();
  let before: v1.TranscriptEntry | undefined;
  for (const entry of entries) {
    if (before && !isSameTurn(before, entry)) open.clear();
    before = entry;
    const call = open.get(entry.callId);
    if (entry.kind === v1.TranscriptKind.TOOL_CALL) open.set(entry.callId, entry);
    else if (entry.kind === v1.TranscriptKind.TURN_ENDED) open.clear();
    else if (entry.kind === v1.TranscriptKind.TOOL_RESULT && call) {
      results.set(call, entry);
      joined.add(entry);
      open.delete(entry.callId);
    }
  }
  const running = new Set(open.values());
  const all: Row[] = [];
  before = undefined;
  for (const entry of entries) {
    const { sequence, turn, incarnation } = entry;
    if (!before || !isSameTurn(before, entry)) all.push({ key: `turn ${sequence}`, turn, incarnation });
    before = entry;
    if (joined.has(entry)) continue;
    all.push({ key: `${sequence}`, entry, result: results.get(entry), isRunning: running.has(entry) });
  }
  return all;
}

function isSameTurn(a: v1.TranscriptEntry, b: v1.TranscriptEntry): boolean {
  return a.turn === b.turn && a.incarnation === b.incarnation;
}
