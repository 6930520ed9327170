/** What the command palette offers: pages, actions and members. */

import { v1 } from "@teamwire/client";
import { isLeading, mayWrite } from "./lib/rights.js";
import { PAGES, route, type Page, type Params } from "./route.svelte.js";
import { session } from "./session.svelte.js";
import { team } from "./team.svelte.js";

export interface Command {
  /** What it does. Unique. */
  readonly name: string;
  /** What else there is to say about it. */
  readonly note?: string;
  readonly run: () => void;
}

/** Returns what the person may do now, without what concerns single members. `more` is what the frame of the page offers. */
export function actions(more: readonly Command[]): Command[] {
  const { caller } = session;
  if (!caller) return [];
  const all: Command[] = [];
  const [oldest] = team.waitingFor(caller);
  if (oldest) all.push(to("Answer the oldest request", "approvals", { id: oldest.id }, `of ${oldest.member}`));
  if (team.name && mayWrite()) {
    if (isLeading()) {
      all.push(to("Invite a teammate…", "team", { do: "teammate" }), to("Invite a host…", "team", { do: "host" }));
      all.push(to("Spawn a teammate…", "team", { do: "spawn" }));
    }
    all.push(to("New task…", "board", { do: "new" }), to("Write to everyone…", "messages", { to: "*" }));
  }
  if (caller.member) all.push(to("Read my inbox", "messages", { inbox: caller.member }));
  return [...all, ...more];
}

/** Returns the pages of the navigation. */
export function pages(names: Readonly<Record<Page, string>>): Command[] {
  return PAGES.map((page, index) => to(names[page], page, {}, `page, key ${index + 1}`));
}

/** Returns the page of each member and host, and writing to each member that takes messages. */
export function members(): Command[] {
  const order = new Intl.Collator("en", { numeric: true });
  const own = session.caller?.member;
  const all = [...team.members.values()].sort((a, b) => order.compare(a.name, b.name));
  const hosts = [...team.hosts.keys()].sort(order.compare);
  return [
    ...all.map(({ name }) => to(name, "member", { name }, "member")),
    ...hosts.map((name) => to(name, "member", { name }, "host")),
    ...all
      .filter(({ name, state }) => mayWrite() && name !== own && state !== v1.MemberState.EXITED)
      .map(({ name }) => to(`Write to ${name}…`, "messages", { to: name })),
  ];
}

function to(name: string, page: Page, params: Params, note = ""): Command {
  return { name, note, run: () => route.go(page, params) };
}
