/** Watches a team: what it consists of, and what changes. */

import type { CallOptions } from "@connectrpc/connect";
import type { Client } from "./client.js";
import { type Back, type FollowOptions, follow, type Lost } from "./follow.js";
import type { Host } from "./gen/teamwire/v1/host_pb.js";
import { type Request, RequestState } from "./gen/teamwire/v1/request_pb.js";
import type { Task } from "./gen/teamwire/v1/task_pb.js";
import type { Member, Team } from "./gen/teamwire/v1/team_pb.js";
import type { MemberActivity, TeamItem, TeamItemKey, WatchTeamResponse } from "./gen/teamwire/v1/watch_pb.js";

/** A part of a team, by its `case`: `team`, `member`, `host`, `request`, `task`, or `activity`. */
export type WatchedItem = Exclude<TeamItem["item"], { case: undefined }>;

/** The key of a part, by its `case`: `member`, `host`, `requestId`, `taskId`, or `activityOf`. */
export type WatchedKey = Exclude<TeamItemKey["key"], { case: undefined }>;

/** What has changed in a team. The maps of the TeamWatch have the changes already. */
export interface TeamChanges {
  readonly type: "changes";
  /**
   * Whether a snapshot begins here. All items come again then, changed or not. Those that were there before, and are not in
   * the snapshot, are in `removed` once it is complete, and stay in the maps until then.
   */
  readonly reset: boolean;
  /** The new and the changed items. A request that is no longer pending is gone with this. */
  readonly items: readonly WatchedItem[];
  /** The keys of items that are gone. */
  readonly removed: readonly WatchedKey[];
  /** Whether the maps now have the current state of everything. */
  readonly caughtUp: boolean;
}

export type TeamEvent = TeamChanges | Lost | Back;

/**
 * Watches a team: everything that it consists of, and then every change. Sends nothing before it is iterated. Reconnects by
 * itself for as long as it takes, and then gets what has changed meanwhile. The iteration throws a TeamwireError if the team
 * is deleted (`TEAM_NOT_FOUND`) or the credential is not valid, or no longer.
 */
export function watchTeam(client: Client, options: FollowOptions = {}): TeamWatch {
  return new TeamWatch(client, options);
}

/** A team as it changes. The maps change while a loop over this object runs; run one loop at a time. */
export class TeamWatch implements AsyncIterable<TeamEvent> {
  readonly #client: Client;
  readonly #options: FollowOptions;
  readonly #members = new Map<string, Member>();
  readonly #hosts = new Map<string, Host>();
  readonly #requests = new Map<string, Request>();
  readonly #tasks = new Map<bigint, Task>();
  readonly #activity = new Map<string, MemberActivity>();
  readonly #maps: Readonly<Record<WatchedKey["case"], Map<unknown, unknown>>> = {
    member: this.#members,
    host: this.#hosts,
    requestId: this.#requests,
    taskId: this.#tasks,
    activityOf: this.#activity,
  };
  /** The items from before a snapshot that is not complete, by the text of their keys. */
  #stale = new Map<string, WatchedKey>();
  #team: Team | undefined;
  #isCurrent = false;
  #resumeToken = "";

  /** See `watchTeam`. */
  constructor(client: Client, options: FollowOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** The team. Undefined before the first snapshot. */
  get team(): Team | undefined {
    return this.#team;
  }

  /** The members by name. */
  get members(): ReadonlyMap<string, Member> {
    return this.#members;
  }

  /** The hosts by name. */
  get hosts(): ReadonlyMap<string, Host> {
    return this.#hosts;
  }

  /** The pending requests by id, without their `content`. A teammate gets those that concern it. */
  get requests(): ReadonlyMap<string, Request> {
    return this.#requests;
  }

  /** The tasks by id, without `description` and `result`. */
  get tasks(): ReadonlyMap<bigint, Task> {
    return this.#tasks;
  }

  /** The last activity line of each member, by the member's name. */
  get activity(): ReadonlyMap<string, MemberActivity> {
    return this.#activity;
  }

  /** Whether the maps had the current state of everything with the last frame, and the connection is not lost. */
  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TeamEvent, void, undefined> {
    const { team = "" } = this.#options;
    const open = (options: CallOptions) =>
      this.#client.watches.watchTeam({ team, resumeToken: this.#resumeToken }, options);
    for await (const event of follow(this.#client, open, this.#options)) {
      if (event.type === "lost") this.#isCurrent = false;
      if (event.type !== "frame") {
        yield event;
        continue;
      }
      const wasCurrent = this.#isCurrent;
      const changes = this.#apply(event.frame);
      const { reset, items, removed } = changes;
      if (reset || items.length + removed.length > 0 || this.#isCurrent !== wasCurrent) yield changes;
    }
  }

  #apply({ reset, items, removed, caughtUp, resumeToken }: WatchTeamResponse): TeamChanges {
    if (reset) this.#stale = this.#keys();
    const changed = items.map(({ item }) => item).filter((item) => item.case !== undefined);
    for (const item of changed) this.#put(item);
    const named = removed.map(({ key }) => key).filter((key) => key.case !== undefined);
    const gone = named.filter((key) => this.#remove(key));
    if (caughtUp) {
      for (const key of this.#stale.values()) if (this.#remove(key)) gone.push(key);
      this.#stale.clear();
    }
    this.#isCurrent = caughtUp;
    this.#resumeToken = resumeToken;
    return { type: "changes", reset, items: changed, removed: gone, caughtUp };
  }

  #put(item: WatchedItem): void {
    if (item.case === "team") {
      this.#team = item.value;
      return;
    }
    const key = keyOf(item);
    this.#stale.delete(textOf(key));
    const isOver = item.case === "request" && item.value.state !== RequestState.PENDING;
    if (isOver) this.#remove(key);
    else this.#maps[key.case].set(key.value, item.value);
  }

  /** Removes an item. Returns whether it was there. */
  #remove(key: WatchedKey): boolean {
    return this.#maps[key.case].delete(key.value);
  }

  #keys(): Map<string, WatchedKey> {
    const kinds = Object.entries(this.#maps);
    const keys = kinds.flatMap(([kind, map]) => [...map.keys()].map((value) => ({ case: kind, value }) as WatchedKey));
    return new Map(keys.map((key) => [textOf(key), key]));
  }
}

function keyOf(item: Exclude<WatchedItem, { case: "team" }>): WatchedKey {
  switch (item.case) {
    case "member":
      return { case: "member", value: item.value.name };
    case "host":
      return { case: "host", value: item.value.name };
    case "request":
      return { case: "requestId", value: item.value.id };
    case "task":
      return { case: "taskId", value: item.value.id };
    case "activity":
      return { case: "activityOf", value: item.value.member };
  }
}

function textOf(key: WatchedKey): string {
  return `${key.case} ${key.value}`;
}
