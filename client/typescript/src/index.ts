/** The client of teamwire, for Node and browsers. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { settings } from "#platform";
import { parseJoinString } from "./address.js";
import { Client } from "./client.js";
import type { ClientOptions } from "./settings.js";
import type { MemberAttributesSchema } from "./v1.js";

export { Code } from "@connectrpc/connect";
export type { Client } from "./client.js";
export { TeamwireError } from "./error.js";
export type { ClientOptions, TlsOptions } from "./settings.js";
export type { Ending, InboxMessage, Subscription } from "./subscription.js";
export * as v1 from "./v1.js";

/**
 * Makes a client out of what is given, the environment and the context file, in this order; a browser has but the first.
 * Nothing is sent yet.
 */
export async function connect(options: ClientOptions = {}): Promise<Client> {
  return new Client(await settings(options));
}

/** Whom to join as. */
export interface JoinOptions extends ClientOptions {
  /** The name to bear. May be left out when the join token is bound to one. */
  readonly name?: string | undefined;
  /** What the member tells of itself. */
  readonly attributes?: MessageInitShape<typeof MemberAttributesSchema>;
}

/**
 * Becomes a member by the join string that `teamwire invite` prints, or by a bare join token at the address of the
 * environment, and makes a client with the credential of the new life.
 */
export async function join(joinString: string, options: JoinOptions = {}): Promise<Client> {
  const joining = await settings(options, parseJoinString(joinString));
  const client = new Client(joining);
  try {
    const { credential } = await client.teams.join({ name: options.name, attributes: options.attributes });
    return new Client({ ...joining, credential });
  } catch (error) {
    await client.close();
    throw error;
  }
}
