/** Unix sockets in Node. */

import { lstatSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { markUnsent, TeamwireError } from "../error.js";

const WRITABLE_BY_OTHERS = 0o022;

/** Throws if a socket is not there, if it is not this user's or root's, or if others could have put it there. */
export function refuseForeign(path: string): void {
  for (const place of [dirname(path), path]) {
    let found: Stats;
    try {
      found = lstatSync(place);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw markUnsent(new ConnectError(`no coordinator listens at ${path} (${code})`, Code.Unavailable));
    }
    const isOurs = found.uid === 0 || found.uid === process.geteuid?.();
    const isShared = found.isDirectory() && (found.mode & WRITABLE_BY_OTHERS) !== 0;
    if (isOurs && !isShared && !found.isSymbolicLink()) continue;
    throw new TeamwireError(
      `${place} belongs to user ${found.uid} or can be changed by others, so nothing is sent to a coordinator there.`,
      Code.Unauthenticated,
      false,
    );
  }
}
