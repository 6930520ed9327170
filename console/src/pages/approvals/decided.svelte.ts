/** The requests that are no longer pending, loaded backwards page by page. */

import { v1 } from "@teamwire/client";
import { SvelteMap } from "svelte/reactivity";
import { words } from "../../lib/errors.js";
import { millis } from "../../lib/format.js";
import { session } from "../../session.svelte.js";
import { team } from "../../team.svelte.js";
import { read } from "./requests.js";

/** How many requests a page has. */
const PAGE = 50;

/** If more requests than this are decided at once, the newest page is read instead of each of them. */
const EACH_MAX = 20;

export class Decided {
  isComplete = $state(false);
  isLoading = $state(false);
  /** Why they cannot be read. Empty: they can. */
  problem = $state("");
  readonly #found = new SvelteMap<string, v1.Request>();
  #token = "";
  #pending = new Set<string>();
  readonly #team = team.name;

  /** The ones loaded, those that were decided last first. */
  readonly all = $derived.by(() => [...this.#found.values()].sort((a, b) => millis(b.decidedAt) - millis(a.decidedAt)));

  /** Loads the next older page that has one. */
  async older(): Promise<void> {
    if (this.isLoading || this.isComplete) return;
    this.isLoading = true;
    try {
      for (let found = 0; found === 0 && !this.isComplete;) {
        const page = await this.#list(this.#token);
        found = page.found;
        this.#token = page.next;
        this.isComplete = page.next === "";
      }
      this.problem = "";
    } catch (error) {
      this.problem = words(error);
    } finally {
      this.isLoading = false;
    }
  }

  /** Takes note of what is pending, and reads what is no longer. */
  see(pending: ReadonlySet<string>): void {
    const gone = [...this.#pending].filter((id) => !pending.has(id));
    this.#pending = new Set(pending);
    if (gone.length === 0 || team.name !== this.#team) return;
    // What cannot be read now can be found with the next page or visit.
    if (gone.length > EACH_MAX) void this.#list("").catch(() => undefined);
    else for (const id of gone) void read(id).then(this.#put, () => undefined);
  }

  async #list(pageToken: string): Promise<{ found: number; next: string }> {
    const page = await session.client?.requests.listRequests({ team: this.#team, pageSize: PAGE, pageToken });
    const before = this.#found.size;
    page?.requests.forEach(this.#put);
    return { found: this.#found.size - before, next: page?.nextPageToken ?? "" };
  }

  readonly #put = (request: v1.Request | undefined): void => {
    if (request && request.state !== v1.RequestState.PENDING) this.#found.set(request.id, request);
  };
}
