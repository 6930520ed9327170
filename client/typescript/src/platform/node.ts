/** The Node platform: gRPC over HTTP/2, the environment, the context file, and TLS. */

import type { ClientHttp2Stream } from "node:http2";
import { connect } from "node:net";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { type Addresses, isTls, type Joining, parseAddresses, socketPath } from "../address.js";
import { markUnsent } from "../error.js";
import type { ClientOptions, Route, Settings } from "../settings.js";
import { identify } from "./context.js";
import { refuseForeign } from "./socket.js";
import { Tls } from "./tls.js";

/** How long connecting, or verifying an idle connection, may take, in milliseconds. */
const CONNECT_MS = 5_000;

/** Detects a vanished coordinator within 30 s. Closes an unused connection after a minute. */
const KEEPALIVE = { pingIntervalMs: 20_000, pingTimeoutMs: 10_000, idleConnectionTimeoutMs: 60_000 };

export async function settings(options: ClientOptions, joining?: Joining): Promise<Settings> {
  const { address, tls: tlsOptions, ...who } = await identify(options, joining, process.env);
  const addresses = parseAddresses(address);
  const tls = isTls(addresses[0]) ? new Tls(tlsOptions) : undefined;
  // Read now, so that an unreadable file fails at once.
  await tls?.read();
  return { ...who, route: new Connections(addresses, tls) };
}

/** Connects to one address after the other. Calls on a connection that was left may finish there. */
class Connections implements Route {
  turn: number;
  /** The base URL of requests. The connection determines where they go. */
  readonly authority: string;
  readonly #addresses: Addresses;
  readonly #tls: Tls | undefined;
  readonly #managers = new Set<Http2SessionManager>();
  #current: { readonly turn: number; readonly manager: Promise<Http2SessionManager> } | undefined;

  constructor(addresses: Addresses, tls: Tls | undefined) {
    this.#addresses = addresses;
    this.#tls = tls;
    this.authority = originOf(addresses[0]);
    // Spread clients over the addresses.
    this.turn = Math.floor(Math.random() * addresses.length);
  }

  transport(interceptors: Interceptor[]): Transport {
    return createGrpcTransport({ baseUrl: this.authority, sessionManager: this, interceptors });
  }

  async request(
    ...[method, path, headers, options]: Parameters<Http2SessionManager["request"]>
  ): Promise<ClientHttp2Stream> {
    if (this.#current?.turn !== this.turn) this.#current = { turn: this.turn, manager: this.#dial() };
    const manager = await this.#current.manager;
    await connected(manager);
    // Node would omit the brackets of an IPv6 address.
    return manager.request(method, path, { ":authority": new URL(manager.authority).host, ...headers }, options);
  }

  notifyResponseByteRead(stream: ClientHttp2Stream): void {
    for (const manager of this.#managers) manager.notifyResponseByteRead(stream);
  }

  clone(): Route {
    return new Connections(this.#addresses, this.#tls);
  }

  close(): void {
    for (const manager of this.#managers) manager.abort();
  }

  async #dial(): Promise<Http2SessionManager> {
    const address = this.#addresses[this.turn % this.#addresses.length] ?? this.authority;
    const origin = originOf(address);
    const path = socketPath(address);
    // Now, so that it fails with its own error; and again for every connection that the manager makes.
    if (path !== undefined) refuseForeign(path);
    const secureContext = await this.#tls?.context(origin);
    const options =
      path === undefined ? secureContext && { secureContext } : { createConnection: () => connectOwn(path) };
    const manager = new Http2SessionManager(origin, KEEPALIVE, options);
    for (const earlier of this.#managers) {
      if (earlier.state() === "closed" || earlier.state() === "error") this.#managers.delete(earlier);
    }
    this.#managers.add(manager);
    return manager;
  }
}

function connectOwn(path: string) {
  refuseForeign(path);
  return connect(path);
}

/** Returns the origin that requests name. */
function originOf(address: string): string {
  return socketPath(address) === undefined ? address : "http://localhost";
}

/** Waits until the connection is open. */
function connected(manager: Http2SessionManager): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = new ConnectError(`no connection to ${manager.authority} within ${CONNECT_MS} ms`, Code.Unavailable);
    const timer = setTimeout(() => {
      manager.abort(late);
      reject(markUnsent(late));
    }, CONNECT_MS);
    void manager.connect().then((state) => {
      clearTimeout(timer);
      const { rawMessage, code, cause } = ConnectError.from(manager.error() ?? late);
      const error = new ConnectError(`${manager.authority}: ${rawMessage}`, code, undefined, undefined, cause);
      if (state === "error") reject(markUnsent(error));
      else resolve();
    }, reject);
  });
}
