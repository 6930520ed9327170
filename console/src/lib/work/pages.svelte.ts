/** The diff of a member's work, read in pages from its runner: as far as the reader has come, and never more than a few MiB at a time. */

import { type Client, TeamwireError, v1 } from "@teamwire/client";
import { words } from "../errors.js";
import { session } from "../../session.svelte.js";
import { fileName, readRows, type Row, START, type State } from "./rows.js";

/** How many bytes of text are kept. What is far from the reader is dropped, and read again when the reader comes back. */
const KEPT_MAX = 4 * 1024 * 1024;

/** How many rows there are at most: browsers draw nothing that is much higher. */
const ROWS_MAX = 800_000;

/** How many rows before the last one the next page is read. */
const NEAR = 200;

/** What to read: see `ReadWorkRequest`. */
export interface Subject {
  readonly team: string;
  readonly member: string;
  /** Empty: what the member has now. */
  readonly commit: string;
  readonly against: string;
}

interface Page {
  readonly offset: number;
  readonly size: number;
  readonly first: number;
  readonly count: number;
  readonly before: State;
  readonly isLast: boolean;
  rows: readonly Row[] | undefined;
}

/** A file in the diff: its name, and its first row. */
interface FileAt {
  readonly name: string;
  readonly row: number;
}

export class DiffPages {
  /** How many rows are known. */
  count = $state(0);
  /** How many bytes were read, and how many there are. */
  bytes = $state(0);
  total = $state(0);
  isRead = $state(false);
  isLoading = $state(false);
  /** The whole diff has been read. */
  isComplete = $state(false);
  /** The page shows no more of it. */
  isFull = $state(false);
  /** The runner no longer has the state that was read, and the work is another one now. */
  isStale = $state(false);
  /** Why it cannot be read. Empty: it can. */
  problem = $state("");
  /** Grows when rows come or go. */
  changes = $state(0);
  /** The pages that come until a file, or the end, are being read. */
  isSeeking = $state(false);
  readonly #client: Client;
  readonly #subject: Subject;
  readonly #signal: AbortSignal;
  readonly #pages: Page[] = [];
  readonly #files: FileAt[] = [];
  #state = START;
  #version = "";
  #commit = "";
  #base = "";
  #window: readonly [first: number, last: number] = [0, 0];
  /** Reads on until it returns true. */
  #target: (() => boolean) | undefined;
  #wantsMore = true;
  #running: Promise<void> | undefined;

  constructor(client: Client, subject: Subject, signal: AbortSignal) {
    this.#client = client;
    this.#subject = subject;
    this.#signal = signal;
  }

  /** Returns a row. Undefined: it is being read. */
  row(index: number): Row | undefined {
    const page = this.#pages[this.#pageOf(index)];
    return page?.rows?.[index - page.first];
  }

  /** Returns the file that a row belongs to. */
  fileAt(row: number): string {
    return this.#files[last(this.#files, ({ row: first }) => first <= row)]?.name ?? "";
  }

  /** Notes which rows the reader looks at, and reads what is missing there. */
  look(first: number, end: number): void {
    this.#window = [first, end];
    if (end > this.count - NEAR) this.#wantsMore = true;
    void this.#work();
  }

  /** Reads the next page. */
  more(): void {
    this.#wantsMore = true;
    void this.#work();
  }

  /** Tries again after a problem. */
  retry(): void {
    this.problem = "";
    this.more();
  }

  /** Reads on until the n-th file. Returns its first row. Undefined: it has no such file, or was stopped. */
  async seek(file: number): Promise<number | undefined> {
    await this.#until(() => this.#files.length > file);
    return this.#files[file]?.row;
  }

  /** Reads on until the end. */
  async seekEnd(): Promise<void> {
    await this.#until(() => false);
  }

  stopSeeking(): void {
    this.#target = undefined;
    this.isSeeking = false;
  }

  async #until(isReached: () => boolean): Promise<void> {
    this.#target = isReached;
    this.isSeeking = true;
    while (this.#target === isReached && this.#mayGoOn() && !isReached()) await this.#work();
    if (this.#target !== isReached) return;
    this.#target = undefined;
    this.isSeeking = false;
  }

  #mayGoOn(): boolean {
    return !this.isComplete && !this.isFull && !this.#signal.aborted && !this.problem && !this.isStale;
  }

