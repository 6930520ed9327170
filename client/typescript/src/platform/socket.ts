/** Unix sockets in Node. */

import { lstatSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { markUnsent, TeamwireError } from "../error.js";

const WRITABLE_BY_OTHERS = 0o022;

/**
 * Throws unless a socket is certainly this user's, root's, or another user's who, except for root, alone could have put it there.
 */
export function refuseForeign(path: string): void {
  const { uid: owner } = stats(path, path);
  const me = process.geteuid?.();
  const isOurs = owner === 0 || owner === me;
  let place = path;
  for (;;) {
    const found = stats(place, path);
    const isOwned = found.uid === 0 || found.uid === (isOurs ? me : owner);
    const isShared = found.isDirectory() && (found.mode & WRITABLE_BY_OTHERS) !== 0;
    if (!isOwned || isShared || found.isSymbolicLink()) {
      throw new TeamwireError(
        `${place} belongs to user ${found.uid} or can be changed by others, so nothing is sent to a coordinator there.`,
        Code.Unauthenticated,
        false,
      );
    }
    const above = dirname(place);
    if (above === place || (isOurs && place !== path)) return;
    place = above;
  }
}

/** Returns what is at a place on the way to a socket. Throws if nothing is. */
function stats(place: string, path: string): Stats {
  try {
    return lstatSync(place);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw markUnsent(new ConnectError(`no coordinator listens at ${path} (${code})`, Code.Unavailable));
  }
}
