/** What the person may do, for buttons. The coordinator decides; this only says so before the person tries. */

import { session } from "../session.svelte.js";
import { team } from "../team.svelte.js";

/** Returns whether the person leads the team now, or is the operator. */
export function isLeading(): boolean {
  const { caller } = session;
  if (!caller || caller.readOnly) return false;
  return caller.kind === "operator" || (caller.kind === "member" && team.team?.lead === caller.member);
}

/** Returns whether the person may write messages. */
export function mayWrite(): boolean {
  const { caller } = session;
  return !!caller && !caller.readOnly && caller.kind !== "observer";
}

/** Returns why the person may not do what only the lead and the operator may. Empty: the person may. */
export function whyNotLead(): string {
  if (isLeading()) return "";
  if (session.caller?.readOnly) return "This sign-in can only read.";
  return `Only the lead${team.team ? `, ${team.team.lead},` : ""} and the operator may do this.`;
}

/** Returns whether the person sees everything of the team: the lead, the operator and observers do. */
export function seesAll(): boolean {
  const { caller } = session;
  return !!caller && (caller.kind !== "member" || team.team?.lead === caller.member);
}

/** Returns whether the person may read what a member's program wrote: the lead, the operator and the member itself may. */
export function mayReadTurns(member: string): boolean {
  const { caller } = session;
  if (caller?.kind === "operator") return true;
  return caller?.kind === "member" && (caller.member === member || team.team?.lead === caller.member);
}
