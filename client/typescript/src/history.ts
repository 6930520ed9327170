/** Follows the history of a team. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions } from "@connectrpc/connect";
import type { Client } from "./client.js";
import { TeamwireError } from "./error.js";
import { type Back, type FollowOptions, follow, type Lost } from "./follow.js";
import type { HistoryEntry, HistoryFilterSchema } from "./gen/teamwire/v1/history_pb.js";

/** An entry of the history. */
export interface HistoryAdded {
  readonly type: "entry";
  readonly entry: HistoryEntry;
}

/** The program has every entry so far that passes the filter. Comes once for each connection. */
export interface HistoryCaughtUp {
  readonly type: "caughtUp";
  /** The highest sequence so far. */
  readonly lastSequence: bigint;
}

/** The store is older than what the program has seen: it has lost entries, or was restored from an older backup. */
export interface HistoryRewound {
  readonly type: "rewound";
  /** The newest entry that there is. The iteration continues after it. */
  readonly lastSequence: bigint;
}

export type HistoryEvent = HistoryAdded | HistoryCaughtUp | HistoryRewound | Lost | Back;

/** Options of `followHistory`. */
export interface FollowHistoryOptions extends FollowOptions {
  /** Starts after this sequence, such as the `lastSequence` of a page. Default: from the oldest entry. */
  readonly afterSequence?: bigint | undefined;
  /** Which entries. Default: all. */
  readonly filter?: MessageInitShape<typeof HistoryFilterSchema> | undefined;
}

/**
 * Follows the history after a sequence: what is there, and then every new entry, each once and in order. Sends nothing before
 * it is iterated. Reconnects by itself for as long as it takes, and continues after the last entry. The iteration throws a
 * TeamwireError if the team is deleted (`TEAM_NOT_FOUND`) or the credential is not valid, or no longer.
 */
export async function* followHistory(
  client: Client,
  options: FollowHistoryOptions = {},
): AsyncGenerator<HistoryEvent, void, undefined> {
  const { team = "", filter } = options;
  let { afterSequence = 0n } = options;
  let isCurrent = false;
  const open = (call: CallOptions) =>
    client.history.followHistory({ team, afterSequence, ...(filter && { filter }) }, call);
  for (;;) {
    try {
      for await (const event of follow(client, open, options)) {
        if (event.type === "lost") isCurrent = false;
        if (event.type !== "frame") {
          yield event;
          continue;
        }
        const { entry, lastSequence } = event.frame;
        afterSequence = entry?.sequence ?? lastSequence;
        if (entry !== undefined) yield { type: "entry", entry };
        else if (!isCurrent) yield { type: "caughtUp", lastSequence };
        isCurrent ||= entry === undefined;
      }
      return;
    } catch (error) {
      if (!(error instanceof TeamwireError) || error.reason !== "CURSOR_AHEAD") throw error;
      afterSequence = BigInt(error.facts?.last_sequence ?? 0);
      isCurrent = false;
      yield { type: "rewound", lastSequence: afterSequence };
    }
  }
}
