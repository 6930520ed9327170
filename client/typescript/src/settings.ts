/** The options of a client, and what it needs from its platform. */

import type { Interceptor, Transport } from "@connectrpc/connect";

/** TLS settings for `https` addresses. Not available in browsers, which have their own. */
export interface TlsOptions {
  /** The only authorities to trust: a file path or PEM. */
  readonly ca?: string | undefined;
  /** The SHA-256 of the certificate in the coordinator's chain to trust as the only authority. Ignored with a `ca`. */
  readonly fingerprint?: string | undefined;
  /** The client certificate: a file path or PEM. Requires `key`. */
  readonly cert?: string | undefined;
  /** The key of the client certificate: a file path or PEM. */
  readonly key?: string | undefined;
}

/**
 * The credential, the address and other options. In Node, absent ones come from the environment or the context file.
 */
export interface ClientOptions {
  /**
   * `https://HOST:PORT`, `http://HOST:PORT` or, in Node, `unix:///PATH`; or up to 16 that share a store, separated by commas.
   */
  readonly address?: string | undefined;
  readonly credential?: string | undefined;
  /** Filled into every request that names no team. Only an operator needs it. */
  readonly team?: string | undefined;
  readonly tls?: TlsOptions | undefined;
  /** The limit for all attempts of a call together, in milliseconds. Default 600,000; zero makes one attempt. */
  readonly patienceMs?: number | undefined;
}

/** Connects to the coordinators, one connection at a time. */
export interface Route {
  /** The number of the connection, counting up. Modulo the number of addresses, the index of its address. */
  turn: number;
  transport(interceptors: Interceptor[]): Transport;
  /** Returns a route to the same coordinators, over separate connections. */
  clone(): Route;
  /** Closes the connection and every call on it. */
  close(): void;
}

/** The resolved options of a client. */
export interface Settings {
  readonly credential: string;
  readonly team?: string | undefined;
  readonly patienceMs?: number | undefined;
  readonly route: Route;
}
