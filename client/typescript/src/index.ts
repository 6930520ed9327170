/** The TypeScript client of teamwire, for Node and browsers. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { settings } from "#platform";
import { parseJoinString } from "./address.js";
import { Client } from "./client.js";
import type { ClientOptions } from "./settings.js";
import type { MemberAttributesSchema } from "./v1.js";

export { Code } from "@connectrpc/connect";
export type { Client, Shutdown } from "./client.js";
export { TeamwireError } from "./error.js";
export type { Back, FollowOptions, Lost } from "./follow.js";
export {
  type FollowHistoryOptions,
  followHistory,
  type HistoryAdded,
  type HistoryCaughtUp,
  type HistoryEvent,
  type HistoryRewound,
} from "./history.js";
export type { ClientOptions, TlsOptions } from "./settings.js";
export type { End, InboxMessage, Subscription } from "./subscription.js";
export * as v1 from "./v1.js";
export {
  type TeamChanges,
  type TeamEvent,
  type TeamWatch,
  type WatchedItem,
  type WatchedKey,
  watchTeam,
} from "./watch.js";

/**
 * Creates a client from the options, then the environment, then the context file; in a browser, from the options only.
 * Does not connect yet.
 */
export async function connect(options: ClientOptions = {}): Promise<Client> {
  return new Client(await settings(options));
}

/** Options of `join`. */
export interface JoinOptions extends ClientOptions {
  /** The member's attributes. */
  readonly attributes?: MessageInitShape<typeof MemberAttributesSchema>;
}

/**
 * Joins a team with the join string that `teamwire invite` prints, or with a bare join token at the address from the
 * options or the environment. Returns the new member's client. The name is optional if the join token is bound to one.
 */
export function join(joinString: string, name = "", options: JoinOptions = {}): Promise<Client> {
  return joinAs(joinString, { name }, options);
}

/** Joins a team as a host, with the join string that `teamwire invite --host` prints. Otherwise like `join`. */
export function joinHost(joinString: string, name = "", options: JoinOptions = {}): Promise<Client> {
  return joinAs(joinString, { name, host: true }, options);
}

async function joinAs(
  joinString: string,
  as: { readonly name: string; readonly host?: boolean },
  options: JoinOptions,
): Promise<Client> {
  const joining = await settings(options, parseJoinString(joinString));
  const client = new Client(joining);
  try {
    const { credential } = await client.teams.join({ ...as, attributes: options.attributes });
    return new Client({ ...joining, credential });
  } catch (error) {
    await client.close();
    throw error;
  }
}
