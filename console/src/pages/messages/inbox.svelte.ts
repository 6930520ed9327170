/** What a member has not processed, kept current. */

import type { Client, v1 } from "@teamwire/client";
import { words } from "../../lib/errors.js";

/** How many messages are loaded at a time. */
const PAGE = 100;

export class Inbox {
  deliveries = $state.raw<readonly v1.Delivery[]>([]);
  total = $state(0n);
  isLoaded = $state(false);
  problem = $state("");
  #token = "";
  #isLoading = false;
  #isStale = false;
  readonly #stop = new AbortController();
  readonly #client: Client;
  readonly #team: string;
  readonly member: string;

  constructor(client: Client, team: string, member: string) {
    this.#client = client;
    this.#team = team;
    this.member = member;
  }

  /** Reads the inbox again, as far as it was loaded. Repeated calls during a read cause one more. */
  async refresh(): Promise<void> {
    this.#isStale = true;
    if (this.#isLoading) return;
    while (this.#isStale && !this.#stop.signal.aborted) {
      this.#isStale = false;
      await this.#load(Math.max(PAGE, this.deliveries.length), []);
    }
  }

  /** Loads more messages. */
  async more(): Promise<void> {
    if (this.#token && !this.#isLoading) await this.#load(this.deliveries.length + PAGE, this.deliveries);
  }

  /** Loads messages until there are this many. */
  async #load(wanted: number, loaded: readonly v1.Delivery[]): Promise<void> {
    this.#isLoading = true;
    const { signal } = this.#stop;
    const all = [...loaded];
    let pageToken = all.length > 0 ? this.#token : "";
    try {
      do {
        const request = { team: this.#team, member: this.member, pageSize: PAGE, pageToken };
        const page = await this.#client.messages.listInbox(request, { signal });
        all.push(...page.deliveries);
        pageToken = page.nextPageToken;
        this.total = page.total;
      } while (pageToken && all.length < wanted);
      this.#token = pageToken;
      this.deliveries = all;
      this.isLoaded = true;
      this.problem = "";
    } catch (error) {
      if (!signal.aborted) this.problem = words(error);
    } finally {
      this.#isLoading = false;
    }
  }

  close(): void {
    this.#stop.abort();
  }
}
