/** What a client needs to be told, and what it asks of the platform that it runs on. */

import type { Transport } from "@connectrpc/connect";

/** Where a coordinator is, unless something else is said: the one on this machine. */
export const ADDRESS_DEFAULT = "http://127.0.0.1:7420";

/** Whom to trust, and what to show. With `https` addresses only, and not in browsers, which have their own ways. */
export interface TlsOptions {
  /** The only authorities to trust: a file's path, or PEM. */
  readonly ca?: string;
  /** Without a `ca`: the SHA-256 of a certificate in the coordinator's chain, then the only authority to trust. */
  readonly fingerprint?: string;
  /** The client's certificate: a file's path, or PEM. Goes with `key`. */
  readonly cert?: string;
  /** The key of the client's certificate: a file's path, or PEM. */
  readonly key?: string;
}

/** Who calls, and where the coordinator is. What is left out comes from the environment or the context file. */
export interface ClientOptions {
  /** `http://HOST:PORT` or `https://HOST:PORT`, or up to 16 with commas between them, that share a store. */
  readonly address?: string;
  readonly credential?: string;
  /** Named in every request that leaves it open. An operator must name one; for anybody else the credential does. */
  readonly team?: string;
  readonly tls?: TlsOptions;
  /** How long a call is tried, in milliseconds. 600,000 where not said; zero: once. */
  readonly patienceMs?: number;
}

/** One way to one coordinator. */
export interface Link {
  readonly transport: Transport;
  /** Sees to it that there is a connection, and throws where there is none: nothing was sent then. */
  ready(signal?: AbortSignal): Promise<void>;
  /** Ends the connection with all that is under way on it. */
  close(): void;
}

/** What a client is made of. */
export interface Settings extends ClientOptions {
  readonly address: string;
  readonly credential: string;
  /** Makes a way to the coordinator at one of the addresses. */
  dial(origin: string): Promise<Link>;
}
