/** Unix sockets in Node. */

import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Code } from "@connectrpc/connect";
import { TeamwireError } from "../error.js";

const WRITABLE_BY_OTHERS = 0o022;
const STICKY = 0o1000;

/** Throws if a socket is not this user's or root's, or if others could have put it there. */
export async function refuseForeign(path: string): Promise<void> {
  for (const place of [dirname(path), path]) {
    // Connecting reports a missing one.
    const found = await stat(place).catch(() => undefined);
    if (found === undefined) return;
    const isOurs = found.uid === 0 || found.uid === process.geteuid?.();
    const isShared = found.isDirectory() && (found.mode & WRITABLE_BY_OTHERS) !== 0 && (found.mode & STICKY) === 0;
    if (isOurs && !isShared) continue;
    throw new TeamwireError(
      `${place} belongs to user ${found.uid} or can be changed by others, so nothing is sent to a coordinator there.`,
      Code.Unauthenticated,
      false,
    );
  }
}
