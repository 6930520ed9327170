/** The requests that concern one member: those that were made before the page was opened, and what happens to them. */

import { type Client, v1 } from "@teamwire/client";
import { words } from "../../lib/errors.js";
import { millis } from "../../lib/format.js";
import { session } from "../../session.svelte.js";
import { team } from "../../team.svelte.js";

export class Requests {
  problem = $state("");
  #listed = $state.raw<readonly v1.Request[]>([]);
  readonly #isWanted: (request: v1.Request) => boolean;

  constructor(isWanted: (request: v1.Request) => boolean) {
    this.#isWanted = isWanted;
  }

  /** Reads the latest ones. `member`: only those that concern it. */
  async read(client: Client, filter: { member?: string; kind?: v1.RequestKind }, signal: AbortSignal): Promise<void> {
    try {
      const { requests } = await client.requests.listRequests(
        { team: team.name, pageSize: 100, ...filter },
        { signal },
      );
      this.#listed = requests;
      this.problem = "";
    } catch (error) {
      if (!signal.aborted && !session.hasEnded(error)) this.problem = words(error);
    }
  }

  /** Returns them, the newest first. */
  get all(): v1.Request[] {
    const found = new Map(this.#listed.map((request) => [request.id, request]));
    for (const request of [...team.requests.values(), ...team.decided.values()]) {
      // The watched team leaves the content out.
      const content = found.get(request.id)?.content ?? request.content;
      found.set(request.id, { ...request, content });
    }
    return [...found.values()]
      .filter(this.#isWanted)
      .sort((a, b) => millis(b.createdAt) - millis(a.createdAt) || (a.id < b.id ? 1 : -1));
  }
}

/** Returns what a request asks for, in words. */
export function kindName(kind: v1.RequestKind): string {
  switch (kind) {
    case v1.RequestKind.SHUTDOWN:
      return "shutdown";
    case v1.RequestKind.PLAN_APPROVAL:
      return "plan";
    case v1.RequestKind.PERMISSION:
      return "permission";
    case v1.RequestKind.REVIEW:
      return "review";
    case v1.RequestKind.SPAWN:
      return "order";
    default:
      return "request";
  }
}

/** Returns the state of a request in words. */
export function requestState(state: v1.RequestState): string {
  return (v1.RequestState[state] ?? "unknown").toLowerCase();
}
