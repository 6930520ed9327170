/** What the team page lists: members, hosts, and orders that have failed. */

import { v1 } from "@teamwire/client";
import { stateName } from "../../lib/format.js";
import { hostNeed, memberNeed, type Need, orderNeed } from "./attention.js";

export type Entry = { readonly key: string; readonly name: string; readonly need: Need | undefined } & (
  | { readonly kind: "member"; readonly member: v1.Member; readonly task: v1.Task | undefined }
  | { readonly kind: "host"; readonly host: v1.Host }
  | { readonly kind: "order"; readonly order: v1.Request }
);

export interface Parts {
  readonly members: Iterable<v1.Member>;
  readonly hosts: Iterable<v1.Host>;
  readonly tasks: Iterable<v1.Task>;
  readonly orders: readonly v1.Request[];
  /** Those that are pending, by their ids. */
  readonly requests: ReadonlyMap<string, v1.Request>;
}

/** Returns everything to list: what needs attention first, then members that work, at last what has ended. */
export function entries({ members, hosts, tasks, orders, requests }: Parts): Entry[] {
  const works = new Map<string, v1.Task>();
  for (const task of tasks) if (task.status === v1.TaskStatus.IN_PROGRESS) works.set(task.owner, task);
  const running = new Map<string, number>();
  const unstarted = new Set(orders.map((order) => order.member));
  const all: Entry[] = [];
  for (const member of members) {
    const { name, spawnedOn } = member;
    // The order says more about it than its exit.
    if (member.state === v1.MemberState.EXITED && unstarted.has(name)) continue;
    const need = memberNeed(member, requests);
    all.push({ kind: "member", key: `member ${name}`, name, member, need, task: works.get(name) });
    if (spawnedOn && !hasEnded(member.state)) running.set(spawnedOn, (running.get(spawnedOn) ?? 0) + 1);
  }
  for (const host of hosts) {
    const { name } = host;
    all.push({ kind: "host", key: `host ${name}`, name, host, need: hostNeed(host, running.get(name) ?? 0) });
  }
  for (const order of orders) {
    all.push({ kind: "order", key: `order ${order.id}`, name: order.member, order, need: orderNeed(order) });
  }
  const names = new Intl.Collator("en", { numeric: true });
  return all.sort(
    (a, b) => (b.need?.rank ?? 0) - (a.need?.rank ?? 0) || place(a) - place(b) || names.compare(a.name, b.name),
  );
}

/** Returns whether a member in a state is known to run no more. */
export function hasEnded(state: v1.MemberState): boolean {
  return state === v1.MemberState.EXITED || state === v1.MemberState.SPAWNING;
}

/** Where each state goes among those that need no attention. */
const ORDER: Readonly<Record<number, number>> = {
  [v1.MemberState.ACTIVE]: 0,
  [v1.MemberState.SPAWNING]: 1,
  [v1.MemberState.STOPPING]: 2,
  [v1.MemberState.JOINED]: 3,
  [v1.MemberState.IDLE]: 4,
  [v1.MemberState.AWAY]: 5,
  [v1.MemberState.EXITED]: 7,
};

function place(entry: Entry): number {
  if (entry.kind === "member") return ORDER[entry.member.state] ?? 8;
  return entry.kind === "host" && entry.host.state !== v1.MemberState.EXITED ? 6 : 8;
}

/** Returns whether an entry matches the filters: words that must all occur, and a state, `attention` or `hosts`. */
export function matches(entry: Entry, search: string, state: string): boolean {
  if (state === "attention" ? !entry.need : state !== "" && state !== kindOrState(entry)) return false;
  if (search === "") return true;
  const text = textOf(entry).toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function kindOrState(entry: Entry): string {
  return entry.kind === "member" ? stateName(entry.member.state) : `${entry.kind}s`;
}

function textOf(entry: Entry): string {
  const { name, need } = entry;
  if (entry.kind === "order") return `${name} ${need?.reason} ${entry.order.spawn?.profile}`;
  if (entry.kind === "host") {
    const { offer } = entry.host;
    const labels = Object.entries(offer?.labels ?? {}).map(([key, value]) => `${key}=${value}`);
    return [name, offer?.platform, ...labels, ...(offer?.profiles ?? []).map((profile) => profile.name)].join(" ");
  }
  const { attributes, spawnedOn, lastSummary } = entry.member;
  const task = entry.task?.activeForm || entry.task?.subject;
  return [
    name,
    need?.reason,
    attributes?.agentType,
    attributes?.model,
    attributes?.host,
    spawnedOn,
    task,
    lastSummary,
  ].join(" ");
}
