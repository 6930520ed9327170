/** The team on the page: what it consists of now, kept current by the coordinator. */

import { type Client, v1, type WatchedItem, type WatchedKey, watchTeam } from "@teamwire/client";
import { SvelteMap } from "svelte/reactivity";
import { words } from "./lib/errors.js";
import { millis } from "./lib/format.js";
import { type Caller, session } from "./session.svelte.js";

/** Whether what the page shows is current. */
export type Connection =
  /** Waits for the first snapshot. */
  | "connecting"
  /** What the page shows is current. */
  | "live"
  /** The coordinator does not answer. The page shows what was last known, and tries again. */
  | "lost";

/**
 * After how many milliseconds without a frame the coordinator counts as lost. It sends one every 5 s or more often, and a person
 * looks at the page.
 */
const SILENCE_MS = 12_000;

/** How many decided requests are kept. */
const DECIDED_MAX = 500;

class TeamState {
  connection = $state<Connection>("connecting");
  /** Since when the coordinator does not answer. */
  lostSince = $state.raw<Date>();
  /** How often the page has lost the coordinator since it shows this team. */
  losses = $state(0);
  /** Why the team can no longer be shown, for example because it was deleted. Empty: it can. */
  ended = $state("");
  team = $state.raw<v1.Team>();
  /** By name. Hosts are not among them. */
  readonly members = new SvelteMap<string, v1.Member>();
  readonly hosts = new SvelteMap<string, v1.Host>();
  /** The pending ones, by id. Without `content`. */
  readonly requests = new SvelteMap<string, v1.Request>();
  /** Those that were decided while the page was open, by id, in their final state. Without `content`. The latest 500. */
  readonly decided = new SvelteMap<string, v1.Request>();
  /** By id. Without `description` and `result`. */
  readonly tasks = new SvelteMap<bigint, v1.Task>();
  /** The last line of each member, by its name. */
  readonly activity = new SvelteMap<string, v1.ActivityLine>();
  #stop = new AbortController();

  /** The name of the team that is shown. Empty: none is. */
  name = $state("");

  /** Shows a team until another one is shown. */
  watch(client: Client, name: string): void {
    this.close();
    this.#stop = new AbortController();
    this.name = name;
    this.connection = "connecting";
    this.losses = 0;
    void this.#run(client, name, this.#stop.signal);
  }

  /** Returns the task that a member works on. */
  taskOf(name: string): v1.Task | undefined {
    for (const task of this.tasks.values()) {
      if (task.owner === name && task.status === v1.TaskStatus.IN_PROGRESS) return task;
    }
    return undefined;
  }

  /** Returns the pending requests that a caller may answer, the oldest first. */
  waitingFor(caller: Caller | undefined): v1.Request[] {
    if (!caller) return [];
    return [...this.requests.values()]
      .filter((request) => mayAnswer(caller, request))
      .sort((a, b) => millis(a.createdAt) - millis(b.createdAt) || a.id.localeCompare(b.id));
  }

  /** Stops watching, and shows no team. */
  close(): void {
    this.#stop.abort();
    this.name = "";
    this.ended = "";
    this.decided.clear();
    this.#clear();
  }

  /** Keeps the team current until it is no longer shown, or no longer exists. */
  async #run(client: Client, name: string, signal: AbortSignal): Promise<void> {
    try {
      for await (const event of watchTeam(client, { team: name, signal, silenceMs: SILENCE_MS })) {
        if (signal.aborted) return;
        switch (event.type) {
          case "changes":
            for (const item of event.items) this.#put(item);
            for (const key of event.removed) this.#remove(key);
            if (event.caughtUp) this.connection = "live";
            break;
          case "lost":
            this.lostSince = new Date();
            this.losses++;
            this.connection = "lost";
            break;
          case "back":
            this.connection = "connecting";
            break;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      this.ended = words(error);
      session.hasEnded(error);
    }
  }

  #put(item: WatchedItem): void {
    switch (item.case) {
      case "team":
        this.team = item.value;
        break;
      case "member":
        this.members.set(item.value.name, item.value);
        break;
      case "host":
        this.hosts.set(item.value.name, item.value);
        break;
      case "request":
        if (item.value.state === v1.RequestState.PENDING) this.requests.set(item.value.id, item.value);
        else this.#decide(item.value);
        break;
      case "task":
        this.tasks.set(item.value.id, item.value);
        break;
      case "activity":
        if (item.value.line) this.activity.set(item.value.member, item.value.line);
        break;
    }
  }

  #decide(request: v1.Request): void {
    this.requests.delete(request.id);
    this.decided.set(request.id, request);
    const [oldest] = this.decided.keys();
    if (oldest !== undefined && this.decided.size > DECIDED_MAX) this.decided.delete(oldest);
  }

  #remove(key: WatchedKey): void {
    switch (key.case) {
      case "member":
        this.members.delete(key.value);
        break;
      case "host":
        this.hosts.delete(key.value);
        break;
      case "requestId":
        this.requests.delete(key.value);
        break;
      case "taskId":
        this.tasks.delete(key.value);
        break;
      case "activityOf":
        this.activity.delete(key.value);
        break;
    }
  }

  #clear(): void {
    this.team = undefined;
    this.members.clear();
    this.hosts.clear();
    this.requests.clear();
    this.tasks.clear();
    this.activity.clear();
  }
}

/** Returns whether a caller may answer a request, as far as the request tells. */
export function mayAnswer(caller: Caller, request: v1.Request): boolean {
  if (caller.readOnly) return false;
  const leads = caller.isLead || caller.kind === "operator";
  switch (request.kind) {
    case v1.RequestKind.SHUTDOWN:
      return request.member === caller.member;
    case v1.RequestKind.PLAN_APPROVAL:
      return leads;
    case v1.RequestKind.PERMISSION:
    case v1.RequestKind.REVIEW:
      return request.member !== caller.member && (leads || request.approver === caller.member);
    default:
      return false;
  }
}

/** The one team on the page. */
export const team = new TeamState();
