/** A member's work in words. The texts come from a repository, so show them with `Text.svelte`. */

import { v1 } from "@teamwire/client";
import { count } from "../format.js";

/** How many paths a sentence names. */
const PATHS_MAX = 5;

/** How many digits of a commit's id are shown. */
const SHORT = 10;

export function shortCommit(commit: string): string {
  return commit.slice(0, SHORT);
}

/** Returns what a member's work is, in a clause: `2 commits on teamwire/backend, 3 files +40 −2, merges into main without conflicts`. */
export function workLine(work: v1.Work): string {
  return [
    `${count(work.ahead, "commit")}${work.branch && ` on ${work.branch}`}`,
    changeLine(work),
    forecastLine(work),
  ].join(", ");
}

/** Returns how much has changed: `3 files +40 −2, 1 file not committed`. */
export function changeLine({ files, insertions, deletions, uncommitted }: v1.Work): string {
  const changed = `${count(files, "file")} +${insertions} −${deletions}`;
  return uncommitted > 0 ? `${changed}, ${count(uncommitted, "file")} not committed` : changed;
}

/** Returns what a merge would do. */
export function forecastLine({ forecast, baseBranch, conflicts, detail }: v1.Work): string {
  const base = baseBranch || "its base";
  switch (forecast) {
    case v1.MergeForecast.CLEAN:
      return `merges into ${base} without conflicts`;
    case v1.MergeForecast.CONFLICTS:
      return `conflicts with ${base} in ${paths(conflicts)}`;
    default:
      return detail || `no forecast for ${base}`;
  }
}

function paths(all: readonly string[]): string {
  const shown = all.slice(0, PATHS_MAX).join(", ");
  const more = all.length - PATHS_MAX;
  return more > 0 ? `${shown} and ${count(more, "more file")}` : shown;
}

/** Returns a number of bytes in megabytes: `3.2`. */
export function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
