/** What is different in Node: gRPC over HTTP/2, the environment and the context file, and TLS. */

import { Code, ConnectError } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { isTls, type Joining, parseAddresses } from "../address.js";
import { Changes } from "../changes.js";
import type { ClientOptions, Link, Settings } from "../settings.js";
import { identify } from "./context.js";
import { Tls } from "./tls.js";

/** How long a connection may take to be there, or to prove that it still is, in milliseconds. */
const CONNECT_MS = 5_000;

/** Finds a coordinator that has vanished within 30 s. A connection that nobody uses is closed after a minute. */
const KEEPALIVE = { pingIntervalMs: 20_000, pingTimeoutMs: 10_000, idleConnectionTimeoutMs: 60_000 };

export async function settings(options: ClientOptions, joining?: Joining): Promise<Settings> {
  const { tls: tlsOptions, ...found } = await identify(options, joining, process.env);
  const tls = new Tls(tlsOptions);
  // Now, so that what cannot be read is told at once.
  if (isTls(parseAddresses(found.address)[0])) await tls.read();
  return { ...found, dial: (origin) => dial(origin, tls) };
}

async function dial(origin: string, tls: Tls): Promise<Link> {
  const options = isTls(origin) ? { secureContext: await tls.context(origin) } : {};
  const manager = new Http2SessionManager(origin, KEEPALIVE, options);
  return {
    transport: createGrpcTransport({ baseUrl: origin, sessionManager: manager }),
    close: () => manager.abort(new ConnectError("the client is closed", Code.Canceled)),
    async ready(signal) {
      const changes = new Changes();
      let state: string | undefined;
      void manager.connect().then((reached) => {
        state = reached;
        changes.ring();
      });
      await changes.until(() => state !== undefined, CONNECT_MS, signal);
      if (state === "open" || state === "idle") return;
      const error = new ConnectError(`no connection within ${CONNECT_MS} ms`, Code.Unavailable);
      // Others may wait for the same connection, and longer than who was cancelled.
      if (state === undefined && !signal?.aborted) manager.abort(error);
      throw manager.error() ?? error;
    },
  };
}
