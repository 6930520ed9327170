/** Numbers, times and states in words. */

import { type Duration, durationMs, type Timestamp, timestampDate, timestampMs } from "@bufbuild/protobuf/wkt";
import { v1 } from "@teamwire/client";

/** Returns a time span in its largest unit: `12 s`, `5 min`, `3 h`, `2 d`. */
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1_000));
  if (s < 60) return `${s} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

export function date(at: Timestamp | undefined): Date | undefined {
  return at && timestampDate(at);
}

/** Returns a time in milliseconds. Zero: it is not set. */
export function millis(at: Timestamp | undefined): number {
  return at ? timestampMs(at) : 0;
}

export function ms(duration: Duration | undefined): number {
  return duration ? durationMs(duration) : 0;
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const MONEY = new Intl.NumberFormat("en", { style: "currency", currency: "USD" });

/** Returns a count in few characters: `12.3K`. */
export function compact(count: number | bigint): string {
  return COMPACT.format(count);
}

/** Returns an amount of money, given in millionths of a US dollar. */
export function money(micros: bigint): string {
  return MONEY.format(Number(micros) / 1e6);
}

/** Returns a count with its noun: `1 message`, `3 messages`. */
export function count(n: number | bigint, noun: string): string {
  return `${n} ${noun}${Number(n) === 1 ? "" : "s"}`;
}

/** Returns the state of a member in words. */
export function stateName(state: v1.MemberState): string {
  return (v1.MemberState[state] ?? "unknown").toLowerCase();
}

/** What each state means, in one sentence. */
export const STATE_MEANING: Readonly<Record<number, string>> = {
  [v1.MemberState.JOINED]: "Has joined, and has not opened its inbox in this life.",
  [v1.MemberState.ACTIVE]: "Is working.",
  [v1.MemberState.IDLE]: "Is alive, with nothing to do.",
  [v1.MemberState.STOPPING]: "Is ending: its exit has not been reported yet.",
  [v1.MemberState.EXITED]: "Its process has ended. The name may be joined again.",
  [v1.MemberState.LOST]:
    "Its lease has run out: its machine, its runner or the network is gone. It comes back as soon as it makes a call.",
  [v1.MemberState.AWAY]: "Between commands: a person, or an agent that runs a command now and then.",
  [v1.MemberState.SPAWNING]: "Is ordered from a host, and has not started yet. Its inbox already takes messages.",
};

/** Returns how a process ended, in words. */
export function exitName(exit: v1.ExitReport): string {
  const how =
    exit.signal > 0 ? `signal ${exit.signal}` : exit.code === undefined ? "unknown cause" : `exit code ${exit.code}`;
  return exit.detail ? `${how}: ${exit.detail}` : how;
}
