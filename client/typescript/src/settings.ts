/** What a client needs to be told, and what it asks of the platform that it runs on. */

import type { Interceptor, Transport } from "@connectrpc/connect";

/** Where a coordinator is, unless something else is said: the one on this machine. */
export const ADDRESS_DEFAULT = "http://127.0.0.1:7420";

/** Whom to trust, and what to show: with `https` addresses only, and not in browsers, which choose themselves. */
export interface TlsOptions {
  /** The only authorities to trust: a file's path, or PEM. */
  readonly ca?: string | undefined;
  /** Without a `ca`: the SHA-256 of a certificate in the coordinator's chain, then the only authority to trust. */
  readonly fingerprint?: string | undefined;
  /** The client's certificate: a file's path, or PEM. Goes with `key`. */
  readonly cert?: string | undefined;
  /** The key of the client's certificate: a file's path, or PEM. */
  readonly key?: string | undefined;
}

/** Who calls, and where the coordinator is. What is left out comes from the environment or the context file. */
export interface ClientOptions {
  /** `http://HOST:PORT` or `https://HOST:PORT`, or up to 16 with commas between them, that share a store. */
  readonly address?: string | undefined;
  readonly credential?: string | undefined;
  /** Named in every request that leaves it open. An operator must name one; for anybody else the credential does. */
  readonly team?: string | undefined;
  readonly tls?: TlsOptions | undefined;
  /** How long a call is tried, in milliseconds. 600,000 where not said; zero: once. */
  readonly patienceMs?: number | undefined;
}

/** The way to coordinators: one connection at a time. */
export interface Route {
  /** Which of the addresses it goes to, counted on beyond their number. Another number, another connection. */
  turn: number;
  transport(interceptors: Interceptor[]): Transport;
  /** Ends the connection with all that is under way on it. */
  close(): void;
}

/** What a client is made of. */
export interface Settings {
  readonly credential: string;
  readonly team?: string | undefined;
  readonly patienceMs?: number | undefined;
  readonly route: Route;
}
