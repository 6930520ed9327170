/** The lives of a member: how each began and ended. */

import { v1 } from "@teamwire/client";

/** One life of a member, and what the history has of it. */
export interface Life {
  readonly incarnation: bigint;
  /** The oldest first. */
  readonly events: readonly LifeEvent[];
}

export interface LifeEvent {
  readonly sequence: bigint;
  readonly at: v1.HistoryEntry["at"];
  readonly event: v1.MemberEvent;
}

/** Returns the lives of a member that entries of the history tell of, the latest first. */
export function lives(entries: readonly v1.HistoryEntry[], name: string): Life[] {
  const found = new Map<bigint, LifeEvent[]>();
  for (const { sequence, at, event } of entries) {
    if (event.case !== "member" || event.value.member !== name) continue;
    const events = found.get(event.value.incarnation) ?? [];
    events.push({ sequence, at, event: event.value });
    found.set(event.value.incarnation, events);
  }
  return [...found]
    .map(([incarnation, events]) => ({ incarnation, events }))
    .sort((a, b) => Number(b.incarnation - a.incarnation));
}
