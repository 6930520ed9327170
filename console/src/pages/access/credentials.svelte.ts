/** The credentials that the person may see, kept current by the team's history. */

import { type Client, followHistory, v1 } from "@teamwire/client";
import { words } from "../../lib/errors.js";
import { session } from "../../session.svelte.js";

const PAGE = 1_000;

/** How many are loaded at most. */
const LOADED_MAX = 10_000;

/** The shortest time between two loads, in milliseconds: a team may change often. */
const PAUSE_MS = 1_000;

export class Credentials {
  all = $state.raw<readonly v1.Credential[]>([]);
  isLoaded = $state(false);
  /** Why they cannot be loaded, for the person. Empty: they can. */
  problem = $state("");
  readonly #client: Client;
  readonly #team: string;
  readonly #stop = new AbortController();
  #isLoading = false;
  #isStale = false;

  /** @param team Empty: the operator's own, which belong to no team. */
  constructor(client: Client, team: string) {
    this.#client = client;
    this.#team = team;
  }

  /** Loads them, and again whenever the history says that they may have changed. */
  async open(): Promise<void> {
    const { signal } = this.#stop;
    try {
      const newest = this.#team && { team: this.#team, newest: true, pageSize: 1 };
      const last = newest && (await this.#client.history.listHistory(newest, { signal })).lastSequence;
      await this.load();
      if (last === "") return;
      const options = { team: this.#team, afterSequence: last, signal };
      for await (const event of followHistory(this.#client, options)) {
        if (event.type === "entry" && ["team", "member"].includes(event.entry.event.case ?? "")) void this.load();
      }
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Loads them again. While they are being loaded, once more after that. */
  async load(): Promise<void> {
    this.#isStale = true;
    if (this.#isLoading) return;
    this.#isLoading = true;
    try {
      while (this.#isStale && !this.#stop.signal.aborted) {
        this.#isStale = false;
        this.all = await this.#list();
        this.isLoaded = true;
        this.problem = "";
        if (this.#isStale) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#isLoading = false;
    }
  }

  async #list(): Promise<v1.Credential[]> {
    const found: v1.Credential[] = [];
    for (let pageToken = ""; ;) {
      const request = { team: this.#team, pageSize: PAGE, pageToken };
      const page = await this.#client.access.listCredentials(request, { signal: this.#stop.signal });
      found.push(...page.credentials);
      pageToken = page.nextPageToken;
      if (pageToken === "" || found.length >= LOADED_MAX) return found;
    }
  }

  #failed(error: unknown): void {
    if (!this.#stop.signal.aborted && !session.hasEnded(error)) this.problem = words(error);
  }

  close(): void {
    this.#stop.abort();
  }
}