  #work(): Promise<void> {
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
    return this.#running;
  }

  /** Reads one page after the other while there is something to read. */
  async #run(): Promise<void> {
    if (this.problem || this.isStale) return;
    this.isLoading = true;
    try {
      while (!this.#signal.aborted && !this.isStale) {
        const missing = this.#missing();
        if (missing) await this.#again(missing);
        else if (this.#isWanted()) await this.#next();
        else break;
      }
    } catch (error) {
      if (!this.#signal.aborted && !session.hasEnded(error)) this.problem = words(error);
    } finally {
      this.isLoading = false;
    }
  }

  #isWanted(): boolean {
    if (this.isComplete || this.isFull) return false;
    if (this.#target && !this.#target()) return true;
    const wantsMore = this.#wantsMore;
    this.#wantsMore = false;
    return wantsMore;
  }

  #missing(): Page | undefined {
    const [first, end] = this.#window;
    for (let at = this.#pageOf(first); at < this.#pages.length; at++) {
      const page = this.#pages[at];
      if (!page || page.first >= end) return undefined;
      if (!page.rows) return page;
    }
    return undefined;
  }

  async #next(): Promise<void> {
    const offset = this.bytes;
    const reply = await this.#read(offset);
    if (!reply) return;
    if (offset === 0) {
      this.#version = reply.version;
      this.#commit = reply.commit;
      this.#base = reply.work?.base ?? "";
      this.total = Number(reply.totalBytes);
    }
    const { data } = reply;
    if (data.length === 0 && offset < this.total) throw new Error("The runner has sent an empty page.");
    const isLast = offset + data.length >= this.total;
    const { rows, after } = readRows(data, this.#state, isLast);
    const first = this.count;
    this.#pages.push({ offset, size: data.length, first, count: rows.length, before: this.#state, isLast, rows });
    rows.forEach((row, index) => {
      if (row.kind === "file" && !row.isRest) this.#files.push({ name: fileName(row), row: first + index });
    });
    this.#state = after;
    this.bytes = offset + data.length;
    this.count = first + rows.length;
    this.isComplete = isLast;
    this.isFull = !isLast && this.count >= ROWS_MAX;
    this.isRead = true;
    this.#dropFar();
    this.changes++;
  }

  /** Reads a page that was dropped. */
  async #again(page: Page): Promise<void> {
    const data = new Uint8Array(page.size);
    for (let filled = 0; filled < page.size;) {
      const reply = await this.#read(page.offset + filled);
      if (!reply) return;
      if (reply.data.length === 0) throw new Error("The runner has sent an empty page.");
      const part = reply.data.subarray(0, page.size - filled);
      data.set(part, filled);
      filled += part.length;
    }
    page.rows = readRows(data, page.before, page.isLast).rows;
    this.#dropFar();
    this.changes++;
  }

  async #read(offset: number): Promise<v1.ReadWorkResponse | undefined> {
    const ask = async (from: number, version: string) => {
      const request = { ...this.#subject, part: v1.WorkPart.DIFF, offset: BigInt(from), version };
      const reply = await this.#client.teams.readWork(request, { signal: this.#signal });
      this.#signal.throwIfAborted();
      return reply;
    };
    if (this.#pages.length === 0) return await ask(offset, "");
    try {
      return await ask(offset, this.#version);
    } catch (error) {
      if (!(error instanceof TeamwireError) || error.reason !== "RUNNER_SILENT") throw error;
      // The runner keeps what it has computed for a minute or two. The same commits make the same diff again.
      const fresh = await ask(0, "");
      const isSame = fresh.commit === this.#commit && (fresh.work?.base ?? "") === this.#base;
      if (!isSame || this.#commit === "" || Number(fresh.totalBytes) !== this.total) {
        this.isStale = true;
        return undefined;
      }
      this.#version = fresh.version;
      return await ask(offset, fresh.version);
    }
  }

  /** Drops the pages that are farthest from the reader, but not the last one. */
  #dropFar(): void {
    const [first, end] = this.#window;
    const distance = (page: Page) => Math.max(page.first - end, first - (page.first + page.count), 0);
    let kept = this.#pages.reduce((sum, { rows, size }) => sum + (rows ? size : 0), 0);
    if (kept <= KEPT_MAX) return;
    const far = this.#pages.slice(0, -1).filter((page) => page.rows && distance(page) > 0);
    far.sort((a, b) => distance(b) - distance(a));
    for (const page of far) {
      if (kept <= KEPT_MAX) return;
      page.rows = undefined;
      kept -= page.size;
    }
  }

  #pageOf(row: number): number {
    return Math.max(
      0,
      last(this.#pages, ({ first }) => first <= row),
    );
  }
}

/** Returns the last place where something is so, of a list in which it is so at the beginning only. -1: nowhere. */
function last<T>(all: readonly T[], isSo: (one: T) => boolean): number {
  let [low, high] = [-1, all.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    const one = all[middle];
    if (one !== undefined && isSo(one)) low = middle;
    else high = middle - 1;
  }
  return low;
}
