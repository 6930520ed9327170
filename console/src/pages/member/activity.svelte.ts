/** What a member's program does, followed as it happens. */

import { type Client, v1 } from "@teamwire/client";
import { words } from "../../lib/errors.js";
import { session } from "../../session.svelte.js";

/** How long one call waits for the next line, in seconds. */
const WAIT_S = 50n;

/** How many lines are kept while the page is open. */
const KEPT_MAX = 5_000;

export class Activity {
  /** The oldest first. */
  lines = $state.raw<readonly v1.ActivityLine[]>([]);
  /** The lines that the coordinator has kept have been read. */
  isRead = $state(false);
  /** Why the lines cannot be read, for the person. Empty: they can. */
  problem = $state("");
  readonly #client: Client;
  readonly #of: { readonly team: string; readonly member: string };

  constructor(client: Client, team: string, member: string) {
    this.#client = client;
    this.#of = { team, member };
  }

  /** Follows the activity until it is stopped. Continues after the last line if called again. */
  async follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const afterSequence = this.lines.at(-1)?.sequence ?? 0n;
        const wait = this.isRead ? { wait: { seconds: WAIT_S } } : {};
        const request = { ...this.#of, afterSequence, pageSize: 1_000, ...wait };
        const { lines } = await this.#client.teams.listActivity(request, { signal });
        if (signal.aborted) return;
        if (lines.length > 0) this.lines = [...this.lines, ...lines].slice(-KEPT_MAX);
        if (lines.length === 0) this.isRead = true;
        this.problem = "";
      } catch (error) {
        if (signal.aborted || session.hasEnded(error)) return;
        this.problem = words(error);
        return;
      }
    }
  }
}
